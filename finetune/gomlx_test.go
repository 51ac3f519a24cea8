// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// Every encoding trains in GoMLX's own trainer with the losses of the engine, both from the same seed. Package
// checkpoints reads such models back.
func TestModelFn_TrainsEveryEncodingAsTheEngine(t *testing.T) {
	const steps = 3
	for _, name := range gomlxtest.Encodings(position.Names()) {
		run := tinyRun(t, "warmup_epochs=0;val_fraction=-1;optimizer.layer_decay=0.7;model.position="+name, 31)
		c := begun(t, run)
		m := gomlxtest.Must(newModel(run.Backend, c.Recipe, c.model.Classes, run.Seed))(t)
		opt := c.Trainer.Optimizer
		trainer := train.NewTrainer(run.Backend, m.Store(), m.ModelFn(), loss.SparseCategoricalCrossEntropyLogits, &opt, nil,
			nil)
		set := owned{run.Train.(*data.InMemory), nil} // of a type that cannot be compared
		evaluate := func() float64 { return float64(gomlxtest.Must(m.Evaluate(set))(t).Loss) }
		before := 0.0
		if name == "wepe" {
			before = evaluate()
		}
		next, stop := iter.Pull2(data.Batches(run.Train, c.Recipe.BatchSize, c.Recipe.Augment, run.Seed).Iter())
		for step := range steps {
			advanced(t, c, 1)
			want := gomlxtest.Must(c.Loss())(t)
			batch, err, _ := next()
			gomlxtest.NoError(t, err)
			outputs := gomlxtest.Must(trainer.TrainStep(batch))(t)
			near(t, fmt.Sprintf("%s, step %d", name, step), gomlxtest.Values(t, outputs[0])[0], want, 2e-5*want)
		}
		stop()
		if name == "wepe" {
			var loss float64
			for i, logits := range gomlxtest.Must(m.logitsOf(set.InMemory))(t) {
				loss += (logSumExp(logits) - float64(logits[set.Labels[i]])) / float64(set.Len())
			}
			after := evaluate()
			if near(t, "the loss", after, loss, 1e-5*loss); !(after < before) {
				t.Errorf("the loss is %g before training, then %g", before, after)
			}
		}
		m.Finalize()
	}
}

// owned is a dataset of a user's own type.
type owned struct {
	*data.InMemory
	notes []string
}

// Adapters that GoMLX's trainer trained are in the exported files; the matrices themselves have kept their values.
func TestExport_MergesAdaptersThatGoMLXTrained(t *testing.T) {
	b, store := gomlxtest.Backend(), model.NewStore()
	from, source := pretrained(t, nil)
	scope := store.Scope("/" + modelScope)
	m := gomlxtest.Must(checkpoints.Load(b, scope, from, checkpoints.Options{LoRA: 2, LoRAMLP: true}))(t)
	images := dataset(31, 5)
	augment := source.evalAugment()
	trainer := train.NewTrainer(b, store, m.ModelFn(data.BatchImages), loss.SparseCategoricalCrossEntropyLogits,
		&engine.Optimizer{Schedule: engine.Schedule{Peak: 0.05}}, nil, nil)
	for batch, err := range data.Batches(images, 6, augment, 1).Iter() {
		gomlxtest.NoError(t, err)
		gomlxtest.Must(trainer.TrainStep(batch))(t)
		if trainer.GlobalStep() == 4 {
			break
		}
	}
	input := checkpoints.Noise(m.Config, 3, 7)
	logits := func() []float64 { return pooledAndLogits(t, store, m.Config, input)[1] }
	adapted := logits()
	matrix := store.GetVariable("/vit/block_01/mlp/hidden/weights")
	if !slices.Equal(gomlxtest.Values(t, matrix.MustValue()), source.weights(t, "")["block_01/mlp/hidden/weights"]) {
		t.Error("a matrix with an adapter is trained")
	}
	dir := filepath.Join(t.TempDir(), "out")
	gomlxtest.Must(m.Export(dir, b, checkpoints.ExportOptions{Format: "native"}))(t)
	back, again := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{}))(t), model.NewStore()
	gomlxtest.NoError(t, back.Load(again.Scope("/"+modelScope)))
	exported := pooledAndLogits(t, again, back.Config, input)[1]
	gomlxtest.NearAbs(t, "exported", exported, adapted, 1e-5)
	gomlxtest.NearAbs(t, "after the export", logits(), adapted, 1e-5)
	if plain := pooledAndLogits(t, source.store, m.Config, input)[1]; slices.EqualFunc(plain, adapted,
		func(a, b float64) bool { return math.Abs(a-b) < 1e-3 }) {
		t.Error("the adapters changed nothing")
	}
}
