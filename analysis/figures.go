// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package figures looks at trained models side by side: what their position encodings know, how their attention uses
// it, and what they stand. Every figure is a row of the table Figures; package analysis has the mathematics.
//
//	look := Look{Backend: backend, Images: images, Figures: Figures,
//		Models: []Model{{Name: "wepe", Path: "runs/wepe-seed0"}, {Name: "learned", Path: "runs/learned-seed0"}}}
//	found, err := look.Run(ctx)
//	table := Table(found.Rows, "decay")
//	err = found.Page.HTML(file)
//
// Models of one name are one column, its numbers the mean and the range, its pictures those of the first. They are
// opened one after the other, run in small batches, and every image is forgotten once it is measured.
package analysis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// Figure is one question that models are asked.
type Figure struct {
	Name, Group string
	Title       string
	About       string // what is measured, with its units
	Claim       string // what the paper says of it
	do          func(*subject) error
}

// Groups of analysis.
const (
	Positions  = "positions"
	Attention  = "attention"
	Robustness = "robustness"
)

// Model is one that is looked at.
type Model struct {
	Name  string // of its column
	Path  string // whatever finetune.Open opens
	Start bool   // as it was before training, of a run from scratch

	Import checkpoints.ImportOptions // what its files leave open: Grid, AssumeSquare, Heads
}

// Look is what is looked at. Zero numbers mean the defaults beside them.
type Look struct {
	Backend compute.Backend
	Models  []Model
	Figures []Figure
	Images  *data.Memory // labels that are not the model's classes leave out what asks for answers
	Mask    func(image int) []bool
	// Mask returns which pixels of an image of Images are the object, nil of one that shows none; itself nil where no one
	// knows.

	Shown int    // 4: pictures on the page
	Pairs int    // 8000: that the probe learns from; a quarter as many are measured
	Seed  uint64 // of noise, pairs, occlusion and shuffles
	Log   func(line string)

	reference reference
}

// reference is what the first model that could be asked has shown: others are paired with it.
type reference struct {
	images   int
	features [][]float64          // [layer][images·width] patch features of each block, mean over patches
	masks    map[string][]float64 // [image] by measure
}

// Row is one number.
type Row struct {
	Figure  string        `json:"figure"`
	Model   string        `json:"model"` // the column
	Seed    int64         `json:"seed"`  // of the training
	Images  string        `json:"images"`
	Measure string        `json:"measure"`
	At      string        `json:"at,omitempty"`     // a layer, a share, a size
	Detail  bool          `json:"detail,omitempty"` // left out of tables
	Value   report.Number `json:"value"`            // null where it is undefined
	Note    string        `json:"note,omitempty"`   // why there is no value, in a row without measure
	Commit  string        `json:"commit,omitempty"` // of the program that measured, see Write
}

// Found is what came of it.
type Found struct {
	Rows []Row
	Page report.Comparison
}

// NotHere is why a figure cannot be shown of a model.
type NotHere string

// Error says why.
func (n NotHere) Error() string { return string(n) }

// Run asks every model every question. What a model cannot answer is a note. An error is what should not happen: where
// it happened with some figures or models, the others are found all the same.
func (l *Look) Run(ctx context.Context) (*Found, error) {
	if len(l.Models) == 0 || len(l.Figures) == 0 {
		return nil, errors.New("figures: nothing to look at: want a model and a figure")
	}
	if l.Images == nil || l.Images.Len() == 0 {
		return nil, errors.New("figures: no images to look at models with")
	}
	l.Shown, l.Pairs = cmp.Or(l.Shown, 4), cmp.Or(l.Pairs, 8000)
	l.reference = reference{}
	var columns []string
	for _, m := range l.Models {
		if !slices.Contains(columns, m.Name) {
			columns = append(columns, m.Name)
		}
	}
	found := &Found{}
	sections := make([]section, len(l.Figures))
	for i := range sections {
		sections[i].columns = make([][]report.Figure, len(columns))
	}
	seen := map[string]bool{}
	var failed []error
	for _, m := range l.Models {
		s, err := l.open(m)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		s.first, s.column = !seen[m.Name], slices.Index(columns, m.Name)
		seen[m.Name] = true
		for i, f := range l.Figures {
			if err = ctx.Err(); err != nil {
				break
			}
			l.log(fmt.Sprintf("%s: %s", m.Name, f.Name))
			s.figure, s.section = f, &sections[i]
			if err := f.do(s); err != nil {
				note := err.Error()
				var notHere NotHere
				if !errors.As(err, &notHere) {
					failed = append(failed, fmt.Errorf("%s of %s: %w", f.Name, m.Path, err))
					note = "failed: " + note
				}
				s.rows = append(s.rows, Row{Figure: f.Name, Model: m.Name, Seed: s.model.Seed(), Images: l.Images.Name,
					Value: report.Number(undefined), Note: note})
			}
		}
		s.model.Finalize()
		if err != nil {
			return nil, err
		}
		found.Rows = append(found.Rows, s.rows...)
	}
	if len(found.Rows) == 0 {
		return nil, errors.Join(failed...)
	}
	for i, f := range l.Figures {
		part, err := sections[i].finish(f, found.Rows)
		if err != nil {
			return nil, err
		}
		found.Page.Sections = append(found.Page.Sections, part)
	}
	found.Page.Title = "What models know of places"
	found.Page.Lines = []string{fmt.Sprintf("%d images of %s", l.Images.Len(), l.Images.Name)}
	return found, errors.Join(failed...)
}

func (l *Look) log(line string) {
	if l.Log != nil {
		l.Log(line)
	}
}

func (l *Look) open(m Model) (*subject, error) {
	var opened *finetune.Model
	var err error
	if m.Start {
		opened, err = finetune.Open(l.Backend, m.Path, finetune.Weights(finetune.Start))
	} else {
		opened, err = finetune.Open(l.Backend, m.Path, finetune.Files(m.Import))
	}
	if err != nil {
		return nil, err
	}
	for _, line := range opened.Opened.Notes {
		l.log(m.Name + ": " + line)
	}
	c := opened.Recipe.Model
	return &subject{Look: l, Model: m, model: opened,
		grid: Grid{Rows: c.Rows(), Cols: c.Cols(), Prefix: c.Prefix()}}, nil
}

// subject is a model under the lens.
type subject struct {
	*Look
	Model
	model  *finetune.Model
	grid   Grid
	column int
	first  bool // of its column, whose pictures are shown
	rows   []Row

	figure  Figure
	section *section

	seen *seen // by attention, once asked for
}

// measured adds a number.
func (s *subject) measured(measure, at string, value float64) { s.add(measure, at, value, false) }

// detail adds a number that tables leave out.
func (s *subject) detail(measure, at string, value float64) { s.add(measure, at, value, true) }

func (s *subject) add(measure, at string, value float64, detail bool) {
	s.rows = append(s.rows, Row{Figure: s.figure.Name, Model: s.Name, Seed: s.model.Seed(), Images: s.Images.Name,
		Measure: measure, At: at, Detail: detail, Value: report.Number(value)})
}

// show adds a picture to the model's column.
func (s *subject) show(title, caption string, draw func(io.Writer) error) error {
	if !s.first {
		return nil
	}
	var content bytes.Buffer
	if err := draw(&content); err != nil {
		return err
	}
	s.section.columns[s.column] = append(s.section.columns[s.column], report.Figure{Title: s.Name + ": " + title,
		Caption: caption, PNG: content.Bytes()})
	return nil
}

// line adds a line to a plot that all models share.
func (s *subject) line(title, x, y string, l report.Line) {
	l.Name = s.Name
	for i := range s.section.plots {
		if p := &s.section.plots[i]; p.title == title {
			p.lines = append(p.lines, l)
			return
		}
	}
	s.section.plots = append(s.section.plots, shared{title, x, y, []report.Line{l}})
}

// section is what the page says of a figure.
type section struct {
	plots   []shared
	columns [][]report.Figure
}

type shared struct {
	title, x, y string
	lines       []report.Line
}

func (s section) finish(f Figure, rows []Row) (report.Section, error) {
	out := report.Section{Title: f.Title, Text: []string{f.About}, Table: Table(rows, f.Name)}
	if f.Claim != "" {
		out.Text = append(out.Text, "The paper: "+f.Claim)
	}
	for _, p := range s.plots {
		var content bytes.Buffer
		if err := report.Lines(&content, p.title, p.x, p.y, p.lines); err != nil {
			return out, err
		}
		out.Shared = append(out.Shared, report.Figure{Title: p.title, PNG: content.Bytes()})
	}
	for _, figures := range s.columns {
		if len(figures) > 0 {
			out.Columns = s.columns
		}
	}
	return out, nil
}
