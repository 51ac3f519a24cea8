// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestSum_IsTheTruncatedSeries(t *testing.T) { fixtures.Each(t, testTruncatedSeries) }

func testTruncatedSeries(t *testing.T) {
	if !float64Runs(t) {
		t.Skip("the backend has no float64")
	}
	var file struct {
		Sets []struct {
			Lattice         string
			Omega1, Omega3p float64
			Points          []struct {
				X      float64              `json:"z_re"`
				Y      float64              `json:"z_im"`
				Square []map[string]float64 // by M
			}
		}
	}
	fixtures.JSON(t, "weierstrass", "lattice_sum.json", &file)
	if len(file.Sets) == 0 {
		t.Fatal("nothing to compare")
	}
	for _, s := range file.Sets {
		lattice := hostLattice(t, s.Omega1, 0, s.Omega3p)
		var x, y []float64
		for _, point := range s.Points {
			x, y = append(x, point.X), append(y, point.Y)
		}
		v := lattice.Invariants()
		size, sizePrime := v.E1-v.E3, math.Pow(v.E1-v.E3, 1.5)
		for k, first := range s.Points[0].Square {
			cut := int(first["M"])
			sums := gomlxtest.Run(t, func(in []*Node) []*Node { // without clips
				return parts(Sum{cut, 1e-3, 0, 1e300, 1e300}.P(ComplexNode{in[0], in[1]}, in[2], in[3]))
			}, x, y, s.Omega1, s.Omega3p)
			const epsilon = 0x1p-53
			law := (20 + 2*math.Sqrt(float64(2*cut*(cut+1)))) * epsilon // roundings of K additions grow like √K
			for i, point := range s.Points {
				z, p, pPrime := complex(x[i], y[i]), complex(sums[0][i], sums[1][i]), complex(sums[2][i], sums[3][i])
				row := point.Square[k]
				want, wantPrime := complex(row["exact_re"], row["exact_im"]), complex(row["wpp_f64_re"], row["wpp_f64_im"])
				if int(row["M"]) != cut || !(cmplx.Abs(p-want) <= law*(cmplx.Abs(want)+size)) ||
					!(cmplx.Abs(pPrime-wantPrime) <= law*(cmplx.Abs(wantPrime)+sizePrime)) {
					t.Errorf("%s z=%v M=%d: %v, %v, the exact sums are %v, %v", s.Lattice, z, cut, p, pPrime, want, wantPrime)
				}
				// The truncation error of the file, against our ℘.
				q, qp := lattice.Eval(z)
				noise := (law + 20*epsilon) * (cmplx.Abs(q) + size + cmplx.Abs(qp) + sizePrime)
				off, offPrime := cmplx.Abs(p-q), cmplx.Abs(pPrime-qp)
				gomlxtest.NearAbs(t, fmt.Sprintf("%s z=%v M=%d: truncation errors", s.Lattice, z, cut), []float64{off, offPrime},
					[]float64{row["true_err"], row["true_err_wpp"]}, noise)
			}
		}
	}
}

// at is the sum at z term by term, in complex numbers: Re ℘, Im ℘, Re ℘′ and Im ℘′.
func (s Sum) at(z complex128, omega1, omega3p float64) [4]float64 {
	if cmplx.Abs(z) <= s.Kappa/1e8 {
		return [4]float64{s.CLarge, 0, s.CLarge, 0}
	}
	clipped := func(x complex128) complex128 {
		bound := func(x float64) float64 { return min(max(x, -s.TermClip), s.TermClip) }
		return complex(bound(real(x)), bound(imag(x)))
	}
	p, pPrime := 1/(z*z), -2/(z*z*z)
	for m := -s.Cut; m <= s.Cut; m++ {
		for n := -s.Cut; n <= s.Cut; n++ {
			w := complex(float64(2*m)*omega1, float64(2*n)*omega3p)
			if d := z - w; w != 0 && cmplx.Abs(d) > s.Kappa/1e8 {
				p, pPrime = p+clipped(1/(d*d)-1/(w*w)), pPrime+clipped(-2/(d*d*d))
			}
		}
	}
	return [4]float64{real(p), imag(p), real(pPrime), imag(pPrime)}
}

// By finite differences, with a weight for each point: of the whole series, with clipped terms, and with terms and a
// point near a pole.
func TestSum_GradientsAreFiniteDifferences(t *testing.T) {
	if !float64Runs(t) {
		t.Skip("the backend has no float64")
	}
	const omega1, omega3p, h = 1.3, 1.7, 1e-5
	x, y, weights := []float64{0.9, 1.5, 1.6}, []float64{0.4, 0.6, -0.2}, []float64{1, -0.7, 0.3}
	for _, sum := range []Sum{{3, 1e-3, 5, 1e300, 1e300}, {3, 1e-3, 5, 0.05, 1e300}, {3, 1.2e8, 5, 1e300, 1e300}} {
		got := gomlxtest.Run(t, func(in []*Node) (out []*Node) {
			for _, part := range parts(sum.P(ComplexNode{in[0], in[1]}, in[2], in[3])) {
				out = append(append(out, part), Gradient(ReduceAllSum(Mul(part, in[4])), in[0], in[1], in[3])...)
			}
			return out
		}, x, y, omega1, omega3p, weights)
		for part := range 4 {
			var want [4][]float64 // the part, and its gradients by x, y and ω3′
			byOmega := 0.0
			for i, weight := range weights {
				at := func(dx, dy, domega float64) float64 {
					return sum.at(complex(x[i]+dx, y[i]+dy), omega1, omega3p+domega)[part]
				}
				want[0] = append(want[0], at(0, 0, 0))
				want[1] = append(want[1], weight*(at(h, 0, 0)-at(-h, 0, 0))/(2*h))
				want[2] = append(want[2], weight*(at(0, h, 0)-at(0, -h, 0))/(2*h))
				byOmega += weight * (at(0, 0, h) - at(0, 0, -h)) / (2 * h)
			}
			want[3] = []float64{byOmega}
			for k, values := range want {
				gomlxtest.NearAbs(t, fmt.Sprintf("%+v, part %d, %d", sum, part, k), got[4*part+k], values, 1e-7)
			}
		}
	}
}
