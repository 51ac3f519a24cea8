// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// tf32 rounds to 10 bits of mantissa, to nearest, ties to even.
func tf32(x float64) float64 {
	const dropped = 52 - 10
	bits := math.Float64bits(x)
	bits += 1<<(dropped-1) - 1 + bits>>dropped&1
	return math.Float64frombits(bits &^ (1<<dropped - 1))
}

// The only product of an encoding is of features and weights. Its rows are normalized, so that errors are in units of a
// row's deviation. Each operand has a relative error of 2^-11, a term of the sum 2^-10, and the sum at most that times
// the sum of absolute values, in deviations of the row.
func TestTF32ErrsByAThousandthInTheEncoding(t *testing.T) {
	const rows, cols, width = 14, 14, 192
	for name, with := range map[string]map[string]any{"wepe": nil, "sphere": {byCompression: compressSphere}} {
		store := gomlxtest.Seeded(t, 3)
		e := New(store.RootScope(), rows, cols, width).with(with).Done()
		outputs := gomlxtest.RunModel(t, store, func(_ *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			return []*Node{e.Features(g), MulScalar(e.projection.final.weights.NodeValue(g), 1)}
		}, float32(0))
		features, weights := outputs[0], outputs[1]
		n := len(weights) / width
		worst, nearPole := 0.0, 0.0
		for patch := range rows * cols {
			exact, rounded, sizes := make([]float64, width), make([]float64, width), make([]float64, width)
			largest := 0.0
			for i := range n {
				f := features[patch*n+i]
				largest = max(largest, math.Abs(f))
				for k := range width {
					w := weights[i*width+k]
					exact[k] += f * w
					rounded[k] += tf32(f) * tf32(w)
					sizes[k] += math.Abs(f * w)
				}
			}
			mean, scale := stat.PopMeanStdDev(exact, nil)
			roundedMean, roundedScale := stat.PopMeanStdDev(rounded, nil)
			most := 0.0
			for k := range width {
				err := math.Abs(stat.StdScore(rounded[k], roundedMean, roundedScale) - stat.StdScore(exact[k], mean, scale))
				// The mean and the deviation of a row have an error too, at most that of its numbers.
				if bound := math.Ldexp(sizes[k]+2*slices.Max(sizes), -10) / scale; err > bound {
					t.Fatalf("%s, patch %d: channel %d is off by %g, want at most %g", name, patch, k, err, bound)
				}
				most = max(most, err)
			}
			worst = max(worst, most)
			if largest > 0.999 {
				nearPole = max(nearPole, most)
			}
		}
		t.Logf("%s: off by at most %.2g deviations, where a feature is saturated by %.2g", name, worst, nearPole)
		if worst > 2e-3 || worst < 1e-5 {
			t.Errorf("%s: off by %g deviations, the documents say .001", name, worst)
		}
	}
}
