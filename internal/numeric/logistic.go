// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numeric

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// LogisticFit is a multinomial logistic regression.
type LogisticFit struct {
	Width, Classes int
	Weights        []float64 // [width, classes]
	Biases         []float64 // [classes]
	Loss           float64   // with its share of L2
	Gradient       float64   // its largest component; above the tolerance if logisticSteps were too few
	Steps          int
}

// logisticSteps is the largest number of steps, as in CLIP's linear probes (Radford et al. 2021, A.3).
const logisticSteps = 1000

// LogisticRegression fits weights W [width, classes] and biases b [classes] to points [n, width] so that they minimize
//
//	1/n Σᵢ −log softmax(xᵢW + b)[labelᵢ] + l2/2 ‖W‖²
//
// by L-BFGS, until no component of the gradient exceeds the tolerance. It starts from another fit of the same sizes, or
// from zero with nil. It equals scikit-learn's LogisticRegression(C = 1/(n·l2)): biases are not regularised.
func LogisticRegression(points []float64, labels []int, classes int, l2, tolerance float64,
	from *LogisticFit) (*LogisticFit, error) {
	n, width := len(labels), len(points)/len(labels)
	o := &logisticLoss{x: mat.NewDense(n, width, points), labels: labels, classes: classes, l2: l2,
		odds: mat.NewDense(n, classes, nil), gradient: make([]float64, (width+1)*classes)}
	start := make([]float64, (width+1)*classes)
	if from != nil {
		copy(start, slices.Concat(from.Weights, from.Biases))
	}
	settings := &optimize.Settings{GradientThreshold: tolerance, MajorIterations: logisticSteps,
		Converger: optimize.NeverTerminate{}}
	problem := optimize.Problem{
		Func: func(at []float64) float64 { return o.at(at) },
		Grad: func(gradient, at []float64) { o.at(at); copy(gradient, o.gradient) },
	}
	// A line search returns an error if float64 cannot decrease the loss any further: see Gradient.
	result, err := optimize.Minimize(problem, start, settings, &optimize.LBFGS{Linesearcher: &optimize.MoreThuente{}})
	if result == nil || math.IsNaN(o.at(result.X)) {
		return nil, fmt.Errorf("numeric: logistic regression of points that are not finite: %w", err)
	}
	at := result.X
	return &LogisticFit{Width: width, Classes: classes, Weights: at[:width*classes], Biases: at[width*classes:],
		Loss: o.at(at), Gradient: floats.Norm(o.gradient, math.Inf(1)), Steps: result.MajorIterations}, nil
}

// logisticLoss is the objective, a function of weights followed by biases.
type logisticLoss struct {
	x       *mat.Dense // [n, width]
	labels  []int
	classes int
	l2      float64

	last     []float64 // the point of the last evaluation: the optimizer requests value and gradient separately
	value    float64
	gradient []float64
	odds     *mat.Dense // [n, classes]
}

func (o *logisticLoss) at(parameters []float64) float64 {
	if slices.Equal(parameters, o.last) {
		return o.value
	}
	o.last = append(o.last[:0], parameters...)
	n, width := o.x.Dims()
	split := width * o.classes
	weights, biases := parameters[:split], parameters[split:]
	o.odds.Mul(o.x, mat.NewDense(width, o.classes, weights))
	byBias := o.gradient[split:]
	clear(byBias)
	loss := 0.0
	for i, label := range o.labels {
		row := o.odds.RawRowView(i) // logits, then (softmax − one-hot)/n
		floats.Add(row, biases)
		all := floats.LogSumExp(row)
		loss += (all - row[label]) / float64(n)
		for c, logit := range row {
			row[c] = math.Exp(logit-all) / float64(n)
		}
		row[label] -= 1 / float64(n)
		floats.Add(byBias, row)
	}
	mat.NewDense(width, o.classes, o.gradient[:split]).Mul(o.x.T(), o.odds)
	floats.AddScaled(o.gradient[:split], o.l2, weights)
	o.value = loss + o.l2/2*floats.Dot(weights, weights)
	return o.value
}

// Scores returns the logits [n][classes] of points [n, width].
func (f *LogisticFit) Scores(points []float64) [][]float32 {
	n := len(points) / f.Width
	var product mat.Dense
	product.Mul(mat.NewDense(n, f.Width, points), mat.NewDense(f.Width, f.Classes, f.Weights))
	scores := make([][]float32, n)
	for i := range scores {
		for c, v := range product.RawRowView(i) {
			scores[i] = append(scores[i], float32(v+f.Biases[c]))
		}
	}
	return scores
}
