// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

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
				"factorized_aspect": form == "aspect"})
			c := gomlxtest.Resolved(Config{ImageRows: grid[0] * m.Patch, ImageCols: grid[1] * m.Patch, PatchSize: m.Patch, Width: m.Width, Depth: 1,
				Heads: 1, Classes: 1, Registers: m.Registers, PatchPositions: true, Position: "factorized"})
			p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
			weight := want[p+"grad_in.tokens"]
			images := want[p+"images_nhwc"]
			got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				rows := acting[position.Adder](c, s.In("vit")).Encode(in[0].Graph())
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
