// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// tableKind is what the nodes of a look-up table hold.
type tableKind string

const (
	// deflatedTable holds ℘ and ℘′ without the principal parts of the poles at the corners of the cell; these are added
	// back exactly where the table is queried, mathematics.md (7.3).
	deflatedTable tableKind = "deflated"

	// rawTable holds ℘ and ℘′ themselves, as the paper does, with the constant of the truncated sum (LatticeSum.CLarge)
	// at a node that is a pole.
	rawTable tableKind = "raw"
)

// maxTableResolution bounds a table to 268 MB in float32, on the sphere to 403 MB.
const maxTableResolution = 4096

// tableKey is everything that the nodes of a look-up table depend on.
type tableKey struct {
	Mode            mode    // what Omega3p means, see Mode
	Omega1, Omega3p float64 // the half-period ω1, and ω3′
	SpanU, SpanV    float64 // α_u and α_v
	Resolution      int     // nodes along each axis
	Kind            tableKind
}

// validate returns an error that names the field of a key that no table can have.
func (k tableKey) validate() error {
	low, high := k.Mode.omega3Bounds()
	if err := setting.Check([]setting.Row{
		setting.Choice("mode", &k.Mode, "what ω3′ means", paper, release),
		setting.Choice(paramTable, &k.Kind, "what the nodes hold", deflatedTable, rawTable, sphereTable),
		setting.Number(paramTableResolution, &k.Resolution, 2, maxTableResolution, "nodes along each side"),
		setting.Number("ω1", &k.Omega1, minOmega3, maxOmega3, "a half-period"),
		setting.Number("ω3′", &k.Omega3p, low, high, "a half-period"),
		setting.Number("α_u", &k.SpanU, minSpan, maxSpan, "the part of the period 2ω1"),
		setting.Number("α_v", &k.SpanV, minSpan, maxSpan, "the part of the period 2ω3′"),
	}); err != nil {
		return fmt.Errorf("wepe: table of %w", err)
	}
	return nil
}

// halfPeriods are those of the lattice that ℘ belongs to.
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

// poles returns the lattice points, in periods, whose principal parts the nodes lack, (7.2): those corners of the cell
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

// principalParts sums the principal parts that the nodes lack, at distances in periods from the two ends of the cell in
// either direction.
func (k tableKey) principalParts(dx, dy [2]float64) (p, pPrime complex128) {
	a, b := k.halfPeriods()
	radius := poleRadius * 2 / math.Pi * min(a, b)
	for _, pole := range k.poles() {
		q, qPrime := principalPartAt(complex(dx[pole[0]]*2*a, dy[pole[1]]*2*b), radius)
		p, pPrime = p+q, pPrime+qPrime
	}
	return p, pPrime
}

// lookUpTable has ℘ and ℘′ at the nodes of the rectangle that a patch grid spans, or of one cell of the lattice where
// it spans more, mathematics.md section 7. Build it with newTable.
type lookUpTable struct {
	Key tableKey

	// Values are Re ℘, Im ℘, Re ℘′, Im ℘′ at the nodes, less what Key.Kind says: [resolution, resolution, 4], v slowest
	// as in a patch grid, the first and last node on the borders of the rectangle. Of kind sphereTable there are 6, see
	// there.
	Values []float64
}

// functions returns what gives the nodes of a table, and ℘ and ℘′ themselves, at points in periods.
func (k tableKey) functions() (node, exact func(x, y float64) (p, pPrime complex128), err error) {
	if err := k.validate(); err != nil {
		return nil, nil, err
	}
	lattice, err := weierstrass.NewLattice(k.halfPeriods())
	if err != nil {
		return nil, nil, fmt.Errorf("wepe: table: %w", err)
	}
	exact = func(x, y float64) (p, pPrime complex128) {
		return lattice.Eval(complex(x*2*lattice.Omega1(), y*2*lattice.Omega3p()))
	}
	if k.Kind == deflatedTable {
		return deflatedNode(lattice, k), exact, nil
	}
	return rawNode(exact), exact, nil
}

// newTable evaluates ℘ and ℘′ at every node in float64.
func newTable(key tableKey) (*lookUpTable, error) {
	node, err := key.node()
	if err != nil {
		return nil, err
	}
	t := &lookUpTable{Key: key, Values: make([]float64, 0, key.Resolution*key.Resolution*key.channels())}
	u, v := key.extents()
	last := float64(key.Resolution - 1)
	for row := range key.Resolution {
		for col := range key.Resolution {
			t.Values = append(t.Values, node(u*float64(col)/last, v*float64(row)/last)...)
		}
	}
	return t, nil
}

// node returns what gives the numbers of a node at a point in periods.
func (k tableKey) node() (func(x, y float64) []float64, error) {
	if k.Kind == sphereTable {
		return k.sphere()
	}
	node, _, err := k.functions()
	if err != nil {
		return nil, err
	}
	return func(x, y float64) []float64 {
		p, pPrime := node(x, y)
		return []float64{real(p), imag(p), real(pPrime), imag(pPrime)}
	}, nil
}

// fit returns the key of a table with as many nodes as its features need to err by the tolerance at most, no fewer than
// k has, and what that error is. A raw table has the nodes that it was given.
func (k tableKey) fit(alphaScale, tolerance float64) (fitted tableKey, worst float64, err error) {
	for {
		if worst, err = k.errorOf(alphaScale); err != nil || worst <= tolerance || k.Kind == rawTable {
			return k, worst, err
		}
		if k.Resolution == maxTableResolution {
			a, b := k.halfPeriods()
			return k, worst, fmt.Errorf("wepe: %s = %g: on half-periods %g and %gi features out of a table of %d nodes a "+
				"side err by %.2g: evaluate exactly (%s = %q) or allow more", paramTableError, tolerance, a, b, k.Resolution,
				worst, paramEvaluation, evaluateExact)
		}
		factor := max(1.05*math.Sqrt(worst/tolerance), 1.1) // the error is of second order
		k.Resolution = min(1+int(math.Ceil(factor*float64(k.Resolution-1))), maxTableResolution)
	}
}

// rawNode evaluates nodes of a raw table at points in periods.
func rawNode(exact func(x, y float64) (p, pPrime complex128)) func(x, y float64) (p, pPrime complex128) {
	large := complex(DefaultLatticeSum().CLarge, 0)
	return func(x, y float64) (p, pPrime complex128) {
		if p, pPrime = exact(x, y); cmplx.IsInf(p) {
			return large, large
		}
		return p, pPrime
	}
}

// deflatedNode evaluates nodes of a deflated table at points in periods, (7.2).
func deflatedNode(lattice weierstrass.Lattice, key tableKey) func(x, y float64) (p, pPrime complex128) {
	regular := newRegularPart(lattice)
	return func(x, y float64) (p, pPrime complex128) {
		nearest := [2]float64{math.Ceil(x - 0.5), math.Ceil(y - 0.5)} // one of key.poles()
		p, pPrime = regular.at(complex((x-nearest[0])*2*lattice.Omega1(), (y-nearest[1])*2*lattice.Omega3p()))
		for _, pole := range key.poles() {
			m, n := float64(pole[0]), float64(pole[1])
			if nearest != [2]float64{m, n} {
				q, qPrime := principalPartAt(complex((x-m)*2*lattice.Omega1(), (y-n)*2*lattice.Omega3p()), 0)
				p, pPrime = p-q, pPrime-qPrime
			}
		}
		return p, pPrime
	}
}

// cellOffsets takes x, in periods from its nearest lattice point, to its place t in the cell [0, 1] and to its
// distances from the two ends of the cell; the nearer one keeps every digit of x.
func cellOffsets(x float64) (t float64, distance [2]float64) {
	if x < 0 {
		return x + 1, [2]float64{x + 1, x}
	}
	return x, [2]float64{x, x - 1}
}

// principalPartAt returns 1/z² and -2/z³ with the guard of poleTerms: |z| counts as radius below that, and both are 0
// at the pole itself.
func principalPartAt(z complex128, radius float64) (p, pPrime complex128) {
	norm2 := max(real(z)*real(z)+imag(z)*imag(z), radius*radius)
	inv := complex(real(z)/norm2, -imag(z)/norm2)
	return inv * inv, -2 * inv * inv * inv
}

// regularPart evaluates ℘(z) - 1/z² and ℘′(z) + 2/z³.
type regularPart struct {
	lattice weierstrass.Lattice
	series  []float64 // of ℘ - 1/z² in z², from z² on
	radius  float64   // of |z|, below which the series serves
}

func newRegularPart(lattice weierstrass.Lattice) regularPart {
	inv := lattice.Invariants()
	return regularPart{
		lattice: lattice,
		// The series converges up to the next lattice point, four times farther than it is used: term n is of the
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
	for j := len(r.series) - 1; j >= 0; j-- { // Σ c_j w^{j+1} and its derivative by z, 2z Σ (j+1) c_j w^j
		p = p*w + complex(r.series[j], 0)
		pPrime = pPrime*w + complex(float64(j+1)*r.series[j], 0)
	}
	return p * w, 2 * z * pPrime
}
