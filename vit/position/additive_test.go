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

func TestSinCos2DEqualsMAE(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		var meta struct {
			Cases       []struct{ H, W, Dim int }
			Temperature float64
			Tolerance   struct{ Abs float64 }
		}
		fixtures.JSON(t, "sincos2d", "meta.json", &meta)
		want := fixtures.Tensors(t, "sincos2d", "tensors.safetensors")
		near := func(name string, rows, cols, prefix, width int) {
			c := named{Config{Grid: Grid{Rows: rows, Cols: cols, Prefix: prefix}, Width: width, Heads: 1}, "sincos2d"}
			store := stored(map[string]any{ParamSinCos2DTemperature: cmp.Or(meta.Temperature, 10000)})
			gomlxtest.NearAbs(t, name, rowsOf(t, c, store), want[name].Data, meta.Tolerance.Abs)
		}
		for _, s := range meta.Cases {
			near(fmt.Sprintf("h%dw%dd%d.mae", s.H, s.W, s.Dim), s.H, s.W, 0, s.Dim)
		}
		const square = "mae_square4_cls_d16"
		if _, ok := want[square]; ok { // README: a zero row for the class token, then 4×4
			near(square, 4, 4, 1, 16)
		}
	})
}

// The second of 7 waves, at the patch in column 1.
func TestTheTemperatureOfSinCos2DIsAHyperparameter(t *testing.T) {
	c := small("sincos2d")
	for temperature, params := range map[float64]map[string]any{100: {ParamSinCos2DTemperature: 100.0}, 10000: nil} {
		at := (c.Prefix+1)*c.Width + 1
		want := []float64{math.Sin(math.Pow(temperature, -1./7))}
		gomlxtest.NearAbs(t, fmt.Sprint(temperature), rowsOf(t, c, stored(params))[at:at+1], want, 1e-6)
	}
}

// The formula of the Transformer's section 3.5. The class token is position 0; without one the patches begin there.
func TestSinusoidal1DIsThatOfTheTransformer(t *testing.T) {
	for _, c := range []named{small("sinusoidal1d"), onGrid("sinusoidal1d", 5, 3, 1, 7)} {
		var want []float64
		for p := range c.Tokens() {
			for pair := range c.Width / 2 {
				angle := float64(p) / math.Exp(math.Log(10000)*2*float64(pair)/float64(c.Width))
				want = append(want, math.Sin(angle), math.Cos(angle))
			}
		}
		gomlxtest.NearAbs(t, "rows", rowsOf(t, c, model.NewStore()), want, 1e-6)
	}
}
