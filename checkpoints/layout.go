// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"

	"github.com/wepe-go/wepe/vit"
)

// layout is the order of a variable's numbers in foreign files. Ours are [in, out], pixels row by row and channels
// last, heads next to each other in a row:
//
//	              ours (native)        torch (hf, timm)        jax
//	patchKernel   [p·p·channels, out]  [out, channels, p, p]   [p, p, channels, out]
//	matrix        [in, out]            [out, in]               [in, out]
//	vector        [n]                  [n]                     [n]
//	tokens        [n, width]           [1, n, width], or less  [1, n, width]
//	intoHeads     [in, width]          [width, in]             [in, heads, headDim]
//	headsVector   [width]              [width]                 [heads, headDim]
//	outOfHeads    [width, out]         [out, width]            [heads, headDim, out]
//	mixedFreq.    [2, heads, d/2]      [2, depth, heads, d/2]  none
//
// So JAX's order in memory is ours, and torch's needs a transpose.
type layout int

const (
	patchKernel layout = iota
	matrix
	vector
	tokens
	intoHeads
	headsVector
	outOfHeads
	mixedFrequencies
)

// ours returns the shape of the foreign tensor's part of our variable.
func (v named) ours(c vit.Config) []int {
	shape := slices.Clone(v.dims(c))
	if v.halves > 1 {
		shape[0] /= v.halves
	}
	return shape
}

// foreignShape returns the shape of the foreign tensor that contains v; c is the model of the file.
func (v named) foreignShape(format string, c vit.Config) []int {
	ours := v.ours(c)
	switch {
	case format == formatNative:
		return ours
	case v.layout == tokens:
		if v.rank == 0 {
			return append([]int{1}, ours...)
		}
		return ours[len(ours)-v.rank:]
	case v.layout == mixedFrequencies:
		return []int{2, v.parts, ours[1], ours[2]}
	case format == formatJAX:
		heads := []int{c.Heads, c.Width / c.Heads}
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
	case v.layout == patchKernel:
		return []int{c.Width, c.Channels, c.PatchSize, c.PatchSize}
	case v.layout == vector || v.layout == headsVector:
		ours[0] *= v.parts
		return ours
	}
	slices.Reverse(ours)
	ours[0] *= v.parts
	return ours
}

// move copies the numbers of v from its part of the foreign tensor to ours, or back if out is true.
func (v named) move(format string, c vit.Config, foreign, ours []float32, out bool) {
	if v.layout == mixedFrequencies && format != formatNative {
		n := len(ours) / 2
		for k := range 2 {
			at := (k*v.parts + v.part) * n
			copyEither(foreign[at:at+n], ours[k*n:(k+1)*n], out)
		}
		return
	}
	foreign = foreign[v.part*len(ours) : (v.part+1)*len(ours)]
	if format == formatJAX || format == formatNative || v.layout == tokens || v.layout == vector ||
		v.layout == headsVector {
		copyEither(foreign, ours, out)
		return
	}
	first, channels := v.dims(c)[1], 1
	if v.layout == patchKernel {
		channels = c.Channels
	}
	last := len(ours) / first / channels
	if out {
		reverseAxes(ours, foreign, last, channels, first)
		return
	}
	reverseAxes(foreign, ours, first, channels, last)
}

// copyEither copies from foreign to ours, or back if out is true.
func copyEither(foreign, ours []float32, out bool) {
	if out {
		copy(foreign, ours)
		return
	}
	copy(ours, foreign)
}

// reverseAxes transposes from [a, b, c] into to [c, b, a], by squares that fit the cache.
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
