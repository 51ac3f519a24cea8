// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package analysis compares trained models: what their position encodings contain, where they attend, and how robust
// they are.
//
//	c := analysis.Comparison{Backend: b, Images: analysis.Same(images, nil), Analyses: analysis.All,
//		Models: []analysis.Model{{Name: "wepe", Path: "runs/wepe-seed0"}, {Name: "learned", Path: "runs/learned-seed0"}}}
//	rows, page, err := c.Run(ctx)
//	table := analysis.Table(rows, "decay")
//	err = page.HTML(file)
//
// Each analysis is a row of the table All. Models with the same name, for example the seeds of a study, form one column
// with mean and range. Models are opened one after the other and run in small batches.
//
// The command is wepe analyze; docs/analysis.md explains the analyses.
package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
)

// Model is a column, or one of the seeds of a column.
type Model struct {
	Name  string // of its column
	Path  string // whatever finetune.Open opens
	Start bool   // with its initial weights, for a run from scratch
	Size  [2]int // of its images; zero is its own

	Import checkpoints.Hints // what its files lack: Grid, AssumeSquare, Architecture
}

// Comparison applies analyses to models.
type Comparison struct {
	Backend  compute.Backend
	Models   []Model
	Analyses []Analysis
	Images   Images // of the same images for all models

	Pairs  int    // for training the probe, 0 for 8000; a quarter as many are for evaluation
	Seed   uint64 // of noise, pairs, occlusion and shuffles
	Logger *slog.Logger

	reference reference
	all, done int // analyses of all models that open
	began     time.Time
}

// progress is a text like "20 of 32, about 1m30s left".
func (c *Comparison) progress() string {
	text := fmt.Sprintf("%d of %d", c.done+1, c.all)
	if c.done == 0 {
		return text
	}
	left := time.Since(c.began) * time.Duration(c.all-c.done) / time.Duration(c.done)
	return fmt.Sprintf("%s, about %v left", text, left.Round(time.Second))
}

// Images returns the images for a model, as its preprocessing makes them, and which pixels of an image are the object:
// a nil mask is an image without an object, a nil function is no masks. If the labels are not the model's classes,
// analyses of accuracy do not apply.
type Images func(ctx context.Context, m *finetune.Model) (images *data.InMemory, mask func(image int) []bool, err error)

// Same are the same images for all models.
func Same(images *data.InMemory, mask func(image int) []bool) Images {
	return func(context.Context, *finetune.Model) (*data.InMemory, func(int) []bool, error) {
		return images, mask, nil
	}
}

// reference is the result of the first of Models, for comparison with the others; empty if it could not be measured.
type reference struct {
	features, masks []int                // indices of the images of which pooled and overlaps are
	pooled          [][]float64          // [layer][images·width] mean-pooled patch features of each block
	overlaps        map[string][]float64 // [image] by measure, NaN if undefined
}

// Row is one measured value.
type Row struct {
	Analysis string           `json:"figure"`
	Model    string           `json:"model"` // the column
	Seed     int64            `json:"seed"`  // of the training
	Images   string           `json:"images"`
	Count    int              `json:"count,omitempty"` // of the images that were measured
	Size     string           `json:"size,omitempty"`  // of the model's images
	Weights  string           `json:"weights,omitempty"`
	Measure  string           `json:"measure"`
	At       string           `json:"at,omitempty"`     // a layer, a share, a size
	Detail   bool             `json:"detail,omitempty"` // omitted from tables
	Value    report.JSONFloat `json:"value"`            // null if it is undefined
	Note     string           `json:"note,omitempty"`   // the reason for a missing value, in a row without measure
	Commit   string           `json:"commit,omitempty"` // of the measuring program, see Write
}

// notApplicable is the reason why an analysis does not apply to a model.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// Run applies every analysis to every model. If an analysis does not apply, the results have a note. If an analysis or
// a model fails or ctx ends, the error names it, and the results of the others are returned too.
func (c *Comparison) Run(ctx context.Context) (rows []Row, page report.Page, err error) {
	if len(c.Models) == 0 || len(c.Analyses) == 0 {
		return nil, page, errors.New("analysis: give at least one model and one analysis")
	}
	c.Pairs, c.reference = cmp.Or(c.Pairs, 8000), reference{}
	c.all, c.done, c.began = len(c.Models)*len(c.Analyses), 0, time.Now()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var columns []string
	for _, m := range c.Models {
		if !slices.Contains(columns, m.Name) {
			columns = append(columns, m.Name)
		}
	}
	sections := make([]section, len(c.Analyses))
	for i := range sections {
		sections[i].columns = make([][]report.Figure, len(columns))
	}
	seen := map[string]bool{}
	var failed []error
	for i, m := range c.Models {
		s, err := c.open(ctx, m)
		if err != nil {
			failed = append(failed, err)
			c.all -= len(c.Analyses)
			continue
		}
		page.Lines = []string{fmt.Sprintf("%d images of %s; attention is of at most %d of them, spread evenly, fewer for "+
			"large models", s.Images.Len(), s.Images.Name, attendedMost)}
		s.isReference, s.first, s.column = i == 0, !seen[m.Name], slices.Index(columns, m.Name)
		seen[m.Name] = true
		failed = append(failed, s.analyze(ctx, sections)...)
		s.model.Finalize()
		rows = append(rows, s.rows...)
		if err := ctx.Err(); err != nil {
			failed = append(failed, fmt.Errorf("interrupted after %d of %d analyses: %w", c.done, c.all, err))
			break
		}
	}
	if len(rows) == 0 {
		return nil, page, errors.Join(failed...)
	}
	for i, a := range c.Analyses {
		part, err := sections[i].finish(a, rows)
		if err != nil {
			return nil, page, err
		}
		page.Sections = append(page.Sections, part)
	}
	page.Title = "Position and robustness analyses"
	return rows, page, errors.Join(failed...)
}

func (c *Comparison) open(ctx context.Context, m Model) (*subject, error) {
	opening := finetune.OpenOptions{Files: m.Import, Size: m.Size}
	if m.Start {
		opening = finetune.OpenOptions{Weights: "start", Size: m.Size}
	}
	opened, err := opening.Open(c.Backend, m.Path)
	if err != nil {
		return nil, err
	}
	for _, line := range opened.Source.Notes {
		c.Logger.Info(line, "model", m.Name)
	}
	v := opened.Recipe.Model
	s := &subject{Comparison: c, Model: m, ctx: ctx, model: opened,
		grid: grid{Rows: v.Rows(), Cols: v.Cols(), Prefix: v.Prefix()}}
	if s.Images, s.Mask, err = c.Images(ctx, opened); err == nil && s.Images.Len() == 0 {
		err = errors.New("analysis: no images")
	}
	if err != nil {
		opened.Finalize()
		return nil, fmt.Errorf("images for %s: %w", m.Path, err)
	}
	return s, nil
}

// subject is an open model.
type subject struct {
	*Comparison
	Model
	ctx    context.Context
	model  *finetune.Model
	Images *data.InMemory
	Mask   func(image int) []bool
	grid   grid
	column int
	first  bool // of its column; its images are shown
	rows   []Row

	isReference bool // the first of Models

	analysis Analysis
	section  *section
	used     int // number of images of the analysis

	attention *attention // computed on first use
	labels    []int32    // of Images by the model's classes, set by predicts
}

// analyze applies all analyses.
func (s *subject) analyze(ctx context.Context, sections []section) (failed []error) {
	for i, a := range s.Analyses {
		if ctx.Err() != nil {
			return failed
		}
		s.Logger.Info(a.Name, "model", s.Name, "analysis", s.progress())
		s.analysis, s.section, s.used = a, &sections[i], s.Images.Len()
		err := a.do(s)
		s.done++
		if err == nil {
			continue
		}
		note := err.Error()
		if !errors.As(err, new(notApplicable)) {
			failed = append(failed, fmt.Errorf("%s of %s: %w", a.Name, s.Path, err))
			note = "failed: " + note
		}
		s.rows = append(s.rows, s.row(Row{Note: note}, undefined))
	}
	return failed
}

func (s *subject) row(r Row, value float64) Row {
	r.Analysis, r.Model, r.Seed, r.Images = s.analysis.Name, s.Name, s.model.Seed, s.Images.Name
	c := s.model.Recipe.Model
	r.Count, r.Size = s.used, fmt.Sprintf("%dx%d", c.ImageRows, c.ImageCols)
	if w := s.model.Source.Weights; w.Name != "" { // a foreign model has only one kind
		r.Weights = w.String()
	}
	r.Value = report.JSONFloat(value)
	return r
}

// even returns n of the images, spread evenly: a directory may be sorted by class. The rows that follow are of n.
func (s *subject) even(n int) []int {
	s.used = n
	return numeric.Spread(n, s.Images.Len())
}

// measured adds a value.
func (s *subject) measured(measure, at string, value float64) {
	s.rows = append(s.rows, s.row(Row{Measure: measure, At: at}, value))
}

// detail adds a value that tables omit.
func (s *subject) detail(measure, at string, value float64) {
	s.rows = append(s.rows, s.row(Row{Measure: measure, At: at, Detail: true}, value))
}

// show adds a figure to the model's column.
func (s *subject) show(title, caption string, draw func(io.Writer) error) error {
	if !s.first {
		return nil
	}
	figure, err := report.NewFigure(s.Name+": "+title, caption, draw)
	s.section.columns[s.column] = append(s.section.columns[s.column], figure)
	return err
}

// line adds a line to a plot of all models.
func (s *subject) line(title, x, y string, l figure.Line) {
	l.Name = s.Name
	plots := &s.section.plots
	at := slices.IndexFunc(*plots, func(p figure.Plot) bool { return p.Title == title })
	if at < 0 {
		at = len(*plots)
		*plots = append(*plots, figure.Plot{Title: title, X: x, Y: y})
	}
	(*plots)[at].Lines = append((*plots)[at].Lines, l)
}

// section is the part of the page about an analysis.
type section struct {
	plots   []figure.Plot
	columns [][]report.Figure
}

func (s section) finish(a Analysis, rows []Row) (report.Section, error) {
	out := report.Section{Title: a.Title, Text: []string{a.About}, Table: Table(rows, a.Name)}
	if a.Claim != "" {
		out.Text = append(out.Text, "The paper: "+a.Claim)
	}
	for _, p := range s.plots {
		figure, err := report.NewFigure(p.Title, "", p.Draw)
		if err != nil {
			return out, err
		}
		out.Figures = append(out.Figures, figure)
	}
	if slices.ContainsFunc(s.columns, func(figures []report.Figure) bool { return len(figures) > 0 }) {
		out.Columns = s.columns
	}
	return out, nil
}
