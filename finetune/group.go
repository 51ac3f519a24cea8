// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"slices"
)

// Group is the set of processes that make one run together. Each of n computes 1/n of the Recipe.Accumulate
// micro-batches of a batch; the gradients are summed, every process makes the same optimizer step, and the first writes
// files. Results depend on Accumulate, not on the number of processes.
type Group interface {
	Rank() int // of this process, from 0
	Size() int
	// Sum replaces values by their sums over the processes, the same bits in each. All call it with equally many values.
	Sum(values []float32) error
}

// alone is the group of one process.
type alone struct{}

func (alone) Rank() int           { return 0 }
func (alone) Size() int           { return 1 }
func (alone) Sum([]float32) error { return nil }

// share sets what a group requires of a recipe, and refuses a recipe that it cannot share.
func (r Recipe) share(g Group) (Recipe, error) {
	r.Accumulate = cmp.Or(r.Accumulate, g.Size())
	switch {
	case g.Size() == 1:
		return r, nil
	case r.Accumulate%g.Size() != 0:
		return r, fmt.Errorf("finetune: %d processes cannot share %d micro-batches: set accumulate to a multiple of %d",
			g.Size(), r.Accumulate, g.Size())
	case r.Architecture == DHVT:
		return r, fmt.Errorf("finetune: recipe %s normalizes by batches: their running statistics would differ between the "+
			"%d processes of a group: use one process", r.Name, g.Size())
	}
	return r, nil
}

// gather returns the numbers of every process, by rank.
func gather(g Group, said ...float32) ([][]float32, error) {
	all := make([]float32, g.Size()*len(said))
	copy(all[g.Rank()*len(said):], said)
	err := g.Sum(all)
	return slices.Collect(slices.Chunk(all, len(said))), err
}

// anyone reports whether a condition holds in any process, such as a signal, which arrives at different times.
func anyone(g Group, here bool) (bool, error) {
	said := []float32{0}
	if here {
		said[0] = 1
	}
	err := g.Sum(said)
	return said[0] > 0, err
}
