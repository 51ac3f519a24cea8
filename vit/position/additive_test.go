// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestSinCos2DEqualsTheCodeOfEveryVariant(t *testing.T) {
	fixtures.Each(t, testSinCos2DEqualsTheCodeOfEveryVariant)
}

func testSinCos2DEqualsTheCodeOfEveryVariant(t *testing.T) {
	var meta struct {
		Cases       []struct{ H, W, Dim int }
		Temperature float64
		Tolerance   struct{ Abs float64 }
	}
	fixtures.JSON(t, "sincos2d", "meta.json", &meta)
	want := fixtures.Tensors(t, "sincos2d", "tensors.safetensors")
	temperature := cmp.Or(meta.Temperature, sinCosTemperature)
	for _, s := range meta.Cases {
		near := func(tensor, variant string, rows, cols int) {
			name := fmt.Sprintf("h%dw%dd%d.%s", s.H, s.W, s.Dim, tensor)
			gomlxtest.NearAbs(t, name, sinCos2D(variant, temperature, rows, cols, 0, s.Dim), want[name].Data, meta.Tolerance.Abs)
		}
		near("mae", sinCosMAE, s.H, s.W)
		near("big_vision", sinCosBigVision, s.H, s.W)
		near("timm", sinCosTimm, s.H, s.W)
		near("timm_interleave", sinCosTimmInterleave, s.H, s.W)
		near("interleaved4", sinCosInterleaved, s.H, s.W)
		near("timm_reverse_coord", sinCosTimm, s.W, s.H) // [w, h, dim]: the table of the transposed grid
	}
	const square = "mae_square4_cls_d16"
	if x, ok := want[square]; ok { // README: a zero row for the class token, then 4×4
		gomlxtest.NearAbs(t, square, sinCos2D(sinCosMAE, temperature, 4, 4, 1, 16), x.Data, meta.Tolerance.Abs)
	}
}

func TestTheTemperatureOfSinCos2DIsAHyperparameter(t *testing.T) {
	c := small("sincos2d")
	for temperature, params := range map[float64]map[string]any{100: {ParamSinCos2DTemperature: 100.0}, 10000: nil} {
		store := model.NewStore()
		store.SetParams(params)
		want := sinCos2D("mae", temperature, c.Rows, c.Cols, c.Prefix, c.Width)
		gomlxtest.NearAbs(t, fmt.Sprint(temperature), want, rowsOf(t, c, store), 0)
	}
}

// The formula of the Transformer's section 3.5 at chosen positions, and its property that a shift by k positions
// rotates each pair (sin, cos) by the same angle.
func TestSinusoidal1DIsThatOfTheTransformer(t *testing.T) {
	c := small("sinusoidal1d")
	rows := rowsOf(t, c, model.NewStore())
	at := func(p, i int) float64 { return rows[p*c.Width+i] }
	for i := range c.Width { // the class token is position 0
		if want := float64(i % 2); at(0, i) != want {
			t.Errorf("place 0, channel %d: %g, want %g", i, at(0, i), want)
		}
	}
	// sin 1, cos 1
	gomlxtest.NearAbs(t, "place 1", []float64{at(1, 0), at(1, 1)}, []float64{0.8414709848, 0.5403023059}, 1e-7)
	const shift = 3
	for pair := range c.Width / 2 {
		angle := shift * math.Exp(-math.Log(10000)*float64(2*pair)/float64(c.Width))
		for p := range c.Tokens() - shift {
			sin, cos := at(p, 2*pair), at(p, 2*pair+1)
			gomlxtest.NearAbs(t, fmt.Sprintf("place %d, pair %d", p+shift, pair),
				[]float64{at(p+shift, 2*pair), at(p+shift, 2*pair+1)},
				[]float64{sin*math.Cos(angle) + cos*math.Sin(angle), cos*math.Cos(angle) - sin*math.Sin(angle)}, 1e-6)
		}
	}

	c.Prefix = 0
	without := rowsOf(t, c, model.NewStore())
	gomlxtest.NearAbs(t, "without a class token", without, rows[:len(rows)-c.Width], 0) // patches begin at position 0
}
