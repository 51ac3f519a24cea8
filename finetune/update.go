// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// Inputs of the training programs after the pixels and the plan.
const (
	scalarRate   = iota // learning rate
	scalarFirst         // bias correction of the first moment
	scalarSecond        // bias correction of the second
	scalarEMA           // decay of the average
	numScalars
)

// scalars are the numbers of step t (from 0) that the graph takes as input [3]: the learning rate and the two bias
// corrections. Computed here in float64, so that the graph holds no counters and every step runs the same program.
func (o Optimizer) scalars(learningRate float64, t int) []float32 {
	return []float32{
		float32(learningRate),
		float32(1 / (1 - math.Pow(o.Beta1, float64(t+1)))),
		float32(1 / (1 - math.Pow(o.Beta2, float64(t+1)))),
	}
}

// companion returns the float32 variable that belongs to v under another root: its moment, its average.
func companion(scope *model.Scope, root string, v *model.Variable) *model.Variable {
	return scope.Store().Scope(model.JoinPath(root, v.Scope())).WithInitializer(initializer.Zero).
		VariableWithShape(v.Name(), v.Shape()).SetTrainable(false)
}

// update builds one optimizer step on vars, of a model of the given depth, and returns the global gradient norm before
// clipping.
func (o Optimizer) update(scope *model.Scope, depth int, vars []*model.Variable, grads []*Node, scalars *Node,
) (norm *Node) {
	g := scalars.Graph()
	number := func(i int64) *Node { return Reshape(Gather(scalars, Const(g, []int64{i}))) } // scalar
	rate, fix1, fix2 := number(scalarRate), number(scalarFirst), number(scalarSecond)

	sum := ScalarZero(g, dtypes.Float32)
	for _, grad := range grads {
		sum = Add(sum, ReduceAllSum(Square(ConvertDType(grad, dtypes.Float32))))
	}
	norm = Sqrt(sum)
	if o.ClipNorm > 0 {
		scale := MinScalar(Div(Scalar(g, dtypes.Float32, o.ClipNorm), AddScalar(norm, 1e-6)), 1)
		for i := range grads {
			grads[i] = Mul(grads[i], scale)
		}
	}
	for i, v := range vars {
		w := v.NodeValue(g)
		var step *Node
		if o.Kind == SGD {
			momentum := companion(scope, "/sgd/momentum", v)
			step = Add(MulScalar(momentum.NodeValue(g), o.Momentum), grads[i])
			momentum.SetNodeValue(step)
		} else {
			first, second := companion(scope, "/adamw/first", v), companion(scope, "/adamw/second", v)
			m := Add(MulScalar(first.NodeValue(g), o.Beta1), MulScalar(grads[i], 1-o.Beta1))
			s := Add(MulScalar(second.NodeValue(g), o.Beta2), MulScalar(Square(grads[i]), 1-o.Beta2))
			step = Div(Mul(m, fix1), AddScalar(Sqrt(Mul(s, fix2)), o.Epsilon))
			first.SetNodeValue(m)
			second.SetNodeValue(s)
		}
		if _, decays := GroupOf(v.Path()); (decays || o.DecayAll) && o.WeightDecay > 0 {
			step = Add(step, MulScalar(w, o.WeightDecay))
		}
		lr := rate
		if factor := o.factor(v.Path(), depth); factor != 1 {
			lr = MulScalar(rate, factor)
		}
		v.SetNodeValue(Sub(w, Mul(step, lr)))
	}
	return norm
}
