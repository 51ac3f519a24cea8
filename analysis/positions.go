// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/wepe"
)

// vectors are what the encoding adds to each patch, [patches, width], or why there is no such thing.
func (s *subject) vectors() (features []float64, names []string, vectors []float64, err error) {
	if features, names, vectors, err = s.model.Encoding(); err == nil && vectors == nil {
		position := s.model.Recipe.Model.Position
		err = NotHere(fmt.Sprintf("%s adds nothing to the tokens (%s): see its attention", position,
			s.model.Recipe.Model.Encoding()[0].Kind()))
	}
	return features, names, vectors, err
}

func similarity(s *subject) error {
	features, names, vectors, err := s.vectors()
	if err != nil {
		return err
	}
	n := s.grid.Patches()
	components := min(3, n)
	if n < 2 {
		return NotHere("a grid of one patch")
	}
	p, err := PCA(vectors, n, components)
	if err != nil {
		return err
	}
	sum := 0.0
	for c, share := range p.Share {
		sum += share
		s.measured("variance that principal axes explain", fmt.Sprintf("first %d", c+1), sum)
	}
	field := report.Field{Rows: s.grid.Rows, Cols: s.grid.Cols, Features: features, Names: names, Vectors: vectors}
	if err := s.show("features and likeness",
		"Cosine similarity to the centre patch, outlined; features where it has them.",
		field.Draw); err != nil || len(p.Scores) < 2 {
		return err
	}
	rows, cols := make([]float64, n), make([]float64, n)
	for i := range n {
		rows[i], cols[i] = float64(i/s.grid.Cols), float64(i%s.grid.Cols)
	}
	return s.show("principal axes", "The two first, coloured by row and by column.", func(w io.Writer) error {
		return report.Clouds(w, []report.Cloud{{Title: "by row", X: p.Scores[0], Y: p.Scores[1], Value: rows},
			{Title: "by column", X: p.Scores[0], Y: p.Scores[1], Value: cols}})
	})
}

// noises is how many draws of noise the decay is averaged over; the paper has one.
const noises = 20

func decay(s *subject) error {
	_, _, vectors, err := s.vectors()
	if err != nil {
		return err
	}
	measure := func(with string, d Decay) {
		s.measured("correlation with distance, all pairs", with, d.Pairs)
		s.measured("the same of bin means", with, d.Bins)
		s.measured("decay, %", with, d.Percent)
		s.measured("bins that fall, %", with, d.Falling)
	}
	alone, err := decayOf(vectors, s.grid, decayBins)
	if err != nil {
		return err
	}
	measure("", alone)
	s.line("likeness of positions, without noise", "distance (% of the largest)", "similarity, mapped to 6 … 20",
		report.Line{X: alone.Centres, Y: alone.Means})
	var mean Decay
	for seed := range uint64(noises) {
		draw := rand.New(rand.NewPCG(s.Look.Seed, seed))
		noisy := slices.Clone(vectors)
		for i := range noisy {
			noisy[i] += draw.NormFloat64()
		}
		d, err := decayOf(noisy, s.grid, decayBins)
		if err != nil {
			return err
		}
		mean.Pairs += d.Pairs / noises
		mean.Bins += d.Bins / noises
		mean.Percent += d.Percent / noises
		mean.Falling += d.Falling / noises
	}
	measure("+ N(0, 1), mean of 20", mean)
	return nil
}

// probeBytes bounds the patches that the probe is shown.
const probeBytes = 64 << 20

func probe(s *subject) error {
	if err := s.attends(); err != nil {
		return err
	}
	_, _, vectors, err := s.vectors()
	if err != nil {
		return err
	}
	c := s.model.Recipe.Model
	patches := s.grid.Patches()
	images := min(s.Images.Len(), 256, max(2, probeBytes/(4*patches*c.Width)))
	if images < 2 {
		return NotHere("it takes two images: one to learn from, one to be measured on")
	}
	var content []float32 // [images, patches, width]
	err = s.model.Look(data.First(s.Images, images), s.batch(images),
		func(t *vit.Trace) []*Node { return []*Node{t.Patches} },
		func(_ int, values [][]float32) error {
			content = append(content, values[0]...)
			return nil
		})
	if err != nil {
		return err
	}
	rings := s.grid.Rings()
	held := max(1, images/4)
	drawn := func(n, first, images int, with float64) (inputs [][]float32, offsets [][2]float64, err error) {
		pairs, err := rings.DrawPairs(n, images, s.Look.Seed+uint64(first))
		for _, p := range pairs {
			x := make([]float32, 0, 2*c.Width)
			for _, patch := range []int{p.From, p.To} {
				at := ((first+p.Image)*patches + patch) * c.Width
				for k, e := range content[at : at+c.Width] {
					x = append(x, e+float32(with*vectors[patch*c.Width+k]))
				}
			}
			inputs, offsets = append(inputs, x), append(offsets, rings.Offset(p))
		}
		return inputs, offsets, err
	}
	for with, name := range []string{"content alone", "content + position"} {
		if with == 0 && !s.first {
			continue // what patches alone say of places, once
		}
		inputs, offsets, err := drawn(s.Pairs, held, images-held, float64(with))
		if err != nil {
			return NotHere(err.Error())
		}
		heldInputs, heldOffsets, err := drawn(max(1, s.Pairs/4), 0, held, float64(with))
		if err != nil {
			return err
		}
		if with == 0 {
			s.measured("MSE, patches²", "always the mean", chanceErrors(offsets, heldOffsets).MSE)
		}
		e, err := Probe{Seed: int64(s.Look.Seed)}.Errors(s.Backend, inputs, offsets, heldInputs, heldOffsets)
		if err != nil {
			return err
		}
		s.measured("MSE, patches²", name, e.MSE)
		s.measured("MAE, patches", name, e.MAE)
		s.measured("RMSE, patches", name, e.RMSE)
		if with == 1 {
			share := make([]float64, len(e.Lengths))
			for i := range share {
				share[i] = float64(i+1) / float64(len(share))
			}
			s.line("errors of the probe", "error of at most (patches)", "share of the held-out pairs",
				report.Line{X: e.Lengths, Y: share})
		}
	}
	return nil
}

// sweeps are the studies whose settings the features are measured under.
var sweeps = []string{"span", "alpha-scale", "kappa", "c-large", "beta-gamma"}

func sensitivity(s *subject) error {
	if features, _, _, err := s.vectors(); err != nil {
		return err
	} else if features == nil {
		return NotHere("an encoding without features that hyperparameters make")
	}
	for _, name := range sweeps {
		named, err := study.ByName(name)
		if err != nil {
			return err
		}
		if err := s.sweep(named); err != nil {
			return err
		}
	}
	return nil
}

// Of features, in sensitivity.
const (
	featureDecay   = "correlation of distance and 1 − cosine"
	featureModulus = "mean modulus of the features"
)

// sweep measures the features under the settings of a study, but for those that are of another encoding, of ℘ or of the
// surrogate, or that this one refuses.
func (s *subject) sweep(named study.Named) error {
	of := "wepe"
	if r := s.model.Recipe; strings.HasPrefix(r.Model.Position, "hybrid") &&
		(r.Params[vit.ParamBlend] == nil || r.Params[vit.ParamBlend] == vit.BlendSurrogate) {
		of = "hybrid"
	}
	var labels []string
	var decays, moduli []float64
	for _, arm := range named.Arms {
		if arm.Position != of {
			continue
		}
		features, err := s.featuresWith(arm.Settings)
		var refused wepe.Refused
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return err
		}
		d, err := decayOf(features, s.grid, decayBins)
		if err != nil {
			return err
		}
		modulus := floats.Norm(features, 1) / float64(len(features))
		s.detail(featureDecay, arm.Label, -d.Pairs)
		s.detail(featureModulus, arm.Label, modulus)
		labels, decays, moduli = append(labels, arm.Label), append(decays, -d.Pairs), append(moduli, modulus)
	}
	if len(labels) == 0 {
		return nil
	}
	s.measured("variation of the "+featureDecay, named.About, variation(decays))
	s.measured("variation of the "+featureModulus, named.About, variation(moduli))
	if of != "hybrid" {
		return nil
	}
	return s.show(named.About, "Across: "+featureDecay+"; "+featureModulus+"; in percent.", func(w io.Writer) error {
		return report.HeatMaps(w, [][]report.HeatMap{{
			gridOf(featureDecay, labels, decays), gridOf(featureModulus, labels, moduli),
		}})
	})
}

// featuresWith are those of the encoding as drawn, under other settings.
func (s *subject) featuresWith(settings string) ([]float64, error) {
	changed, err := s.model.With(settings)
	if err != nil {
		return nil, err
	}
	defer changed.Finalize()
	features, _, _, err := changed.Encoding()
	return features, err
}

// gridOf lays out values of two settings, "β = 0.1, γ = 0.2 fixed".
func gridOf(title string, labels []string, values []float64) report.HeatMap {
	h := report.HeatMap{Title: title, Numbers: true, Positive: floats.Min(values) >= 0,
		Limit: max(floats.Max(values), -floats.Min(values))}
	for i, label := range labels {
		row, col, _ := strings.Cut(label, ", ")
		if !slices.Contains(h.Rows, row) {
			h.Rows, h.Values = append(h.Rows, row), append(h.Values, nil)
		}
		if !slices.Contains(h.Cols, col) {
			h.Cols = append(h.Cols, col)
		}
		at := slices.Index(h.Rows, row)
		h.Values[at] = append(h.Values[at], values[i])
	}
	return h
}
