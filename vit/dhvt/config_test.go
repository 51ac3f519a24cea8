// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
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
	for name, of := range map[string]struct {
		valid bool
		build func(*model.Scope, *Node)
	}{
		"columns by rows":       {false, func(s *model.Scope, x *Node) { c.Logits(s, Transpose(x, 1, 2)) }},
		"15 positions":          {false, func(s *model.Scope, x *Node) { c.staged(s, x, zeros(x, 15, 28)) }},
		"one value per channel": {false, func(s *model.Scope, x *Node) { one.Logits(s, zeros(x, 1, 4, 4, 3)) }},
		"two values":            {true, func(s *model.Scope, x *Node) { one.Logits(s, zeros(x, 2, 4, 4, 3)) }},
	} {
		gomlxtest.Build(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			s.Store().SetTraining(in[0].Graph(), true)
			if err := exceptions.TryCatch[error](func() { of.build(s.In("dhvt"), in[0]) }); of.valid != (err == nil) {
				t.Errorf("%s: %v", name, err)
			}
			return in
		}, images(c, 3))
	}
}
