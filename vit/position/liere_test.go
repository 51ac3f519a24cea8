// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

func TestLieREsCoordinatesEndAtTheRatioOfTheGridsOfEachAxis(t *testing.T) {
	c := small("liere") // 5×3 patches
	store := stored(map[string]any{"liere_trained_rows": 2, "liere_trained_cols": 7})
	got := liereOf(newLieRE(store.RootScope(), c.Config))
	want := []float64{0, 0} // the class token
	for k := range 15 {
		want = append(want, float64(k/3)/4*5/2, float64(k%3)/2*3/7)
	}
	gomlxtest.NearAbs(t, "y, x", got.coordinates, want, 1e-6)
	// Elements up to 4π·(y + x) in blocks of 4 channels, times cot(π/8) = 1 + √2.
	bound := (5.0/2 + 3.0/7) * 4 * math.Pi * (1 + math.Sqrt2)
	is.Near(t, "bound of the norm", got.bound(), bound, 1e-9)
	is.Equal(t, "a single column", liereCoordinates(3, 1)[0], 0)
}

// The generators of every layer get a gradient, however far they are from their start; where clipped it is zero and the
// rotation remains a rotation.
func TestLieRETrainsAndStaysARotationBeyondItsBound(t *testing.T) {
	gomlxtest.OnGo(t)
	c := small("liere")
	store := gomlxtest.Seeded(t, 3)
	build := func(s *model.Scope, in []*Node) []*Node {
		rotator := acting[Rotator](c, s.In("vit"))
		encoder := liereOf(rotator)
		var out []*Node
		for layer := range c.Depth {
			v := s.Store().GetVariable(fmt.Sprintf("/vit/position/liere/block_%02d/generators", layer))
			q, _ := rotator.Block(layer).EncodeQK(in[0], in[0], nil, 1)
			out = append(out, Gradient(ReduceAllSum(Mul(q, Cos(in[0]))), v.NodeValue(in[0].Graph()))...)
		}
		r := encoder.rows(in[0].Graph(), 0)[0]
		product := Einsum("thnij,thnkj->thnik", r, r)
		return append(out, ReduceAllMax(Abs(Sub(product, identity(product)))))
	}
	for _, factor := range []float32{1, 1000} {
		if factor != 1 {
			v := store.GetVariable("/vit/position/liere/block_00/generators")
			v.MustValue().MustMutableFlatData(func(flat any) {
				for i := range flat.([]float32) {
					flat.([]float32)[i] *= factor
				}
			})
		}
		got := gomlxtest.RunModel(t, store, build, gomlxtest.Noise(2, c.Tokens(), c.Heads, c.headDim()))
		for layer, gradient := range got[:c.Depth] {
			largest := floats.Norm(gradient, math.Inf(1))
			if clipped := factor != 1 && layer == 0; clipped != (largest == 0) || math.IsNaN(largest) {
				t.Errorf("factor %g: gradient of layer %d is up to %g", factor, layer, largest)
			}
		}
		gomlxtest.NearAbs(t, fmt.Sprint("R·Rᵀ - 1, factor ", factor), got[c.Depth], []float64{0}, 2e-5)
	}
}

func TestLieREByDefaultTurnsEightChannelsOrTheLargestDivisorBelow(t *testing.T) {
	for headDim, want := range map[int]int{64: 8, 80: 8, 12: 6, 4: 4, 35: 7, 11: 11, 18: 6, 22: 2} {
		is.Equal(t, fmt.Sprint(headDim, " channels a head"), liereBlock(headDim), want)
	}
}

// skew draws a skew-symmetric matrix of float32 numbers up to limit, all of one sign above the diagonal on request: the
// case that attains Pick's inequality.
func skew(r *rand.Rand, n int, limit float64, extreme bool) *mat.Dense {
	x := mat.NewDense(n, n, nil)
	for i := range n {
		for j := i + 1; j < n; j++ {
			v := float64(float32(limit * r.Float64()))
			if extreme {
				v = float64(float32(limit))
			}
			x.Set(i, j, v)
			x.Set(j, i, -v)
		}
	}
	return x
}

func TestAMatrixIsHalvedUntilItsNormIsAtMostOne(t *testing.T) {
	for bound, want := range map[float64]int{0.01: 0, 0.3: 0, 1: 0, 1.5: 1, 2: 1, 2.1: 2, 25: 5, 32: 5} {
		is.Equal(t, fmt.Sprint("halvings of ", bound), expSquarings(bound), want)
	}
}

// The error bounds in liere.go for s squarings, compared with gonum's exponential: 2^s·10⁻⁷ in the worst element, and
// without rounding, in float64, Taylor's remainder, 2^s/13!.
func TestExpSkewIsWithinItsStatedError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, test := range []struct {
		n     int
		limit float64
	}{{2, 0.3}, {2, 25}, {3, 7}, {8, 0.1}, {8, 0.3}, {8, 7}, {8, 12.5}, {8, 25}, {13, 25}, {64, 12.5}, {64, 25}} {
		bound := test.limit / math.Tan(math.Pi/float64(2*test.n))
		var flat, want []float64
		for _, x := range []*mat.Dense{skew(r, test.n, test.limit, false), skew(r, test.n, test.limit/4, false),
			skew(r, test.n, test.limit, true)} {
			var exponential mat.Dense
			exponential.Exp(x)
			flat, want = append(flat, x.RawMatrix().Data...), append(want, exponential.RawMatrix().Data...)
		}
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			x := Reshape(in[0], -1, test.n, test.n)
			return []*Node{expSkew(x, bound), expSkew(ConvertDType(x, dtypes.Float32), bound)}
		}, flat)
		for i, one := range []float64{1 / math.Gamma(14), 1e-7} {
			name := fmt.Sprintf("float%d, n = %d, elements to %g", 64>>i, test.n, test.limit)
			gomlxtest.NearAbs(t, name, got[i], want, math.Ldexp(one, expSquarings(bound)))
		}
	}
}
