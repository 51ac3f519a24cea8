// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
)

const (
	strongest = 5  // patches
	errorBins = 20 // of the separation
	fewImages = 10 // a bin with fewer has no error rate
)

func separation(s *subject) error {
	if err := cmp.Or(s.predicts(), s.attends()); err != nil {
		return err
	}
	c := s.model.Recipe.Model
	from, size := s.prediction(), s.layerWeights()
	var separations []float64
	var wrong []bool
	rows := s.even(s.separatedImages())
	err := s.model.Activations(s.Images.Subset(rows), s.batch(len(rows)),
		func(t *vit.Trace) []*Node { return []*Node{t.Blocks[c.Depth-1].Weights} },
		func(first int, values [][]float32) error {
			logits := slices.Collect(slices.Chunk(values[1], c.Classes))
			for k, weights := range slices.Collect(slices.Chunk(values[0], size)) {
				patches := strongestPatches(s.attendedBy(from, weights), strongest)
				separations = append(separations, s.grid.separation(patches))
				wrong = append(wrong, numeric.Rank(logits[k], s.labels[rows[first+k]]) > 0)
			}
			return nil
		})
	if err != nil {
		return err
	}
	line := figure.Line{}
	var rates, centres []float64
	for _, b := range errorBySeparation(separations, wrong, errorBins, 0.005, 0.995) {
		at := fmt.Sprintf("%.2f to %.2f patches", b.Low, b.High)
		s.detail("error rate", at, b.Rate)
		s.detail("images", at, float64(b.Images))
		if b.Images < fewImages {
			b.Rate = undefined
		} else {
			rates, centres = append(rates, b.Rate), append(centres, b.Centre)
		}
		line.X, line.Y = append(line.X, b.Centre), append(line.Y, b.Rate)
		line.Low, line.High = append(line.Low, b.Rate-b.Deviation), append(line.High, b.Rate+b.Deviation)
	}
	s.measured("mean separation, patches", "", stat.Mean(separations, nil))
	s.measured("correlation of separation and error, images", "", pearson(separations, indicator(wrong)))
	s.measured("correlation of separation and error rate, bins of at least 10 images", "", pearson(centres, rates))
	s.line("error rate by distance of the 5 strongest patches", "mean distance (patches)", "error rate", line)
	return nil
}

// separatedImages is the number of images whose attention in the last layer is evaluated.
func (s *subject) separatedImages() int {
	return min(s.Images.Len(), max(1, weightWork/s.layerWeights()))
}

// predicts returns the reason if the model's predictions cannot be compared with the labels, and otherwise sets labels.
func (s *subject) predicts() error {
	if s.Start {
		return notApplicable("the head of the model is not trained")
	}
	if names := s.Images.Classes; len(names) < 2 || len(s.model.Classes) < 2 {
		return notApplicable(fmt.Sprintf("the model has %d classes, the dataset %d", len(s.model.Classes), len(names)))
	}
	if s.labels != nil {
		return nil
	}
	labelled, warning, err := s.model.Labelled(s.Images.Describe())
	if err != nil {
		return notApplicable(err.Error())
	}
	if warning != "" {
		s.Logger.Warn(warning, "model", s.Name)
	}
	s.labels = labelled.Labels
	return nil
}

// strongestPatches returns the k patches with the largest weights, the strongest first.
func strongestPatches(weights []float64, k int) []int {
	order := make([]int, len(weights))
	floats.Argsort(slices.Clone(weights), order)
	slices.Reverse(order)
	return order[:min(k, len(order))]
}

// separation is the mean distance between the pairs of some patches, in patches; NaN for fewer than two.
func (g grid) separation(patches []int) float64 {
	sum, pairs := 0.0, 0.0
	for a, i := range patches {
		for _, j := range patches[a+1:] {
			sum += g.distance(i, j)
			pairs++
		}
	}
	return sum / pairs
}

// errorBin is the error rate of the images whose separation is in [Low, High).
type errorBin struct {
	Low, Centre, High float64
	Images            int
	Rate              float64 // NaN without images
	Deviation         float64 // √(rate·(1−rate)/images), of a binomial rate
}

// errorBySeparation divides images between the quantiles low and high of their separations into equal bins; images
// beyond are in the outer bins. NaN separations are skipped.
func errorBySeparation(separation []float64, wrong []bool, bins int, low, high float64) []errorBin {
	known := slices.DeleteFunc(slices.Clone(separation), math.IsNaN)
	if len(known) == 0 {
		return nil
	}
	from, to := quantile(known, low), quantile(known, high)
	out := make([]errorBin, bins)
	for k := range out {
		out[k].Low = from + (to-from)*float64(k)/float64(bins)
		out[k].High = from + (to-from)*float64(k+1)/float64(bins)
		out[k].Centre = (out[k].Low + out[k].High) / 2
	}
	for i, s := range separation {
		if math.IsNaN(s) {
			continue
		}
		k := 0
		if to > from {
			k = min(max(int((s-from)/(to-from)*float64(bins)), 0), bins-1)
		}
		out[k].Images++
		if wrong[i] {
			out[k].Rate++
		}
	}
	for k := range out {
		n := float64(out[k].Images)
		out[k].Rate /= n
		out[k].Deviation = math.Sqrt(out[k].Rate * (1 - out[k].Rate) / n)
	}
	return out
}
