// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// parameters counts the trainable parameters that an encoding adds to a published model.
func parameters(name, position string, params map[string]any) (count int, err error) {
	c, err := vit.Variant(name)
	if err != nil {
		return 0, err
	}
	c.Position = position
	store := model.NewStore()
	store.SetParams(params)
	err = exceptions.TryCatch[error](func() { c.Encoder(store.RootScope()) })
	for v := range store.IterVariables() {
		if v.Trainable {
			count += v.Shape().Size()
		}
	}
	return count, err
}

// described are the columns that do not come from the code.
type described struct{ formula, time string }

// Times are for a training step relative to learned, from docs/performance.md; of liere from docs/evidence/tables.md.
const additive, rotary = "0.98–1.06", "1.08–1.12"

var descriptions = map[string]described{
	"none":            {"no positions", "1"},
	"learned":         {"x + T, T [1+N, width] free", "1"},
	"sinusoidal1d":    {"x + sin, cos of the token index", additive},
	"sincos2d":        {"x + sin, cos of row and column", additive},
	"grid2d":          {"x + T(row, col), resampled in the graph", additive},
	"factorized":      {"x + R(row) + C(col)", additive},
	"rope1d":          {"rotation by k·θ^(−2i/d)", rotary},
	"rope-axial":      {"rotation by col·f, row·f", rotary},
	"rope-mixed":      {"rotation by col·u + row·w, u and w learned", rotary},
	"rope-dinov3":     {"rope-axial over [−1, 1]", rotary},
	"as2drope":        {"rope-axial scaled by rows", rotary},
	"fope":            {"rope1d, mixed frequencies", rotary},
	"liere":           {"rotation by exp(yA₀ + xA₁), A learned", "3.8"},
	"wepe":            {"x + β·LN(tanh(α[℘, ℘′])W + b)", additive},
	"wepe-sum":        {"wepe from the paper's truncated sums", additive},
	"wepe-sphere":     {"x + β·LN([S(αw), S(αw′)]W + b)", additive},
	"wepe-qkv":        {"q, k, v ∘ (1 + fA), (1 + fB), (1 + fC) in each block", "1.00–1.09"},
	"fourier-qkv":     {"wepe-qkv, f = sin and cos of πkx, πky", "1.00–1.02"},
	"wepe-v":          {"v ∘ (1 + fC) in each block", "1.00–1.02"},
	"fourier-v":       {"wepe-v, f = sin and cos of πkx, πky", "1.02"},
	"wepe-lut":        {"wepe from a look-up table", additive},
	"wepe-sphere-lut": {"wepe-sphere from a look-up table", additive},
	"hybrid":          {"x + λ·WePE + (1−λ)·T", additive},
	"relative-table":  {"scores + T_h(row, col difference)", "–"},
	"wepe-bias":       {"scores + tanh(α[℘(Δz), ℘′(Δz)])W_h", "–"},
	"alibi2d":         {"scores − m_h·distance", "–"},
	"lookhere":        {"scores − m·distance within a view", "–"},
	"cpe":             {"x + depthwise 3×3 convolution after block 1", "1.02"},
}

// positionsTable lists the encodings with their parameters at Ti/16.
func positionsTable() (report.Table, error) {
	table := report.Table{Header: []string{"name", "acts as", "formula", "parameters", "step time"},
		Numeric: []bool{false, false, false, true, true}}
	for _, p := range position.All() {
		count, err := parameters("Ti/16", p.Name, nil)
		if err != nil {
			return table, err
		}
		d, ok := descriptions[p.Name]
		if !ok {
			d = described{p.Doc, "–"}
		}
		name := "`" + p.Name + "`"
		if p.Source != "" {
			name = fmt.Sprintf("[%s](%s)", name, p.Source)
		}
		table.Rows = append(table.Rows, []string{name, p.Kind.String(), d.formula, thousands(count), d.time})
	}
	return table, nil
}

// published is a number of parameters in a paper or in its authors' code.
type published struct {
	position string
	params   map[string]any
	model    string
	count    int
	unit     int    // rounding of the publication
	source   string // where it is published
	more     int    // parameters counted there but not here, negative for the opposite
	why      string
}

var publications = []published{
	{position: "learned", model: "Ti/16", count: 37_824, unit: 1, source: "WePE release"},
	{position: "learned", model: "B/16", count: 151_296, unit: 1, source: "timm"},
	{position: "sincos2d", model: "Ti/16", count: 192, unit: 1, source: "WePE release", more: 192,
		why: "a learned row for the class token"},
	{position: "grid2d", model: "Ti/16", count: 37_824, unit: 1, source: "WePE release"},
	{position: "rope-mixed", model: "B/16", count: 9_216, unit: 1, source: "rope-vit"},
	{position: "liere", params: map[string]any{"liere_block": 64}, model: "B/16", count: 580_000, unit: 1000,
		source: "LieRE paper"},
	{position: "wepe", model: "Ti/16", count: 1_539, unit: 1, source: "WePE release"},
	{position: "wepe", model: "Ti/16", count: 1_731, unit: 1, source: "WePE paper, \"Direct\"", more: 192,
		why: "the class token"},
	{position: "hybrid", model: "B/16", count: 891_271, unit: 1, source: "WePE release, CIFAR-100 fine-tuning",
		more: 4 - 1 - 151_296, why: "four fixed factors; ours has the learned table and the gate"},
	{position: "hybrid", model: "B/16", count: 895_879, unit: 1, source: "WePE paper, \"LUT\" at width 768",
		more: 4 - 1 - 151_296 + 6*768, why: "the same and 6·768 that the release has not"},
}

// parametersTable lists the published numbers of parameters with those counted here.
func parametersTable() (report.Table, error) {
	table := report.Table{Header: []string{"encoding", "model", "parameters", "published", "in", "differs by"},
		Numeric: []bool{false, false, true, true, false, false}}
	for _, p := range publications {
		name := "`" + p.position + "`"
		for key, value := range p.params {
			name += fmt.Sprintf(", `%s=%v`", key, value)
		}
		count, err := parameters(p.model, p.position, p.params)
		if err != nil {
			return table, err
		}
		table.Rows = append(table.Rows, []string{name, p.model, thousands(count), thousands(p.count), p.source, p.why})
	}
	return table, nil
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
