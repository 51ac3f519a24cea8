// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// Shown are detections with a score of at least least, to be drawn by scenes.Show, the best last and so on top.
func Shown(found []detect.Detection, least float64) (objects []scenes.Object) {
	for _, d := range slices.Backward(found) {
		if float64(d.Score) < least {
			continue
		}
		o := scenes.Object{Class: d.Class, Box: cocoBox(d.Box), Score: float64(d.Score)}
		if d.Mask != nil {
			o.Mask = coco.Encode(d.Mask.Pixels, d.Mask.Rows, d.Mask.Cols)
		}
		objects = append(objects, o)
	}
	return objects
}

const (
	pageScenes = 8
	pageScore  = 0.5 // of what is drawn on a page
)

// Page writes finetune.PageFile about a finished run, given what Do returned: its numbers, and of each test the first
// scenes with what there is and what was found.
func (run Run) Page(m *Model, rows []report.Result) error {
	page := report.Comparison{
		Title: fmt.Sprintf("%s with %s on %s, seed %d", m.Recipe.Name, m.Recipe.Detector.Backbone.Position, run.Dataset,
			run.Seed),
		Sections: []report.Section{{Title: "Average precision", Table: Table(rows)}},
	}
	for i, test := range run.Tests {
		section := report.Section{Title: "Scenes of " + rows[i].ImageSize + " pixels", Text: []string{fmt.Sprintf(
			"Left what there is, right what was found with a score of %g and more.", pageScore)}}
		for k := range min(pageScenes, test.Scenes.Len()) {
			content, err := m.beside(test, k)
			if err != nil {
				return err
			}
			section.Shared = append(section.Shared, report.Figure{Title: fmt.Sprintf("scene %d", k+1), PNG: content})
		}
		page.Sections = append(page.Sections, section)
	}
	recorded, err := report.ReadFiles(filepath.Join(run.Dir, finetune.RowsFile))
	if err != nil {
		return err
	}
	var curves bytes.Buffer
	if err := report.Precision(&curves, recorded.Evals); err != nil {
		return err
	}
	page.Sections = append(page.Sections, report.Section{Title: "Training", Table: curve(recorded.Evals),
		Shared: []report.Figure{{Title: "course of the training", PNG: curves.Bytes()}}})
	return report.Picture(filepath.Join(run.Dir, finetune.PageFile), page.HTML)
}

// beside draws a scene of a test with what there is, and beside it with what is found.
func (m *Model) beside(test Test, index int) ([]byte, error) {
	scene, err := test.Scenes.At(index)
	if err != nil {
		return nil, err
	}
	found, err := m.at(test, scene.Picture.Image())
	if err != nil {
		return nil, err
	}
	const gap = 8
	left := scene.Image(m.Categories)
	right := scenes.Show(scene.Picture.Image(), Shown(found[0], pageScore), m.Categories)
	both := image.NewRGBA(image.Rect(0, 0, 2*left.Rect.Dx()+gap, left.Rect.Dy()))
	draw.Draw(both, left.Rect, left, image.Point{}, draw.Src)
	draw.Draw(both, right.Rect.Add(image.Pt(left.Rect.Dx()+gap, 0)), right, image.Point{}, draw.Src)
	var content bytes.Buffer
	err = png.Encode(&content, both)
	return content.Bytes(), err
}

// shownStats are the numbers of tables.
var shownStats = []string{"AP", "AP50", "AP75", "APs", "APm", "APl"}

// Table makes a line for each recipe, encoding and size in the order in which they first appear: the mean of box and
// mask AP over seeds, n of them, in percent.
func Table(rows []report.Result) report.Table {
	table := report.Table{Header: []string{"encoding", "size", "n"}, Numeric: []bool{false, false, true}}
	for _, what := range []string{"box ", "mask "} {
		for _, name := range shownStats {
			table.Header, table.Numeric = append(table.Header, what+name), append(table.Numeric, true)
		}
	}
	type line struct{ recipe, encoding, size string }
	of := func(r report.Result) line { return line{r.Recipe, r.Encoding, r.ImageSize} }
	var lines []line
	for _, r := range rows {
		if !slices.Contains(lines, of(r)) {
			lines = append(lines, of(r))
		}
	}
	for _, l := range lines {
		sums, n := make([]float64, 2*len(shownStats)), 0
		for _, r := range rows {
			if of(r) != l {
				continue
			}
			n++
			for i, numbers := range []map[string]report.Number{r.Boxes, r.Masks} {
				for k, name := range shownStats {
					sums[i*len(shownStats)+k] += float64(numbers[name])
				}
			}
		}
		cells := []string{l.encoding, l.size, strconv.Itoa(n)}
		for _, sum := range sums {
			cells = append(cells, fmt.Sprintf("%.1f", 100*sum/float64(n)))
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

// curve are the evaluations of a run.
func curve(evals []report.Eval) report.Table {
	table := report.Table{Header: []string{"step", "loss", "box AP", "mask AP"}, Numeric: []bool{true, true, true, true}}
	for _, e := range evals {
		table.Rows = append(table.Rows, []string{strconv.Itoa(e.Step), fmt.Sprintf("%.3f", float64(e.TrainLoss)),
			fmt.Sprintf("%.1f", 100*float64(e.Boxes["AP"])), fmt.Sprintf("%.1f", 100*float64(e.Masks["AP"]))})
	}
	return table
}
