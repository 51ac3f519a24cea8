// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// forRandomPoints calls f with 300 seeded points in and around the fundamental cell of each of several lattices.
func forRandomPoints(t *testing.T, f func(t *testing.T, l weierstrass.Lattice, z, other complex128)) {
	const square = weierstrass.OmegaSquare
	for _, half := range [][2]float64{{square, square}, {1.3, 0.7}, {0.9, 2.3}, {2, 0.31}} {
		l := lattice(t, half[0], half[1])
		random := rand.New(rand.NewPCG(23, 10))
		point := func() complex128 {
			return complex((random.Float64()-0.5)*5*half[0], (random.Float64()-0.5)*5*half[1])
		}
		for range 300 {
			f(t, l, point(), point())
		}
	}
}

// near tells whether got and want agree to c units of the error law at z, with scale as the floor.
func near(l weierstrass.Lattice, z, got, want complex128, scale, c float64) bool {
	r, _, _ := l.Reduce(z)
	condition := 1 + cmplx.Abs(z)/cmplx.Abs(r)
	return cmplx.Abs(got-want) <= c*roundoff*condition*(cmplx.Abs(want)+scale)
}

func scales(l weierstrass.Lattice) (p, pp float64) {
	inv := l.Invariants()
	return inv.E1 - inv.E3, math.Pow(inv.E1-inv.E3, 1.5)
}

func TestPSolvesItsDifferentialEquation(t *testing.T) {
	forRandomPoints(t, func(t *testing.T, l weierstrass.Lattice, z, _ complex128) {
		inv := l.Invariants()
		p, pp := l.Eval(z)
		left, right := pp*pp, 4*p*p*p-complex(inv.G2, 0)*p-complex(inv.G3, 0)
		a := cmplx.Abs(p)
		floor := inv.E1 - inv.E3
		size := cmplx.Abs(left) + 4*a*a*a + floor*floor*floor
		if cmplx.Abs(left-right) > 40*roundoff*size {
			t.Errorf("%v z=%v: ℘′² = %v, 4℘³−g2℘−g3 = %v", l, z, left, right)
		}
	})
}

func TestPIsEvenAndPPrimeOddToTheLastBit(t *testing.T) {
	forRandomPoints(t, func(t *testing.T, l weierstrass.Lattice, z, _ complex128) {
		p, pp := l.Eval(z)
		if q, qp := l.Eval(-z); q != p || qp != -pp {
			t.Errorf("%v z=%v: Eval(z) = %v, %v, Eval(-z) = %v, %v", l, z, p, pp, q, qp)
		}
		if q, qp := l.Eval(cmplx.Conj(z)); q != cmplx.Conj(p) || qp != cmplx.Conj(pp) {
			t.Errorf("%v z=%v: Eval(z) = %v, %v, Eval(conj z) = %v, %v", l, z, p, pp, q, qp)
		}
	})
}

func TestValuesRepeatWithThePeriods(t *testing.T) {
	forRandomPoints(t, func(t *testing.T, l weierstrass.Lattice, z, _ complex128) {
		p, pp := l.Eval(z)
		size, sizePrime := scales(l)
		for _, shift := range [][2]float64{{1, 0}, {0, 1}, {-3, 2}, {17, -40}} {
			moved := z + complex(2*shift[0]*l.Omega1(), 2*shift[1]*l.Omega3p())
			if q, qp := l.Eval(moved); !near(l, moved, q, p, size, 30) || !near(l, moved, qp, pp, sizePrime, 30) {
				t.Errorf("%v z=%v: Eval = %v, %v but %v periods on %v, %v", l, z, p, pp, shift, q, qp)
			}
		}
	})
}

func TestValuesScaleWithTheLattice(t *testing.T) {
	forRandomPoints(t, func(t *testing.T, l weierstrass.Lattice, z, _ complex128) {
		p, pp := l.Eval(z)
		size, sizePrime := scales(l)
		const c = 3.7
		scaled := lattice(t, c*l.Omega1(), c*l.Omega3p())
		q, qp := scaled.Eval(c * z)
		if !near(l, z, q*(c*c), p, size, 60) || !near(l, z, qp*(c*c*c), pp, sizePrime, 60) {
			t.Errorf("%v z=%v: ℘ = %v, ℘′ = %v, scaled by %v %v, %v", l, z, p, pp, c, q*(c*c), qp*(c*c*c))
		}
		swapped := lattice(t, l.Omega3p(), l.Omega1())
		if q, qp = swapped.Eval(z * -1i); q != -p || qp*1i != pp {
			if !near(l, z, -q, p, size, 14) || !near(l, z, qp*1i, pp, sizePrime, 14) { // the square lattice may differ
				t.Errorf("%v z=%v: ℘ = %v, ℘′ = %v, swapped %v, %v", l, z, p, pp, -q, qp*1i)
			}
		}
	})
}

// The sum is compared to as much as a relative change of the four given values by a few ε can move it.
func TestAddAgreesWithEvalAtTheSum(t *testing.T) {
	forRandomPoints(t, func(t *testing.T, l weierstrass.Lattice, z, other complex128) {
		if ratio := l.Omega3p() / l.Omega1(); ratio < 0.5 || ratio > 2.6 {
			return // on thin lattices ℘ is nearly constant between poles, and its values say little about z
		}
		z, _, _ = l.Reduce(z)
		other, _, _ = l.Reduce(other)
		p1, pp1 := l.Eval(z)
		for _, z2 := range []complex128{other, z, z + 1e-9, z + 1e-5i} {
			p2, pp2 := l.Eval(z2)
			got, gotPrime := l.Add(p1, pp1, p2, pp2)
			size, sizePrime := scales(l)
			tolerance, tolerancePrime := size, sizePrime
			for i := range 4 {
				const change = 1e-9
				in := [4]complex128{p1, pp1, p2, pp2}
				in[i] += complex(change*(cmplx.Abs(in[i])+[]float64{size, sizePrime}[i%2]), 0)
				moved, movedPrime := l.Add(in[0], in[1], in[2], in[3])
				tolerance += cmplx.Abs(moved-got) / change
				tolerancePrime += cmplx.Abs(movedPrime-gotPrime) / change
			}
			want, wantPrime := l.Eval(z + z2)
			c, cPrime := cmplx.Abs(got-want)/tolerance/roundoff, cmplx.Abs(gotPrime-wantPrime)/tolerancePrime/roundoff
			if !(c <= 20) || !(cPrime <= 20) {
				t.Errorf("%v: Add at %v, %v = %v, %v, want %v, %v: off by %.3g and %.3g units",
					l, z, z2, got, gotPrime, want, wantPrime, c, cPrime)
			}
		}
	})
}

func TestReduceIsExactManyPeriodsAway(t *testing.T) {
	for _, l := range []weierstrass.Lattice{weierstrass.Square(), lattice(t, 1.3, 0.007)} {
		for _, x := range []float64{1, -7.3, 1e3, -123456.789, 1e15, 3e22, -1e300, math.MaxFloat64} {
			r, m, n := l.Reduce(complex(x, -x))
			for _, axis := range []struct {
				name                 string
				x, half, rest, count float64
			}{{"Re", x, l.Omega1(), real(r), m}, {"Im", -x, l.Omega3p(), imag(r), n}} {
				if math.Abs(axis.rest) > axis.half {
					t.Errorf("%v: %s of %g reduces to %v, outside the cell", l, axis.name, axis.x, axis.rest)
				}
				// x − rest must be an integer number of periods, exactly.
				exact := new(big.Rat).Sub(new(big.Rat).SetFloat64(axis.x), new(big.Rat).SetFloat64(axis.rest))
				exact.Quo(exact, new(big.Rat).SetFloat64(2*axis.half))
				if !exact.IsInt() {
					t.Errorf("%v: %s of %g reduces to %v, %s periods away",
						l, axis.name, axis.x, axis.rest, exact.FloatString(9))
				}
				if want, _ := exact.Float64(); math.Abs(axis.count-want) > 2*roundoff*math.Abs(want) {
					t.Errorf("%v: %s of %g is %v periods away, want %v", l, axis.name, axis.x, axis.count, want)
				}
			}
		}
	}
}

func TestHugeArgumentsKeepEveryDigit(t *testing.T) {
	for _, half := range [][2]float64{{1, 1.5}, {2.5, 0.75}} { // multiples of the periods are exact in float64
		l := lattice(t, half[0], half[1])
		for _, z := range []complex128{0.375 + 0.5i, -0.125 + 0.0625i, complex(0x1p-8, -0x1p-9)} {
			p, pp := l.Eval(z)
			for _, count := range []float64{1, -1000, 1 << 30, 1 << 42} {
				far := z + complex(2*count*half[0], -2*count*half[1])
				if q, qp := l.Eval(far); q != p || qp != pp {
					t.Errorf("%v: Eval(%v) = %v, %v, want that of %v: %v, %v", l, far, q, qp, z, p, pp)
				}
			}
		}
	}
}

// ζ(z+2ω) − ζ(z) = 2η and ζ′ = −℘ give η as an integral of ℘ over a period, for which the trapezoidal rule
// converges exponentially.
func TestQuasiPeriodsAreIntegralsOfPAndMeetLegendresRelation(t *testing.T) {
	for _, half := range [][2]float64{{1.3, 0.7}, {0.9, 2.3}, {1, 1}, {2, 0.8}} {
		l := lattice(t, half[0], half[1])
		const steps = 400
		var along, up complex128
		for i := range steps {
			s := 2 * float64(i) / steps
			along -= l.P(complex(s*half[0], half[1])) * complex(half[0]/steps, 0)
			up -= l.P(complex(half[0], s*half[1])) * complex(0, half[1]/steps)
		}
		inv := l.Invariants()
		eta1, eta3 := complex(inv.Eta1, 0), complex(0, inv.Eta3)
		size := math.Max(cmplx.Abs(eta1), cmplx.Abs(eta3))
		if cmplx.Abs(along-eta1) > 1e-13*size || cmplx.Abs(up-eta3) > 1e-13*size {
			t.Errorf("%v: η1, η3 = %v, %v, integrated %v, %v", l, eta1, eta3, along, up)
		}
		legendre := along*complex(0, half[1]) - up*complex(half[0], 0)
		if cmplx.Abs(legendre-complex(0, math.Pi/2)) > 1e-13*math.Pi {
			t.Errorf("%v: η1ω3 − η3ω1 = %v, want iπ/2", l, legendre)
		}
	}
}
