// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// Pooling: how the tokens of the last block become one vector per image.
const (
	PoolClass     = "class"      // the class token (ViT, DeiT)
	PoolMean      = "mean"       // the mean of the patch tokens; there is no class token (big_vision "gap")
	PoolClassMean = "class+mean" // both, one after the other: 2·width numbers (DINOv2)
)

// Which of query, key and value have a bias: values of Config.QKVBias.
const (
	QKVBiasAll   = ""     // all three (ViT)
	QKVBiasNoKey = "qv"   // query and value: that of the key cancels in the softmax (DINOv3, BEiT)
	QKVBiasNone  = "none" // none
)

// Config says what a model is. It is saved with every checkpoint; a zero field means the default named beside it.
type Config struct {
	ImageRows int `json:"image_rows"` // pixels
	ImageCols int `json:"image_cols"` // pixels
	Channels  int `json:"channels"`   // default 3
	PatchSize int `json:"patch_size"` // pixels; divides ImageRows and ImageCols

	Width  int `json:"width"`   // length of a token
	Depth  int `json:"depth"`   // number of blocks
	Heads  int `json:"heads"`   // attention heads; divides Width
	MLPDim int `json:"mlp_dim"` // hidden units of a block's MLP, default 4·Width

	Classes  int    `json:"classes"`
	Pool     string `json:"pool"`     // PoolClass (default), PoolMean or PoolClassMean
	Position string `json:"position"` // one of PositionNames(), or A+B as in EncodingNamed; default "wepe"

	PatchNorm bool    `json:"patch_norm,omitempty"` // LayerNorm on the patch tokens, as in the WePE release
	Epsilon   float64 `json:"epsilon"`              // of every LayerNorm, default 1e-6 (ViT); the WePE release uses 1e-5

	Registers      int     `json:"registers,omitempty"`       // learned tokens behind the class token, without positions
	PatchPositions bool    `json:"patch_positions,omitempty"` // positions are added to patches, not to the class token
	LayerScale     float64 `json:"layer_scale,omitempty"`     // a branch's learned factors at first; 0 for no factors
	SwiGLU         bool    `json:"swiglu,omitempty"`          // the MLP is output(silu(gate(x))·hidden(x)), GELU without
	QKVBias        string  `json:"qkv_bias,omitempty"`        // QKVBiasAll (default), QKVBiasNoKey or QKVBiasNone

	Dropout          float64 `json:"dropout,omitempty"`           // on the tokens that enter block 0 and twice in each MLP
	AttentionDropout float64 `json:"attention_dropout,omitempty"` // on the attention weights
	DropPath         float64 `json:"drop_path,omitempty"`         // of the last block; block i of n has i/(n-1) of it

	Init  string `json:"init"`  // one of InitTimm (default), InitJAX, InitRelease
	DType string `json:"dtype"` // compute type: "float32" (default) or "bfloat16"; weights stay float32

	// Recompute computes each block a second time for its gradient instead of keeping what is in it: the memory of a
	// training is then that of one block and of the tokens between blocks, for a third more work. Values are the same, up
	// to the rounding of gradients. Not with ONNX Runtime.
	Recompute bool `json:"recompute,omitempty"`
}

// maxParameters bounds what a configuration, possibly from a stranger's checkpoint, makes the graph builder allocate:
// 40 GB, 16 times ViT-H.
const maxParameters = 10_000_000_000

// variants are the published sizes: ViT of Dosovitskiy et al., https://arxiv.org/abs/2010.11929, table 1, and
// https://arxiv.org/abs/2106.10270, table 2, for Ti and S. N and M are ours: sizes that train on a laptop's CPU.
var variants = []struct {
	name                        string
	width, depth, heads, mlpDim int
}{
	{"N", 64, 4, 4, 256},
	{"M", 128, 6, 4, 512},
	{"Ti", 192, 12, 3, 768},
	{"S", 384, 12, 6, 1536},
	{"B", 768, 12, 12, 3072},
	{"L", 1024, 24, 16, 4096},
	{"H", 1280, 32, 16, 5120},
}

// Variant returns the configuration of a model name, size "/" patch size, as in "Ti/16" or "H/14": 224×224 images,
// 1000 classes, class token. Sizes are N, M (for CPUs), Ti, S, B, L and H; any patch size may follow.
func Variant(name string) (Config, error) {
	size, patch, _ := strings.Cut(name, "/")
	patchSize, err := strconv.Atoi(patch)
	for _, v := range variants {
		if v.name == size && err == nil && patchSize > 0 {
			return Config{
				ImageRows: 224, ImageCols: 224, PatchSize: patchSize,
				Width: v.width, Depth: v.depth, Heads: v.heads, MLPDim: v.mlpDim,
				Classes: 1000,
			}.WithDefaults(), nil
		}
	}
	return Config{}, fmt.Errorf("vit: unknown model %q: want SIZE/PATCH with SIZE one of %s, as in Ti/16",
		name, strings.Join(Variants(), ", "))
}

// Variants lists the sizes that Variant knows, smallest first.
func Variants() []string {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	return names
}

// WithDefaults returns c with every zero field that has a default filled in.
func (c Config) WithDefaults() Config {
	c.Channels = cmp.Or(c.Channels, 3)
	c.MLPDim = cmp.Or(c.MLPDim, 4*c.Width)
	c.Pool = cmp.Or(c.Pool, PoolClass)
	c.Position = cmp.Or(c.Position, "wepe")
	c.Epsilon = cmp.Or(c.Epsilon, 1e-6)
	c.Init = cmp.Or(c.Init, InitTimm)
	c.DType = cmp.Or(c.DType, "float32")
	return c
}

// Validate says what is wrong with c, in one line that names the field.
func (c Config) Validate() error {
	c = c.WithDefaults()
	for _, f := range []struct {
		name  string
		value int
		limit int
	}{
		{"image_rows", c.ImageRows, 16384}, {"image_cols", c.ImageCols, 16384}, {"channels", c.Channels, 1024},
		{"patch_size", c.PatchSize, 16384}, {"registers + 1", c.Registers + 1, 1025}, {"width", c.Width, 65536},
		{"depth", c.Depth, 1000},
		{"heads", c.Heads, 65536}, {"mlp_dim", c.MLPDim, 1 << 20}, {"classes", c.Classes, 1_000_000},
	} {
		if f.value < 1 || f.value > f.limit {
			return fmt.Errorf("vit: %s is %d, want 1 to %d", f.name, f.value, f.limit)
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"dropout", c.Dropout}, {"attention_dropout", c.AttentionDropout}, {"drop_path", c.DropPath}} {
		if !(f.value >= 0 && f.value < 1) {
			return fmt.Errorf("vit: %s is %g, want 0 <= rate < 1", f.name, f.value)
		}
	}
	switch {
	case c.ImageRows%c.PatchSize != 0 || c.ImageCols%c.PatchSize != 0:
		return fmt.Errorf("vit: an image of %d×%d pixels does not divide into patches of %d×%d: choose a patch size "+
			"that divides both sides, or resize", c.ImageRows, c.ImageCols, c.PatchSize, c.PatchSize)
	case c.Tokens() > 1<<20:
		return fmt.Errorf("vit: %d patches are more than this library takes, 2^20: choose a larger patch size", c.Tokens())
	case c.Parameters() > maxParameters:
		return fmt.Errorf("vit: a model of %d parameters is more than this library takes, %d", c.Parameters(), maxParameters)
	case c.Width%c.Heads != 0:
		return fmt.Errorf("vit: width %d does not divide into %d heads", c.Width, c.Heads)
	case !(c.Epsilon > 0):
		return fmt.Errorf("vit: epsilon is %g, want > 0", c.Epsilon)
	case !(c.LayerScale >= 0 && c.LayerScale <= 1000):
		return fmt.Errorf("vit: layer_scale is %g, want 0, for none, to 1000", c.LayerScale)
	case !slices.Contains([]string{QKVBiasAll, QKVBiasNoKey, QKVBiasNone}, c.QKVBias):
		return fmt.Errorf("vit: unknown qkv_bias %q: want %q, %q or nothing for all", c.QKVBias, QKVBiasNoKey, QKVBiasNone)
	case c.Pool != PoolClass && c.Pool != PoolMean && c.Pool != PoolClassMean:
		return fmt.Errorf("vit: unknown pool %q: want %q, %q or %q", c.Pool, PoolClass, PoolMean, PoolClassMean)
	case !slices.Contains(inits, c.Init):
		return fmt.Errorf("vit: unknown init %q: want one of %s", c.Init, strings.Join(inits, ", "))
	case c.DType != "float32" && c.DType != "bfloat16":
		return fmt.Errorf("vit: unknown dtype %q: want float32 or bfloat16", c.DType)
	}
	encoding, err := EncodingNamed(c.Position)
	for _, p := range encoding {
		switch {
		case c.Width%max(p.Width, 1) != 0:
			return fmt.Errorf("vit: width %d: position %s wants a multiple of %d", c.Width, p.Name, p.Width)
		case c.headDim()%max(p.HeadDim, 1) != 0:
			return fmt.Errorf("vit: width %d in %d heads: position %s wants heads of a multiple of %d channels, not %d",
				c.Width, c.Heads, p.Name, p.HeadDim, c.headDim())
		}
	}
	return err
}

// Rows is the number of patches from top to bottom.
func (c Config) Rows() int { return c.ImageRows / c.PatchSize }

// Cols is the number of patches from left to right.
func (c Config) Cols() int { return c.ImageCols / c.PatchSize }

// classTokens is 1 where there is a class token.
func (c Config) classTokens() int {
	if c.Pool == PoolMean {
		return 0
	}
	return 1
}

// Prefix is the number of tokens in front of the patches: the class token, if there is one, and the registers.
func (c Config) Prefix() int { return c.classTokens() + c.Registers }

// PlacedPrefix is the number of these that have a row of their own in what is added to the tokens: the class token,
// unless PatchPositions leaves it out, and no register.
func (c Config) PlacedPrefix() int {
	if c.PatchPositions {
		return 0
	}
	return c.classTokens()
}

// Places is the number of rows of what is added to the tokens: PlacedPrefix, then patches row by row.
func (c Config) Places() int { return c.PlacedPrefix() + c.Rows()*c.Cols() }

// Tokens is the length of the sequence: prefix tokens, then patches row by row.
func (c Config) Tokens() int { return c.Prefix() + c.Rows()*c.Cols() }

func (c Config) dtype() dtypes.DType {
	if c.DType == "bfloat16" {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// PooledWidth is the length of the vector that the head sees.
func (c Config) PooledWidth() int {
	if c.Pool == PoolClassMean {
		return 2 * c.Width
	}
	return c.Width
}

// Parameters is the number of trainable numbers of the model.
func (c Config) Parameters() int {
	c = c.WithDefaults()
	dense := func(in, out int) int { return in*out + out }
	norm := 2 * c.Width
	block := norm + 4*dense(c.Width, c.Width) + norm + dense(c.Width, c.MLPDim) + dense(c.MLPDim, c.Width)
	if c.SwiGLU {
		block += dense(c.Width, c.MLPDim)
	}
	if c.LayerScale > 0 {
		block += 2 * c.Width
	}
	switch c.QKVBias {
	case QKVBiasNoKey:
		block -= c.Width
	case QKVBiasNone:
		block -= 3 * c.Width
	}
	total := dense(c.PatchSize*c.PatchSize*c.Channels, c.Width) + c.Prefix()*c.Width
	if c.PatchNorm {
		total += norm
	}
	if encoding, err := EncodingNamed(c.Position); err == nil {
		total += encoding.Parameters(c)
	}
	return total + c.Depth*block + norm + dense(c.PooledWidth(), c.Classes)
}

// FLOPs is the number of floating-point operations of one forward pass on one image: two for each multiply-add of
// the matrix products, which are all but a few thousandths of the work. A training step costs three times as much.
func (c Config) FLOPs() float64 {
	c = c.WithDefaults()
	tokens, patches := float64(c.Tokens()), float64(c.Rows()*c.Cols())
	width, mlp := float64(c.Width), float64(c.MLPDim)
	if c.SwiGLU {
		mlp *= 1.5 // three products instead of two
	}
	block := tokens*(4*width*width+2*width*mlp) + 2*tokens*tokens*width
	patch := patches * float64(c.PatchSize*c.PatchSize*c.Channels) * width
	return 2 * (patch + float64(c.Depth)*block + float64(c.PooledWidth()*c.Classes))
}
