// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// noise is a set of random pixels with unequal prime sides.
func noise(n, height, width, channels int) *Set {
	r := rand.New(rand.NewPCG(7, 11))
	s := &Set{Name: "noise", Height: height, Width: width, Channels: channels, Classes: []string{"a", "b", "c"}}
	for i := range n {
		s.Labels = append(s.Labels, int32(i%3))
	}
	for range n * height * width * channels {
		s.Pixels = append(s.Pixels, uint8(r.UintN(256)))
	}
	return s
}

func inputs(pixels *tensors.Tensor, plan *Plan) []any {
	in := []any{pixels}
	for _, t := range plan.Tensors() {
		in = append(in, t)
	}
	return in
}

// images runs the graph of one plan.
func images(t testing.TB, a Augment, set *Set, plan *Plan) []float64 {
	return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{a.Images(in[0], in[1:])}
	}, inputs(set.Tensor(), plan)...)[0]
}

func rowsOf(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = (3*i + 1) % n
	}
	return rows
}

// pixel reads the image as float64 with black outside.
func pixel(set *Set, row, i, j, c int) float64 {
	if i < 0 || j < 0 || i >= set.Height || j >= set.Width {
		return 0
	}
	return float64(set.Image(row)[(i*set.Width+j)*set.Channels+c])
}

func TestImages(t *testing.T) {
	set := noise(17, 7, 5, 3)
	rows := rowsOf(11)

	t.Run("zero_value_is_pixels_over_255", func(t *testing.T) {
		got := images(t, Augment{}, set, Augment{}.Plan(set, 1, 0, 0, rows))
		var want []float64
		for _, row := range rows {
			for _, v := range set.Image(row) {
				want = append(want, float64(float32(v)*float32(1./255)))
			}
		}
		gomlxtest.Near(t, "images", got, want, 0)
	})
	_ = math.Pi
}
