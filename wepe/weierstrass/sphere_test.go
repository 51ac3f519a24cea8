// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"encoding/json"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/wepe-go/wepe/internal/is"
)

func TestSphereEqualsHighPrecision(t *testing.T) {
	data, err := os.ReadFile("testdata/sphere.json") // mpmath in 60 digits, see testdata/README.md
	if err != nil {
		t.Fatal(err)
	}
	var reference struct {
		Lattices []struct {
			Name   string
			Omega1 float64
			Omega3 [2]float64
			Points []struct {
				Z            [2]float64
				Point, Prime [3]float64
			}
		}
	}
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	for _, want := range reference.Lattices {
		t.Run(want.Name, func(t *testing.T) {
			omega1, omega3 := complex(want.Omega1, 0), complex(want.Omega3[0], want.Omega3[1])
			got := oblique(t, omega1, omega3).Sphere()
			ratio := max(want.Omega1/want.Omega3[1], want.Omega3[1]/want.Omega1)
			tolerance := 5e-15 + 1e-16*math.Exp(math.Pi/2*ratio) // see Sphere
			for _, at := range want.Points {
				point, prime := got.At(complex(at.Z[0], at.Z[1]))
				if d := max(distance(point, at.Point), distance(prime, at.Prime)); !(d <= tolerance) {
					t.Errorf("at %v: S(w) = %v, S(w′) = %v, want %v, %v: off by %.2g", at.Z, point, prime, at.Point, at.Prime, d)
				}
			}
		})
	}
}

// normalized contains c, r and c′ of w = (℘ − c)/r and w′ = ℘′/c′ by their definitions, (14.2) and (14.3).
type normalized struct {
	centre            complex128
	scale, scalePrime float64
}

func normal(t *testing.T, omega1, omega3 complex128) (n normalized) {
	l := oblique(t, omega1, omega3)
	var e [3]complex128
	for i, half := range [3]complex128{omega1, omega1 + omega3, omega3} {
		e[i], _ = l.Eval(half)
	}
	d := [3]float64{cmplx.Abs(e[1] - e[2]), cmplx.Abs(e[2] - e[0]), cmplx.Abs(e[0] - e[1])}
	perimeter, product := d[0]+d[1]+d[2], d[0]*d[1]*d[2]
	for i := range e {
		n.centre += e[i] * complex(d[i]/perimeter, 0)
	}
	n.scale = math.Sqrt(2 * product / perimeter)
	n.scalePrime = math.Pow(16*product*product/3, 0.25) // |Δ| = 16 (d1 d2 d3)²
	return n
}

func distance(a, b [3]float64) float64 {
	return math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2])
}

// stereographic is S by its definition, (14.1), and plane its inverse.
func stereographic(w complex128) [3]float64 {
	m := norm2(w)
	return [3]float64{2 * real(w) / (m + 1), 2 * imag(w) / (m + 1), (m - 1) / (m + 1)}
}

func plane(p [3]float64) complex128 { return complex(p[0], p[1]) / complex(1-p[2], 0) }

func TestSphereObeysItsLawsOnEveryLattice(t *testing.T) {
	omega1, omega3, err := HalfPeriods(0, 1) // hexagonal, DLMF 23.5(v)
	if err != nil {
		t.Fatal(err)
	}
	for i, basis := range append(obliqueBases, [2]complex128{complex(omega1, 0), omega3}) {
		t.Run(fmt.Sprintf("projection of ℘ and ℘′ on %v", basis), func(t *testing.T) { projects(t, basis, uint64(i)) })
		t.Run(fmt.Sprintf("smooth at poles on %v", basis), func(t *testing.T) { smoothAtPoles(t, basis) })
	}
}

func projects(t *testing.T, basis [2]complex128, seed uint64) {
	l, n, random := oblique(t, basis[0], basis[1]), normal(t, basis[0], basis[1]), rand.New(rand.NewPCG(3, seed))
	for range 40 { // up to two cells away
		z := complex(4*random.Float64()-2, 0)*basis[0] + complex(4*random.Float64()-2, 0)*basis[1]
		p, pp := l.Eval(z)
		point, prime := l.Sphere().At(z)
		if d := distance(point, stereographic((p-n.centre)/complex(n.scale, 0))); !(d < 1e-12) {
			t.Errorf("S(w) at %v is off by %.2g", z, d)
		}
		if d := distance(prime, stereographic(pp/complex(n.scalePrime, 0))); !(d < 1e-12) {
			t.Errorf("S(w′) at %v is off by %.2g", z, d)
		}
		for _, factor := range []float64{0.2, 1, 30} {
			// The pole w of a point is only accurate to ε|w|³, of which S(factor w) keeps 2/(factor |w|²).
			w := plane(point)
			bound := 1e-12 + 4*0x1p-52*cmplx.Abs(w)/factor
			if d := distance(Dilated(point, factor), stereographic(complex(factor, 0)*w)); !(d < bound) {
				t.Errorf("S(%g w) at %v is off by %.2g, want %.2g", factor, z, d, bound)
			}
		}
	}
}

func smoothAtPoles(t *testing.T, basis [2]complex128) {
	at, n, north := oblique(t, basis[0], basis[1]).Sphere().At, normal(t, basis[0], basis[1]), [3]float64{0, 0, 1}
	for _, pole := range []complex128{0, 2 * basis[0], -2*basis[0] + 4*basis[1]} {
		point, prime := at(pole)
		if !(distance(point, north) < 1e-13 && distance(prime, north) < 1e-13) {
			t.Errorf("at the pole %v: %v, %v", pole, point, prime)
		}
		is.Equal(t, "∞ times 1e-6", Dilated(north, 1e-6), north)
	}
	for _, direction := range []complex128{1, 1i, -0.6 + 0.8i} {
		for r := 1e-2; r > 1e-300; r *= 1e-7 { // S(w) = north + O(z²), S(w′) = north + O(z³)
			z := complex(r, 0) * direction * complex(cmplx.Abs(basis[0]), 0)
			point, prime := at(z)
			bound := max(n.scale*norm2(z), n.scalePrime*math.Pow(cmplx.Abs(z), 3))
			if d := max(distance(point, north), distance(prime, north)); !(d < 3*bound+1e-15) {
				t.Errorf("%.0g from the pole: %v, %v", r, point, prime)
			}
		}
	}
	if nan, _ := at(cmplx.NaN()); !math.IsNaN(nan[0]) {
		t.Errorf("at NaN: %v", nan)
	}
}

func TestSphereOfThinCells(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 17))
	for _, ratio := range []float64{30, 1e3, 1e6} {
		for _, shape := range [][2]float64{{1, ratio}, {ratio, 1}} {
			s := lattice(t, shape[0], shape[1]).Sphere()
			for i := range 60 {
				x, y := random.Float64()-0.5, random.Float64()-0.5
				if i < 9 { // half-periods and the pole
					x, y = float64(i%3-1)/2, float64(i/3-1)/2
				}
				z := complex(2*x*shape[0], 2*y*shape[1])
				point, prime := s.At(z)
				for _, p := range [][3]float64{point, prime} {
					if d := math.Abs(distance(p, [3]float64{}) - 1); !(d < 1e-14) {
						t.Errorf("%v: |S| at %v is off 1 by %.2g: %v", shape, z, d, p)
					}
				}
			}
		}
	}
}
