// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

const (
	originalSet = "dhvt_tiny"
	releaseSet  = "official_dhvt_wepe"
)

// originalMeta is meta.json of either set.
type originalMeta struct {
	Config    map[string]any
	Tolerance map[string]float64
	FullSize  map[string]struct{ Total, Position int } `json:"full_size_parameters"`
}

// original returns the meta data of a set, a store with its weights, all but those below a prefix, and their
// configuration.
func original(t *testing.T, set string, except ...string) (meta originalMeta, f *foreign, c Config) {
	fixtures.JSON(t, set, "meta.json", &meta)
	sides, both := meta.Config["img_size"].([]any)
	if !both {
		sides = []any{meta.Config["img_size"], meta.Config["img_size"]}
	}
	of := func(name string) int { return int(meta.Config[name].(float64)) }
	epsilon, _ := meta.Config["layer_norm_eps"].(float64)
	c = gomlxtest.Resolved(Config{Config: vit.Config{
		ImageRows: int(sides[0].(float64)), ImageCols: int(sides[1].(float64)), PatchSize: of("patch_size"),
		Width: of("embed_dim"), Depth: of("depth"), Heads: of("num_heads"), Classes: of("num_classes"),
		MLPDim:  int(meta.Config["mlp_ratio"].(float64) * float64(of("embed_dim"))),
		Epsilon: cmp.Or(epsilon, 1e-5), // the release's
	}})
	f = load(t, set, "model.safetensors")
	f.model(c)
	f.AllUsed("", except...)
	return meta, f, c
}

// staged runs the network with the given positions and returns its logits and, by their names in the original, the
// stages, images first.
func (c Config) staged(scope *model.Scope, images, positions *Node) (*Node, map[string]*Node) {
	c = c.resolved()
	all := map[string]*Node{}
	all["logits"] = c.network(scope, images, positions, func(stage string, x *Node) {
		if x.Rank() == 3 && !strings.Contains(stage, ".ht_") { // [tokens, batch, channels]
			x = TransposeAllAxes(x, 1, 0, 2)
		}
		all[stage] = x
		if i, ok := strings.CutPrefix(stage, "patch_embed.proj."); ok {
			n, _ := strconv.Atoi(i)
			all[fmt.Sprintf("patch_embed.proj.%d", n+1)] = activation.Gelu(x)
		}
		if block, ok := strings.CutSuffix(stage, "attn.v"); ok {
			all[block+"attn.qkv"] = Concatenate([]*Node{all[block+"attn.q"], all[block+"attn.k"], x}, -1)
		}
	})
	all["patch_embed"], all["norm"] = all["patch_embed.post_affine"], all["final_norm"]
	return all["logits"], all
}

// compare runs the network on the images of a set and compares every stage of it that no prefix excludes. It returns
// the gradient of the logits times upstream by the given positions, nil for none.
func compare(t *testing.T, f *foreign, c Config, want *foreign, near func(name string, got, want []float64),
	positions, upstream any, except ...string) (gradient []float64) {
	t.Helper()
	names, inputs := []string{}, []any{gomlxtest.Input(want.Get("images_nhwc"))}
	if positions != nil {
		inputs = append(inputs, positions, upstream)
	}
	got := run(t, f.Store, func(s *model.Scope, in []*Node) (outputs []*Node) {
		var vectors *Node
		if positions != nil {
			vectors = Squeeze(in[1], 0)
		}
		logits, nodes := c.staged(s.In("dhvt"), in[0], vectors)
		for name := range want.Tensors {
			if slices.ContainsFunc(except, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				continue
			}
			if nodes[name] == nil {
				t.Fatalf("stage %q of the set is not compared", name)
			}
			names, outputs = append(names, name), append(outputs, nodes[name])
		}
		if positions != nil {
			outputs = append(outputs, Gradient(ReduceAllSum(Mul(logits, in[2])), vectors)...)
		}
		return outputs
	}, inputs...)
	for i, name := range names {
		near(name, got[i], want.Get(name).Data)
	}
	if len(names) < 5 {
		t.Errorf("%d stages compared, want all of the set's", len(names))
	}
	if positions == nil {
		return nil
	}
	return got[len(names)]
}

func TestEveryStageEqualsTheOriginal(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		meta, f, c := original(t, originalSet)
		near := func(name string, got, want []float64) { gomlxtest.NearAbs(t, name, got, want, meta.Tolerance["abs"]) }
		compare(t, f, c, load(t, originalSet, "tensors.safetensors"), near, nil, nil, "images_", "train.", "sope_")
	})
}

func TestOneTrainingForwardEqualsTheOriginal(t *testing.T) { fixtures.Each(t, testTrainingForward) }

func testTrainingForward(t *testing.T) {
	meta, f, c := original(t, originalSet)
	want := load(t, originalSet, "tensors.safetensors")
	forward := func(training bool) []float64 {
		return run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			s.Store().SetTraining(in[0].Graph(), training)
			return []*Node{c.Logits(s.In("dhvt"), in[0])}
		}, gomlxtest.Input(want.Get("images_nhwc")))[0]
	}
	statistics := func() map[string][]float64 {
		all := map[string][]float64{}
		for v := range f.Store.IterVariables() {
			if path := v.Path(); strings.HasSuffix(path, "/mean") || strings.HasSuffix(path, "/variance") {
				all[path] = gomlxtest.Values(t, v.MustValue())
			}
		}
		return all
	}
	before := statistics()
	gomlxtest.NearAbs(t, "logits", forward(false), want.Get("logits").Data, meta.Tolerance["abs"])
	for path, values := range statistics() {
		gomlxtest.NearAbs(t, path+" after an evaluation", values, before[path], 0)
	}
	gomlxtest.NearAbs(t, "train.logits", forward(true), want.Get("train.logits").Data, meta.Tolerance["train_logits_abs"])
	after := statistics()
	compared := 0
	for name, x := range want.Tensors {
		of, ok := strings.CutPrefix(name, "train.")
		if !ok || of == "logits" {
			continue
		}
		gomlxtest.NearAbs(t, name, after[f.running[of]], x.Data, meta.Tolerance["train_logits_abs"])
		compared++
	}
	if compared == 0 {
		t.Errorf("%d running statistics compared, want all of the fixture's", compared)
	}
	for path := range after {
		if f.Store.GetVariable(path).Trainable {
			t.Errorf("%s is trainable", path)
		}
	}
}

func TestPatchEmbeddings_EqualTheOriginal(t *testing.T) { fixtures.Each(t, testPatchEmbeddings) }

func testPatchEmbeddings(t *testing.T) {
	meta, _, _ := original(t, originalSet)
	want := fixtures.Tensors(t, originalSet, "tensors.safetensors")
	compared := 0
	for name, tokens := range want {
		var patch int
		if _, err := fmt.Sscanf(name, "sope_p%d.tokens", &patch); err != nil {
			continue
		}
		compared++
		prefix := fmt.Sprintf("sope_p%d.", patch)
		f := load(t, originalSet, "tensors.safetensors")
		images := f.Get(prefix + "images_nhwc")
		c := Config{Config: vit.Config{
			ImageRows: images.Shape[1], ImageCols: images.Shape[2], PatchSize: patch, Width: tokens.Shape[2], Depth: 1,
			Heads: 1, Classes: 1,
		}}.resolved()
		f.sope(c, prefix+"param.")
		got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			return []*Node{TransposeAllAxes(c.sope(s.In("dhvt").In("patch"), in[0], func(string, *Node) {}), 1, 0, 2)}
		}, gomlxtest.Input(f.Get(prefix+"images_nhwc")))
		gomlxtest.NearAbs(t, name, got[0], tokens.Data, meta.Tolerance["abs"])
		f.AllUsed(prefix + "param.")
	}
	if compared == 0 {
		t.Error("the fixture holds no patch embedding of another size")
	}
}

var run = gomlxtest.RunModel

// foreign maps the tensors of a torch DHVT into a store, under /dhvt.
type foreign struct {
	*gomlxtest.Torch
	running map[string]string // paths of the running statistics, by their names in torch
}

func load(t testing.TB, set, file string) *foreign {
	return &foreign{gomlxtest.LoadTorch(t, set, file, "/dhvt/"), map[string]string{}}
}

func (f *foreign) batchNorm(path, name string) {
	f.Norm(path, name)
	for torch, statistic := range map[string]string{".running_mean": "/mean", ".running_var": "/variance"} {
		f.Vector(path+statistic, name+torch)
		f.running[name+torch] = "/dhvt/" + path + statistic
	}
}

func (f *foreign) affine(path, name string) {
	f.Vector(path+"/gain", name+".alpha")
	f.Vector(path+"/offset", name+".beta")
}

// sope maps the patch embedding at prefix.
func (f *foreign) sope(c Config, prefix string) {
	f.affine("patch/pre_affine", prefix+"pre_affine")
	f.affine("patch/post_affine", prefix+"post_affine")
	for i := range c.convWidths() {
		from, to := fmt.Sprintf("%sproj.%d.", prefix, 2*i), fmt.Sprintf("patch/conv_%d", i)
		w := f.Get(from + "0.weight") // [out, in, 3, 3]
		out, in := w.Shape[0], w.Shape[1]
		f.Set(to+"/weights", gomlxtest.Reversed(w.Data, out, in, 9), 3, 3, in, out)
		f.batchNorm(to+"/norm", from+"1")
	}
}

// model maps everything but the position encoding.
func (f *foreign) model(c Config) {
	f.sope(c, "patch_embed.")
	f.Set("class", f.Get("cls_token").Data, 1, c.Width)
	for i := range c.Depth {
		from, to := fmt.Sprintf("blocks.%d.", i), fmt.Sprintf("block_%02d/", i)
		f.Norm(to+"norm1", from+"norm1")
		f.Norm(to+"norm2", from+"norm2")
		for j, part := range []string{"query", "key", "value"} {
			f.Linear(to+"attention/"+part, from+"attn.qkv.weight", from+"attn.qkv.bias", j*c.Width, (j+1)*c.Width)
		}
		f.Layer(to+"attention/output", from+"attn.proj")
		f.Layer(to+"attention/head_tokens", from+"attn.ht_proj")
		f.Norm(to+"attention/head_tokens/norm", from+"attn.ht_norm")
		f.Set(to+"attention/head_tokens/embedding", f.Get(from+"attn.pos_embed").Data, c.Heads, c.Width)
		f.Layer(to+"mlp/hidden", from+"mlp.conv1")
		f.Layer(to+"mlp/output", from+"mlp.conv3")
		w := f.Get(from + "mlp.conv2.weight") // [m, 1, 3, 3]
		f.Set(to+"mlp/depthwise/weights", gomlxtest.Reversed(w.Data, c.MLPDim, 1, 9), 3, 3, c.MLPDim)
		f.Vector(to+"mlp/depthwise/biases", from+"mlp.conv2.bias")
		f.batchNorm(to+"mlp/hidden/norm", from+"mlp.bn1")
		f.batchNorm(to+"mlp/depthwise/norm", from+"mlp.bn2")
		f.batchNorm(to+"mlp/output/norm", from+"mlp.bn3")
		f.Layer(to+"mlp/squeeze", from+"mlp.compress")
		f.Layer(to+"mlp/excite", from+"mlp.excitation")
	}
	f.Norm("norm", "norm")
	f.Layer("head", "head")
}

// The encoding of the release's DHVT differs from this library's: its vectors come from the fixture, and gradients of
// its last layers from the gradient of the vectors.
func TestEveryStageAndGradientEqualsTheReleasedDHVT(t *testing.T) { fixtures.Each(t, testReleasedDHVT) }

func testReleasedDHVT(t *testing.T) {
	const positionPrefix = "pos_encoding."
	_, f, c := original(t, releaseSet, positionPrefix)
	want := load(t, releaseSet, "tensors.safetensors")

	vectors := want.Get("pos_encoding") // [1, 1+N, width]
	// The other tensors are of the encoding, or of the separate module g30.
	near := func(name string, got, want []float64) { gomlxtest.Near(t, name, got, want, 1e-4) } // README: tokens, logits
	gradient := compare(t, f, c, want, near, gomlxtest.Input(vectors), gomlxtest.Input(want.Get("upstream")), "images_",
		"g30.", "pos", "grad.", "upstream")
	// vectors = pos_scale·[class; gain·normalized + offset]; the norm is layer 5 of the MLP or 1 of the linear form.
	norm := positionPrefix + "projection.5."
	if _, ok := f.Tensors[norm+"bias"]; !ok {
		norm = positionPrefix + "projection.1."
	}
	scale, gain, offset := f.Get(positionPrefix + "pos_scale").Data[0], f.Get(norm+"weight").Data, f.Get(norm+"bias").Data
	grads := map[string][]float64{positionPrefix + "cls_pos_embedding": make([]float64, c.Width),
		norm + "bias": make([]float64, c.Width), norm + "weight": make([]float64, c.Width),
		positionPrefix + "pos_scale": make([]float64, 1)}
	for i, by := range gradient {
		k := i % c.Width
		grads[positionPrefix+"pos_scale"][0] += by * vectors.Data[i] / scale
		if i < c.Width {
			grads[positionPrefix+"cls_pos_embedding"][k] = by * scale
			continue
		}
		grads[norm+"bias"][k] += by * scale
		grads[norm+"weight"][k] += by * (vectors.Data[i] - scale*offset[k]) / gain[k]
	}
	for name, values := range grads {
		gomlxtest.Near(t, "gradient of "+name, values, want.Get("grad."+name).Data, 1e-3)
	}
}

func TestParameters_EqualTheReleased(t *testing.T) { fixtures.Each(t, testParameterCounts) }

// The full-size models of the release's parameter counts, README of the fixture.
func testParameterCounts(t *testing.T) {
	var meta originalMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	models := map[string]struct {
		width, heads int
		projection   string
	}{"main_script": {224, 4, "mlp"}, "class_defaults": {192, 3, "linear"}, "class_defaults_mlp": {192, 3, "mlp"}}
	for name, want := range meta.FullSize {
		released := models[name] // an unknown model is not valid
		c := gomlxtest.Resolved(Config{Config: vit.Config{
			ImageRows: 224, ImageCols: 224, PatchSize: 16, Width: released.width, Depth: 12, Heads: released.heads,
			Classes: 100,
		}})
		is.Equal(t, name+" without positions", c.Parameters(), want.Total-want.Position)
		c.Position = "wepe"
		got := weight.Count(func(scope *model.Scope, images *Node) *Node {
			scope.SetParam("wepe_projection", released.projection)
			return c.Logits(scope, images)
		}, c.ImageRows, c.ImageCols, c.Channels)
		is.Equal(t, name+": parameters", got, want.Total)
	}
}
