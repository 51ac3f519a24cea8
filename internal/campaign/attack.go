// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"runtime/metrics"
	"testing"
	"time"
)

// The cost of refusing what was made to do harm, in a campaign.
const (
	soon        = 100 * time.Millisecond
	littleBytes = 64 << 20
)

// Cost is what f allocates, an upper bound of what it holds at once, and how long it takes.
func Cost(f func()) (bytes uint64, took time.Duration) {
	before, start := allocated(), time.Now()
	f()
	return allocated() - before, time.Since(start)
}

// Fastest is the Cost of the first call within a time, or of the last of seven: others who use the machine, too, do not
// count.
func Fastest(within time.Duration, f func()) (bytes uint64, took time.Duration) {
	for range 7 {
		if bytes, took = Cost(f); took <= within {
			break
		}
	}
	return bytes, took
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Attack logs an attack of a kind, by what reads it, and holds it to 64 MiB and, in a campaign, to a tenth of a second.
// It returns the error of the reader and what it allocated.
func Attack(t testing.TB, kind string, read func() error) (bytes uint64, err error) {
	t.Helper()
	Did(t, 1, "attacks by "+kind)
	limit := slow
	if Whole() {
		limit = soon
	}
	bytes, took := Fastest(limit, func() { err = read() })
	if took > limit || bytes > littleBytes {
		t.Errorf("%v, %d bytes, at most %v and %d: %v", took, bytes, limit, littleBytes, err)
	}
	return bytes, err
}
