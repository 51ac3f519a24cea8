// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// halfCell returns the 12 features of every patch by the host's theta functions: S(w), S(w′) at z and 2z, z the centre
// of the patch in a quarter of the cell of the square lattice.
func halfCell(rows, cols int) (features [][]float64) {
	sphere := weierstrass.Square().Sphere()
	for k := range rows * cols {
		z := complex((float64(k%cols)+0.5)/float64(cols), (float64(k/cols)+0.5)/float64(rows))
		z *= complex(weierstrass.OmegaSquare, 0) // half of 2ω1, and of 2ω3 = 2iω1
		var row []float64
		for n := range 2 {
			point, prime := sphere.At(z * complex(float64(n+1), 0))
			row = append(append(row, point[:]...), prime[:]...)
		}
		features = append(features, row)
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
	if v == nil {
		t.Fatalf("no variable %s", path)
	}
	x := gomlxtest.Noise(v.Shape().Dimensions...)
	x.MustMutableFlatData(func(flat any) {
		for i := range flat.([]float32) {
			flat.([]float32)[i] *= factor
		}
	})
	if err := v.SetValue(x); err != nil {
		t.Fatal(err)
	}
	return gomlxtest.Values(t, x)
}

// 2e-5: the features are right to 8 roundings of 6e-8 of what they are taken of, sums have 12 terms as large as 3.
const sphereTolerance = 2e-5

func TestWePEAttentionAddsHostFeaturesToQueriesAndKeys(t *testing.T) {
	c := turning("wepe-attention") // 5×3 patches and a class token
	store := gomlxtest.Seeded(t, 5)
	turned(t, store, c) // makes the variables
	ofQueries := valuesOf(t, store, "wepe_attention/block_01/query", 1)
	ofKeys := valuesOf(t, store, "wepe_attention/block_01/key", -0.5)
	q, k := turned(t, store, c)

	x := gomlxtest.Values(t, alike(c, 1, 1))
	wantQ, wantK := slices.Clone(x), slices.Clone(x) // the class token has no place
	for i := range wantK {
		wantK[i] *= 0.5
	}
	for _, f := range halfCell(c.Rows(), c.Cols()) {
		a, b := times(f, ofQueries, c.Width), times(f, ofKeys, c.Width)
		for i := range x {
			wantQ, wantK = append(wantQ, x[i]+a[i]), append(wantK, 0.5*x[i]+b[i]) // turned gives keys of half the length
		}
	}
	gomlxtest.NearAbs(t, "queries", q, wantQ, sphereTolerance)
	gomlxtest.NearAbs(t, "keys", k, wantK, sphereTolerance)
}

// On the grid of the training the table is f·W + Δ; on a finer one f is that of the new places, and Δ is resampled with
// half-pixel centres, clamped at the border.
func TestWePEResidualIsHostFeaturesTimesWeightsAndAResampledResidual(t *testing.T) {
	trained := small("wepe-residual", PoolClass) // 5×3 patches
	for _, grid := range [][2]int{{5, 3}, {10, 6}, {7, 11}} {
		c := trained
		c.ImageRows, c.ImageCols = grid[0]*c.PatchSize, grid[1]*c.PatchSize
		store := gomlxtest.Seeded(t, 5)
		store.SetParams(wepe.TrainedGrid(trained.Rows(), trained.Cols()))
		table := func() []float64 {
			return run(t, store, func(s *model.Scope, in []*Node) []*Node {
				return []*Node{c.Encoders(s.In("vit")).Additive.Encode(in[0].Graph())}
			}, float32(0))[0]
		}
		table()
		weights, residual := valuesOf(
			t,
			store,
			"wepe_residual/projection",
			1,
		), valuesOf(
			t,
			store,
			"wepe_residual/residual",
			0.7,
		)
		prefix := valuesOf(t, store, "wepe_residual/prefix", 0.3)
		want := slices.Clone(prefix)
		for k, f := range halfCell(c.Rows(), c.Cols()) {
			row := times(f, weights, c.Width)
			y := (float64(k/c.Cols())+0.5)*float64(trained.Rows())/float64(c.Rows()) - 0.5
			x := (float64(k%c.Cols())+0.5)*float64(trained.Cols())/float64(c.Cols()) - 0.5
			for i := range row {
				row[i] += bilinear(residual, trained.Rows(), trained.Cols(), c.Width, y, x, i)
			}
			want = append(want, row...)
		}
		gomlxtest.NearAbs(t, "table", table(), want, sphereTolerance)
	}
}

// bilinear reads channel i of a table [rows, cols, width] between its entries, the last one of each side beyond them.
func bilinear(table []float64, rows, cols, width int, y, x float64, i int) float64 {
	at := func(row, col int) float64 {
		row, col = min(max(row, 0), rows-1), min(max(col, 0), cols-1)
		return table[(row*cols+col)*width+i]
	}
	top, left := math.Floor(y), math.Floor(x)
	down, right := y-top, x-left
	r, k := int(top), int(left)
	return (1-down)*((1-right)*at(r, k)+right*at(r, k+1)) + down*((1-right)*at(r+1, k)+right*at(r+1, k+1))
}
