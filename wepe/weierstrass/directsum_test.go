// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"math"
	"math/cmplx"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

type sumFile struct {
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
			P      reference `json:"wp"`
			PPrime reference `json:"wpp"`
			Square []struct {
				M       int
				F64Re   float64 `json:"f64_re"`
				F64Im   float64 `json:"f64_im"`
				ExactRe float64 `json:"exact_re"`
				ExactIm float64 `json:"exact_im"`
				PrimeRe float64 `json:"wpp_f64_re"`
				PrimeIm float64 `json:"wpp_f64_im"`
				Err     float64 `json:"true_err"`
				ErrP    float64 `json:"true_err_wpp"`
			}
		}
	}
}

func readSums(t *testing.T) sumFile {
	var file sumFile
	fixtures.JSON(t, set, "lattice_sum.json", &file)
	if len(file.Sets) == 0 {
		t.Fatal("no sums")
	}
	return file
}

func TestDirectSumIsTheTruncatedSeries(t *testing.T) {
	for _, s := range readSums(t).Sets {
		l := lattice(t, s.Omega1, s.Omega3p)
		size, sizePrime := scales(l)
		for _, point := range s.Points {
			z := complex(point.X, point.Y)
			for _, row := range point.Square {
				p, pp := l.DirectSum(z, row.M)
				exact, prime := complex(row.ExactRe, row.ExactIm), complex(row.PrimeRe, row.PrimeIm)
				// Roundings of K additions grow like √K.
				law := (20 + 2*math.Sqrt(float64(2*row.M*(row.M+1)))) * roundoff
				if cmplx.Abs(p-exact) > law*(cmplx.Abs(exact)+size) {
					t.Errorf("%s z=%v M=%d: ℘ = %v, exact sum %v", s.Lattice, z, row.M, p, exact)
				}
				if cmplx.Abs(pp-prime) > law*(cmplx.Abs(prime)+sizePrime) {
					t.Errorf("%s z=%v M=%d: ℘′ = %v, want %v", s.Lattice, z, row.M, pp, prime)
				}
				// The truncation error is what the file says, whether against its ℘ or ours.
				q, qp := l.Eval(z)
				noise := (law + 20*roundoff) * (cmplx.Abs(q) + size + cmplx.Abs(qp) + sizePrime)
				if math.Abs(cmplx.Abs(p-q)-row.Err) > noise || math.Abs(cmplx.Abs(pp-qp)-row.ErrP) > noise {
					t.Errorf("%s z=%v M=%d: truncation errors %.6g, %.6g, want %.6g, %.6g", s.Lattice, z, row.M,
						cmplx.Abs(p-q), cmplx.Abs(pp-qp), row.Err, row.ErrP)
				}
			}
		}
	}
}

func TestTheTailCorrectionLeavesTheMeasuredErrors(t *testing.T) {
	compared := 0
	for _, s := range readSums(t).Sets {
		l := lattice(t, s.Omega1, s.Omega3p)
		for _, row := range s.Summary.Square {
			m := int(row["M"].(float64))
			for domain, value := range row {
				statistics, ok := value.(map[string]any)
				if !ok {
					continue
				}
				want := statistics["max_err_tail_corrected"].(float64)
				worst, farthest, points := 0.0, 0.0, 0
				for _, point := range s.Points {
					if inDomain(domain, point.Alpha) {
						z := complex(point.X, point.Y)
						p, _ := l.DirectSum(z, m)
						tail, _ := l.DirectSumTail(z, m)
						worst = max(worst, cmplx.Abs(p+tail-point.P.value()))
						farthest = max(farthest, cmplx.Abs(z))
						points++
					}
				}
				rounding := 1e-12 + 16*roundoff*math.Pow(farthest, 4) // of the tail, which grows with |z|
				if points == 0 || math.Abs(worst-want) > 1e-6*want+rounding {
					t.Errorf("%s %s M=%d: worst corrected error %.9g over %d points, want %.9g",
						s.Lattice, domain, m, worst, points, want)
				}
				compared++
			}
		}
	}
	if compared == 0 {
		t.Fatal("nothing compared")
	}
}

// inDomain tells whether a point with that α belongs to a domain of the file: "alpha0.4" and so on, or "outside" for
// α > 1.
func inDomain(domain string, alpha float64) bool {
	if text, ok := strings.CutPrefix(domain, "alpha"); ok {
		value, err := strconv.ParseFloat(text, 64)
		return err == nil && value == alpha
	}
	return alpha > 1
}

// The orders of both errors in size + ½; on the square lattice the error itself, (5.9), and elsewhere g3 ≠ 0.
func TestTheTruncationErrorIsOfSecondOrderAndSixthWithTheTail(t *testing.T) {
	z := 0.9 + 1.4i
	for _, l := range []weierstrass.Lattice{weierstrass.Square(), lattice(t, 2.6, 1.9)} {
		want, wantPrime := l.Eval(z)
		errors := func(size int) [4]float64 { // of ℘ and ℘′, and with the tail
			p, pp := l.DirectSum(z, size)
			tail, tailPrime := l.DirectSumTail(z, size)
			return [4]float64{cmplx.Abs(p - want), cmplx.Abs(pp - wantPrime), cmplx.Abs(p + tail - want),
				cmplx.Abs(pp + tailPrime - wantPrime)}
		}
		coarse, fine := errors(6), errors(12)
		for i, order := range []float64{2, 2, 6, 6} {
			if got := math.Log(coarse[i]/fine[i]) / math.Log(12.5/6.5); math.Abs(got-order) > 0.1 {
				t.Errorf("%v: error %d falls with order %.3f, want %v", l, i, got, order)
			}
		}
		bound := cmplx.Abs(z) * cmplx.Abs(z) / (16 * math.Pow(weierstrass.OmegaSquare, 4) * 12.5 * 12.5)
		if l == weierstrass.Square() &&
			(math.Abs(fine[0]/bound-1) > 0.01 || math.Abs(fine[1]/(2*bound/cmplx.Abs(z))-1) > 0.01) {
			t.Errorf("errors %.4g and %.4g, want %.4g and %.4g", fine[0], fine[1], bound, 2*bound/cmplx.Abs(z))
		}
	}
}
