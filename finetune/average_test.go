// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"maps"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestTheAverageOfRunsHasTheMeanOfTheirWeights(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, nil)
	imported := func(seed int64, settings string) *checkpoints.Imported {
		run := tinyRun(t, settings, 40)
		run.From, run.Seed, run.Dir = from, seed, t.TempDir()
		done(t, run)
		return gomlxtest.Must(checkpoints.Import(run.Dir, checkpoints.ImportOptions{}))(t)
	}
	a, b, c := imported(1, "epochs=1"), imported(2, "epochs=2;model.drop_path=0.1"), imported(3, "epochs=1")
	want := map[string][]float64{}
	for path := range a.Variables {
		x, y := gomlxtest.Values(t, a.Variables[path]), gomlxtest.Values(t, b.Variables[path])
		for k, z := range gomlxtest.Values(t, c.Variables[path]) {
			want[path] = append(want[path], (x[k]+y[k]+z)/3)
		}
	}
	before := gomlxtest.Values(t, a.Variables["head/weights"])
	if err := Average(a, b, c); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		gomlxtest.Near(t, path, gomlxtest.Values(t, a.Variables[path]), want[path], 1e-7)
	}
	if slices.Equal(gomlxtest.Values(t, a.Variables["head/weights"]), before) {
		t.Error("the runs do not differ")
	}
	refused(t, "another encoding", Average(a, imported(1, "epochs=1;model.position=sincos2d")), "model 2", "architecture")
	head := b.Variables["head/weights"]
	b.Variables["head/weights"] = b.Variables["head/bias"]
	refused(t, "a head of another shape", Average(a, b), "model 2", "no variable head/weights")
	delete(b.Variables, "head/weights")
	refused(t, "no head", Average(a, b), "model 2", "no variable head/weights")
	b.Variables["head/weights"] = head
	b.Labels = slices.Clone(b.Labels)
	b.Labels[0], b.Labels[1] = b.Labels[1], b.Labels[0]
	refused(t, "other classes", Average(a, b), "model 2", "classes")
}

func TestModelsOfOtherScoresAreNotAveraged(t *testing.T) {
	refused(t, "a multi-label model", Average(&checkpoints.Imported{Scores: "softmax"},
		&checkpoints.Imported{Scores: "sigmoid"}), "model 2", "scores")
}
