// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numeric

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Principal is the principal component analysis of points: centred, not scaled.
type Principal struct {
	Mean   []float64   // [width]
	Axes   [][]float64 // [k][width] unit vectors; their sign is arbitrary
	Scores [][]float64 // [k][points] coordinates along them

	Variance []float64 // [k] along each axis, with n−1
	Share    []float64 // [k] of the total variance; 0 if all points are equal
}

// PCA computes the first k principal axes of points [n, width], or as many as there are.
func PCA(points []float64, n, k int) (p Principal, err error) {
	if n < 2 || len(points) == 0 || len(points)%n != 0 {
		return p, fmt.Errorf("numeric: principal axes of %d points with %d values, want two or more", n, len(points))
	}
	width := len(points) / n
	x := mat.NewDense(n, width, points)
	var pc stat.PC
	if !pc.PrincipalComponents(x, nil) {
		return p, fmt.Errorf("numeric: the singular values of %d points of width %d do not converge", n, width)
	}
	var axes mat.Dense
	pc.VectorsTo(&axes)
	variances := pc.VarsTo(nil)
	total := floats.Sum(variances)
	p.Mean = make([]float64, width)
	for j := range p.Mean {
		p.Mean[j] = stat.Mean(mat.Col(nil, j, x), nil)
	}
	for c := range min(k, len(variances)) {
		axis, scores := mat.Col(nil, c, &axes), make([]float64, n)
		for i := range scores {
			scores[i] = floats.Dot(x.RawRowView(i), axis) - floats.Dot(p.Mean, axis)
		}
		p.Axes, p.Scores, p.Variance = append(p.Axes, axis), append(p.Scores, scores), append(p.Variance, variances[c])
		share := 0.0
		if total > 0 {
			share = variances[c] / total
		}
		p.Share = append(p.Share, share)
	}
	return p, nil
}
