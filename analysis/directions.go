// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// explained is the part of the variance of points [n, width] that is linear in features [n, m], with an intercept: the
// R² of least squares, all coordinates together. It is 1 for n-1 or more independent features, and NaN if all points
// are equal or a value is not finite.
func explained(points, features []float64, n int) float64 {
	y, x := lessMeans(points, n), lessMeans(features, n)
	total := mat.Norm(y, 2)
	var svd mat.SVD
	if total == 0 || !svd.Factorize(x, mat.SVDThin) {
		return undefined
	}
	var u, along mat.Dense
	svd.UTo(&u)
	values, rank := svd.Values(nil), 0
	for rank < len(values) && values[rank] > 1e-9*values[0] {
		rank++
	}
	if rank == 0 {
		return 0
	}
	along.Mul(u.Slice(0, n, 0, rank).T(), y)
	part := mat.Norm(&along, 2) / total
	return part * part
}

// lessMeans returns values [n, width] as a matrix, with the mean of each column subtracted.
func lessMeans(values []float64, n int) *mat.Dense {
	width := len(values) / n
	x := mat.NewDense(n, width, slices.Clone(values))
	for j := range width {
		column := mat.Col(nil, j, x)
		floats.AddConst(-floats.Sum(column)/float64(n), column)
		x.SetCol(j, column)
	}
	return x
}

// bases are functions of the position alone, as regressors for the vectors of positions.
func bases(g grid) (names []string, features [][]float64) {
	names = []string{"6 sphere features of z, whole cell", "18 sphere features of z, 2z and 3z, whole cell",
		"6 sphere features of z, half a cell", "12 sphere features of z and 2z, half a cell", "sincos2d of width 64",
		"5 cosines of up to two half-waves"}
	return names, [][]float64{spheres(g, 1, 1), spheres(g, 1, 3), spheres(g, 0.5, 1), spheres(g, 0.5, 2), sines(g, 16),
		halfWaves(g, 2)}
}

// spheres returns S(w) and S(w′) at z, 2z, … of the patches, [patches, 6·harmonics], on the square lattice.
func spheres(g grid, span float64, harmonics int) (features []float64) {
	sphere := weierstrass.Square().Sphere()
	for k := range g.patches() {
		z := complex((float64(k%g.Cols)+0.5)/float64(g.Cols), (float64(k/g.Cols)+0.5)/float64(g.Rows))
		z *= complex(2*span*weierstrass.OmegaSquare, 0)
		for n := range harmonics {
			point, prime := sphere.At(z * complex(float64(n+1), 0))
			features = append(append(features, point[:]...), prime[:]...)
		}
	}
	return features
}

// sines returns sin and cos of column and row at the frequencies 10000^(-j/n), j = 0 … n-1: sincos2d of width 4n.
func sines(g grid, n int) (features []float64) {
	for k := range g.patches() {
		for j := range n {
			frequency := math.Pow(10000, -float64(j)/float64(n))
			for _, at := range []int{k % g.Cols, k / g.Cols} {
				sin, cos := math.Sincos(float64(at) * frequency)
				features = append(features, sin, cos)
			}
		}
	}
	return features
}

// halfWaves returns cos(πau)·cos(πbv), 1 <= a+b <= order, of the patches: the first terms of the grid's discrete cosine
// transform.
func halfWaves(g grid, order int) (features []float64) {
	for k := range g.patches() {
		u, v := (float64(k%g.Cols)+0.5)/float64(g.Cols), (float64(k/g.Cols)+0.5)/float64(g.Rows)
		for a := range order + 1 {
			for b := range order + 1 - a {
				if a+b > 0 {
					features = append(features, math.Cos(math.Pi*float64(a)*u)*math.Cos(math.Pi*float64(b)*v))
				}
			}
		}
	}
	return features
}

// directions analyses the length of the vectors of positions, their principal axes, and the variance that functions of
// the position explain.
func directions(s *subject, field report.Field) error {
	n, vectors := s.grid.patches(), field.Vectors
	s.measured("norm, root mean square", "", floats.Norm(vectors, 2)/math.Sqrt(float64(n)))
	p, err := numeric.PCA(vectors, n, n)
	if err != nil {
		return err
	}
	for _, part := range []float64{0.9, 0.99} {
		axes, sum := 0, 0.0
		for axes < len(p.Share) && sum < part {
			sum += p.Share[axes]
			axes++
		}
		count := float64(axes)
		if math.IsNaN(sum) { // equal vectors
			count = undefined
		}
		s.measured("principal components that explain", fmt.Sprintf("%.0f %%", 100*part), count)
	}
	names, features := bases(s.grid)
	for i, name := range names {
		s.measured("explained variance", name, explained(vectors, features[i], n))
	}
	return nil
}
