// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

// The distances are those of the documents, for the default lattice; the pair is the closest of all.
func TestEncoder_WarnsOfPatchesThatFloat32CannotDistinguish(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		params     kv
		low, high  float64
	}{
		{14, 14, nil, 4.0e-3, 4.1e-3}, {24, 24, nil, 3.2e-4, 3.3e-4}, {37, 37, nil, 1.9e-9, 2.0e-9},
		{64, 64, nil, 0, 1e-13}, {64, 64, kv{ParamAlphaScale: 1e-3}, tooClose, 1}, // the warning's advice
		{5, 7, kv{ParamOmega3: 1.085, ParamAlphaU: 0.3}, 0, 1},
	} {
		e := New(model.NewStore().RootScope(), c.rows, c.cols, 2).with(c.params).encoder()
		rows := e.config.hostFeatures()
		got, first, second := closest(rows)
		want := math.Inf(1)
		apart := func(i, j int) float64 {
			a, b := rows[i], rows[j]
			return math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), math.Hypot(a[2]-b[2], a[3]-b[3]))
		}
		for i := range rows {
			for j := range i {
				want = min(want, apart(i, j))
			}
		}
		if !(math.Abs(got-want) <= 1e-6*want+1e-13) || !(math.Abs(apart(first, second)-want) <= 1e-6*want+1e-13) ||
			!(got >= c.low && got <= c.high) || (e.Warning() != "") != (want < tooClose) {
			t.Errorf("%d×%d %v: %g between %d and %d, want %g, in [%g, %g]; warning %q", c.rows, c.cols, c.params, got, first,
				second, want, c.low, c.high, e.Warning())
		}
	}
}
