// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// parameters counts the trainable numbers that an encoding adds to a published model.
func parameters(name, position string, params map[string]any) (count int, err error) {
	c, err := vit.Variant(name)
	if err != nil {
		return 0, err
	}
	c.Position = position
	store := model.NewStore()
	store.SetParams(params)
	err = exceptions.TryCatch[error](func() { c.Encoders(store.RootScope()) })
	for v := range store.IterVariables() {
		if v.Trainable {
			count += v.Shape().Size()
		}
	}
	return count, err
}

// positionsTable lists the encodings with their parameters at Ti/16.
func positionsTable() (report.Table, error) {
	table := report.Table{Header: []string{"name", "acts", "what it is", "parameters", "folds"},
		Numeric: []bool{false, false, false, true, false}}
	for _, p := range vit.Positions() {
		count, err := parameters("Ti/16", p.Name, nil)
		if err != nil {
			return table, err
		}
		doc, folds := p.Doc, "no"
		if p.Source != "" {
			doc = fmt.Sprintf("[%s](%s)", p.Doc, p.Source)
		}
		if p.Folds() {
			folds = "yes"
		}
		table.Rows = append(table.Rows, []string{"`" + p.Name + "`", p.Kind(), doc, thousands(count), folds})
	}
	return table, nil
}

// published is a count of parameters in a paper or in its authors' code.
type published struct {
	position string
	params   map[string]any
	model    string
	count    int
	unit     int    // what the publication rounds to
	source   string // where it stands
	more     int    // how many it counts that ours does not, fewer if negative
	why      string
}

var publications = []published{
	{position: "learned", model: "Ti/16", count: 37_824, unit: 1, source: "WePE release, `pos_embedding`"},
	{position: "learned", model: "B/16", count: 151_296, unit: 1, source: "timm, `pos_embed` [1, 197, 768]"},
	{position: "sincos2d", model: "Ti/16", count: 192, unit: 1, source: "WePE release, 2-D sine", more: 192,
		why: "a learned row for the class token"},
	{position: "grid2d", model: "Ti/16", count: 37_824, unit: 1, source: "WePE release, 2-D grid"},
	{position: "rope-mixed", model: "B/16", count: 9_216, unit: 1, source: "rope-vit, `freqs` [2, 12, 384]"},
	{position: "liere", params: map[string]any{vit.ParamLiereBlock: 64}, model: "B/16", count: 580_000, unit: 1000,
		source: "LieRE paper, ViT-B"},
	{position: "wepe", model: "Ti/16", count: 1_539, unit: 1, source: "WePE release, encoder"},
	{position: "wepe", model: "Ti/16", count: 1_731, unit: 1, source: "WePE paper, \"Direct\"", more: 192,
		why: "the class token"},
	{position: "hybrid", model: "B/16", count: 891_271, unit: 1, source: "WePE release, CIFAR-100 fine-tuning",
		more: 4 - 1 - 151_296, why: "four fixed factors; ours has the learned table and the gate"},
	{position: "hybrid", model: "B/16", count: 895_879, unit: 1, source: "WePE paper, \"LUT\" at width 768",
		more: 4 - 1 - 151_296 + 6*768, why: "the same and 6·768 that the release has not"},
}

// parametersTable counts the parameters of every encoding in full-size models, next to published counts.
func parametersTable() (report.Table, error) {
	models := []string{"Ti/16", "S/16", "B/16"}
	table := report.Table{Header: slices.Concat([]string{"encoding"}, models, []string{"published", "in", "differs by"}),
		Numeric: []bool{false, true, true, true, true, false, false}}
	for _, p := range vit.Positions() {
		var lines []published
		for _, q := range publications {
			if q.position == p.Name {
				lines = append(lines, q)
			}
		}
		if len(lines) == 0 || lines[0].params != nil { // the default form has a line, too
			lines = slices.Insert(lines, 0, published{})
		}
		for _, q := range lines {
			name := "`" + p.Name + "`"
			for key, value := range q.params {
				name += fmt.Sprintf(", `%s=%v`", key, value)
			}
			line := []string{name}
			for _, model := range models {
				count, err := parameters(model, p.Name, q.params)
				if err != nil {
					return table, err
				}
				line = append(line, thousands(count))
			}
			theirs := ""
			if q.count > 0 {
				theirs = thousands(q.count) + " at " + q.model
			}
			table.Rows = append(table.Rows, append(line, theirs, q.source, q.why))
		}
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
