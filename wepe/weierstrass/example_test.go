// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"fmt"
	"math"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func ExampleLattice_Eval() {
	l := weierstrass.Square()
	omega1, omega3 := l.HalfPeriods()
	z := 0.4 * 0.5 / 14 * 2 * (omega1 + omega3) // the first patch of a 14 × 14 grid that covers 0.4 of the periods
	p, pp := l.Eval(z)
	fmt.Printf("z  = %.6f\n℘  = %.6f\n℘′ = %.6f\n", z, p, pp)
	// Output:
	// z  = (0.074916+0.074916i)
	// ℘  = (0.000000-89.088361i)
	// ℘′ = (1189.181545+1189.181545i)
}

func ExampleHalfPeriods() {
	for _, g := range [][2]float64{{1, 0}, {0.8, 0.2}} { // square, rhombic
		omega1, omega3, err := weierstrass.HalfPeriods(g[0], g[1])
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("ω1 = %.10f, ω3 = %.10f\n", omega1, omega3)
	}
	// Output:
	// ω1 = 1.8540746773, ω3 = (0.0000000000+1.8540746773i)
	// ω1 = 1.7345885361, ω3 = (0.8672942680+2.1268214424i)
}

// The pole of ℘ is the north pole of the Riemann sphere, on any lattice.
func ExampleNew() {
	lattice, err := weierstrass.New(1, 0.25+1.5i)
	point, _ := lattice.Sphere().At(0)
	fmt.Println(point, err)
	// Output: [0 0 1] <nil>
}

// The lattice of the paper: half-periods Γ(1/4)²/(2√(2π)) and invariants 1/4 and 0 (DLMF 23.5.8).
func ExampleSquare() {
	l := weierstrass.Square()
	omega1, _ := l.HalfPeriods()
	inv := l.Invariants()
	fmt.Printf("ω1 = %.6f, g2 = %.6f, g3 = %.6f\n", real(omega1), inv.G2, math.Abs(inv.G3))
	// Output: ω1 = 2.622058, g2 = 0.250000, g3 = 0.000000
}
