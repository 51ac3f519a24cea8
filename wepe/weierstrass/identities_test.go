// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/big"
	"math/cmplx"
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
