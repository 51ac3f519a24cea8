// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Benchmark is a list of tasks in groups, with what others print of them.
type Benchmark struct {
	Name       string   // in notes
	Tasks      []Task   // those of a group together
	Published  []Column // beside the results
	Conditions string   // of the published columns, a note to go with them
}

// Task is one task of a benchmark.
type Task struct {
	Name, Group string
	Images      int // of its test list
}

// Column is a column of accuracies.
type Column struct {
	Name string
	Top1 map[string]float64 // percent, by task; by group too where others print a mean of cells that are not at hand
}

// at is the accuracy of a task, NaN where there is none.
func (c Column) at(task string) float64 {
	if top1, ok := c.Top1[task]; ok {
		return top1
	}
	return math.NaN()
}

// mean is over tasks: NaN over none, and where a cell is missing in a group that is not there as a whole.
func (c Column) mean(tasks []Task, whole map[string]bool) float64 {
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

// cell is what the runs of one task with one encoding came to, in percent.
type cell struct {
	summary
	images, failed int
	origin         string // of the pictures, where the runs' settings have one
}

// cells are those of all tasks and encodings.
func cells(runs []Result) map[[2]string]cell {
	all := map[[2]string]cell{}
	for _, group := range groups(runs, []string{"dataset", "encoding"}) {
		var c cell
		var top1 []float64
		var settings struct{ Origin string }
		for _, r := range group {
			if r.Failed != "" {
				c.failed++
				continue
			}
			_ = json.Unmarshal(r.Settings, &settings) // a row may say less
			top1, c.images, c.origin = append(top1, 100*float64(r.Test.Top1)), r.Test.Images, settings.Origin
		}
		c.summary = summarise(top1)
		all[[2]string{group[0].Dataset, group[0].Encoding}] = c
	}
	return all
}

// text shows the mean and, over several seeds, the range.
func (c cell) text() string {
	switch {
	case c.n == 0 && c.failed > 0:
		return "failed"
	case c.n < 2:
		return c.format("%.2f")
	}
	return fmt.Sprintf("%s (%s)", c.format("%.2f"), c.formatRange("%.2f"))
}

// Table makes a line for each of the tasks, the mean and the range over seeds of every encoding beside the published
// columns, below each group a line with its mean, and last the means over tasks and over groups. The Dataset of a run
// is its task.
//
// Means are over the tasks that every encoding has finished with every seed, and say how many these are: means over
// different tasks cannot be compared. Notes say what is missing, and what was measured on other images.
func (b Benchmark) Table(runs []Result, tasks, encodings []string, seeds int) Table {
	found := cells(runs)
	table := Table{Header: slices.Concat([]string{"task", "test images"}, encodings, []string{"± SE"})}
	var columns []Column
	for _, name := range encodings {
		c := Column{name, map[string]float64{}}
		for at, cell := range found {
			if at[1] == name {
				c.Top1[at[0]] = cell.mean
			}
		}
		columns = append(columns, c)
	}
	for _, c := range b.Published {
		table.Header, columns = append(table.Header, c.Name), append(columns, c)
	}
	table.Numeric = append([]bool{false}, slices.Repeat([]bool{true}, len(table.Header)-1)...)

	whole := map[string]bool{}
	addMean := func(name string, lists ...[]Task) { // of the means of all lists
		line := []string{name, ""}
		for _, c := range columns {
			sum := 0.0
			for _, list := range lists {
				sum += c.mean(list, whole)
			}
			line = append(line, decimals(sum/float64(len(lists))))
		}
		table.Rows = append(table.Rows, slices.Insert(line, 2+len(encodings), ""))
	}
	var finished [][]Task
	for _, group := range b.groups() {
		var done []Task
		above := len(table.Rows)
		for _, t := range group {
			if !slices.Contains(tasks, t.Name) {
				continue
			}
			var of []cell
			for _, name := range encodings {
				of = append(of, found[[2]string{t.Name, name}])
			}
			if !slices.ContainsFunc(of, func(c cell) bool { return c.n < seeds }) {
				done = append(done, t)
			}
			table.Rows = append(table.Rows, b.line(t, of))
			table.Notes = append(table.Notes, b.notes(t, of, encodings, seeds)...)
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
	table.Notes = slices.Concat([]string{first}, table.Notes, []string{b.Conditions})
	return table
}

// groups are the tasks group by group.
func (b Benchmark) groups() (groups [][]Task) {
	for i, t := range b.Tasks {
		if i == 0 || t.Group != b.Tasks[i-1].Group {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], t)
	}
	return groups
}

// line is the row of a task. SE is the binomial standard error, in points, of the first result in it: a difference of
// one seed below two of these is noise.
func (b Benchmark) line(t Task, of []cell) []string {
	line, images, deviation := []string{t.Name, "–"}, 0, math.NaN()
	for _, c := range of {
		line = append(line, c.text())
		if images == 0 && c.n > 0 {
			p := c.mean / 100
			images, deviation = c.images, 100*math.Sqrt(p*(1-p)/float64(c.images))
			line[1] = strconv.Itoa(images)
		}
	}
	line = append(line, decimals(deviation))
	for _, c := range b.Published {
		line = append(line, decimals(c.at(t.Name)))
	}
	return line
}

// notes say why a task is in no mean, and what keeps its numbers from being compared.
func (b Benchmark) notes(t Task, of []cell, encodings []string, seeds int) (notes []string) {
	var missing []string
	images, origin := t.Images, ""
	for i, c := range of {
		if waits := seeds - c.n; c.failed > 0 {
			missing = append(missing, fmt.Sprintf("%s: %d of %d diverged", encodings[i], c.failed, seeds))
		} else if waits > 0 {
			missing = append(missing, fmt.Sprintf("%s: %d of %d to do", encodings[i], waits, seeds))
		}
		images, origin = min(images, cmp.Or(c.images, images)), cmp.Or(origin, c.origin)
	}
	if missing != nil {
		notes = append(notes, fmt.Sprintf("%s is in no mean (%s)", t.Name, strings.Join(missing, ", ")))
	}
	if origin != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", t.Name, origin))
	}
	if images != t.Images {
		notes = append(notes, fmt.Sprintf("%s: measured on %d pictures, %s has %d", t.Name, images, b.Name, t.Images))
	}
	return notes
}

// decimals shows a number with two of them, a dash for NaN.
func decimals(v float64) string { return summarise([]float64{v}).format("%.2f") }
