// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A detector's "from" is a text, a classifier's an object.
func TestACheckpointOfADetectorIsNamed(t *testing.T) {
	_, err := stateOf(&checkpoints.Checkpoint{Meta: []byte(`{"recipe":{"detector":{}},"from":"a1"}`)})
	refused(t, "a detector", err, "of a detector")
}

func TestADHVTLearnsAndOpens(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := tiny()
	recipe.Architecture, recipe.Epochs, recipe.EvalEpochs, recipe.Model.Depth = DHVT, 6, 6, 1
	for _, recipe.Model.Position = range gomlxtest.InTurn(1, "none", "wepe") {
		run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(90, 1), Test: dataset(70, 2),
			Dir: t.TempDir()}
		_, row := done(t, run)
		if loss, chance := float64(row.Test.Loss), math.Log(7); !(loss < chance/2) {
			t.Errorf("%s: the test loss is %.3f where chance is %.3f", row.Encoding, loss, chance)
		}
		m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		if got, err := m.Evaluate(run.Test); err != nil || got != row.Test {
			t.Errorf("%s: the opened model evaluates to %+v, %v, want %+v", row.Encoding, got, err, row.Test)
		}
		if m.Recipe.Architecture != DHVT || row.Encoding != recipe.Model.Position ||
			m.store.GetVariable("/vit/block_00/mlp/depthwise/norm/variance") == nil {
			t.Errorf("%s: the opened model is no DHVT", row.Encoding)
		}
	}
}

func TestADHVTRefusesOptionsOfAViT(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := gomlxtest.Must(tiny().Set("architecture=dhvt;model.position=none"))(t)
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(47, 1), Dir: t.TempDir()}
	stopped(t, run, 1)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	_, exported := m.Export(filepath.Join(t.TempDir(), "model"), checkpoints.ExportOptions{})
	got := map[string]error{"architecture dhvt: only a ViT can be folded and exported": exported,
		"only a ViT shows what happens inside": m.Look(run.Train, 1, nil, nil)}
	for want, change := range map[string]func(*Run){
		"architecture dhvt: only a ViT starts from a pretrained model": func(r *Run) { r.From = run.Dir },
		"its model is no ViT but a dhvt": func(r *Run) {
			r.From, r.Recipe.Architecture = run.Dir, ""
		},
		`its architecture is "dhvt"`: func(r *Run) {
			r.Recipe.Architecture, r.Dir = "", run.Dir
		},
		`unknown architecture "cnn": want "dhvt"`:                   func(r *Run) { r.Recipe.Architecture = "cnn" },
		`"learned" does not fit this model: want one of none, wepe`: func(r *Run) { r.Recipe.Model.Position = "learned" },
	} {
		other := run
		other.Dir = ""
		change(&other)
		_, _, got[want] = other.Do(t.Context())
	}
	for want, err := range got {
		refused(t, "a DHVT", err, want)
	}
	last := filepath.Join(run.Dir, checkpoints.LastDir)
	info := gomlxtest.Must(checkpoints.Inspect(last, checkpoints.ImportOptions{}))(t)
	if want := "its model is no ViT but a dhvt of these sizes"; len(info.Notes) != 1 ||
		!strings.Contains(info.Notes[0], want) || info.Config.Width != 12 {
		t.Errorf("Inspect says %q and width %d, want %q", info.Notes, info.Config.Width, want)
	}
}
