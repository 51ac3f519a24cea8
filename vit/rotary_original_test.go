// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit/position"
)

// attended is the attention of one block without the norm before it, as in the originals' module.
func attended(c Config, scope *model.Scope, x *Node, rotary position.Rotator, block int) *Node {
	layers := scope.At("block_%02d", block).At("attention")
	project := func(name string) *Node {
		return c.heads(weight.Dense(layers.At("%s", name), x, c.Width, weight.Constant(0), weight.Constant(0)))
	}
	q, k := rotary.Block(block).EncodeQK(project("query"), project("key"), nil, 1)
	mixed, _ := c.attend(scope, q, k, project("value"), nil, false)
	mixed = Reshape(mixed, x.Shape().Dimensions...)
	return weight.Dense(layers.At("output"), mixed, c.Width, weight.Constant(0), weight.Constant(0))
}

// ropeViTMeta is meta.json of the fixtures made by rope-vit.
type ropeViTMeta struct {
	Config struct {
		Image    [2]int  `json:"img_size"`
		Patch    int     `json:"patch_size"`
		Width    int     `json:"embed_dim"`
		Depth    int     `json:"depth"`
		Heads    int     `json:"num_heads"`
		MLPRatio float64 `json:"mlp_ratio"`
		Classes  int     `json:"num_classes"`
		Epsilon  float64 `json:"layer_norm_eps"`
		Theta    float64 `json:"rope_theta"`
	} `json:"config"`
	Grids     [][2]int `json:"grids_h_w"`
	Block     int      `json:"rotated_layer"`
	Tolerance struct {
		Abs    float64 `json:"abs"`
		Angles float64 `json:"angles_abs"`
	} `json:"tolerance"`
}

// ropeViT returns a store with the weights of a rope-vit fixture and their configuration. scaled folds LayerScale into
// the last layer of each branch: γ∘(xW + b) = x(W·diag γ) + γ∘b.
func ropeViT(t *testing.T, set, label string, meta ropeViTMeta, scaled bool) (*foreign, Config) {
	m := meta.Config
	c := gomlxtest.Resolved(Config{
		ImageRows: m.Image[0], ImageCols: m.Image[1], PatchSize: m.Patch, Width: m.Width, Depth: m.Depth, Heads: m.Heads,
		MLPDim: int(m.MLPRatio * float64(m.Width)), Classes: m.Classes, Epsilon: m.Epsilon, Position: label,
	})
	f := load(t, set)
	f.Store.SetParam("/"+position.ParamRopeTheta, m.Theta)
	for block := range c.Depth {
		for scale, layer := range map[string]string{"gamma_1": "attn.proj", "gamma_2": "mlp.fc2"} {
			gamma := f.Get(fmt.Sprintf("blocks.%d.%s", block, scale))
			weights := f.Tensors[fmt.Sprintf("blocks.%d.%s.weight", block, layer)]
			biases := f.Tensors[fmt.Sprintf("blocks.%d.%s.bias", block, layer)]
			in := weights.Shape[1]
			for i := range weights.Data {
				if scaled {
					weights.Data[i] *= gamma.Data[i/in]
				}
			}
			for i := range biases.Data {
				if scaled {
					biases.Data[i] *= gamma.Data[i]
				}
			}
		}
	}
	f.conv("patch", "patch_embed.proj")
	f.Set("class", f.Get("cls_token").Data, c.Prefix(), c.Width)
	f.blocks(c, "", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "mlp.fc1", "mlp.fc2")
	f.Norm("norm", "norm")
	f.Linear("head", "head.weight", "head.bias", 0, c.Classes)
	if label == "rope-mixed" {
		freqs := f.Get("freqs") // [x|y, block, heads·headDim/2]
		n := c.Width / 2
		for block := range c.Depth {
			x, y := freqs.Data[block*n:(block+1)*n], freqs.Data[(c.Depth+block)*n:(c.Depth+block+1)*n]
			f.Set(fmt.Sprintf("position/rope_mixed/block_%02d/frequencies", block), append(append([]float64{}, x...), y...),
				2, c.Heads, c.headDim()/2)
		}
	}
	f.AllUsed("")
	return f, c
}

func TestEveryStageEqualsRopeViT(t *testing.T) { fixtures.Each(t, testEveryStageEqualsRopeViT) }

func testEveryStageEqualsRopeViT(t *testing.T) {
	for label, set := range map[string]string{"rope-axial": "rope_axial", "rope-mixed": "rope_mixed"} {
		t.Run(label, func(t *testing.T) {
			var meta ropeViTMeta
			fixtures.JSON(t, set, "meta.json", &meta)
			want := fixtures.Tensors(t, set, "tensors.safetensors")
			plain, c := ropeViT(t, set, label, meta, false)
			scaled, _ := ropeViT(t, set, label, meta, true)
			for _, grid := range meta.Grids {
				p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
				c.ImageRows, c.ImageCols = grid[0]*c.PatchSize, grid[1]*c.PatchSize
				near := func(name string, got []float64, tol float64) {
					t.Helper()
					gomlxtest.NearAbs(t, p+name, got, want[p+name].Data, tol)
				}
				heads := c.Heads
				if label == "rope-axial" { // all heads and blocks alike
					heads = 1
				}
				got := run(t, plain.Store, func(s *model.Scope, in []*Node) []*Node {
					rotary := acting[position.Rotator](c, s.In("vit"))
					q, k := rotary.Block(meta.Block).EncodeQK(TransposeAllAxes(in[0], 0, 2, 1, 3),
						TransposeAllAxes(in[1], 0, 2, 1, 3), nil, 1)
					nodes := []*Node{TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3),
						attended(c, s.Shared("vit"), in[2], rotary, meta.Block)}
					for block := range c.Depth {
						cos, sin := angles(c, rotary, in[0].Graph(), block, heads)
						nodes = append(nodes, TransposeAllAxes(cos, 1, 0, 2), TransposeAllAxes(sin, 1, 0, 2))
					}
					return nodes
				}, gomlxtest.Input(want[p+"q"]), gomlxtest.Input(want[p+"k"]), gomlxtest.Input(want[p+"attn_in"]))
				near("q_rot", got[0], meta.Tolerance.Angles)
				near("k_rot", got[1], meta.Tolerance.Angles)
				near("attn_out", got[2], meta.Tolerance.Abs)
				var cos, sin []float64 // [blocks and heads where they differ, patches, headDim/2]
				n := c.headDim() / 2
				for i := 3; i < len(got); i += 2 {
					for at := 0; at < len(got[i]); at += c.Tokens() * n { // one head
						cos = append(cos, got[i][at+c.Prefix()*n:at+c.Tokens()*n]...)
						sin = append(sin, got[i+1][at+c.Prefix()*n:at+c.Tokens()*n]...)
					}
					if heads == 1 {
						break
					}
				}
				near("angle_cos", cos, meta.Tolerance.Angles)
				near("angle_sin", sin, meta.Tolerance.Angles)

				got = run(t, scaled.Store, func(s *model.Scope, in []*Node) []*Node {
					scope := s.In("vit")
					placed := placement{Encoder: c.Encoder(scope)}
					block := c.Block(scope.At("block_%02d", meta.Block), in[1], placed.around(meta.Block), meta.Block, false)
					trace := c.Trace(scope, in[0], false)
					nodes := []*Node{block.Output, trace.Logits}
					for _, b := range trace.Blocks {
						nodes = append(nodes, b.Output)
					}
					return nodes
				}, gomlxtest.Input(want[p+"images_nhwc"]), gomlxtest.Input(want[p+"attn_in"]))
				near("block_out", got[0], meta.Tolerance.Abs)
				near("model.logits", got[1], meta.Tolerance.Abs)
				for block := range c.Depth {
					near(fmt.Sprintf("model.block_%d", block), got[2+block], meta.Tolerance.Abs)
				}
			}
		})
	}
}

func TestEveryCaseEqualsVisionLLaMA(t *testing.T) { fixtures.Each(t, testEveryCaseEqualsVisionLLaMA) }

func testEveryCaseEqualsVisionLLaMA(t *testing.T) {
	var meta struct {
		Config struct {
			Width int     `json:"dim"`
			Heads int     `json:"num_heads"`
			Theta float64 `json:"theta"`
			Base  int     `json:"base_grid"`
		} `json:"config"`
		Cases []struct {
			Name       string  `json:"name"`
			Grid       [2]int  `json:"grid_h_w"`
			ClassToken bool    `json:"class_token"`
			Scale      float64 `json:"scale"`
		} `json:"cases"`
		Tolerance struct {
			Abs float64 `json:"abs"`
		} `json:"tolerance"`
	}
	fixtures.JSON(t, "as2drope", "meta.json", &meta)
	want := fixtures.Tensors(t, "as2drope", "tensors.safetensors")
	m := meta.Config
	for _, test := range meta.Cases {
		p := test.Name + "."
		c := Config{ImageRows: test.Grid[0], ImageCols: test.Grid[1], PatchSize: 1, Width: m.Width, Depth: 1,
			Heads: m.Heads, Classes: 1, Position: "as2drope", Pool: poolMean}
		if test.ClassToken {
			c.Pool = poolClass
		}
		c = gomlxtest.Resolved(c)
		f := load(t, "as2drope")
		f.Store.SetParam("/"+position.ParamRopeTheta, m.Theta)
		f.Store.SetParam("/"+position.ParamAS2DRoPEBaseRows, m.Base)
		for i, name := range []string{"query", "key", "value"} {
			f.Linear("block_00/attention/"+name, "qkv.weight", "qkv.bias", i*c.Width, (i+1)*c.Width)
		}
		f.Linear("block_00/attention/output", "proj.weight", "proj.bias", 0, c.Width)
		got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			rotary := acting[position.Rotator](c, s.In("vit"))
			q, k := rotary.Block(0).EncodeQK(in[0], in[1], nil, 1)
			cos, sin := angles(c, rotary, in[0].Graph(), 0, 1)
			return []*Node{q, k, attended(c, s.Shared("vit"), in[2], rotary, 0), MulScalar(cos, 1), MulScalar(sin, 1)}
		}, gomlxtest.Input(want[p+"q"]), gomlxtest.Input(want[p+"k"]), gomlxtest.Input(want[p+"attn_in"]))
		for i, name := range []string{"q_rot", "k_rot", "attn_out", "cos", "sin"} {
			gomlxtest.NearAbs(t, p+name, got[i], want[p+name].Data, meta.Tolerance.Abs)
		}
	}
}
