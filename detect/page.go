// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/report"
)

const (
	pageScenes = 8
	pageScore  = 0.5 // minimum of drawn detections
)

// Page writes finetune.PageFile for a finished run, which needs a Dir, from the results of Do: its metrics, and of each
// test the first scenes with ground truth and detections.
func (run Run) Page(d *Detector, rows []report.Result) error {
	page := report.Page{
		Title: fmt.Sprintf("%s with %s on %s, seed %d", d.Recipe.Name, d.Recipe.Detector.Backbone.Position, run.Dataset,
			run.Seed),
		Sections: []report.Section{{Title: "Average precision, %", Table: Table(rows)}},
	}
	for i, test := range run.Tests {
		section := report.Section{Title: "Test scenes at " + rows[i].ImageSize + " pixels", Text: []string{fmt.Sprintf(
			"Left: ground truth. Right: detections with a score of at least %g.", pageScore)}}
		for k := range min(pageScenes, test.Scenes.Len) {
			content, err := d.beside(test, k)
			if err != nil {
				return err
			}
			section.Figures = append(section.Figures, report.Figure{Title: fmt.Sprintf("scene %d", k+1), PNG: content})
		}
		page.Sections = append(page.Sections, section)
	}
	recorded, err := report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile))
	if err != nil {
		return err
	}
	curves, err := report.TrainingFigures(recorded.Evals)
	if err != nil {
		return err
	}
	page.Sections = append(page.Sections, report.Section{Title: "Training", Table: curve(recorded.Evals), Figures: curves})
	return disk.Write(filepath.Join(run.Dir, finetune.PageFile), page.HTML)
}

// beside draws a scene of a test with its ground truth, and beside it with the detections.
func (d *Detector) beside(test Test, index int) ([]byte, error) {
	scene, err := d.Recipe.Detector.needed(test.Scenes).At(index)
	if err != nil {
		return nil, err
	}
	rows, cols := test.canvas(d.Recipe.Detector)
	found, err := d.detect(rows, cols, scene.Image.RGBA())
	if err != nil {
		return nil, err
	}
	const gap = 8
	objects, categories := slices.Clone(scene.Objects), test.Scenes.Categories
	if ids, err := identifiers(d.Categories, test.Scenes); err == nil { // one colour on both sides
		for i, o := range objects {
			objects[i].Class = max(0, slices.Index(ids, categories[o.Class].ID))
		}
		categories = d.Categories
	}
	left := scenes.Show(scene.Image.RGBA(), objects, categories)
	shown := slices.DeleteFunc(found[0], func(o scenes.Object) bool { return o.Score < pageScore })
	right := scenes.Show(scene.Image.RGBA(), shown, d.Categories)
	both := image.NewRGBA(image.Rect(0, 0, 2*left.Rect.Dx()+gap, left.Rect.Dy()))
	draw.Draw(both, left.Rect, left, image.Point{}, draw.Src)
	draw.Draw(both, right.Rect.Add(image.Pt(left.Rect.Dx()+gap, 0)), right, image.Point{}, draw.Src)
	var content bytes.Buffer
	err = png.Encode(&content, both)
	return content.Bytes(), err
}

// shownStats are the metrics of tables.
var shownStats = []string{"AP", "AP50", "AP75", "APs", "APm", "APl"}

// Table has a row for each recipe, encoding and image size in the order in which they first appear: the means of box
// and mask AP over seeds, n of them, in percent.
func Table(rows []report.Result) report.Table {
	table := report.Table{Header: []string{"encoding", "size", "n"}, TextColumns: 2}
	for _, what := range []string{"box ", "mask "} {
		for _, name := range shownStats {
			table.Header = append(table.Header, what+name)
		}
	}
	type line struct{ recipe, encoding, size string }
	var lines []line
	boxes, masks := map[line][]map[string]report.JSONFloat{}, map[line][]map[string]report.JSONFloat{}
	for _, r := range rows {
		l := line{r.Recipe, r.Encoding, r.ImageSize}
		if boxes[l] == nil {
			lines = append(lines, l)
		}
		boxes[l], masks[l] = append(boxes[l], r.Boxes), append(masks[l], r.Masks)
	}
	for _, l := range lines {
		cells := []string{l.encoding, l.size, strconv.Itoa(len(boxes[l]))}
		for _, of := range [][]map[string]report.JSONFloat{boxes[l], masks[l]} {
			for _, name := range shownStats {
				cells = append(cells, report.Percent(1, name, of...))
			}
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

// curve returns the table of a run's evaluations.
func curve(evals []report.Eval) report.Table {
	table := report.Table{Header: []string{"step", "loss", "box AP %", "mask AP %"}}
	for i, e := range evals {
		if slices.ContainsFunc(evals[i+1:], func(later report.Eval) bool { return later.Step == e.Step }) {
			continue // a killed run's, evaluated again
		}
		table.Rows = append(table.Rows, []string{strconv.Itoa(e.Step), fmt.Sprintf("%.3f", float64(e.TrainLoss)),
			report.Percent(1, "AP", e.Boxes), report.Percent(1, "AP", e.Masks)})
	}
	return table
}
