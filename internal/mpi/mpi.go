// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build mpi

package mpi

/*
#include <mpi.h>

// What the standard lets be macros.
static int start(int *provided) { return MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, provided); }
static int return_errors(void) { return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); }
static int rank(int *out) { return MPI_Comm_rank(MPI_COMM_WORLD, out); }
static int size(int *out) { return MPI_Comm_size(MPI_COMM_WORLD, out); }
static int allreduce(float *values, int n) {
	return MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static int alltoall(float *in, float *out, int n) {
	return MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
}
static int allgather(float *in, float *out, int n) {
	return MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
}
static int allgather_sizes(long long *in, long long *out) {
	return MPI_Allgather(in, 1, MPI_LONG_LONG, out, 1, MPI_LONG_LONG, MPI_COMM_WORLD);
}
static int allgather_bytes(void *in, void *out, int n) {
	return MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
}
static void give_up(int status) { MPI_Abort(MPI_COMM_WORLD, status); }
*/
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// job implements World.
type job struct {
	mu         sync.Mutex // MPI_THREAD_SERIALIZED: from any thread, one call at a time
	way        string
	rank, size int
	sent, got  []float32 // buffers of Ordered
}

// Start joins the job, once in the life of a process; way is how SumFloat32 adds.
func Start(way string) (World, error) {
	if err := Validate(way); err != nil {
		return nil, err
	}
	var level, rank, size C.int
	for _, call := range []struct {
		name string
		code C.int
	}{{"MPI_Init_thread", C.start(&level)}, {"MPI_Comm_rank", C.rank(&rank)}, {"MPI_Comm_size", C.size(&size)},
		{"MPI_Comm_set_errhandler", C.return_errors()}} {
		if err := failure(call.name, call.code); err != nil {
			return nil, err
		}
	}
	if level < C.MPI_THREAD_SERIALIZED {
		C.MPI_Finalize()
		return nil, fmt.Errorf("mpi: this MPI serves one thread only (level %d): want MPI_THREAD_SERIALIZED", level)
	}
	return &job{way: way, rank: int(rank), size: int(size)}, nil
}

func (w *job) Rank() int { return w.rank }
func (w *job) Size() int { return w.size }

// stretch is the maximum length of one call: 16 MB, so that Ordered needs little memory, and no count overflows an int.
const stretch = 1 << 22

func (w *job) SumFloat32(values []float32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(values) > 0 {
		n := min(len(values), stretch)
		if err := w.sum(values[:n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

func (w *job) sum(values []float32) error {
	if w.way == Allreduce {
		return failure("MPI_Allreduce", C.allreduce((*C.float)(&values[0]), C.int(len(values))))
	}
	each := (len(values) + w.size - 1) / w.size // the last process may have fewer
	if need := each * w.size; len(w.sent) < need {
		w.sent, w.got = make([]float32, need), make([]float32, need)
	}
	copy(w.sent, values)
	if err := failure("MPI_Alltoall", C.alltoall((*C.float)(&w.sent[0]), (*C.float)(&w.got[0]), C.int(each))); err != nil {
		return err
	}
	own := w.got[:each]
	for rank := 1; rank < w.size; rank++ {
		for i, v := range w.got[rank*each : (rank+1)*each] {
			own[i] += v
		}
	}
	if err := failure("MPI_Allgather", C.allgather((*C.float)(&own[0]), (*C.float)(&w.sent[0]), C.int(each))); err != nil {
		return err
	}
	copy(values, w.sent)
	return nil
}

func (w *job) Gather(message []byte) ([][]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, sizes := C.longlong(len(message)), make([]C.longlong, w.size)
	if err := failure("MPI_Allgather", C.allgather_sizes(&own, &sizes[0])); err != nil {
		return nil, err
	}
	all, longest := make([][]byte, w.size), int(slices.Max(sizes))
	for begin := 0; begin < longest; begin += stretch { // all send as much as the one with the longest message
		n := min(stretch, longest-begin)
		sent, got := make([]byte, n), make([]byte, n*w.size)
		copy(sent, message[min(begin, len(message)):])
		if err := failure("MPI_Allgather", C.allgather_bytes(unsafe.Pointer(&sent[0]), unsafe.Pointer(&got[0]),
			C.int(n))); err != nil {
			return nil, err
		}
		for rank, size := range sizes {
			all[rank] = append(all[rank], got[rank*n:][:max(0, min(n, int(size)-begin))]...)
		}
	}
	return all, nil
}

func (w *job) End()             { C.MPI_Finalize() }
func (w *job) Abort(status int) { C.give_up(C.int(status)) }

// failure returns MPI's message for a code.
func failure(call string, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	var text [C.MPI_MAX_ERROR_STRING]C.char
	var n C.int
	C.MPI_Error_string(code, &text[0], &n)
	return fmt.Errorf("mpi: %s: %s", call, C.GoStringN(&text[0], n))
}
