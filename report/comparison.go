// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

// Comparison is a page on several models side by side.
type Comparison struct {
	Title    string
	Lines    []string // below the title
	Sections []Section
}

// Section is one question. What it has none of is left out.
type Section struct {
	Title    string
	Text     []string
	Table    Table
	Pictures []Figure   // small ones, many in a row
	Shared   []Figure   // of all models at once
	Columns  [][]Figure // of each model
}

//go:embed comparison.html
var comparisonText string

var comparisonTemplate = newTemplate("comparison", comparisonText)

// HTML writes the page, under the conditions of the function HTML: one file without scripts, asking nothing of a
// network, and well-formed XML.
func (c Comparison) HTML(w io.Writer) error {
	var page bytes.Buffer
	if err := comparisonTemplate.Execute(&page, c); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := page.WriteTo(w)
	return err
}

// newTemplate is a page with the style and the tables that all pages share.
func newTemplate(name, text string) *template.Template {
	return template.Must(template.Must(template.New(name).Funcs(pageFunctions).Parse(sharedText)).Parse(text))
}
