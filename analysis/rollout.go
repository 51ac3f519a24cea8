// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Rollout follows attention through all layers (Abnar and Zuidema, https://arxiv.org/abs/2005.00928): heads become one,
// the smallest weights may be dropped, the residual connection is added, and
//
//	a = (A + I)/2, rows divided by their sums;    rollout = a[last] · … · a[first].
//
// Rows of pictures published with vit-explain do not sum to 1: it divides columns by the sums of rows.
type Rollout struct {
	Fuse    string  // how heads become one: "mean" (or ""), "max" or "min"
	Discard float64 // share of all weights of a layer, the smallest, set to 0; never that of the first token to itself
}

// Row returns from·rollout [tokens] of one image: from [tokens] says how much of each token of the last layer the
// answer holds, 1 for the class token or equal parts where tokens are averaged. layers are the weights [heads, tokens,
// tokens] of each layer, the first first.
func (r Rollout) Row(layers [][]float32, heads int, from []float64) ([]float64, error) {
	tokens := len(from)
	row := slices.Clone(from)
	for l := len(layers) - 1; l >= 0; l-- {
		if len(layers[l]) != heads*tokens*tokens || heads < 1 {
			return nil, fmt.Errorf("analysis: layer %d has %d weights, want [%d, %d, %d]", l, len(layers[l]), heads, tokens,
				tokens)
		}
		fused, err := r.fused(layers[l], heads, tokens)
		if err != nil {
			return nil, err
		}
		next := make([]float64, tokens)
		for i, w := range row {
			a := fused[i*tokens : (i+1)*tokens]
			a[i]++
			floats.AddScaled(next, w/floats.Sum(a), a)
		}
		row = next
	}
	return row, nil
}

// fused makes one head of all and drops what is to be dropped.
func (r Rollout) fused(weights []float32, heads, tokens int) ([]float64, error) {
	size := tokens * tokens
	out := make([]float64, size)
	for i := range out {
		out[i] = float64(weights[i])
		for h := 1; h < heads; h++ {
			w := float64(weights[h*size+i])
			switch r.Fuse {
			case "", "mean":
				out[i] += w
			case "max":
				out[i] = max(out[i], w)
			case "min":
				out[i] = min(out[i], w)
			default:
				return nil, fmt.Errorf("analysis: unknown fusion %q of heads: want mean, max or min", r.Fuse)
			}
		}
		if r.Fuse == "" || r.Fuse == "mean" {
			out[i] /= float64(heads)
		}
	}
	if !(r.Discard >= 0 && r.Discard <= 1) {
		return nil, fmt.Errorf("analysis: a share of %g to discard, want 0 to 1", r.Discard)
	}
	if drop := int(float64(size) * r.Discard); drop > 0 {
		order := make([]int, size)
		floats.Argsort(slices.Clone(out), order)
		for _, i := range order[:drop] {
			if i > 0 {
				out[i] = 0
			}
		}
	}
	return out, nil
}

// enlarge brings a map [rows, cols] to [height, width] pixels bilinearly, pixel centres at half-integers and the border
// repeated.
func enlarge(values []float64, rows, cols, height, width int) []float64 {
	axis := func(i, out, in int) (low, high int, part float64) {
		at := min(max((float64(i)+0.5)*float64(in)/float64(out)-0.5, 0), float64(in-1))
		low = int(math.Floor(at))
		return low, min(low+1, in-1), at - float64(low)
	}
	out := make([]float64, 0, height*width)
	for y := range height {
		top, bottom, v := axis(y, height, rows)
		for x := range width {
			left, right, u := axis(x, width, cols)
			out = append(out, (1-v)*((1-u)*values[top*cols+left]+u*values[top*cols+right])+
				v*((1-u)*values[bottom*cols+left]+u*values[bottom*cols+right]))
		}
	}
	return out
}
