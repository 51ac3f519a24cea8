// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build mpi

package mpi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/programtest"
)

// TestSums starts this test binary again as each rank.
func TestMain(m *testing.M) {
	if way := os.Getenv("WEPE_TEST_WAY"); way != "" {
		if err := beRank(way); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beRank sums vectors of several lengths, known to every rank, and compares with addition in rank order.
func beRank(way string) (err error) {
	w, err := Start(way)
	if err != nil {
		return err
	}
	defer w.End()
	if err := survivesNil(); err != nil {
		return err
	}
	for _, n := range []int{0, 1, 2, 7, 1009, stretch + 3} {
		all := make([][]float32, w.Size())
		for rank := range all {
			r := rand.New(rand.NewPCG(uint64(rank), uint64(n)))
			all[rank] = make([]float32, n)
			for i := range all[rank] {
				all[rank][i] = r.Float32() - 0.5
			}
		}
		want, bound := make([]float32, n), make([]float32, n)
		for _, values := range all {
			for i, v := range values {
				want[i] += v
				bound[i] += max(v, -v)
			}
		}
		got := all[w.Rank()]
		begun := time.Now()
		if err := w.SumFloat32(got); err != nil {
			return err
		}
		took, differ := time.Since(begun), 0
		for i := range got {
			if got[i] != want[i] {
				differ++
			}
			// (n-1) roundings of 2⁻²⁴, in either order.
			if d := got[i] - want[i]; max(d, -d) > 2*float32(w.Size()-1)*bound[i]/(1<<24) {
				return fmt.Errorf("rank %d, number %d of %d: %g, want %g", w.Rank(), i, n, got[i], want[i])
			}
		}
		if w.Rank() == 0 {
			fmt.Printf("%s of %d by %d processes: %d differ from the order of ranks, %v\n", way, n, w.Size(), differ, took)
		}
		if differ > 0 && (way == Ordered || w.Size() == 2) {
			return fmt.Errorf("rank %d: %d of %d sums are not those of the order of ranks", w.Rank(), differ, n)
		}
	}
	for _, n := range []int{0, 5, stretch + 1} { // of process 0; the others' are longer
		all, err := w.Gather(bytes.Repeat([]byte{byte(w.Rank())}, n+w.Rank()))
		if err != nil {
			return err
		}
		for rank, message := range all {
			if !bytes.Equal(message, bytes.Repeat([]byte{byte(rank)}, n+rank)) || len(all) != w.Size() {
				return fmt.Errorf("rank %d: %d bytes from process %d of %d, want %d", w.Rank(), len(message), rank, len(all),
					n+rank)
			}
		}
	}
	return nil
}

// survivesNil checks that a nil pointer still causes a panic once MPI runs.
func survivesNil() (err error) {
	err = fmt.Errorf("no panic")
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	var w *job
	w.rank++
	return err
}

func TestSums(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for _, way := range []string{Allreduce, Ordered} {
			rank := exec.Command(os.Args[0])
			rank.Env = append(os.Environ(), "WEPE_TEST_WAY="+way)
			out, err := programtest.Mpirun(t, n, rank).CombinedOutput()
			t.Logf("%s", out)
			is.Equal(t, fmt.Sprintf("%d processes, %s", n, way), err, nil)
		}
	}
}
