// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// Variable paths of a surrogateEncoder, below the scope given to New.
const (
	scopeSurrogate = "surrogate"
	nameBeta       = "beta_raw"
	nameGamma      = "gamma_raw"
	nameStrength   = "strength"
	nameScale      = "scale"
	nameModulation = "modulation"
	nameA          = "a"
	nameB          = "b"
	nameOffset     = "offset"
	scopeMiddle    = "middle"
)

// Surrogate returns the encoder for fine-tuning; it panics on invalid settings, an odd width or a prefix. It adds one
// vector to each patch, as Encoder does:
//
//	h₁ = Dropout(GELU(LayerNorm(f W₁ + b₁)))      [rows·cols, width/2]
//	h₂ = Dropout(GELU(LayerNorm(h₁ W₂ + b₂)))     [rows·cols, width]
//	token += h₂ W₃ + b₃ + offset
//
// for the features f [rows·cols, channels], mathematics.md (8.10). Variables, below the scope:
//
//	surrogate/omega3_raw, beta_raw, gamma_raw                     []   before softplus and lower bound
//	surrogate/strength, scale                                     []
//	surrogate/modulation, a, b                                    [channels], [K], [K′]
//	surrogate/projection/hidden/dense/weights, biases             [channels, width/2], [width/2]
//	surrogate/projection/hidden/layer_normalization/gain, offset  [width/2]
//	surrogate/projection/middle/dense/weights, biases             [width/2, width], [width]
//	surrogate/projection/middle/layer_normalization/gain, offset  [width]
//	surrogate/projection/output/dense/weights, biases             [width, width], [width]
//	surrogate/offset                                              [width]
func (c *Config) Surrogate() Encoder {
	c.check()
	name := cmp.Or(c.surrogate, surrogatePaper)
	s := namedSurrogate(name)
	s.Beta, s.Gamma = cmp.Or(c.beta, s.Beta), cmp.Or(c.gamma, s.Gamma)
	if !(s.Beta > s.MinBeta && s.Gamma > s.MinGamma) { // softplus(raw) > 0
		refuse(ParamSurrogateBeta, "%s = %g, %s = %g, want them above %g and %g, the bounds of surrogate %q",
			ParamSurrogateBeta, s.Beta,
			ParamSurrogateGamma, s.Gamma, s.MinBeta, s.MinGamma, name)
	}
	if c.width%2 != 0 || c.prefix != 0 {
		refuse("", "width %d, prefix %d: the surrogate halves the width, which must be even, and has no prefix",
			c.width, c.prefix)
	}
	return newSurrogateEncoder(c.scope.In(scopeSurrogate), c.grid, s)
}

// surrogateEncoder is what Config.Surrogate describes.
type surrogateEncoder struct {
	grid
	surrogate                            surrogate
	scope                                *model.Scope    // <scope>/surrogate
	omega3, beta, gamma, strength, scale *model.Variable // scalars; the first three raw
	modulation, a, b                     *model.Variable // [channels], [K], [K′]
	hidden, middle                       denseNorm
	output                               weight.Linear
	offset                               *model.Variable // [width]
}

func newSurrogateEncoder(scope *model.Scope, l grid, s surrogate) *surrogateEncoder {
	scalar := func(name string, value float64, learn string) *model.Variable {
		return scalarVariable(scope, name, value, slices.Contains(s.Learn, learn))
	}
	list := func(name string, values []float64) *model.Variable {
		return listVariable(scope, name, values, slices.Contains(s.Learn, name))
	}
	projection, weights := scope.In(scopeProjection), weight.Xavier(0.8) // the release's gain
	layer := func(name string, inputs, outputs int) denseNorm {
		return newDenseNorm(projection.In("%s", name), weights, inputs, outputs)
	}
	return &surrogateEncoder{
		grid: l, surrogate: s, scope: scope,
		omega3:     scalar(nameOmega3, softplusInverse(s.Omega3-s.MinOmega3), "omega3"),
		beta:       scalar(nameBeta, softplusInverse(s.Beta-s.MinBeta), "beta"),
		gamma:      scalar(nameGamma, softplusInverse(s.Gamma-s.MinGamma), "gamma"),
		strength:   scalar(nameStrength, s.Strength, "strength"),
		scale:      scalar(nameScale, s.Scale, "scale"),
		modulation: list(nameModulation, s.Modulation), a: list(nameA, s.A), b: list(nameB, s.B),
		hidden: layer(scopeHidden, s.Channels, l.width/2),
		middle: layer(scopeMiddle, l.width/2, l.width),
		output: weight.NewLinear(projection.In(scopeOutput).In(scopeDense), l.width, l.width, weights, weight.Constant(0)),
		offset: weight.Float32(scope, nameOffset, weight.Constant(0), l.width),
	}
}

func (e *surrogateEncoder) layout() grid { return e.grid }

// Start implements Encoder.
func (e *surrogateEncoder) Start(compute.Backend) error { return nil }

// Warning implements Encoder.
func (e *surrogateEncoder) Warning() string { return "" }

func (e *surrogateEncoder) Name() string {
	return fmt.Sprintf("WePE(surrogate, %d channels, %d×%d+0)", e.surrogate.Channels, e.rows, e.cols)
}

// field returns the surrogate with its present values.
func (e *surrogateEncoder) field(g *Graph) surrogateField {
	s := e.surrogate
	bounded := func(v *model.Variable, lo, hi float64) *Node {
		return ClipScalar(AddScalar(softplus(v.NodeValue(g)), lo), lo, hi)
	}
	return surrogateField{
		surrogate: s,
		omega3:    bounded(e.omega3, s.MinOmega3, maxOmega3),
		beta:      bounded(e.beta, s.MinBeta, maxSurrogate),
		gamma:     bounded(e.gamma, s.MinGamma, maxSurrogate),
		strength:  e.strength.NodeValue(g), scale: e.scale.NodeValue(g),
		modulation: e.modulation.NodeValue(g), a: e.a.NodeValue(g), b: e.b.NodeValue(g),
	}
}

// Features implements Field.
func (e *surrogateEncoder) Features(g *Graph) *Node { return e.field(g).features(e.centres()) }

// FeatureNames implements Field; p and p′ stand for ℘ and ℘′, u and v run across and down the image.
func (e *surrogateEncoder) FeatureNames() []string {
	if e.surrogate.Channels == 6 {
		return []string{"Re p(z)", "Im p(z)", "|(u, v)|", "Re p′(z)", "Im p′(z)", "|Re p′(z)|"}
	}
	return []string{"Re p(z)", "Im p(z)", "Re p′(z)", "Im p′(z)"}
}

// hiddenRows returns h₂, [rows·cols, width].
func (e *surrogateEncoder) hiddenRows(g *Graph) *Node {
	x := e.Features(g)
	for i, layer := range []denseNorm{e.hidden, e.middle} {
		x = layers.DropoutStatic(e.scope, activation.Gelu(layer.apply(x)), e.surrogate.Dropout[i])
	}
	return x
}

// Encode implements Encoder.
func (e *surrogateEncoder) Encode(g *Graph) *Node {
	return Add(e.output.Apply(e.hiddenRows(g)), InsertAxes(e.offset.NodeValue(g), 0))
}

// PreEncode implements pos.PreEncoder.
func (e *surrogateEncoder) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(e.Encode(x.Graph()), x, positionIndices, seqAxis)
}

// Scalars implements Field: ω3′, β, γ, σ and s.
func (e *surrogateEncoder) Scalars() (map[string]float64, error) {
	raw, err := rawScalars(e.scope, nameOmega3, nameBeta, nameGamma, nameStrength, nameScale)
	if err != nil {
		return nil, err
	}
	s := e.surrogate
	return map[string]float64{
		"omega3":   min(s.MinOmega3+hostSoftplus(raw[nameOmega3]), maxOmega3),
		"beta":     min(s.MinBeta+hostSoftplus(raw[nameBeta]), maxSurrogate),
		"gamma":    min(s.MinGamma+hostSoftplus(raw[nameGamma]), maxSurrogate),
		"strength": raw[nameStrength], "scale": raw[nameScale],
	}, nil
}
