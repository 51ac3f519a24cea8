// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
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

// rowsOf returns the rows that an encoding adds.
func rowsOf(t *testing.T, c Config, store *model.Store) []float64 {
	t.Helper()
	// Times one: a variable that is itself an output comes back wrong from the onnx backend.
	return run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{MulScalar(c.Encoders(s.In("vit")).Additive.Encode(in[0].Graph()), 1)}
	}, float32(0))[0]
}

func TestTheVariantAndTheTemperatureOfSinCos2DAreHyperparameters(t *testing.T) {
	c := small("sincos2d", poolClass)
	table := func(variant string, temperature float64) []float32 {
		return sinCos2D(variant, temperature, c.Rows(), c.Cols(), c.Prefix(), c.Width)
	}
	for variant := range sinCosIndices {
		for _, temperature := range []float64{100, 10000} {
			store := model.NewStore()
			store.SetParams(map[string]any{paramSinCos2DVariant: variant, paramSinCos2DTemperature: temperature})
			gomlxtest.NearAbs(t, variant, table(variant, temperature), rowsOf(t, c, store), 0)
		}
	}
	gomlxtest.NearAbs(t, "default", table("mae", 10000), rowsOf(t, c, model.NewStore()), 0)
}

// The formula of the Transformer's section 3.5 at chosen positions, and its property that a shift by k positions
// rotates each pair (sin, cos) by the same angle.
func TestSinusoidal1DIsThatOfTheTransformer(t *testing.T) {
	c := small("sinusoidal1d", poolClass)
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

	c.Pool = poolMean
	without := rowsOf(t, c, model.NewStore())
	gomlxtest.NearAbs(t, "without a class token", without, rows[:len(rows)-c.Width], 0) // patches begin at position 0
}

func TestFactorizedEqualsNaFlexViT(t *testing.T) { fixtures.Each(t, testFactorizedEqualsNaFlexViT) }

func testFactorizedEqualsNaFlexViT(t *testing.T) {
	var meta struct {
		Config struct {
			Grid      [2]int `json:"pos_embed_grid_size"`
			Width     int    `json:"embed_dim"`
			Patch     int    `json:"patch_size"`
			Registers int    `json:"reg_tokens"`
		}
		Grids     [][2]int `json:"grids_h_w"`
		Tolerance struct {
			Pos    float64 `json:"pos_abs"`
			Tokens float64 `json:"tokens_abs"`
			Grad   float64 `json:"grad_abs"`
		}
	}
	fixtures.JSON(t, "factorized_pos", "meta.json", &meta)
	want := fixtures.Tensors(t, "factorized_pos", "tensors.safetensors")
	m := meta.Config
	for _, grid := range meta.Grids {
		for _, form := range []string{"stretch", "aspect"} {
			f := load(t, "factorized_pos")
			f.Set("position/factorized/rows", f.Get("pos_embed_y").Data, m.Grid[0], m.Width)
			f.Set("position/factorized/cols", f.Get("pos_embed_x").Data, m.Grid[1], m.Width)
			f.Set("class", f.Get("cls_token").Data, 1, m.Width)
			f.Set("registers", f.Get("reg_token").Data, m.Registers, m.Width)
			f.Layer("patch", "proj") // of pixels row by row, channels last
			f.AllUsed("")
			f.Store.SetParams(map[string]any{"factorized_rows": m.Grid[0], "factorized_cols": m.Grid[1],
				paramFactorizedAspect: form == "aspect"})
			c := Config{ImageRows: grid[0] * m.Patch, ImageCols: grid[1] * m.Patch, PatchSize: m.Patch, Width: m.Width, Depth: 1,
				Heads: 1, Classes: 1, Registers: m.Registers, PatchPositions: true, Position: "factorized"}.WithDefaults()
			p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
			weight := want[p+"grad_in.tokens"]
			images := want[p+"images_nhwc"]
			got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				rows := c.Encoders(s.In("vit")).Additive.Encode(in[0].Graph())
				variable := func(name string) *Node {
					return f.Store.GetVariable("/vit/position/factorized/" + name).NodeValue(in[0].Graph())
				}
				tr := c.Trace(s.Shared("vit"), in[1], false)
				nodes := append([]*Node{rows, tr.Tokens}, Gradient(ReduceAllSum(Mul(rows, in[0])), variable("rows"),
					variable("cols"))...)
				return append(nodes, tr.Logits)
			}, gomlxtest.Input(weight), gomlxtest.Input(images))
			p += form + "."
			gomlxtest.NearAbs(t, p+"pos_out", got[0], want[p+"pos_out"].Data, meta.Tolerance.Pos)
			gomlxtest.NearAbs(t, p+"tokens_out", got[1], want[p+"tokens_out"].Data, meta.Tolerance.Tokens)
			got = got[1:]
			gomlxtest.NearAbs(t, p+"rows", got[1], want[p+"grad_out.pos_embed_y"].Data, meta.Tolerance.Grad)
			gomlxtest.NearAbs(t, p+"cols", got[2], want[p+"grad_out.pos_embed_x"].Data, meta.Tolerance.Grad)
		}
	}
}
