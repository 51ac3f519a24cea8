// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"
	"slices"
)

// FLOPs are floating-point operations for one picture of the trained size in a forward pass of training: two for each
// multiply-add of the matrix products, as vit.Config.FLOPs has them. Position encodings are left out.
type FLOPs struct {
	Backbone, Pyramid, RPN float64
	Boxes, Masks           float64 // of the sampled proposals, with reading them out of the maps
}

// Step is a step of training: a pass that proposes, and one with its gradient that costs three times as much.
func (f FLOPs) Step() float64 {
	seen := f.Backbone + f.Pyramid + f.RPN
	return seen + 3*(seen+f.Boxes+f.Masks)
}

// FLOPs counts c's.
func (c Config) FLOPs() (f FLOPs) {
	c = c.WithDefaults()
	b, channels, conv := c.Backbone, c.Channels, func(in, out int) int { return 9 * in * out }
	width, patches, w := b.Width, b.Rows()*b.Cols(), b.windows()
	mlp := 2 * b.MLPDim
	if b.SwiGLU {
		mlp = 3 * b.MLPDim
	}
	count := patches * b.PatchSize * b.PatchSize * b.Channels * width
	for i := range b.Depth {
		sets, rows, cols := w.down()*w.across(), w.side, w.side
		if slices.Contains(b.Global, i) {
			sets, rows, cols = 1, b.Rows(), b.Cols()
		}
		tokens := rows * cols
		count += sets*tokens*4*width*width + 2*sets*tokens*tokens*width + patches*mlp*width
		if b.Relative {
			count += sets * tokens * (rows + cols) * width
		}
		if slices.Contains(b.Residual, i) {
			count += patches * (width*width + conv(width/2, width/2))
		}
	}
	f.Backbone = 2 * float64(count)

	var cells []int // of the maps
	var sides [][2]int
	half := [2]int{b.Rows() / 2, b.Cols() / 2}
	for _, side := range [][2]int{{4 * b.Rows(), 4 * b.Cols()}, {2 * b.Rows(), 2 * b.Cols()}, {b.Rows(), b.Cols()}, half,
		{(half[0] + 1) / 2, (half[1] + 1) / 2}} {
		sides, cells = append(sides, side), append(cells, side[0]*side[1])
	}
	count = patches * (2*width*width + 2*width*width + 2*width*width) // both doublings of one map, and that of another
	for i, in := range []int{width / 4, width / 2, width, width} {
		count += cells[i] * (in*channels + conv(channels, channels))
	}
	f.Pyramid = 2 * float64(count)

	count = 0
	for _, n := range cells {
		count += n * (c.RPN.Convs*conv(channels, channels) + 5*len(c.RPN.Ratios)*channels)
	}
	f.RPN = 2 * float64(count)

	l := c.ROI.levels(c.strides()[:pooledLevels], math.Sqrt(float64(b.ImageRows*b.ImageCols)))
	pooled := func(size int) (n int) { // of one box
		for _, side := range sides[:l.last-l.first+1] {
			n += size*side[0]*side[1]*channels + size*size*side[1]*channels
		}
		return n
	}
	convs := func(size int, widths []int) (n, last int) {
		last = channels
		for _, out := range widths {
			n, last = n+size*size*conv(last, out), out
		}
		return n, last
	}
	size, classes := c.ROI.Size, b.Classes
	each, in := convs(size, c.ROI.Convs)
	in *= size * size
	for _, out := range c.ROI.Dense {
		each, in = each+in*out, out
	}
	boxes := classes
	if c.ROI.agnostic() {
		boxes = 1
	}
	each += in*(classes+1+4*boxes) + pooled(size)
	f.Boxes = 2 * float64(len(c.ROI.Stages)) * float64(c.ROI.Samples) * float64(each)

	if !c.ROI.NoMasks {
		size := c.ROI.MaskSize
		each, last := convs(size, c.ROI.Masks)
		each += size*size*(4*last*last+4*last*classes) + pooled(size)
		f.Masks = 2 * float64(c.ROI.masked()) * float64(each)
	}
	return f
}
