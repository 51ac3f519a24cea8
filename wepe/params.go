// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"

	"github.com/wepe-go/wepe/internal/setting"
)

// Names of the hyperparameters. What each means, and which values it takes, stands in one row of settings, in this
// file; a refusal quotes it. "Paper" is Weierstrass Positional Encoding for Vision Transformers, "release" its authors'
// pre-training code.
const (
	ParamMode       = "wepe_mode"       // Mode: "paper" (default) or "release"
	ParamProjection = "wepe_projection" // Projection: "linear" (default) or "mlp"
	ParamDropout    = "wepe_dropout"    // of the projection "mlp", default DefaultDropout
	ParamDerivative = "wepe_derivative" // ℘′ joins ℘, default true; false is an ablation of the paper's

	ParamOmega1       = "wepe_omega1"        // ω1, default weierstrass.OmegaSquare
	ParamOmega3       = "wepe_omega3"        // ω3′ at first; default 0, the mode's
	ParamOmega3Re     = "wepe_omega3_re"     // Re ω3 at first, default 0; beyond the paper
	ParamG2           = "wepe_g2"            // g2 and g3 give the half-periods unless both are 0, the default
	ParamG3           = "wepe_g3"            //
	ParamArea         = "wepe_area"          // of the cell, in cells of the default lattice; default 0, as it comes
	ParamLearnLattice = "wepe_learn_lattice" // ω3′ is trained, default true; false is an ablation of the paper's
	ParamLearnOblique = "wepe_learn_oblique" // Re ω3 is trained, default false
	ParamHarmonics    = "wepe_harmonics"     // multiples n·z, n = 1, 2, …, looked at, default 1; beyond the paper
	ParamScales       = "wepe_scales"        // number of lattices, default 1; the paper's future work
	ParamScaleRatio   = "wepe_scale_ratio"   // of their sizes, default DefaultScaleRatio

	ParamAlphaU          = "wepe_alpha_u"           // α_u and α_v, default DefaultSpan
	ParamAlphaV          = "wepe_alpha_v"           //
	ParamOffsetU         = "wepe_offset_u"          // the place of the grid's corner in the cell, default 0
	ParamOffsetV         = "wepe_offset_v"          //
	ParamShift           = "wepe_shift"             // of the grid in training, in patches, default 0; beyond the paper
	ParamRows            = "wepe_rows"              // the grid of the training, for a coarser one; default 0, this grid
	ParamCols            = "wepe_cols"              //
	ParamCompression     = "wepe_compression"       // Compression: "tanh" (default) or "sphere", beyond the paper
	ParamAlphaScale      = "wepe_alpha_scale"       // α_scale at first, default DefaultAlphaScale, 1 on the sphere
	ParamLearnAlphaScale = "wepe_learn_alpha_scale" // α_scale is trained, default true; false is an ablation
	ParamBetaPos         = "wepe_beta_pos"          // β_pos at first, default DefaultBetaPos
	ParamLearnBetaPos    = "wepe_learn_beta_pos"    // β_pos is trained, default true; false, at 1, is an ablation

	ParamEvaluation = "wepe_evaluation" // EvaluateExact, EvaluateSum or EvaluateTable; default "", the mode's
	ParamSumCut     = "wepe_sum_cut"    // these five: the fields of LatticeSum, default DefaultLatticeSum
	ParamKappa      = "wepe_kappa"
	ParamCLarge     = "wepe_c_large"
	ParamTermClip   = "wepe_term_clip"
	ParamFinalClip  = "wepe_final_clip"

	ParamTable           = "wepe_table"            // TableKind: "deflated" (default) or "raw"
	ParamTableResolution = "wepe_table_resolution" // nodes along a side at least, default DefaultTableResolution
	ParamTableError      = "wepe_table_error"      // of a feature at most, default DefaultTableError

	ParamSurrogate      = "wepe_surrogate"       // a name for NamedSurrogate, default "paper"
	ParamSurrogateBeta  = "wepe_surrogate_beta"  // β and γ of the surrogate at first; default 0, the named one's
	ParamSurrogateGamma = "wepe_surrogate_gamma" //

	ParamGate      = "wepe_gate"       // λ of Hybrid at first, default DefaultGate
	ParamLearnGate = "wepe_learn_gate" // λ is trained, default true; false, with λ = 1, is the encoding, bit for bit
	ParamStart     = "wepe_start"      // StartDrawn, StartCentred or StartFitted, default DefaultStart
)

// settings are the hyperparameters of Encoder and RelativeBias.
func (c *Config) settings() []setting.Row {
	const huge = math.MaxFloat32
	return []setting.Row{
		setting.Choice(ParamMode, &c.mode, "what ω3′ and the scalars mean", Paper, Release),
		setting.Choice(ParamProjection, &c.projection, "the map from features to vectors", Linear, MLP),
		setting.Number(ParamDropout, &c.dropout, 0, 0.999, "the dropout rate inside the MLP projection"),
		setting.Switch(ParamDerivative, &c.derivative, "whether ℘′ joins ℘: twice as many features per patch"),

		setting.Number(ParamOmega1, &c.omega1, MinOmega3, MaxOmega3,
			"the real half-period ω1; 1 in mode release where g3 is not 0"),
		setting.Number(ParamOmega3, &c.omega3, 0, MaxOmega3,
			"ω3′, the modulus of the imaginary half-period, at first; 0 for ω1 (paper) or softplus(0.12) (release)"),
		setting.Number(ParamOmega3Re, &c.omega3Re, -MaxOmega3, MaxOmega3,
			"the real part of ω3 at first; ω1/2 with ω3′ = √3/2·ω1 is the hexagonal lattice"),
		setting.Number(ParamG2, &c.g2, -huge, huge, "the invariant g2; release ignores it"),
		setting.Number(ParamG3, &c.g3, -huge, huge,
			"the invariant g3; with g2 it gives ω1 and ω3, in release it chooses between two square lattices"),
		setting.Number(ParamArea, &c.area, 0, 1e6,
			"the area of the cell at first, in cells of the default lattice; 0 leaves the half-periods as they are"),
		setting.Switch(ParamLearnLattice, &c.learnLattice, "whether ω3′ is trained"),
		setting.Switch(ParamLearnOblique, &c.learnOblique, "whether the real part of ω3 is trained"),
		setting.Number(ParamHarmonics, &c.harmonics, 1, 8,
			"the number of multiples z, 2z, 3z, …, each with its own features"),
		setting.Number(ParamScales, &c.scales, 1, 8, "the number of lattices of one form, each with its own features"),
		setting.Number(ParamScaleRatio, &c.scaleRatio, 1.0/8, 8, "how much smaller each lattice is than the one before"),

		setting.Number(ParamAlphaU, &c.alphaU, MinSpan, MaxSpan,
			"the part of the period 2ω1 that the columns span; above 1/2 a patch may meet a pole"),
		setting.Number(ParamAlphaV, &c.alphaV, MinSpan, MaxSpan, "the part of the period 2ω3 that the rows span"),
		setting.Number(ParamOffsetU, &c.offsetU, -1, 1, "the left edge of the grid in periods 2ω1; α_u·u is added to it"),
		setting.Number(ParamOffsetV, &c.offsetV, -1, 1, "the upper edge of the grid in periods 2ω3; α_v·v is added to it"),
		setting.Number(ParamShift, &c.shift, 0, 1,
			"how far the grid moves in a training step at most, in patches, at random"),
		setting.Number(ParamRows, &c.trainedRows, 0, maxSide, "the rows of patches in training; 0 for the grid's own"),
		setting.Number(ParamCols, &c.trainedCols, 0, maxSide, "the columns of patches in training; 0 for the grid's own"),
		setting.Choice(ParamCompression, &c.compression, "what makes features of ℘ and ℘′", CompressTanh, CompressSphere),
		setting.Number(ParamAlphaScale, &c.alphaScale, 1e-6, 1e6,
			"α_scale at first, a factor on the values before they are compressed"),
		setting.Switch(ParamLearnAlphaScale, &c.learnAlphaScale, "whether α_scale is trained"),
		setting.Number(ParamBetaPos, &c.betaPos, -1e6, 1e6, "the factor β_pos of all rows at first"),
		setting.Switch(ParamLearnBetaPos, &c.learnBetaPos, "whether β_pos is trained"),

		setting.Choice(ParamEvaluation, &c.evaluation, "how ℘ is evaluated: nothing for exact (paper), sum (release)",
			EvaluateExact, EvaluateSum, EvaluateTable, ""),
		setting.Number(ParamSumCut, &c.sum.Cut, 1, 1000, "the largest index of a lattice point in the sum"),
		setting.Number(ParamKappa, &c.sum.Kappa, 1e-3, 1e8, "κ of κε, ε = 1e-8: how near to a pole the sum looks away"),
		setting.Number(ParamCLarge, &c.sum.CLarge, -huge, huge, "C_large, what the sum answers at a pole"),
		setting.Number(ParamTermClip, &c.sum.TermClip, 1e-6, huge, "the bound on a term of the sum"),
		setting.Number(ParamFinalClip, &c.sum.FinalClip, 1e-6, huge, "the bound on the sum's results"),

		setting.Choice(ParamTable, &c.tableKind, "what the nodes of the look-up table hold, on the sphere always both points",
			Deflated, Raw),
		setting.Number(ParamTableResolution, &c.tableResolution, 2, maxTableResolution,
			"the number of nodes along each side of the look-up table, at least"),
		setting.Number(ParamTableError, &c.tableError, 1e-9, 2,
			"the largest error of a feature out of a deflated table; it takes the nodes that this needs"),
	}
}

// settings are the hyperparameters of SurrogateEncoder.
func (c *SurrogateConfig) settings() []setting.Row {
	return []setting.Row{
		setting.Choice(ParamSurrogate, &c.name, "the surrogate, see NamedSurrogate", append(SurrogateNames(), "")...),
		setting.Number(ParamSurrogateBeta, &c.beta, 0, maxSurrogate, "β at first; 0 for the named surrogate's"),
		setting.Number(ParamSurrogateGamma, &c.gamma, 0, maxSurrogate, "γ at first; 0 for the named surrogate's"),
	}
}

// settings are the hyperparameters of Hybrid.
func (c *HybridConfig) settings() []setting.Row {
	return []setting.Row{
		setting.Number(ParamGate, &c.gate, 0, 1, "λ at first: 0 is the pretrained model, and stays"),
		setting.Switch(ParamLearnGate, &c.learn, "whether λ is trained"),
		setting.Choice(ParamStart, &c.start,
			"where the encoding starts, before training: as drawn, with the mean row of the "+
				"table's patches, or, the surrogate, as near to them as its last layer comes", StartDrawn, StartCentred,
			StartFitted),
	}
}

// Params lists the names of all hyperparameters, so that a program can refuse one that nothing reads.
func Params() []string {
	return setting.Names(slices.Concat(new(Config).settings(), new(SurrogateConfig).settings(),
		new(HybridConfig).settings()))
}

const (
	DefaultSpan       = 0.4        // of ParamAlphaU and ParamAlphaV
	DefaultAlphaScale = 0.15       // of ParamAlphaScale
	DefaultBetaPos    = 0.8        // of ParamBetaPos
	DefaultGate       = 0.12       // of ParamGate: chosen among 0.02, 0.12 and 0.5 on validation images, docs/results.md
	DefaultStart      = StartDrawn // of ParamStart: the others are not better there
	DefaultDropout    = 0.05       // of ParamDropout, the release's (its DHVT uses 0.08)

	DefaultScaleRatio      = 2   // of ParamScaleRatio, an octave
	DefaultTableResolution = 256 // of ParamTableResolution, the paper's

	// DefaultTableError is of ParamTableError: on the default lattice 256 nodes err by 9e-8.
	DefaultTableError = 1e-5

	MinSpan, MaxSpan = 1e-4, 100 // of ParamAlphaU and ParamAlphaV

	maxSide = 16384 // of a grid

	// MinOmega3 and MaxOmega3 bound ω1 and, in Paper mode, ω3′, where the paper has no bounds: far beyond what training
	// reaches (0.7 to 2.7), near enough that nothing overflows in float32.
	MinOmega3, MaxOmega3 = 1e-3, 1e3
)

// Mode is what ω3′ and the scalars mean.
type Mode string

const (
	// Paper is the encoding of the text: ω3′ = softplus(raw) deforms the lattice, α_scale = softplus(raw).
	Paper Mode = "paper"

	// Release is the encoding of the released code: the lattice stays square and ω3′ = clamp(softplus(raw), 0.02, 8)
	// only stretches Im z; α_scale = clamp(exp(raw), 0.002, 0.8). As in torch, a clamp that acts has zero gradient.
	Release Mode = "release"
)

// Compression is what makes bounded features of ℘ and ℘′.
type Compression string

const (
	// CompressTanh is tanh(α_scale·f) of the four parts of ℘ and ℘′, the paper's.
	CompressTanh Compression = "tanh"

	// CompressSphere is the place of ℘ and of ℘′ on the Riemann sphere, three numbers each, see Sphere; in Paper mode.
	CompressSphere Compression = "sphere"
)

// Projection is the map from the features of a patch to its vector.
type Projection string

const (
	// Linear is a dense layer and LayerNorm.
	Linear Projection = "linear"

	// MLP is a dense layer to width/2, LayerNorm, exact GELU, dropout, a dense layer to width and LayerNorm.
	MLP Projection = "mlp"
)

// Values of ParamEvaluation.
const (
	EvaluateExact = "exact" // function P
	EvaluateSum   = "sum"   // LatticeSum
	EvaluateTable = "table" // a look-up table, with ω3′ held fixed
)

// Values of ParamStart, mathematics.md (9.3) and (9.4).
const (
	StartDrawn   = "drawn"
	StartCentred = "centred"
	StartFitted  = "fitted"
)
