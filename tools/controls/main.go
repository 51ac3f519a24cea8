// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command controls measures, without a network, where ℘ could do what sines cannot. What counts as a yes was written
// before the first run:
//
//	pole     the direction of a point seen from a marked place, and its distance, from features with noise, by ridge
//	         regression on 256 random ReLUs. Yes: with every seed ℘ has a higher R² than both kinds of sines, at
//	         distances of patches (0.03 to 0.3 of the image's side).
//	addition ℘(z1-z2) from ℘, ℘′ at z1 and z2 by the addition theorem, cos and sin likewise, all patches of 14×14.
//	         Yes: in bfloat16 the median error of ℘ is at most twice that of sines.
//	lattice  a periodic texture whose lattice has an unknown angle and ratio: both are searched for on a crop of 1.5
//	         periods, then the texture is continued to 4 periods. Yes: with every seed ℘ has the smaller median error of
//	         the angle and the higher R² beyond the crop, than sines on the lattice and than free frequencies.
//
//	go run ./tools/controls docs/runs/controls.jsonl      40 seconds on one core
package main

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

const seeds = 5

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: controls FILE.jsonl")
		os.Exit(2)
	}
	rows := slices.Concat(pole(), addition(), lattices())
	if err := analysis.Write(os.Args[1], rows); err != nil {
		fmt.Fprintln(os.Stderr, "controls:", err)
		os.Exit(1)
	}
}

func row(figure, model string, seed int, measure, at string, value float64) analysis.Row {
	return analysis.Row{Analysis: figure, Model: model, Seed: int64(seed), Images: "generated", Measure: measure, At: at,
		Value: report.JSONFloat(value)}
}

// features are numbers at a place of the plane.
type features func(z complex128) []float64

// sphere has S(w(z)), S(w′(z)), S(w(2z)), S(w′(2z)), the features of wepe-v: 12 numbers.
func sphere(l weierstrass.Lattice) features {
	s := l.Sphere()
	return func(z complex128) (f []float64) {
		for n := range 2 {
			point, prime := s.At(z * complex(float64(n+1), 0))
			f = append(append(f, point[:]...), prime[:]...)
		}
		return f
	}
}

// published has tanh(0.15·[℘, ℘′]), the features of wepe, at z, 2z and 3z: 12 numbers.
func published(l weierstrass.Lattice) features {
	return func(z complex128) (f []float64) {
		for n := range 3 {
			p, pp := l.Eval(z * complex(float64(n+1), 0))
			for _, x := range []float64{real(p), imag(p), real(pp), imag(pp)} {
				f = append(f, math.Tanh(0.15*x))
			}
		}
		return f
	}
}

// sines are sin and cos of ν·Re z and ν·Im z.
func sines(frequencies ...float64) features {
	return func(z complex128) (f []float64) {
		for _, nu := range frequencies {
			for _, x := range []float64{real(z), imag(z)} {
				sin, cos := math.Sincos(nu * x)
				f = append(f, sin, cos)
			}
		}
		return f
	}
}

// ridge returns weights [features, targets] that minimize the squared error plus l2 times the weights' squares.
func ridge(x, y *mat.Dense, l2 float64) *mat.Dense {
	_, n := x.Dims()
	var gram, right, weights mat.Dense
	gram.Mul(x.T(), x)
	for i := range n {
		gram.Set(i, i, gram.At(i, i)+l2)
	}
	right.Mul(x.T(), y)
	if err := weights.Solve(&gram, &right); err != nil {
		panic(err)
	}
	return &weights
}

// r2 is the share of the variance of y that is predicted, over all columns.
func r2(y, predicted *mat.Dense) float64 {
	rows, cols := y.Dims()
	var off, all float64
	for c := range cols {
		column := mat.Col(nil, c, y)
		mean := stat.Mean(column, nil)
		for r := range rows {
			off += math.Pow(y.At(r, c)-predicted.At(r, c), 2)
			all += math.Pow(y.At(r, c)-mean, 2)
		}
	}
	return 1 - off/all
}

// pole has the marked place at z = 0; an image has side 1, and the period is twice that, as for wepe-v.
func pole() (rows []analysis.Row) {
	const noise, hidden, n = 0.01, 256, 3000
	unit := complex(weierstrass.OmegaSquare, 0) // z of a side of the image: half a period
	square := weierstrass.Square()
	scaled := func(f features) features { return func(z complex128) []float64 { return f(z * unit) } }
	for _, of := range []struct {
		name string
		f    features
	}{
		{"sphere", scaled(sphere(square))}, {"tanh", scaled(published(square))},
		{"sines, k = 1, 2, 3", sines(math.Pi, 2*math.Pi, 3*math.Pi)}, {"sines, k = 1, 4, 16", sines(math.Pi, 4*math.Pi,
			16*math.Pi)},
	} {
		for _, span := range [][2]float64{{0.03, 0.3}, {0.003, 0.03}, {0.0003, 0.003}} {
			for seed := range seeds {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				var draw [13 * hidden]float64
				for i := range draw {
					draw[i] = r.NormFloat64()
				}
				set := func() (x, direction, distance *mat.Dense) {
					x, direction, distance = mat.NewDense(n, hidden+1, nil), mat.NewDense(n, 2, nil), mat.NewDense(n, 1, nil)
					for i := range n {
						log := math.Log(span[0]) + r.Float64()*math.Log(span[1]/span[0])
						e := cmplx.Exp(complex(0, 2*math.Pi*r.Float64()))
						f := append(of.f(e*complex(math.Exp(log), 0)), 1)
						direction.SetRow(i, []float64{real(e), imag(e)})
						distance.Set(i, 0, log)
						for j := range f[:12] {
							f[j] += noise * r.NormFloat64()
						}
						for h := range hidden {
							sum := 0.0
							for j, v := range f {
								sum += v * draw[h*13+j]
							}
							x.Set(i, h, max(0, sum))
						}
						x.Set(i, hidden, 1)
					}
					return x, direction, distance
				}
				x, direction, distance := set()
				testX, testDirection, testDistance := set()
				for _, target := range []struct {
					name    string
					y, test *mat.Dense
				}{{"direction", direction, testDirection}, {"distance", distance, testDistance}} {
					var predicted mat.Dense
					predicted.Mul(testX, ridge(x, target.y, 1e-3))
					rows = append(rows, row("pole", of.name, seed, target.name,
						fmt.Sprintf("%g–%g", span[0], span[1]), r2(target.test, &predicted)))
				}
			}
		}
	}
	return rows
}

// addition has the patches of wepe-v on 14×14, half a period along each axis.
func addition() (rows []analysis.Row) {
	const side = 14
	l := weierstrass.Square()
	precisions := []struct {
		name  string
		round func(float64) float64
	}{{"float32", func(x float64) float64 { return float64(float32(x)) }}, {"bfloat16", func(x float64) float64 {
		return float64(math.Float32frombits((math.Float32bits(float32(x)) + 0x8000) &^ 0xffff))
	}}}
	for _, p := range precisions {
		var elliptic, circular []float64
		c := func(z complex128) complex128 { return complex(p.round(real(z)), p.round(imag(z))) }
		place := func(k int) complex128 {
			return complex((float64(k%side)+.5)/side, (float64(k/side)+.5)/side) * complex(weierstrass.OmegaSquare, 0)
		}
		for i := range side * side {
			for j := range side * side {
				if i == j {
					continue
				}
				p1, d1 := l.Eval(place(i))
				p2, d2 := l.Eval(place(j))
				slope := c(c(c(d1)+c(d2)) / c(c(p1)-c(p2))) // ℘(z1-z2) = ¼((℘′1 + ℘′2)/(℘1 - ℘2))² - ℘1 - ℘2
				sum := c(c(slope*slope/4) - c(c(p1)+c(p2)))
				exact, _ := l.Eval(place(i) - place(j))
				elliptic = append(elliptic, chordal(sum, exact))
				a, b := real(place(i)), real(place(j))
				sa, ca := math.Sincos(a)
				sb, cb := math.Sincos(b)
				cos := p.round(p.round(p.round(ca)*p.round(cb)) + p.round(p.round(sa)*p.round(sb)))
				sin := p.round(p.round(p.round(sa)*p.round(cb)) - p.round(p.round(ca)*p.round(sb)))
				circular = append(circular, math.Hypot(cos-math.Cos(a-b), sin-math.Sin(a-b)))
			}
		}
		for k, errors := range [][]float64{elliptic, circular} {
			slices.Sort(errors)
			for _, q := range []float64{0.5, 0.99} {
				rows = append(rows, row("addition", []string{"℘", "cos, sin"}[k], 0, fmt.Sprintf("%g %%", 100*q), p.name,
					stat.Quantile(q, stat.Empirical, errors, nil)))
			}
		}
	}
	return rows
}

// chordal is the distance of two values of ℘ on the sphere, on the square lattice with g2 = ¼: w = ℘/e1, e1 = ¼.
func chordal(p, q complex128) float64 {
	if cmplx.IsNaN(p) || cmplx.IsInf(p) {
		p = 1e30
	}
	p, q = 4*p, 4*q
	return 2 * cmplx.Abs(p-q) / math.Hypot(1, cmplx.Abs(p)) / math.Hypot(1, cmplx.Abs(q))
}

// lattices has textures of period 1 along x; the other period is ratio·exp(i·angle).
func lattices() (rows []analysis.Row) {
	const textures, n = 20, 300 // for each seed
	var candidates []complex128
	for degrees := 60.0; degrees <= 120; degrees += 1.5 {
		for ratio := 0.7; ratio <= 1.4; ratio += 0.025 {
			candidates = append(candidates, cmplx.Rect(ratio, degrees*math.Pi/180))
		}
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		places := func(side, without float64) (z []complex128) { // in a square, but not in a smaller one
			for len(z) < n {
				x, y := (r.Float64()-0.5)*side, (r.Float64()-0.5)*side
				if max(math.Abs(x), math.Abs(y)) >= without/2 {
					z = append(z, complex(x, y))
				}
			}
			return z
		}
		crop, beyond := places(1.5, 0), places(4, 1.5)
		var fields [2][][2]*mat.Dense // by kind and candidate: of crop and beyond
		for _, period := range candidates {
			for kind, f := range []features{elliptic(period), harmonics(period)} {
				fields[kind] = append(fields[kind], [2]*mat.Dense{design(f, crop), design(f, beyond)})
			}
		}
		free := frequencies(crop, beyond)
		var off [2][]float64
		var quality [3][]float64
		for range textures {
			period := cmplx.Rect(0.7+0.7*r.Float64(), (60+60*r.Float64())*math.Pi/180)
			of := texture(r, period)
			y, test := sampled(of, crop, 0.02, r), sampled(of, beyond, 0, r)
			for kind := range fields {
				at, found := fitted(fields[kind], y, test)
				wrong := math.Inf(1)
				for same := -1.0; same <= 1; same++ { // the second period and its sums with the first are of one lattice
					wrong = min(wrong, math.Abs(cmplx.Phase(candidates[at]+complex(same, 0))-cmplx.Phase(period))*180/math.Pi)
				}
				off[kind], quality[kind] = append(off[kind], wrong), append(quality[kind], found)
			}
			quality[2] = append(quality[2], free(y, test))
		}
		for kind, name := range []string{"℘ on the lattice", "sines on the lattice", "free frequencies"} {
			slices.Sort(quality[kind])
			rows = append(rows, row("lattice", name, seed, "R²", "", quality[kind][textures/2]))
			if kind < 2 {
				slices.Sort(off[kind])
				rows = append(rows, row("lattice", name, seed, "angle, °", "", off[kind][textures/2]))
			}
		}
	}
	return rows
}

// fitted is the field of crop and beyond that fits y on the crop best, and its R² beyond.
func fitted(fields [][2]*mat.Dense, y, test *mat.Dense) (at int, quality float64) {
	best := math.Inf(1)
	for i, f := range fields {
		var predicted mat.Dense
		weights := ridge(f[0], y, 1e-3)
		predicted.Mul(f[0], weights)
		if error := 1 - r2(y, &predicted); error < best {
			predicted.Mul(f[1], weights)
			best, at, quality = error, i, r2(test, &predicted)
		}
	}
	return at, quality
}

// elliptic are the features of wepe-v on the lattice with periods 1 and period.
func elliptic(period complex128) features {
	l, err := weierstrass.New(0.5, period/2)
	if err != nil {
		panic(err)
	}
	return sphere(l)
}

// harmonics are cos and sin of 2π(mu + nv) in the lattice's coordinates z = u + v·period: 12 numbers.
func harmonics(period complex128) features {
	return func(z complex128) (f []float64) {
		v := imag(z) / imag(period)
		u := real(z) - v*real(period)
		for _, of := range [][2]float64{{1, 0}, {0, 1}, {1, 1}, {1, -1}, {2, 0}, {0, 2}} {
			sin, cos := math.Sincos(2 * math.Pi * (of[0]*u + of[1]*v))
			f = append(f, sin, cos)
		}
		return f
	}
}

// frequencies fits six waves of any frequency, one after the other, each the best of a grid: 12 numbers.
func frequencies(crop, beyond []complex128) func(y, test *mat.Dense) float64 {
	var waves [][2]*mat.Dense
	for a := 0.0; a <= 2.5; a += 0.1 {
		for k := range 51 {
			b := float64(k-25) / 10
			if a == 0 && b <= 0 { // the constant, and waves that others mirror
				continue
			}
			wave := func(z complex128) []float64 {
				sin, cos := math.Sincos(2 * math.Pi * (a*real(z) + b*imag(z)))
				return []float64{sin, cos}
			}
			waves = append(waves, [2]*mat.Dense{design(wave, crop), design(wave, beyond)})
		}
	}
	joined := func(of []int, k int) *mat.Dense {
		x := waves[of[0]][k]
		for _, i := range of[1:] {
			var wider mat.Dense
			wider.Augment(x, waves[i][k].Slice(0, len(crop), 0, 2))
			x = &wider
		}
		return x
	}
	return func(y, test *mat.Dense) float64 {
		var chosen []int
		rest := mat.DenseCopyOf(y)
		mean := stat.Mean(mat.Col(nil, 0, y), nil)
		rest.Apply(func(_, _ int, v float64) float64 { return v - mean }, rest)
		for range 6 {
			best, at := -1.0, 0
			for i, w := range waves {
				var along mat.Dense
				along.Mul(w[0].Slice(0, len(crop), 0, 2).T(), rest)
				if power := mat.Norm(&along, 2); power > best && !slices.Contains(chosen, i) {
					best, at = power, i
				}
			}
			chosen = append(chosen, at)
			var fit mat.Dense
			x := joined(chosen, 0)
			fit.Mul(x, ridge(x, y, 1e-3))
			rest.Sub(y, &fit)
		}
		var predicted mat.Dense
		predicted.Mul(joined(chosen, 1), ridge(joined(chosen, 0), y, 1e-3))
		return r2(test, &predicted)
	}
}

// design has the features of places, and 1: [places, features + 1].
func design(f features, places []complex128) *mat.Dense {
	var flat []float64
	for _, z := range places {
		flat = append(append(flat, f(z)...), 1)
	}
	return mat.NewDense(len(places), len(flat)/len(places), flat)
}

// texture is three round bumps, repeated by the lattice.
func texture(r *rand.Rand, period complex128) func(z complex128) float64 {
	const width = 0.15
	var heights [3]float64
	var at [3]complex128
	for i := range at {
		heights[i] = r.NormFloat64()
		at[i] = complex(r.Float64(), 0) + complex(r.Float64(), 0)*period
	}
	return func(z complex128) (sum float64) {
		for i := range at {
			v := math.Floor(imag(z-at[i]) / imag(period))
			rest := z - at[i] - complex(v, 0)*period
			rest -= complex(math.Floor(real(rest)), 0)
			for n := -1.0; n <= 1; n++ {
				for m := -2.0; m <= 2; m++ {
					d := cmplx.Abs(rest - complex(m, 0) - complex(n, 0)*period)
					sum += heights[i] * math.Exp(-d*d/2/width/width)
				}
			}
		}
		return sum
	}
}

// sampled has the values at places, with noise.
func sampled(f func(complex128) float64, places []complex128, noise float64, r *rand.Rand) *mat.Dense {
	y := mat.NewDense(len(places), 1, nil)
	for i, z := range places {
		y.Set(i, 0, f(z)+noise*r.NormFloat64())
	}
	return y
}
