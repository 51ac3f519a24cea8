// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"encoding/json"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// sphereReference is testdata/sphere.json: mpmath in 60 digits, see testdata/README.md.
type sphereReference struct {
	Lattices []struct {
		Name       string
		Omega1     float64
		Omega3     [2]float64
		Roots      [3][2]float64
		Centre     [2]float64
		Scale      float64
		ScalePrime float64 `json:"scale_prime"`
		Points     []struct {
			Z            [2]float64
			Point, Prime [3]float64
		}
	}
}

func TestSphereEqualsHighPrecision(t *testing.T) {
	data, err := os.ReadFile("testdata/sphere.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference sphereReference
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	for _, want := range reference.Lattices {
		t.Run(want.Name, func(t *testing.T) {
			spheres := map[string]weierstrass.Sphere{
				"oblique": oblique(t, complex(want.Omega1, 0), complex(want.Omega3[0], want.Omega3[1])).Sphere(),
			}
			if want.Omega3[0] == 0 {
				l, err := weierstrass.NewLattice(want.Omega1, want.Omega3[1])
				if err != nil {
					t.Fatal(err)
				}
				spheres["rectangular"] = l.Sphere()
			}
			ratio := max(want.Omega1/want.Omega3[1], want.Omega3[1]/want.Omega1)
			size := math.Hypot(want.Roots[0][0], want.Roots[0][1])
			tolerance := 5e-15 + 1e-16*math.Exp(math.Pi/2*ratio) // see Sphere
			for form, got := range spheres {
				for i, root := range want.Roots {
					within(t, form+": root", got.Roots()[i], complex(root[0], root[1]), 4e-15*size)
				}
				within(t, form+": centre", got.Centre(), complex(want.Centre[0], want.Centre[1]), 4e-15*size)
				within(t, form+": scale over its value", complex(got.Scale()/want.Scale, 0), 1, 4e-15)
				within(t, form+": scale of ℘′ over its value", complex(got.ScalePrime()/want.ScalePrime, 0), 1, 4e-15)
				for _, at := range want.Points {
					point, prime := got.At(complex(at.Z[0], at.Z[1]))
					if d := max(distance(point, at.Point), distance(prime, at.Prime)); !(d <= tolerance) {
						t.Errorf("%s: at %v: S(w) = %v, S(w′) = %v, want %v, %v: off by %.2g", form, at.Z, point, prime,
							at.Point, at.Prime, d)
					}
				}
			}
		})
	}
}

func within(t *testing.T, what string, got, want complex128, tolerance float64) {
	t.Helper()
	if !(cmplx.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v: off by %.2g", what, got, want, cmplx.Abs(got-want))
	}
}

func distance(a, b [3]float64) float64 {
	return math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2])
}

// stereographic is S as it is defined, (14.1).
func stereographic(w complex128) [3]float64 {
	m := norm2(w)
	return [3]float64{2 * real(w) / (m + 1), 2 * imag(w) / (m + 1), (m - 1) / (m + 1)}
}

func turned(r [3][3]float64, x [3]float64) (y [3]float64) {
	for i := range y {
		for j := range x {
			y[i] += r[i][j] * x[j]
		}
	}
	return y
}

// sphereLattices calls f with lattices of every kind, by their half-periods.
func sphereLattices(t *testing.T, f func(t *testing.T, omega1, omega3 complex128, s weierstrass.Sphere)) {
	bases := append([][2]complex128{{2.6, 2.6i}, {1, 3.1i}, {2.9, 0.8i}}, obliqueBases...)
	for _, basis := range bases {
		l := oblique(t, basis[0], basis[1])
		t.Run(l.String(), func(t *testing.T) { f(t, basis[0], basis[1], l.Sphere()) })
	}
}

func TestSphereIsStereographicProjectionOfP(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	sphereLattices(t, func(t *testing.T, omega1, omega3 complex128, s weierstrass.Sphere) {
		l := oblique(t, omega1, omega3)
		g2, g3 := l.Invariants()
		delta := g2*g2*g2 - 27*g3*g3
		fourth := complex(math.Pow(s.ScalePrime(), 4), 0)
		within(t, "c′⁴", fourth, complex(cmplx.Abs(delta)/3, 0), 1e-9*cmplx.Abs(g2*g2*g2))
		for range 40 {
			z := complex(4*random.Float64()-2, 0)*omega1 + complex(4*random.Float64()-2, 0)*omega3
			p, pp := l.Eval(z)
			point, prime := s.At(z)
			if d := distance(point, stereographic((p-s.Centre())/complex(s.Scale(), 0))); !(d < 1e-12) {
				t.Errorf("S(w) at %v is off by %.2g", z, d)
			}
			if d := distance(prime, stereographic(pp/complex(s.ScalePrime(), 0))); !(d < 1e-12) {
				t.Errorf("S(w′) at %v is off by %.2g", z, d)
			}
		}
	})
}

func TestSphereTurnsByARotationAtHalfPeriods(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	sphereLattices(t, func(t *testing.T, omega1, omega3 complex128, s weierstrass.Sphere) {
		for i, half := range []complex128{omega1, omega1 + omega3, omega3} {
			r := s.Rotation(i + 1)
			for j := range r { // orthogonal, and its own inverse
				want := [3]float64{}
				want[j] = 1
				if d := distance(turned(r, turned(r, want)), want); !(d < 1e-14) {
					t.Errorf("rotation %d applied twice is off by %.2g", i+1, d)
				}
				if d := distance(turned(r, want), [3]float64{r[j][0], r[j][1], r[j][2]}); !(d < 1e-15) {
					t.Errorf("rotation %d is not symmetric by %.2g", i+1, d)
				}
			}
			for range 40 {
				z := complex(4*random.Float64()-2, 0)*omega1 + complex(4*random.Float64()-2, 0)*omega3
				at, _ := s.At(z)
				shifted, _ := s.At(z + half)
				if d := distance(shifted, turned(r, at)); !(d < 2e-14) {
					t.Errorf("S(w) at %v + half-period %d is off the rotation by %.2g", z, i+1, d)
				}
			}
		}
	})
}

func TestSphereMeanVanishesOverTheCell(t *testing.T) {
	const n = 48
	sphereLattices(t, func(t *testing.T, omega1, omega3 complex128, s weierstrass.Sphere) {
		var mean, meanPrime [3]float64
		var logs float64
		l := oblique(t, omega1, omega3)
		for i := range n {
			for j := range n {
				z := complex((float64(i)+0.5)/n*2, 0)*omega1 + complex((float64(j)+0.5)/n*2, 0)*omega3
				point, prime := s.At(z)
				for c := range mean {
					mean[c] += point[c] / n / n
					meanPrime[c] += prime[c] / n / n
				}
				logs += math.Log(cmplx.Abs(l.PPrime(z))/s.ScalePrime()) / n / n
			}
		}
		// The grid is symmetric under the shifts by half-periods and under z → −z: its own mean vanishes, not only the
		// integral's.
		if d := distance(mean, [3]float64{}); !(d < 1e-13) {
			t.Errorf("mean of S(w) is %v", mean)
		}
		if d := math.Hypot(meanPrime[0], meanPrime[1]); !(d < 1e-13) || !(math.Abs(meanPrime[2]) < 0.066) {
			t.Errorf("mean of S(w′) is %v, want (0, 0, between −0.066 and 0.066)", meanPrime)
		}
		// Jensen: the mean of log|℘′| is ¼ log|Δ| (14.11). A mean over points has an error of the order log n/n².
		if d := logs - math.Log(3)/4; !(math.Abs(d) < 0.01) {
			t.Errorf("mean of log|w′| is %.4f, want ¼ log 3 = %.4f", logs, math.Log(3)/4)
		}
	})
}

func TestSphereOfHexagonalLatticeIsEvenlySpread(t *testing.T) {
	const n = 48
	var mean [3]float64
	l := hexagonal(t)
	s := l.Sphere()
	for i := range n {
		for j := range n {
			z := complex((float64(i)+0.5)/n*2, 0)*l.Omega1() + complex((float64(j)+0.5)/n*2, 0)*l.Omega3()
			_, prime := s.At(z)
			for c := range mean {
				mean[c] += prime[c] / n / n
			}
		}
	}
	if d := distance(mean, [3]float64{}); !(d < 1e-13) {
		t.Errorf("mean of S(w′) is %v, want 0", mean)
	}
}

func TestSphereOnRectangularLattices(t *testing.T) {
	for _, shape := range [][2]float64{{2.5, 2.5}, {1.1, 2.3}, {2.9, 0.7}} {
		l, err := weierstrass.NewLattice(shape[0], shape[1])
		if err != nil {
			t.Fatal(err)
		}
		s, v := l.Sphere(), l.Invariants()
		size := v.E1 - v.E3
		within(t, "centre", s.Centre(), complex(v.E2, 0), 1e-15*size)
		scale, scalePrime := math.Sqrt((v.E1-v.E2)*(v.E2-v.E3)), math.Pow(v.Delta/3, 0.25)
		within(t, "scale", complex(s.Scale(), 0), complex(scale, 0), 1e-14*size)
		within(t, "scale of ℘′", complex(s.ScalePrime(), 0), complex(scalePrime, 0), 1e-14*math.Pow(size, 1.5))
		// (14.10): the modulus k and its complement.
		k, complement := math.Sqrt((v.E2-v.E3)/size), math.Sqrt((v.E1-v.E2)/size)
		for i, n := range [3][3]float64{{k, 0, complement}, {0, 1, 0}, {complement, 0, -k}} {
			r := s.Rotation(i + 1)
			if d := distance(turned(r, n), n); !(d < 1e-13) {
				t.Errorf("%v: %v is not the axis of rotation %d, off by %.2g", l, n, i+1, d)
			}
		}
	}
}

func TestSphereIsContinuousAtPoles(t *testing.T) {
	sphereLattices(t, func(t *testing.T, omega1, omega3 complex128, s weierstrass.Sphere) {
		north := [3]float64{0, 0, 1}
		for _, pole := range []complex128{0, 2 * omega1, -2*omega1 + 4*omega3} {
			if point, prime := s.At(pole); !(distance(point, north) < 1e-13 && distance(prime, north) < 1e-13) {
				t.Errorf("at the pole %v: %v, %v", pole, point, prime)
			}
		}
		for _, direction := range []complex128{1, 1i, -0.6 + 0.8i} {
			for r := 1e-2; r > 1e-300; r *= 1e-7 { // S(w) = north + O(z²), S(w′) = north + O(z³)
				z := complex(r, 0) * direction * complex(cmplx.Abs(omega1), 0)
				point, prime := s.At(z)
				scale := max(s.Scale()*norm2(z), s.ScalePrime()*math.Pow(cmplx.Abs(z), 3))
				if d := max(distance(point, north), distance(prime, north)); !(d < 3*scale+1e-15) {
					t.Errorf("%.0g from the pole: %v, %v", r, point, prime)
				}
			}
		}
		nan, _ := s.At(cmplx.NaN())
		if !math.IsNaN(nan[0]) {
			t.Errorf("at NaN: %v", nan)
		}
	})
}

func TestSphereOfThinCells(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 17))
	for _, ratio := range []float64{30, 1e3, 1e6} {
		for _, shape := range [][2]float64{{1, ratio}, {ratio, 1}} {
			l, err := weierstrass.NewLattice(shape[0], shape[1])
			if err != nil {
				t.Fatal(err)
			}
			s := l.Sphere()
			for i := range 60 {
				x, y := random.Float64()-0.5, random.Float64()-0.5
				if i < 9 { // half-periods and the pole
					x, y = float64(i%3-1)/2, float64(i/3-1)/2
				}
				z := complex(2*x*shape[0], 2*y*shape[1])
				point, prime := s.At(z)
				for _, p := range [][3]float64{point, prime} {
					if d := math.Abs(distance(p, [3]float64{}) - 1); !(d < 1e-14) {
						t.Errorf("%v: |S| at %v is off 1 by %.2g: %v", l, z, d, p)
					}
				}
			}
			for i := 1; i <= 3; i++ {
				r := s.Rotation(i)
				if trace := r[0][0] + r[1][1] + r[2][2]; !(math.Abs(trace+1) < 1e-14) {
					t.Errorf("%v: trace of rotation %d is %g, want −1", l, i, trace)
				}
			}
		}
	}
}

func norm2(z complex128) float64 { return real(z)*real(z) + imag(z)*imag(z) }

func TestSphereFollowsTheLattice(t *testing.T) {
	const h = 1e-5
	for _, base := range [][2]complex128{{1.3, 2.1i}, {2.2, 1.7i}, {1, 0.3 + 1.1i}, {1.4, -0.5 + 0.9i}} {
		at := func(omega3 complex128) weierstrass.Sphere { return oblique(t, base[0], omega3).Sphere() }
		s, up, down := at(base[1]), at(base[1]+complex(0, h)), at(base[1]-complex(0, h))
		// η1 by Legendre's relation is not at hand on oblique lattices: (4.12) at e2 gives it, ∂e2/∂ω3′ by differences.
		omega1, e := base[0], s.Roots()
		g2 := 2 * (e[0]*e[0] + e[1]*e[1] + e[2]*e[2])
		slope := (up.Roots()[0] - down.Roots()[0]) / complex(2*h, 0)
		eta := (2*e[0]*e[0] - g2/3 - slope*math.Pi/(2*omega1)) / (2 * e[0]) // η1/ω1
		difference := func(up, down float64) complex128 { return complex(math.Log(up/down)/(2*h), 0) }
		wantScale, wantPrime := -2/math.Pi*real(omega1*(2*eta-s.Centre())), -6/math.Pi*real(omega1*eta)
		within(t, "∂ log r/∂ω3′", difference(up.Scale(), down.Scale()), complex(wantScale, 0), 1e-8)
		within(t, "∂ log c′/∂ω3′", difference(up.ScalePrime(), down.ScalePrime()), complex(wantPrime, 0), 1e-8)
	}
}

func TestSphereAddition(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 23))
	sphereLattices(t, func(t *testing.T, omega1, omega3 complex128, s weierstrass.Sphere) {
		plane := func(p [3]float64) complex128 { return complex(p[0], p[1]) / complex(1-p[2], 0) }
		for range 20 {
			z := complex(0.2+random.Float64()/2, 0)*omega1 + complex(0.2+random.Float64()/2, 0)*omega3
			shift := complex(-0.2-random.Float64()/2, 0)*omega1 + complex(0.2+random.Float64()/2, 0)*omega3
			p, pp := s.At(z)
			q, qp := s.At(shift)
			want, _ := s.At(z + shift)
			slope := (plane(pp) - plane(qp)) / (plane(p) - plane(q))
			r, prime := complex(s.Scale(), 0), complex(s.ScalePrime(), 0)
			w := prime*prime/(4*r*r*r)*slope*slope - plane(p) - plane(q) - 3*s.Centre()/r // (14.21)
			if d := distance(stereographic(w), want); !(d < 1e-8) {
				t.Errorf("S(w) at %v + %v is off by %.2g", z, shift, d)
			}
		}
	})
}
