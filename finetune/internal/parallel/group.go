// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parallel

// Alone is the group of one process.
type Alone struct{}

// Rank implements engine.Group, as Size, SumFloat32 and Gather do.
func (Alone) Rank() int                               { return 0 }
func (Alone) Size() int                               { return 1 }
func (Alone) SumFloat32([]float32) error              { return nil }
func (Alone) Gather(message []byte) ([][]byte, error) { return [][]byte{message}, nil }

// Any reports whether a condition holds in any process, such as a signal, which arrives at different times.
func Any(g interface{ SumFloat32([]float32) error }, here bool) (bool, error) {
	said := []float32{0}
	if here {
		said[0] = 1
	}
	err := g.SumFloat32(said)
	return said[0] > 0, err
}
