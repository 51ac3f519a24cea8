// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"runtime/metrics"
	"testing"
	"time"
)

// The cost of refusing what was made to do harm, in a campaign. Others who use the machine do not count: the fastest of
// a few tries does.
const (
	soon        = 100 * time.Millisecond
	littleBytes = 64 << 20
	tries       = 7
)

// Cost is what f allocates, an upper bound of what it holds at once, and how long it takes.
func Cost(f func()) (bytes uint64, took time.Duration) {
	before, start := allocated(), time.Now()
	f()
	return allocated() - before, time.Since(start)
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
	var took time.Duration
	for range tries {
		if bytes, took = Cost(func() { err = read() }); took <= limit {
			break
		}
	}
	if took > limit || bytes > littleBytes {
		t.Errorf("%v, %d bytes, at most %v and %d: %v", took, bytes, limit, littleBytes, err)
	}
	return bytes, err
}
