// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	"github.com/wepe-go/wepe/internal/setting"
)

// Names of the hyperparameters. The rows of settings describe their meaning and their values.
const (
	paramProjection = "wepe_projection"
	paramDerivative = "wepe_derivative"

	paramOmega1       = "wepe_omega1"
	paramOmega3Re     = "wepe_omega3_re"
	paramG2           = "wepe_g2"
	paramG3           = "wepe_g3"
	paramArea         = "wepe_area"
	paramLearnOblique = "wepe_learn_oblique"
	paramHarmonics    = "wepe_harmonics"
	paramScales       = "wepe_scales"

	paramAlphaU      = "wepe_alpha_u"
	paramOffsetU     = "wepe_offset_u"
	paramOffsetV     = "wepe_offset_v"
	paramShift       = "wepe_shift"
	paramRows        = "wepe_rows"
	paramCols        = "wepe_cols"
	paramCompression = "wepe_compression"
	paramAlphaScale  = "wepe_alpha_scale"

	paramEvaluation = "wepe_evaluation"

	paramTable      = "wepe_table"
	paramTableError = "wepe_table_error"

	paramSurrogateBeta  = "wepe_surrogate_beta"
	paramSurrogateGamma = "wepe_surrogate_gamma"

	paramStart = "wepe_start"
)

// settings are the rows of the hyperparameters.
func (c *Config) settings() []setting.Row {
	const huge = math.MaxFloat32
	return []setting.Row{
		setting.Choice("wepe_mode", &c.mode, "what ω3′ and the scalars mean", paper, release),
		setting.Choice(paramProjection, &c.projection, "the map from features to vectors", linear, mlp),
		setting.Number("wepe_dropout", &c.dropout, 0, 0.999, "the dropout rate inside the MLP projection"),
		setting.Switch(paramDerivative, &c.derivative, "whether ℘′ joins ℘: twice as many features per patch"),

		setting.Number(paramOmega1, &c.omega1, minOmega3, maxOmega3,
			"the real half-period ω1; 1 in mode release where g3 is not 0"),
		setting.Number("wepe_omega3", &c.omega3, 0, maxOmega3,
			"ω3′, the modulus of the imaginary half-period, at first; 0 for ω1 (paper) or softplus(0.12) (release)"),
		setting.Number(paramOmega3Re, &c.omega3Re, -maxOmega3, maxOmega3,
			"the real part of ω3 at first; ω1/2 with ω3′ = √3/2·ω1 is the hexagonal lattice"),
		setting.Number(paramG2, &c.g2, -huge, huge, "the invariant g2; release ignores it"),
		setting.Number(paramG3, &c.g3, -huge, huge,
			"the invariant g3; with g2 it gives ω1 and ω3, in release it chooses between two square lattices"),
		setting.Number(paramArea, &c.area, 0, 1e6,
			"the area of the cell at first, in cells of the default lattice; 0 leaves the half-periods as they are"),
		setting.Switch("wepe_learn_lattice", &c.learnLattice, "whether ω3′ is trained"),
		setting.Switch(paramLearnOblique, &c.learnOblique, "whether the real part of ω3 is trained"),
		setting.Number(paramHarmonics, &c.harmonics, 1, 8,
			"the number of multiples z, 2z, 3z, …, each with its own features"),
		setting.Number(paramScales, &c.scales, 1, 8, "the number of lattices of one form, each with its own features"),
		setting.Number("wepe_scale_ratio", &c.scaleRatio, 1.0/8, 8, "how much smaller each lattice is than the one before"),

		setting.Number(paramAlphaU, &c.alphaU, minSpan, maxSpan,
			"the part of the period 2ω1 that the columns span; above 1/2 a patch may meet a pole"),
		setting.Number("wepe_alpha_v", &c.alphaV, minSpan, maxSpan, "the part of the period 2ω3 that the rows span"),
		setting.Number(paramOffsetU, &c.offsetU, -1, 1, "the left edge of the grid in periods 2ω1; α_u·u is added to it"),
		setting.Number(paramOffsetV, &c.offsetV, -1, 1, "the upper edge of the grid in periods 2ω3; α_v·v is added to it"),
		setting.Number(paramShift, &c.shift, 0, 1,
			"how far the grid moves in a training step at most, in patches, at random"),
		setting.Number(paramRows, &c.trainedRows, 0, maxSide, "the rows of patches in training; 0 for the grid's own"),
		setting.Number(paramCols, &c.trainedCols, 0, maxSide, "the columns of patches in training; 0 for the grid's own"),
		setting.Choice(paramCompression, &c.compression, "what makes features of ℘ and ℘′", compressTanh, compressSphere),
		setting.Number(paramAlphaScale, &c.alphaScale, 0, 1e6,
			"α_scale at first, a factor on the values before they are compressed; 0: 0.15, on the sphere 1"),
		setting.Switch("wepe_learn_alpha_scale", &c.learnAlphaScale, "whether α_scale is trained"),
		setting.Number("wepe_beta_pos", &c.betaPos, -1e6, 1e6, "the factor β_pos of all rows at first"),
		setting.Switch("wepe_learn_beta_pos", &c.learnBetaPos, "whether β_pos is trained"),

		setting.Choice(paramEvaluation, &c.evaluation, "how ℘ is evaluated: nothing for exact (paper), sum (release)",
			evaluateExact, evaluateSum, evaluateTable, ""),
		setting.Number("wepe_sum_cut", &c.sum.Cut, 1, 1000, "the largest index of a lattice point in the sum"),
		setting.Number("wepe_kappa", &c.sum.Kappa, 1e-3, 1e8, "κ of κε, ε = 1e-8: how near to a pole the sum looks away"),
		setting.Number("wepe_c_large", &c.sum.CLarge, -huge, huge, "C_large, the value of the sum at a pole"),
		setting.Number("wepe_term_clip", &c.sum.TermClip, 1e-6, huge, "the bound on a term of the sum"),
		setting.Number("wepe_final_clip", &c.sum.FinalClip, 1e-6, huge, "the bound on the sum's results"),

		setting.Choice(paramTable, &c.tableKind, "values stored in the look-up table; on the sphere always both points",
			deflatedTable, rawTable),
		setting.Number("wepe_table_resolution", &c.tableResolution, 2, maxTableResolution,
			"smallest number of nodes along each side of the look-up table"),
		setting.Number(paramTableError, &c.tableError, 0, 2,
			"largest error of a feature from a deflated table, which gives the number of nodes; 0: 1e-5, on the sphere 1e-3"),

		setting.Choice("wepe_surrogate", &c.surrogate, "the surrogate whose β and γ are taken at first",
			append(surrogateNames(), "")...),
		setting.Number(paramSurrogateBeta, &c.beta, 0, maxSurrogate, "β at first; 0 for the named surrogate's"),
		setting.Number(paramSurrogateGamma, &c.gamma, 0, maxSurrogate, "γ at first; 0 for the named surrogate's"),

		setting.Number("wepe_gate", &c.gate, 0, 1, "λ at first: 0 is the pretrained model, and stays"),
		setting.Switch("wepe_learn_gate", &c.learnGate, "whether λ is trained"),
		setting.Choice(paramStart, &c.start,
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

	defaultScaleRatio      = 2    // an octave
	defaultTableResolution = 256  // the paper's
	defaultTableError      = 1e-5 // on the default lattice 256 nodes err by 9e-8
	minTableError          = 1e-9

	minSpan, maxSpan = 1e-4, 100
	maxSide          = 16384 // of a grid

	// Defaults of a Hybrid, chosen on validation images: docs/results.md.
	defaultGate  = 0.12
	defaultStart = startDrawn

	// Bounds of ω1 and, in mode paper, of ω3′. The paper has no bounds: these are far beyond what training reaches (0.7 to
	// 2.7), and nothing overflows float32 within them.
	minOmega3, maxOmega3 = 1e-3, 1e3
)

// mode selects the meaning of ω3′ and of the scalars, see [Config.AsReleased].
type mode string

const (
	paper   mode = "paper"
	release mode = "release"
)

// compression maps ℘ and ℘′ to bounded features.
type compression string

const (
	compressTanh   compression = "tanh"   // tanh(α_scale·f) of the four parts of ℘ and ℘′, as in the paper
	compressSphere compression = "sphere" // ℘ and ℘′ on the Riemann sphere, three numbers each, see Sphere; in mode paper
)

// Maps from the features of a patch to its vector, see [Config.WithMLP].
const (
	linear = "linear"
	mlp    = "mlp"
)

// How ℘ is evaluated: values of wepe_evaluation.
const (
	evaluateExact = "exact" // function P
	evaluateSum   = "sum"   // latticeSum
	evaluateTable = "table" // a look-up table, with a fixed ω3′
)

// How the encoding of a Hybrid starts, mathematics.md (9.3) and (9.4).
const (
	startDrawn   = "drawn"
	startCentred = "centred"
	startFitted  = "fitted"
)
