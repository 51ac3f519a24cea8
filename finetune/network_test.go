// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A detector's "from" is a text, a classifier's an object.
func TestStateOf_RefusesADetector(t *testing.T) {
	_, err := stateOf(&checkpoints.Checkpoint{Meta: []byte(`{"recipe":{"detector":{}},"from":"a1"}`)})
	refused(t, "a detector", err, "of a detector")
}

func TestDHVT_LearnsAndOpens(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := tiny()
	recipe.Architecture, recipe.Epochs, recipe.EvalEveryEpochs, recipe.Model.Depth = DHVT, 6, 6, 1
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

func TestDHVT_RefusesWhatIsOfAViT(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := gomlxtest.Must(tiny().Set("architecture=dhvt;model.position=none"))(t)
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(47, 1), Dir: t.TempDir()}
	stopped(t, run, 1)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	_, exported := m.Export(filepath.Join(t.TempDir(), "model"), checkpoints.ExportOptions{})
	for _, err := range []error{exported, m.Activations(run.Train, 1, nil, nil)} {
		refused(t, "a DHVT", err, "architecture dhvt")
	}
	start := run
	start.From, start.Dir, start.Recipe.Architecture = run.Dir, "", ""
	_, _, err := start.Do(t.Context())
	refused(t, "a run that starts from it", err, "no ViT but a dhvt")
	run.Recipe.Architecture = ""
	_, _, err = run.Do(t.Context())
	if differ := (*engine.OtherRunError)(nil); !errors.As(err, &differ) || differ.Field != "architecture" {
		t.Errorf("another architecture: %v", err)
	}
	last := filepath.Join(run.Dir, checkpoints.LastDir)
	info := gomlxtest.Must(checkpoints.Inspect(last, checkpoints.ImportOptions{}))(t)
	if len(info.Notes) != 1 || info.Config.Width != 12 {
		t.Errorf("Inspect says %q and width %d", info.Notes, info.Config.Width)
	}
}
