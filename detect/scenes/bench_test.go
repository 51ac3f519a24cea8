// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import "testing"

func BenchmarkScene96(b *testing.B) {
	g := Generated{Count: 1 << 30, Height: 96, Width: 96}
	i := 0
	for b.Loop() {
		if _, err := g.At(i); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkJitter96(b *testing.B) {
	s, err := Generated{Count: 1, Height: 96, Width: 96}.At(0)
	if err != nil {
		b.Fatal(err)
	}
	j, epoch := Jitter{Height: 96, Width: 96, Low: 0.5, High: 2, Flip: 0.5}, 0
	for b.Loop() {
		j.Apply(s, 1, epoch, 0)
		epoch++
	}
}
