// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import "math"

// blur is Pillow's GaussianBlur, bit for bit (BoxBlur.c of Pillow 9.4): three means over a window of fractional length
// along each axis, whose variances add up to the Gaussian's (Gwosdek et al. 2011).
func (p *Image) blur(sigma float64) {
	const passes = 3
	variance := float32(sigma) * float32(sigma) / passes
	length := float32(math.Sqrt(float64(12*float64(variance)) + 1))
	whole := float32(math.Floor((float64(length) - 1) / 2))
	part := (2*whole + 1) * (float32(whole*(whole+1)) - float32(3*variance))
	part /= 6 * (variance - float32((whole+1)*(whole+1)))
	radius := whole + part
	line := make([]uint8, max(p.Height, p.Width))
	for range passes {
		for i := range 3 * p.Height {
			boxMean(p.Pixels[i/3*3*p.Width+i%3:], 3, p.Width, radius, line)
		}
	}
	for range passes {
		for i := range 3 * p.Width {
			boxMean(p.Pixels[i:], 3*p.Width, p.Height, radius, line)
		}
	}
}

// boxMean replaces n values, step apart, by the means of the 2·radius + 1 around each; the first and the last repeat.
func boxMean(values []uint8, step, n int, radius float32, line []uint8) {
	for i := range n {
		line[i] = values[i*step]
	}
	at := func(i int) uint32 { return uint32(line[min(max(i, 0), n-1)]) }
	reach := int(radius)
	weight := uint32(float32(1<<24) / float32(float32(radius*2)+1))
	end := (1<<24 - uint32(2*reach+1)*weight) / 2 // weight of the two values that are partly inside
	sum := uint32(0)
	for i := -reach; i <= reach; i++ {
		sum += at(i)
	}
	for i := range n {
		values[i*step] = uint8((sum*weight + (at(i-reach-1)+at(i+reach+1))*end + 1<<23) >> 24)
		sum += at(i+reach+1) - at(i-reach)
	}
}
