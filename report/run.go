// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wepe-go/wepe/internal/printable"
)

// RunPage is the content of a page about one run. Only Result is required; empty fields are left out.
type RunPage struct {
	Result Result
	Evals  []Eval // of the run; evaluations of other jobs are skipped

	From     string            // name of the model that the run started from; empty for none
	Data     []string          // one line for each dataset
	Settings map[string]string // every field of the recipe, by name

	Split     string     // of Confusion and Mistakes: Test or Validation
	Confusion *Confusion // of the model at the end of the run
	Mistakes  []Figure   // images with a wrong prediction
	Figures   []Figure
	Notes     []string // what is missing on the page, and why
}

// pageLines is the number of lines of a list on the page.
const pageLines = 15

// HTML writes the page: recipe, accuracy before and after, curves, learned scalars, mistakes, and every setting.
func (r RunPage) HTML(w io.Writer) error {
	r.Evals = slices.DeleteFunc(slices.Clone(r.Evals), func(e Eval) bool { return e.Job != r.Result.Job })
	title, start := r.Result.Recipe+" on "+r.Result.Dataset, "from scratch"
	if r.From != "" {
		title, start = r.From+": "+title, "fine-tuned from "+r.From
	}
	page := Page{Title: title, Failed: r.Result.Failed, Lines: []string{fmt.Sprintf("position encoding %s, seed %d, %s",
		r.Result.Encoding, r.Result.Seed, start)}}
	add := func(content bool, s Section) {
		if content {
			page.Sections = append(page.Sections, s)
		}
	}
	for _, m := range []struct {
		split string
		Metrics
	}{{Test, r.Result.Test}, {Validation, r.Result.Validation}} {
		if m.Images > 0 {
			page.Lines = append(page.Lines, m.split+" "+m.Text())
		}
	}
	results := r.results()
	add(len(results.Rows) > 0, Section{Title: "Results", Table: results})
	add(true, Section{Title: "Run", Table: r.facts(), Text: r.Data, Code: r.Result.Command})
	training, err := TrainingFigures(r.Evals)
	if err != nil {
		return err
	}
	add(len(training) > 0, Section{Title: "Training", Figures: training, Text: []string{"Loss in nats per image, dashed " +
		"on the training images with the augmentation and label smoothing of the recipe. Scalars of the position encoding " +
		"are after softplus or another constraint."}})
	if r.Confusion != nil {
		matrix, err := NewFigure("confusion matrix", "Share of the images of each class, in its row, that were "+
			"predicted as each class, with the recall next to the name. Colours are of the square root, to show few errors.",
			r.Confusion.draw)
		if err != nil {
			return err
		}
		most := r.Confusion.mistakes(pageLines)
		if len(most.Rows) == 0 {
			most.Notes = []string{"No errors."}
		}
		add(true, Section{Title: "Errors on the " + r.Split + " split", Figures: []Figure{matrix}, Table: most})
		add(true, Section{Title: "Classes with the lowest F1", Table: r.Confusion.Worst(pageLines)})
	}
	add(len(r.Mistakes) > 0, Section{Title: "Misclassified images of highest confidence", Images: r.Mistakes})
	for _, f := range r.Figures {
		add(true, Section{Title: f.Title, Figures: []Figure{f}})
	}
	settings := Table{Header: []string{"setting", "value"}, TextColumns: 2}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		settings.Rows = append(settings.Rows, []string{name, r.Settings[name]})
	}
	add(len(settings.Rows) > 0, Section{Title: "Settings", Table: settings})
	add(len(r.Notes) > 0, Section{Title: "Notes", Text: r.Notes})
	return page.HTML(w)
}

// results compares the validation split before and after training, and adds the test split.
func (r RunPage) results() Table {
	table := Table{Header: []string{"split", "weights", "top-1 %", "top-5 %", "loss", "images"}, TextColumns: 2}
	add := func(split, when string, m Metrics) {
		if m.Images > 0 {
			loss := "–"
			if !math.IsNaN(float64(m.Loss)) {
				loss = strconv.FormatFloat(float64(m.Loss), 'f', 3, 64)
			}
			table.Rows = append(table.Rows, []string{split, when, percent(m.Top1, 2), percent(m.Top5, 2), loss,
				printable.Thousands(m.Images)})
		}
	}
	var before, best *Eval
	for _, c := range collect(r.Evals, Validation) {
		for i, e := range c.seeds[0] {
			switch {
			case e.Images == 0:
			case e.Step == 0:
				before = &c.seeds[0][i]
			case best == nil || e.Top1 > best.Top1 || e.Top1 == best.Top1 && e.Loss < best.Loss: // as engine's evaluate
				best = &c.seeds[0][i]
			}
		}
	}
	if before != nil {
		add(Validation, "before the first step", before.Metrics)
	}
	if best != nil && best.Step != r.Result.Steps && r.Result.Weights.Name != "best" {
		add(Validation, Weights{"best", best.Step}.String(), best.Metrics)
	}
	selected := "last"
	if r.Result.Weights.Name != "" {
		selected = r.Result.Weights.String()
	}
	add(Validation, selected, r.Result.Validation)
	add(Test, selected, r.Result.Test)
	table.dropTop5()
	return table
}

// facts describe the run.
func (r RunPage) facts() Table {
	s := r.Result
	share := ""
	if s.Fraction > 0 && s.Fraction < 1 {
		share = fmt.Sprintf("%.4g %%", 100*s.Fraction)
	}
	epochs := "epochs"
	if s.Epochs == 1 {
		epochs = "epoch"
	}
	spent := ""
	if seconds := float64(s.WallSeconds); seconds > 0 {
		spent = fmt.Sprintf("%v, %.3g images/s", time.Duration(seconds*float64(time.Second)).Round(time.Second/10),
			float64(s.ImagesPerSecond))
	}
	table := Table{Header: []string{"fact", "value"}, TextColumns: 2}
	for _, row := range [][]string{
		{"recipe", s.Recipe}, {"position encoding", s.Encoding}, {"seed", strconv.FormatInt(s.Seed, 10)},
		{"data", s.Dataset}, {"share of the training images", share}, {"image size", s.ImageSize},
		{"parameters", printable.Thousands(s.Parameters)},
		{"steps", fmt.Sprintf("%s (%.4g %s)", printable.Thousands(s.Steps), float64(s.Epochs), epochs)}, {"time", spent},
		{"backend", s.Backend}, {"cores", strconv.Itoa(s.Cores)}, {"ended", s.Date}, {"commit", s.Commit},
	} {
		if row[1] != "" && (row[1] != "0" || row[0] == "seed") {
			table.Rows = append(table.Rows, row)
		}
	}
	return table
}
