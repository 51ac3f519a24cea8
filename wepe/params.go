// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

// Hyperparameters read by Config.FromScope. "Paper" is Weierstrass Positional Encoding for Vision Transformers,
// "release" its authors' pre-training code.
const (
	// ParamMode is the name of the Mode: "paper" (default) or "release".
	ParamMode = "wepe_mode"

	// ParamProjection is the name of the Projection: "linear" (default) or "mlp".
	ParamProjection = "wepe_projection"

	// ParamDropout is the dropout rate inside the MLP projection, in [0, 1). Default DefaultDropout. Linear has none.
	ParamDropout = "wepe_dropout"

	// ParamDerivative says whether ℘′ joins ℘: 4 features per patch, or 2. Default true; false is the paper's
	// ablation "without derivative".
	ParamDerivative = "wepe_derivative"

	// ParamOmega1 is the real half-period ω1, in [MinOmega3, MaxOmega3]. Default weierstrass.OmegaSquare. Release with
	// ParamG3 other than 0 uses 1.
	ParamOmega1 = "wepe_omega1"

	// ParamOmega3 is the initial ω3′, the modulus of the imaginary half-period, within [MinOmega3, MaxOmega3], or 0 for
	// the mode's: ω1 in Paper (a square lattice), softplus(0.12) = 0.755 in Release. Default 0.
	ParamOmega3 = "wepe_omega3"

	// ParamG2 and ParamG3 are the invariants; when one of them is not 0 they give both half-periods, in place of
	// ParamOmega1 and ParamOmega3. Paper takes those of a rectangular lattice, g2³ - 27g3² > 0. Release ignores g2 and
	// answers g3 = 0 with the lemniscatic lattice and any other g3 with the square one of half-period 1. Default 0.
	ParamG2 = "wepe_g2"
	ParamG3 = "wepe_g3"

	// ParamLearnLattice says whether ω3′ is trained. Default true; false is the paper's ablation "fixed lattice".
	ParamLearnLattice = "wepe_learn_lattice"

	// ParamAlphaU and ParamAlphaV are the parts of the periods that the patch grid spans, in [1e-4, 100]. Default
	// DefaultSpan, the 0.4 of the paper's tables and of the release. Above 1/2 a patch may meet a pole.
	ParamAlphaU = "wepe_alpha_u"
	ParamAlphaV = "wepe_alpha_v"

	// ParamAlphaScale is the initial α_scale of the features tanh(α_scale·f), in [1e-6, 1e6]. Default
	// DefaultAlphaScale.
	ParamAlphaScale = "wepe_alpha_scale"

	// ParamLearnAlphaScale says whether α_scale is trained. Default true; false is the paper's ablation.
	ParamLearnAlphaScale = "wepe_learn_alpha_scale"

	// ParamBetaPos is the initial factor β_pos of all rows. Default DefaultBetaPos.
	ParamBetaPos = "wepe_beta_pos"

	// ParamLearnBetaPos says whether β_pos is trained. Default true; false with ParamBetaPos = 1 is the paper's
	// ablation.
	ParamLearnBetaPos = "wepe_learn_beta_pos"

	// ParamEvaluation is "exact" (function P), "sum" (LatticeSum) or "" for the mode's: exact in Paper, sum in Release.
	// Default "".
	ParamEvaluation = "wepe_evaluation"

	// ParamSumCut is LatticeSum.Cut, >= 1. Default 12, as in the paper and the release.
	ParamSumCut = "wepe_sum_cut"
)

const (
	DefaultSpan       = 0.4  // of ParamAlphaU and ParamAlphaV
	DefaultAlphaScale = 0.15 // of ParamAlphaScale
	DefaultBetaPos    = 0.8  // of ParamBetaPos
	DefaultDropout    = 0.05 // of ParamDropout, the release's (its DHVT uses 0.08)

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

// Values of ParamEvaluation.
const (
	EvaluateExact = "exact"
	EvaluateSum   = "sum"
)
