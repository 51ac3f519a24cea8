// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/numeric"
)

// Score is the accuracy of a classifier on features. Ties count as wrong, see numeric.Rank.
type Score struct {
	Train, Test, Classes int // images, images, classes
	Top1, Top5           float64
}

// String is the score in a line.
func (s Score) String() string {
	top5 := ""
	if s.Classes > 5 {
		top5 = fmt.Sprintf("top-5 %.2f %%  ", 100*s.Top5)
	}
	return fmt.Sprintf("top-1 %.2f %%  %sof %d images, %d training images, %d classes", 100*s.Top1, top5, s.Test, s.Train,
		s.Classes)
}

// KNN classifies by the k nearest neighbours, DINO's protocol with k = 20 and a temperature of 0.07, see
// numeric.Votes: the images of part "test" by those of "train" or, without parts, each image by all others.
func (t *Table) KNN(k int, temperature float64) (Score, error) {
	s, err := t.split()
	if err != nil {
		return Score{}, err
	}
	if k < 1 || !(temperature > 0) {
		return Score{}, fmt.Errorf("features: k is %d and the temperature %g: want k of 1 or more and a temperature "+
			"above 0", k, temperature)
	}
	var queries []float32
	if s.parts {
		queries = t.rows(s.test)
	}
	near := numeric.Nearest(queries, t.rows(s.train), t.Width, k)
	return s.measure(s.train, s.test, numeric.Votes(near, s.of(s.train), s.classes, temperature)), nil
}

// strengths of L2 are the grid of the probe, for the mean loss, see numeric.LogisticRegression. Each fit starts from
// the fit with the next larger strength.
var strengths = []float64{1, 0.1, 0.01, 1e-3, 1e-4, 1e-5}

// heldOut is the share of each class for choosing a strength, and for testing if there are no parts.
const heldOut = 0.2

// Tried is one strength of the grid.
type Tried struct {
	L2, Top1 float64 // top-1 on the validation split
	Steps    int
	Gradient float64 // its largest component at the end
}

// probeTolerance is the convergence tolerance of the probe; see numeric.LogisticRegression.
const probeTolerance = 1e-4

// Probe fits a linear probe to the part "train", or without parts to all but a fifth of each class, and evaluates it on
// the rest: logistic regression by L-BFGS on features that are centred and scaled by their deviations over the training
// images, with the strength of L2 that is best on a fifth of them, then fitted to all. log is called for each strength
// tried; it may be nil.
func (t *Table) Probe(seed uint64, log func(Tried)) (Score, error) {
	s, err := t.split()
	if err != nil {
		return Score{}, err
	}
	draw := rand.New(rand.NewPCG(seed, 0))
	if !s.parts {
		s.train, s.test = s.holdOut(s.train, heldOut, draw)
	}
	fitted, held := s.holdOut(s.train, heldOut, draw)
	if len(held) == 0 { // as it is if no class has enough images for a test
		return Score{}, errors.New("features: too few images of each class for a validation split of the probe: give " +
			"more images")
	}
	var best, last *numeric.LogisticFit
	fit := func(rows []int, l2 float64, from *numeric.LogisticFit) (*numeric.LogisticFit, scale, error) {
		by := t.scale(rows)
		f, err := numeric.LogisticRegression(by.apply(t.rows(rows)), s.of(rows), s.classes, l2, probeTolerance, from)
		return f, by, err
	}
	var chosen Tried
	for _, l2 := range strengths {
		var by scale
		if last, by, err = fit(fitted, l2, last); err != nil {
			return Score{}, err
		}
		tried := Tried{l2, s.measure(fitted, held, last.Scores(by.apply(t.rows(held)))).Top1, last.Steps, last.Gradient}
		if log != nil {
			log(tried)
		}
		if best == nil || tried.Top1 > chosen.Top1 {
			best, chosen = last, tried
		}
	}
	final, by, err := fit(s.train, chosen.L2, best)
	if err != nil {
		return Score{}, err
	}
	return s.measure(s.train, s.test, final.Scores(by.apply(t.rows(s.test)))), nil
}

// scale centres features and divides them by their deviations; constant features become 0.
type scale struct{ mean, deviation []float64 }

func (t *Table) scale(rows []int) (s scale) {
	column := make([]float64, len(rows))
	for k := range t.Width {
		for i, row := range rows {
			column[i] = float64(t.Vector(row)[k])
		}
		mean, deviation := stat.PopMeanStdDev(column, nil)
		if !(deviation > 1e-7*math.Abs(mean)) { // no more than float32 rounding
			deviation = math.Inf(1)
		}
		s.mean, s.deviation = append(s.mean, mean), append(s.deviation, deviation)
	}
	return s
}

func (s scale) apply(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		k := i % len(s.mean)
		out[i] = (float64(v) - s.mean[k]) / s.deviation[k]
	}
	return out
}

// split splits the images of a table.
type split struct {
	labels      []int // of all images
	classes     int
	parts       bool
	train, test []int // all images if there are no parts
}

func (t *Table) split() (s split, err error) {
	var classes []string
	for _, p := range t.Images {
		if p.Class == "" {
			return s, fmt.Errorf("features: %s of %s has no class: put images in a folder for each", p.File, t.Name)
		}
		classes = append(classes, p.Class)
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if s.classes = len(classes); s.classes < 2 {
		return s, fmt.Errorf("features: the images of %s are of one class: put them in a folder for each", t.Name)
	}
	for i, v := range t.Values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			file := t.Images[i/t.Width].File
			return s, fmt.Errorf("features: %s of %s has features that are not finite", file, t.Name)
		}
	}
	for i, p := range t.Images {
		label, _ := slices.BinarySearch(classes, p.Class)
		s.labels = append(s.labels, label)
		s.parts = s.parts || p.Part != ""
		switch p.Part {
		case testPart:
			s.test = append(s.test, i)
		case trainPart, "":
			s.train = append(s.train, i)
		}
	}
	if s.parts && (len(s.train) == 0 || len(s.test) == 0) {
		return s, fmt.Errorf("features: %d training images of %s and %d test images", len(s.train), t.Name, len(s.test))
	}
	if !s.parts {
		s.test = s.train
	}
	return s, nil
}

// of returns the labels of images.
func (s split) of(rows []int) []int {
	out := make([]int, len(rows))
	for i, row := range rows {
		out[i] = s.labels[row]
	}
	return out
}

// holdOut draws a share of each class, rounded, but never all of it.
func (s split) holdOut(rows []int, share float64, draw *rand.Rand) (kept, held []int) {
	byClass := make([][]int, s.classes)
	for _, row := range rows {
		byClass[s.labels[row]] = append(byClass[s.labels[row]], row)
	}
	for _, members := range byClass {
		n := min(len(members)-1, int(math.Round(share*float64(len(members)))))
		for k, i := range draw.Perm(len(members)) {
			if k < n {
				held = append(held, members[i])
			} else {
				kept = append(kept, members[i])
			}
		}
	}
	return kept, held
}

// measure evaluates scores [test][classes] with labels.
func (s split) measure(train, test []int, scores [][]float32) Score {
	a := Score{Train: len(train), Test: len(test), Classes: s.classes}
	for i, row := range test {
		rank := numeric.Rank(scores[i], int32(s.labels[row]))
		if rank < 1 {
			a.Top1 += 1 / float64(len(test))
		}
		if rank < min(5, s.classes) {
			a.Top5 += 1 / float64(len(test))
		}
	}
	return a
}
