// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"math"
	"slices"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// errorOf returns how far features out of the table of this key are from the exact ones: the largest difference that is
// found at any position of the table, tanh(alphaScale·f) or on the sphere S(alphaScale·w) and S(alphaScale·w′).
//
// Harmonic functions err most in the middle of an edge of a cell, (7.4), others in its middle, and in long cells the
// sphere is passed within exp(-πt/2) of a half-period, t the ratio of the sides, which may be far less than a cell of
// the table. So the search starts in the middles of up to 48 × 48 cells and of their edges, and on circles of all sizes
// around the half-periods, and climbs from the worst of these points. What it misses is below 5 % (the test's figure).
func (k tableKey) errorOf(alphaScale float64) (worst float64, err error) {
	off, err := k.off(alphaScale)
	if err != nil {
		return 0, err
	}
	type start struct{ x, y, off float64 }
	var starts []start
	for _, at := range k.suspects() {
		starts = append(starts, start{at[0], at[1], off(at[0], at[1])})
	}
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(b.off, a.off) })
	u, v := k.extents()
	last := float64(k.Resolution - 1)
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
	return worst, nil
}

// off returns the error of a feature at a position in periods.
func (k tableKey) off(alphaScale float64) (func(x, y float64) float64, error) {
	nodeAt, err := k.node()
	if err != nil {
		return nil, err
	}
	u, v := k.extents()
	last := float64(k.Resolution - 1)
	nodes := make(map[[2]int][]float64)
	node := func(col, row int) []float64 {
		at := [2]int{col, row}
		if nodes[at] == nil {
			nodes[at] = nodeAt(u*float64(col)/last, v*float64(row)/last)
		}
		return nodes[at]
	}
	interpolated := func(x, y float64) []float64 {
		col, s := nodeBefore(x/u*last, k.Resolution)
		row, t := nodeBefore(y/v*last, k.Resolution)
		f := make([]float64, k.channels())
		for i := range f {
			f[i] = (1-t)*((1-s)*node(col, row)[i]+s*node(col+1, row)[i]) + t*((1-s)*node(col, row+1)[i]+s*node(col+1, row+1)[i])
		}
		return f
	}
	features, exact, err := k.compressed(alphaScale)
	if err != nil {
		return nil, err
	}
	return func(x, y float64) (worst float64) {
		want := exact(x, y)
		for i, f := range features(x, y, interpolated(x, y)) {
			worst = max(worst, math.Abs(f-want[i]))
		}
		return worst
	}, nil
}

// compressed returns what makes features of what is interpolated at a position, and the exact features.
func (k tableKey) compressed(alphaScale float64) (features func(x, y float64, f []float64) []float64,
	exact func(x, y float64) []float64, err error) {
	if k.Kind == sphereTable {
		at, err := k.sphere()
		features = func(_, _ float64, f []float64) []float64 {
			point := weierstrass.Dilated([3]float64(f), alphaScale)
			prime := weierstrass.Dilated([3]float64(f[3:]), alphaScale)
			return append(point[:], prime[:]...)
		}
		return features, func(x, y float64) []float64 { return features(x, y, at(x, y)) }, err
	}
	_, functions, err := k.functions()
	tanh := func(p, pPrime complex128) []float64 {
		f := []float64{real(p), imag(p), real(pPrime), imag(pPrime)}
		for i := range f {
			f[i] = math.Tanh(alphaScale * f[i])
		}
		return f
	}
	features = func(x, y float64, f []float64) []float64 {
		p, pPrime := k.principalParts([2]float64{x, x - 1}, [2]float64{y, y - 1})
		return tanh(complex(f[0], f[1])+p, complex(f[2], f[3])+pPrime)
	}
	return features, func(x, y float64) []float64 { return tanh(functions(x, y)) }, err
}

// suspects are positions in periods from which errorOf starts.
func (k tableKey) suspects() (at [][2]float64) {
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
