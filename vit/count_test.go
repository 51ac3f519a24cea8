// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestParameterCountsEqualThePublishedOnes(t *testing.T) {
	// timm 1.0, vit_{tiny,small,base,large}_patch16_224 and vit_huge_patch14_224 with 1000 classes.
	for name, want := range map[string]int{
		"Ti/16": 5_717_416, "S/16": 22_050_664, "B/16": 86_567_656, "L/16": 304_326_632, "H/14": 632_045_800,
	} {
		c := gomlxtest.Must(Variant(name))(t)
		c.Position = "learned"
		if got := c.Parameters(); got != want {
			t.Errorf("%s: %d parameters, want %d", name, got, want)
		}
	}
}

// Two for each multiply-add of the products of a model of two blocks on 16 tokens, 15 of them patches of 12 values.
func TestFLOPsAreOfEveryMatrixProduct(t *testing.T) {
	plain, gated, mapped := small("learned", poolClass), small("learned", poolClass), small("learned", poolMap)
	gated.SwiGLU, mapped.ClassToken, mapped.PoolMLPDim = true, true, 19
	product := func(rows, inner, cols float64) float64 { return 2 * rows * inner * cols }
	attention := 4*product(16, 28, 28) + product(16, 28, 16) + product(16, 16, 28)
	mlp := product(16, 28, 37) + product(16, 37, 28)
	ends := product(15, 12, 28) + product(1, 28, 11)
	pool := 2*product(1, 28, 28) + 2*product(15, 28, 28) + product(1, 28, 15) + product(1, 15, 28) +
		product(1, 28, 19) + product(1, 19, 28) // of the patches alone
	gomlxtest.NearAbs(t, "FLOPs", []float64{plain.FLOPs(), gated.FLOPs(), mapped.FLOPs()}, []float64{
		ends + 2*(attention+mlp), ends + 2*(attention+mlp+product(16, 28, 37)), ends + 2*(attention+mlp) + pool}, 0)
}

// Padding does not change the logits of any option.
func TestPaddingChangesNoLogitsOfAnyOption(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, set := range map[string]func(*Config){
		"patch norm, qv biases": func(c *Config) {
			c.PatchNorm, c.Registers, c.LayerScale, c.SwiGLU, c.PatchPositions = true, 3, 0.1, true, true
			c.QKVBias = "qv"
		},
		"mean, no biases":        func(c *Config) { c.Pool, c.PatchNorm, c.QKVBias = poolMean, true, "none" },
		"clip":                   func(c *Config) { c.PreNorm, c.Activation = true, "quick_gelu" },
		"siglip":                 func(c *Config) { c.Pool, c.PoolMLPDim, c.Activation = poolMap, 19, "gelu_tanh" },
		"map without its prefix": func(c *Config) { c.Pool, c.ClassToken, c.Registers = poolMap, true, 2 },
		"pe": func(c *Config) {
			c.Pool, c.ClassToken, c.PoolPrefix, c.PoolHeads = poolMap, true, true, 4
		},
		"eva02": func(c *Config) {
			c.SwiGLU, c.MLPNorm, c.ContextNorm, c.QKNorm, c.FinalNorm = true, true, true, true, "pooled"
		},
		"pooled norm of two vectors": func(c *Config) { c.Pool, c.FinalNorm = poolClassMean, "pooled" },
		"pooled RMSNorm of two vectors": func(c *Config) {
			c.Pool, c.Registers, c.FinalNorm, c.RMSNorm = poolClassRegister, 1, "pooled", true
		},
		"aimv2": func(c *Config) {
			c.Pool, c.RMSNorm, c.NoProjBias, c.NoMLPBias, c.SwiGLU, c.PatchNorm = poolMean, true, true, true, true, true
		},
		"deit":  func(c *Config) { c.Pool, c.Registers, c.RegisterPositions = poolClassRegister, 1, true },
		"radio": func(c *Config) { c.Registers, c.FinalNorm, c.ClassToken = 3, "none", true },
		"gap":   func(c *Config) { c.Pool, c.ClassToken, c.PoolPrefix = poolMean, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			c := small("learned", poolClass)
			set(&c)
			store := gomlxtest.Seeded(t, 3)
			variables(t, store, c)
			image := tensors.FromFlatDataAndDimensions(image(c, 5, 3), 1, c.ImageRows, c.ImageCols, c.Channels)
			got := naflexLogits(t, gomlxtest.Stirred(t, store), c, 0.7, 0)[0]
			gomlxtest.Near(t, "logits with padding", got, logitsOf(t, store, c, image), 1e-5)
		})
	}
}
