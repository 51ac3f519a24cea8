// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/support/envutil"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// BlockTrace holds the intermediate values of one block; all are [batch, tokens, width] unless noted.
type BlockTrace struct {
	Norm1             *Node // input of the attention, before Add of the hooks
	Query, Key, Value *Node // [batch, tokens, heads, headDim], after QKNorm, before modulation and rotation
	Weights           *Node // [batch, heads, query, key] softmax weights, float32; nil unless requested
	Attention         *Node // the attention branch, before it is added
	Norm2             *Node // input of the MLP
	Gate              *Node // [batch, tokens, mlpDim] with SwiGLU, else nil
	Hidden            *Node // [batch, tokens, mlpDim] first MLP layer
	Activated         *Node // [batch, tokens, mlpDim] after the activation; with SwiGLU Hidden·SiLU(Gate)
	MLP               *Node // the MLP branch, before it is added
	Output            *Node // the tokens after the block
}

// AttentionHooks are functions of a network in the attention of a block; nil for none.
type AttentionHooks struct {
	Before       func(x *Node) *Node             // [batch, tokens, width] -> [batch′, tokens′, width]: regroups the tokens
	Add          func(x *Node) *Node             // of regrouped tokens, float32 [batch′ or 1, tokens′, width]
	Scale        func(q *Node) [3]*Node          // of queries, keys, values: float32 [batch′ or 1, tokens′, width], or nil
	Rotate       func(q, k *Node) (*Node, *Node) // queries and keys [batch′, tokens′, heads, headDim], after Scale
	RotateValues func(v *Node) *Node             // values, likewise
	Back         func(y *Node) *Node             // outputs of the heads [batch′, tokens′, heads, headDim]
	Bias         func(q *Node) *Node             // unrotated queries -> float32 [batch′, heads, tokens′, tokens′], or 1
	After        func(y *Node) *Node             // inverse of Before
}

// Block is a pre-norm encoder block on x [batch, tokens, width], the index-th of c.Depth: x += attention(norm(x)), then
// x += mlp(norm(x)), each branch times its LayerScale. Other networks use it with hooks of their own. c is
// resolved.
func (c Config) Block(scope *model.Scope, x *Node, hooks AttentionHooks, index int, attentionWeights bool) BlockTrace {
	var t BlockTrace
	t.Norm1 = c.norm(scope.In("norm1"), x)
	c.attention(scope, hooks, attentionWeights, &t)
	x = Add(x, c.branch(scope, "scale1", t.Attention, index))

	t.Norm2 = c.norm(scope.In("norm2"), x)
	c.mlp(scope, &t)
	t.Output = Add(x, c.branch(scope, "scale2", c.dropout(scope, t.MLP), index))
	return t
}

// branch is a residual branch y [batch, tokens, width] of block index, with LayerScale and stochastic depth.
func (c Config) branch(scope *model.Scope, scale string, y *Node, index int) *Node {
	if c.LayerScale > 0 {
		factor := weight.Float32(scope, scale, weight.Constant(c.LayerScale), c.Width).NodeValue(y.Graph())
		wide := Mul(ConvertDType(y, dtypes.Float32), Reshape(factor, 1, 1, c.Width)) // 16 bits lose terms of its gradient
		y = ConvertDType(wide, y.DType())
	}
	return weight.DropBranch(scope, y, 0, c.DropPath, index, c.Depth)
}

// biased returns the initial biases of a dense layer; nil for a layer without biases.
func biased(has bool, fill weight.Fill) weight.Fill {
	if !has {
		return nil
	}
	return fill
}

// scaled returns x [batch, tokens, heads, headDim] times factors, float32 [batch or 1, tokens, width] or nil for 1, in
// the type of x.
func scaled(x, factors *Node) *Node {
	if factors == nil {
		return x
	}
	d := x.Shape().Dimensions
	return kernel.Rescale(x, Reshape(factors, -1, d[1], d[2], d[3]))
}

// attention fills t from Query to Attention, given Norm1.
func (c Config) attention(scope *model.Scope, hooks AttentionHooks, keepWeights bool, t *BlockTrace) {
	init, zero, attn := c.initScheme(), weight.Constant(0), scope.In("attention")
	seen := t.Norm1
	if hooks.Before != nil {
		seen = hooks.Before(seen)
	}
	if hooks.Add != nil {
		seen = kernel.AddRows(seen, hooks.Add(seen))
	}
	project := func(name string, has bool) *Node { // [batch, tokens, heads, headDim]
		return c.heads(weight.Dense(attn.In("%s", name), seen, c.Width, init.query, biased(has, zero)))
	}
	t.Query = project("query", c.QKVBias != "none")
	t.Key = project("key", c.QKVBias == "")
	t.Value = project("value", c.QKVBias != "none")
	if c.QKNorm {
		t.Query, t.Key = c.norm(attn.In("query_norm"), t.Query), c.norm(attn.In("key_norm"), t.Key)
	}
	var relative *Node
	if hooks.Bias != nil {
		relative = hooks.Bias(t.Query)
	}
	q, k, v := t.Query, t.Key, t.Value
	if hooks.Scale != nil {
		scales := hooks.Scale(q)
		q, k, v = scaled(q, scales[0]), scaled(k, scales[1]), scaled(v, scales[2])
	}
	if hooks.Rotate != nil {
		q, k = hooks.Rotate(q, k)
	}
	if hooks.RotateValues != nil {
		v = hooks.RotateValues(v)
	}
	mixed, weights := c.attend(scope, q, k, v, relative, keepWeights)
	if keepWeights {
		t.Weights = weights
	}
	if hooks.Back != nil {
		mixed = hooks.Back(mixed)
	}
	mixed = Reshape(mixed, seen.Shape().Dimensions...) // [batch, tokens, width]
	if c.ContextNorm {
		mixed = c.norm(attn.In("norm"), mixed)
	}
	t.Attention = weight.Dense(attn.In("output"), mixed, c.Width, init.dense, biased(!c.NoProjBias, zero))
	if hooks.After != nil {
		t.Attention = hooks.After(t.Attention)
	}
}

// mlp fills t from Gate to MLP, given Norm2.
func (c Config) mlp(scope *model.Scope, t *BlockTrace) {
	init, mlp := c.initScheme(), scope.In("mlp")
	dense := func(name string, x *Node, out int) *Node {
		return weight.Dense(mlp.In("%s", name), x, out, init.dense, biased(!c.NoMLPBias, init.mlpBias))
	}
	t.Hidden = dense("hidden", t.Norm2, c.MLPDim) // [batch, tokens, mlpDim]
	if c.SwiGLU {
		t.Gate = dense("gate", t.Norm2, c.MLPDim)
		t.Activated = Mul(activation.Swish(t.Gate), t.Hidden)
	} else {
		t.Activated = c.activate(t.Hidden)
	}
	hidden := c.dropout(scope, t.Activated)
	if c.MLPNorm {
		hidden = c.norm(mlp.In("norm"), hidden)
	}
	t.MLP = dense("output", hidden, c.Width)
}

// norm is the norm of the model on the last axis: LayerNorm, or RMSNorm.
func (c Config) norm(scope *model.Scope, x *Node) *Node {
	if c.RMSNorm {
		return weight.RMSNorm(scope, x, c.Epsilon)
	}
	return weight.LayerNorm(scope, x, c.Epsilon)
}

// activate is the activation of an MLP without SwiGLU.
func (c Config) activate(x *Node) *Node {
	switch c.Activation {
	case "gelu_tanh":
		return activation.GeluApproximate(x)
	case "quick_gelu":
		return Mul(x, Sigmoid(MulScalar(x, 1.702)))
	}
	return kernel.Gelu(x)
}

// dropout drops elements in training, in float32: bfloat16 would round the rate and the factor.
func (c Config) dropout(scope *model.Scope, x *Node) *Node {
	if c.Dropout == 0 || !scope.IsTraining(x.Graph()) {
		return x
	}
	return ConvertDType(layers.DropoutStatic(scope, ConvertDType(x, dtypes.Float32), c.Dropout), x.DType())
}

// headDim is the number of channels of a head.
func (c Config) headDim() int { return c.Width / c.Heads }

// heads splits the width [batch, tokens, width] -> [batch, tokens, heads, headDim].
func (c Config) heads(x *Node) *Node {
	d := x.Shape().Dimensions
	return Reshape(x, d[0], d[1], c.Heads, c.headDim())
}

// flash is attend without a bias and without weights.
func flash(q, k, v *Node) *Node {
	out, _ := attention.Core(q, k, v, attention.LayoutBSHD, attention.CoreOptions{})
	return out
}

// attend is softmax(q·kᵀ/√headDim + bias)·v over q, k, v [batch, tokens, heads, headDim] with bias float32
// [batch or 1, heads or 1, tokens or 1, tokens] or nil, the softmax in float32.
func (c Config) attend(scope *model.Scope, q, k, v, bias *Node, keepWeights bool) (out, weights *Node) {
	g := q.Graph()
	dropping := c.AttentionDropout > 0 && scope.IsTraining(g)
	fuses, err := envutil.ReadBool(FusionEnv, true)
	if q.DType() != dtypes.Float32 && bias == nil && !keepWeights && !dropping && c.headDim()%8 == 0 &&
		c.headDim() <= 128 && fuses && err == nil &&
		g.Backend().Capabilities().Operations[compute.OpTypeFusedScaledDotProductAttention] {
		// Flash attention exists only for 16-bit types and heads of a multiple of 8 channels, at most 128 with every cuDNN,
		// and accumulates in float32; without it GoMLX's Core has a softmax in 16 bits. It would round a bias to 16 bits.
		return flash(q, k, v), nil
	}
	qt, kt, vt := TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 3, 1), TransposeAllAxes(v, 0, 2, 1, 3)
	scores := kernel.Product(qt, kt)
	scores = ConvertDType(scores, dtypes.Float32)
	scale := 1 / math.Sqrt(float64(c.Width/c.Heads))
	if bias != nil {
		scores, scale = Add(MulScalar(scores, scale), bias), 1
	}
	weights = kernel.ScaledSoftmax(scores, scale) // [batch, heads, query, key]
	dropped := weights
	if dropping {
		dropped = layers.DropoutStatic(scope, weights, c.AttentionDropout)
	}
	return TransposeAllAxes(kernel.Product(ConvertDType(dropped, v.DType()), vt), 0, 2, 1, 3), weights
}

// Values of Config.Init.
const (
	initTimm    = "timm"
	initJAX     = "jax"
	initRelease = "release"
)

var inits = []string{initTimm, initJAX, initRelease}

func torchLinear(r *rand.Rand, fanIn, fanOut int) float64 {
	return weight.Uniform(1/math.Sqrt(float64(fanIn)))(r, fanIn, fanOut)
}

func lecunNormal(r *rand.Rand, fanIn, _ int) float64 {
	return r.NormFloat64() / math.Sqrt(float64(fanIn))
}

func xavierStacked(r *rand.Rand, fanIn, fanOut int) float64 {
	return weight.Xavier(1)(r, fanIn, 3*fanOut)
}

// initScheme sets the initial values of each kind of weight. Norm gains start at 1 and biases at 0 unless named here.
type initScheme struct {
	patch, query, dense, mlpBias, head, class weight.Fill
}

func (c Config) initScheme() initScheme {
	small, zero, xavier := weight.Normal(0.02), weight.Constant(0), weight.Xavier(1)
	switch c.Init {
	case initJAX:
		return initScheme{lecunNormal, xavier, xavier, weight.Normal(1e-6), zero, zero}
	case initRelease:
		return initScheme{xavier, xavierStacked, small, zero, small, small}
	default:
		return initScheme{torchLinear, small, small, zero, small, weight.Normal(1e-6)}
	}
}
