// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe"
)

// fixed are numbers that depend only on the place of a patch: controls of ℘ and ℘′. Their vectors have length 2, if
// only on average over the image, as the sphere features of z and 2z have.
type fixed struct {
	names  []string
	values *tensors.Tensor // float32 [rows·cols, features]
}

// newFixed tabulates a function of the patch centres (x, y), in units of the image's sides.
func newFixed(c Config, names []string, f func(x, y float64) []float64) wepe.Field {
	all := make([]float32, 0, c.Rows*c.Cols*len(names))
	for k := range c.Rows * c.Cols {
		col, row := c.patch(k)
		for _, value := range f((col+0.5)/float64(c.Cols), (row+0.5)/float64(c.Rows)) {
			all = append(all, float32(value))
		}
	}
	return &fixed{names, tensors.FromFlatDataAndDimensions(all, c.Rows*c.Cols, len(names))}
}

// Features implements wepe.Field.
func (f *fixed) Features(g *Graph) *Node { return ConstCachedTensor(g, f.values) }

// FeatureNames implements wepe.Field.
func (f *fixed) FeatureNames() []string { return f.names }

// Scalars implements wepe.Field: nothing is learned.
func (f *fixed) Scalars() (map[string]float64, error) { return nil, nil }

// newWaves are, for k = 1 … n,
//
//	√(2/n)·[sin πkx, cos πkx, sin πky, cos πky]
//
// πx spans half a period, as z does; n = 3, the default, gives as many numbers as ℘ and ℘′ at z and 2z. With
// ParamFourierLearn the 2n frequencies, vectors (πk, 0) and (0, πk) at the start, are learned, one set for all blocks.
func newWaves(scope *model.Scope, c Config) wepe.Field {
	n, learn := 3, false
	readSettings(scope, setting.Number(ParamFourierWaves, &n, 1, 16, "the number n of waves along each axis"),
		setting.Switch(ParamFourierLearn, &learn, "whether the frequencies of the waves are trained, from πk on"))
	var names []string
	for k := 1; k <= n; k++ {
		for _, axis := range []string{"x", "y"} {
			wave := fmt.Sprintf("%dπ%s", k, axis)
			if k == 1 {
				wave = "π" + axis
			}
			names = append(names, "sin "+wave, "cos "+wave)
		}
	}
	if !learn {
		return newFixed(c, names, func(x, y float64) (f []float64) {
			for k := 1; k <= n; k++ {
				for _, at := range []float64{x, y} {
					sin, cos := math.Sincos(math.Pi * float64(k) * at)
					f = append(f, math.Sqrt(2/float64(n))*sin, math.Sqrt(2/float64(n))*cos)
				}
			}
			return f
		})
	}
	places := newFixed(c, []string{"x", "y"}, func(x, y float64) []float64 { return []float64{x, y} }).(*fixed)
	start := weight.AtOnce(func(*rand.Rand) []float64 {
		f := make([]float64, 4*n) // [2, 2n]
		for k := range n {
			f[2*k], f[2*n+2*k+1] = math.Pi*float64(k+1), math.Pi*float64(k+1)
		}
		return f
	})
	return &learnedWaves{fixed{names, places.values}, weight.Float32(scope, "frequencies", start, 2, 2*n)}
}

// learnedWaves have trained frequencies, radians per side: [2 (x, y), 2n].
type learnedWaves struct {
	fixed       // names, and the patch centres [rows·cols, 2]
	frequencies *model.Variable
}

// Features implements wepe.Field.
func (w *learnedWaves) Features(g *Graph) *Node {
	at := ConstCachedTensor(g, w.values)
	angles := ReduceSum(Mul(InsertAxes(at, -1), InsertAxes(w.frequencies.NodeValue(g), 0)), 1) // [rows·cols, 2n]
	d := angles.Shape().Dimensions
	pairs := Reshape(Stack([]*Node{Sin(angles), Cos(angles)}, -1), d[0], 2*d[1])
	return MulScalar(pairs, 2/math.Sqrt(float64(d[1])))
}

// newLegendre are the products P_i(2x-1)·P_j(2y-1), i + j ≤ degree, of Legendre polynomials, orthonormal on the image.
// Degree 0 is a factor per channel, equal for all patches: IA³ on the values (https://arxiv.org/abs/2205.05638), but for
// the prefix.
func newLegendre(scope *model.Scope, c Config) wepe.Field {
	degree := 2
	readSettings(scope, setting.Number(ParamLegendreDegree, &degree, 0, 8, "the degree of the polynomials"))
	var names []string
	for sum := range degree + 1 {
		for j := range sum + 1 {
			names = append(names, fmt.Sprintf("P%d(x)·P%d(y)", sum-j, j))
		}
	}
	length := 2 / math.Sqrt(float64(len(names)))
	return newFixed(c, names, func(x, y float64) (f []float64) {
		px, py := legendre(2*x-1, degree), legendre(2*y-1, degree)
		for sum := range degree + 1 {
			for j := range sum + 1 {
				f = append(f, length*px[sum-j]*py[j])
			}
		}
		return f
	})
}

// legendre returns √(2n+1)·P_n(t), n = 0 … degree, by Bonnet's recursion (n+1)·P_{n+1} = (2n+1)·t·P_n - n·P_{n-1}.
func legendre(t float64, degree int) []float64 {
	p, last, now := make([]float64, degree+1), 0.0, 1.0
	for n := range p {
		p[n] = math.Sqrt(float64(2*n+1)) * now
		last, now = now, (float64(2*n+1)*t*now-float64(n)*last)/float64(n+1)
	}
	return p
}

const freeGrid = trainedGrid("free_v")

// freeFactors are free factors of the values for every block, patch and channel, 1 + 2·T with T [rows, cols, width]:
// what modulation is without a function of the position. On another grid T is resampled as in grid2d.
type freeFactors struct {
	c      Config
	tables ofBlocks
}

func newFreeFactors(scope *model.Scope, c Config) Encoder {
	rows, cols := freeGrid.read(scope, c)
	return &freeFactors{c, perBlock(scope.In("free_v"), c, "value", weight.Normal(modulationStd), rows, cols, c.Width)}
}

func freeSize(c Config) float64 { return float64(c.Depth) * float64(c.Rows*c.Cols) * float64(c.Width) }

func (f *freeFactors) Name() string { return "free-v" }

// Scale implements Scaler.
func (f *freeFactors) Scale(g *Graph, block int) (scales [3]*Node) {
	table := resample.Table(f.tables.value(g, block), resample.Bilinear, f.c.Rows, f.c.Cols) // [rows·cols, width]
	scales[2] = f.c.behindPrefix(AddScalar(MulScalar(table, 2), 1))
	return scales
}
