// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import "math/rand/v2"

// draw picks n of some indices, all of them where there are no more.
type draw func(from []int, n int) []int

// permuted draws by the beginnings of permutations.
func permuted(r *rand.Rand) draw {
	return func(from []int, n int) []int {
		picked := make([]int, 0, min(n, len(from)))
		for _, i := range r.Perm(len(from))[:min(n, len(from))] {
			picked = append(picked, from[i])
		}
		return picked
	}
}

// sampled draws n indices of labels, of which at most a share is of objects, the rest of background; less where there
// are less. What is ignored is neither.
func sampled(labels []int, n int, share float64, pick draw) (objects, background []int) {
	var of [2][]int
	for i, label := range labels {
		if label != matchIgnored {
			of[label] = append(of[label], i)
		}
	}
	objects = pick(of[matchObject], min(len(of[matchObject]), int(float64(n)*share)))
	return objects, pick(of[matchNone], min(len(of[matchNone]), n-len(objects)))
}
