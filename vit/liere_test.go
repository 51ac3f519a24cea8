// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// liereMeta is meta.json of the fixture made by the authors' own code.
type liereMeta struct {
	Config struct {
		Image   [2]int  `json:"img_size"`
		Patch   int     `json:"patch_size"`
		Width   int     `json:"dim"`
		Heads   int     `json:"heads"`
		Depth   int     `json:"depth"`
		MLPDim  int     `json:"mlp_dim"`
		Classes int     `json:"num_classes"`
		Epsilon float64 `json:"layer_norm_eps"`
	}
	Variants []struct {
		Name    string
		Block   int  `json:"generator_dim"`
		PerHead bool `json:"rotary_embedding_per_head"`
	}
	Grids     [][2]int `json:"grids_h_w"`
	Tolerance struct {
		Rotations float64 `json:"rotations_abs"`
		Turned    float64 `json:"q_rot_abs"`
		Others    float64 `json:"others_abs"`
	}
}

// liereModel returns a store with the weights of the fixture's model, the generators of the given tensor
// [axes, layers, blocks, g, g], and the configuration for a grid.
func liereModel(t *testing.T, meta liereMeta, raw fixtures.Tensor, grid [2]int) (*foreign, Config) {
	m := meta.Config
	c := gomlxtest.Resolved(Config{
		ImageRows: grid[0] * m.Patch, ImageCols: grid[1] * m.Patch, PatchSize: m.Patch, Width: m.Width, Depth: m.Depth,
		Heads: m.Heads, MLPDim: m.MLPDim, Classes: m.Classes, Epsilon: m.Epsilon, Position: "liere",
	})
	f := load(t, "liere")
	f.Tensors["zeros"] = fixtures.Tensor{Shape: []int{3 * m.Width}, Data: make([]float64, 3*m.Width)}
	f.Linear("patch", "to_patch_embedding.1.weight", "to_patch_embedding.1.bias", 0, m.Width)
	f.Set("class", f.Get("cls_token").Data, 1, m.Width)
	for i := range m.Depth {
		from, to := fmt.Sprintf("transformer.layers.%d.", i), fmt.Sprintf("block_%02d/", i)
		f.Norm(to+"norm1", from+"0.norm")
		f.Norm(to+"norm2", from+"1.norm")
		for j, part := range []string{"query", "key", "value"} {
			f.Linear(to+"attention/"+part, from+"0.fn.to_qkv.weight", "zeros", j*m.Width, (j+1)*m.Width)
		}
		f.Linear(to+"attention/output", from+"0.fn.to_out.0.weight", from+"0.fn.to_out.0.bias", 0, m.Width)
		f.Linear(to+"mlp/hidden", from+"1.fn.net.0.weight", from+"1.fn.net.0.bias", 0, m.MLPDim)
		f.Linear(to+"mlp/output", from+"1.fn.net.3.weight", from+"1.fn.net.3.bias", 0, m.Width)
		flat, dims := triangles(raw, i)
		f.Set(fmt.Sprintf("position/liere/block_%02d/generators", i), flat, dims...)
	}
	f.Norm("norm", "mlp_head.0")
	f.Linear("head", "mlp_head.1.weight", "mlp_head.1.bias", 0, m.Classes)
	return f, c
}

// triangles returns the numbers above the diagonals of a layer of [axes, layers, blocks, g, g], as
// [g(g-1)/2, axes, blocks], and their dimensions.
func triangles(raw fixtures.Tensor, layer int) (flat []float64, dims []int) {
	axes, layers, blocks, g := raw.Shape[0], raw.Shape[1], raw.Shape[2], raw.Shape[3]
	for i := range g {
		for j := i + 1; j < g; j++ {
			for axis := range axes {
				for block := range blocks {
					flat = append(flat, raw.Data[((axis*layers+layer)*blocks+block)*g*g+i*g+j])
				}
			}
		}
	}
	return flat, []int{g * (g - 1) / 2, axes, blocks}
}

// layerOf selects one of the layers of [tokens, layers, blocks, g, g], which may contain only the last of depth.
func layerOf(x fixtures.Tensor, layer, depth int) []float64 {
	size := x.Shape[2] * x.Shape[3] * x.Shape[4]
	held := layer - (depth - x.Shape[1])
	var out []float64
	for token := range x.Shape[0] {
		at := (token*x.Shape[1] + held) * size
		out = append(out, x.Data[at:at+size]...)
	}
	return out
}

// swapped returns [batch, heads, tokens, headDim] as [batch, tokens, heads, headDim].
func swapped(x fixtures.Tensor) *tensors.Tensor {
	batch, heads, tokens, headDim := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	var flat []float32
	all := x.Float32()
	for b := range batch {
		for token := range tokens {
			for head := range heads {
				at := ((b*heads+head)*tokens + token) * headDim
				flat = append(flat, all[at:at+headDim]...)
			}
		}
	}
	return tensors.FromFlatDataAndDimensions(flat, batch, tokens, heads, headDim)
}

func TestLieREEqualsTheOriginal(t *testing.T) { fixtures.Each(t, testLieREEqualsTheOriginal) }

func testLieREEqualsTheOriginal(t *testing.T) {
	var meta liereMeta
	fixtures.JSON(t, "liere", "meta.json", &meta)
	want := fixtures.Tensors(t, "liere", "tensors.safetensors")
	held := func(name string) fixtures.Tensor {
		x, ok := want[name]
		if !ok {
			t.Fatalf("the fixture has no tensor %q", name)
		}
		return x
	}
	for _, variant := range meta.Variants {
		raw := held(variant.Name + ".generator_raw_params")
		for _, grid := range meta.Grids {
			name := fmt.Sprintf("grid%dx%d", grid[0], grid[1])
			f, c := liereModel(t, meta, raw, grid)
			f.Store.SetParams(map[string]any{
				position.ParamLiereBlock: variant.Block, "liere_shared": !variant.PerHead,
				"liere_trained_rows": meta.Grids[0][0], "liere_trained_cols": meta.Grids[0][1],
			})
			last := c.Depth - 1
			rotations := held(variant.Name + "." + name + ".rotations")
			got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				rotary := acting[position.Rotator](c, s.In("vit"))
				q, k := rotary.Block(last).EncodeQK(in[0], in[1], nil, 1)
				out := []*Node{TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3),
					attended(c, s.Shared("vit"), in[2], rotary, last)}
				for layer := c.Depth - rotations.Shape[1]; layer < c.Depth; layer++ {
					out = append(out, matrices(c, rotary, in[0].Graph(), layer, variant.Block, rotations.Shape[2]))
				}
				return out
			}, swapped(held(name+".q")), swapped(held(name+".k")), gomlxtest.Input(held(name+".attn_in")))
			p := variant.Name + "." + name
			gomlxtest.NearAbs(t, p+".q_rot", got[0], held(p+".q_rot").Data, meta.Tolerance.Turned)
			gomlxtest.NearAbs(t, p+".k_rot", got[1], held(p+".k_rot").Data, meta.Tolerance.Turned)
			gomlxtest.NearAbs(t, p+".attn_out", got[2], held(p+".attn_out").Data, meta.Tolerance.Others)
			for i, r := range got[3:] {
				layer := c.Depth - rotations.Shape[1] + i
				gomlxtest.NearAbs(t, fmt.Sprintf("%s.rotations of layer %d", p, layer), r, layerOf(rotations, layer, c.Depth),
					meta.Tolerance.Rotations)
			}
		}
	}
}

func TestLieREModelEqualsTheOriginal(t *testing.T) { fixtures.Each(t, testLieREModelEqualsTheOriginal) }

func testLieREModelEqualsTheOriginal(t *testing.T) {
	var meta liereMeta
	fixtures.JSON(t, "liere", "meta.json", &meta)
	want := fixtures.Tensors(t, "liere", "tensors.safetensors")
	images := want["model.images_nhwc"]
	for _, variant := range meta.Variants {
		for form, first := range map[string]bool{"as_released": true, "per_layer": false} {
			f, c := liereModel(t, meta, want[variant.Name+".generator_raw_params"], meta.Grids[0])
			f.Store.SetParams(map[string]any{
				position.ParamLiereBlock: variant.Block, "liere_shared": !variant.PerHead, "liere_first_layer": first,
			})
			got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				trace := c.Trace(s.In("vit"), in[0], false)
				return []*Node{trace.Patches, trace.Logits}
			}, gomlxtest.Input(images))
			gomlxtest.NearAbs(t, "patches", got[0], want["model.patch_embed"].Data, meta.Tolerance.Others)
			name := variant.Name + ".model.logits_" + form
			gomlxtest.NearAbs(t, name, got[1], want[name].Data, meta.Tolerance.Others)
		}
	}
}
