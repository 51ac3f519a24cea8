// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// The programs of a run. Each is compiled once: everything that changes from step to step (rows of the dataset,
// windows, learning rate) is an input. docs/api.md says why GoMLX's train.Trainer does not make these steps.

// program compiles a program for all devices.
func (t *Trainer) program(build func(scope *model.Scope, inputs []*Node) []*Node) (*model.Exec, error) {
	program, err := model.NewExec(t.Backend, t.Store, func(scope *model.Scope, inputs []*Node) []*Node {
		outputs := build(scope, inputs)
		kernel.UpdateInPlace(t.Store, inputs[0].Graph())
		return outputs
	})
	if err == nil {
		t.Devices.Spread(program)
	}
	return program, err
}

// stepProgram compiles one micro-batch of an optimizer step: with apply false it adds the gradients to the
// accumulators, with apply true it also updates the weights. Inputs: those of Task.Losses, scalars. Outputs: the losses
// [n], and with apply the gradient norm before clipping.
func (t *Trainer) stepProgram(apply bool) (*model.Exec, error) {
	return t.program(func(scope *model.Scope, inputs []*Node) []*Node {
		g, last := inputs[0].Graph(), len(inputs)-1
		scope.Store().SetTraining(g, true)
		losses := t.Task.Losses(scope, inputs[:last])
		total := losses[0]
		for _, l := range losses[1:] {
			total = Add(total, l)
		}
		vars := weight.Variables(scope.Store(), func(v *model.Variable) bool { // that the losses depend on
			return v.Trainable && v.InUseByGraph(g) && t.trains(v.Path())
		})
		if len(vars) == 0 {
			exceptions.Panicf("training: no variable is left to train: freeze fewer groups")
		}
		weights := xslices.Map(vars, func(v *model.Variable) *Node { return v.NodeValue(g) })
		grads := Gradient(total, weights...)
		if t.GradAccumSteps > 1 {
			t.accumulate(scope, vars, grads, apply)
		}
		outputs := []*Node{Stack(losses, 0)} // [n]
		if apply {
			outputs = append(outputs, t.Optimizer.apply(scope, vars, grads, ratesOf(inputs[last]), t.Factor))
		}
		return outputs
	})
}

// accumulate adds gradients to their sums over the micro-batches, and returns these sums. The last micro-batch clears
// the sums for the next step.
func (t *Trainer) accumulate(scope *model.Scope, vars []*model.Variable, grads []*Node, last bool) {
	for i, v := range vars {
		sum := companion(scope, accumulatorRoot, v)
		total := Add(sum.NodeValue(grads[i]), MulScalar(grads[i], 1/float64(t.GradAccumSteps)))
		if last {
			sum.SetNodeValue(ZerosLike(total))
		} else {
			sum.SetNodeValue(total)
		}
		grads[i] = total
	}
}

// sumsProgram compiles an optimizer step on the accumulators, which a group has summed. Input: scalars. Output: the
// gradient norm before clipping.
func (t *Trainer) sumsProgram() (*model.Exec, error) {
	return t.program(func(scope *model.Scope, inputs []*Node) []*Node {
		scalars := inputs[0]
		var vars []*model.Variable
		var grads []*Node
		for _, sum := range accumulators(scope.Store()) {
			vars = append(vars, scope.Store().GetVariable(strings.TrimPrefix(sum.Path(), accumulatorRoot)))
			grads = append(grads, sum.NodeValue(scalars))
			sum.SetNodeValue(ZerosLike(sum.NodeValue(scalars)))
		}
		return []*Node{t.Optimizer.apply(scope, vars, grads, ratesOf(scalars), t.Factor)}
	})
}

// parameters is the number of the network's parameters, frozen ones too but without adapters, once a program has used
// them.
func (t *Trainer) parameters() (n int) {
	for v := range t.Store.IterVariables() {
		if strings.HasPrefix(v.Path(), t.Network+"/") && v.Trainable {
			n += v.Shape().Size()
		}
	}
	return n
}
