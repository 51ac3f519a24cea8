// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/backend"
)

func ExampleOpen() {
	b := must.M1(backend.Open()) // or backend.Open(backend.Config("xla:cpu"), backend.Devices(2))
	defer b.Finalize()
	sum := graph.MustExecOnce(b, func(x *graph.Node) *graph.Node { return graph.ReduceAllSum(x) }, []float32{1, 2, 3})
	fmt.Println(sum.Value())
	// Output: 6
}
