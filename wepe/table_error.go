// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// errorOf returns the error of features from a table of this key: the largest difference found at any position of the
// table, of tanh(alphaScale·f), or on the sphere of S(alphaScale·w) and S(alphaScale·w′).
//
// Harmonic functions have their largest error in the middle of a cell's edge, (7.4), other functions in the middle of a
// cell. In long cells the sphere is crossed within exp(-πt/2) of a half-period, t the ratio of the sides, which may be
// far less than a cell of the table. So the search starts in the middles of up to 48 × 48 cells and of their edges, and
// on circles of all sizes around the half-periods, and climbs from the worst of these points. It underestimates the
// error by less than 5 % (measured by its test).
func (t hostTable) errorOf(alphaScale float64) (worst float64) {
	off := t.off(alphaScale)
	type start struct{ x, y, off float64 }
	var starts []start
	for _, at := range t.errorStarts() {
		starts = append(starts, start{at[0], at[1], off(at[0], at[1])})
	}
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(b.off, a.off) })
	u, v := t.extents()
	last := float64(t.Resolution - 1)
	for _, s := range starts[:min(24, len(starts))] {
		for step := 8.0; step > 1e-3; {
			better := false
			for _, way := range [][2]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}} {
				x, y := s.x+way[0]*step*u/last, s.y+way[1]*step*v/last
				if x < 0 || x > u || y < 0 || y > v {
					continue
				}
				if d := off(x, y); d > s.off {
					s, better = start{x, y, d}, true
				}
			}
			if !better {
				step /= 2
			}
		}
		worst = max(worst, s.off)
	}
	return worst
}

// off returns the error of a feature at a position in periods.
func (t hostTable) off(alphaScale float64) func(x, y float64) float64 {
	lookedUp, compressed := t.lookedUp(), compressTanh.host
	if t.Kind == sphereTable {
		compressed = compressSphere.host
	}
	return func(x, y float64) (worst float64) {
		want := compressed(t.exact(x, y), alphaScale)
		for i, f := range compressed(lookedUp(x, y), alphaScale) {
			worst = max(worst, math.Abs(f-want[i]))
		}
		return worst
	}
}

// errorStarts returns the positions, in periods, where errorOf starts.
func (k tableKey) errorStarts() (at [][2]float64) {
	u, v := k.extents()
	last := k.Resolution - 1
	cells := min(last, 48)
	for i := range cells {
		for j := range cells {
			col, row := float64(i*(last-1)/max(cells-1, 1)), float64(j*(last-1)/max(cells-1, 1))
			for _, middle := range [][2]float64{{0.5, 0.5}, {0.5, 0}, {0, 0.5}, {0.5, 1}, {1, 0.5}} {
				at = append(at, [2]float64{u * (col + middle[0]) / float64(last), v * (row + middle[1]) / float64(last)})
			}
		}
	}
	a, b := k.halfPeriods()
	side := min(a, b)
	smallest := side * math.Exp(-math.Pi/2*min(max(a, b)/side, 20)) / 8
	for half := range 9 {
		x, y := float64(half%3)/2, float64(half/3)/2
		for r := side; r > smallest; r *= 0.8 {
			for way := range 16 {
				sin, cos := math.Sincos(math.Pi / 8 * (float64(way) + 0.3))
				p := [2]float64{x + r*cos/(2*a), y + r*sin/(2*b)}
				if p[0] >= 0 && p[0] <= u && p[1] >= 0 && p[1] <= v {
					at = append(at, p)
				}
			}
		}
	}
	return at
}

// fit returns a table with enough nodes to keep the error of its features within the tolerance, at least as many as t
// has. A raw table keeps its number of nodes.
func (t hostTable) fit(alphaScale, tolerance float64) (hostTable, error) {
	for {
		worst := t.errorOf(alphaScale)
		if worst <= tolerance || t.Kind == rawTable {
			return t, nil
		}
		if t.Resolution == maxTableResolution {
			a, b := t.halfPeriods()
			return t, fmt.Errorf("wepe: %s = %g: on half-periods %g and %gi features out of a table of %d nodes a side err "+
				"by %.2g: evaluate exactly (%s = %q) or allow more", paramTableError, tolerance, a, b, t.Resolution, worst,
				paramEvaluation, evaluateExact)
		}
		factor := max(1.05*math.Sqrt(worst/tolerance), 1.1) // the error is of second order
		t.Resolution = min(1+int(math.Ceil(factor*float64(t.Resolution-1))), maxTableResolution)
	}
}
