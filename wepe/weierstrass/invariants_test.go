// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"math"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func TestReferenceInvariants(t *testing.T) {
	var file struct {
		Lattices []struct {
			Lattice         string
			Omega1, Omega3p float64
			G2              float64 `json:"g2_f64"`
			G3              float64 `json:"g3_f64"`
			E1              float64 `json:"e1_f64"`
			E2              float64 `json:"e2_f64"`
			E3              float64 `json:"e3_f64"`
			Delta           float64 `json:"disc_f64"`
			J               float64 `json:"j_f64"`
			Eta1            float64 `json:"eta1_f64"`
			Eta3            float64 `json:"eta3_im_f64"`
			DG2             float64 `json:"dg2_dw3_f64"`
			DG3             float64 `json:"dg3_dw3_f64"`
			DE1             float64 `json:"de1_dw3_f64"`
			DE2             float64 `json:"de2_dw3_f64"`
			DE3             float64 `json:"de3_dw3_f64"`
		}
	}
	fixtures.JSON(t, set, "invariants.json", &file)
	if len(file.Lattices) == 0 {
		t.Fatal("no lattices")
	}
	for _, want := range file.Lattices {
		l := lattice(t, want.Omega1, want.Omega3p)
		got, gradient := l.Invariants(), l.InvariantsGradient()
		size := want.E1 - want.E3
		eta := math.Max(math.Abs(want.Eta1), math.Abs(want.Eta3))
		for _, row := range []struct {
			name            string
			got, want, size float64
			unitsOfRoundoff float64
		}{
			{"g2", got.G2, want.G2, size * size, 10},
			{"g3", got.G3, want.G3, size * size * size, 10},
			{"e1", got.E1, want.E1, size, 5},
			{"e2", got.E2, want.E2, size, 5},
			{"e3", got.E3, want.E3, size, 5},
			{"Δ", got.Delta, want.Delta, want.Delta, 200}, // 12th power of k, 2nd of exp(−πω3′/ω1)
			{"j", got.J, want.J, want.J, 200},
			{"η1", got.Eta1, want.Eta1, eta, 5},
			{"η3/i", got.Eta3, want.Eta3, eta, 5},
			{"∂g2", gradient.G2, want.DG2, size * size / want.Omega3p, 40},
			{"∂g3", gradient.G3, want.DG3, size * size * size / want.Omega3p, 40},
			{"∂e1", gradient.E1, want.DE1, size / want.Omega3p, 40},
			{"∂e2", gradient.E2, want.DE2, size / want.Omega3p, 40},
			{"∂e3", gradient.E3, want.DE3, size / want.Omega3p, 40},
		} {
			c := math.Abs(row.got-row.want) / (roundoff * (math.Abs(row.want) + row.size))
			if !(c <= row.unitsOfRoundoff) {
				t.Errorf("%s: %s = %v, want %v: %.3g units of roundoff > %v",
					want.Lattice, row.name, row.got, row.want, c, row.unitsOfRoundoff)
			}
		}

		back, err := weierstrass.FromInvariants(want.G2, want.G3)
		if err != nil {
			t.Errorf("%s: %v", want.Lattice, err)
			continue
		}
		// The given g2 and g3 are rounded, and Δ = g2³−27g3² magnifies that by g2³/Δ = j/1728.
		tolerance := 16 * roundoff * (1 + want.J/1728)
		if math.Abs(back.Omega1()/want.Omega1-1) > tolerance || math.Abs(back.Omega3p()/want.Omega3p-1) > tolerance {
			t.Errorf("%s: FromInvariants(%v, %v) = %v, want half-periods %v, %v to %.2g",
				want.Lattice, want.G2, want.G3, back, want.Omega1, want.Omega3p, tolerance)
		}
	}
}

func TestTheSquareLatticeHasG2OneQuarter(t *testing.T) {
	gamma := math.Gamma(0.25)
	if want := gamma * gamma / (2 * math.Sqrt(2*math.Pi)); math.Abs(weierstrass.OmegaSquare-want) > 1e-15*want {
		t.Errorf("OmegaSquare = %v, Γ(1/4)²/(2√(2π)) = %v", weierstrass.OmegaSquare, want)
	}
	l := weierstrass.Square()
	if l.Omega1() != 2.6220575542921196 || l.Omega3p() != l.Omega1() {
		t.Errorf("Square() = %v, want half-periods 2.6220575542921196", l)
	}
	inv := l.Invariants()
	for _, row := range []struct {
		name            string
		got, want, size float64
	}{
		{"g2", inv.G2, 0.25, 1}, {"g3", inv.G3, 0, 1}, {"e1", inv.E1, 0.25, 1}, {"e2", inv.E2, 0, 1},
		{"e3", inv.E3, -0.25, 1}, {"Δ", inv.Delta, 1.0 / 64, 1}, {"j", inv.J, 1728, 1728},
		{"η1", inv.Eta1, math.Pi / (4 * l.Omega1()), 1}, // η1ω1 = π/4: Legendre with η3 = −iη1
	} {
		if math.Abs(row.got-row.want) > 8*roundoff*row.size {
			t.Errorf("%s = %v, want %v", row.name, row.got, row.want)
		}
	}
	one, err := weierstrass.FromInvariants(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := gamma * gamma / (4 * math.Sqrt(math.Pi))
	if math.Abs(one.Omega1()-want) > 2e-15 || math.Abs(one.Omega3p()-want) > 2e-15 {
		t.Errorf("g2 = 1, g3 = 0 gives %v, want half-periods %v", one, want)
	}
}

func TestFromInvariantsInvertsInvariants(t *testing.T) {
	for _, half := range [][2]float64{{1, 1.1}, {1.1, 1}, {0.03, 0.05}, {40, 29}, {1, 1.9}, {1.9, 1}} {
		inv := lattice(t, half[0], half[1]).Invariants()
		l, err := weierstrass.FromInvariants(inv.G2, inv.G3)
		if err != nil {
			t.Fatal(err)
		}
		tolerance := 50 * roundoff * inv.J / 1728
		if math.Abs(l.Omega1()/half[0]-1) > tolerance || math.Abs(l.Omega3p()/half[1]-1) > tolerance {
			t.Errorf("half-periods %v come back as %v, tolerance %.2g", half, l, tolerance)
		}
	}
}

func TestBadHalfPeriodsAndInvariantsAreRefusedByName(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, bad := range []float64{0, -1, nan, inf, -inf} {
		if _, err := weierstrass.NewLattice(bad, 1); err == nil || !strings.Contains(err.Error(), "omega1 is") {
			t.Errorf("NewLattice(%v, 1): %v, want an error that names omega1", bad, err)
		}
		if _, err := weierstrass.NewLattice(1, bad); err == nil || !strings.Contains(err.Error(), "omega3p is") {
			t.Errorf("NewLattice(1, %v): %v, want an error that names omega3p", bad, err)
		}
	}
	for _, bad := range [][2]float64{{0, 0}, {3, 1}, {0.8, 0.2}, {-1, 0}, {nan, 0}, {1, nan}, {inf, 0}, {1, inf}} {
		_, err := weierstrass.FromInvariants(bad[0], bad[1])
		if err == nil || !strings.Contains(err.Error(), "discriminant") {
			t.Errorf("FromInvariants(%v, %v): %v, want an error that names the discriminant", bad[0], bad[1], err)
		}
	}
}
