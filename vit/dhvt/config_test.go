// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

func TestResolve_NamesTheFieldThatIsWrong(t *testing.T) {
	for _, test := range []struct {
		want string
		set  func(*Config)
	}{
		{"image_rows", func(c *Config) { c.ImageRows = 0 }}, {"patch_size", func(c *Config) { c.PatchSize = 0 }},
		{"divide into patches", func(c *Config) { c.ImageCols = 13 }},
		{"patch_size", func(c *Config) { c.PatchSize, c.ImageRows, c.ImageCols = 8, 16, 24 }},
		{"width 28", func(c *Config) { c.PatchSize, c.ImageRows, c.ImageCols = 16, 32, 48 }}, // 16 has widths of an eighth
		{"width 21", func(c *Config) { c.Width = 21 }}, {"heads", func(c *Config) { c.Heads = 5 }},
		{"dropout", func(c *Config) { c.Dropout = 1 }}, {"token_dropout", func(c *Config) { c.TokenDropout = -1 }},
		{"position", func(c *Config) { c.Position = "sincos2d" }}, {"init", func(c *Config) { c.Init = "jax" }},
		{"epsilon", func(c *Config) { c.Epsilon = -1 }}, {"pool", func(c *Config) { c.Pool = "mean" }},
		{"dtype", func(c *Config) { c.DType = "bfloat16" }}, {"recompute", func(c *Config) { c.Recompute = true }},
		{"patch_norm", func(c *Config) { c.PatchNorm = true }}, {"swiglu", func(c *Config) { c.SwiGLU = true }},
		{"attention_dropout", func(c *Config) { c.AttentionDropout = 0.1 }},
		{"layer_scale", func(c *Config) { c.LayerScale = 0.1 }}, {"qkv_bias", func(c *Config) { c.QKVBias = "qv" }},
		{"registers", func(c *Config) { c.Position, c.Registers = "wepe", 1 }},
	} {
		c := small("none")
		test.set(&c)
		if _, err := c.Resolve(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one with %q", err, test.want)
		}
	}
}

func TestADHVTIsNotFolded(t *testing.T) {
	for _, name := range []string{"Fold", "FLOPs", "Trace", "Block", "NaFlexLogits", "Patches"} {
		if _, promoted := reflect.TypeFor[Config]().MethodByName(name); promoted {
			t.Errorf("Config has the method %s of a ViT", name)
		}
	}
}

func TestShapesThatDoNotFitAreRefused(t *testing.T) {
	gomlxtest.OnGo(t)
	c := small("none")
	one := c
	one.ImageRows, one.ImageCols = 4, 4
	zeros := func(x *Node, dims ...int) *Node { return Zeros(x.Graph(), shapes.Make(dtypes.Float32, dims...)) }
	for name, build := range map[string]func(*model.Scope, *Node){
		"columns by rows":       func(s *model.Scope, x *Node) { c.Logits(s, Transpose(x, 1, 2)) },
		"15 positions":          func(s *model.Scope, x *Node) { c.staged(s, x, zeros(x, 15, 28)) },
		"one value per channel": func(s *model.Scope, x *Node) { one.Logits(s, zeros(x, 1, 4, 4, 3)) },
		"":                      func(s *model.Scope, x *Node) { one.Logits(s, zeros(x, 2, 4, 4, 3)) }, // two values
	} {
		gomlxtest.Build(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			s.Store().SetTraining(in[0].Graph(), true)
			if err := exceptions.TryCatch[error](func() { build(s.In("dhvt"), in[0]) }); (name == "") != (err == nil) {
				t.Errorf("%s: %v", name, err)
			}
			return in
		}, images(c, 3))
	}
}

// small is a model on 5×3 patches of 4×4 pixels.
func small(position string) Config {
	return gomlxtest.Resolved(Config{Config: vit.Config{
		ImageRows: 20, ImageCols: 12, PatchSize: 4, Width: 28, Depth: 2, Heads: 7, MLPDim: 37, Classes: 11,
		Position: position,
	}})
}

func images(c Config, batch int) *tensors.Tensor {
	return gomlxtest.Noise(batch, c.ImageRows, c.ImageCols, c.Channels)
}

// logits runs a model on its images, in training or not.
func logits(t *testing.T, c Config, store *model.Store, training bool) []float64 {
	t.Helper()
	return run(t, store, func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), training)
		return []*Node{c.Logits(s.In("dhvt"), in[0])}
	}, images(c, 3))[0]
}

func TestTokensAreThePlainOnesPlusTheEncoding(t *testing.T) {
	c := small("wepe")
	got := run(t, gomlxtest.Seeded(t, 6), func(s *model.Scope, in []*Node) []*Node {
		scope := s.In("dhvt")
		logits, with := c.staged(scope, in[0], c.positions(scope, in[0].Graph()))
		_, without := c.staged(s.Shared("dhvt"), in[0], nil)
		adder, _ := position.As[position.Adder](c.Encoder(s.At("dhvt")))
		return []*Node{with["tokens_in"], without["tokens_in"], adder.Encode(in[0].Graph()), logits}
	}, images(c, 2))
	vectors := got[2] // of a class token and 5×3 patches
	if peak := slices.Max(vectors); peak < 0.1 {
		t.Errorf("the encoding is at most %g: too small for this test", peak)
	}
	gomlxtest.Near(t, "tokens", got[0], floats.AddTo(got[1], got[1], slices.Repeat(vectors, 2)), 1e-6)
}

func TestHeadTokensAreNormalizedWithTorchsEpsilonWhateverTheModels(t *testing.T) {
	gomlxtest.OnGo(t)
	const epsilon = 1e-5 // README of the fixture: head_token_layer_norm_eps
	c := small("none")
	c.Epsilon = 0.1
	got := run(t, gomlxtest.Seeded(t, 6), func(s *model.Scope, in []*Node) []*Node {
		logits, stages := c.staged(s.In("dhvt"), in[0], nil)
		return []*Node{stages["blocks.0.attn.ht_proj"], stages["blocks.0.attn.ht_norm"], logits}
	}, images(c, 2))
	var want []float64
	for x := range slices.Chunk(got[0], c.Width/c.Heads) {
		mean, variance := stat.PopMeanVariance(x, nil)
		for _, v := range x {
			want = append(want, (v-mean)/math.Sqrt(variance+epsilon))
		}
	}
	gomlxtest.Near(t, "head norm", got[1], want, 1e-4)
}

func TestDropoutActsInTrainingOnly(t *testing.T) {
	gomlxtest.OnGo(t)
	plain := small("wepe")
	for name, set := range map[string]func(*Config){
		"token dropout": func(c *Config) { c.TokenDropout = 0.5 },
		"dropout":       func(c *Config) { c.Dropout = 0.5 },
		"drop path":     func(c *Config) { c.DropPath = 0.5 },
	} {
		c := plain
		set(&c)
		of := func(c Config, training bool) []float64 { return logits(t, c, gomlxtest.Seeded(t, 1), training) }
		gomlxtest.NearAbs(t, name+" in an evaluation", of(c, false), of(plain, false), 0)
		if slices.Equal(of(c, true), of(plain, true)) {
			t.Errorf("%s does not act in training", name)
		}
	}
}

func TestATransposedImageSeenThroughTransposedKernelsHasTheSameLogits(t *testing.T) {
	c := small("none")
	store := gomlxtest.Seeded(t, 9)
	want := logits(t, c, store, false)
	for v := range store.IterVariables() {
		d := v.Shape().Dimensions // of convolutions: [3, 3, …]
		if len(d) < 3 {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			w := flat.([]float32)
			size := len(w) / 9
			for i := range 3 {
				for j := range i {
					for k := range size {
						a, b := (3*i+j)*size+k, (3*j+i)*size+k
						w[a], w[b] = w[b], w[a]
					}
				}
			}
		})
	}
	turned := c
	turned.ImageRows, turned.ImageCols = c.ImageCols, c.ImageRows
	got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{turned.Logits(s.In("dhvt"), TransposeAllAxes(in[0], 0, 2, 1, 3))}
	}, images(c, 3))[0]
	gomlxtest.Near(t, "logits", got, want, 1e-5)
}

func TestWeightsStartWithTheSpreadOfTheirScheme(t *testing.T) {
	gomlxtest.OnGo(t)
	c := small("none")
	c.PatchSize, c.ImageRows, c.ImageCols, c.Width, c.Heads, c.MLPDim = 2, 4, 6, 252, 7, 331
	stores := map[string]*model.Store{}
	for _, c.Init = range []string{"timm", "release"} {
		stores[c.Init] = gomlxtest.Seeded(t, 3)
		logits(t, c, stores[c.Init], false)
	}
	uniform := func(bound float64) float64 { return bound / math.Sqrt(3) }
	xavier := func(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) }
	for _, test := range []struct {
		init, path string
		want       float64
	}{
		{"timm", "patch/conv_0/weights", uniform(1 / math.Sqrt(9*3))},
		{"timm", "block_01/attention/key/weights", 0.02}, {"timm", "block_01/attention/head_tokens/embedding", 0.02},
		{"timm", "block_01/mlp/hidden/weights", uniform(1 / math.Sqrt(252))},
		{"timm", "block_01/mlp/hidden/biases", uniform(1 / math.Sqrt(252))},
		{"timm", "block_01/mlp/depthwise/weights", uniform(1.0 / 3)}, {"timm", "block_01/mlp/squeeze/weights", 0.02},
		{"timm", "head/biases", 0}, {"release", "patch/conv_0/weights", xavier(9*3, 9*252)},
		{"release", "block_01/mlp/output/weights", xavier(331, 252)}, {"release", "block_01/mlp/output/biases", 0},
		{"release", "block_01/mlp/depthwise/weights", xavier(9, 9*331)},
		{"release", "block_01/attention/output/weights", 0.02},
	} {
		values := gomlxtest.Values(t, stores[test.init].GetVariable("/dhvt/"+test.path).MustValue())
		gomlxtest.Spreads(t, test.init+": "+test.path, values, test.want)
	}
}
