// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// near reports whether got and want are equal to c units of the error bound at z, with scale as the floor.
func near(l Lattice, z, got, want complex128, scale, c float64) bool {
	condition := 1 + cmplx.Abs(z)/cmplx.Abs(l.reduce(z))
	return cmplx.Abs(got-want) <= c*roundoff*condition*(cmplx.Abs(want)+scale)
}

func scales(l Lattice) (p, pp float64) {
	inv := l.Invariants()
	return inv.E1 - inv.E3, math.Pow(inv.E1-inv.E3, 1.5)
}

func TestValuesObeyTheIdentitiesOfTheFunctionsAtRandomPoints(t *testing.T) {
	const square = OmegaSquare
	for _, half := range [][2]float64{{square, square}, {1.3, 0.7}, {0.9, 2.3}, {2, 0.31}} {
		l, random := lattice(t, half[0], half[1]), rand.New(rand.NewPCG(23, 10))
		for range 300 {
			point := func() complex128 {
				return complex((random.Float64()-0.5)*5*half[0], (random.Float64()-0.5)*5*half[1])
			}
			testIdentities(t, l, point(), point())
		}
	}
}

func testIdentities(t *testing.T, l Lattice, z, other complex128) {
	t.Helper()
	p, pp := l.Eval(z)
	size, sizePrime := scales(l)
	check := func(what string, ok bool, q, qp complex128) {
		t.Helper()
		if !ok {
			t.Errorf("%v z=%v: %s: ℘ = %v, ℘′ = %v become %v, %v", l, z, what, p, pp, q, qp)
		}
	}

	inv, a := l.Invariants(), cmplx.Abs(p)
	left, right := pp*pp, 4*p*p*p-complex(inv.G2, 0)*p-complex(inv.G3, 0)
	check("℘′² = 4℘³ − g2℘ − g3", cmplx.Abs(left-right) <= 40*roundoff*(cmplx.Abs(left)+4*a*a*a+size*size*size), left,
		right)

	q, qp := l.Eval(-z)
	check("even and odd to the last bit", q == p && qp == -pp, q, qp)
	q, qp = l.Eval(cmplx.Conj(z))
	check("real on the real axis", q == cmplx.Conj(p) && qp == cmplx.Conj(pp), q, qp)

	for _, shift := range [][2]float64{{1, 0}, {0, 1}, {-3, 2}, {17, -40}} {
		moved := z + complex(2*shift[0]*real(l.omega1), 2*shift[1]*imag(l.omega3))
		q, qp = l.Eval(moved)
		check("some periods away", near(l, moved, q, p, size, 30) && near(l, moved, qp, pp, sizePrime, 30), q, qp)
	}

	// The addition formula, (5.1) to (5.4), except for the digits that the difference of its chord loses.
	p2, pp2 := l.Eval(other)
	slope := (pp - pp2) / (p - p2)
	sum := slope*slope/4 - p - p2
	sumPrime := -(slope*(sum-p) + pp)
	q, qp = l.Eval(z + other)
	loss := (cmplx.Abs(pp)+cmplx.Abs(pp2)+sizePrime)/cmplx.Abs(pp-pp2) + (a+cmplx.Abs(p2)+size)/cmplx.Abs(p-p2)
	loss *= 1 + cmplx.Abs(slope*slope)/cmplx.Abs(q)
	check("added to another", cmplx.Abs(sum-q) <= 100*roundoff*loss*(cmplx.Abs(q)+size) &&
		cmplx.Abs(sumPrime-qp) <= 300*roundoff*loss*(cmplx.Abs(qp)+sizePrime+cmplx.Abs(pp)), sum, sumPrime)

	const c = 3.7
	q, qp = lattice(t, c*real(l.omega1), c*imag(l.omega3)).Eval(c * z)
	q, qp = c*c*q, c*c*c*qp
	check("on a larger lattice", near(l, z, q, p, size, 60) && near(l, z, qp, pp, sizePrime, 60), q, qp)

	q, qp = lattice(t, imag(l.omega3), real(l.omega1)).Eval(z * -1i)
	q, qp = -q, qp*1i
	// the rows of both run along the real axis
	check("axes swapped", q == p && qp == pp || real(l.omega1) == imag(l.omega3) &&
		near(l, z, q, p, size, 14) && near(l, z, qp, pp, sizePrime, 14), q, qp)
}

func TestReduceIsExactManyPeriodsAway(t *testing.T) {
	for _, l := range []Lattice{Square(), lattice(t, 1.3, 0.007)} {
		for _, x := range []float64{1, -7.3, 1e3, -123456.789, 1e15, 3e22, -1e300, math.MaxFloat64} {
			r := l.reduce(complex(x, -x))
			for _, axis := range []struct {
				name          string
				x, half, rest float64
			}{{"Re", x, real(l.omega1), real(r)}, {"Im", -x, imag(l.omega3), imag(r)}} {
				if !(math.Abs(axis.rest) <= axis.half) {
					t.Errorf("%v: %s of %g reduces to %v, outside the cell", l, axis.name, axis.x, axis.rest)
				}
				// x − rest must be an integer number of periods, exactly.
				exact := new(big.Rat).Sub(new(big.Rat).SetFloat64(axis.x), new(big.Rat).SetFloat64(axis.rest))
				exact.Quo(exact, new(big.Rat).SetFloat64(2*axis.half))
				if !exact.IsInt() {
					t.Errorf("%v: %s of %g reduces to %v, %s periods away",
						l, axis.name, axis.x, axis.rest, exact.FloatString(9))
				}
			}
		}
	}
}
