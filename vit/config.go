// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"
	_ "embed" // the comments of settings
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit/position"
)

//go:embed config.go
var configCode string

var _ = setting.Describe(configCode)

const defaultPosition = "wepe"

// Values of Config.Pool.
const (
	poolClass         = "class"
	poolMean          = "mean"
	poolMap           = "map"
	poolClassMean     = "class+mean"
	poolClassRegister = "class+register"
)

// Config describes a model. It is saved with every checkpoint; a zero field means the default named beside it.
type Config struct {
	ImageRows int `json:"image_rows"` // height of the images, pixels; 0 in a recipe: of those in training
	ImageCols int `json:"image_cols"` // width of the images, pixels; 0 as of ImageRows
	Channels  int `json:"channels"`   // channels of an image, default 3
	PatchSize int `json:"patch_size"` // side of a patch, pixels; divides ImageRows and ImageCols

	Width  int `json:"width"`     // length of a token
	Depth  int `json:"depth"`     // number of blocks
	Heads  int `json:"num_heads"` // attention heads; divides Width
	MLPDim int `json:"mlp_dim"`   // hidden units of a block's MLP, default 4·Width

	Classes int `json:"classes"` // outputs of the head; 0 in a recipe: the classes of the data

	// Pool is how the tokens of the last block become one vector per image: "class" (default) the class token (ViT, DeiT),
	// "mean" the mean of the patch tokens (big_vision "gap"), "map" one query that attends to the patch tokens, before an
	// MLP (big_vision "MAP", SigLIP), "class+mean" both concatenated, [2·width] (DINOv2), or "class+register" class token
	// and first register, [2·width]: the distillation token of DeiT (https://arxiv.org/abs/2012.12877).
	Pool     string `json:"pool"`
	Position string `json:"position"` // name (wepe list positions), or A+B; default "wepe"

	PatchNorm bool    `json:"patch_norm,omitempty"` // LayerNorm on the patch tokens, as in the WePE release
	Epsilon   float64 `json:"epsilon"`              // ε of every LayerNorm, default 1e-6 (ViT); the WePE release uses 1e-5

	ClassToken  bool `json:"class_token,omitempty"`    // adds a class token with pool "mean" or "map"
	PoolPrefix  bool `json:"pool_prefix,omitempty"`    // pools "mean" and "map" take class token and registers too
	PoolHeads   int  `json:"pool_num_heads,omitempty"` // attention heads of pool "map", default Heads
	PoolMLPDim  int  `json:"pool_mlp_dim,omitempty"`   // hidden units of the MLP of pool "map", default MLPDim
	Registers   int  `json:"registers,omitempty"`      // learned tokens after the class token, without positions
	RMSNorm     bool `json:"rms_norm,omitempty"`       // norms divide by the root of the mean square, and have no offset
	PreNorm     bool `json:"pre_norm,omitempty"`       // norm before block 0, no patch projection bias (CLIP)
	QKNorm      bool `json:"qk_norm,omitempty"`        // norms on the queries and keys of each head
	NoProjBias  bool `json:"no_proj_bias,omitempty"`   // the output of the attention has no biases
	NoMLPBias   bool `json:"no_mlp_bias,omitempty"`    // the MLP has no biases
	MLPNorm     bool `json:"mlp_norm,omitempty"`       // norm on the hidden units after the activation (EVA-02)
	ContextNorm bool `json:"context_norm,omitempty"`   // norm on the heads' output, before its projection (EVA-02)
	SwiGLU      bool `json:"swiglu,omitempty"`         // the MLP is output(silu(gate(x))·hidden(x))

	RegisterPositions bool    `json:"register_positions,omitempty"` // registers have positions, as the class token
	PatchPositions    bool    `json:"patch_positions,omitempty"`    // positions are added to patches alone
	LayerScale        float64 `json:"layer_scale,omitempty"`        // initial scale of each branch; 0 for none

	// QKVBias is which of query, key and value have a bias: "" all (ViT), "qv" query and value (DINOv3, BEiT; a key bias
	// cancels in the softmax) or "none".
	QKVBias string `json:"qkv_bias,omitempty"`
	// Activation is the function in the MLP without SwiGLU: "" x·Φ(x), "gelu_tanh"
	// ½x·(1 + tanh(√(2/π)·(x + .044715x³))) (SigLIP) or "quick_gelu" x·σ(1.702x) (OpenAI's CLIP).
	Activation string `json:"activation,omitempty"`
	// FinalNorm is where the last norm is: "" on all tokens, before the pooling (ViT), "pooled" on the pooled vector
	// (timm's fc_norm: MAE, BEiT) or "none".
	FinalNorm string `json:"final_norm,omitempty"`

	Dropout          float64 `json:"dropout,omitempty"`           // rate on the tokens of block 0, and twice in each MLP
	AttentionDropout float64 `json:"attention_dropout,omitempty"` // rate on the attention weights
	DropPath         float64 `json:"drop_path,omitempty"`         // rate of the last block n-1; block i has i/(n-1) of it

	// Init is the scheme of the initial weights, on which results from scratch depend (timm issue 1477). "timm" (default)
	// draws every linear weight from N(0, 0.02²) and the patch projection's, but not its biases, uniformly in ±1/√fan-in
	// (PyTorch's default); timm's trunc_normal_(std=.02) cuts at ±2, 100 standard deviations. "jax" is Google's:
	// Xavier-uniform weights, N(0, 1/fan-in) patch projection, MLP biases N(0, 1e-6²), head zero. "release" is the WePE
	// release's: as "timm", but Xavier-uniform patch projection and query, key, value; the latter with the bounds of the
	// stacked [3·width, width] matrix of torch's MultiheadAttention.
	Init  string `json:"init"`
	DType string `json:"dtype"` // compute type: "float32" (default) or "bfloat16"; weights stay float32

	// Recompute computes each block a second time for its gradient instead of storing its activations (gradient
	// checkpointing): training stores one block, the tokens between blocks and the random numbers of dropout, for a
	// third more work. Gradients differ only by rounding. Not with ONNX Runtime.
	Recompute bool `json:"recompute,omitempty"`
}

// maxSize bounds the memory that a configuration, possibly from an untrusted checkpoint, can allocate: 40 GB, 16 times
// ViT-H.
const maxSize = 1e10

// variants are the published sizes: ViT of Dosovitskiy et al., https://arxiv.org/abs/2010.11929, table 1, and
// https://arxiv.org/abs/2106.10270, table 2, for Ti and S. N and M are ours: sizes that train on a laptop's CPU.
var variants = []struct {
	name                        string
	width, depth, heads, mlpDim int
}{
	{"N", 64, 4, 4, 256}, {"M", 128, 6, 4, 512}, {"Ti", 192, 12, 3, 768}, {"S", 384, 12, 6, 1536},
	{"B", 768, 12, 12, 3072}, {"L", 1024, 24, 16, 4096}, {"H", 1280, 32, 16, 5120},
}

// Variant returns the configuration of a model name, size "/" patch size, as in "Ti/16" or "H/14": images of 224×224
// or the next multiple of the patch size, 1000 classes, class token. Sizes are N, M (for CPUs), Ti, S, B, L and H.
func Variant(name string) (Config, error) {
	size, patch, _ := strings.Cut(name, "/")
	patchSize, err := strconv.Atoi(patch)
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
		if v.name == size && err == nil && patchSize > 0 {
			side := (223/patchSize + 1) * patchSize
			return Config{ImageRows: side, ImageCols: side, PatchSize: patchSize, Width: v.width, Depth: v.depth,
				Heads: v.heads, MLPDim: v.mlpDim, Classes: 1000}.Resolve()
		}
	}
	return Config{}, fmt.Errorf("vit: unknown model %q: want SIZE/PATCH with SIZE one of %s, as in Ti/16",
		name, strings.Join(names, ", "))
}

// Resolve returns c with every zero field that has a default filled in, and an error, in one line, that names the first
// field that is wrong. A configuration is resolved once, where it comes from a file or a caller: Logits, NaFlexLogits,
// Fold, Parameters and FLOPs do it themselves. Block, Patches and PoolWeights take a resolved one.
func (c Config) Resolve() (Config, error) {
	c.Channels = cmp.Or(c.Channels, 3)
	c.MLPDim = cmp.Or(c.MLPDim, 4*c.Width)
	c.Pool = cmp.Or(c.Pool, poolClass)
	c.Position = cmp.Or(c.Position, defaultPosition)
	c.Epsilon = cmp.Or(c.Epsilon, 1e-6)
	c.Init = cmp.Or(c.Init, initTimm)
	c.DType = cmp.Or(c.DType, "float32")
	return c, c.validate()
}

// resolved is Resolve for the code that builds graphs, which panics.
func (c Config) resolved() Config {
	c, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return c
}

func (c Config) validate() error {
	if err := c.validateFields(); err != nil {
		return err
	}
	switch {
	case c.ImageRows%c.PatchSize != 0 || c.ImageCols%c.PatchSize != 0:
		up := func(side int) int { return (side + c.PatchSize - 1) / c.PatchSize * c.PatchSize }
		return fmt.Errorf("vit: an image of %d×%d pixels does not divide into patches of %d×%d: take multiples of %[3]d, "+
			"as %[5]d×%[6]d", c.ImageRows, c.ImageCols, c.PatchSize, c.PatchSize, up(c.ImageRows), up(c.ImageCols))
	case c.Tokens() > 1<<20:
		return fmt.Errorf("vit: %d patches are more than this library takes, 2^20: choose a larger patch size", c.Tokens())
	case c.Width%c.Heads != 0:
		return fmt.Errorf("vit: width %d does not divide into %d heads", c.Width, c.Heads)
	case !(c.Epsilon > 0):
		return fmt.Errorf("vit: epsilon is %g, want > 0", c.Epsilon)
	case !(c.LayerScale >= 0 && c.LayerScale <= 1000):
		return fmt.Errorf("vit: layer_scale is %g, want 0, for none, to 1000", c.LayerScale)
	case c.RegisterPositions && c.PatchPositions:
		return errors.New("vit: register_positions and patch_positions are both set: choose which tokens have positions")
	case c.Pool == poolClassRegister && c.Registers == 0:
		return fmt.Errorf("vit: pool %q needs a register: set registers", c.Pool)
	case c.PoolHeads < 0 || c.Width%c.poolHeads() != 0:
		return fmt.Errorf("vit: pool_num_heads is %d, which does not divide width %d", c.PoolHeads, c.Width)
	case c.PoolMLPDim < 0 || c.PoolMLPDim > 1<<20:
		return fmt.Errorf("vit: pool_mlp_dim is %d, want 0, for that of the blocks, to %d", c.PoolMLPDim, 1<<20)
	}
	encoding, err := position.Parse(c.Position)
	if err == nil {
		err = encoding.Validate(c.positions())
	}
	if err != nil {
		return fmt.Errorf("vit: %w", err)
	}
	if size := c.size(); size > maxSize {
		return fmt.Errorf("vit: a model of about %.2g numbers is more than this library takes, %.2g", size, maxSize)
	}
	return nil
}

// validateFields checks each field on its own.
func (c Config) validateFields() error {
	for _, f := range []struct {
		name  string
		value int
		limit int
	}{
		{"image_rows", c.ImageRows, 16384}, {"image_cols", c.ImageCols, 16384}, {"channels", c.Channels, 1024},
		{"patch_size", c.PatchSize, 16384}, {"registers + 1", c.Registers + 1, 1025}, {"width", c.Width, 65536},
		{"depth", c.Depth, 1000},
		{"num_heads", c.Heads, 65536}, {"mlp_dim", c.MLPDim, 1 << 20}, {"classes", c.Classes, 1_000_000},
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
	choices := []struct {
		name, value string
		of          []string
	}{
		{"pool", c.Pool, []string{poolClass, poolMean, poolMap, poolClassMean, poolClassRegister}},
		{"qkv_bias", c.QKVBias, []string{"", "qv", "none"}},
		{"activation", c.Activation, []string{"", "gelu_tanh", "quick_gelu"}},
		{"final_norm", c.FinalNorm, []string{"", "pooled", "none"}},
		{"init", c.Init, inits}, {"dtype", c.DType, []string{"float32", "bfloat16"}},
	}
	for _, f := range choices {
		if !slices.Contains(f.of, f.value) {
			return fmt.Errorf("vit: unknown %s %q: want one of %q", f.name, f.value, f.of)
		}
	}
	return nil
}

// Rows is the number of patches from top to bottom.
func (c Config) Rows() int { return c.ImageRows / c.PatchSize }

// Cols is the number of patches from left to right.
func (c Config) Cols() int { return c.ImageCols / c.PatchSize }

// classTokens is 1 where there is a class token.
func (c Config) classTokens() int {
	if !c.ClassToken && (c.Pool == poolMean || c.Pool == poolMap) {
		return 0
	}
	return 1
}

func (c Config) poolHeads() int  { return cmp.Or(c.PoolHeads, c.Heads) }
func (c Config) poolMLPDim() int { return cmp.Or(c.PoolMLPDim, c.MLPDim) }

// Prefix is the number of tokens in front of the patches: the class token, if there is one, and the registers.
func (c Config) Prefix() int { return c.classTokens() + c.Registers }

// PrefixPositions is the number of prefix tokens with a position in an additive encoding: the class token, unless
// PatchPositions excludes it, and the registers with RegisterPositions.
func (c Config) PrefixPositions() int {
	switch {
	case c.PatchPositions:
		return 0
	case c.RegisterPositions:
		return c.Prefix()
	}
	return c.classTokens()
}

// Positions is the number of positions of an additive encoding: PrefixPositions, then patches row by row.
func (c Config) Positions() int { return c.PrefixPositions() + c.Rows()*c.Cols() }

// Tokens is the length of the sequence: prefix tokens, then patches row by row.
func (c Config) Tokens() int { return c.Prefix() + c.Rows()*c.Cols() }

func (c Config) dtype() dtypes.DType {
	if c.DType == "bfloat16" {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// PooledWidth is the input width of the head.
func (c Config) PooledWidth() int {
	if c.Pool == poolClassMean || c.Pool == poolClassRegister {
		return 2 * c.Width
	}
	return c.Width
}

// Parameters is the number of trainable parameters of the model, with default hyperparameters: those that it creates.
func (c Config) Parameters() int {
	c = c.resolved()
	return weight.Count(c.Logits, c.ImageRows, c.ImageCols, c.Channels)
}

// size is about the numbers that the variables and the fixed tables of a model have.
func (c Config) size() float64 {
	width, mlp, patches := float64(c.Width), float64(c.MLPDim), float64(c.Rows()*c.Cols())
	block := width*(4*width+3*mlp) + 4*patches*float64(c.Heads) // the latter a table of relative positions
	size := float64(c.Depth)*block + width*(patches+float64(c.PatchSize*c.PatchSize*c.Channels+c.Classes))
	if c.Pool == poolMap {
		size += width * (4*width + 2*float64(c.poolMLPDim()))
	}
	for _, s := range c.Encoding() {
		if s.Size != nil {
			size += s.Size(c.positions())
		}
		if s.Kind == position.Bias { // additive.Pairs, twice 64 bits
			size += 4 * float64(c.Tokens()) * float64(c.Tokens())
		}
	}
	return size
}

// FLOPs is the number of floating-point operations of one forward pass on one image: two for each multiply-add of the
// matrix products. Not counted are those inside the position encoding, up to 5 % in ViT-Ti/16 (rope-dinov3, fope; of
// liere 28 %, which a batch shares), and a few thousandths for the rest. A training step costs three times as much.
// Without Classes there is no head.
func (c Config) FLOPs() float64 {
	classes := c.Classes
	c.Classes = max(1, classes)
	c = c.resolved()
	tokens, patches := float64(c.Tokens()), float64(c.Rows()*c.Cols())
	width, mlp := float64(c.Width), float64(c.MLPDim)
	if c.SwiGLU {
		mlp *= 1.5 // three products instead of two
	}
	block := tokens*(4*width*width+2*width*mlp) + 2*tokens*tokens*width
	patch := patches * float64(c.PatchSize*c.PatchSize*c.Channels) * width
	pool := 0.0
	if c.Pool == poolMap { // query, output and MLP of one token; keys and values of all that are pooled
		pooled := patches
		if c.PoolPrefix {
			pooled = tokens
		}
		pool = 2*(pooled+1)*width*width + 2*pooled*width + 2*width*float64(c.poolMLPDim())
	}
	return 2 * (patch + float64(c.Depth)*block + pool + float64(c.PooledWidth()*classes))
}
