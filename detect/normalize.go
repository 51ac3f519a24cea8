// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"image"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// normalized returns pixels uint8 [batch, rows, cols, 3] as float32, normalized by mean and deviation; pixels beyond
// the images of sizes [batch, 2] are zero.
func (c Config) normalized(pixels, sizes *Node) *Node {
	g, d := pixels.Graph(), pixels.Shape().Dimensions
	mean, scale := make([]float32, 3*d[2]), make([]float32, 3*d[2]) // of a whole row: a last axis of three is slow
	for i := range mean {
		mean[i], scale[i] = float32(255*c.Mean[i%3]), float32(1/(255*c.Std[i%3]))
	}
	x := ConvertDType(Reshape(pixels, d[0], d[1], -1), dtypes.Float32) // [batch, rows, cols·3]
	x = Mul(Sub(x, Const(g, [][][]float32{{mean}})), Const(g, [][][]float32{{scale}}))
	within := func(axis int, each float64) *Node { // 1 within the image along rows or columns, repeated each times
		positions := Iota(g, shapes.Make(dtypes.Float32, 1, x.Shape().Dim(1+axis)), 1)
		inside := LessThan(positions, MulScalar(SliceAxis(sizes, 1, AxisRange(axis, axis+1)), each))
		return InsertAxes(ConvertDType(inside, dtypes.Float32), 2-axis) // [batch, rows, 1] or [batch, 1, cols·3]
	}
	return Reshape(Mul(x, Mul(within(0, 1), within(1, 3))), d...)
}

// canvas resizes images to fit into rows × cols pixels, keeping their aspect ratio, at the top left: uint8 [batch,
// rows, cols, 3] and their sizes there.
func canvas(images []image.Image, rows, cols int) (pixels *tensors.Tensor, sizes [][2]int, err error) {
	flat := make([]uint8, len(images)*rows*cols*3)
	for i, img := range images {
		if img == nil || img.Bounds().Empty() {
			return nil, nil, fmt.Errorf("detect: image %d has no pixels", i)
		}
		p := data.FromImage(img)
		scale := min(float64(rows)/float64(p.Height), float64(cols)/float64(p.Width))
		fit := func(side int) int { return max(1, int(math.Round(float64(side)*scale))) }
		size := [2]int{fit(p.Height), fit(p.Width)}
		p = p.Resize(size[0], size[1], preprocess.Bilinear)
		for row := range size[0] {
			copy(flat[(i*rows+row)*cols*3:], p.Pixels[row*size[1]*3:(row+1)*size[1]*3])
		}
		sizes = append(sizes, size)
	}
	return tensors.FromFlatDataAndDimensions(flat, len(images), rows, cols, 3), sizes, nil
}

// sizeTensor returns sizes as float32 [batch, 2].
func sizeTensor(sizes [][2]int) *tensors.Tensor {
	var flat []float32
	for _, size := range sizes {
		flat = append(flat, float32(size[0]), float32(size[1]))
	}
	return tensors.FromFlatDataAndDimensions(flat, len(sizes), 2)
}
