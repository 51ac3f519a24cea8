// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

const layerNormDelta = 1e-5 // torch's LayerNorm default, which the release keeps

// dense maps [n, inputs] to [n, outputs]. As layerNorm, it holds its variables, so that it can be applied more than
// once in a graph, and builds in one dtype, float32 by default, whatever the model's.
type dense struct{ weights, biases *model.Variable }

func newDense(scope *model.Scope, dtype dtypes.DType, weights weight.Fill, inputs, outputs int) dense {
	scope = scope.In(scopeDense)
	return dense{
		weights: weight.Variable(scope, "weights", dtype, weights, inputs, outputs),
		biases:  weight.Variable(scope, "biases", dtype, weight.Constant(0), outputs),
	}
}

func (d dense) apply(x *Node) *Node {
	return Add(MatMul(x, d.weights.NodeValue(x.Graph())), row(d.biases, x.Graph()))
}

// layerNorm normalises each row of [n, width].
type layerNorm struct{ gain, offset *model.Variable }

func newLayerNorm(scope *model.Scope, dtype dtypes.DType, width int) layerNorm {
	scope = scope.In(scopeNorm)
	return layerNorm{
		gain:   weight.Variable(scope, "gain", dtype, weight.Constant(1), width),
		offset: weight.Variable(scope, "offset", dtype, weight.Constant(0), width),
	}
}

func (n layerNorm) apply(x *Node) *Node {
	x = Sub(x, ReduceAndKeep(x, ReduceMean, -1))
	variance := ReduceAndKeep(Square(x), ReduceMean, -1)
	x = Mul(x, Inverse(Sqrt(AddScalar(variance, layerNormDelta)))) // one division per row
	return Add(Mul(x, row(n.gain, x.Graph())), row(n.offset, x.Graph()))
}

// denseNorm is a dense layer followed by LayerNorm.
type denseNorm struct {
	dense
	layerNorm
}

func newDenseNorm(scope *model.Scope, dtype dtypes.DType, weights weight.Fill, inputs, outputs int) denseNorm {
	return denseNorm{newDense(scope, dtype, weights, inputs, outputs), newLayerNorm(scope, dtype, outputs)}
}

func (d denseNorm) apply(x *Node) *Node { return d.layerNorm.apply(d.dense.apply(x)) }

// row is a vector as [1, n], against which rows broadcast.
func row(v *model.Variable, g *Graph) *Node { return InsertAxes(v.NodeValue(g), 0) }
