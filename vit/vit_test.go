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
)

var run = gomlxtest.RunModel

// foreign maps the tensors of a torch ViT into a store, under /vit.
type foreign struct {
	t       testing.TB
	store   *model.Store
	tensors map[string]fixtures.Tensor
	used    map[string]bool
}

func (f *foreign) get(name string) fixtures.Tensor {
	f.t.Helper()
	x, ok := f.tensors[name]
	if !ok {
		f.t.Fatalf("the fixture has no tensor %q", name)
	}
	f.used[name] = true
	return x
}

func (f *foreign) set(path string, data []float64, dims ...int) {
	f.t.Helper()
	flat := fixtures.Tensor{Data: data}.Float32()
	if _, err := f.store.CreateVariable("/vit/"+path, tensors.FromFlatDataAndDimensions(flat, dims...)); err != nil {
		f.t.Fatal(err)
	}
}

// linear puts a torch Linear ([out, in] and [out]), or rows begin to end of a stacked one, at path.
func (f *foreign) linear(path, weight, bias string, begin, end int) {
	w, b := f.get(weight), f.get(bias)
	in := w.Shape[1]
	transposed := make([]float64, in*(end-begin))
	for o := begin; o < end; o++ {
		for i := range in {
			transposed[i*(end-begin)+o-begin] = w.Data[o*in+i]
		}
	}
	f.set(path+"/weights", transposed, in, end-begin)
	f.set(path+"/biases", b.Data[begin:end], end-begin)
}

func (f *foreign) norm(path, name string) {
	w, b := f.get(name+".weight"), f.get(name+".bias")
	f.set(path+"/gain", w.Data, w.Shape...)
	f.set(path+"/offset", b.Data, b.Shape...)
}

// conv puts a torch patch convolution [out, channels, p, p] at path as [p·p·channels, out].
func (f *foreign) conv(path, name string) {
	w, b := f.get(name+".weight"), f.get(name+".bias")
	out, ch, p := w.Shape[0], w.Shape[1], w.Shape[2]
	data := make([]float64, len(w.Data))
	for o := range out {
		for c := range ch {
			for k := range p * p {
				data[(k*ch+c)*out+o] = w.Data[(o*ch+c)*p*p+k]
			}
		}
	}
	f.set(path+"/weights", data, p*p*ch, out)
	f.set(path+"/biases", b.Data, out)
}

// blocks maps the attention and MLP of every block; qkv, proj, fc1, fc2 are the names inside a block.
func (f *foreign) blocks(c Config, prefix, qkvWeight, qkvBias, proj, fc1, fc2 string) {
	for i := range c.Depth {
		from, to := fmt.Sprintf("%sblocks.%d.", prefix, i), fmt.Sprintf("block_%02d/", i)
		f.norm(to+"norm1", from+"norm1")
		f.norm(to+"norm2", from+"norm2")
		for j, part := range []string{"query", "key", "value"} {
			f.linear(to+"attention/"+part, from+qkvWeight, from+qkvBias, j*c.Width, (j+1)*c.Width)
		}
		f.linear(to+"attention/output", from+proj+".weight", from+proj+".bias", 0, c.Width)
		f.linear(to+"mlp/hidden", from+fc1+".weight", from+fc1+".bias", 0, c.MLPDim)
		f.linear(to+"mlp/output", from+fc2+".weight", from+fc2+".bias", 0, c.Width)
	}
}

func load(t testing.TB, set string) *foreign {
	return &foreign{t: t, store: model.NewStore(), tensors: fixtures.Tensors(t, set, "model.safetensors"),
		used: map[string]bool{}}
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
	c := Config{
		ImageRows: m.ImgSize[0], ImageCols: m.ImgSize[1], PatchSize: m.PatchSize,
		Width: m.EmbedDim, Depth: m.Depth, Heads: m.NumHeads, MLPDim: int(m.MLPRatio * float64(m.EmbedDim)),
		Classes: m.Classes, Position: "learned", Epsilon: m.Eps,
	}.WithDefaults()
	for _, name := range []string{"cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"} {
		for i := range f.tensors[name].Data {
			f.tensors[name].Data[i] *= factor
		}
	}
	f.conv("patch", "patch_embed.proj")
	f.set("class", f.get("cls_token").Data, 1, c.Width)
	f.set("position/embedding", f.get("pos_embed").Data, c.Tokens(), c.Width)
	f.blocks(c, "", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "mlp.fc1", "mlp.fc2")
	f.norm("norm", "norm")
	f.linear("head", "head.weight", "head.bias", 0, c.Classes)
	for name := range f.tensors {
		if !f.used[name] {
			t.Errorf("tensor %q of the fixture is not mapped", name)
		}
	}
	return f, c
}

func TestEveryStageEqualsTimm(t *testing.T) {
	f, c := timm(t, 1)
	want := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	images := want["images_nhwc"]
	var names []string
	got := run(t, f.store, func(s *model.Scope, in []*Node) []*Node {
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
	}, tensors.FromFlatDataAndDimensions(images.Float32(), images.Shape...))
	for i, name := range names {
		nearAbs(t, name, got[i], want[name].Data, 5e-5)
	}
}

func TestNormEpsilonEqualsTimm(t *testing.T) {
	var meta struct {
		Scale float64 `json:"eps_probe_scale"`
	}
	fixtures.JSON(t, "timm_vit", "meta.json", &meta)
	f, c := timm(t, meta.Scale)
	want := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	images := want["images_nhwc"]
	got := run(t, f.store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, tensors.FromFlatDataAndDimensions(images.Float32(), images.Shape...))
	nearAbs(t, "eps_probe.logits", got[0], want["eps_probe.logits"].Data, 5e-5)
}

func TestNonSquareImagesEqualTimm(t *testing.T) {
	var meta struct {
		Size [2]int `json:"nonsquare_img_size"`
	}
	fixtures.JSON(t, "timm_vit", "meta.json", &meta)
	want := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	images := want["images_nonsquare_nhwc"]
	for _, kind := range []string{"bicubic_aa", "bicubic", "bilinear", "bilinear_aa"} {
		f, c := timm(t, 1)
		c.ImageRows, c.ImageCols = meta.Size[0], meta.Size[1]
		if err := f.store.DeleteVariable("/vit/position/embedding"); err != nil {
			t.Fatal(err)
		}
		f.set("position/embedding", want["nonsquare.pos_embed_"+kind].Data, c.Tokens(), c.Width)
		got := run(t, f.store, func(s *model.Scope, in []*Node) []*Node {
			return []*Node{c.Logits(s.In("vit"), in[0])}
		}, tensors.FromFlatDataAndDimensions(images.Float32(), images.Shape...))
		nearAbs(t, kind, got[0], want["nonsquare.logits_"+kind].Data, 5e-5)
	}
}

func nearAbs(t testing.TB, name string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", name, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol) {
			t.Errorf("%s: at %d got %g, want %g", name, i, got[i], want[i])
			return
		}
	}
}
