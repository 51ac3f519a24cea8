// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"math/rand/v2"
)

// erase is random erasing (Zhong et al. 2017, https://arxiv.org/abs/1708.04896): a box of an area uniform in scale
// and a height/width log-uniform between 3/10 and 10/3, ten tries at one that fits, anywhere in the image.
// Torchvision and timm erase after normalisation: a normalised 0 is the mean here, and timm's normal noise is mean +
// std·noise, both rounded to bytes, the noise clipped where bytes end.
func (p *Image) erase(scale [2]float64, noise bool, mean, std [3]float64, r *rand.Rand) {
	for range 10 {
		area := float64(p.Height*p.Width) * (scale[0] + r.Float64()*(scale[1]-scale[0]))
		ratio := math.Exp((2*r.Float64() - 1) * math.Log(10.0/3))
		h, w := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
		if h >= p.Height || w >= p.Width {
			continue
		}
		top, left := r.IntN(p.Height-h+1), r.IntN(p.Width-w+1)
		p.fillBox([4]float32{float32(top), float32(left), float32(top + h), float32(left + w)}, func() (c [3]uint8) {
			for k := range c {
				v := mean[k]
				if noise {
					v += float64(std[k] * r.NormFloat64())
				}
				c[k] = clip8(int(math.Round(255 * v)))
			}
			return c
		})
		return
	}
}
