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
	patches, rest := c.Rows*c.Cols, c.headDim()/2-mixed
	cosBasis, sinBasis := fopeBasis(patches, f)
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
		return Reshape(DotProduct(ConstCachedTensor(x.Graph(), basis), x), patches, heads, mixed)
	}

	return newRotation("fope", c, true, func(g *Graph, block int) (cos, sin *Node) {
		// No cosines and sines of one angle, so kernel.Rotate has no gradient for them. They are not trained.
		cos = StopGradient(mixtures(cosBasis, ofCos.value(g, block)))
		sin = StopGradient(mixtures(sinBasis, ofSin.value(g, block)))
		if rest > 0 {
			one := Ones(g, shapes.Make(dtypes.Float32, patches, heads, rest))
			cos, sin = Concatenate([]*Node{cos, one}, -1), Concatenate([]*Node{sin, one}, -1)
		}
		if c.Prefix > 0 {
			one := Ones(g, shapes.Make(dtypes.Float32, c.Prefix, heads, mixed+rest))
			cos, sin = Concatenate([]*Node{one, cos}, 0), Concatenate([]*Node{ZerosLike(one), sin}, 0)
		}
		return cos, sin // [tokens, heads, headDim/2]
	})
}

// fopeBasis returns the waves of frequencies f at n patches before mixing, [n, len(f)].
func fopeBasis(n int, f []float64) (cos, sin *tensors.Tensor) {
	var cosines, sines []float32
	for k := range n {
		for _, frequency := range f {
			sin, cos := math.Sincos(float64(k) * frequency)
			cosines, sines = append(cosines, float32(cos)), append(sines, float32(sin))
		}
	}
	return tensors.FromFlatDataAndDimensions(cosines, n, len(f)), tensors.FromFlatDataAndDimensions(sines, n, len(f))
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
