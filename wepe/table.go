// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// tableKind names the functions that the nodes of a look-up table store.
type tableKind string

const (
	// deflatedTable holds ℘ and ℘′ without the principal parts of the poles at the corners of the cell; these are added
	// back exactly where the table is queried, mathematics.md (7.3).
	deflatedTable tableKind = "deflated"

	// rawTable holds ℘ and ℘′ themselves, as the paper does, with the constant of the truncated sum (latticeSum.CLarge)
	// at a node that is a pole.
	rawTable tableKind = "raw"

	// sphereTable stores S(w) and S(w′) over the whole cell, 6 numbers per node. They are smooth everywhere: nothing is
	// subtracted, and every multiple of the cell can be looked up. α_scale is applied after the look-up.
	sphereTable tableKind = "sphere"
)

// maxTableResolution bounds a table to 268 MB in float32, on the sphere to 403 MB.
const maxTableResolution = 4096

// tableKey is everything that the nodes of a look-up table depend on.
type tableKey struct {
	Mode            mode    // what Omega3p means, see Mode
	Omega1, Omega3p float64 // ω1, and ω3′
	SpanU, SpanV    float64 // α_u and α_v
	Resolution      int     // nodes along each axis
	Kind            tableKind
}

// halfPeriods returns the half-periods of ℘'s lattice.
func (k tableKey) halfPeriods() (a, b float64) {
	if k.Mode == release {
		return k.Omega1, k.Omega1
	}
	return k.Omega1, k.Omega3p
}

// periods returns how many periods of the lattice u and v cover from 0 to 1.
func (k tableKey) periods() (u, v float64) {
	_, b := k.halfPeriods()
	return k.SpanU, k.SpanV * k.Omega3p / b
}

// extents returns how much of a period the table covers in each direction: beyond one period everything repeats.
func (k tableKey) extents() (u, v float64) {
	u, v = k.periods()
	return min(u, 1), min(v, 1)
}

// channels returns the number of values per node.
func (k tableKey) channels() int {
	if k.Kind == sphereTable {
		return 6
	}
	return 4
}

// poles returns the lattice points, in periods, whose principal parts the nodes omit, (7.2): the corners of the cell
// that are the nearest lattice point of some part of the table.
func (k tableKey) poles() (poles [][2]int) {
	if k.Kind == rawTable {
		return nil
	}
	u, v := k.extents()
	for n := range 2 {
		for m := range 2 {
			if (m == 0 || u > 0.5) && (n == 0 || v > 0.5) {
				poles = append(poles, [2]int{m, n})
			}
		}
	}
	return poles
}

// principalParts sums the omitted principal parts, at distances in periods from the two ends of the cell in either
// direction.
func (k tableKey) principalParts(dx, dy [2]float64) (p, pPrime complex128) {
	a, b := k.halfPeriods()
	radius := poleRadius * 2 / math.Pi * min(a, b)
	for _, pole := range k.poles() {
		q, qPrime := principalPartAt(complex(dx[pole[0]]*2*a, dy[pole[1]]*2*b), radius)
		p, pPrime = p+q, pPrime+qPrime
	}
	return p, pPrime
}

// periodic is a function of a position in periods, with one value per channel.
type periodic func(x, y float64) []float64

// hostTable is the table of a key in float64.
type hostTable struct {
	tableKey
	exact periodic // the tabulated functions: Re ℘, Im ℘, Re ℘′ and Im ℘′, or S(w) and S(w′)
	node  periodic // the values that its nodes store
}

func (k tableKey) onHost() (hostTable, error) {
	lattice, err := weierstrass.NewLattice(k.halfPeriods())
	if err != nil {
		return hostTable{}, fmt.Errorf("wepe: table: %w", err)
	}
	at := func(x, y float64) complex128 { return complex(x*2*lattice.Omega1(), y*2*lattice.Omega3p()) }
	if k.Kind == sphereTable {
		sphere := lattice.Sphere()
		exact := func(x, y float64) []float64 {
			point, prime := sphere.At(at(x, y))
			return append(point[:], prime[:]...)
		}
		return hostTable{k, exact, exact}, nil
	}
	t := hostTable{k, func(x, y float64) []float64 { return realParts(lattice.Eval(at(x, y))) }, k.deflated(lattice)}
	if k.Kind == rawTable {
		large := complex(releasedSum.CLarge, 0)
		t.node = func(x, y float64) []float64 {
			f := t.exact(x, y)
			if math.IsInf(f[0], 0) {
				return realParts(large, large)
			}
			return f
		}
	}
	return t, nil
}

func realParts(p, pPrime complex128) []float64 {
	return []float64{real(p), imag(p), real(pPrime), imag(pPrime)}
}

// deflated is ℘ and ℘′ less the principal parts of poles, (7.2).
func (k tableKey) deflated(lattice weierstrass.Lattice) periodic {
	regular := newRegularPart(lattice)
	return func(x, y float64) []float64 {
		nearest := [2]float64{math.Ceil(x - 0.5), math.Ceil(y - 0.5)} // one of k.poles()
		p, pPrime := regular.at(complex((x-nearest[0])*2*lattice.Omega1(), (y-nearest[1])*2*lattice.Omega3p()))
		for _, pole := range k.poles() {
			m, n := float64(pole[0]), float64(pole[1])
			if nearest != [2]float64{m, n} {
				q, qPrime := principalPartAt(complex((x-m)*2*lattice.Omega1(), (y-n)*2*lattice.Omega3p()), 0)
				p, pPrime = p-q, pPrime-qPrime
			}
		}
		return realParts(p, pPrime)
	}
}

// at returns the node in a column and row. The nodes span the rectangle of the patch grid, at most one cell of the
// lattice, mathematics.md section 7; the first and last lie on its borders.
func (t hostTable) at(col, row int) []float64 {
	u, v := t.extents()
	last := float64(t.Resolution - 1)
	return t.node(u*float64(col)/last, v*float64(row)/last)
}

// values returns all nodes, [resolution, resolution, channels], v slowest as in a patch grid.
func (t hostTable) values() []float64 {
	values := make([]float64, 0, t.Resolution*t.Resolution*t.channels())
	for row := range t.Resolution {
		for col := range t.Resolution {
			values = append(values, t.at(col, row)...)
		}
	}
	return values
}

// lookedUp returns the values that the graph looks up, for positions in the rectangle of the table. Nodes are computed
// on first use.
func (t hostTable) lookedUp() periodic {
	u, v := t.extents()
	last := float64(t.Resolution - 1)
	nodes := make(map[[2]int][]float64)
	at := func(col, row int) []float64 {
		key := [2]int{col, row}
		if nodes[key] == nil {
			nodes[key] = t.at(col, row)
		}
		return nodes[key]
	}
	return func(x, y float64) []float64 {
		col, right := nodeBefore(x/u*last, t.Resolution)
		row, down := nodeBefore(y/v*last, t.Resolution)
		f := make([]float64, t.channels())
		for i := range f {
			f[i] = (1-down)*((1-right)*at(col, row)[i]+right*at(col+1, row)[i]) +
				down*((1-right)*at(col, row+1)[i]+right*at(col+1, row+1)[i])
		}
		if t.Kind != sphereTable {
			for i, pole := range realParts(t.principalParts([2]float64{x, x - 1}, [2]float64{y, y - 1})) {
				f[i] += pole
			}
		}
		return f
	}
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

// regularPart evaluates ℘(z) - 1/z² and ℘′(z) + 2/z³.
type regularPart struct {
	lattice weierstrass.Lattice
	series  []float64 // of ℘ - 1/z² in z², from z² on
	radius  float64   // series is used for |z| below it
}

func newRegularPart(lattice weierstrass.Lattice) regularPart {
	inv := lattice.Invariants()
	return regularPart{
		lattice: lattice,
		// The series converges up to the next lattice point, four times the radius in which it is used: term n is of the
		// order 16⁻ⁿ.
		series: laurentSeries(inv.G2, inv.G3, 15),
		radius: min(lattice.Omega1(), lattice.Omega3p()) / 2,
	}
}

func (r regularPart) at(z complex128) (p, pPrime complex128) {
	if cmplx.Abs(z) >= r.radius {
		p, pPrime = r.lattice.Eval(z)
		q, qPrime := principalPartAt(z, 0)
		return p - q, pPrime - qPrime
	}
	w := z * z
	for j, c := range slices.Backward(r.series) { // Σ c_j w^{j+1} and its derivative by z, 2z Σ (j+1) c_j w^j
		p = p*w + complex(c, 0)
		pPrime = pPrime*w + complex(float64(j+1)*c, 0)
	}
	return p * w, 2 * z * pPrime
}
