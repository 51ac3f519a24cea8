// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
)

// positions is the only table of encodings. A new one needs its own file and a row here, or a call of Register; no
// other code compares its name.
var positions = []Position{
	{Name: "none", Doc: "no position encoding"},
	{
		Name: learned, Doc: "a learned vector per token (APE)", Source: "https://arxiv.org/abs/2010.11929",
		Parameters: func(c Config) int { return c.Positions() * c.Width }, Variables: []string{learnedName},
		Additive: newLearned,
	},
	{
		Name: "sinusoidal1d", Doc: "fixed sines and cosines of the token index (SPE)",
		Source: "https://arxiv.org/abs/1706.03762", Additive: newSinusoidal1D,
	},
	{
		Name: "sincos2d", Doc: "fixed sines and cosines of row and column", Source: "https://arxiv.org/abs/2111.06377",
		Width: 4, Params: []string{paramSinCos2DVariant, paramSinCos2DTemperature}, Additive: newSinCos2D,
	},
	{
		Name: "grid2d", Doc: "a learned table, resampled to other grids in the graph",
		Parameters: func(c Config) int { return c.Positions() * c.Width }, Variables: []string{"grid2d/"},
		Params:      []string{"grid2d_rows", "grid2d_cols", paramGrid2DKernel},
		TrainedGrid: trainedGrid("grid2d").of, Additive: newGrid2D,
	},
	{
		Name: "factorized", Doc: "a learned table for rows and one for columns, resampled separately",
		Source:     "https://arxiv.org/abs/2307.06304",
		Parameters: func(c Config) int { return (c.Rows() + c.Cols()) * c.Width }, Variables: []string{"factorized/"},
		Params:      []string{"factorized_rows", "factorized_cols", paramFactorizedAspect},
		TrainedGrid: trainedGrid("factorized").of, Additive: newFactorized,
	},
	{
		Name: "rope1d", Doc: "channel pairs are rotated by the patch index",
		Source:  "https://arxiv.org/abs/2104.09864",
		HeadDim: 2, Params: []string{paramRopeTheta}, Rotary: newRope1D,
	},
	{
		Name: "rope-axial", Doc: "half of the channel pairs are rotated by the column, half by the row",
		Source:  "https://arxiv.org/abs/2403.13298",
		HeadDim: 4, Params: setting.Names(new(axialRope).settings()), Rotary: newRopeAxial,
	},
	{
		Name: "rope-mixed", Doc: "channel pairs are rotated along directions learned per head",
		Source:  "https://arxiv.org/abs/2403.13298",
		HeadDim: 4, Parameters: ropeMixedParameters, Variables: []string{"rope_mixed/"},
		Neutral: []string{"frequencies"}, Params: []string{paramRopeTheta}, Rotary: newRopeMixed,
	},
	{
		Name: "rope-dinov3", Doc: "axial, with coordinates in [-1, 1] on any grid, jittered in training",
		Source:  "https://arxiv.org/abs/2508.10104",
		HeadDim: 4, Params: setting.Names(new(dinoRope).settings()), Rotary: newRopeDINOv3,
	},
	{
		Name: "as2drope", Doc: "axial, scaled to the training grid, also for the class token",
		Source:  "https://arxiv.org/abs/2403.00522",
		HeadDim: 4, Params: setting.Names(new(as2dRope).settings()),
		TrainedGrid: func(c Config) map[string]any { return map[string]any{paramAS2DRoPEBaseRows: c.Rows()} },
		Rotary:      newAS2DRoPE,
	},
	{
		Name: "fope", Doc: "rope1d with mixtures of frequencies", Source: "https://arxiv.org/abs/2412.17739",
		HeadDim: 2, Variables: []string{"fope/"}, Params: setting.Names(new(fopeSettings).settings()),
		TrainedGrid: fopeTrainedGrid, Rotary: newFoPE,
	},
	{
		Name: "liere", Doc: "learned rotations of 8 channels at once", Source: "https://arxiv.org/abs/2406.10322",
		Parameters: liereParameters, Variables: []string{"liere/"}, Params: setting.Names(new(liereSettings).settings()),
		TrainedGrid: liereGrid.of,
		Neutral:     []string{"generators"}, Rotary: newLieRE,
	},
	{
		Name: "wepe", Doc: "℘ and ℘′ at the patch's position, projected",
		Parameters: wepeParameters, Variables: []string{"wepe/", "wepe_sphere/"}, Params: wepeSettings(ofGate),
		TrainedGrid: wepeTrainedGrid, Additive: newWePE,
	},
	{
		Name: "wepe-sphere", Doc: "wepe with ℘ and ℘′ as points of the Riemann sphere",
		Parameters: wepeSphereParameters, Variables: []string{"wepe/", "wepe_sphere/"}, Params: wepeSettings(ofGate),
		TrainedGrid: wepeTrainedGrid, Additive: newWePESphere,
	},
	{
		Name: "wepe-qkv", Doc: "sphere features scale the queries, keys and values of every block",
		Parameters: wepeQKVParameters, Variables: []string{"wepe_qkv/"},
		Params:      wepeSettings(ofGate, ofProjection, ofTable),
		TrainedGrid: wepeTrainedGrid, Neutral: modulated[:], Modulation: newWePEQKV,
	},
	{
		Name: "fourier-qkv", Doc: "wepe-qkv with sines and cosines in place of ℘: a control",
		Parameters: fourierQKVParameters, Variables: []string{"fourier_qkv/"}, Neutral: modulated[:],
		Modulation: newFourierQKV,
	},
	{
		Name: "wepe-v", Doc: "wepe-qkv on the values alone",
		Parameters: wepeVParameters, Variables: []string{"wepe_v/"},
		Params:      wepeSettings(ofGate, ofProjection, ofTable),
		TrainedGrid: wepeTrainedGrid, Neutral: modulated[2:], Modulation: newWePEV,
	},
	{
		Name: "fourier-v", Doc: "wepe-v with sines and cosines in place of ℘: a control",
		Parameters: fourierVParameters, Variables: []string{"fourier_v/"}, Neutral: modulated[2:],
		Modulation: newFourierV,
	},
	{
		Name: "wepe-lut", Doc: "wepe from a look-up table, with a fixed lattice",
		Parameters: wepeTableParameters, Variables: []string{"wepe/", "wepe_sphere/"}, Params: wepeSettings(ofGate),
		TrainedGrid: wepeTrainedGrid, Additive: newWePETable,
	},
	{
		Name: "hybrid", Doc: "a learned table blended with a surrogate of ℘ by a learned gate", Width: 2,
		Parameters: hybridParameters, Variables: []string{learnedName, "gate_raw", "surrogate/", "wepe/", "wepe_sphere/"},
		Params: append(wepe.Params(), paramBlend), Pretrained: true, Additive: newHybrid,
	},
	{
		Name: "wepe-bias", Doc: "a score per head from ℘ and ℘′ at the difference of two positions",
		Parameters: wepeBiasParameters, Variables: []string{"wepe_bias/", "wepe_bias_sphere/"},
		Params:   wepeSettings(ofGate, ofProjection, ofTable, ofGrid),
		Relative: newWePEBias,
	},
	{
		Name: "relative-table", Doc: "a learned score per head and offset of two patches",
		Source: "https://arxiv.org/abs/2106.08254", Parameters: relativeTableParameters,
		Variables: []string{"relative_table/"}, Params: []string{"relative_table_rows", "relative_table_cols"},
		Neutral:     []string{"scores"},
		TrainedGrid: trainedGrid("relative_table").of, Relative: newRelativeTable,
	},
	{
		Name: "alibi2d", Doc: "a fixed slope per head times the distance between two patches",
		Source: "https://arxiv.org/abs/2311.00566", Relative: newALiBi2D,
	},
	{
		Name: "lookhere", Doc: "each head sees one direction, with a range that shrinks from block to block",
		Source: "https://arxiv.org/abs/2405.13985",
		Params: setting.Names(new(lookHere).settings()), Relative: newLookHere,
	},
	{
		Name: "cpe", Doc: "a depthwise convolution of the patches after the first block",
		Source: "https://arxiv.org/abs/2102.10882", Parameters: cpeParameters, Variables: []string{"cpe/"},
		Params: setting.Names(cpeSettings(new(int))), Neutral: []string{"kernel", "bias"}, Conditional: newCPE,
	},
}
