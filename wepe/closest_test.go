// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

func TestClosest_is_the_least_distance_of_all_pairs_of_the_hosts_features(t *testing.T) {
	var all string
	for _, c := range []struct {
		rows, cols int
		params     kv
		low, high  float64 // bounds on the distance, known from the formula for the default lattice
	}{
		{14, 14, nil, 4.0e-3, 4.1e-3},
		{24, 24, nil, 3.2e-4, 3.3e-4},
		{37, 37, nil, 1.9e-9, 2.0e-9},
		{64, 64, nil, 0, 1e-13},
		{64, 64, kv{ParamAlphaScale: 1e-3}, tooClose, 1}, // the warning's advice
		{5, 7, kv{ParamOmega3: 1.085, ParamAlphaU: 0.3}, 0, 1},
	} {
		e := New(model.NewStore().RootScope(), c.rows, c.cols, 2).with(c.params).Done()
		got, first, second := closest(e.config.hostFeatures())
		host := squareGrid(c.rows, c.cols)
		host.span[0], host.omega3 = e.config.alphaU, complex(0, e.config.omega3)
		host.alphaScale = e.config.alphaScale
		f := host.features(t)
		want := math.Inf(1)
		apart := func(i, j int) float64 {
			return math.Hypot(math.Hypot(f[4*i]-f[4*j], f[4*i+1]-f[4*j+1]), math.Hypot(f[4*i+2]-f[4*j+2], f[4*i+3]-f[4*j+3]))
		}
		for i := range c.rows * c.cols {
			for j := range i {
				want = min(want, apart(i, j))
			}
		}
		if !(math.Abs(got-want) <= 1e-6*want+1e-13) || !(math.Abs(apart(first, second)-want) <= 1e-6*want+1e-13) ||
			!(got >= c.low && got <= c.high) {
			t.Errorf("%d×%d %v: %g between %d and %d, want %g, in [%g, %g]", c.rows, c.cols, c.params, got, first, second,
				want, c.low, c.high)
		}
		line := e.Warning()
		all += line
		if said := strings.Contains(line, "too close for float32"); said != (want < tooClose) ||
			strings.Contains(line, "\n") {
			t.Errorf("%d×%d %v: said %q at a distance of %g", c.rows, c.cols, c.params, line, want)
		}
	}
	// On the diagonal next to the pole.
	if !strings.Contains(all, "patches (0, 0) and (1, 1) have features 2e-09 apart") {
		t.Errorf("the warnings do not name the patches of 37×37: %s", all)
	}
}
