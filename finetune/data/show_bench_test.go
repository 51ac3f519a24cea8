// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import "testing"

// What a recipe costs on the host: one picture of 500×375 pixels, decoded before, to 224×224.
func BenchmarkPicture(b *testing.B) {
	set := noise(1, 375, 500, 3)
	p := &Picture{Height: 375, Width: 500, Pixels: set.Pixels}
	crop := Augment{Size: [2]int{224, 224}, CropScale: [2]float64{0.08, 1}, FlipProb: 0.5, Resample: "bilinear"}
	with := func(change func(*Augment)) Augment {
		a := crop
		change(&a)
		return a
	}
	for _, c := range []struct {
		name string
		a    Augment
	}{
		{"crop and flip", crop},
		{"bicubic", with(func(a *Augment) { a.Resample = "bicubic" })},
		{"rand-m9-mstd0.5-inc1", with(func(a *Augment) { a.Policy = "rand-m9-mstd0.5-inc1" })},
		{"randaug(2,10)", with(func(a *Augment) { a.Policy = "randaug(2,10)" })},
		{"3-augment, jitter", with(func(a *Augment) {
			a.Policy, a.Jitter = "3-augment", [4]float64{0.3, 0.3, 0.3, 0}
		})},
		{"jitter of hue too", with(func(a *Augment) { a.Jitter = [4]float64{0.4, 0.4, 0.4, 0.1} })},
		{"erasing with noise", with(func(a *Augment) { a.EraseProb, a.EraseNoise = 0.25, true })},
	} {
		b.Run(c.name, func(b *testing.B) {
			for k := 0; b.Loop(); k++ {
				c.a.Picture(p, 1, 0, k)
			}
		})
	}
}
