// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"

	"github.com/wepe-go/wepe/vit"
)

// layout says how the numbers of a variable lie in foreign files. Ours are [in, out], pixels row by row and channels
// last, heads next to each other in a row:
//
//	              ours (unfolded)      torch (hf, timm)        jax
//	patchKernel   [p·p·channels, out]  [out, channels, p, p]   [p, p, channels, out]
//	matrix        [in, out]            [out, in]               [in, out]
//	vector        [n]                  [n]                     [n]
//	tokens        [n, width]           [1, n, width]           [1, n, width]
//	intoHeads     [in, width]          [width, in]             [in, heads, headDim]
//	headsVector   [width]              [width]                 [heads, headDim]
//	outOfHeads    [width, out]         [out, width]            [heads, headDim, out]
//
// So JAX's order in memory is ours, and torch's wants a transpose.
type layout int

const (
	patchKernel layout = iota
	matrix
	vector
	tokens
	intoHeads
	headsVector
	outOfHeads
)

// foreignShape returns the shape in the foreign file of the tensor that holds v; c is the model of the file.
func (v named) foreignShape(format string, c vit.Config) []int {
	ours := v.shape(c)
	if format == FormatUnfolded {
		return ours
	}
	if v.layout == tokens {
		return append([]int{1}, ours...)
	}
	heads := []int{c.Heads, c.Width / c.Heads}
	if format == FormatJAX {
		switch v.layout {
		case patchKernel:
			return []int{c.PatchSize, c.PatchSize, c.Channels, c.Width}
		case intoHeads:
			return append([]int{ours[0]}, heads...)
		case headsVector:
			return heads
		case outOfHeads:
			return append(heads, ours[1])
		}
		return ours
	}
	if v.layout == patchKernel {
		return []int{c.Width, c.Channels, c.PatchSize, c.PatchSize}
	}
	theirs := slices.Clone(ours)
	slices.Reverse(theirs)
	theirs[0] *= v.parts
	return theirs
}

// arrange writes the numbers of v, out of those of its foreign tensor, into ours.
func (v named) arrange(format string, c vit.Config, foreign, ours []float32) {
	foreign = foreign[v.part*len(ours) : (v.part+1)*len(ours)]
	switch {
	case v.inOrder(format):
		copy(ours, foreign)
	case v.layout == patchKernel:
		eachPixel(c, func(i, j int) { ours[j] = foreign[i] })
	default:
		shape := v.shape(c)
		transpose(foreign, ours, shape[0], shape[1])
	}
}

// spread is the inverse of arrange: it writes ours into their part of the foreign tensor.
func (v named) spread(format string, c vit.Config, ours, foreign []float32) {
	foreign = foreign[v.part*len(ours) : (v.part+1)*len(ours)]
	switch {
	case v.inOrder(format):
		copy(foreign, ours)
	case v.layout == patchKernel:
		eachPixel(c, func(i, j int) { foreign[i] = ours[j] })
	default:
		shape := v.shape(c)
		transpose(ours, foreign, shape[1], shape[0])
	}
}

// inOrder says whether the numbers of v lie in the same order in the format's file and in ours.
func (v named) inOrder(format string) bool {
	return format == FormatJAX || format == FormatUnfolded || v.layout == tokens || v.layout == vector ||
		v.layout == headsVector
}

// eachPixel goes through a patch kernel: i is a number's place in torch's order, j in ours.
func eachPixel(c vit.Config, visit func(i, j int)) {
	pixels, i := c.PatchSize*c.PatchSize, 0
	for out := range c.Width {
		for channel := range c.Channels {
			for pixel := range pixels {
				visit(i, (pixel*c.Channels+channel)*c.Width+out)
				i++
			}
		}
	}
}

// transpose turns from [out, in] into to [in, out], by squares that fit the cache.
func transpose(from, to []float32, in, out int) {
	const side = 32
	for i := 0; i < in; i += side {
		for o := 0; o < out; o += side {
			for ii := i; ii < min(i+side, in); ii++ {
				for oo := o; oo < min(o+side, out); oo++ {
					to[ii*out+oo] = from[oo*in+ii]
				}
			}
		}
	}
}
