// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of fope.
const (
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
)

var fopeParams = []string{
	ParamRopeTheta, ParamFoPELength, ParamFoPEDim, ParamFoPEIgnoreZero, ParamFoPESeparateBasis, ParamFoPESeparateHead,
	ParamFoPEGain, ParamFoPELearn,
}

// fopeShortest is the first length in which the highest frequency, 1, has a period.
const fopeShortest = 7

// newFoPE is the Fourier position embedding (https://arxiv.org/abs/2412.17739) over the number k of the patch, row by
// row: rope1d with a random mixture of frequencies in place of each cosine and each sine, mathematics.md (12.8). It
// follows the authors' code, in which pairs that get no mixture have 1 for their cosine and for their sine, and turning
// changes lengths. Another grid continues the numbers of the patches.
func newFoPE(scope *model.Scope, c Config) Rotary {
	scope = scope.In("fope")
	f, mixed := fopeFrequencies(scope, c)
	// Sets of coefficients of a block, and the sum of the fans that torch's xavier_normal_ sees: one axis more where every
	// head has a set.
	heads, fans := 1, len(f)+mixed
	if model.GetParamOr(scope, ParamFoPESeparateHead, true) {
		heads, fans = c.Heads, (len(f)+c.Heads)*mixed
	}
	separate := model.GetParamOr(scope, ParamFoPESeparateBasis, true)
	learn := model.GetParamOr(scope, ParamFoPELearn, false)
	gain := model.GetParamOr(scope, ParamFoPEGain, 0.3)
	if !(gain >= 0) || math.IsInf(gain, 1) {
		exceptions.Panicf("vit: %s is %g, want >= 0", ParamFoPEGain, gain)
	}

	tokens, rest := c.Tokens(), c.headDim()/2-mixed
	cosines, sines := make([]float32, tokens*len(f)), make([]float32, tokens*len(f)) // rows of the prefix stay 0
	prefix, patch := make([]float32, tokens), make([]float32, tokens)
	for token := range tokens {
		k := token - c.Prefix()
		if k < 0 {
			prefix[token] = 1
			continue
		}
		patch[token] = 1
		for i := range f {
			sin, cos := math.Sincos(float64(k) * f[i])
			cosines[token*len(f)+i], sines[token*len(f)+i] = float32(cos), float32(sin)
		}
	}
	cosBasis := tensors.FromFlatDataAndDimensions(cosines, tokens, len(f))
	sinBasis := tensors.FromFlatDataAndDimensions(sines, tokens, len(f))
	isPrefix := tensors.FromFlatDataAndDimensions(prefix, tokens, 1, 1)
	isPatch := tensors.FromFlatDataAndDimensions(patch, tokens, 1, 1)

	ofCos, ofSin := make([]*model.Variable, c.Depth), make([]*model.Variable, c.Depth)
	for block := range c.Depth {
		coefficients := func(name string) *model.Variable {
			start := weight.AtOnce(func(r *rand.Rand) []float64 {
				return fopeCoefficients(r, heads, len(f), mixed, gain*math.Sqrt(2/float64(fans)))
			})
			return weight.Float32(scope.At("block_%02d", block), name, start, heads, len(f), mixed).SetTrainable(learn)
		}
		ofCos[block] = coefficients("cos_coefficients")
		ofSin[block] = ofCos[block]
		if separate {
			ofSin[block] = coefficients("sin_coefficients")
		}
	}
	mixtures := func(basis *tensors.Tensor, coefficients *model.Variable, g *Graph) *Node {
		// One product of matrices: that of a matrix and a stack of them comes out in another order on ONNX Runtime.
		x := Reshape(TransposeAllAxes(coefficients.NodeValue(g), 1, 0, 2), len(f), heads*mixed)
		return Reshape(DotProduct(ConstCachedTensor(g, basis), x), tokens, heads, mixed)
	}

	return newRotation("fope", c, true, func(g *Graph, block int) (cos, sin *Node) {
		cos, sin = mixtures(cosBasis, ofCos[block], g), mixtures(sinBasis, ofSin[block], g)
		cos = Add(cos, ConstCachedTensor(g, isPrefix))
		if rest > 0 {
			cos = Concatenate([]*Node{cos, Ones(g, shapes.Make(dtypes.Float32, tokens, heads, rest))}, -1)
			sin = Concatenate([]*Node{sin, BroadcastToDims(ConstCachedTensor(g, isPatch), tokens, heads, rest)}, -1)
		}
		return cos, sin
	})
}

func fopeTrainedGrid(c Config) map[string]any {
	return map[string]any{ParamFoPELength: max(fopeShortest, c.Rows()*c.Cols())}
}

// fopeFrequencies returns the frequencies that are mixed, in radians per patch, and how many pairs of a head get a
// mixture. Frequencies θ^(-2i/D), D the larger of headDim and ParamFoPEDim, that have less than one period in the
// length of the training are taken out.
func fopeFrequencies(scope *model.Scope, c Config) (f []float64, mixed int) {
	length := cmp.Or(model.GetParamOr(scope, ParamFoPELength, 0), max(fopeShortest, c.Rows()*c.Cols()))
	dim := model.GetParamOr(scope, ParamFoPEDim, 0)
	ignoreZero := model.GetParamOr(scope, ParamFoPEIgnoreZero, true)
	switch {
	case length < fopeShortest:
		exceptions.Panicf("vit: %s is %d, want >= %d: below, no frequency has a period", ParamFoPELength, length,
			fopeShortest)
	case dim < 0 || dim%2 != 0 || dim > 1<<16:
		exceptions.Panicf("vit: %s is %d, want an even number from 0 to 65536", ParamFoPEDim, dim)
	case ignoreZero && c.headDim() < 4:
		exceptions.Panicf("vit: position fope mixes half of a head's pairs of channels: want heads of 4 or more channels, "+
			"not %d", c.headDim())
	}
	for _, frequency := range frequencies(ropeTheta(scope, 10000), max(c.headDim(), dim)/2) {
		switch {
		case frequency >= 2*math.Pi/float64(length):
			f = append(f, frequency)
		case !ignoreZero:
			f = append(f, 0)
		}
	}
	if ignoreZero {
		return f, min(len(f), c.headDim()/4)
	}
	return f, c.headDim() / 2
}

// fopeCoefficients draws coefficients [heads, in, out], N(0, std²), and adds 1 where an output takes its own frequency;
// these are spread over all frequencies.
func fopeCoefficients(r *rand.Rand, heads, in, out int, std float64) []float64 {
	step := (in + out - 1) / out
	values := make([]float64, heads*in*out)
	for i := range values {
		values[i] = std * r.NormFloat64()
		if i/out%in == i%out*step {
			values[i]++
		}
	}
	return values
}
