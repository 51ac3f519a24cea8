// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"fmt"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func ExampleLattice_Eval() {
	l := weierstrass.Square()
	// The centre of the first patch of a 14 × 14 grid that covers 0.4 of the periods.
	z := complex(0.4*0.5/14*2*l.Omega1(), 0.4*0.5/14*2*l.Omega3p())
	p, pp := l.Eval(z)
	fmt.Printf("z  = %.6f\n℘  = %.6f\n℘′ = %.6f\n", z, p, pp)
	// Output:
	// z  = (0.074916+0.074916i)
	// ℘  = (0.000000-89.088361i)
	// ℘′ = (1189.181545+1189.181545i)
}

func ExampleFromInvariants() {
	l, err := weierstrass.FromInvariants(1, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	inv := l.Invariants()
	fmt.Printf("ω1 = %.10f, ω3′ = %.10f\n", l.Omega1(), l.Omega3p())
	fmt.Printf("e1 = %.3f, e3 = %.3f, j = %.0f\n", inv.E1, inv.E3, inv.J)
	_, err = weierstrass.FromInvariants(0.8, 0.2)
	fmt.Println(err)
	// Output:
	// ω1 = 1.8540746773, ω3′ = 1.8540746773
	// e1 = 0.500, e3 = -0.500, j = 1728
	// weierstrass: g2=0.8, g3=0.2 have discriminant -0.568: a rectangular lattice needs a positive, finite one
}
