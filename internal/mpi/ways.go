// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package mpi connects the processes that mpirun, srun or an MPI operator starts, by the MPI calls that training needs.
// It is built with the tag mpi and an MPI compiler (tested with Open MPI):
//
//	CC=mpicc go build -tags=mpi -o bin/ ./cmd/wepe
//
// Without the tag, Start returns an error.
package mpi

import (
	"fmt"
	"slices"
	"strings"
)

// World is the processes of an MPI job, an engine.Group.
type World interface {
	Rank() int // of this process, from 0
	Size() int
	SumFloat32(values []float32) error       // replaces values by their sums; all call it with equally many
	Gather(message []byte) ([][]byte, error) // the messages of all processes, by rank
	End()                                    // leaves the job; all processes call it
	Abort(status int)                        // ends all processes: the others would wait for a failed one
}

// Ways to sum. Addition of floating-point numbers depends on its order.
const (
	// Allreduce is MPI_Allreduce: optimized for the network, in an unspecified order. For two processes the sum equals
	// Ordered, as a+b is b+a.
	Allreduce = "allreduce"
	// Ordered adds in the order of the ranks, ((a₀+a₁)+a₂)+…, like one process that computes all micro-batches. Each
	// process adds one stretch of the numbers: MPI_Alltoall, additions, MPI_Allgather. Each sends 2(n-1)/n of the numbers,
	// as in the best MPI_Allreduce.
	Ordered = "ordered"
)

var ways = []string{Allreduce, Ordered}

// Validate refuses other ways to sum.
func Validate(way string) error {
	if !slices.Contains(ways, way) {
		return fmt.Errorf("unknown order of sums %q: want %s", way, strings.Join(ways, " or "))
	}
	return nil
}
