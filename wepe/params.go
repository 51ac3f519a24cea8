// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

// Hyperparameters read by Config.FromScope. "Paper" is Weierstrass Positional Encoding for Vision Transformers,
// "release" its authors' pre-training code.
const (
	// ParamWepeMode is the name of the Mode: "paper" (default) or "release".
	ParamWepeMode = "wepe_mode"

	// ParamWepeProjection is the name of the Projection: "linear" (default) or "mlp".
	ParamWepeProjection = "wepe_projection"

	// ParamWepeDropout is the dropout rate inside the MLP projection, in [0, 1). Default DefaultDropout. Linear has
	// none.
	ParamWepeDropout = "wepe_dropout"

	// ParamWepeDerivative says whether ℘′ joins ℘: 4 features per patch, or 2. Default true; false is the paper's
	// ablation "without derivative".
	ParamWepeDerivative = "wepe_derivative"

	// ParamWepeOmega1 is the real half-period ω1, in [MinOmega3, MaxOmega3]. Default weierstrass.OmegaSquare. Release
	// with ParamWepeG3 other than 0 uses 1.
	ParamWepeOmega1 = "wepe_omega1"

	// ParamWepeOmega3 is the initial ω3′, the modulus of the imaginary half-period, within [MinOmega3, MaxOmega3], or 0
	// for the mode's: ω1 in Paper (a square lattice), softplus(0.12) = 0.755 in Release. Default 0.
	ParamWepeOmega3 = "wepe_omega3"

	// ParamWepeOmega3Re is the initial real part of ω3 = Re ω3 + iω3′, in [-MaxOmega3, MaxOmega3]: other than 0, or
	// learned, it makes the lattice oblique. ω1/2 with ω3′ = √3/2·ω1 is the hexagonal lattice. Beyond the paper; in Paper
	// mode with the exact evaluation only. Default 0.
	ParamWepeOmega3Re = "wepe_omega3_re"

	// ParamWepeLearnOblique says whether the real part of ω3 is trained. Default false.
	ParamWepeLearnOblique = "wepe_learn_oblique"

	// ParamWepeScales is the number of lattices of one form, each with its own 4 features, in [1, 8]; the paper's future
	// work. Default 1.
	ParamWepeScales = "wepe_scales"

	// ParamWepeScaleRatio is how much smaller each lattice is than the one before it: the grid spans ratio times as much
	// of its periods. In [1/8, 8]. Default DefaultScaleRatio.
	ParamWepeScaleRatio = "wepe_scale_ratio"

	// ParamWepeG2 and ParamWepeG3 are the invariants; when one of them is not 0 they give both half-periods, in place
	// of ParamWepeOmega1 and ParamWepeOmega3. Paper takes those of a rectangular lattice, g2³ - 27g3² > 0. Release
	// ignores g2 and answers g3 = 0 with the lemniscatic lattice and any other g3 with the square one of half-period 1.
	// Default 0.
	ParamWepeG2 = "wepe_g2"
	ParamWepeG3 = "wepe_g3"

	// ParamWepeLearnLattice says whether ω3′ is trained. Default true; false is the paper's ablation "fixed lattice".
	ParamWepeLearnLattice = "wepe_learn_lattice"

	// ParamWepeAlphaU and ParamWepeAlphaV are the parts of the periods that the patch grid spans, in [MinSpan,
	// MaxSpan]. Default DefaultSpan, the 0.4 of the paper's tables and of the release. Above 1/2 a patch may meet a pole.
	ParamWepeAlphaU = "wepe_alpha_u"
	ParamWepeAlphaV = "wepe_alpha_v"

	// ParamWepeAlphaScale is the initial α_scale of the features tanh(α_scale·f), in [1e-6, 1e6]. Default
	// DefaultAlphaScale.
	ParamWepeAlphaScale = "wepe_alpha_scale"

	// ParamWepeLearnAlphaScale says whether α_scale is trained. Default true; false is the paper's ablation.
	ParamWepeLearnAlphaScale = "wepe_learn_alpha_scale"

	// ParamWepeBetaPos is the initial factor β_pos of all rows. Default DefaultBetaPos.
	ParamWepeBetaPos = "wepe_beta_pos"

	// ParamWepeLearnBetaPos says whether β_pos is trained. Default true; false with ParamWepeBetaPos = 1 is the paper's
	// ablation.
	ParamWepeLearnBetaPos = "wepe_learn_beta_pos"

	// ParamWepeEvaluation is "exact" (function P), "sum" (LatticeSum), "table" (Table, with ω3′ held fixed) or "" for the
	// mode's: exact in Paper, sum in Release. Default "".
	ParamWepeEvaluation = "wepe_evaluation"

	// ParamWepeSumCut is LatticeSum.Cut, >= 1. Default 12, as in the paper and the release.
	ParamWepeSumCut = "wepe_sum_cut"

	// ParamWepeTable is the TableKind of the look-up table: "deflated" (default) or "raw".
	ParamWepeTable = "wepe_table"

	// ParamWepeTableResolution is the number of nodes along each side of the look-up table, in [2, 4096]. Default
	// DefaultTableResolution.
	ParamWepeTableResolution = "wepe_table_resolution"

	// ParamWepeSurrogate is the name of the Surrogate that NewSurrogate(…).FromScope() builds: "paper" (default),
	// "cifar100", "svhn", "dmlab" or "resisc45". See NamedSurrogate.
	ParamWepeSurrogate = "wepe_surrogate"

	// ParamWepeSurrogateBeta and ParamWepeSurrogateGamma are the β and γ that the surrogate starts with, above their lower
	// bounds; 0 for those of the named one. Default 0.
	ParamWepeSurrogateBeta  = "wepe_surrogate_beta"
	ParamWepeSurrogateGamma = "wepe_surrogate_gamma"

	// ParamWepeGate is the initial λ of a Hybrid, in [0, 1]: 0 is the pretrained model, and stays. Default DefaultGate.
	ParamWepeGate = "wepe_gate"

	// ParamWepeLearnGate says whether λ is trained. Default true.
	ParamWepeLearnGate = "wepe_learn_gate"
)

// Params lists the names of all hyperparameters, so that a program can refuse one that nothing reads.
func Params() []string {
	return []string{
		ParamWepeMode, ParamWepeProjection, ParamWepeDropout, ParamWepeDerivative, ParamWepeOmega1, ParamWepeOmega3,
		ParamWepeG2, ParamWepeG3, ParamWepeLearnLattice, ParamWepeAlphaU, ParamWepeAlphaV, ParamWepeAlphaScale,
		ParamWepeLearnAlphaScale, ParamWepeBetaPos, ParamWepeLearnBetaPos, ParamWepeEvaluation, ParamWepeSumCut,
		ParamWepeOmega3Re, ParamWepeLearnOblique, ParamWepeScales, ParamWepeScaleRatio,
		ParamWepeTable, ParamWepeTableResolution,
		ParamWepeSurrogate, ParamWepeSurrogateBeta, ParamWepeSurrogateGamma, ParamWepeGate, ParamWepeLearnGate,
	}
}

const (
	DefaultSpan       = 0.4  // of ParamWepeAlphaU and ParamWepeAlphaV
	DefaultAlphaScale = 0.15 // of ParamWepeAlphaScale
	DefaultBetaPos    = 0.8  // of ParamWepeBetaPos
	DefaultGate       = 0.12 // of ParamWepeGate: chosen among 0.02, 0.12 and 0.5 on validation images, docs/results.md
	DefaultDropout    = 0.05 // of ParamWepeDropout, the release's (its DHVT uses 0.08)

	DefaultScaleRatio      = 2   // of ParamWepeScaleRatio, an octave
	DefaultTableResolution = 256 // of ParamWepeTableResolution, the paper's

	MinSpan, MaxSpan = 1e-4, 100 // of ParamWepeAlphaU and ParamWepeAlphaV

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

// Projection is the map from the features of a patch to its vector.
type Projection string

const (
	// Linear is a dense layer and LayerNorm.
	Linear Projection = "linear"

	// MLP is a dense layer to width/2, LayerNorm, exact GELU, dropout, a dense layer to width and LayerNorm.
	MLP Projection = "mlp"
)

// Values of ParamWepeEvaluation.
const (
	EvaluateExact = "exact"
	EvaluateSum   = "sum"
	EvaluateTable = "table"
)
