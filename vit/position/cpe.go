// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// cpe is the conditional position encoding of CPVT (https://arxiv.org/abs/2102.10882): after the first block a 3×3
// convolution of every channel by itself is added to the patches x,
//
//	x[r, c] += Σ_ij K[i, j] ∘ x[r+i-1, c+j-1] + bias
//
// Beyond the image x is 0, which is how a patch learns where it is. The prefix is left alone. On another grid the
// kernels stay as they are. K and bias start uniform in ±1/3, as in PyTorch's convolution.
type cpe struct {
	grid            Grid
	kernels, biases []*model.Variable // of each block: [3, 3, width], [width]
}

var _ Follower = (*cpe)(nil)

func newCPE(scope *model.Scope, c Config) Encoder {
	e, blocks, scope := &cpe{grid: c.Grid}, 1, scope.In("cpe")
	readSettings(scope, setting.Internal(setting.Number("cpe_blocks", &blocks, 1, maxSide,
		"the first blocks that have one")))
	for block := range min(blocks, c.Depth) {
		scope, start := scope.At("block_%02d", block), weight.Uniform(1./3)
		e.kernels = append(e.kernels, weight.Float32(scope, "kernel", start, 3, 3, c.Width))
		e.biases = append(e.biases, weight.Float32(scope, "bias", start, c.Width))
	}
	return e
}

// Name implements pos.Encoder.
func (e *cpe) Name() string { return "cpe" }

// After implements Follower.
func (e *cpe) After(x *Node, block int) *Node {
	if block >= len(e.kernels) {
		return nil
	}
	g := x.Graph()
	d := []int{x.Shape().Dim(0), e.grid.Rows, e.grid.Cols, x.Shape().Dim(-1)}
	wide := ConvertDType(Reshape(x, d...), dtypes.Float32) // in 16 bits the gradients of kernel and bias would lose terms
	weights := Reshape(e.kernels[block].NodeValue(g), 9, d[3])
	y := Reshape(e.biases[block].NodeValue(g), 1, 1, 1, d[3])
	for i := range 3 {
		rows := kernel.Shifted(wide, 1, i-1) // [batch, rows, cols, width]
		for j := range 3 {
			w := kernel.Crop(weights, 0, 3*i+j, 3*i+j+1)
			y = Add(y, Mul(kernel.Shifted(rows, 2, j-1), Reshape(w, 1, 1, 1, d[3])))
		}
	}
	return ConvertDType(Reshape(y, x.Shape().Dimensions...), x.DType())
}
