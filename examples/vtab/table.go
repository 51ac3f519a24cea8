// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/finetune/study"
)

// outcome is what the trainings of one task and position came to.
type outcome struct {
	values []float64 // top-1 in percent, by seed, of those that are done
	images int       // of the test list
	origin string    // of the pictures, where it is not a copy of VTAB-1k
	failed int       // trainings that diverged
}

// cell shows the mean and, over several seeds, the range.
func (o outcome) cell() string {
	switch {
	case len(o.values) == 0 && o.failed > 0:
		return "failed"
	case len(o.values) < 2:
		return percent(average(o.values))
	}
	return fmt.Sprintf("%s (%s … %s)", percent(average(o.values)), percent(slices.Min(o.values)),
		percent(slices.Max(o.values)))
}

// average is NaN over nothing.
func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func percent(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// score is a column of the table: the top-1 of a task in percent, NaN where there is no number.
type score func(task) float64

// The published columns.
var (
	learned score = func(t task) float64 { return t.learned }
	wepe    score = func(t task) float64 {
		if t.wepe == 0 {
			return math.NaN()
		}
		return t.wepe
	}
)

func (s score) mean(of []task) float64 {
	var values []float64
	for _, t := range of {
		values = append(values, s(t))
	}
	return average(values)
}

// groupMean is the mean of the means of the three groups.
func (s score) groupMean(of []task) float64 {
	var means []float64
	for _, g := range groups {
		means = append(means, s.mean(inGroup(of, g)))
	}
	return average(means)
}

func inGroup(of []task, group string) []task {
	return slices.DeleteFunc(slices.Clone(of), func(t task) bool { return t.group != group })
}

// outcomes are the results of the trainings that count, by task and position.
type outcomes map[[2]string]outcome

// outcomes collects them, and one row of them for what all have in common, nil while there is none.
func (o options) outcomes(done study.Results) (outcomes, *report.Result, error) {
	units, err := o.study.Units(done)
	if err != nil {
		return nil, nil, err
	}
	out, sample := outcomes{}, (*report.Result)(nil)
	for _, u := range units {
		at := [2]string{u.Task.Name, u.Label}
		of := out[at]
		row, ok := done[u.ID]
		switch {
		case u.Search:
		case u.Failed, ok && row.Failed != "":
			of.failed++
		case ok:
			of.values, of.images = append(of.values, 100*float64(row.Test.Top1)), row.Test.Images
			of.origin, sample = study.OriginOf(row), &row
		}
		out[at] = of
	}
	return out, sample, nil
}

// table renders the results beside the published ones. Means are over the tasks that every position has finished with
// every seed, and say how many these are: means over different tasks cannot be compared.
func (o options) table(done study.Results) (report.Table, error) {
	out, sample, err := o.outcomes(done)
	if err != nil {
		return report.Table{}, err
	}
	table := report.Table{Header: []string{"task", "test images"}}
	var measured []score
	for _, arm := range o.study.Arms {
		table.Header = append(table.Header, arm.Label)
		measured = append(measured, func(t task) float64 { return average(out[[2]string{t.name, arm.Label}].values) })
	}
	table.Header = append(table.Header, "± SE", "L/16 learned", "L/16 WePE")
	table.Numeric = append([]bool{false}, slices.Repeat([]bool{true}, len(table.Header)-1)...)
	complete := slices.DeleteFunc(slices.Clone(o.tasks), func(t task) bool {
		return slices.ContainsFunc(o.study.Arms, func(arm study.Arm) bool {
			return len(out[[2]string{t.name, arm.Label}].values) < o.study.Seeds
		})
	})
	addMean := func(name string, all, of []task, mean func(score, []task) float64, wepeOfAll float64) {
		line := []string{name, ""}
		for _, position := range measured {
			line = append(line, percent(mean(position, of)))
		}
		ofWePE := mean(wepe, of)
		if len(of) == len(all) {
			ofWePE = wepeOfAll
		}
		table.Rows = append(table.Rows, append(line, "", percent(mean(learned, of)), percent(ofWePE)))
	}
	for _, g := range groups {
		members := inGroup(o.tasks, g)
		for _, t := range members {
			table.Rows = append(table.Rows, o.line(t, out))
		}
		if len(members) > 0 {
			all, of := inGroup(tasks, g), inGroup(complete, g)
			addMean(fmt.Sprintf("%s, %d of %d", g, len(of), len(all)), all, of, score.mean, published.wepeGroups[g])
		}
	}
	addMean(fmt.Sprintf("mean of %d of %d tasks", len(complete), len(tasks)), tasks, complete, score.mean,
		published.wepe19)
	addMean("mean of the 3 groups", tasks, complete, score.groupMean, published.wepe3)
	table.Notes = o.notes(out, complete, sample)
	return table, nil
}

// line is the row of a task. SE is the binomial standard error, in points, of the first result in it: a difference of
// one seed below two of these is noise.
func (o options) line(t task, out outcomes) []string {
	line, deviation := []string{t.name, "–"}, math.NaN()
	for _, arm := range o.study.Arms {
		of := out[[2]string{t.name, arm.Label}]
		line = append(line, of.cell())
		if math.IsNaN(deviation) && len(of.values) > 0 {
			p := average(of.values) / 100
			line[1], deviation = strconv.Itoa(of.images), 100*math.Sqrt(p*(1-p)/float64(of.images))
		}
	}
	return append(line, percent(deviation), percent(learned(t)), percent(wepe(t)))
}

// notes say what the numbers are means of, and what keeps them from being compared.
func (o options) notes(out outcomes, complete []task, sample *report.Result) []string {
	notes := []string{fmt.Sprintf("top-1 in percent on the whole test list, %d seeds; means are over the %d of %d tasks "+
		"that all positions have finished", o.study.Seeds, len(complete), len(tasks))}
	for _, t := range o.tasks {
		var missing []string
		images, origin := t.test, ""
		for _, arm := range o.study.Arms {
			of, position := out[[2]string{t.name, arm.Label}], arm.Label
			if waits := o.study.Seeds - len(of.values) - of.failed; of.failed > 0 {
				missing = append(missing, fmt.Sprintf("%s: %d of %d diverged", position, of.failed, o.study.Seeds))
			} else if waits > 0 {
				missing = append(missing, fmt.Sprintf("%s: %d of %d to do", position, waits, o.study.Seeds))
			}
			images, origin = min(images, cmp.Or(of.images, images)), cmp.Or(origin, of.origin)
		}
		if len(missing) > 0 {
			notes = append(notes, fmt.Sprintf("%s is in no mean (%s)", t.name, strings.Join(missing, ", ")))
		}
		if origin != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", t.name, origin))
		}
		if images != t.test {
			notes = append(notes, fmt.Sprintf("%s: measured on %d pictures, VTAB-1k has %d", t.name, images, t.test))
		}
	}
	p := published
	notes = append(notes, fmt.Sprintf("published are ViT-L/16 of ImageNet-21k at 384 px: learned is Dosovitskiy et al. "+
		"2021, Table 9 (2500 steps of 512), which the WePE paper quotes (mean %.2f, printed %.2f); WePE is that paper's "+
		"row, whose mean is %.2f, not the %.2f printed beside it", p.learned19, p.learnedPrinted, p.wepe19, p.wepePrinted))
	if sample == nil {
		return append(notes, "nothing is measured here yet")
	}
	var r finetune.Recipe
	if err := json.Unmarshal(sample.Settings, &r); err == nil { // a row that says less shows less
		notes = append(notes, fmt.Sprintf("measured here: width %d, depth %d, patches of %d at %s px, %d steps of %d; "+
			"compare positions with each other, and with the published columns only as far as these agree", r.Model.Width,
			r.Model.Depth, r.Model.PatchSize, sample.ImageSize, sample.Steps, r.BatchSize))
	}
	return notes
}
