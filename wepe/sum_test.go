// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/cmplx"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// summed evaluates the truncated sum without clips in float64: ℘ and ℘′ at each z.
func summed(t *testing.T, lattice weierstrass.Lattice, cut int, z []complex128) (p, pPrime []complex128) {
	t.Helper()
	x, y := make([]float64, len(z)), make([]float64, len(z))
	for i := range z {
		x[i], y[i] = real(z[i]), imag(z[i])
	}
	out := gomlxtest.Run(t, func(in []*Node) []*Node {
		p, pPrime := latticeSum{cut, 1e-3, 0, 1e300, 1e300}.P(ComplexNode{in[0], in[1]}, in[2], in[3])
		return []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
	}, x, y, lattice.Omega1(), lattice.Omega3p())
	for i := range z {
		p, pPrime = append(p, complex(out[0][i], out[1][i])), append(pPrime, complex(out[2][i], out[3][i]))
	}
	return p, pPrime
}

func TestLatticeSum_is_the_truncated_series_and_errs_as_the_reference_says(t *testing.T) {
	fixtures.Each(t, testLatticeSum_is_the_truncated_series_and_errs_as_the_reference_says)
}

func testLatticeSum_is_the_truncated_series_and_errs_as_the_reference_says(t *testing.T) {
	if !float64Runs(t) {
		t.Skip("the backend has no float64")
	}
	var file struct {
		Sets []struct {
			Lattice         string
			Omega1, Omega3p float64
			Summary         struct {
				Square []map[string]any // by M; the rows of the domains are objects
			}
			Points []struct {
				X      float64 `json:"z_re"`
				Y      float64 `json:"z_im"`
				Alpha  float64
				P      referenceValue `json:"wp"`
				Square []struct {
					M       int
					Re      float64 `json:"exact_re"`
					Im      float64 `json:"exact_im"`
					PrimeRe float64 `json:"wpp_f64_re"`
					PrimeIm float64 `json:"wpp_f64_im"`
					Err     float64 `json:"true_err"`
					ErrP    float64 `json:"true_err_wpp"`
				}
			}
		}
	}
	fixtures.JSON(t, "weierstrass", "lattice_sum.json", &file)
	compared := 0
	for _, s := range file.Sets {
		lattice, err := weierstrass.NewLattice(s.Omega1, s.Omega3p)
		if err != nil {
			t.Fatal(err)
		}
		var z []complex128
		for _, point := range s.Points {
			z = append(z, complex(point.X, point.Y))
		}
		v := lattice.Invariants()
		size, sizePrime := v.E1-v.E3, math.Pow(v.E1-v.E3, 1.5)
		for k, summary := range s.Summary.Square {
			cut := int(summary["M"].(float64))
			p, pPrime := summed(t, lattice, cut, z)
			const epsilon = 0x1p-53
			law := (20 + 2*math.Sqrt(float64(2*cut*(cut+1)))) * epsilon // roundings of K additions grow like √K
			for i, point := range s.Points {
				row := point.Square[k]
				want, wantPrime := complex(row.Re, row.Im), complex(row.PrimeRe, row.PrimeIm)
				if row.M != cut || cmplx.Abs(p[i]-want) > law*(cmplx.Abs(want)+size) ||
					cmplx.Abs(pPrime[i]-wantPrime) > law*(cmplx.Abs(wantPrime)+sizePrime) {
					t.Errorf("%s z=%v M=%d: %v, %v, the exact sums are %v, %v", s.Lattice, z[i], cut, p[i], pPrime[i], want,
						wantPrime)
				}
				// The truncation error of the file, against our ℘.
				q, qp := lattice.Eval(z[i])
				noise := (law + 20*epsilon) * (cmplx.Abs(q) + size + cmplx.Abs(qp) + sizePrime)
				off, offPrime := cmplx.Abs(p[i]-q), cmplx.Abs(pPrime[i]-qp)
				if !(math.Abs(off-row.Err) <= noise) || !(math.Abs(offPrime-row.ErrP) <= noise) {
					t.Errorf("%s z=%v M=%d: truncation errors %.6g, %.6g, want %.6g, %.6g", s.Lattice, z[i], cut, off, offPrime,
						row.Err, row.ErrP)
				}
			}
			compared++
		}
	}
	if compared == 0 {
		t.Fatal("nothing compared")
	}
}
