// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
)

// dinoRope is the encoding's settings.
type dinoRope struct {
	theta, shortest, longest float64
	normalize                string
	shift, jitter, rescale   float64
}

func (r *dinoRope) read(scope *model.Scope) {
	const huge = math.MaxFloat32
	readSettings(scope, thetaSetting(&r.theta),
		setting.Number(ParamDINORopeShortest, &r.shortest, 0, huge, "the period of the first frequency, in units of "+
			"the coordinates; both periods or none are 0, for those by θ"),
		setting.Number(ParamDINORopeLongest, &r.longest, 0, huge, "the period of the last frequency"),
		setting.Choice(ParamDINORopeNormalize, &r.normalize, "the side of the grid that a coordinate spans from -1 to 1: "+
			"its own, or the longer or shorter one, from its beginning", "separate", "max", "min"),
		setting.Number(ParamDINORopeShift, &r.shift, 0, 100, "the greatest shift in training, uniform, of each axis"),
		setting.Number(ParamDINORopeJitter, &r.jitter, 0, 100, "the greatest factor on an axis in training, "+
			"log-uniform; 0 for none"),
		setting.Number(ParamDINORopeRescale, &r.rescale, 0, 100, "the greatest factor on both axes in training, "+
			"log-uniform; 0 for none"))
	if (r.shortest > 0) != (r.longest > 0) {
		exceptions.Panicf("position: %s = %g and %s = %g: give both or none", ParamDINORopeShortest, r.shortest,
			ParamDINORopeLongest, r.longest)
	}
}

// newRopeDINOv3 is the axial form of DINOv3 (https://arxiv.org/abs/2508.10104): with positions from -1 to 1 at the
// centres of the patches and periods P_j = θ^(2j/(d/2)), j = 0 … d/4-1, the first half of the pairs turns by 2π·y/P_j,
// the second by 2π·x/P_j. The pairs of a head are the channels (i, i+d/2). Prefix tokens are not rotated.
//
// On another grid the sides are still -1 and 1: patches that are closer together turn by less, as in an image at higher
// resolution.
func newRopeDINOv3(scope *model.Scope, c Config) Encoder {
	r := dinoRope{theta: 100, normalize: "separate", rescale: 2}
	r.read(scope)
	still := r.pairs(c, r.periods(c.headDim()/4))
	moved := r.movedPairs(scope, c)
	return newRotation("rope-dinov3", c, true, func(g *Graph, block int) (cos, sin *Node) {
		if (r.shift > 0 || r.jitter > 0 || r.rescale > 0) && scope.IsTraining(g) {
			return moved(g, block)
		}
		return still(g, block)
	})
}

// periods returns the periods of n frequencies.
func (r *dinoRope) periods(n int) []float64 {
	periods := make([]float64, n)
	for j := range periods {
		if periods[j] = math.Pow(r.theta, float64(j)/float64(n)); r.longest > 0 {
			periods[j] = r.shortest * math.Pow(r.longest/r.shortest, float64(j)/float64(max(1, n-1)))
		}
	}
	return periods
}

// position returns the coordinates of patch k.
func (r *dinoRope) position(c Config, k int) (y, x float64) {
	col, row := c.patch(k)
	rows, cols := float64(c.Rows), float64(c.Cols)
	switch r.normalize {
	case "max":
		rows, cols = max(rows, cols), max(rows, cols)
	case "min":
		rows, cols = min(rows, cols), min(rows, cols)
	}
	return 2*(row+0.5)/rows - 1, 2*(col+0.5)/cols - 1
}

// pairs returns the cosines and sines at fixed positions.
func (r *dinoRope) pairs(c Config, periods []float64) pairsFunc {
	return fixedPairs(c, 0, func(k, i int) float64 {
		y, x := r.position(c, k)
		if i < len(periods) {
			return 2 * math.Pi * y / periods[i]
		}
		return 2 * math.Pi * x / periods[i-len(periods)]
	})
}

// movedPairs returns the cosines and sines of a training step, drawn once for all images and blocks of a graph.
func (r *dinoRope) movedPairs(scope *model.Scope, c Config) pairsFunc {
	var drawn shared[[2]*Node]
	return func(g *Graph, _ int) (*Node, *Node) {
		both := drawn.in(g, func() [2]*Node {
			uniform := func(n int) *Node { // in ±1
				return AddScalar(MulScalar(scope.RandomUniform(g, shapes.Make(dtypes.Float32, n)), 2), -1)
			}
			var shift, jitter, rescale *Node
			if r.shift > 0 {
				shift = MulScalar(uniform(2), r.shift) // y, x
			}
			if r.jitter > 0 {
				jitter = Exp(MulScalar(uniform(2), math.Log(r.jitter)))
			}
			if r.rescale > 0 {
				rescale = Exp(MulScalar(uniform(1), math.Log(r.rescale)))
			}
			cos, sin := r.moved(g, c, shift, jitter, rescale)
			return [2]*Node{cos, sin}
		})
		return both[0], both[1]
	}
}

// moved returns the cosines and sines, [tokens, 1, headDim/2], of positions plus shift [2], times jitter [2], times
// rescale [1]; each may be nil.
func (r *dinoRope) moved(g *Graph, c Config, shift, jitter, rescale *Node) (cos, sin *Node) {
	periods := r.periods(c.headDim() / 4)
	isPatch := c.coordinates(func(int) (y, x float64) { return 1, 1 })
	places := c.coordinates(func(k int) (y, x float64) { return r.position(c, k) })
	at := Const(g, tensors.FromFlatDataAndDimensions(places, c.Tokens(), 2)) // [tokens, 2]
	if shift != nil {
		at = Add(at, InsertAxes(shift, 0))
	}
	for _, factor := range []*Node{jitter, rescale} {
		if factor != nil {
			at = Mul(at, InsertAxes(factor, 0))
		}
	}
	at = Mul(at, Reshape(Const(g, isPatch), -1, 2)) // the prefix stays at 0
	frequency := make([]float32, len(periods))
	for j := range periods {
		frequency[j] = float32(2 * math.Pi / periods[j])
	}
	// A sum of products, not a matrix product, which may be computed in fewer bits: the angles are large.
	angles := Mul(InsertAxes(at, -1), Reshape(Const(g, frequency), 1, 1, -1)) // [tokens, 2, headDim/4]
	angles = Reshape(angles, c.Tokens(), 1, c.headDim()/2)
	return Cos(angles), Sin(angles)
}
