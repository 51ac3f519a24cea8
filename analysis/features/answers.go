// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/finetune"
)

// Answer is how often the class of a picture was told from features. A tie is no right answer, see finetune.Rank.
type Answer struct {
	Known, Asked, Classes int // pictures learned from, pictures measured
	Top1, Top5            float64
}

// Text is the answer in a line.
func (a Answer) Text() string {
	return fmt.Sprintf("top-1 %.2f %%  top-5 %.2f %%  of %d pictures, %d known, %d classes", 100*a.Top1, 100*a.Top5,
		a.Asked, a.Known, a.Classes)
}

// KNN tells classes by the k nearest pictures, DINO's protocol with k = 20 and a temperature of 0.07, see
// analysis.Votes: those of the part Test by those of Train or, where there are no parts, each by all others.
func (t *Table) KNN(k int, temperature float64) (Answer, error) {
	s, err := t.split()
	if err != nil {
		return Answer{}, err
	}
	if k < 1 || !(temperature > 0) {
		return Answer{}, fmt.Errorf("features: %d neighbours at a temperature of %g, want 1 or more, more than 0", k,
			temperature)
	}
	var queries []float32
	if s.parts {
		queries = t.rows(s.asked)
	}
	near, err := analysis.Nearest(queries, t.rows(s.known), t.Width, k)
	if err != nil {
		return Answer{}, err
	}
	return s.measure(s.known, s.asked, analysis.Votes(near, s.of(s.known), s.classes, temperature)), nil
}

// Probe is a linear probe: logistic regression on features that are centred and scaled by their deviations over the
// known pictures, at the strength of L2 that is best on a part of them, then fitted to all. There is no learning rate
// to choose: L-BFGS comes to the minimum. Zero fields mean the defaults beside them.
type Probe struct {
	L2   []float64 // 1, 0.1 … 1e-5, of the mean loss, see analysis.LogisticRegression
	Held float64   // 0.2 of each class: what a strength is chosen on, and what is asked where there are no parts
	Seed uint64    // of what is held out
}

// Tried is one strength of the grid.
type Tried struct {
	L2, Top1 float64 // on the pictures held out
	Steps    int
	Gradient float64 // its largest component where it stopped
}

// probeTolerance is when a fit of the probe has converged; see Tolerance of analysis.LogisticRegression.
const probeTolerance = 1e-4

// Probe fits a linear probe to the part Train, or to all but a share of each class, and asks it the rest. log, which
// may be nil, is called with each strength tried.
func (t *Table) Probe(p Probe, log func(Tried)) (Answer, []Tried, error) {
	if p.L2 == nil {
		p.L2 = []float64{1, 0.1, 0.01, 1e-3, 1e-4, 1e-5}
	}
	if p.Held == 0 {
		p.Held = 0.2
	}
	if !(p.Held > 0 && p.Held < 1) || len(p.L2) == 0 || !(slices.Min(p.L2) >= 0) {
		return Answer{}, nil, fmt.Errorf("features: a probe with L2 of %v and %g held out", p.L2, p.Held)
	}
	s, err := t.split()
	if err != nil {
		return Answer{}, nil, err
	}
	draw := rand.New(rand.NewPCG(p.Seed, 0))
	if !s.parts {
		s.known, s.asked = s.holdOut(s.known, p.Held, draw)
	}
	fitted, held := s.holdOut(s.known, p.Held, draw)
	if len(held) == 0 || len(s.asked) == 0 {
		return Answer{}, nil, errors.New("features: a probe with too few pictures of each class to hold some out")
	}
	slices.Sort(p.L2)
	slices.Reverse(p.L2) // each fit begins with that of the next stronger one
	var tried []Tried
	var best, last *analysis.LogisticFit
	fit := func(rows []int, l2 float64, from *analysis.LogisticFit) (*analysis.LogisticFit, scale, error) {
		by := t.scale(rows)
		r := analysis.LogisticRegression{L2: l2, Tolerance: probeTolerance}
		f, err := r.Fit(by.apply(t.rows(rows)), s.of(rows), s.classes, from)
		return f, by, err
	}
	chosen := 0
	for i, l2 := range p.L2 {
		var by scale
		if last, by, err = fit(fitted, l2, last); err != nil {
			return Answer{}, nil, err
		}
		top1 := s.measure(fitted, held, last.Scores(by.apply(t.rows(held)))).Top1
		tried = append(tried, Tried{l2, top1, last.Steps, last.Gradient})
		if log != nil {
			log(tried[i])
		}
		if best == nil || top1 > tried[chosen].Top1 {
			best, chosen = last, i
		}
	}
	final, by, err := fit(s.known, p.L2[chosen], best)
	if err != nil {
		return Answer{}, nil, err
	}
	return s.measure(s.known, s.asked, final.Scores(by.apply(t.rows(s.asked)))), tried, nil
}

// scale centres features and divides them by their deviations; those that are constant become 0.
type scale struct{ mean, deviation []float64 }

func (t *Table) scale(rows []int) (s scale) {
	column := make([]float64, len(rows))
	for k := range t.Width {
		for i, row := range rows {
			column[i] = float64(t.Vector(row)[k])
		}
		mean, deviation := stat.PopMeanStdDev(column, nil)
		if !(deviation > 1e-7*math.Abs(mean)) { // no more than the rounding of float32
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

// split is who is known and who is asked.
type split struct {
	labels       []int // of all pictures
	classes      int
	parts        bool
	known, asked []int // all pictures where there are no parts
}

func (t *Table) split() (s split, err error) {
	number := map[string]int{}
	for _, p := range t.Pictures {
		if p.Class == "" {
			return s, fmt.Errorf("features: %s of %s has no class: put pictures in a folder for each", p.File, t.Name)
		}
		number[p.Class] = 0
	}
	for i, class := range slices.Sorted(maps.Keys(number)) {
		number[class] = i
	}
	if s.classes = len(number); s.classes < 2 {
		return s, fmt.Errorf("features: the pictures of %s are of one class: put them in a folder for each", t.Name)
	}
	for i, p := range t.Pictures {
		s.labels = append(s.labels, number[p.Class])
		if s.parts = s.parts || p.Part != ""; p.Part == Test {
			s.asked = append(s.asked, i)
		} else {
			s.known = append(s.known, i)
		}
	}
	if s.parts && (len(s.known) == 0 || len(s.asked) == 0) {
		return s, fmt.Errorf("features: %d pictures of %s to learn from and %d to ask", len(s.known), t.Name, len(s.asked))
	}
	if !s.parts {
		s.asked = s.known
	}
	return s, nil
}

// of are the labels of pictures.
func (s split) of(rows []int) []int {
	out := make([]int, len(rows))
	for i, row := range rows {
		out[i] = s.labels[row]
	}
	return out
}

// holdOut draws a share of each class, rounded and less than all of it.
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

// measure compares scores [asked][classes] with labels.
func (s split) measure(known, asked []int, scores [][]float32) Answer {
	a := Answer{Known: len(known), Asked: len(asked), Classes: s.classes}
	for i, row := range asked {
		rank := finetune.Rank(scores[i], int32(s.labels[row]))
		if rank < 1 {
			a.Top1 += 1 / float64(len(asked))
		}
		if rank < min(5, s.classes) {
			a.Top5 += 1 / float64(len(asked))
		}
	}
	return a
}
