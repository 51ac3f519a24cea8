// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

// Order returns the indices that an epoch visits, of a set of n images: the permutation Order(seed, epoch, n), or with
// Repeats its first n/Repeats rows, each that many times in a row with another draw (Hoffer et al. 2020,
// https://arxiv.org/abs/1901.09335, as DeiT's RASampler), so that an epoch is as long as ever. The k-th repetition of a
// row has the index row + k·n: what stands for a row, its remainder by n, and what its draws depend on are one number.
func (a Augment) Order(seed int64, epoch, n int) []int {
	order := Order(seed, epoch, n)
	if a.Repeats < 2 {
		return order
	}
	repeated := make([]int, n)
	for i := range repeated {
		repeated[i] = order[i/a.Repeats] + i%a.Repeats*n
	}
	return repeated
}
