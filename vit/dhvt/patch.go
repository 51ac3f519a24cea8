// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"fmt"
	"math/bits"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// sope is the sequential overlapping patch embedding: images [batch, rows, cols, channels] -> [N, batch, width].
//
// Each 3×3 convolution of stride 2 halves the map and is followed by a batch normalization; GELU lies between them, and
// after the only one of patch size 2, as in the original.
func (c Config) sope(scope *model.Scope, images *Node, see watch) *Node {
	d := images.Shape().Dimensions
	if len(d) != 4 || d[1] != c.ImageRows || d[2] != c.ImageCols || d[3] != c.Channels {
		exceptions.Panicf("dhvt: images are %s, want [batch, %d, %d, %d]", images.Shape(), c.ImageRows, c.ImageCols,
			c.Channels)
	}
	rows, cols := c.ImageRows, c.ImageCols
	x := TransposeAllAxes(Reshape(images, d[0], rows*cols, d[3]), 1, 0, 2) // [rows·cols, batch, channels]
	x = affine(scope.In("pre_affine"), x)
	see("patch_embed.pre_affine", x)
	widths := c.convWidths()
	for i, out := range widths {
		conv := scope.In("conv_%d", i)
		in := x.Shape().Dim(-1)
		w := weight.Float32(conv, "weights", c.initScheme().conv(9*in, 9*out), 3, 3, in, out).NodeValue(x.Graph())
		x = Einsum("knbi,kio->nbo", windows(x, rows, cols), Reshape(w, 9, in, out)) // [rows/2·cols/2, batch, out]
		x = batchNorm(conv.In("norm"), x)
		see(fmt.Sprintf("patch_embed.proj.%d", 2*i), x)
		if i+1 < len(widths) || len(widths) == 1 {
			x = activation.Gelu(x)
		}
		rows, cols = rows/2, cols/2
	}
	x = affine(scope.In("post_affine"), x)
	see("patch_embed.post_affine", x)
	return x
}

// windows returns the 3×3 windows around every second cell of every second row of x: [9, rows/2·cols/2, batch,
// channels] of [rows·cols, batch, channels], the nine row by row, zero outside the map. Rows and cols are even.
func windows(x *Node, rows, cols int) *Node {
	index := make([][][]int64, 9)
	for k := range index {
		for row := 0; row < rows; row += 2 {
			for col := 0; col < cols; col += 2 {
				at := []int64{int64((row+k/3-1)*cols + col + k%3 - 1)}
				if row+k/3 == 0 || col+k%3 == 0 {
					at[0] = int64(rows * cols) // the zero cell behind x
				}
				index[k] = append(index[k], at)
			}
		}
	}
	return Gather(kernel.ZeroPad(x, 0, 0, 1), Const(x.Graph(), index))
}

// convWidths lists the channels after each convolution: width/8, /4, /2 and width for patch size 16.
func (c Config) convWidths() []int {
	n := bits.Len(uint(c.PatchSize)) - 1
	widths := make([]int, n)
	for i := range widths {
		widths[i] = c.Width >> (n - 1 - i)
	}
	return widths
}

// affine scales and shifts each channel.
func affine(scope *model.Scope, x *Node) *Node {
	gain, offset := gainAndOffset(scope, x)
	return Add(Mul(x, gain), offset)
}
