// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
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
	c := Config{
		ImageRows: grid[0] * m.Patch, ImageCols: grid[1] * m.Patch, PatchSize: m.Patch, Width: m.Width, Depth: m.Depth,
		Heads: m.Heads, MLPDim: m.MLPDim, Classes: m.Classes, Epsilon: m.Epsilon, Position: "liere",
	}.WithDefaults()
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
				paramLiereBlock: variant.Block, "liere_shared": !variant.PerHead,
				"liere_trained_rows": meta.Grids[0][0], "liere_trained_cols": meta.Grids[0][1],
			})
			last := c.Depth - 1
			rotations := held(variant.Name + "." + name + ".rotations")
			attended := held(name + ".attn_in")
			got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				encoder := liereOf(c.Encoders(s.In("vit")).Rotary)
				g := in[0].Graph()
				q, k := (&rotary{tokenwise: encoder}).Block(last).EncodeQK(in[0], in[1], nil, 1)
				attn := s.At("vit").At("block_%02d", last).At("attention")
				part := func(name string) *Node {
					return c.heads(weight.Dense(attn.At("%s", name), in[2], c.Width, weight.Constant(0), weight.Constant(0)))
				}
				q2, k2 := (&rotary{tokenwise: encoder}).Block(last).EncodeQK(part("query"), part("key"), nil, 1)
				mixed, _ := c.attend(s, q2, k2, part("value"), nil, false)
				out := []*Node{
					TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3),
					weight.Dense(attn.At("output"), Reshape(mixed, in[2].Shape().Dimensions...), c.Width, weight.Constant(0),
						weight.Constant(0)),
				}
				for layer := c.Depth - rotations.Shape[1]; layer < c.Depth; layer++ {
					out = append(out, encoder.rows(g, layer)[0])
				}
				return out
			}, swapped(held(name+".q")), swapped(held(name+".k")),
				gomlxtest.Input(attended))
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

func TestLieREsCoordinatesEndAtTheRatioOfTheGridsOfEachAxis(t *testing.T) {
	c := small("liere", poolClass) // 5×3 patches
	store := model.NewStore()
	store.SetParams(map[string]any{"liere_trained_rows": 2, "liere_trained_cols": 7})
	got := liereOf(newLieRE(store.RootScope(), c))
	want := []float64{0, 0} // the class token
	for k := range 15 {
		want = append(want, float64(k/3)/4*5/2, float64(k%3)/2*3/7)
	}
	gomlxtest.NearAbs(t, "y, x", got.coordinates, want, 1e-6)
	if want := 5.0/2 + 3.0/7; !(math.Abs(got.farthest-want) <= 1e-12) {
		t.Errorf("the farthest patch is at y + x = %g, want %g", got.farthest, want)
	}
	// Elements up to 4π·(y + x) in blocks of 4 channels, times cot(π/8) = 1 + √2.
	if want := (5.0/2 + 3.0/7) * 4 * math.Pi * (1 + math.Sqrt2); !(math.Abs(got.bound()-want) <= 1e-9) {
		t.Errorf("the norm is bounded by %g, want %g", got.bound(), want)
	}
	if name := got.Name(); name != "liere(block=4, shared=false, first_layer=false)" {
		t.Errorf("the encoding is called %s", name)
	}
	store = model.NewStore()
	store.SetParams(map[string]any{paramLiereBlock: 2, "liere_shared": true, "liere_first_layer": true})
	if name := liereOf(newLieRE(store.RootScope(), c)).Name(); name != "liere(block=2, shared=true, first_layer=true)" {
		t.Errorf("the encoding is called %s", name)
	}

	c.ImageCols = c.PatchSize // one column
	for i, v := range liereOf(newLieRE(model.NewStore().RootScope(), c)).coordinates {
		if i%2 == 1 && v != 0 {
			t.Errorf("a single column is at %g", v)
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
				paramLiereBlock: variant.Block, "liere_shared": !variant.PerHead, "liere_first_layer": first,
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

// The generators of every layer get a gradient, however far they are from their start; where clipped it is zero and the
// rotation remains a rotation.
func TestLieRETrainsAndStaysARotationBeyondItsBound(t *testing.T) {
	gomlxtest.OnGo(t)
	c := small("liere", poolClass)
	store := gomlxtest.Seeded(t, 3)
	build := func(s *model.Scope, in []*Node) []*Node {
		logits := c.Logits(s.In("vit"), in[0])
		encoder := liereOf(c.Encoders(s.Shared("vit")).Rotary)
		var out []*Node
		for layer := range c.Depth {
			v := s.Store().GetVariable(fmt.Sprintf("/vit/position/liere/block_%02d/generators", layer))
			out = append(out, Gradient(ReduceAllSum(Square(logits)), v.NodeValue(in[0].Graph()))...)
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
		got := run(t, store, build, noise(c, 2))
		for layer, gradient := range got[:c.Depth] {
			largest := 0.0
			for _, v := range gradient {
				largest = max(largest, math.Abs(v))
			}
			if clipped := factor != 1 && layer == 0; clipped != (largest == 0) || math.IsNaN(largest) {
				t.Errorf("factor %g: gradient of layer %d is up to %g", factor, layer, largest)
			}
		}
		if off := got[c.Depth][0]; !(off < 2e-5) {
			t.Errorf("factor %g: R·Rᵀ differs from the identity by %g", factor, off)
		}
	}
}

func TestLieREByDefaultTurnsEightChannelsOrTheLargestDivisorBelow(t *testing.T) {
	for headDim, want := range map[int]int{64: 8, 80: 8, 12: 6, 4: 4, 35: 7, 11: 11, 18: 6, 22: 2} {
		if got := liereBlock(headDim); got != want {
			t.Errorf("%d channels a head: %d, want %d", headDim, got, want)
		}
	}
}
