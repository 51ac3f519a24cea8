// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/wepe"
)

// ofVectors is an analysis of the vectors of an encoding.
func ofVectors(do func(*subject, report.Field) error) func(*subject) error {
	return func(s *subject) error {
		s.used = 0
		field, err := s.vectors()
		if err != nil {
			return err
		}
		return do(s, field)
	}
}

const onnxHasLogits = "an ONNX file has only logits"

// vectors returns the vectors of the encoding, one per patch, and its features if it has any.
func (s *subject) vectors() (f report.Field, err error) {
	if s.model.Recipe.Architecture == finetune.ONNX {
		return f, notApplicable(onnxHasLogits)
	}
	f.Rows, f.Cols = s.grid.Rows, s.grid.Cols
	if f.Features, f.Names, f.Vectors, err = s.model.Encoding(); err == nil && f.Vectors == nil {
		c := s.model.Recipe.Model
		err = notApplicable(fmt.Sprintf("the encoding %s is %s: it has no vector per patch", c.Position,
			c.Encoding()[0].Kind))
	}
	if err == nil && s.grid.patches() < 2 {
		err = notApplicable("the grid has one patch, the analysis needs two")
	}
	return f, err
}

func similarity(s *subject, field report.Field) error {
	n := s.grid.patches()
	p, err := numeric.PCA(field.Vectors, n, min(3, n))
	if err != nil {
		return err
	}
	sum := 0.0
	for c, share := range p.Share {
		sum += share
		s.measured("variance explained by principal components", fmt.Sprintf("first %d", c+1), sum)
	}
	if err := s.show("features and similarity", "Cosine similarity to the centre patch, outlined, and the features of "+
		"the encoding, if it has any, from blue, −1, to red, +1.", field.Draw); err != nil || len(p.Scores) < 2 {
		return err
	}
	rows, cols := s.grid.positions()
	return s.show("principal components", "The first two of the position embeddings, "+colourKey,
		byPosition("component", p.Scores[0], p.Scores[1], rows, cols))
}

// sweeps are the studies whose settings sensitivity evaluates.
var sweeps = []string{"span", "alpha-scale", "kappa", "c-large", "beta-gamma"}

func sensitivity(s *subject, field report.Field) error {
	ofWePE := func(name string) bool { return slices.Contains(wepe.Params(), name) }
	if field.Features == nil || !slices.ContainsFunc(s.model.Recipe.Model.Encoding().Params(), ofWePE) {
		return notApplicable("the vectors of the encoding have no features that depend on hyperparameters")
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

// Measures of features in sensitivity.
const (
	featureDecay   = "correlation of distance and 1 − cosine"
	featureModulus = "mean modulus of the features"
)

// sweep evaluates the features with the settings of a study, except settings of another encoding, of ℘ or of the
// surrogate, and those that this encoding refuses.
func (s *subject) sweep(named study.Preset) error {
	of := "wepe"
	if r := s.model.Recipe; strings.HasPrefix(r.Model.Position, "hybrid") &&
		(r.Params["wepe_blend"] == nil || r.Params["wepe_blend"] == "surrogate") {
		of = "hybrid"
	}
	var labels []string
	var decays, moduli []float64
	for _, v := range named.Variants {
		position := s.model.Recipe.Model.Position
		switch {
		case v.Position == "wepe-sum" && position == "wepe": // the sum in place of exact values
			position = v.Position
		case v.Position != of:
			continue
		}
		features, err := s.featuresWith("model.position=" + position + ";" + v.Settings)
		if errors.As(err, new(wepe.ConfigError)) {
			continue
		}
		if err != nil {
			return err
		}
		d := decayOf(features, s.grid, decayBins)
		modulus := floats.Norm(features, 1) / float64(len(features))
		s.detail(featureDecay, v.Label, -d.Pairs)
		s.detail(featureModulus, v.Label, modulus)
		labels, decays, moduli = append(labels, v.Label), append(decays, -d.Pairs), append(moduli, modulus)
	}
	if len(labels) == 0 {
		return nil
	}
	s.measured("variation of the "+featureDecay, named.About, variation(decays))
	s.measured("variation of the "+featureModulus, named.About, variation(moduli))
	if of != "hybrid" {
		return nil
	}
	return s.show(named.About, "Left: "+featureDecay+"; right: "+featureModulus+"; in percent.", func(w io.Writer) error {
		return figure.HeatMaps(w, [][]figure.HeatMap{{
			gridOf(featureDecay, labels, decays), gridOf(featureModulus, labels, moduli),
		}})
	})
}

// featuresWith returns the initial features of the encoding with other settings.
func (s *subject) featuresWith(settings string) ([]float64, error) {
	changed, err := s.model.Reinitialized(settings)
	if err != nil {
		return nil, err
	}
	defer changed.Finalize()
	features, _, _, err := changed.Encoding()
	return features, err
}

// gridOf arranges values of two settings, "β = 0.1, γ = 0.2 fixed"; a missing pair is NaN.
func gridOf(title string, labels []string, values []float64) figure.HeatMap {
	h := figure.HeatMap{Title: title, Numbers: true, Positive: floats.Min(values) >= 0,
		Limit: max(floats.Max(values), -floats.Min(values))}
	for _, label := range labels {
		row, col, _ := strings.Cut(label, ", ")
		if !slices.Contains(h.Rows, row) {
			h.Rows = append(h.Rows, row)
		}
		if !slices.Contains(h.Cols, col) {
			h.Cols = append(h.Cols, col)
		}
	}
	for range h.Rows {
		h.Values = append(h.Values, slices.Repeat([]float64{undefined}, len(h.Cols)))
	}
	for i, label := range labels {
		row, col, _ := strings.Cut(label, ", ")
		h.Values[slices.Index(h.Rows, row)][slices.Index(h.Cols, col)] = values[i]
	}
	return h
}
