// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// Config is an encoder in the making: start with New, set what differs from the defaults, end with Done.
type Config struct {
	scope *model.Scope
	grid
	mode                Mode
	projection          Projection
	dropout             float64
	derivative          bool
	omega1, omega3      float64 // omega3 = 0: the mode's
	g2, g3              float64 // both 0: the half-periods above
	omega3Re            float64
	scales              int
	scaleRatio          float64
	alphaU, alphaV      float64
	alphaScale, betaPos float64
	learnLattice        bool
	learnAlphaScale     bool
	learnBetaPos        bool
	learnOblique        bool
	evaluation          string // "": the mode's
	sum                 LatticeSum
	tableKind           TableKind
	tableResolution     int
	dtype               dtypes.DType // of the encoding and its variables
}

// New starts the encoder of a rows × cols patch grid for tokens of the given width, in Paper mode. Its variables will
// live in scope/wepe.
func New(scope *model.Scope, rows, cols, width int) *Config {
	return &Config{
		scope: scope, grid: grid{rows: rows, cols: cols, width: width},
		mode: Paper, projection: Linear, dropout: DefaultDropout, derivative: true,
		omega1: weierstrass.OmegaSquare, alphaU: DefaultSpan, alphaV: DefaultSpan,
		alphaScale: DefaultAlphaScale, betaPos: DefaultBetaPos,
		learnLattice: true, learnAlphaScale: true, learnBetaPos: true, scales: 1, scaleRatio: DefaultScaleRatio,
		sum: DefaultLatticeSum(), tableKind: Deflated, tableResolution: DefaultTableResolution, dtype: dtypes.Float32,
	}
}

// FromScope takes over every hyperparameter (constants ParamWepe…) that is set in the scope or above it.
func (c *Config) FromScope() *Config {
	s := c.scope
	c.mode = Mode(model.GetParamOr(s, ParamWepeMode, string(c.mode)))
	c.projection = Projection(model.GetParamOr(s, ParamWepeProjection, string(c.projection)))
	c.dropout = model.GetParamOr(s, ParamWepeDropout, c.dropout)
	c.derivative = model.GetParamOr(s, ParamWepeDerivative, c.derivative)
	c.omega1 = model.GetParamOr(s, ParamWepeOmega1, c.omega1)
	c.omega3 = model.GetParamOr(s, ParamWepeOmega3, c.omega3)
	c.omega3Re = model.GetParamOr(s, ParamWepeOmega3Re, c.omega3Re)
	c.learnOblique = model.GetParamOr(s, ParamWepeLearnOblique, c.learnOblique)
	c.scales = model.GetParamOr(s, ParamWepeScales, c.scales)
	c.scaleRatio = model.GetParamOr(s, ParamWepeScaleRatio, c.scaleRatio)
	c.g2 = model.GetParamOr(s, ParamWepeG2, c.g2)
	c.g3 = model.GetParamOr(s, ParamWepeG3, c.g3)
	c.learnLattice = model.GetParamOr(s, ParamWepeLearnLattice, c.learnLattice)
	c.alphaU = model.GetParamOr(s, ParamWepeAlphaU, c.alphaU)
	c.alphaV = model.GetParamOr(s, ParamWepeAlphaV, c.alphaV)
	c.alphaScale = model.GetParamOr(s, ParamWepeAlphaScale, c.alphaScale)
	c.learnAlphaScale = model.GetParamOr(s, ParamWepeLearnAlphaScale, c.learnAlphaScale)
	c.betaPos = model.GetParamOr(s, ParamWepeBetaPos, c.betaPos)
	c.learnBetaPos = model.GetParamOr(s, ParamWepeLearnBetaPos, c.learnBetaPos)
	c.evaluation = model.GetParamOr(s, ParamWepeEvaluation, c.evaluation)
	c.sum.Cut = model.GetParamOr(s, ParamWepeSumCut, c.sum.Cut)
	c.tableKind = TableKind(model.GetParamOr(s, ParamWepeTable, string(c.tableKind)))
	c.tableResolution = model.GetParamOr(s, ParamWepeTableResolution, c.tableResolution)
	return c
}

// WithPrefix sets the number of tokens in front of the patches (class token, registers); each gets a learned vector of
// its own. Default 0.
func (c *Config) WithPrefix(tokens int) *Config { c.prefix = tokens; return c }

// WithMode sets the mode, default Paper. See ParamWepeMode.
func (c *Config) WithMode(mode Mode) *Config { c.mode = mode; return c }

// WithProjection sets the projection, default Linear. See ParamWepeProjection.
func (c *Config) WithProjection(projection Projection) *Config { c.projection = projection; return c }

// WithDropout sets the dropout rate of the MLP projection, default DefaultDropout. See ParamWepeDropout.
func (c *Config) WithDropout(rate float64) *Config { c.dropout = rate; return c }

// UseDerivative says whether ℘′ joins ℘ in the features, default true. See ParamWepeDerivative.
func (c *Config) UseDerivative(use bool) *Config { c.derivative = use; return c }

// WithHalfPeriods sets ω1 and the initial ω3′, default weierstrass.OmegaSquare and 0 (the mode's). See ParamWepeOmega1
// and ParamWepeOmega3.
func (c *Config) WithHalfPeriods(omega1, omega3 float64) *Config {
	c.omega1, c.omega3 = omega1, omega3
	return c
}

// WithOblique sets the initial real part of ω3, default 0, and whether it is trained, default false. See
// ParamWepeOmega3Re.
func (c *Config) WithOblique(omega3Re float64, learn bool) *Config {
	c.omega3Re, c.learnOblique = omega3Re, learn
	return c
}

// WithScales sets the number of lattices, default 1, and the ratio of their sizes, default DefaultScaleRatio. See
// ParamWepeScales.
func (c *Config) WithScales(scales int, ratio float64) *Config {
	c.scales, c.scaleRatio = scales, ratio
	return c
}

// WithInvariants derives the half-periods from g2 and g3. See ParamWepeG2.
func (c *Config) WithInvariants(g2, g3 float64) *Config { c.g2, c.g3 = g2, g3; return c }

// WithSpan sets the parts of the periods 2ω1 and 2ω3′ that the grid spans, default DefaultSpan. See ParamWepeAlphaU.
func (c *Config) WithSpan(alphaU, alphaV float64) *Config {
	c.alphaU, c.alphaV = alphaU, alphaV
	return c
}

// WithAlphaScale sets the initial α_scale, default DefaultAlphaScale. See ParamWepeAlphaScale.
func (c *Config) WithAlphaScale(initial float64) *Config { c.alphaScale = initial; return c }

// WithBetaPos sets the initial β_pos, default DefaultBetaPos. See ParamWepeBetaPos.
func (c *Config) WithBetaPos(initial float64) *Config { c.betaPos = initial; return c }

// LearnLattice says whether ω3′ is trained, default true. See ParamWepeLearnLattice.
func (c *Config) LearnLattice(learn bool) *Config { c.learnLattice = learn; return c }

// LearnAlphaScale says whether α_scale is trained, default true. See ParamWepeLearnAlphaScale.
func (c *Config) LearnAlphaScale(learn bool) *Config { c.learnAlphaScale = learn; return c }

// LearnBetaPos says whether β_pos is trained, default true. See ParamWepeLearnBetaPos.
func (c *Config) LearnBetaPos(learn bool) *Config { c.learnBetaPos = learn; return c }

// UseExact evaluates ℘ exactly, the default in Paper mode. See P.
func (c *Config) UseExact() *Config { c.evaluation = EvaluateExact; return c }

// UseSum evaluates ℘ by a truncated sum, the default in Release mode (with DefaultLatticeSum). See LatticeSum.
func (c *Config) UseSum(sum LatticeSum) *Config {
	c.evaluation, c.sum = EvaluateSum, sum
	return c
}

// UseTable looks ℘ up in a stored table of resolution × resolution nodes, built from the values of the variables when
// there is none. ω3′ is then not trained, and values that another table was built from are refused. See Table.
func (c *Config) UseTable(kind TableKind, resolution int) *Config {
	c.evaluation, c.tableKind, c.tableResolution = EvaluateTable, kind, resolution
	return c
}

// resolve fills in what depends on the mode and panics, naming the value, on anything that makes no sense.
func (c Config) resolve() Config {
	refuse := func(format string, args ...any) { exceptions.Panicf("wepe: "+format, args...) }
	c.grid.validate()
	if c.mode != Paper && c.mode != Release {
		refuse("%s = %q, want %q or %q", ParamWepeMode, c.mode, Paper, Release)
	}
	if c.projection != Linear && c.projection != MLP {
		refuse("%s = %q, want %q or %q", ParamWepeProjection, c.projection, Linear, MLP)
	}
	if c.projection == MLP && c.width%2 != 0 {
		refuse("%s = %q halves the width, which is odd: %d", ParamWepeProjection, MLP, c.width)
	}
	if !(c.dropout >= 0 && c.dropout < 1) {
		refuse("%s = %g, want a rate in [0, 1)", ParamWepeDropout, c.dropout)
	}
	switch c.evaluation {
	case EvaluateExact, EvaluateSum:
	case EvaluateTable:
		c.learnLattice = false
	case "":
		c.evaluation = map[Mode]string{Paper: EvaluateExact, Release: EvaluateSum}[c.mode]
	default:
		refuse("%s = %q, want %q, %q, %q or nothing", ParamWepeEvaluation, c.evaluation, EvaluateExact, EvaluateSum,
			EvaluateTable)
	}
	if c.sum.Cut < 1 {
		refuse("%s = %d, want at least 1", ParamWepeSumCut, c.sum.Cut)
	}
	for _, setting := range []struct {
		name          string
		value, lo, hi float64
	}{
		{ParamWepeOmega1, c.omega1, MinOmega3, MaxOmega3},
		{ParamWepeOmega3, c.omega3, 0, MaxOmega3},
		{ParamWepeOmega3Re, c.omega3Re, -MaxOmega3, MaxOmega3},
		{ParamWepeScaleRatio, c.scaleRatio, 1.0 / 8, 8},
		{ParamWepeG2, c.g2, -math.MaxFloat32, math.MaxFloat32},
		{ParamWepeG3, c.g3, -math.MaxFloat32, math.MaxFloat32},
		{ParamWepeAlphaU, c.alphaU, MinSpan, MaxSpan},
		{ParamWepeAlphaV, c.alphaV, MinSpan, MaxSpan},
		{ParamWepeAlphaScale, c.alphaScale, 1e-6, 1e6},
		{ParamWepeBetaPos, c.betaPos, -1e6, 1e6},
	} {
		if !(setting.value >= setting.lo && setting.value <= setting.hi) { // NaN is refused too
			refuse("%s = %g, want it in [%g, %g]", setting.name, setting.value, setting.lo, setting.hi)
		}
	}
	if c.scales < 1 || c.scales > 8 {
		refuse("%s = %d, want it in [1, 8]", ParamWepeScales, c.scales)
	}
	if c.oblique() && (c.mode != Paper || c.evaluation != EvaluateExact) {
		refuse("%s = %g, %s = %t in mode %q with evaluation %q: only %q and %q know oblique lattices", ParamWepeOmega3Re,
			c.omega3Re, ParamWepeLearnOblique, c.learnOblique, c.mode, c.evaluation, Paper, EvaluateExact)
	}
	if c.scales > 1 && c.evaluation == EvaluateTable {
		refuse("%s = %d with a table, which holds one lattice", ParamWepeScales, c.scales)
	}
	if c.tableKind != Deflated && c.tableKind != Raw {
		refuse("%s = %q, want %q or %q", ParamWepeTable, c.tableKind, Deflated, Raw)
	}
	if c.tableResolution < 2 || c.tableResolution > maxTableResolution {
		refuse("%s = %d, want it in [2, %d]", ParamWepeTableResolution, c.tableResolution, maxTableResolution)
	}
	c.omega1, c.omega3 = c.halfPeriods()
	if lo, hi := c.mode.omega3Bounds(); !(c.omega3 >= lo && c.omega3 <= hi && c.omega1 >= MinOmega3) {
		refuse("half-periods ω1 = %g, ω3′ = %g, want ω3′ in [%g, %g] in mode %q", c.omega1, c.omega3, lo, hi, c.mode)
	}
	return c
}

// halfPeriods returns ω1 and the initial ω3′ that the settings ask for.
func (c Config) halfPeriods() (omega1, omega3 float64) {
	switch {
	case c.mode == Release && c.g3 != 0:
		omega1, omega3 = 1, c.omega3
	case c.mode == Paper && (c.g2 != 0 || c.g3 != 0):
		lattice, err := weierstrass.FromInvariants(c.g2, c.g3)
		if err != nil {
			exceptions.Panicf("wepe: %s = %g, %s = %g: %v", ParamWepeG2, c.g2, ParamWepeG3, c.g3, err)
		}
		return lattice.Omega1(), lattice.Omega3p()
	default:
		omega1, omega3 = c.omega1, c.omega3
	}
	if omega3 == 0 {
		omega3 = map[Mode]float64{Paper: omega1, Release: releaseOmega3}[c.mode]
	}
	return omega1, omega3
}

// Done creates the variables and returns the encoder. It panics, naming the setting, on one that makes no sense.
// Call it once per scope and graph, as every layer.
func (c *Config) Done() *Encoder { return newEncoder(c.resolve()) }
