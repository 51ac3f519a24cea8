// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/loss"

	"github.com/wepe-go/wepe/finetune/data"
)

// The programs of a run. Each is compiled once: whatever changes from step to step (rows of the data set, windows,
// learning rate) is input. GoMLX's train.Trainer is not used: it adds metric variables under random names, which would
// end in checkpoints, and takes its batches apart into inputs and labels, where here one plan serves both.

// Inputs of the training programs after the pixels and the plan.
const (
	scalarRate   = iota // learning rate
	scalarFirst         // bias correction of the first moment
	scalarSecond        // bias correction of the second
	scalarEMA           // decay of the average
	numScalars
)

// Paths of the model's variables, and scopes beside it.
const (
	modelScope      = "vit"
	headPath        = "head/"              // below the model's scope
	positionPath    = "position/"          // there, too
	tablePath       = "position/embedding" // the learned positions of "learned" and "hybrid"
	accumulatorRoot = "/accumulated"       // sums of gradients within one optimizer step
	averageRoot     = "/ema"
)

// temporary says which variables need not be saved: they are zero between steps.
func temporary(variable string) bool { return strings.HasPrefix(variable, accumulatorRoot+"/") }

// trainProgram compiles one part of an optimizer step: with apply false it adds the gradients to the accumulators, with
// apply true it also updates the weights. Inputs: pixels, plan, scalars. Outputs: the loss, and with apply the gradient
// norm before clipping.
func trainProgram(m *Model, apply bool) (*model.Exec, error) {
	r := m.Recipe
	return model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		g := inputs[0].Graph()
		scope.Store().SetTraining(g, true)
		pixels, plan, scalars := inputs[0], inputs[1:1+data.PlanLen], inputs[1+data.PlanLen]
		logits := r.logits(scope, r.Augment.Images(pixels, plan))      // [batch, classes]
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

// moved returns the variables of the model that a step changes: what was trained, and the running statistics of batch
// normalisations, which belong to the weights they were gathered with and are averaged like them.
func moved(scope *model.Scope, g *Graph) (vars []*model.Variable) {
	for v := range scope.Store().IterVariables() {
		if strings.HasPrefix(v.Path(), "/"+modelScope+"/") && v.ChangedInGraph(g) {
			vars = append(vars, v)
		}
	}
	return vars
}

// evalProgram compiles the forward pass. Inputs: pixels, plan. Output: logits [batch, classes].
func evalProgram(m *Model) (*model.Exec, error) {
	r := m.Recipe
	augment := m.evalAugment()
	return model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		scope.Store().SetTraining(inputs[0].Graph(), false)
		return []*Node{r.logits(scope, augment.Images(inputs[0], inputs[1:1+data.PlanLen]))}
	})
}
