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

// move copies the numbers of v from its part of the foreign tensor to ours, or back if out is true.
func (v named) move(format string, c vit.Config, foreign, ours []float32, out bool) {
	foreign = foreign[v.part*len(ours) : (v.part+1)*len(ours)]
	from, to := foreign, ours
	if out {
		from, to = to, from
	}
	if format == FormatJAX || format == FormatUnfolded || v.layout == tokens || v.layout == vector ||
		v.layout == headsVector {
		copy(to, from)
		return
	}
	first, channels := v.shape(c)[1], 1
	if v.layout == patchKernel {
		channels = c.Channels
	}
	last := len(ours) / first / channels
	if out {
		first, last = last, first
	}
	reverseAxes(from, to, first, channels, last)
}

// reverseAxes turns from [a, b, c] into to [c, b, a], by squares that fit the cache.
func reverseAxes(from, to []float32, a, b, c int) {
	const side = 32
	for j := range b {
		for i := 0; i < a; i += side {
			for k := 0; k < c; k += side {
				for kk := k; kk < min(k+side, c); kk++ {
					for ii := i; ii < min(i+side, a); ii++ {
						to[(kk*b+j)*a+ii] = from[(ii*b+j)*c+kk]
					}
				}
			}
		}
	}
}
