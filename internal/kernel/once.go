// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import . "github.com/gomlx/gomlx/core/graph"

// Once returns xs as nodes that a compiler computes once. XLA copies cheap operations into every kernel that reads
// them: a long formula with many results has its beginning copied many times.
func Once(xs ...*Node) []*Node {
	if xs[0].Graph().Backend().Name() != "xla" {
		return xs
	}
	return OptimizationBarriers(xs...)
}
