// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !mpi

package mpi

import "errors"

// World is the processes of an MPI job; without the tag mpi there is none.
type World struct{}

// Start is an error here.
func Start(string) (*World, error) {
	return nil, errors.New("this program was built without MPI: CC=mpicc go build -tags=mpi")
}

// Rank is 0.
func (*World) Rank() int { return 0 }

// Size is 1.
func (*World) Size() int { return 1 }

// Gather returns the message.
func (*World) Gather(message []byte) ([][]byte, error) { return [][]byte{message}, nil }

// SumFloat32 does nothing.
func (*World) SumFloat32([]float32) error { return nil }

// End does nothing.
func (*World) End() {}

// Abort does nothing.
func (*World) Abort(int) {}
