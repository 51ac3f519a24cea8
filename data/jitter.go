// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import "math/rand/v2"

// jitter is torchvision's ColorJitter: brightness, contrast and saturation times a factor of max(0, 1−s) to 1+s, the
// hue turned by up to ±s of the circle, in random order.
func (p *Image) jitter(strength [4]float64, r *rand.Rand) *Image {
	for _, k := range r.Perm(4) {
		s := strength[k]
		if s == 0 {
			continue
		}
		amount := (2*r.Float64() - 1) * s
		if k < 3 {
			least := max(0, 1-s)
			amount = least + r.Float64()*(1+s-least)
		}
		name := [4]string{"Brightness", "Contrast", "Color", "Hue"}[k]
		p = operations[name](p, amount, surroundings{})
	}
	return p
}
