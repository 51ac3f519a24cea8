// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

const (
	linearStd = 0.02 // N(0, 0.02²): the release's trunc_normal_ cuts at ±2, a hundred standard deviations away
	prefixStd = 0.015
)

// projection maps the features [rows·cols, features] to vectors [rows·cols, width].
type projection struct {
	config        Config
	scope         *model.Scope
	hidden, final denseNorm // hidden of mlp only
}

func newProjection(c Config, scope *model.Scope) projection {
	p := projection{config: c, scope: scope}
	features := c.numFeatures()
	if c.projection == mlp {
		p.hidden = newDenseNorm(scope.In(scopeHidden), weight.Normal(linearStd), features, c.width/2)
		p.final = newDenseNorm(scope.In(scopeOutput), weight.Normal(linearStd), c.width/2, c.width)
	} else {
		p.final = newDenseNorm(scope, weight.Normal(linearStd), features, c.width)
	}
	return p
}

func (p projection) apply(x *Node) *Node {
	if p.config.projection == mlp {
		x = activation.Gelu(p.hidden.apply(x)) // [rows·cols, width/2], exact: x·Φ(x)
		x = layers.DropoutStatic(p.scope, x, p.config.dropout)
	}
	return p.final.apply(x)
}

const layerNormDelta = 1e-5 // torch's LayerNorm default, also in the release

// denseNorm is a dense layer followed by LayerNorm, in float32, independent of the model's dtype.
type denseNorm struct {
	dense weight.Linear
	norm  weight.Norm
}

func newDenseNorm(scope *model.Scope, weights weight.Fill, inputs, outputs int) denseNorm {
	return denseNorm{weight.NewLinear(scope.In(scopeDense), inputs, outputs, weights, weight.Constant(0)),
		weight.NewNorm(scope.In(scopeNorm), outputs)}
}

func (d denseNorm) apply(x *Node) *Node { return d.norm.Apply(d.dense.Apply(x), layerNormDelta) }

// Variable paths, below the scope given to New. They are a file format; the package documentation lists them.
const (
	scopeName       = "wepe"
	sphereSuffix    = "_sphere" // of scopeName and scopeField where the features lie on the sphere
	nameOmega3      = "omega3_raw"
	nameOmega3Re    = "omega3_re"
	nameAlphaScale  = "alpha_scale_raw"
	nameBetaPos     = "beta_pos"
	namePrefix      = "prefix"
	scopeProjection = "projection"
	scopeHidden     = "hidden"
	scopeOutput     = "output"
	scopeDense      = "dense"
	scopeNorm       = "layer_normalization"
)

func scalarVariable(scope *model.Scope, name string, value float64, learn bool) *model.Variable {
	// Set at each build, because variables from a checkpoint are trainable.
	return weight.Float32(scope, name, weight.Constant(value)).SetTrainable(learn)
}

// listVariable creates a variable with the given initial values.
func listVariable(scope *model.Scope, name string, values []float64, learn bool) *model.Variable {
	start := weight.AtOnce(func(*rand.Rand) []float64 { return values })
	return weight.Float32(scope, name, start, len(values)).SetTrainable(learn)
}

// The released code's initial ω3′, softplus(0.12), and its clamps.
const (
	releaseOmega3                              = 0.7549461142
	releaseMinOmega3, releaseMaxOmega3         = 0.02, 8
	releaseMinAlphaScale, releaseMaxAlphaScale = 0.002, 0.8
)

// omega3Bounds are the values that ω3′ can take.
func (m mode) omega3Bounds() (lo, hi float64) {
	if m == release {
		return releaseMinOmega3, releaseMaxOmega3
	}
	return minOmega3, maxOmega3
}

// omega3 maps the raw scalar to ω3′.
func (m mode) omega3(raw *Node) *Node {
	lo, hi := m.omega3Bounds()
	return ClipScalar(softplus(raw), lo, hi)
}

// alphaScaleBounds are the values at which α_scale can start. The release clamps it: outside it would have no gradient.
func (m mode) alphaScaleBounds() (lo, hi float64) {
	if m == release {
		return releaseMinAlphaScale, releaseMaxAlphaScale
	}
	return 1e-6, 1e6
}

// alphaScale maps the raw scalar to α_scale.
func (m mode) alphaScale(raw *Node) *Node {
	if m == release {
		return ClipScalar(Exp(MinScalar(raw, 80)), releaseMinAlphaScale, releaseMaxAlphaScale)
	}
	return softplus(raw)
}

// rawAlphaScale inverts alphaScale on the host.
func (m mode) rawAlphaScale(value float64) float64 {
	if m == release {
		return math.Log(value)
	}
	return softplusInverse(value)
}

// softplus is log(1 + eˣ) for any x. GoMLX's own uses IsFinite, which ONNX lacks.
func softplus(x *Node) *Node { return Add(MaxScalar(x, 0), Log1p(Exp(Neg(Abs(x))))) }

// hostSoftplus is softplus on the host.
func hostSoftplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// softplusInverse is log(eʸ - 1) for y > 0.
func softplusInverse(y float64) float64 { return y + math.Log(-math.Expm1(-y)) }

// Scalars implements Field.
func (e *encoder) Scalars() (map[string]float64, error) {
	return e.config.mode.scalars(e.scope, nameBetaPos)
}

// Scalars implements Field.
func (l *lattice) Scalars() (map[string]float64, error) { return l.config.mode.scalars(l.scope) }

// scalars returns the values of a lattice's variables in a scope, and the values of plain scalars under their own
// names.
func (m mode) scalars(scope *model.Scope, plain ...string) (map[string]float64, error) {
	if scope.GetVariable(nameOmega3Re) != nil {
		plain = append(plain, nameOmega3Re)
	}
	raw, err := rawScalars(scope, append([]string{nameOmega3, nameAlphaScale}, plain...)...)
	if err != nil {
		return nil, err
	}
	lo, hi := m.omega3Bounds()
	alphaScale := hostSoftplus(raw[nameAlphaScale])
	if m == release {
		alphaScale = min(max(math.Exp(raw[nameAlphaScale]), releaseMinAlphaScale), releaseMaxAlphaScale)
	}
	values := map[string]float64{
		"omega3":      min(max(hostSoftplus(raw[nameOmega3]), lo), hi),
		"alpha_scale": alphaScale,
	}
	for _, name := range plain {
		values[name] = raw[name]
	}
	return values, nil
}

// rawScalars reads scalar variables of the scope, by name.
func rawScalars(scope *model.Scope, names ...string) (map[string]float64, error) {
	raw := make(map[string]float64)
	for _, name := range names {
		v := scope.GetVariable(name)
		if v == nil {
			return nil, fmt.Errorf("wepe: no variable %q in %q: no encoder was built there", name, scope.Scope())
		}
		value, err := flat(v)
		if err != nil {
			return nil, err
		}
		raw[name] = value[0]
	}
	return raw, nil
}
