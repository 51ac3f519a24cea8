// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import "github.com/wepe-go/wepe/wepe"

// specs is the only table of encodings. A new one needs its own file and a row here, or a call of Register; no other
// code compares its name, but for settings of earlier versions (retired.go). New returns what its Kind names, an Adder,
// a Rotator, … (position.go). Its formula in the documents is in tools/results/positions.go.
var specs = []Spec{
	{Name: none, Doc: "no position encoding"},
	{
		Name: learned, Doc: "a learned vector per token (APE)", Source: "https://arxiv.org/abs/2010.11929",
		Variables: []string{TableName}, Kind: Additive, New: newLearned,
	},
	{
		Name: "sinusoidal1d", Doc: "fixed sines and cosines of the token index (SPE)",
		Source: "https://arxiv.org/abs/1706.03762", Kind: Additive, New: newSinusoidal1D,
	},
	{
		Name: "sincos2d", Doc: "fixed sines and cosines of row and column", Source: "https://arxiv.org/abs/2111.06377",
		Width: 4, Params: []string{ParamSinCos2DTemperature}, Kind: Additive, New: newSinCos2D,
	},
	{
		Name: "grid2d", Doc: "a learned table, resampled to other grids in the graph",
		Variables: []string{"grid2d/"}, Params: append(grid2DGrid.params(), ParamGrid2DKernel),
		TrainedGrid: grid2DGrid.of, Kind: Additive, New: newGrid2D,
	},
	{
		Name: "factorized", Doc: "a learned table for rows and one for columns, resampled separately",
		Source: "https://arxiv.org/abs/2307.06304", Variables: []string{"factorized/"},
		Params: factorizedGrid.params(), TrainedGrid: factorizedGrid.of, Kind: Additive, New: newFactorized,
	},
	{
		Name: "lape", Doc: "a learned table, normalized and added in every block (LaPE)",
		Source: "https://arxiv.org/abs/2212.05262", Variables: []string{"lape/"}, Neutral: []string{"gain", "offset"},
		Params: lapeGrid.params(), TrainedGrid: lapeGrid.of, Kind: Repeated, New: newLaPE,
	},
	{
		Name: "rope1d", Doc: "channel pairs are rotated by the patch index", Source: "https://arxiv.org/abs/2104.09864",
		HeadDim: 2, Params: []string{ParamRopeTheta}, Kind: Rotary, New: newRope1D,
	},
	{
		Name: "rope-axial", Doc: "half of the channel pairs are rotated by the column, half by the row",
		Source: "https://arxiv.org/abs/2403.13298", HeadDim: 4, Kind: Rotary, New: newRopeAxial,
		Params: []string{ParamRopeTheta, ParamRopeAxialFirst, ParamRopeAxialOffset, ParamRopeAxialRows, ParamRopeAxialCols},
	},
	{
		Name: "rope-mixed", Doc: "channel pairs are rotated along directions learned per head",
		Source: "https://arxiv.org/abs/2403.13298", HeadDim: 4, Variables: []string{"rope_mixed/"},
		Params: []string{ParamRopeTheta}, Neutral: []string{"frequencies"}, Kind: Rotary, New: newRopeMixed,
	},
	{
		Name: "rope-mixed-qkv", Doc: "rope-mixed on the values too, and outputs turned back (GTA)",
		Source: "https://arxiv.org/abs/2310.10375", HeadDim: 4, Variables: []string{"rope_mixed_qkv/"},
		Params: append(mixedQKVGrid.params(), ParamRopeTheta), TrainedGrid: mixedQKVGrid.of,
		Neutral: []string{"frequencies"}, Kind: Rotary, New: newRopeMixedQKV,
	},
	{
		Name: "rope-dinov3", Doc: "axial, with coordinates in [-1, 1] on any grid, jittered in training",
		Source: "https://arxiv.org/abs/2508.10104", HeadDim: 4, Kind: Rotary, New: newRopeDINOv3,
		Params: []string{ParamRopeTheta, ParamDINORopeShortest, ParamDINORopeLongest, ParamDINORopeNormalize,
			ParamDINORopeShift, ParamDINORopeJitter, ParamDINORopeRescale},
	},
	{
		Name: "as2drope", Doc: "axial, scaled to the training grid, also for the class token",
		Source: "https://arxiv.org/abs/2403.00522", HeadDim: 4, Params: []string{ParamRopeTheta, as2dRoPEBase},
		TrainedGrid: func(g Grid) map[string]any { return map[string]any{as2dRoPEBase: g.Rows} },
		Kind:        Rotary, New: newAS2DRoPE,
	},
	{
		Name: "fope", Doc: "rope1d with mixtures of frequencies", Source: "https://arxiv.org/abs/2412.17739",
		HeadDim: 2, MinHeadDim: 4, Variables: []string{"fope/"}, Params: []string{ParamRopeTheta, fopeLength},
		TrainedGrid: fopeTrainedGrid, Kind: Rotary, New: newFoPE,
	},
	{
		Name: "liere", Doc: "learned rotations of 8 channels at once", Source: "https://arxiv.org/abs/2406.10322",
		MinHeadDim: 2, Variables: []string{"liere/"}, Params: append(liereGrid.params(), ParamLiereBlock),
		TrainedGrid: liereGrid.of, Neutral: []string{"generators"}, Kind: Rotary, New: newLieRE,
	},
	wepeRow("wepe", "℘ and ℘′ at the patch's position, projected", "wepe/", published, ofGate),
	wepeRow("wepe-sum", "wepe with ℘ and ℘′ from the paper's truncated sums", "wepe/", (*wepe.Config).WithSum, ofGate),
	wepeRow("wepe-sphere", "wepe with ℘ and ℘′ as points of the Riemann sphere", "wepe_sphere/",
		(*wepe.Config).OnSphere, ofGate, ofSum),
	modulationRow("wepe-qkv", "sphere features scale the queries, keys and values of every block", halfCellField,
		halfCellSettings, wepeTrainedGrid, modulated[:]...),
	modulationRow("fourier-qkv", "wepe-qkv with sines and cosines in place of ℘: a control", newWaves,
		[]string{ParamFourierWaves, ParamFourierLearn}, nil, modulated[:]...),
	modulationRow("wepe-v", "wepe-qkv on the values alone", halfCellField, halfCellSettings, wepeTrainedGrid,
		modulated[2]),
	modulationRow("fourier-v", "wepe-v with sines and cosines in place of ℘: a control", newWaves,
		[]string{ParamFourierWaves, ParamFourierLearn}, nil, modulated[2]),
	modulationRow("legendre-v", "wepe-v with Legendre polynomials in place of ℘: a control", newLegendre,
		[]string{ParamLegendreDegree}, nil, modulated[2]),
	{
		Name: "free-v", Doc: "free factors of the values of every patch: a control",
		Variables: []string{"free_v/"}, Params: freeGrid.params(), TrainedGrid: freeGrid.of,
		Neutral: modulated[2:], Size: freeSize, Kind: Modulation, New: newFreeFactors,
	},
	wepeRow("wepe-lut", "wepe from a look-up table, with a fixed lattice", "wepe/", (*wepe.Config).WithTable, ofGate,
		ofSum, ofLattice),
	wepeRow("wepe-sphere-lut", "wepe-sphere from a look-up table, with a fixed lattice", "wepe_sphere/", sphereTable,
		ofGate, ofSum, ofLattice),
	{
		Name: "hybrid", Doc: "a learned table blended with a surrogate of ℘ by a learned gate", Width: 2,
		Variables: []string{TableName, "gate_raw", "surrogate/", "wepe/", "wepe_sphere/"},
		Params:    append(wepe.Params(), ParamBlend), Pretrained: true, Kind: Additive, New: newHybrid,
	},
	{
		Name: "wepe-bias", Doc: "a score per head from ℘ and ℘′ at the difference of two positions",
		Variables: []string{"wepe_bias/"}, Params: wepeSettings(ofGate, ofProjection, ofGrid),
		Neutral: []string{"weights", "biases", "own"}, Kind: Bias, New: newWePEBias,
	},
	{
		Name: "relative-table", Doc: "a learned score per head and offset of two patches",
		Source: "https://arxiv.org/abs/2106.08254", Variables: []string{"relative_table/"}, Params: relativeGrid.params(),
		TrainedGrid: relativeGrid.of, Neutral: []string{"scores"}, Kind: Bias, New: newRelativeTable,
	},
	{
		Name: "alibi2d", Doc: "a fixed slope per head times the distance between two patches",
		Source: "https://arxiv.org/abs/2311.00566", Kind: Bias, New: newALiBi2D,
	},
	{
		Name: "lookhere", Doc: "each head sees one direction, with a range that shrinks from block to block",
		Source: "https://arxiv.org/abs/2405.13985", Params: []string{ParamLookHereViews}, Kind: Bias, New: newLookHere,
	},
	{
		Name: "cpe", Doc: "a depthwise convolution of the patches after the first block",
		Source: "https://arxiv.org/abs/2102.10882", Variables: []string{"cpe/"},
		Neutral: []string{"kernel", "bias"}, Kind: Conditional, New: newCPE,
	},
}
