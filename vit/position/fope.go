// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// fopeGain is the gain of the Xavier-normal draw of the coefficients in the authors' smallest model.
const fopeGain = 0.3

// fopeShortest is the shortest length that contains a period of the highest frequency, 1.
const fopeShortest = 7

// newFoPE is the Fourier position embedding (https://arxiv.org/abs/2412.17739) over the number k of the patch, row by
// row: rope1d with a random mixture of frequencies in place of each cosine and each sine, mathematics.md (12.8). As in
// the authors' code, pairs without a mixture have cosine and sine 1, and rotation changes lengths. Another grid
// continues the numbers of the patches.
func newFoPE(scope *model.Scope, c Config) Encoder {
	scope = scope.In("fope")
	theta, length, heads := 10000., 0, c.Heads
	readSettings(scope, thetaSetting(&theta), setting.Number(fopeLength, &length, 0, maxSide*maxSide, "the patches in "+
		"training, 7 or more: frequencies with less than one period over them are taken out; 0 for the model's own, and 7 "+
		"where it has fewer"))
	f, mixed := fopeFrequencies(c, theta, cmp.Or(length, max(fopeShortest, c.Rows*c.Cols)))
	tokens, rest := c.Tokens(), c.headDim()/2-mixed
	cosBasis, sinBasis, isPrefix, isPatch := fopeBasis(c, f)
	// The sum of the fans that torch's xavier_normal_ computes of a matrix for each head.
	std := fopeGain * math.Sqrt(2/float64((len(f)+heads)*mixed))
	start := weight.AtOnce(func(r *rand.Rand) []float64 { return fopeCoefficients(r, heads, len(f), mixed, std) })
	ofCos := perBlock(scope, c, "cos_coefficients", start, heads, len(f), mixed)
	ofSin := perBlock(scope, c, "sin_coefficients", start, heads, len(f), mixed)
	for _, v := range slices.Concat(ofCos, ofSin) {
		v.SetTrainable(false)
	}
	mixtures := func(basis *tensors.Tensor, coefficients *Node) *Node {
		// One product of two matrices: ONNX Runtime returns the product of a matrix and a stack in another order.
		x := Reshape(TransposeAllAxes(coefficients, 1, 0, 2), len(f), heads*mixed)
		return Reshape(DotProduct(ConstCachedTensor(x.Graph(), basis), x), tokens, heads, mixed)
	}

	return newRotation("fope", c, true, func(g *Graph, block int) (cos, sin *Node) {
		// No cosines and sines of one angle, so kernel.Rotate has no gradient for them. They are not trained.
		cos = StopGradient(mixtures(cosBasis, ofCos.value(g, block)))
		sin = StopGradient(mixtures(sinBasis, ofSin.value(g, block)))
		cos = Add(cos, ConstCachedTensor(g, isPrefix))
		if rest > 0 {
			cos = Concatenate([]*Node{cos, Ones(g, shapes.Make(dtypes.Float32, tokens, heads, rest))}, -1)
			sin = Concatenate([]*Node{sin, BroadcastToDims(ConstCachedTensor(g, isPatch), tokens, heads, rest)}, -1)
		}
		return cos, sin
	})
}

// fopeBasis returns the waves of frequencies f before mixing, [tokens, len(f)], 0 for the prefix, and masks of the
// prefix and the patches, [tokens, 1, 1].
func fopeBasis(c Config, f []float64) (cos, sin, isPrefix, isPatch *tensors.Tensor) {
	tokens := c.Tokens()
	cosines, sines := make([]float32, tokens*len(f)), make([]float32, tokens*len(f))
	prefix, patch := make([]float32, tokens), make([]float32, tokens)
	for token := range tokens {
		k := token - c.Prefix
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
	return tensors.FromFlatDataAndDimensions(cosines, tokens, len(f)),
		tensors.FromFlatDataAndDimensions(sines, tokens, len(f)),
		tensors.FromFlatDataAndDimensions(prefix, tokens, 1, 1), tensors.FromFlatDataAndDimensions(patch, tokens, 1, 1)
}

func fopeTrainedGrid(g Grid) map[string]any {
	return map[string]any{fopeLength: max(fopeShortest, g.Rows*g.Cols)}
}

// fopeFrequencies returns the mixed frequencies, in radians per patch, and the number of pairs of a head with a
// mixture: θ^(-2i/headDim) without those that have less than one period in the training length.
func fopeFrequencies(c Config, theta float64, length int) (f []float64, mixed int) {
	if length < fopeShortest {
		exceptions.Panicf("position: %s = %d, want %d or more: for fewer patches no frequency has a full period",
			fopeLength, length, fopeShortest)
	}
	for _, frequency := range frequencies(theta, c.headDim()/2) {
		if frequency >= 2*math.Pi/float64(length) {
			f = append(f, frequency)
		}
	}
	return f, min(len(f), c.headDim()/4)
}

// fopeCoefficients draws coefficients [heads, in, out], N(0, std²), and adds 1 where an output has its own frequency;
// outputs are spread over all frequencies.
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
