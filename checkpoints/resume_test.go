// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// runSteps trains a small model with dropout and Adam from step `from` to `to` on data that depends on the step alone.
func runSteps(t *testing.T, store *model.Store, from, to int) {
	t.Helper()
	forward := func(scope *model.Scope, x *Node) *Node { // [batch, 3] -> [batch, 2]
		x = activation.Gelu(layers.Dense(scope.In("hidden"), x, true, 7))
		x = norm.LayerNorm(scope.In("norm"), x, -1).Done()
		x = layers.Dropout(scope, x, Scalar(x.Graph(), x.DType(), 0.3))
		return layers.Dense(scope.In("head"), x, true, 2)
	}
	trainer := train.NewTrainer(gomlxtest.Backend(), store, forward, loss.MeanSquaredError, optimizer.Adam().Done(),
		nil, nil)
	for step := from; step < to; step++ {
		x, y := make([]float32, 5*3), make([]float32, 5*2)
		for i := range x {
			x[i] = float32((step*31+i*17)%23)/23 - 0.5
		}
		for i := range y {
			y[i] = float32((step*13+i*7)%11) / 11
		}
		_, err := trainer.TrainStep(train.Batch{
			Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, 5, 3)},
			Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, 5, 2)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// isMetric tells the moving averages of the trainer: their names are random in each process.
func isMetric(path string) bool { return strings.Contains(path, "/metrics") }

func TestATrainingResumedFromACheckpointEqualsAnUnbrokenOneBitForBit(t *testing.T) {
	unbroken := model.NewStore()
	if err := unbroken.SetRNGStateFromSeed(11); err != nil {
		t.Fatal(err)
	}
	runSteps(t, unbroken, 0, 9)

	first := model.NewStore()
	if err := first.SetRNGStateFromSeed(11); err != nil {
		t.Fatal(err)
	}
	runSteps(t, first, 0, 4)
	dir := t.TempDir()
	save(t, Saver{Dir: dir, Omit: isMetric}, first, 4, nil)

	resumed := model.NewStore()
	c, _ := latest(t, dir)
	if err := c.Load(resumed, isMetric); err != nil {
		t.Fatal(err)
	}
	runSteps(t, resumed, 4, 9)
	if err := c.Check(resumed, isMetric); err != nil {
		t.Error(err)
	}
	sameVariables(t, resumed, unbroken, isMetric)
	if moments := resumed.GetVariable("/AdamOptimizer/hidden/dense/weights_1st_moment"); moments == nil {
		t.Error("there are no moments in the store: the test tests too little")
	}
}
