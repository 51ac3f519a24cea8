// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Check compares sums on a backend with float64 sums on the host and returns an error that names the first wrong one.
//
// The sums are those that YNNPACK fusions of XLA's CPU plugin get wrong: over the middle axis of x − iota and of max(1
// − |x − iota|, 0), the weights of RoIAlign, where x [rows, summed, 1] varies and the iota counts the last axis; and
// sums of squares, as in layer normalization. It takes about half a second of CPU time.
func Check(b compute.Backend) error {
	for _, t := range terms {
		if err := checkSums(b, t); err != nil {
			return err
		}
	}
	return nil
}

// term is a function of d = x − iota, as a graph and on the host.
type term struct {
	name  string
	graph func(d *graph.Node) *graph.Node
	host  func(d float64) float64
}

var terms = []term{
	{"x - iota", func(d *graph.Node) *graph.Node { return d }, func(d float64) float64 { return d }},
	{"max(1-|x-iota|, 0)",
		func(d *graph.Node) *graph.Node { return graph.MaxScalar(graph.OneMinus(graph.Abs(d)), 0) },
		func(d float64) float64 { return max(1-math.Abs(d), 0) }},
	{"(x - iota)²", graph.Square, func(d float64) float64 { return d * d }},
}

// checkSums sums a term over the middle axis of arrays [rows, summed, last], all in one program. A fusion reads beyond
// the iota of an earlier one, so the last axis grows.
func checkSums(b compute.Backend, t term) error {
	sizes := []struct{ rows, summed, last int }{{30, 4, 3}, {300, 4, 7}, {70, 5, 9}, {60, 2, 12}, {300, 4, 14},
		{7, 3, 193}}
	var inputs []any
	var flat [][]float32
	for _, s := range sizes {
		x := make([]float32, s.rows*s.summed)
		for i := range x {
			x[i] = float32(i*7919%1009) / 1009 * float32(s.last-1)
		}
		flat = append(flat, x)
		inputs = append(inputs, tensors.FromFlatDataAndDimensions(x, s.rows, s.summed))
	}
	outputs, err := graph.CallOnceN(b, func(inputs []*graph.Node) (sums []*graph.Node) {
		for i, x := range inputs {
			iota := graph.Iota(x.Graph(), shapes.Make(dtypes.Float32, 1, 1, sizes[i].last), 2)
			sums = append(sums, graph.ReduceSum(t.graph(graph.Sub(graph.InsertAxes(x, -1), iota)), 1)) // [rows, last]
		}
		return sums
	}, inputs...)
	if err != nil {
		return err
	}
	for n, s := range sizes {
		got, err := tensors.CopyFlatData[float32](outputs[n])
		if err != nil {
			return err
		}
		for i, value := range got {
			var want float64
			for k := range s.summed {
				want += t.host(float64(flat[n][i/s.last*s.summed+k]) - float64(i%s.last))
			}
			// Each of the terms, at most last², is rounded several times, by 6e-8 of its size.
			if !(math.Abs(float64(value)-want) <= 1e-6*float64(s.summed*s.last*s.last)) {
				return fmt.Errorf("backend: %s computes a sum of %s wrong: [%d, %d] is %g, want %g (shape [%d, %d, %d])",
					b.Name(), t.name, i/s.last, i%s.last, value, want, s.rows, s.summed, s.last)
			}
		}
	}
	return nil
}
