// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// tooClose is the distance of two patches' features below which the projection, a sum of products in float32, no longer
// separates them: a few roundings of numbers up to 1.
const tooClose = 1e-6

// valueAtPole is |℘| so near a pole that elliptic.P, which bounds it, gives 0 as at the pole itself.
const valueAtPole = 1e29

// Warning implements Encoder.
//
// Next to the pole ℘ and ℘′ are so large that tanh gives ±1 for both parts of one patch and of the next. On the default
// lattice the first two patches of the diagonal are 3e-4 apart on a 24×24 grid, 2e-9 on 37×37 and 0 on 64×64, where
// other pairs coincide too. A smaller α_scale avoids this.
func (e *encoder) Warning() string {
	rows := e.config.hostFeatures()
	distance, first, second := closest(rows)
	switch {
	case distance < tooClose:
	case e.tableError > e.config.compression.tolerance():
		return fmt.Sprintf("%s: features from %v may err by %.2g", e.Name(), e.table, e.tableError)
	default:
		return ""
	}
	at := func(k int) string { return fmt.Sprintf("(%d, %d)", k/e.config.cols, k%e.config.cols) }
	x, y := e.config.patches(e.config.grid)
	equal := func(sign float64) bool { // ℘ is the same at z and ±z plus a period, whatever α_scale
		u, v := x[first]-sign*x[second], y[first]-sign*y[second]
		return math.Hypot(u-math.Round(u), v-math.Round(v)) < coincident
	}
	remedy := "a smaller " + ParamAlphaScale
	switch {
	case equal(1):
		remedy = fmt.Sprintf("a smaller %s or %s", ParamAlphaU, ParamAlphaV)
	case !e.config.derivative && equal(-1): // ℘′ tells z from −z
		remedy = fmt.Sprintf("%s, another %s, %s or %s", ParamDerivative, ParamAlphaU, ParamAlphaV, ParamOffsetU)
	case e.config.compression == compressSphere:
		remedy = fmt.Sprintf("a %s nearer 1", ParamAlphaScale)
	case floats.Norm(rows[first], math.Inf(1)) < 0.5: // where tanh is nearly linear
		remedy = "a larger " + ParamAlphaScale
	}
	return fmt.Sprintf("%s: patches %s and %s have features %.1g apart, too close for float32 to tell: %s or fewer "+
		"patches keep them apart", e.Name(), at(first), at(second), distance, remedy)
}

// hostFeatures returns the compressed features of the patches at the initial values, one row per patch, in float64.
func (c Config) hostFeatures() [][]float64 {
	omega1, omega3 := complex(c.omega1, 0), complex(c.omega3Re, c.omega3)
	poles := omega3
	if c.mode == release {
		poles = complex(0, c.omega1)
	}
	lattice, err := weierstrass.New(omega1, poles)
	if err != nil {
		refuse("", "%v", err)
	}
	sphere := lattice.Sphere()
	features := func(z complex128) []float64 {
		p, pPrime := lattice.Eval(z)
		if c.evaluation == evaluateExact && !(cmplx.Abs(p) < valueAtPole) {
			p, pPrime = 0, 0 // as in the graph
		}
		f := realParts(p, pPrime)
		if c.compression == compressSphere {
			point, prime := sphere.At(z)
			f = append(point[:], prime[:]...)
		}
		return c.compression.host(f, c.alphaScale)
	}
	rows, n := make([][]float64, c.rows*c.cols), c.numFeatures()/c.views()
	for k := range rows {
		rows[k] = make([]float64, c.numFeatures())
	}
	down, across := c.covered() // a row is the mean of as many points
	points, width := len(rows)*down*across, c.cols*across
	x, y := c.patches(c.denser())
	x, y = c.scaled(x), c.scaled(y)
	for i := range x { // one view of all points after the other
		f := features(complex(2*x[i], 0)*omega1 + complex(2*y[i], 0)*omega3)[:n]
		k := i%points/width/down*c.cols + i%width/across
		floats.AddScaled(rows[k][i/points*n:][:n], 1/float64(down*across), f)
	}
	return rows
}

// host compresses Re ℘, Im ℘, Re ℘′ and Im ℘′, or S(w) and S(w′), in place.
func (c compression) host(f []float64, alphaScale float64) []float64 {
	if c == compressSphere {
		for _, point := range [][]float64{f[:3], f[3:]} {
			dilated := weierstrass.Dilated([3]float64(point), alphaScale)
			copy(point, dilated[:])
		}
		return f
	}
	for i := range f {
		f[i] = math.Tanh(alphaScale * f[i])
	}
	return f
}

// closest returns the two rows with the smallest distance. Rows are sorted by their sums, which differ by at most √n
// times the distance of rows of n numbers, so that pairs with distant sums are skipped.
func closest(rows [][]float64) (distance float64, first, second int) {
	sums, order := make([]float64, len(rows)), make([]int, len(rows))
	for k, row := range rows {
		sums[k], order[k] = floats.Sum(row), k
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(sums[a], sums[b]) })
	distance = math.Inf(1)
	for i, a := range order {
		for _, b := range order[i+1:] {
			if sums[b]-sums[a] >= distance*math.Sqrt(float64(len(rows[a]))) {
				break
			}
			if d := floats.Distance(rows[a], rows[b], 2); d < distance {
				distance, first, second = d, min(a, b), max(a, b)
			}
		}
	}
	return distance, first, second
}
