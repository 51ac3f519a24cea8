// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/wepe-go/wepe/wepe/internal/elliptic"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// tableNodes is the number of nodes along each side of a new look-up table, the paper's. Tables of earlier versions may
// have others.
const tableNodes = 256

// hostTable is a look-up table in float64, mathematics.md section 7. Its nodes span the rectangle of the patch grid, at
// most one cell of the lattice; the first and the last lie on its borders. It stores one of two forms, both smooth, so
// that bilinear interpolation is accurate:
//
//   - deflated, 4 values per node: ℘ and ℘′ less the principal parts of the poles at the corners of the cell, (7.2),
//     which are added back exactly where the table is queried, (7.3);
//   - sphere, 6 values per node over the whole cell: S(w) and S(w′), where nothing is subtracted and every multiple of
//     the cell can be looked up. α_scale is applied after the look-up.
type hostTable struct {
	lattice weierstrass.Lattice // rectangular
	sphere  bool
	u, v    float64 // periods of the lattice that the grid spans
	nodes   int     // along each side
}

// newHostTable returns the table of an encoder with half-period ω3′ at present.
func newHostTable(c Config, omega3p float64, nodes int) (t hostTable, err error) {
	t = hostTable{sphere: c.compression == compressSphere, u: c.alphaU, v: c.alphaV, nodes: nodes}
	if c.mode == release { // the lattice is square
		t.v, omega3p = t.v*omega3p/c.omega1, c.omega1
	}
	if t.sphere {
		t.u, t.v = 1, 1
	}
	t.lattice, err = weierstrass.New(complex(c.omega1, 0), complex(0, omega3p))
	return t, err
}

// extents returns how much of a period the table covers in each direction: beyond one period everything repeats.
func (t hostTable) extents() (u, v float64) { return min(t.u, 1), min(t.v, 1) }

// channels returns the number of values per node.
func (t hostTable) channels() int {
	if t.sphere {
		return 6
	}
	return 4
}

// at converts a position in periods to z.
func (t hostTable) at(x, y float64) complex128 {
	omega1, omega3 := t.lattice.HalfPeriods()
	return complex(x*2*real(omega1), y*2*imag(omega3))
}

// shorter returns the shorter half-period of a rectangular lattice.
func shorter(l weierstrass.Lattice) float64 {
	omega1, omega3 := l.HalfPeriods()
	return min(real(omega1), imag(omega3))
}

// poles returns the lattice points, in periods, whose principal parts a deflated table omits, (7.2): the corners of the
// cell that are the nearest lattice point of some part of the table.
func (t hostTable) poles() (poles [][2]float64) {
	u, v := t.extents()
	for _, n := range []float64{0, 1} {
		for _, m := range []float64{0, 1} {
			if (m == 0 || u > 0.5) && (n == 0 || v > 0.5) {
				poles = append(poles, [2]float64{m, n})
			}
		}
	}
	return poles
}

// principalParts sums the omitted principal parts, at distances in periods from the two ends of the cell in either
// direction.
func (t hostTable) principalParts(dx, dy [2]float64) (p, pPrime complex128) {
	radius := elliptic.PoleRadius * 2 / math.Pi * shorter(t.lattice)
	for _, pole := range t.poles() {
		q, qPrime := principalPartAt(t.at(dx[int(pole[0])], dy[int(pole[1])]), radius)
		p, pPrime = p+q, pPrime+qPrime
	}
	return p, pPrime
}

// node returns what a node at a position in periods stores.
func (t hostTable) node() func(x, y float64) []float64 {
	if t.sphere {
		sphere := t.lattice.Sphere()
		return func(x, y float64) []float64 {
			point, prime := sphere.At(t.at(x, y))
			return append(point[:], prime[:]...)
		}
	}
	regular := regularPart(t.lattice)
	return func(x, y float64) []float64 {
		nearest := [2]float64{math.Ceil(x - 0.5), math.Ceil(y - 0.5)} // one of t.poles()
		p, pPrime := regular(t.at(x-nearest[0], y-nearest[1]))
		for _, pole := range t.poles() {
			if nearest != pole {
				q, qPrime := principalPartAt(t.at(x-pole[0], y-pole[1]), 0)
				p, pPrime = p-q, pPrime-qPrime
			}
		}
		return realParts(p, pPrime)
	}
}

// values returns all nodes, [nodes, nodes, channels], v slowest as in a patch grid.
func (t hostTable) values() []float64 {
	u, v := t.extents()
	last, node := float64(t.nodes-1), t.node()
	values := make([]float64, 0, t.nodes*t.nodes*t.channels())
	for row := range t.nodes {
		for col := range t.nodes {
			values = append(values, node(u*float64(col)/last, v*float64(row)/last)...)
		}
	}
	return values
}

// sampling is how much larger a second derivative may be between the nodes than the second differences at them, on
// lattices that pass the tolerance (TestTable_ErrorBoundHolds).
const sampling = 1.25

// errorBound returns a bound on the error of features from the table with these values. Bilinear interpolation errs by
// at most ⅛|h_x²f_xx| + ⅛|h_y²f_yy|, where h²f″ are the second differences of the nodes. For harmonic functions, as the
// deflated ones are, the larger of both suffices: the interpolant is harmonic too, so that the error is largest on the
// edges of a cell of nodes, where it is that of one dimension. Compression multiplies the error of a value by at most
// α_scale, that of a point next to the sphere by max(α_scale, 1/α_scale)², the square because it may be inside.
//
// In a long cell S(w′) passes from pole to pole around a half-period within less than a node. There the second
// difference is taken at the half-period itself, which sees a peak of any width: the bound is then far above any
// tolerance, if not above the error.
func (t hostTable) errorBound(values []float64, alphaScale float64) (worst float64) {
	channels := t.channels()
	difference := func(before, middle, after []float64, i int) float64 { return before[i] - 2*middle[i] + after[i] }
	include := func(middle, left, right, up, down []float64) {
		for i := 0; i < channels; i++ {
			along, across := difference(left, middle, right, i), difference(up, middle, down, i)
			if !t.sphere {
				worst = max(worst, math.Abs(along), math.Abs(across))
				continue
			}
			for range 2 { // the other parts of the point
				i++
				along, across = math.Hypot(along, difference(left, middle, right, i)),
					math.Hypot(across, difference(up, middle, down, i))
			}
			worst = max(worst, along+across)
		}
	}
	at := func(row, col int) []float64 { return values[(row*t.nodes+col)*channels:] }
	for row := 1; row < t.nodes-1; row++ {
		for col := 1; col < t.nodes-1; col++ {
			include(at(row, col), at(row, col-1), at(row, col+1), at(row-1, col), at(row+1, col))
		}
	}
	factor := alphaScale
	if t.sphere {
		factor = max(alphaScale*alphaScale, 1/(alphaScale*alphaScale))
		h, node := 1/float64(t.nodes-1), t.node()
		for _, half := range [][2]float64{{0.5, 0}, {0, 0.5}, {0.5, 0.5}} {
			x, y := half[0], half[1]
			include(node(x, y), node(x-h, y), node(x+h, y), node(x, y-h), node(x, y+h))
		}
	}
	return sampling / 8 * worst * factor
}

func realParts(p, pPrime complex128) []float64 {
	return []float64{real(p), imag(p), real(pPrime), imag(pPrime)}
}

// cellOffsets maps x, in periods from its nearest lattice point, to its position t in the cell [0, 1] and to its
// distances from the two ends of the cell; the nearer distance keeps every digit of x.
func cellOffsets(x float64) (t float64, distance [2]float64) {
	if x < 0 {
		return x + 1, [2]float64{x + 1, x}
	}
	return x, [2]float64{x, x - 1}
}

// principalPartAt returns 1/z² and -2/z³ with the guard of a pole: |z| is replaced by radius below it, and both are
// 0 at the pole itself.
func principalPartAt(z complex128, radius float64) (p, pPrime complex128) {
	norm2 := max(real(z)*real(z)+imag(z)*imag(z), radius*radius)
	inv := complex(real(z)/norm2, -imag(z)/norm2)
	return inv * inv, -2 * inv * inv * inv
}

// regularPart returns ℘(z) - 1/z² and ℘′(z) + 2/z³. The series of the first in z², from z² on, converges up to the next
// lattice point, four times the radius in which it is used: term n is of the order 16⁻ⁿ.
func regularPart(lattice weierstrass.Lattice) func(z complex128) (p, pPrime complex128) {
	inv, radius := lattice.Invariants(), shorter(lattice)/2
	series := elliptic.LaurentSeries(inv.G2, inv.G3, 15)
	return func(z complex128) (p, pPrime complex128) {
		if cmplx.Abs(z) >= radius {
			p, pPrime = lattice.Eval(z)
			q, qPrime := principalPartAt(z, 0)
			return p - q, pPrime - qPrime
		}
		w := z * z
		for j, c := range slices.Backward(series) { // Σ c_j w^{j+1} and its derivative by z, 2z Σ (j+1) c_j w^j
			p = p*w + complex(c, 0)
			pPrime = pPrime*w + complex(float64(j+1)*c, 0)
		}
		return p * w, 2 * z * pPrime
	}
}

func (t hostTable) String() string {
	omega1, omega3 := t.lattice.HalfPeriods()
	return fmt.Sprintf("a look-up table of %d nodes a side for half-periods %g and %gi", t.nodes, real(omega1),
		imag(omega3))
}
