// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// tooClose is the distance of two patches' features below which the projection, a sum of products in float32, no longer
// separates them: a few roundings of numbers up to 1.
const tooClose = 1e-6

// Warning returns one line that names two patches that float32 cannot distinguish at the initial values, or the error
// of features from a look-up table above 1e-5, on the sphere 1e-3; it is empty if there is neither.
//
// Next to the pole ℘ and ℘′ are so large that tanh gives ±1 for both parts of one patch and of the next. On the default
// lattice the first two patches of the diagonal are 3e-4 apart on a 24×24 grid, 2e-9 on 37×37 and 0 on 64×64, where
// other pairs coincide too. A smaller α_scale avoids this.
func (e *encoder) Warning() string {
	distance, first, second := closest(e.config.hostFeatures())
	switch {
	case distance < tooClose:
	case e.tableError > e.config.compression.tolerance():
		return fmt.Sprintf("%s: features from %v may err by %.2g", e.Name(), e.table, e.tableError)
	default:
		return ""
	}
	at := func(k int) string { return fmt.Sprintf("(%d, %d)", k/e.config.cols, k%e.config.cols) }
	remedy := "a smaller " + ParamAlphaScale
	x, y := e.config.patches(e.config.grid)
	equal := func(sign float64) bool { // ℘ is the same at z and ±z plus a period, whatever α_scale
		u, v := x[first]-sign*x[second], y[first]-sign*y[second]
		return math.Hypot(u-math.Round(u), v-math.Round(v)) < coincident
	}
	if e.config.compression == compressSphere || equal(1) || !e.config.derivative && equal(-1) {
		remedy = fmt.Sprintf("another %s, %s or %s", ParamAlphaU, ParamAlphaV, ParamOffsetU)
		if !e.config.derivative && !equal(1) { // ℘′ tells z from −z
			remedy = ParamDerivative + ", " + remedy
		}
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
		f := realParts(lattice.Eval(z))
		if c.compression == compressSphere {
			point, prime := sphere.At(z)
			f = append(point[:], prime[:]...)
		}
		return c.compression.host(f, c.alphaScale)
	}
	rows := make([][]float64, c.rows*c.cols)
	x, y := c.patches(c.grid)
	x, y = c.scaled(x), c.scaled(y)
	for i := range x { // one view of all patches after the other
		all := features(complex(2*x[i], 0)*omega1 + complex(2*y[i], 0)*omega3)
		k := i % len(rows)
		rows[k] = append(rows[k], all[:c.numFeatures()/c.views()]...)
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
