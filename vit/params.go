// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import "github.com/wepe-go/wepe/wepe"

// Hyperparameters of the encodings of this package, read from the model's scope; package wepe has those of the
// Weierstrass encodings. Defaults are the published values of the encoding's own authors.
const (
	// ParamSinCos2DVariant is the order of the waves of sincos2d, one of SinCos2DVariants(). Default SinCosMAE.
	ParamSinCos2DVariant = "sincos2d_variant"

	// ParamGrid2DRows and ParamGrid2DCols are the rows and columns of the table of grid2d, the grid of patches that it was
	// trained on, >= 1. Default 0, the model's own.
	ParamGrid2DRows = "grid2d_rows"
	ParamGrid2DCols = "grid2d_cols"

	// ParamRopeTheta is the base θ of the geometric series of frequencies of every rotary encoding, > 1. Default 10000
	// for rope1d, as2drope and fope, 100 for rope-axial, 10 for rope-mixed.
	ParamRopeTheta = "rope_theta"

	// ParamAS2DRoPEBaseRows is the number of rows of patches of the grid that an as2drope model was trained on, >= 1:
	// positions are scaled by it over the current rows. Default 0, the model's own rows, which is a scale of 1.
	ParamAS2DRoPEBaseRows = "as2drope_base_rows"

	// ParamAS2DRoPERotateClass says whether as2drope turns the class token, as the original does. Default true.
	ParamAS2DRoPERotateClass = "as2drope_rotate_class"

	// ParamFoPELength is the number of patches that a fope model was trained on, >= 7: frequencies with less than one
	// period over it are taken out. Default 0, the model's own, and 7 where it has fewer.
	ParamFoPELength = "fope_length"

	// ParamFoPEDim is the number of channels that fope's frequencies are spaced for, where it is more than those of a
	// head: more and denser frequencies to mix. Even. Default 0.
	ParamFoPEDim = "fope_dim"

	// ParamFoPEIgnoreZero says whether the frequencies taken out are dropped, and at most half of a head's pairs of
	// channels get a mixture of the others; false keeps them as zeros, and mixes for every pair. Default true.
	ParamFoPEIgnoreZero = "fope_ignore_zero"

	// ParamFoPESeparateBasis says whether sines and cosines have coefficients of their own. Default true.
	ParamFoPESeparateBasis = "fope_separate_basis"

	// ParamFoPESeparateHead says whether every head has coefficients of its own. Default true.
	ParamFoPESeparateHead = "fope_separate_head"

	// ParamFoPEGain is the size of the random part of fope's coefficients, the gain of a Xavier-normal draw, >= 0.
	// Default 0.3, that of the authors' smallest model; 0.4 and 0.6 are those of their larger ones.
	ParamFoPEGain = "fope_gain"

	// ParamFoPELearn says whether fope's coefficients are trained. Default false.
	ParamFoPELearn = "fope_learn"

	// ParamLiereBlock is the number of channels that a rotation of liere turns together, >= 2, a divisor of the channels
	// of a head: 8 and 64, a whole head, are the paper's. Default 8, or the largest divisor below it, or the whole head.
	ParamLiereBlock = "liere_block"

	// ParamLiereShared says whether all heads of a layer share liere's generators. Default false.
	ParamLiereShared = "liere_shared"

	// ParamLiereFirstLayer says whether every layer uses the rotations of layer 0, as the released model of LieRE does.
	// Default false: each layer has its own.
	ParamLiereFirstLayer = "liere_first_layer"

	// ParamLiereTrainedRows and ParamLiereTrainedCols are the rows and columns of patches that a liere model was trained
	// on, >= 1: they are the unit of its coordinates. Default 0, the model's own.
	ParamLiereTrainedRows = "liere_trained_rows"
	ParamLiereTrainedCols = "liere_trained_cols"

	// ParamBlend is what hybrid blends into the table: BlendSurrogate (default), wepe.NewSurrogate, or BlendExact,
	// wepe.New, each under its own hyperparameters.
	ParamBlend = "wepe_blend"

	// ParamLiereAxes is the original's input_dimensionality, here only so that 3 is refused: images have two axes.
	// Default 2.
	ParamLiereAxes = "liere_axes"
)

// Values of ParamBlend.
const (
	BlendSurrogate = "surrogate"
	BlendExact     = "exact"
)

var params = []string{
	ParamSinCos2DVariant, ParamGrid2DRows, ParamGrid2DCols,
	ParamRopeTheta,
	ParamAS2DRoPEBaseRows, ParamAS2DRoPERotateClass,
	ParamFoPELength, ParamFoPEDim, ParamFoPEIgnoreZero, ParamFoPESeparateBasis, ParamFoPESeparateHead, ParamFoPEGain,
	ParamFoPELearn,
	ParamLiereBlock, ParamLiereShared, ParamLiereFirstLayer, ParamLiereTrainedRows, ParamLiereTrainedCols, ParamLiereAxes,
	ParamBlend,
}

// TrainedGrid returns the hyperparameters that tell the encoding of a model on images of another size what grid c was
// trained on; none where the encoding does not ask.
func (c Config) TrainedGrid() map[string]any {
	c = c.WithDefaults()
	switch c.Position {
	case "grid2d":
		return map[string]any{ParamGrid2DRows: c.Rows(), ParamGrid2DCols: c.Cols()}
	case "as2drope":
		return map[string]any{ParamAS2DRoPEBaseRows: c.Rows()}
	case "fope":
		return map[string]any{ParamFoPELength: max(fopeShortest, c.Rows()*c.Cols())}
	case "liere":
		return map[string]any{ParamLiereTrainedRows: c.Rows(), ParamLiereTrainedCols: c.Cols()}
	}
	return map[string]any{}
}

// Params lists the names of the hyperparameters of all encodings, wepe.Params among them, so that a program can refuse
// one that nothing reads.
func Params() []string { return append(wepe.Params(), params...) }
