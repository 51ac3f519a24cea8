// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

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
		logits, stages := c.staged(scope, in[0], c.positions(scope, in[0].Graph()))
		class := s.Store().GetVariable("/dhvt/class").NodeValue(in[0].Graph())
		adder, _ := position.As[position.Adder](c.Encoder(s.At("dhvt")))
		vectors := adder.Encode(in[0].Graph())
		return []*Node{stages["tokens_in"], stages["patch_embed"], MulScalar(class, 1), vectors, logits}
	}, images(c, 2))
	patches, class, vectors := got[1], got[2], got[3]
	if peak := slices.Max(vectors); peak < 0.1 {
		t.Errorf("the encoding is at most %g: too small for this test", peak)
	}
	var want []float64
	for image := range 2 {
		for i, v := range class {
			want = append(want, v+vectors[i])
		}
		for i := range 15 * c.Width { // 5×3 patches
			want = append(want, patches[image*15*c.Width+i]+vectors[c.Width+i])
		}
	}
	gomlxtest.Near(t, "tokens", got[0], want, 1e-6)
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
	size := c.Width / c.Heads
	var want []float64
	for at := 0; at < len(got[0]); at += size {
		x := got[0][at : at+size]
		var mean, variance float64
		for _, v := range x {
			mean += v / float64(size)
		}
		for _, v := range x {
			variance += (v - mean) * (v - mean) / float64(size)
		}
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
		if !slices.Equal(logits(t, c, gomlxtest.Seeded(t, 1), false), logits(t, plain, gomlxtest.Seeded(t, 1), false)) {
			t.Errorf("%s changes an evaluation", name)
		}
		if slices.Equal(logits(t, c, gomlxtest.Seeded(t, 1), true), logits(t, plain, gomlxtest.Seeded(t, 1), true)) {
			t.Errorf("%s does not act in training", name)
		}
	}
}
