// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit/position"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// atCentres tabulates a function of the centres of the patches, in units of the image's sides.
func atCentres(f func(x, y float64) []float64) func(rows, cols int) [][]float64 {
	return func(rows, cols int) (features [][]float64) {
		for p := range rows * cols {
			features = append(features, f((float64(p%cols)+0.5)/float64(cols), (float64(p/cols)+0.5)/float64(rows)))
		}
		return features
	}
}

// halfCell are the 12 features by the host's theta functions: S(w), S(w′) at z and 2z, z in a quarter of the cell of
// the square lattice.
func halfCell(x, y float64) (features []float64) {
	z := complex(x, y) * complex(weierstrass.OmegaSquare, 0) // half of 2ω1, and of 2ω3 = 2iω1
	for n := range 2 {
		point, prime := weierstrass.Square().Sphere().At(z * complex(float64(n+1), 0))
		features = slices.Concat(features, point[:], prime[:])
	}
	return features
}

// times is one row of features times weights [features, width].
func times(features, weights []float64, width int) []float64 {
	out := make([]float64, width)
	for i, f := range features {
		for j := range out {
			out[j] += f * weights[i*width+j]
		}
	}
	return out
}

// valuesOf sets a variable below the scope of the positions of a model at /vit to noise times a factor, and returns it.
func valuesOf(t *testing.T, store *model.Store, path string, factor float32) []float64 {
	t.Helper()
	v := store.GetVariable("/vit/position/" + path)
	x := gomlxtest.Noise(v.Shape().Dimensions...)
	x.MustMutableFlatData(func(flat any) {
		for i := range flat.([]float32) {
			flat.([]float32)[i] *= factor
		}
	})
	gomlxtest.NoError(t, v.SetValue(x))
	return gomlxtest.Values(t, x)
}

// 2e-5: the features are accurate to 8 roundings of 6e-8 of their inputs; sums have 12 terms of up to 3.
const sphereTolerance = 2e-5

func TestModulationsScaleByHostFeatures(t *testing.T) {
	all, values := []string{"query", "key", "value"}, []string{"value"}
	for label, of := range map[string]struct {
		features func(rows, cols int) [][]float64
		parts    []string
		params   map[string]any
	}{
		"wepe-qkv": {atCentres(halfCell), all, nil}, "fourier-qkv": {atCentres(halfWaves(3)), all, nil},
		"wepe-v": {atCentres(halfCell), values, nil}, "fourier-v": {atCentres(halfWaves(3)), values, nil},
		"fourier-v n = 5":   {atCentres(halfWaves(5)), values, map[string]any{position.ParamFourierWaves: 5}},
		"fourier-v learned": {atCentres(halfWaves(3)), values, map[string]any{position.ParamFourierLearn: true}}, // at first
		"legendre-v":        {atCentres(polynomials), values, map[string]any{position.ParamLegendreDegree: 3}},
		"free-v":            {twicePatch, values, nil},
	} {
		name, _, _ := strings.Cut(label, " ")
		c := small(name, poolClass) // 5×3 patches
		c.Registers = 2
		store := gomlxtest.Seeded(t, 5)
		store.SetParams(of.params)
		scales := func() [][]float64 {
			return run(t, store, func(s *model.Scope, in []*Node) []*Node {
				scales := acting[position.Scaler](c, s.In("vit")).Scale(in[0].Graph(), 1)
				return slices.DeleteFunc(scales[:], func(x *Node) bool { return x == nil })
			}, float32(0))
		}
		scales() // makes the variables
		scope := strings.ReplaceAll(name, "-", "_") + "/block_01/"
		var want [][]float64
		for i, part := range of.parts {
			weights := valuesOf(t, store, scope+part, float32(i+1)/3)
			factors := slices.Repeat([]float64{1}, c.Prefix()*c.Width)
			for _, f := range of.features(c.Rows(), c.Cols()) {
				for _, x := range times(f, weights, c.Width) {
					factors = append(factors, 1+x)
				}
			}
			want = append(want, factors)
		}
		got := scales()
		is.Equal(t, label+": parts of a block", len(got), len(want))
		for i, part := range of.parts {
			gomlxtest.NearAbs(t, label+" "+part, got[i], want[i], sphereTolerance)
		}
	}
}

// halfWaves are exp(iπkx) and exp(iπky), k = 1 … n, scaled to vectors of length 2.
func halfWaves(n int) func(x, y float64) []float64 {
	return func(x, y float64) (f []float64) {
		for k := range n {
			for _, at := range []float64{x, y} {
				wave := cmplx.Exp(complex(0, math.Pi*float64(k+1)*at)) * complex(2/math.Sqrt(float64(2*n)), 0)
				f = append(f, imag(wave), real(wave))
			}
		}
		return f
	}
}

// polynomials are the ten products of Legendre polynomials up to degree 3 (P2 = (3t²-1)/2, P3 = (5t³-3t)/2),
// orthonormal on the image, times 2/√10.
func polynomials(x, y float64) (f []float64) {
	upTo := func(t float64) [4]float64 {
		return [4]float64{1, math.Sqrt(3) * t, math.Sqrt(5) * (3*t*t - 1) / 2, math.Sqrt(7) * (5*t*t*t - 3*t) / 2}
	}
	ofX, ofY := upTo(2*x-1), upTo(2*y-1)
	for _, of := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {0, 2}, {3, 0}, {2, 1}, {1, 2}, {0, 3}} {
		f = append(f, 2/math.Sqrt(10)*ofX[of[0]]*ofY[of[1]])
	}
	return f
}

// twicePatch is twice the unit vector of each patch: a free factor for each.
func twicePatch(rows, cols int) (features [][]float64) {
	for p := range rows * cols {
		f := make([]float64, rows*cols)
		f[p] = 2
		features = append(features, f)
	}
	return features
}
