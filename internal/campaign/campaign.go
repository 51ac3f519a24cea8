// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package campaign scales randomized tests: WEPE_TIMES=1000 multiplies their number of trials, and WEPE_SEED=1 gives
// them other random numbers (docs/evidence/reliability.md).
package campaign

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"
)

func setting(name string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return byDefault
}

// Times is n multiplied by WEPE_TIMES.
func Times(n int) int { return n * setting("WEPE_TIMES", 1) }

// Rand is the generator of a test: the same in every run, a different one for each WEPE_SEED.
func Rand(test uint64) *rand.Rand {
	return rand.New(rand.NewPCG(test, uint64(setting("WEPE_SEED", 0))))
}

const (
	mutations   = 1_000            // by Fuzz, of the seeds of a target
	slow        = 20 * time.Second // maximum time to read any file, on a busy machine
	littleBytes = 64 << 20         // maximum allocation for a malformed file
)

// Fuzz is f.Add and f.Fuzz of a target with one argument. Without -fuzz, the property is tested on random mutations of
// the seeds: without the coverage counters of a search this is many times faster.
func Fuzz[T ~string | ~[]byte](f *testing.F, seeds []T, property func(t *testing.T, raw T)) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	if flag.Lookup("test.fuzz").Value.String() != "" {
		f.Fuzz(property)
		return
	}
	rng := Rand(uint64(len(seeds)))
	f.Fuzz(func(t *testing.T, raw T) {
		try(t, raw, property)
		for range Times(mutations)/len(seeds) + 1 {
			try(t, T(Mutate(rng, []byte(raw), []byte(seeds[rng.IntN(len(seeds))]))), property)
		}
	})
}

// try tests a property and prints the input with which it failed.
func try[T ~string | ~[]byte](t *testing.T, raw T, property func(t *testing.T, raw T)) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if took := time.Since(start); took > slow {
			t.Errorf("took %v", took)
		}
		if t.Failed() {
			t.Fatalf("with %.2000q", []byte(raw))
		}
	}()
	property(t, raw)
}

// Mutate returns raw with bits flipped, bytes replaced, cut, spliced with other, a part removed or repeated, or with
// some digits changed: by one, or to a number near a power of two.
func Mutate(rng *rand.Rand, raw, other []byte) []byte {
	raw = append(make([]byte, 0, len(raw)+len(other)+64), raw...)
	if len(raw) == 0 {
		return append(raw, other...)
	}
	at := rng.IntN(len(raw))
	to := min(len(raw), at+1+rng.IntN(1+min(len(raw)-at, 64)))
	isDigit := func(b byte) bool { return b >= '0' && b <= '9' }
	switch rng.IntN(9) {
	case 0:
		raw[at] ^= 1 << rng.IntN(8)
	case 1:
		for range 1 + rng.IntN(10) {
			raw[rng.IntN(len(raw))] = byte(rng.Uint32())
		}
	case 2:
		raw = raw[:at]
	case 3:
		raw = append(raw, other[:rng.IntN(len(other)+1)]...)
	case 4:
		raw = append(raw[:at], other[rng.IntN(len(other)+1):]...)
	case 5:
		raw = slices.Delete(raw, at, to)
	case 6:
		raw = slices.Insert(raw, to, slices.Clone(raw[at:to])...)
	case 7:
		for range 1000 {
			if i := rng.IntN(len(raw)); isDigit(raw[i]) {
				raw[i] = '0' + byte(rng.IntN(10))
				break
			}
		}
	case 8:
		if first := slices.IndexFunc(raw[at:], isDigit); first >= 0 {
			number := strconv.AppendUint(nil, 1<<rng.IntN(64)-uint64(rng.IntN(2)), 10)
			raw = slices.Replace(raw, at+first, at+first+1, number...)
		}
	}
	return raw
}

// Leaks calls once n times (Times) and fails if goroutines or open files remain.
func Leaks(t testing.TB, n int, once func(i int)) {
	t.Helper()
	once(0) // creates what is cached
	goroutines, files := open()
	for i := range Times(n) {
		once(i)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		g, f := open() // goroutines need some time to end
		if g <= goroutines && f <= files {
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines and %d files, before %d and %d\n%s", g, f, goroutines, files,
				stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// open returns the numbers of goroutines and of open files, 0 on systems without /proc.
func open() (goroutines, files int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(entries)
}

// Cost returns the bytes that f allocates, an upper bound of its memory, and its duration.
func Cost(f func()) (bytes uint64, took time.Duration) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, start := sample[0].Value.Uint64(), time.Now()
	f()
	took = time.Since(start)
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before, took
}

// Malformed reads a malformed file and fails if that takes long or more than 64 MiB. It returns the bytes allocated by
// the reader and its error.
func Malformed(t testing.TB, read func() error) (bytes uint64, err error) {
	t.Helper()
	bytes, took := Cost(func() { err = read() })
	if bytes > 1<<18 { // goroutines of earlier tests may have allocated meanwhile
		again, _ := Cost(func() { err = read() })
		bytes = min(bytes, again)
	}
	if took > slow || bytes > littleBytes {
		t.Errorf("%v, %d bytes, want at most %v and %d: %v", took, bytes, slow, littleBytes, err)
	}
	return bytes, err
}
