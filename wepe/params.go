// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	"github.com/wepe-go/wepe/internal/setting"
)

// Hyperparameters, which [Config.FromScope] reads from the scope: their names, with symbol, unit and default. Their
// effect is described in [Config.settings], whose text the command line prints.
const (
	ParamMode       = "wepe_mode"       // "paper" (default) or "release"
	ParamProjection = "wepe_projection" // "linear" (default) or "mlp"
	ParamDropout    = "wepe_dropout"    // a rate, of the MLP; default 0.05
	ParamDerivative = "wepe_derivative" // default true

	ParamOmega3       = "wepe_omega3"        // ω3′; default 0: ω1
	ParamOmega3Re     = "wepe_omega3_re"     // Re ω3; default 0: a rectangular lattice
	ParamG2           = "wepe_g2"            // g2; default 0: the half-periods; in place of ω3
	ParamG3           = "wepe_g3"            // g3; default 0: the half-periods; in place of ω3
	ParamArea         = "wepe_area"          // in cells of the default lattice; default 0: the lattice's own
	ParamLearnLattice = "wepe_learn_lattice" // default true
	ParamHarmonics    = "wepe_harmonics"     // z, 2z, 3z, …; default 1
	ParamScales       = "wepe_scales"        // lattices of one form, each half as large as the last; default 1

	ParamAlphaU          = "wepe_alpha_u"           // α_u, in periods 2ω1; default 0.4, on the sphere 1
	ParamAlphaV          = "wepe_alpha_v"           // α_v, in periods 2ω3; default 0.4, on the sphere 1
	ParamOffsetU         = "wepe_offset_u"          // in periods 2ω1; default 0
	ParamOffsetV         = "wepe_offset_v"          // in periods 2ω3; default 0
	ParamShift           = "wepe_shift"             // in patches; default 0
	ParamRows            = "wepe_rows"              // in patches; default 0: the grid's own
	ParamCols            = "wepe_cols"              // in patches; default 0: the grid's own
	ParamAlphaScale      = "wepe_alpha_scale"       // α_scale; default 0: 0.15, on the sphere 1
	ParamLearnAlphaScale = "wepe_learn_alpha_scale" // default true
	ParamBetaPos         = "wepe_beta_pos"          // β_pos; default 0.8
	ParamLearnBetaPos    = "wepe_learn_beta_pos"    // default true

	ParamKappa     = "wepe_kappa"      // κ, in units of 1e-8; default 15
	ParamPoleValue = "wepe_pole_value" // C_large; default 500

	ParamSurrogate      = "wepe_surrogate"       // "paper" (default), "svhn" or "sweep"
	ParamSurrogateBeta  = "wepe_surrogate_beta"  // β; default 0: the surrogate's
	ParamSurrogateGamma = "wepe_surrogate_gamma" // γ; default 0: the surrogate's

	ParamGate      = "wepe_gate"       // λ; default 0.12
	ParamLearnGate = "wepe_learn_gate" // default true
	ParamStart     = "wepe_start"      // "drawn" (default), "centred" or "fitted"
)

// settings are the rows of the hyperparameters.
func (c *Config) settings() []setting.Row {
	const huge = math.MaxFloat32
	return []setting.Row{
		setting.Choice(ParamMode, &c.mode, "what ω3′ and the scalars mean", paper, release),
		setting.Choice(ParamProjection, &c.projection, "the map from features to vectors", linear, mlp),
		setting.Number(ParamDropout, &c.dropout, 0, 0.999, "the dropout rate inside the MLP projection"),
		setting.Switch(ParamDerivative, &c.derivative, "whether ℘′ joins ℘: twice as many features per patch"),

		setting.Number(ParamOmega3, &c.omega3, 0, maxOmega3,
			"ω3′, the modulus of the imaginary half-period, at first; 0 for ω1 (paper) or softplus(0.12) (release); paper "+
				"ignores it with g2 or g3"),
		setting.Number(ParamOmega3Re, &c.omega3Re, -maxOmega3, maxOmega3,
			"the real part of ω3, fixed; ω1/2 with ω3′ = √3/2·ω1 is the hexagonal lattice; ignored with g2 or g3"),
		setting.Number(ParamG2, &c.g2, -huge, huge, "the invariant g2; release ignores it"),
		setting.Number(ParamG3, &c.g3, -huge, huge,
			"the invariant g3; with g2 it gives ω1 and ω3, in release it chooses between two square lattices"),
		setting.Number(ParamArea, &c.area, 0, 1e6,
			"the area of the cell at first, in cells of the default lattice; 0 leaves the half-periods as they are"),
		setting.Switch(ParamLearnLattice, &c.learnLattice, "whether ω3′ is trained"),
		setting.Number(ParamHarmonics, &c.harmonics, 1, 8,
			"the number of multiples z, 2z, 3z, …, each with its own features"),
		setting.Number(ParamScales, &c.scales, 1, 8,
			"the number of lattices of one form, each half as large as the one before, with its own features"),

		setting.Number(ParamAlphaU, &c.alphaU, minSpan, maxSpan,
			"the part of the period 2ω1 that the columns span; above 1/2 a patch may meet a pole"),
		setting.Number(ParamAlphaV, &c.alphaV, minSpan, maxSpan, "the part of the period 2ω3 that the rows span"),
		setting.Number(ParamOffsetU, &c.offsetU, -1, 1, "the left edge of the grid in periods 2ω1; α_u·u is added to it"),
		setting.Number(ParamOffsetV, &c.offsetV, -1, 1, "the upper edge of the grid in periods 2ω3; α_v·v is added to it"),
		setting.Number(ParamShift, &c.shift, 0, 1,
			"how far the grid moves in a training step at most, in patches, at random"),
		setting.Number(ParamRows, &c.trainedRows, 0, maxSide, "the rows of patches in training; 0 for the grid's own"),
		setting.Number(ParamCols, &c.trainedCols, 0, maxSide, "the columns of patches in training; 0 for the grid's own"),
		setting.Number(ParamAlphaScale, &c.alphaScale, 0, 1e6,
			"α_scale at first, a factor on the values before they are compressed; 0: 0.15, on the sphere 1"),
		setting.Switch(ParamLearnAlphaScale, &c.learnAlphaScale, "whether α_scale is trained"),
		setting.Number(ParamBetaPos, &c.betaPos, -1e6, 1e6, "the factor β_pos of all rows at first"),
		setting.Switch(ParamLearnBetaPos, &c.learnBetaPos, "whether β_pos is trained"),

		// Nearer to a pole than 1e-9 the gradient of 1/z² overflows.
		setting.Number(ParamKappa, &c.sum.Kappa, 0.1, 1e8,
			"κ of the truncated sum: terms nearer to a pole than κε, ε = 1e-8, are dropped"),
		setting.Number(ParamPoleValue, &c.sum.CLarge, -huge, huge, "C_large, the value of the truncated sum at a pole, "+
			"clipped at ±1e4"),

		setting.Choice(ParamSurrogate, &c.surrogate, "the surrogate whose β and γ are taken at first",
			surrogatePaper, surrogateSVHN, surrogateSweep, ""),
		setting.Number(ParamSurrogateBeta, &c.beta, 0, maxSurrogate, "β at first; 0 for the named surrogate's"),
		setting.Number(ParamSurrogateGamma, &c.gamma, 0, maxSurrogate, "γ at first; 0 for the named surrogate's"),

		setting.Number(ParamGate, &c.gate, 0, 1, "λ at first: 0 is the pretrained model, and stays"),
		setting.Switch(ParamLearnGate, &c.learnGate, "whether λ is trained"),
		setting.Choice(ParamStart, &c.start,
			"where the encoding starts, before training: as drawn, with the mean row of the "+
				"table's patches, or, the surrogate, as near to them as its last layer comes", startDrawn, startCentred,
			startFitted),
	}
}

// Params lists the names of all hyperparameters, so that a program can reject an unknown one.
func Params() []string { return setting.Names(new(Config).settings()) }

const (
	defaultSpan       = 0.4
	defaultAlphaScale = 0.15
	defaultBetaPos    = 0.8
	defaultDropout    = 0.05 // the release's (its DHVT uses 0.08)

	scaleRatio = 2 // of the sizes of neighbouring lattices: an octave

	minSpan, maxSpan = 1e-4, 100
	maxSide          = 16384   // of a grid
	maxTrained       = 1 << 20 // patches of a training grid, as of a model of package vit: ℘ is averaged over them

	// Defaults of a Hybrid, chosen on validation images: docs/results.md.
	defaultGate  = 0.12
	defaultStart = startDrawn

	// Bounds of ω1 and, in mode paper, of ω3′. The paper has no bounds: these are far beyond what training reaches (0.7 to
	// 2.7), and nothing overflows float32 within them.
	minOmega3, maxOmega3 = 1e-3, 1e3
)

// mode is what ω3′ and the scalars mean (wepe_mode). In "paper" the half-periods are ω1 and iω3′. In "release", the
// authors' code, the lattice stays square and ω3′ = clamp(softplus(raw), 0.02, 8) only stretches Im z; α_scale =
// clamp(exp(raw), 0.002, 0.8); ℘ is the truncated sum.
type mode string

const (
	paper   mode = "paper"
	release mode = "release"
)

// compression maps ℘ and ℘′ to bounded features.
type compression string

const (
	compressTanh   compression = "tanh"   // tanh(α_scale·f) of the four parts of ℘ and ℘′, as in the paper
	compressSphere compression = "sphere" // ℘ and ℘′ on the Riemann sphere, three numbers each; in mode paper
)

// Maps from the features of a patch to its vector.
const (
	linear = "linear" // one dense layer and LayerNorm
	mlp    = "mlp"    // dense to width/2, LayerNorm, exact GELU, dropout, dense to width, LayerNorm
)

// evaluation is how ℘ is evaluated.
type evaluation string

const (
	evaluateExact evaluation = "exact"
	evaluateSum   evaluation = "sum"   // latticeSum
	evaluateTable evaluation = "table" // a look-up table, with a fixed ω3′
)

// How the encoding of a Hybrid starts, mathematics.md (9.3) and (9.4).
const (
	startDrawn   = "drawn"
	startCentred = "centred"
	startFitted  = "fitted"
)
