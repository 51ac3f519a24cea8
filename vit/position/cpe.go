// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
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
	grid         Grid
	kernel, bias *model.Variable // [3, 3, width], [width]
}

func newCPE(scope *model.Scope, c Config) Encoder {
	scope, start := scope.In("cpe").At("block_00"), weight.Uniform(1./3)
	kernel := weight.Float32(scope, "kernel", start, 3, 3, c.Width)
	return &cpe{c.Grid, kernel, weight.Float32(scope, "bias", start, c.Width)}
}

func (e *cpe) Name() string { return "cpe" }

// After implements Follower.
func (e *cpe) After(x *Node, block int) *Node {
	if block > 0 {
		return nil
	}
	g, d := x.Graph(), x.Shape().Dimensions
	wide := ConvertDType(x, dtypes.Float32) // in 16 bits the gradients of kernel and bias would lose terms
	wide = Reshape(wide, d[0], e.grid.Rows, e.grid.Cols, d[2])
	y := kernel.Depthwise3x3(wide, e.kernel.NodeValue(g), e.bias.NodeValue(g), 1)
	return ConvertDType(Reshape(y, x.Shape().Dimensions...), x.DType())
}
