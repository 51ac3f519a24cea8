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
			n := normal(t, omega1, omega3)
			size := math.Hypot(want.Roots[0][0], want.Roots[0][1])
			for i, root := range want.Roots {
				within(t, "root", n.roots[i], complex(root[0], root[1]), 1e-13*size)
			}
			within(t, "centre", n.centre, complex(want.Centre[0], want.Centre[1]), 1e-13*size)
			for what, x := range map[string][3]float64{ // as squares, which are differences of roots
				"r²": {n.scale, want.Scale, size * size}, "c′²": {n.scalePrime, want.ScalePrime, size * size * size},
			} {
				within(t, what, complex(x[0]*x[0], 0), complex(x[1]*x[1], 0), 1e-13*x[2])
			}
		})
	}
}

// normalized contains the roots e1, e2, e3 of a lattice, and c, r and c′ of w = (℘ − c)/r and w′ = ℘′/c′ by their
// definitions, (14.2) and (14.3).
type normalized struct {
	roots             [3]complex128
	centre            complex128
	scale, scalePrime float64
}

func normal(t *testing.T, omega1, omega3 complex128) (n normalized) {
	l := oblique(t, omega1, omega3)
	for i, half := range [3]complex128{omega1, omega1 + omega3, omega3} {
		n.roots[i], _ = l.Eval(half)
	}
	e := n.roots
	d := [3]float64{cmplx.Abs(e[1] - e[2]), cmplx.Abs(e[2] - e[0]), cmplx.Abs(e[0] - e[1])}
	perimeter, product := d[0]+d[1]+d[2], d[0]*d[1]*d[2]
	for i := range e {
		n.centre += e[i] * complex(d[i]/perimeter, 0)
	}
	n.scale = math.Sqrt(2 * product / perimeter)
	n.scalePrime = math.Pow(16*product*product/3, 0.25) // |Δ| = 16 (d1 d2 d3)²
	return n
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

// stereographic is S by its definition, (14.1), and plane its inverse.
func stereographic(w complex128) [3]float64 {
	m := norm2(w)
	return [3]float64{2 * real(w) / (m + 1), 2 * imag(w) / (m + 1), (m - 1) / (m + 1)}
}

func plane(p [3]float64) complex128 { return complex(p[0], p[1]) / complex(1-p[2], 0) }

// halfTurn rotates x by 180° about the axis n, of length 1.
func halfTurn(n, x [3]float64) (y [3]float64) {
	along := n[0]*x[0] + n[1]*x[1] + n[2]*x[2]
	for i := range y {
		y[i] = 2*along*n[i] - x[i]
	}
	return y
}

// axisOf is the axis of the half-turn that maps one point to the other, up to sign.
func axisOf(from, to [3]float64) (n [3]float64) {
	length := distance(from, [3]float64{-to[0], -to[1], -to[2]})
	for i := range n {
		n[i] = (from[i] + to[i]) / length
	}
	return n
}

// sphereCase is a lattice, its sphere, and a random point of up to two cells away.
type sphereCase struct {
	omega1, omega3 complex128
	lattice        Lattice
	at             func(z complex128) (point, prime [3]float64)
	normal         normalized
	random         func() complex128
}

// Each law is a sentence about one lattice.
func TestSphereObeysItsLawsOnEveryLattice(t *testing.T) {
	laws := map[string]func(t *testing.T, s sphereCase){
		"projection of ℘ and ℘′":      projects,
		"half-periods are half-turns": turns,
		"means over the cell":         averages,
		"smooth at poles":             smoothAtPoles,
	}
	for i, basis := range append(obliqueBases, [2]complex128{complex(hexagonal1, 0), hexagonal3}) {
		l := oblique(t, basis[0], basis[1])
		for name, law := range laws {
			random := rand.New(rand.NewPCG(3, uint64(i))) // of each law, which come in any order
			s := sphereCase{basis[0], basis[1], l, l.Sphere().At, normal(t, basis[0], basis[1]), func() complex128 {
				return complex(4*random.Float64()-2, 0)*basis[0] + complex(4*random.Float64()-2, 0)*basis[1]
			}}
			t.Run(fmt.Sprintf("%s on %v", name, basis), func(t *testing.T) { law(t, s) })
		}
	}
}

func projects(t *testing.T, s sphereCase) {
	for range 40 {
		z := s.random()
		p, pp := s.lattice.Eval(z)
		point, prime := s.at(z)
		if d := distance(point, stereographic((p-s.normal.centre)/complex(s.normal.scale, 0))); !(d < 1e-12) {
			t.Errorf("S(w) at %v is off by %.2g", z, d)
		}
		if d := distance(prime, stereographic(pp/complex(s.normal.scalePrime, 0))); !(d < 1e-12) {
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

func turns(t *testing.T, s sphereCase) {
	var axes [3][3]float64
	for i, half := range []complex128{s.omega1, s.omega1 + s.omega3, s.omega3} {
		somewhere := s.omega1*0.62 + s.omega3*0.34
		from, _ := s.at(somewhere)
		to, _ := s.at(somewhere + half)
		axes[i] = axisOf(from, to)
		for range 40 {
			z := s.random()
			at, _ := s.at(z)
			shifted, _ := s.at(z + half)
			if d := distance(shifted, halfTurn(axes[i], at)); !(d < 4e-14) {
				t.Errorf("S(w) at %v + half-period %d is off the half-turn by %.2g", z, i+1, d)
			}
		}
	}
	for i, n := range axes {
		m := axes[(i+1)%3]
		if along := n[0]*m[0] + n[1]*m[1] + n[2]*m[2]; !(math.Abs(along) < 1e-14) {
			t.Errorf("axes %v and %v are not at right angles: %.2g", n, m, along)
		}
	}
}

func averages(t *testing.T, s sphereCase) {
	const n = 48
	var mean, meanPrime [3]float64
	var logs float64
	for i := range n {
		for j := range n {
			z := complex((float64(i)+0.5)/n*2, 0)*s.omega1 + complex((float64(j)+0.5)/n*2, 0)*s.omega3
			point, prime := s.at(z)
			for c := range mean {
				mean[c] += point[c] / n / n
				meanPrime[c] += prime[c] / n / n
			}
			_, pp := s.lattice.Eval(z)
			logs += math.Log(cmplx.Abs(pp)/s.normal.scalePrime) / n / n
		}
	}
	// The grid is symmetric under the shifts by half-periods and under z → −z: its own mean vanishes, not only the
	// integral's.
	if d := distance(mean, [3]float64{}); !(d < 1e-13) {
		t.Errorf("mean of S(w) is %v", mean)
	}
	height := 0.066
	if s.omega3 == hexagonal3 {
		height = 1e-13 // (14.12)
	}
	if d := math.Hypot(meanPrime[0], meanPrime[1]); !(d < 1e-13) || !(math.Abs(meanPrime[2]) < height) {
		t.Errorf("mean of S(w′) is %v, want (0, 0, less than %g)", meanPrime, height)
	}
	// Jensen: the mean of log|℘′| is ¼ log|Δ| (14.11). A mean over points has an error of the order log n/n².
	if d := logs - math.Log(3)/4; !(math.Abs(d) < 0.01) {
		t.Errorf("mean of log|w′| is %.4f, want ¼ log 3 = %.4f", logs, math.Log(3)/4)
	}
}

func smoothAtPoles(t *testing.T, s sphereCase) {
	north := [3]float64{0, 0, 1}
	for _, pole := range []complex128{0, 2 * s.omega1, -2*s.omega1 + 4*s.omega3} {
		point, prime := s.at(pole)
		if !(distance(point, north) < 1e-13 && distance(prime, north) < 1e-13) {
			t.Errorf("at the pole %v: %v, %v", pole, point, prime)
		}
		if got := Dilated(north, 1e-6); got != north {
			t.Errorf("∞ times 1e-6 is %v", got)
		}
	}
	for _, direction := range []complex128{1, 1i, -0.6 + 0.8i} {
		for r := 1e-2; r > 1e-300; r *= 1e-7 { // S(w) = north + O(z²), S(w′) = north + O(z³)
			z := complex(r, 0) * direction * complex(cmplx.Abs(s.omega1), 0)
			point, prime := s.at(z)
			bound := max(s.normal.scale*norm2(z), s.normal.scalePrime*math.Pow(cmplx.Abs(z), 3))
			if d := max(distance(point, north), distance(prime, north)); !(d < 3*bound+1e-15) {
				t.Errorf("%.0g from the pole: %v, %v", r, point, prime)
			}
		}
	}
	if nan, _ := s.at(cmplx.NaN()); !math.IsNaN(nan[0]) {
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
