// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

// Group is the set of processes that make one run together. Each of n computes 1/n of the GradAccumSteps
// micro-batches of a batch; the gradients are summed, every process makes the same optimizer step, and the first writes
// files. Results depend on GradAccumSteps, not on the number of processes.
type Group interface {
	Rank() int // of this process, from 0
	Size() int
	// SumFloat32 replaces values by their sums over the processes, the same bits in each. All call it with equally many
	// values.
	SumFloat32(values []float32) error
	// Gather returns the messages of all processes, by rank.
	Gather(message []byte) ([][]byte, error)
}
