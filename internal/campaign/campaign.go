// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package campaign scales tests. What an ordinary run of the tests does some hundred times, a campaign does as often as
// docs/reliability.md promises: tools/campaign sets the environment and collects what the tests log.
package campaign

import (
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"
)

// The environment of a campaign.
const (
	Variable     = "WEPE_CAMPAIGN"       // "1": whole, else short
	SeedVariable = "WEPE_CAMPAIGN_SEED"  // added to the seeds of the tests, 0 if unset
	Limit        = "WEPE_CAMPAIGN_LIMIT" // a duration, after which a test may end short of what is promised
	Logged       = "campaign: "          // begins what Did logs
	Stopped      = Logged + "stopped"    // logged where it did
)

// Whole says whether tests are to do all that is promised.
func Whole() bool { return os.Getenv(Variable) == "1" }

// Rand is the generator of a test: the same in every run, another one for each seed of a campaign.
func Rand(test uint64) *rand.Rand {
	seed, _ := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64)
	return rand.New(rand.NewPCG(test, seed))
}

// Did logs how often a test did what.
func Did(t testing.TB, n int, what string) {
	t.Helper()
	t.Logf("%s%d %s", Logged, n, what)
}

// Times counts from 0 to short, or in a campaign to whole, and logs how far a test came.
func Times(t testing.TB, short, whole int, what string) iter.Seq[int] {
	return times(t, short, whole, what, 1)
}

// began is when the tests of this process did.
var began = time.Now()

// times is Times until a share of the limit has passed.
func times(t testing.TB, short, whole int, what string, share float64) iter.Seq[int] {
	n := short
	if Whole() {
		n = whole
	}
	limit, err := time.ParseDuration(os.Getenv(Limit))
	limit = time.Duration(share * float64(limit))
	return func(yield func(int) bool) {
		done := 0
		defer func() { Did(t, done, what) }()
		for i := range n {
			if err == nil && time.Since(began) > limit {
				t.Log(Stopped)
				return
			}
			if !yield(i) {
				return
			}
			done++
		}
	}
}

// Numbers of random mutations that Fuzz makes of the seeds of a target.
const (
	shortMutations = 1_000
	wholeMutations = 5_000_000
)

// slow is longer than any reader may take for a mutated file, on a busy machine.
const slow = 20 * time.Second

// Fuzz is f.Add and f.Fuzz of a target with one argument. Where the Go tool is not asked to search (-fuzz), the
// property is held against random mutations of the seeds: without the counters of a search that is many times faster.
func Fuzz[T ~string | ~[]byte](f *testing.F, seeds []T, property func(t *testing.T, raw T)) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	if search := flag.Lookup("test.fuzz"); search.Value.String() != "" {
		f.Fuzz(property)
		return
	}
	rng := Rand(uint64(len(seeds)))
	corpus, _ := os.ReadDir(filepath.Join("testdata", "fuzz", f.Name())) // what the Go tool adds to them
	of, at := len(seeds)+len(corpus), 0
	f.Fuzz(func(t *testing.T, raw T) {
		try(t, raw, property)
		at++
		for range times(t, shortMutations/of+1, wholeMutations/of+1, "executions", float64(at)/float64(of)) {
			try(t, T(Mutate(rng, []byte(raw), []byte(seeds[rng.IntN(len(seeds))]))), property)
		}
	})
}

// try runs a property and says with which input it failed.
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

// Mutate returns raw with bits flipped, bytes replaced, cut, spliced with other, a part left out or repeated, or with
// some digits changed: by one, or into a number near a power of two.
func Mutate(rng *rand.Rand, raw, other []byte) []byte {
	raw = append(make([]byte, 0, len(raw)+len(other)+64), raw...)
	if len(raw) == 0 {
		return append(raw, other...)
	}
	at := rng.IntN(len(raw))
	to := min(len(raw), at+1+rng.IntN(1+min(len(raw)-at, 64)))
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
		raw = append(raw[:at], raw[to:]...)
	case 6:
		raw = append(raw[:to], append([]byte(nil), raw[at:]...)...)
	case 7:
		for range 1000 {
			if i := rng.IntN(len(raw)); raw[i] >= '0' && raw[i] <= '9' {
				raw[i] = '0' + byte(rng.IntN(10))
				break
			}
		}
	case 8:
		for first, b := range raw[at:] {
			if b >= '0' && b <= '9' {
				number := strconv.AppendUint(nil, 1<<rng.IntN(64)-uint64(rng.IntN(2)), 10)
				rest := append([]byte(nil), raw[at+first+1:]...)
				return append(append(raw[:at+first], number...), rest...)
			}
		}
	}
	return raw
}

// Leaks does something many times and sees that neither goroutines nor open files are left of it.
func Leaks(t testing.TB, short, whole int, what string, once func(i int)) {
	t.Helper()
	once(0) // what is made once and kept
	before := open()
	for i := range Times(t, short, whole, what) {
		once(i)
	}
	after := open()
	for deadline := time.Now().Add(20 * time.Second); after != before && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // goroutines that are told to end need not have
		if after = open(); after.goroutines <= before.goroutines && after.files <= before.files {
			return
		}
	}
	if after.goroutines > before.goroutines || after.files > before.files {
		stacks := make([]byte, 1<<16)
		t.Errorf("%v, before %v\n%s", after, before, stacks[:runtime.Stack(stacks, true)])
	}
}

// resources are what a process can leak.
type resources struct{ goroutines, files int }

func (r resources) String() string {
	return fmt.Sprintf("%d goroutines, %d files", r.goroutines, r.files)
}

func open() resources {
	entries, _ := os.ReadDir("/proc/self/fd") // none on systems that have no such directory
	return resources{runtime.NumGoroutine(), len(entries)}
}
