// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Repeat is x [1, ...] for each image of a batch, [batch, ...] in another type. Its gradient sums over the batch in the
// type of x; autodiff's sums in the type of the result, and 16 bits lose terms of long sums.
func Repeat(x *Node, batch int, dtype dtypes.DType) *Node {
	return withGradient(x, func(x *Node) *Node {
		dims := slices.Clone(x.Shape().Dimensions)
		dims[0] = batch
		return BroadcastToDims(ConvertDType(x, dtype), dims...)
	}, func(x *Node, _ func() *Node, dy *Node) *Node {
		return ReduceAndKeep(ConvertDType(dy, x.DType()), ReduceSum, 0)
	})
}
