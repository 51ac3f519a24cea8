// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package rows

import (
	"slices"
	"testing"
)

func TestStepsAreRelativeToTheLearnedTable(t *testing.T) {
	table := Steps([]Row{
		{Call: "training", Model: "Ti/16", Batch: 10, Position: "wepe", Peer: "learned", Ours: 0.02, Ratio: 1.5,
			PeakOurs: 6},
		{Call: "training", Model: "Ti/16", Batch: 10, Position: "learned", Peer: "jax", Ours: 0.02, Theirs: 0.04, Ratio: 0.5,
			PeakOurs: 3, PeakTheirs: 7},
		{Call: "training", Model: "Ti/16", Batch: 10, Position: "wepe", Peer: "learned", Ours: 0.025, Theirs: 0.02,
			Ratio: 1.25, PeakOurs: 5, PeakTheirs: 3},
	})
	want := [][]string{{"wepe", "1.25…1.50", "400…500", "5…6"}, {"jax", "2.00", "250", "7"}}
	if !slices.EqualFunc(table.Rows, want, slices.Equal[[]string]) {
		t.Errorf("%q, want %q", table.Rows, want)
	}
}
