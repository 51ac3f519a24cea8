// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// familyModels are models of every supported class of transformers and timm, by name.
func familyModels(t *testing.T) map[string]string {
	t.Helper()
	models := map[string]string{"jax": filepath.Join(fixtures.Dir(t, "jax_vit_npz"), "model.npz")}
	for _, set := range []string{"hf_vit", "dinov2_tiny", "dinov2_reg_tiny", "dinov3_vit_tiny",
		"dinov3_vit_tiny_swiglu"} {
		models[set] = fixtures.Dir(t, set)
	}
	dir := fixtures.Dir(t, "families")
	entries := gomlxtest.Must(os.ReadDir(dir))(t)
	for _, entry := range entries {
		models[entry.Name()] = filepath.Join(dir, entry.Name())
	}
	return models
}

var squareGrid = checkpoints.Hints{AssumeSquare: true} // for Google's files, which do not contain the grid

// Each is trained with its own encoding and, if it has a table, with WePE blended in by the gate: block, head and gate
// change. Package checkpoints exports them.
func TestFrom_EveryFamilyIsFineTunedAndBlended(t *testing.T) {
	models := familyModels(t)
	for i, name := range slices.Sorted(maps.Keys(models)) {
		if gomlxtest.OnXLA() && i%12 != 0 {
			continue // each compiles for ten seconds
		}
		t.Run(name, func(t *testing.T) {
			path, options := models[name], checkpoints.ImportOptions{Hints: squareGrid}
			options.Classes = 7
			imported := gomlxtest.Must(checkpoints.Import(path, options))(t)
			own := imported.Config.Position
			positions := []string{own}
			if strings.HasPrefix(own, "learned") {
				positions = append(positions, strings.Replace(own, "learned", "hybrid", 1))
			}
			for _, position := range positions {
				fineTuned(t, path, imported, position)
			}
		})
	}
}

func fineTuned(t *testing.T, path string, imported *checkpoints.Imported, position string) {
	t.Helper()
	c := imported.Config
	trainer, _ := started(t, fmt.Sprintf("model.position=%s;augment.size=[%d,%d]", position, c.ImageRows, c.ImageCols),
		Run{From: path, Import: squareGrid})
	before := trainer.model.weights(t, "")
	for variable, value := range imported.Variables {
		if !strings.HasPrefix(variable, headPath) && !strings.HasPrefix(variable, positionPath) &&
			!slices.Equal(before[variable], gomlxtest.Values(t, value)) {
			t.Errorf("%s: %s is not that of the file", position, variable)
		}
	}
	if a := trainer.Recipe.Augment; imported.Mean != nil {
		equal(t, position, [][]float64{a.Mean[:], a.Std[:]}, [][]float64{imported.Mean, imported.Std})
	}
	equal(t, position, trainer.Recipe.Model.Epsilon, c.Epsilon)
	advanced(t, trainer, trainer.Steps)
	after := trainer.model.weights(t, "")
	watched := []string{"head/biases", "patch/weights", "block_00/mlp/output/weights"}
	if position != c.Position {
		watched = append(watched, "position/gate_raw")
	}
	for _, variable := range watched {
		if n := len(after[variable]); n == 0 || slices.Equal(before[variable], after[variable]) {
			t.Errorf("%s: %s is %d numbers, the same after %d steps", position, variable, n, trainer.Steps)
		}
	}
}

func pooledAndLogits(t *testing.T, store *model.Store, c vit.Config, images any) [][]float64 {
	return gomlxtest.RunModel(t, store, func(s *model.Scope, in []*graph.Node) []*graph.Node {
		trace := c.Trace(s.Store().Scope("/"+modelScope), in[0], false)
		return []*graph.Node{trace.Pooled, trace.Logits}
	}, images)
}

func TestDHVT_Learns(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := tiny()
	recipe.Architecture, recipe.Epochs, recipe.EvalEveryEpochs, recipe.Model.Depth = DHVT, 6, 6, 1
	for _, recipe.Model.Position = range gomlxtest.InTurn(1, "none", "wepe") {
		m, row := done(t, Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: dataset(90, 1), Test: dataset(70, 2)})
		if loss, chance := float64(row.Test.Loss), math.Log(7); !(loss < chance/2) {
			t.Errorf("%s: the test loss is %.3f where chance is %.3f", row.Encoding, loss, chance)
		}
		if row.Encoding != recipe.Model.Position || m.store.GetVariable("/vit/block_00/mlp/depthwise/norm/variance") == nil {
			t.Errorf("%s: the model is no DHVT", row.Encoding)
		}
	}
}

func TestDHVT_RefusesWhatIsOfAViT(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := gomlxtest.Must(tiny().Set("architecture=dhvt;model.position=none"))(t)
	run := saved(t, recipe, 47)
	stopped(t, run, 1)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	_, exported := m.Export(filepath.Join(t.TempDir(), "model"), checkpoints.ExportOptions{})
	for _, err := range []error{exported, m.Activations(run.Train, 1, nil, nil)} {
		refused(t, "a DHVT", err, "architecture dhvt")
	}
	start := run
	start.From, start.Dir, start.Recipe.Architecture = run.Dir, "", ""
	refused(t, "a run that starts from it", start.fails(t), "no ViT but a dhvt")
	run.Recipe.Architecture = ""
	equal(t, "another architecture", otherRun(run.fails(t)), "architecture")
	last := filepath.Join(run.Dir, checkpoints.LastDir)
	info := gomlxtest.Must(checkpoints.Inspect(last, checkpoints.ImportOptions{}))(t)
	if info.Refused == "" || info.Config.Width != 12 {
		t.Errorf("Inspect says %q and width %d", info.Refused, info.Config.Width)
	}
}
