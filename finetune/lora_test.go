// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
)

func TestLoRA_TrainsAsPEFT(t *testing.T) { fixtures.Each(t, testLoRATrainsAsPEFT) }

// The fixture has float64 values of peft: rounding of float32 in five steps is below 1e-5.
func testLoRATrainsAsPEFT(t *testing.T) {
	const set, tol = "lora", 1e-5
	var meta struct {
		Rank, Steps, Classes int
		LearningRate         float64 `json:"learning_rate"`
		Momentum             float64
	}
	fixtures.JSON(t, set, "meta.json", &meta)
	want := fixtures.Tensors(t, set, "tensors.safetensors")
	images := want["levels"]
	shown := &data.InMemory{Info: data.Info{Name: "levels", Height: images.Shape[1], Width: images.Shape[2], Channels: 3}}
	for class := range meta.Classes {
		shown.Classes = append(shown.Classes, fmt.Sprint("class ", class))
	}
	for _, level := range images.Data {
		shown.Pixels = append(shown.Pixels, uint8(level))
	}
	for _, label := range want["labels"].Data {
		shown.Labels = append(shown.Labels, int32(label))
	}
	half := [3]float64{0.5, 0.5, 0.5}
	run := Run{Backend: gomlxtest.Backend(), Train: shown, From: fixtures.Dir(t, set), Dir: t.TempDir(), Recipe: Recipe{
		Name: "adapters", LoRA: meta.Rank, LoRAMLP: true, Epochs: meta.Steps, BatchSize: shown.Len(), ValFraction: -1,
		LearningRate: meta.LearningRate, Optimizer: engine.Optimizer{Name: "sgd", Momentum: meta.Momentum},
		Augment: data.Augment{Mean: half, Std: half},
	}}
	c := begun(t, run)
	for name, x := range want {
		if path, ok := strings.CutPrefix(name, "first/"); ok {
			v := c.model.store.GetVariable("/lora/vit/" + path)
			gomlxtest.NoError(t, v.SetValue(tensors.FromFlatDataAndDimensions(x.Float32(), x.Shape...)))
		}
	}
	backbone := c.model.weights(t, "")
	advanced(t, c, meta.Steps)
	factors := c.model.weights(t, weight.LowRankRoot)
	for path, got := range factors {
		gomlxtest.NearAbs(t, path, got, want["last/"+path].Data, tol)
	}
	wanted := 0
	for name := range want {
		if strings.HasPrefix(name, "last/") {
			wanted++
		}
	}
	equal(t, "factors", len(factors), wanted)
	for path, now := range c.model.weights(t, "") {
		if strings.HasPrefix(path, headPath) == slices.Equal(now, backbone[path]) {
			t.Errorf("%s trains, or the head does not", path)
		}
	}
	shape := want["logits"].Shape
	logits := func(m *Model) [][]float32 { return gomlxtest.Must(m.logitsOf(shown))(t) }
	near := func(what string, got [][]float32) {
		for i, row := range got {
			gomlxtest.NearAbs(t, what, row, want["logits"].Data[i*shape[1]:(i+1)*shape[1]], tol)
		}
	}
	near("while it trains", unmerged(t, c, shown))
	gomlxtest.Must(c.choose())(t)
	near("after the run", logits(c.model))
	dir := filepath.Join(t.TempDir(), "exported")
	gomlxtest.Must(c.model.Export(dir, checkpoints.ExportOptions{}))(t)
	near("exported", logits(gomlxtest.Must(Open(run.Backend, dir))(t)))
}

// unmerged computes the logits as a training step does, with separate adapters.
func unmerged(t *testing.T, c *classification, set *data.InMemory) (logits [][]float32) {
	t.Helper()
	eval := c.model.eval
	defer func() { c.model.eval = eval }()
	augment := c.model.evalAugment()
	var err error
	c.model.eval, err = model.NewExec(c.model.backend, c.model.store, func(scope *model.Scope, in []*Node) []*Node {
		scope.Store().SetTraining(in[0].Graph(), true)
		plan := in[1 : 1+data.PlanLen]
		return []*Node{c.model.logits(scope.In(modelScope), augment.Images(in[0], plan), plan)}
	})
	gomlxtest.NoError(t, err)
	return gomlxtest.Must(c.model.logitsOf(set))(t)
}

func TestLoRA_ResumesOpensAndStartsOthersWithItsSum(t *testing.T) {
	gomlxtest.OnGo(t)
	from, _ := pretrained(t, nil)
	for _, ema := range []string{"0", "0.5"} {
		recipe := gomlxtest.Must(tiny().Set("lora=2;grad_accum_steps=2;ema_decay=" + ema))(t)
		run := saved(t, recipe, 47)
		run.Test, run.From = dataset(9, 2), from
		want := finished(t, run)
		run.Dir = t.TempDir()
		stopped(t, run, 8)
		endsAs(t, "resumed, ema "+ema, run, want)
		opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
		equal(t, "opened, ema "+ema, gomlxtest.Must(opened.Evaluate(run.Test))(t), want.rows.Results[0].Test)
		next := run
		next.From, next.Dir = run.Dir, ""
		next.Recipe.LoRA = 0
		started := begun(t, next).model.weights(t, "")
		if want := opened.weights(t, ""); !maps.EqualFunc(started, want, slices.Equal[[]float64]) {
			t.Errorf("ema %s: a run that starts from it has other weights", ema)
		}
	}
}

func TestLoRA_AdaptsTheAttentionAlone(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t, "lora=1", 30)
	run.From, _ = pretrained(t, nil)
	factors := begun(t, run).model.weights(t, weight.LowRankRoot)
	equal(t, "factors of rank 1, of four matrices in two blocks", len(factors), 2*4*2)
}
