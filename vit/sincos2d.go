// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"

	"github.com/gomlx/gomlx/support/exceptions"
)

// SinCos2D returns the fixed two-dimensional table of MAE (https://arxiv.org/abs/2111.06377, its released code),
// float32 [prefix+rows·cols, width], prefix rows zero. With d = width/4, w_j = 10000^(-j/d) and j = 0 … d-1, the row of
// the patch at (row, col) is
//
//	[ sin(col·w_j) | cos(col·w_j) | sin(row·w_j) | cos(row·w_j) ]
//
// The column comes first: MAE's code names that half "emb_h", but feeds it the column. big_vision divides by d-1
// instead of d in the exponent, timm puts the row first.
func SinCos2D(rows, cols, prefix, width int) []float32 {
	if width%4 != 0 {
		exceptions.Panicf("vit: sincos2d needs a width that divides by 4, got %d", width)
	}
	d := width / 4
	table := make([]float32, (prefix+rows*cols)*width)
	for k := range rows * cols {
		row, col := float64(k/cols), float64(k%cols)
		out := table[(prefix+k)*width:]
		for j := range d {
			w := math.Pow(10000, -float64(j)/float64(d))
			out[j], out[d+j] = float32(math.Sin(col*w)), float32(math.Cos(col*w))
			out[2*d+j], out[3*d+j] = float32(math.Sin(row*w)), float32(math.Cos(row*w))
		}
	}
	return table
}
