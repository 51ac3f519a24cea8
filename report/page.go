// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Page is the page of one run. Only Result is required; empty fields are left out.
type Page struct {
	Result Result
	Evals  []Eval // of the run; evaluations of other jobs are skipped

	Start    string            // what the weights were before the first step; empty for "from scratch"
	Data     []string          // one line for each dataset
	Settings map[string]string // every field of the recipe, by name

	Split     string     // of Confusion and Mistakes: Test or Validation
	Confusion *Confusion // of the model at the end of the run
	Mistakes  []Mistake
	Figures   []Figure
	Notes     []string // what is missing on the page, and why
}

// Mistake is an image with a wrong prediction.
type Mistake struct {
	Image            []byte // PNG
	Class, Predicted string
	Probability      float64 // of the predicted class
}

// Comparison is a page on several models side by side.
type Comparison struct {
	Title    string
	Lines    []string // below the title
	Sections []Section
}

// Section is a part of a Comparison. A field without content is left out.
type Section struct {
	Title   string
	Text    []string
	Table   Table
	Images  []Figure   // small images, many in a row
	Shared  []Figure   // of all models together
	Columns [][]Figure // of each model
}

// pageLines is the number of lines of a list on the page.
const pageLines = 15

// tile is a number at the top of the page.
type tile struct{ Name, Before, After, Unit, Note string }

type fact struct{ Name, Value string }

// results compares the validation split before and after training, and adds the test split.
func (p Page) results() (tiles []tile, table Table) {
	table = Table{Header: []string{"split", "weights", "top-1 %", "top-5 %", "loss", "images"},
		Numeric: []bool{false, false, true, true, true, true}}
	add := func(split, when string, m Metrics) {
		if m.Images == 0 {
			return
		}
		loss := "–"
		if !math.IsNaN(float64(m.Loss)) {
			loss = strconv.FormatFloat(float64(m.Loss), 'f', 3, 64)
		}
		table.Rows = append(table.Rows, []string{split, when, percent(m.Top1, 2), percent(m.Top5, 2), loss,
			grouped(m.Images)})
	}
	chance := ""
	if p.Confusion != nil {
		n := len(p.Confusion.Classes)
		chance = fmt.Sprintf("%d classes: chance is %s %%", n, percent(Number(1/float64(n)), 1))
	}

	var before, best *Eval
	for _, c := range collect(p.Evals, Validation) {
		for i, e := range c.seeds[0] {
			switch {
			case e.Images == 0:
			case e.Step == 0:
				before = &c.seeds[0][i]
			case best == nil || e.Top1 > best.Top1:
				best = &c.seeds[0][i]
			}
		}
	}
	if before != nil {
		add(Validation, "before the first step", before.Metrics)
	}
	if best != nil && best.Step != p.Result.Steps && p.Result.Weights.Name != "best" {
		add(Validation, Weights{"best", best.Step}.String(), best.Metrics)
	}
	selected := "last"
	if p.Result.Weights.Name != "" {
		selected = p.Result.Weights.String()
	}
	add(Validation, selected, p.Result.Validation)
	add(Test, selected, p.Result.Test)

	if m := p.Result.Test; m.Images > 0 {
		tiles = append(tiles, tile{Name: "top-1 accuracy, test", After: percent(m.Top1, 2), Unit: "%", Note: chance})
	}
	if m := p.Result.Validation; m.Images > 0 {
		t := tile{Name: "top-1 accuracy, validation", After: percent(m.Top1, 2), Unit: "%"}
		if before != nil {
			t.Before = percent(before.Top1, 2)
			t.Note = fmt.Sprintf("%+.2f points in %s steps", 100*float64(m.Top1-before.Top1), grouped(p.Result.Steps))
		}
		tiles = append(tiles, t)
	}
	if seconds := float64(p.Result.WallSeconds); seconds > 0 {
		note := fmt.Sprintf("%s images/s on %s", rate(float64(p.Result.ImagesPerSecond)), p.Result.Backend)
		spent := time.Duration(seconds * float64(time.Second)).Round(time.Second / 10)
		tiles = append(tiles, tile{Name: "time", After: spent.String(), Note: note})
	}
	return tiles, table
}

// facts describe the run.
func (p Page) facts() []fact {
	r := p.Result
	all := []fact{
		{"recipe", r.Recipe}, {"position encoding", r.Encoding}, {"seed", strconv.FormatInt(r.Seed, 10)},
		{"data", r.Dataset}, {"share of the training images", ""}, {"image size", r.ImageSize},
		{"parameters", grouped(r.Parameters)},
		{"steps", fmt.Sprintf("%s (%.4g epochs)", grouped(r.Steps), float64(r.Epochs))},
		{"backend", r.Backend}, {"cores", strconv.Itoa(r.Cores)}, {"ended", r.Date}, {"commit", r.Commit},
	}
	if r.Fraction > 0 && r.Fraction < 1 {
		all[4].Value = fmt.Sprintf("%.4g %%", 100*r.Fraction)
	}
	return slices.DeleteFunc(all, func(f fact) bool { return f.Value == "" || f.Value == "0" && f.Name != "seed" })
}

// rate formats a number of images per second: 3,384 or 3.38.
func rate(perSecond float64) string {
	if perSecond >= 100 {
		return grouped(int(math.Round(perSecond)))
	}
	return strconv.FormatFloat(perSecond, 'g', 3, 64)
}

// grouped writes a number in groups of three digits, with commas.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
