// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestACellCountsUndefinedValues(t *testing.T) {
	nan := math.NaN()
	for want, values := range map[string][]float64{
		"–": nil, "undefined": {nan, nan}, "7.00": {7}, "3.00 (2.00 … 4.00), 1 undefined": {2, nan, 4},
		"5.00 (5.00 … 5.00), 2 undefined": {nan, 5, math.Inf(1)},
	} {
		if got := cell(values); got != want {
			t.Errorf("%v is %q, want %q", values, got, want)
		}
	}
}

// numpy.quantile([3, 1, 7], q) and of one value.
func TestQuantilesInterpolateAsNumPy(t *testing.T) {
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.75: 5, 0.875: 6, 1: 7} {
		gomlxtest.NearAbs(t, "quantile", []float64{quantile([]float64{3, 1, 7}, q), quantile([]float64{9}, q)},
			[]float64{want, 9}, 1e-12)
	}
}
