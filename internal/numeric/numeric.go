// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package numeric has the statistical methods of analyses and features.
package numeric

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MinMax maps values to [0, 1]; equal values to 0.
func MinMax(values []float64) []float64 {
	out := make([]float64, len(values))
	low := floats.Min(values)
	if span := floats.Max(values) - low; span > 0 {
		for i, v := range values {
			out[i] = (v - low) / span
		}
	}
	return out
}

// Similarities returns the cosines between the vectors [positions, width] of all positions, [positions, positions]. The
// cosine with a zero vector is 0.
func Similarities(vectors []float64, positions int) []float64 {
	units, width := slices.Clone(vectors), len(vectors)/positions
	at := func(i int) []float64 { return units[i*width : (i+1)*width] }
	out := make([]float64, positions*positions)
	for i := range positions {
		if norm := math.Sqrt(floats.Dot(at(i), at(i))); norm != 0 {
			floats.Scale(1/norm, at(i))
		}
		for j := range i + 1 {
			cosine := floats.Dot(at(i), at(j))
			out[i*positions+j], out[j*positions+i] = cosine, cosine
		}
	}
	return out
}

// Spread is n of the indices below all, or all, evenly spread.
func Spread(n, all int) []int {
	chosen := make([]int, min(n, all))
	for i := range chosen {
		chosen[i] = i * all / len(chosen)
	}
	return chosen
}

// Rank returns the number of other logits that are at least the label's, 0 for a correct prediction. Ties are
// incorrect, so that a zero head scores 0. A NaN label is incorrect; another class's NaN counts as at least the label's
// logit.
func Rank(logits []float32, label int32) (before int) {
	own := logits[label]
	if math.IsNaN(float64(own)) {
		return len(logits)
	}
	for class, v := range logits {
		if class != int(label) && !(v < own) {
			before++
		}
	}
	return before
}

// Difference returns max |got - want| and max |want|; infinity if they cannot be compared.
func Difference(got, want []float32) (difference, scale float64) {
	if len(got) != len(want) {
		return math.Inf(1), 0
	}
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(d) {
			return math.Inf(1), scale
		}
		difference, scale = max(difference, d), max(scale, math.Abs(float64(want[i])))
	}
	return difference, scale
}

// Summary is the mean, the range and the standard deviation (with n−1) of n finite values.
type Summary struct {
	Mean, Low, High, Deviation float64
	N                          int
}

// Summarize leaves out values that are not finite.
func Summarize(values []float64) Summary {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v-v != 0 })
	s := Summary{Mean: stat.Mean(known, nil), Deviation: stat.StdDev(known, nil), N: len(known)}
	if s.N > 0 {
		s.Low, s.High = floats.Min(known), floats.Max(known)
	}
	return s
}

// Format prints the mean, – for none.
func (s Summary) Format(verb string) string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf(verb, s.Mean)
}

// FormatRange prints the range, – for none.
func (s Summary) FormatRange(verb string) string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf(verb+" … "+verb, s.Low, s.High)
}

// FormatInterval prints the 95 % confidence interval of the mean by Student's t with n−1 degrees of freedom, – for
// fewer than three values: of two, t is 12.7.
func (s Summary) FormatInterval(verb string) string {
	if s.N < 3 {
		return "–"
	}
	half := distuv.StudentsT{Sigma: 1, Nu: float64(s.N - 1)}.Quantile(0.975) * s.Deviation / math.Sqrt(float64(s.N))
	return fmt.Sprintf(verb+" … "+verb, s.Mean-half, s.Mean+half)
}

// Principal is the principal component analysis of points: centred, not scaled.
type Principal struct {
	Mean   []float64   // [width]
	Axes   [][]float64 // [k][width] unit vectors; their sign is arbitrary
	Scores [][]float64 // [k][points] coordinates along them

	Variance []float64 // [k] along each axis, with n−1
	Share    []float64 // [k] of the total variance; NaN if all points are equal
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
		p.Share = append(p.Share, variances[c]/total)
	}
	return p, nil
}
