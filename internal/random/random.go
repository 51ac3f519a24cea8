// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package random has generators that are pure functions of a purpose, a seed, an epoch and an index.
package random

import "math/rand/v2"

// Draw returns a random generator for a named purpose, a pure function of its four arguments.
func Draw(purpose string, seed int64, epoch, index int) *rand.Rand {
	h := uint64(1)
	for _, c := range []byte(purpose) {
		h = finalise(h ^ uint64(c)<<32)
	}
	return New(h, seed, epoch, index)
}

// New returns the generator of one purpose, epoch and index. Neighbouring arguments give unrelated streams: each is
// folded in by SplitMix64's finaliser (Steele, Lea and Flood 2014), a bijection that flips half of the bits.
func New(stream uint64, seed int64, epoch, index int) *rand.Rand {
	h := stream
	for _, v := range []uint64{uint64(seed), uint64(epoch), uint64(index)} {
		h = finalise(h ^ finalise(v))
	}
	return rand.New(rand.NewPCG(h, finalise(h)))
}

func finalise(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
