// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// Variable paths, below the scope given to New. They are a file format; the package documentation lists them.
const (
	scopeName       = "wepe"
	sphereSuffix    = "_sphere" // of scopeName and scopeBias where the features lie on the sphere
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
	// Set explicitly, because variables from a checkpoint are trainable.
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
