// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build mpi

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/programtest"
)

// MPI_Allreduce may add three values in any order, not always that of the ranks.
func TestMpirun_TrainsTheWeightsOfOne(t *testing.T) {
	data := images(t, "mpi", 13, 16, 24)
	jobs := map[int][]string{2: {"allreduce", "ordered"}, 3: {"ordered"}}
	if strings.HasPrefix(onBackend, "xla") { // each process compiles for seconds
		jobs = map[int][]string{2: {"allreduce"}}
	}
	for n, ways := range jobs {
		run := filepath.Join(t.TempDir(), "run")
		ends(t, everything(data, run, n)...)
		want, step := lastVariables(t, run)
		for _, way := range ways {
			run := filepath.Join(t.TempDir(), "run")
			command := programtest.Command(t, append(everything(data, run, n), "--mpi", way)...)
			e := programtest.Finish(t, programtest.Mpirun(t, n, command))
			is.Equal(t, e.Stderr, e.Code, 0)
			if got, at := lastVariables(t, run); at != step || string(got) != string(want) {
				t.Errorf("%d processes, %s: after step %d of %d the weights are not those of one", n, way, at, step)
			}
			is.Equal(t, "processes that print the result", strings.Count(e.Stdout, "report "), 1)
		}
	}
}

// The directory is in use: the writing process cannot start, and the other would wait for it.
func TestMpirun_AFailureEndsTheOthers(t *testing.T) {
	data, run := images(t, "mpi", 13, 16, 24), filepath.Join(t.TempDir(), "run")
	unlock := gomlxtest.Must(checkpoints.Lock(run))(t)
	defer func() { _ = unlock() }()
	e := programtest.Finish(t, programtest.Mpirun(t, 2, programtest.Command(t, append(everything(data, run, 2), "--mpi",
		"allreduce")...)))
	is.Equal(t, "exit code", e.Code, 75)
	is.Said(t, "the complaint", e.Stderr, "wepe train: process 0 of 2: ", "in use by another process")
}
