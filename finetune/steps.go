// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/finetune/data"
)

// The programs of a run. Each is compiled once: whatever changes from step to step (rows of the data set, windows,
// learning rate) is input. GoMLX's train.Trainer is not used: it adds metric variables under random names, which would
// end in checkpoints, and takes its batches apart into inputs and labels, where here one plan serves both.

// trainProgram compiles one part of an optimizer step: with apply false it adds the gradients to the accumulators, with
// apply true it also updates the weights. Inputs: pixels, plan, scalars. Outputs: the loss, and with apply the gradient
// norm before clipping.
func trainProgram(m *Model, apply bool) (*model.Exec, error) {
	r := m.Recipe
	return model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		g := inputs[0].Graph()
		scope.Store().SetTraining(g, true)
		pixels, plan, scalars := inputs[0], inputs[1:1+data.PlanLen], inputs[1+data.PlanLen]
		logits := m.build(scope, r.Augment.Images(pixels, plan))       // [batch, classes]
		targets := data.SoftLabels(plan, r.Model.Classes, r.Smoothing) // [batch, classes]
		l := ReduceAllMean(loss.CategoricalCrossEntropyLogits([]*Node{targets}, []*Node{logits}))

		vars := r.trainable(scope, g)
		weights := make([]*Node, len(vars))
		for i, v := range vars {
			weights[i] = v.NodeValue(g)
		}
		grads := Gradient(l, weights...)
		if r.Accumulate > 1 {
			for i, v := range vars {
				sum := companion(scope, accumulatorRoot, v)
				total := Add(sum.NodeValue(g), MulScalar(grads[i], 1/float64(r.Accumulate)))
				if apply {
					sum.SetNodeValue(ZerosLike(total))
				} else {
					sum.SetNodeValue(total)
				}
				grads[i] = total
			}
		}
		if !apply {
			return []*Node{l}
		}
		norm := r.Optimizer.update(scope, r.Model.Depth, vars, grads, scalars)
		if r.EMA > 0 {
			// GoMLX keeps no moving averages while training; it can take the mean of whole checkpoints.
			decay := Reshape(Gather(scalars, Const(g, []int64{scalarEMA}))) // scalar
			for _, v := range moved(scope, g) {
				average := companion(scope, averageRoot, v)
				old := average.NodeValue(g)
				average.SetNodeValue(Add(Mul(old, decay), Mul(v.NodeValue(g), OneMinus(decay))))
			}
		}
		return []*Node{l, norm}
	})
}

// trainable returns the variables that the loss reaches and the recipe does not freeze, by path. The order of the store
// is that of creation, another one after a resume, and the gradient norm is a sum whose last bit depends on the order.
func (r Recipe) trainable(scope *model.Scope, g *Graph) []*model.Variable {
	var vars []*model.Variable
	for v := range scope.Store().IterVariables() {
		if v.Trainable && v.InUseByGraph(g) && r.trains(v.Path()) {
			vars = append(vars, v)
		}
	}
	if len(vars) == 0 {
		exceptions.Panicf("finetune: freeze is %q: nothing is left to train", r.Freeze)
	}
	slices.SortFunc(vars, func(a, b *model.Variable) int { return cmp.Compare(a.Path(), b.Path()) })
	return vars
}

// moved returns the variables of the model that a step changes: what was trained, and the running statistics of batch
// normalisations, which belong to the weights they were gathered with and are averaged like them.
func moved(scope *model.Scope, g *Graph) (vars []*model.Variable) {
	for v := range scope.Store().IterVariables() {
		if inNetwork(v.Path()) && v.ChangedInGraph(g) {
			vars = append(vars, v)
		}
	}
	return vars
}
