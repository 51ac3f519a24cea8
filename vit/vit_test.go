// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

var run = gomlxtest.RunModel

// foreign maps the tensors of a torch ViT into a store, under /vit.
type foreign struct{ *gomlxtest.Torch }

// conv puts a torch patch convolution [out, channels, p, p] at path as [p·p·channels, out].
func (f *foreign) conv(path, name string) {
	w := f.Get(name + ".weight")
	out, ch, p := w.Shape[0], w.Shape[1], w.Shape[2]
	f.Set(path+"/weights", gomlxtest.Reversed(w.Data, out, ch, p*p), p*p*ch, out)
	f.Vector(path+"/biases", name+".bias")
}

// blocks maps the attention and MLP of every block; qkv, proj, fc1, fc2 are the names inside a block.
func (f *foreign) blocks(c Config, prefix, qkvWeight, qkvBias, proj, fc1, fc2 string) {
	for i := range c.Depth {
		from, to := fmt.Sprintf("%sblocks.%d.", prefix, i), fmt.Sprintf("block_%02d/", i)
		f.Norm(to+"norm1", from+"norm1")
		f.Norm(to+"norm2", from+"norm2")
		for j, part := range []string{"query", "key", "value"} {
			f.Linear(to+"attention/"+part, from+qkvWeight, from+qkvBias, j*c.Width, (j+1)*c.Width)
		}
		f.Linear(to+"attention/output", from+proj+".weight", from+proj+".bias", 0, c.Width)
		f.Linear(to+"mlp/hidden", from+fc1+".weight", from+fc1+".bias", 0, c.MLPDim)
		f.Linear(to+"mlp/output", from+fc2+".weight", from+fc2+".bias", 0, c.Width)
	}
}

func load(t testing.TB, set string) *foreign {
	return &foreign{gomlxtest.LoadTorch(t, set, "model.safetensors", "/vit/")}
}

// timm returns a store with the weights of the timm_vit fixture, some scaled by factor, and their configuration.
func timm(t testing.TB, factor float64) (*foreign, Config) {
	var meta struct {
		Config struct {
			ImgSize   [2]int `json:"img_size"`
			PatchSize int    `json:"patch_size"`
			EmbedDim  int    `json:"embed_dim"`
			Depth     int
			NumHeads  int     `json:"num_heads"`
			MLPRatio  float64 `json:"mlp_ratio"`
			Classes   int     `json:"num_classes"`
			Eps       float64 `json:"layer_norm_eps"`
		}
	}
	fixtures.JSON(t, "timm_vit", "meta.json", &meta)
	m := meta.Config
	f := load(t, "timm_vit")
	c := gomlxtest.Resolved(Config{
		ImageRows: m.ImgSize[0], ImageCols: m.ImgSize[1], PatchSize: m.PatchSize,
		Width: m.EmbedDim, Depth: m.Depth, Heads: m.NumHeads, MLPDim: int(m.MLPRatio * float64(m.EmbedDim)),
		Classes: m.Classes, Position: "learned", Epsilon: m.Eps,
	})
	for _, name := range []string{"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"} {
		for i := range f.Tensors[name].Data {
			f.Tensors[name].Data[i] *= factor
		}
	}
	f.conv("patch", "patch_embed.proj")
	f.Set("class", f.Get("cls_token").Data, 1, c.Width)
	f.Set("position/embedding", f.Get("pos_embed").Data, c.Tokens(), c.Width)
	f.blocks(c, "", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "mlp.fc1", "mlp.fc2")
	f.Norm("norm", "norm")
	f.Linear("head", "head.weight", "head.bias", 0, c.Classes)
	f.AllUsed("")
	return f, c
}

func TestEveryStageEqualsTimm(t *testing.T) { fixtures.Each(t, testEveryStageEqualsTimm) }

func testEveryStageEqualsTimm(t *testing.T) {
	f, c := timm(t, 1)
	want := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	images := want["images_nhwc"]
	var names []string
	got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
		trace := c.Trace(s.In("vit"), in[0], true)
		var nodes []*Node
		add := func(name string, node *Node) { names, nodes = append(names, name), append(nodes, node) }
		add("patch_embed", trace.Patches)
		add("tokens_after_pos", trace.Tokens)
		for i, b := range trace.Blocks {
			add(fmt.Sprintf("block_%d", i), b.Output)
		}
		b := trace.Blocks[0]
		d := b.Norm1.Shape().Dimensions
		flat := func(x *Node) *Node { return Reshape(x, d...) }
		add("block_0.norm1", b.Norm1)
		add("block_0.qkv", Concatenate([]*Node{flat(b.Query), flat(b.Key), flat(b.Value)}, -1))
		add("block_0.attn", b.Attention)
		add("block_0.norm2", b.Norm2)
		add("block_0.mlp_fc1", b.Hidden)
		add("block_0.mlp_act", b.Activated)
		add("block_0.mlp", b.MLP)
		add("final_norm", trace.Encoded)
		add("pre_logits", trace.Pooled)
		add("logits", trace.Logits)
		return nodes
	}, gomlxtest.Input(images))
	for i, name := range names {
		gomlxtest.NearAbs(t, name, got[i], want[name].Data, 5e-5)
	}
}

func TestNormEpsilonAndNonSquareImagesEqualTimm(t *testing.T) {
	fixtures.Each(t, testNormEpsilonAndNonSquareImagesEqualTimm)
}

func testNormEpsilonAndNonSquareImagesEqualTimm(t *testing.T) {
	var meta struct {
		Scale float64 `json:"eps_probe_scale"`
		Size  [2]int  `json:"nonsquare_img_size"`
	}
	fixtures.JSON(t, "timm_vit", "meta.json", &meta)
	want := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	near := func(f *foreign, c Config, images, logits string) {
		gomlxtest.NearAbs(t, logits, logitsOf(t, f.Store, c, gomlxtest.Input(want[images])), want[logits].Data, 5e-5)
	}
	f, c := timm(t, meta.Scale)
	near(f, c, "images_nhwc", "eps_probe.logits")
	for _, kind := range []string{"bicubic_aa", "bicubic", "bilinear", "bilinear_aa"} {
		f, c := timm(t, 1)
		c.ImageRows, c.ImageCols = meta.Size[0], meta.Size[1]
		if err := f.Store.DeleteVariable("/vit/position/embedding"); err != nil {
			t.Fatal(err)
		}
		f.Set("position/embedding", want["nonsquare.pos_embed_"+kind].Data, c.Tokens(), c.Width)
		near(f, c, "images_nonsquare_nhwc", "nonsquare.logits_"+kind)
	}
}
