// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
)

// benchmark is a list of tasks in groups, with published results.
type benchmark struct {
	Name       string      // for notes
	Tasks      []vtab.Task // tasks of a group are adjacent
	published  []column    // beside the results
	conditions string      // of the published columns, for a note
}

// column is a column of accuracies.
type column struct {
	Name string
	Top1 map[string]float64 // percent, by task; by group too if only a group's mean was published
}

// at is the accuracy of a task, NaN if there is none.
func (c column) at(task string) float64 {
	if top1, ok := c.Top1[task]; ok {
		return top1
	}
	return math.NaN()
}

// mean is the mean over tasks: NaN over none, or if a cell is missing in a group that is not complete.
func (c column) mean(tasks []vtab.Task, whole map[string]bool) float64 {
	sum := 0.0
	for _, t := range tasks {
		if printed, ok := c.Top1[t.Group]; ok && whole[t.Group] {
			sum += printed
		} else {
			sum += c.at(t.Name)
		}
	}
	return sum / float64(len(tasks))
}

// cell is the accuracies of the runs of one task with one encoding, in percent.
type cell struct {
	numeric.Summary
	encoding       string
	images, failed int
	origin         string // of the images, if the runs' settings have one
}

func cellOf(runs []report.Result, task, encoding string) cell {
	c := cell{encoding: encoding}
	var top1 []float64
	for _, r := range runs {
		switch {
		case r.Dataset != task || r.Encoding != encoding:
		case r.Failed != "":
			c.failed++
		case r.Test.Images == 0: // not run yet
		default:
			var settings struct{ Origin string }
			_ = json.Unmarshal(r.Settings, &settings) // a row may lack it
			top1, c.images, c.origin = append(top1, 100*float64(r.Test.Top1)), r.Test.Images, settings.Origin
		}
	}
	c.Summary = numeric.Summarize(top1)
	return c
}

// text shows the mean and, over several seeds, the range.
func (c cell) text() string {
	switch {
	case c.N == 0 && c.failed > 0:
		return "failed"
	case c.N < 2:
		return c.Format("%.2f")
	}
	return fmt.Sprintf("%s (%s)", c.Format("%.2f"), c.FormatRange("%.2f"))
}

// table returns a line for each task that has runs, with the mean and the range over seeds of every encoding and the
// published columns; after each group a line with its mean, and last the means over tasks and over groups. The Dataset
// of a run is its task; a run without test images is still pending. ± SE is the binomial standard error, in points, of
// the first result of a line: a difference of one seed below two of these is noise.
//
// Means are over the tasks that every encoding has finished with every seed, with their number: means over different
// tasks cannot be compared. Notes name missing runs, and runs on other images.
func (b benchmark) table(runs []report.Result, seeds int) report.Table {
	table, columns := report.Table{Header: []string{"task", "test images"}, TextColumns: 1}, []column(nil)
	for _, r := range runs {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.Name == r.Encoding }) {
			columns = append(columns, column{r.Encoding, map[string]float64{}})
		}
	}
	measured := len(columns)
	columns = append(columns, b.published...)
	for _, c := range columns {
		table.Header = append(table.Header, c.Name)
	}
	table.Header = slices.Insert(table.Header, 2+measured, "± SE")

	whole := map[string]bool{}
	addMean := func(name string, lists ...[]vtab.Task) { // of the means of all lists
		line := []string{name, ""}
		for _, c := range columns {
			sum := 0.0
			for _, list := range lists {
				sum += c.mean(list, whole)
			}
			line = append(line, decimals(sum/float64(len(lists))))
		}
		table.Rows = append(table.Rows, slices.Insert(line, 2+measured, ""))
	}
	var finished [][]vtab.Task
	for _, group := range b.groups() {
		var done []vtab.Task
		above := len(table.Rows)
		for _, t := range group {
			if !slices.ContainsFunc(runs, func(r report.Result) bool { return r.Dataset == t.Name }) {
				continue
			}
			var cells []cell
			for i, c := range columns[:measured] {
				cells = append(cells, cellOf(runs, t.Name, c.Name))
				c.Top1[t.Name] = cells[i].Mean
			}
			line, missing, notes := b.line(t, cells, seeds)
			if missing == nil {
				done = append(done, t)
			}
			table.Rows, table.Notes = append(table.Rows, line), append(table.Notes, notes...)
		}
		whole[group[0].Group] = len(done) == len(group)
		if len(table.Rows) > above {
			addMean(fmt.Sprintf("%s, %d of %d", group[0].Group, len(done), len(group)), done)
		}
		finished = append(finished, done)
	}
	all := slices.Concat(finished...)
	addMean(fmt.Sprintf("mean of %d of %d tasks", len(all), len(b.Tasks)), all)
	addMean(fmt.Sprintf("mean of the %d groups", len(finished)), finished...)
	first := fmt.Sprintf("top-1 in percent on the whole test list, %d seeds; means are over the %d of %d tasks that all "+
		"positions have finished", seeds, len(all), len(b.Tasks))
	table.Notes = slices.Concat([]string{first}, table.Notes, []string{b.conditions})
	return table
}

// groups are the tasks group by group.
func (b benchmark) groups() (groups [][]vtab.Task) {
	for i, t := range b.Tasks {
		if i == 0 || t.Group != b.Tasks[i-1].Group {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], t)
	}
	return groups
}

// line returns the row of a task, the reasons why it does not count, and notes about it.
func (b benchmark) line(t vtab.Task, cells []cell, seeds int) (line, missing, notes []string) {
	line = []string{t.Name, "–"}
	images, origin, deviation := t.Test, "", math.NaN()
	for _, c := range cells {
		line = append(line, c.text())
		if c.failed > 0 {
			missing = append(missing, fmt.Sprintf("%s: %d of %d diverged", c.encoding, c.failed, seeds))
		} else if c.N < seeds {
			missing = append(missing, fmt.Sprintf("%s: %d of %d to do", c.encoding, seeds-c.N, seeds))
		}
		if p := c.Mean / 100; c.N > 0 && math.IsNaN(deviation) {
			line[1], deviation = strconv.Itoa(c.images), 100*math.Sqrt(p*(1-p)/float64(c.images))
		}
		if c.images != 0 && images == t.Test {
			images = c.images
		}
		origin = cmp.Or(origin, c.origin)
	}
	line = append(line, decimals(deviation))
	for _, c := range b.published {
		line = append(line, decimals(c.at(t.Name)))
	}
	if missing != nil {
		notes = append(notes, fmt.Sprintf("%s is in no mean (%s)", t.Name, strings.Join(missing, ", ")))
	}
	if origin != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", t.Name, origin))
	}
	if images != t.Test {
		notes = append(notes, fmt.Sprintf("%s: measured on %d images, %s has %d", t.Name, images, b.Name, t.Test))
	}
	return line, missing, notes
}

// decimals formats a number with two decimals, NaN as a dash.
func decimals(v float64) string { return numeric.Summarize([]float64{v}).Format("%.2f") }

// vtabLearned is the ViT-L/16 (ImageNet-21k) of Dosovitskiy et al. 2021, Table 9; the WePE paper's APE row has the same
// numbers.
var vtabLearned = column{Name: "L/16 learned", Top1: map[string]float64{
	"caltech101": 90.8, "cifar": 84.1, "dtd": 74.1, "oxford_flowers102": 99.3, "oxford_iiit_pet": 92.7, "sun397": 61.0,
	"svhn": 80.9, "patch_camelyon": 82.5, "eurosat": 95.6, "resisc45": 85.2, "diabetic_retinopathy": 75.3,
	"clevr_count": 70.3, "clevr_dist": 56.1, "dmlab": 41.9, "dsprites_loc": 74.7, "dsprites_ori": 64.9, "kitti": 79.9,
	"smallnorb_azi": 30.5, "smallnorb_ele": 41.7,
}}

// vtabWePE is the WePE paper's own row: the cells that we have, and the means of the groups, computed from the paper's
// 19 cells. The mean that the paper prints beside them is neither the mean of these nor of any 18 of them.
var vtabWePE = column{Name: "L/16 WePE", Top1: map[string]float64{
	"oxford_flowers102": 98.79, "eurosat": 93.89, "dmlab": 54.24, "kitti": 81.25,
	"natural": 85.31, "specialized": 85.22, "structured": 61.20,
}}

// vtab1k is the benchmark of the 19 tasks of VTAB-1k with the published results.
var vtab1k = benchmark{
	Name: "VTAB-1k", Tasks: vtab.Tasks, published: []column{vtabLearned, vtabWePE},
	conditions: "published are ViT-L/16 of ImageNet-21k at 384 px: learned is Dosovitskiy et al. 2021, Table 9 (2500 " +
		"steps of 512), which the WePE paper quotes (mean 72.71, printed 72.70); WePE is that paper's row, whose mean is " +
		"75.14, not the 73.59 printed beside it",
}
