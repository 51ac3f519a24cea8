// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// officialMeta is meta.json of the fixture made by the authors' own ViT-Ti.
type officialMeta struct {
	Config struct {
		Image   int `json:"img_size"`
		Patch   int `json:"patch_size"`
		Width   int `json:"embed_dim"`
		Depth   int `json:"depth"`
		Heads   int `json:"num_heads"`
		Classes int `json:"num_classes"`
	} `json:"config"`
	FullSize map[string]struct {
		Total    int `json:"total"`
		Position int `json:"position"`
	} `json:"full_size_parameters"`
}

// officialPositions is the encoding of each variant of the fixture, by the prefix of its tensors.
var officialPositions = map[string]string{"wepe": "wepe", "ape": "learned"}

// officialPaths maps a path to the tensor whose gradient the fixture may contain.
var officialPaths = map[string]string{
	"cls_token":                        "class",
	"patch_embed.bias":                 "patch/biases",
	"head.bias":                        "head/biases",
	"pos_embedding":                    "position/embedding",
	"pos_encoding.alpha_learn":         "position/wepe/omega3_raw",
	"pos_encoding.log_alpha_scale":     "position/wepe/alpha_scale_raw",
	"pos_encoding.pos_scale":           "position/wepe/beta_pos",
	"pos_encoding.cls_pos_embedding":   "position/wepe/prefix",
	"pos_encoding.projection.0.weight": "position/wepe/projection/dense/weights",
	"pos_encoding.projection.0.bias":   "position/wepe/projection/dense/biases",
	"pos_encoding.projection.1.weight": "position/wepe/projection/layer_normalization/gain",
	"pos_encoding.projection.1.bias":   "position/wepe/projection/layer_normalization/offset",
}

// official returns a store with the weights of one variant of the fixture and its configuration.
func official(t *testing.T, variant string) (*foreign, Config) {
	var meta officialMeta
	fixtures.JSON(t, "official_vit_ti", "meta.json", &meta)
	m := meta.Config
	c := gomlxtest.Resolved(Config{
		ImageRows: m.Image, ImageCols: m.Image, PatchSize: m.Patch, Width: m.Width, Depth: m.Depth, Heads: m.Heads,
		Classes: m.Classes, Position: officialPositions[variant], PatchNorm: true, Epsilon: 1e-5,
	})
	f := load(t, "official_vit_ti")
	p := variant + "."
	f.conv("patch", p+"patch_embed")
	f.Norm("patch/norm", p+"patch_norm")
	f.Set("class", f.Get(p+"cls_token").Data, c.Prefix(), c.Width)
	f.blocks(c, p, "attn.in_proj_weight", "attn.in_proj_bias", "attn.out_proj", "mlp.0", "mlp.3")
	f.Norm("norm", p+"norm")
	f.Linear("head", p+"head.weight", p+"head.bias", 0, c.Classes)
	if variant == "ape" {
		f.Set("position/embedding", f.Get(p+"pos_embedding").Data, c.Tokens(), c.Width)
	} else {
		f.Store.SetParam("/wepe_mode", "release")
		for _, scalar := range []string{"alpha_learn", "log_alpha_scale", "pos_scale"} {
			name := "pos_encoding." + scalar
			f.Set(officialPaths[name], f.Get(p+name).Data)
		}
		f.Set("position/wepe/prefix", f.Get(p+"pos_encoding.cls_pos_embedding").Data, c.Prefix(), c.Width)
		f.Linear("position/wepe/projection/dense", p+"pos_encoding.projection.0.weight",
			p+"pos_encoding.projection.0.bias", 0, c.Width)
		f.Norm("position/wepe/projection/layer_normalization", p+"pos_encoding.projection.1")
	}
	f.AllUsed(p)
	return f, c
}

func TestEveryStageAndGradientEqualsTheReleasedViT(t *testing.T) {
	fixtures.Each(t, testEveryStageAndGradientEqualsTheReleasedViT)
}

func testEveryStageAndGradientEqualsTheReleasedViT(t *testing.T) {
	want := fixtures.Tensors(t, "official_vit_ti", "tensors.safetensors")
	images, upstream := want["images_nhwc"], want["upstream"]
	for variant := range officialPositions {
		t.Run(variant, func(t *testing.T) {
			f, c := official(t, variant)
			var stages, grads []string
			for name := range want {
				if grad, ok := strings.CutPrefix(name, variant+".grad."); ok {
					grads = append(grads, grad)
				}
			}
			got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
				trace := c.Trace(s.In("vit"), in[0], false)
				var nodes []*Node
				add := func(name string, x *Node) { stages, nodes = append(stages, name), append(nodes, x) }
				add("patch_norm", trace.Patches)
				add("tokens_in", trace.Tokens)
				for i, b := range trace.Blocks {
					add(fmt.Sprintf("blocks.%d.attn", i), b.Attention)
					add(fmt.Sprintf("blocks.%d", i), b.Output)
				}
				add("norm", trace.Encoded)
				add("logits", trace.Logits)
				loss := ReduceAllSum(Mul(trace.Logits, in[1]))
				var weights []*Node
				for _, name := range grads {
					path, known := officialPaths[name]
					if !known {
						t.Fatalf("the gradient of %q has no place here", name)
					}
					weights = append(weights, s.Store().GetVariable("/vit/"+path).NodeValue(in[0].Graph()))
				}
				return append(nodes, Gradient(loss, weights...)...)
			}, gomlxtest.Input(images),
				gomlxtest.Input(upstream))
			for i, name := range stages {
				gomlxtest.Near(t, name, got[i], want[variant+"."+name].Data, 1e-5)
			}
			for i, name := range grads {
				x := want[variant+".grad."+name]
				data := got[len(stages)+i]
				if len(x.Shape) == 2 { // torch's Linear is [out, in], ours [in, out]
					data = gomlxtest.Reversed(data, x.Shape[1], 1, x.Shape[0])
				}
				gomlxtest.Near(t, "gradient of "+name, data, x.Data, 1e-4)
			}
		})
	}
}

func TestFullSizeParameterCountsEqualTheReleasedOnes(t *testing.T) {
	fixtures.Each(t, testFullSizeParameterCountsEqualTheReleasedOnes)
}

func testFullSizeParameterCountsEqualTheReleasedOnes(t *testing.T) {
	var meta officialMeta
	fixtures.JSON(t, "official_vit_ti", "meta.json", &meta)
	for variant, label := range officialPositions {
		c := Config{ // fixture README: img 224, patch 16, d 192, depth 12, heads 3, 100 classes
			ImageRows: 224, ImageCols: 224, PatchSize: 16, Width: 192, Depth: 12, Heads: 3, Classes: 100,
			PatchNorm: true, Position: label,
		}
		without := c
		without.Position = "none"
		want := meta.FullSize[variant]
		if got := c.Parameters(); got != want.Total {
			t.Errorf("%s: %d parameters, want %d", variant, got, want.Total)
		}
		if got := c.Parameters() - without.Parameters(); got != want.Position {
			t.Errorf("%s: %d parameters of the position encoding, want %d", variant, got, want.Position)
		}
	}
}
