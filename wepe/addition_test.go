// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// sums builds AtSum of values [8, n], the parts of ℘1, ℘′1, ℘2, ℘′2, and half-periods [n], with g2 of each.
func sums(values, g2 *Node) []*Node {
	g := values.Graph()
	part := func(i int) *Node { // a row, without Slice
		return Squeeze(Gather(values, Const(g, [][]int64{{int64(i)}})), 0)
	}
	pair := func(i int) ComplexNode { return ComplexNode{part(2 * i), part(2*i + 1)} }
	p, pPrime := AtSum(pair(0), pair(1), pair(2), pair(3), g2)
	return []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
}

func TestAtSum_keeps_of_the_reference_pairs_what_their_conditioning_allows(t *testing.T) {
	var file struct {
		Pairs []struct {
			Kind               string
			Omega1, Omega3p    float64
			P1                 referenceValue `json:"wp_z1"`
			PP1                referenceValue `json:"wpp_z1"`
			P2                 referenceValue `json:"wp_z2"`
			PP2                referenceValue `json:"wpp_z2"`
			PSum               referenceValue `json:"wp_sum"`
			PPSum              referenceValue `json:"wpp_sum"`
			CancellationP      float64        `json:"cancellation_wp"`
			CancellationPPrime float64        `json:"cancellation_wpp"`
			CancellationFinal  float64        `json:"cancellation_final"`
		}
	}
	fixtures.JSON(t, "weierstrass", "addition.json", &file)
	if len(file.Pairs) == 0 {
		t.Fatal("no pairs")
	}
	for _, dtype := range []dtypes.DType{dtypes.Float64, dtypes.Float32} {
		epsilon := 0x1p-24
		if dtype == dtypes.Float64 {
			if epsilon = 0x1p-53; !float64Runs(t) {
				continue
			}
		}
		n := len(file.Pairs)
		values, g2 := make([]float64, 8*n), make([]float64, n)
		for i, pair := range file.Pairs {
			for part, v := range []referenceValue{pair.P1, pair.PP1, pair.P2, pair.PP2} {
				values[2*part*n+i], values[(2*part+1)*n+i] = v.Re, v.Im
			}
			lattice, err := weierstrass.NewLattice(pair.Omega1, pair.Omega3p)
			if err != nil {
				t.Fatal(err)
			}
			g2[i] = lattice.Invariants().G2
		}
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			return sums(ConvertDType(in[0], dtype), ConvertDType(in[1], dtype))
		}, tensors.FromFlatDataAndDimensions(values, 8, n), g2)
		worst := map[string]float64{}
		for i, pair := range file.Pairs {
			// As on the host: the loss of the chord, except where (5.2) must do better.
			loss := (pair.CancellationP + pair.CancellationPPrime) * pair.CancellationFinal
			if pair.Kind == "near_equal" {
				loss = min(loss, 1e3)
			}
			lattice, _ := weierstrass.NewLattice(pair.Omega1, pair.Omega3p)
			inv := lattice.Invariants()
			floor := math.Pow(inv.E1-inv.E3, 1.5)
			want, wantPrime := pair.PSum.c(), pair.PPSum.c()
			p, pPrime := complex(got[0][i], got[1][i]), complex(got[2][i], got[3][i])
			units := cmplx.Abs(p-want) / (cmplx.Abs(want) * epsilon * loss)
			unitsPrime := cmplx.Abs(pPrime-wantPrime) /
				((floor + cmplx.Abs(wantPrime) + cmplx.Abs(pair.PP1.c())) * epsilon * loss)
			if epsilon*loss > 0.01 && finite([]float64{units, unitsPrime}) {
				continue // float32 inputs no longer say how far the pole is
			}
			worst[pair.Kind] = max(worst[pair.Kind], units)
			worst[pair.Kind+"′"] = max(worst[pair.Kind+"′"], unitsPrime)
			if !(units <= 4) || !(unitsPrime <= 8) {
				t.Errorf("%s, pair %d (%s): got %g, %g, want %g, %g: %.3g and %.3g units", dtype, i, pair.Kind, p,
					pPrime, want, wantPrime, units, unitsPrime)
			}
		}
		t.Logf("%s: %d pairs, worst in units of the conditioning: %v", dtype, n, worst)
	}
}

func TestAtSum_is_finite_with_finite_gradients_for_every_two_patches_and_their_mirror_images(t *testing.T) {
	lattice := weierstrass.Square()
	var values [8][]float32
	for i := range 15 {
		for j := range 15 {
			for _, sign := range []float64{1, -1} { // -1 at i = j: the sum is the pole
				at := func(k int) complex128 {
					return complex(float64(k%5)+0.5, float64(k/5)+0.5) * 0.2
				}
				p1, pp1 := lattice.Eval(at(i))
				p2, pp2 := lattice.Eval(at(j))
				pp2 *= complex(sign, 0)
				for part, v := range []float64{real(p1), imag(p1), real(pp1), imag(pp1), real(p2), imag(p2), real(pp2),
					imag(pp2)} {
					values[part] = append(values[part], float32(v))
				}
			}
		}
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		g2 := Scalar(in[0].Graph(), dtypes.Float32, 0.25)
		out := sums(in[0], g2)
		return append(out, Gradient(ReduceAllSum(Tanh(MulScalar(Stack(out, 0), 0.15))), in[0], g2)...)
	}, values[:])
	for i, values := range got {
		if !finite(values) {
			t.Errorf("output %d is not finite", i)
		}
	}
}

func TestG2_and_its_gradient_are_the_hosts(t *testing.T) {
	const omega1 = 1.3
	omega3p := []float64{0.35, 0.9, 1.299, 1.3, 1.7, 4}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		var values, slopes []*Node
		for _, w := range omega3p {
			g := in[0].Graph()
			b := Scalar(g, dtypes.Float32, w)
			g2 := G2(in[0], b)
			values, slopes = append(values, g2), append(slopes, Gradient(g2, b)[0])
		}
		return []*Node{Stack(values, 0), Stack(slopes, 0)}
	}, float32(omega1))
	for i, w := range omega3p {
		lattice, err := weierstrass.NewLattice(omega1, w)
		if err != nil {
			t.Fatal(err)
		}
		inv, gradient := lattice.Invariants(), lattice.InvariantsGradient()
		size := (inv.E1 - inv.E3) * (inv.E1 - inv.E3)
		if math.Abs(got[0][i]-inv.G2) > 2e-6*size || math.Abs(got[1][i]-gradient.G2) > 2e-5*size/w {
			t.Errorf("ω3′ = %g: g2 = %g with slope %g, want %g and %g", w, got[0][i], got[1][i], inv.G2, gradient.G2)
		}
	}
}
