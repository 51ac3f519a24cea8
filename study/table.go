// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/report"
)

// Listing returns a line for every training run of a study with a record: its setting, its shard, and whether it is
// finished.
func (s *Study) Listing() (report.Table, error) {
	table := report.Table{
		Header: []string{"training", "task", "position", "seed", "setting", "shard", "state"}, TextColumns: 7,
	}
	units, done, err := s.finished()
	if err != nil {
		return table, err
	}
	parts := map[string]int{}
	for _, u := range units {
		row, ok := done[u.id]
		state, setting := "to do", u.Setting
		switch {
		case ok && row.Failed != "":
			state = "failed"
		case ok:
			state = "done"
		case u.failed:
			state, setting = "no setting", "all diverged"
		case u.Task.Images == nil:
			state = "no data"
		}
		if u.waits > 0 {
			setting = "to be chosen"
		}
		parts[u.part]++
		table.Rows = append(table.Rows, []string{u.part, u.Task.Name, u.named(" %s", " on %g"), strconv.Itoa(u.Seed),
			setting, Shard{u.shard, s.Shard.of()}.text(), state})
	}
	of := s.Parts
	table.Notes = []string{fmt.Sprintf("%d training runs on %s, %d on %s; this is shard %s", parts[of[0]], of[0],
		parts[of[1]], of[1], s.Shard.text())}
	return table, nil
}

// Table compares the variants by their results on the test images, with a note on missing ones: with a record task by
// task, with the means of VTAB-1k; otherwise size by size and fraction by fraction. Rows of other settings than the
// study's are noted but not counted.
func (s *Study) Table() (report.Table, error) {
	if s.recorded() {
		return s.recordTable()
	}
	trained, notes, err := s.trained()
	if err != nil {
		return report.Table{}, err
	}
	var rows []report.Result
	missing := 0
	for _, run := range trained {
		rows = append(rows, run.Results...)
		if len(run.Results) == 0 {
			missing++
		}
	}
	rows = append(rows, otherSizesOf(trained)...)
	spec := s.Spec
	spec.Baseline, spec.GroupBy = s.baseline(), nil
	if len(s.Tasks) > 1 {
		spec.GroupBy = append(spec.GroupBy, "dataset")
	}
	if len(s.Tasks) > 1 || len(s.Sizes) > 1 || len(s.Aspects) > 1 || len(s.EvalSizes) > 0 {
		spec.GroupBy = append(spec.GroupBy, "recipe")
	}
	if len(s.Fractions) > 1 {
		spec.GroupBy = append(spec.GroupBy, "fraction")
	}
	spec.GroupBy = append(spec.GroupBy, "encoding")
	table, err := report.NewTable(rows, spec)
	if missing > 0 {
		table.Notes = append(table.Notes, fmt.Sprintf("%d of %d training runs are not done yet", missing, len(trained)))
	}
	table.Notes = slices.Concat(table.Notes, notes, s.sources(rows))
	return table, err
}

// sources are notes on what the rows of a table do not share: their weights, if these are not the study's, the backend
// and the commit that computed them. A directory has such rows from earlier commands.
func (s *Study) sources(rows []report.Result) (notes []string) {
	rows = latest(rows)
	for _, c := range []struct {
		each, own string
		name      func(report.Result) string
	}{
		{"of the %s weights", cmp.Or(s.Weights, checkpoints.BestDir), func(r report.Result) string { return r.Weights.Name }},
		{"on %s", "", func(r report.Result) string { return r.Backend }},
		{"of commit %.12s", "", func(r report.Result) string { return r.Commit }},
	} {
		counts := map[string]int{}
		for _, r := range rows {
			counts[c.name(r)]++
		}
		delete(counts, "") // unknown
		if len(counts) == 0 || len(counts) == 1 && (c.own == "" || counts[c.own] > 0) {
			continue
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprintf("%d "+c.each, counts[name], name))
		}
		notes = append(notes, "results "+strings.Join(parts, ", "))
	}
	return notes
}

// recordTable is the table of a study with a record: of the tasks of VTAB-1k.
func (s *Study) recordTable() (report.Table, error) {
	units, done, err := s.finished()
	if err != nil {
		return report.Table{}, err
	}
	var rows []report.Result
	measured := map[string]int{}
	for _, u := range units {
		if u.Search {
			continue
		}
		row := done[u.id]
		row.Dataset, row.Encoding = u.Task.Name, u.named(" %s", " on %g")
		if u.failed {
			row.Failed = "every setting diverged"
		}
		rows = append(rows, row)
		var r finetune.Recipe
		if row.Failed == "" && json.Unmarshal(row.Settings, &r) == nil {
			measured[fmt.Sprintf("width %d, depth %d, patches of %d at %s px, %d steps of %d", r.Model.Width, r.Model.Depth,
				r.Model.PatchSize, row.ImageSize, row.Steps, r.BatchSize)]++
		}
	}
	table := vtab1k.table(rows, s.Seeds)
	note := "nothing is measured here yet"
	if settings := slices.Sorted(maps.Keys(measured)); len(settings) > 0 {
		if len(settings) > 1 {
			for i, one := range settings {
				settings[i] = fmt.Sprintf("%s in %d rows", one, measured[one])
			}
		}
		note = "measured here: " + strings.Join(settings, ", ") + "; compare positions with each other, and with the " +
			"published columns only as far as these agree"
	}
	table.Notes = append(table.Notes, note)
	return table, nil
}

// baseline is the label of the variant with which the others are compared, "" if there are none.
func (s *Study) baseline() string {
	if len(s.Variants) < 2 {
		return ""
	}
	label := cmp.Or(s.Spec.Baseline, "learned")
	if slices.ContainsFunc(s.Variants, func(a Variant) bool { return a.Label == label }) {
		return label
	}
	return s.Variants[len(s.Variants)-1].Label
}

// Curves draws loss, accuracy and learned scalars of the runs that share a size and a fraction, and returns the paths
// of the images.
func (s *Study) Curves() (images []string, err error) {
	trained, _, err := s.trained()
	if err != nil {
		return nil, err
	}
	var names []string
	evals := map[string][]report.Eval{}
	for _, run := range trained {
		run.Label = ""
		if name := filepath.Join(run.Task.Name, run.fileName()); len(run.Evals) > 0 {
			if evals[name] == nil {
				names = append(names, name)
			}
			evals[name] = append(evals[name], run.Evals...)
		}
	}
	leave := func(name string, draw func(io.Writer) error) error {
		path := filepath.Join(s.Dir, name+".png")
		images = append(images, path)
		return disk.Write(path, draw)
	}
	for _, name := range names {
		dir, suffix := filepath.Split(name)
		err := leave(dir+"curves"+suffix, func(w io.Writer) error {
			return report.PlotCurves(w, evals[name][0].Recipe, evals[name])
		})
		scalars := slices.ContainsFunc(evals[name], func(e report.Eval) bool { return e.Scalars != nil })
		if err == nil && scalars {
			err = leave(dir+"scalars"+suffix, func(w io.Writer) error { return report.PlotScalars(w, evals[name]) })
		}
		if err != nil {
			return nil, err
		}
	}
	other := otherSizesOf(trained)
	if len(other) == 0 {
		return images, nil
	}
	err = leave("resolution", func(w io.Writer) error { return report.PlotSizes(w, other) })
	return images, err
}

// finished lists the units of a study with a record, and the finished training runs.
func (s *Study) finished() (units []Unit, done results, err error) {
	if done, err = s.results(); err == nil {
		units, err = s.units(done)
	}
	return units, done, err
}

// trained is a unit of a study without a record, with the rows in its directory. A directory has rows of earlier
// commands, which may have had other settings or another model: a table of both would compare settings, not encodings.
type trained struct {
	Unit
	report.Rows
	other []report.Result // at other sizes
}

// trained reads the rows of all units. Notes count the rows of other settings.
func (s *Study) trained() (all []trained, notes []string, err error) {
	units, err := s.units(nil)
	if err != nil {
		return nil, nil, err
	}
	from := engine.Scratch
	if s.From != "" {
		from, _ = checkpoints.Sum(s.From) // "", which is not compared, if they are gone
	}
	others := map[string]int{}
	for _, u := range units {
		rows, foreign, err := u.rows(engine.RowsFile, from)
		other := report.Rows{}
		if err == nil && len(s.EvalSizes) > 0 {
			other, _, err = u.rows(multiResolutionFile, from)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, r := range foreign {
			others[differs(u, from, r).Error()]++
		}
		if len(rows.Results) == 0 && len(foreign) > 0 {
			rows.Evals = nil
		}
		all = append(all, trained{u, rows, latest(other.Results)})
		if len(s.Tasks) == 1 {
			continue
		}
		for _, results := range [][]report.Result{rows.Results, all[len(all)-1].other} {
			for i := range results {
				results[i].Dataset = u.Task.Name // two tasks may have one dataset
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(others)) {
		notes = append(notes, fmt.Sprintf("not counted because of other settings, rows: %d: %s", others[why], why))
	}
	return all, notes, nil
}

// rows reads a file in the directory of a unit, without the foreign results, of other settings or weights of the start.
func (u Unit) rows(file, from string) (rows report.Rows, foreign []report.Result, err error) {
	rows, err = report.ReadFiles(filepath.Join(u.Dir, file))
	if errors.Is(err, fs.ErrNotExist) { // not trained yet
		return rows, nil, nil
	}
	rows.Results = slices.DeleteFunc(rows.Results, func(r report.Result) bool {
		if differs(u, from, r) == nil {
			return false
		}
		foreign = append(foreign, r)
		return true
	})
	return rows, latest(foreign), err
}

// differs returns how a row differs from a unit of a study that starts from these weights, see engine.RunIdentity.
func differs(u Unit, from string, row report.Result) error {
	var was origin
	if len(row.Settings) == 0 {
		return nil
	}
	if err := json.Unmarshal(row.Settings, &was); err != nil {
		return err
	}
	start := engine.RunIdentity{From: cmp.Or(was.From.SHA256, engine.Scratch)}
	return cmp.Or(start.Same(engine.RunIdentity{From: from}, "it"), u.Recipe.Diff(row.Settings))
}

// otherSizesOf are the rows at other sizes, size by size.
func otherSizesOf(runs []trained) (rows []report.Result) {
	var sizes []string
	for _, run := range runs {
		rows = append(rows, run.other...)
	}
	for _, r := range rows {
		sizes = append(sizes, r.ImageSize)
	}
	slices.SortStableFunc(rows, func(a, b report.Result) int {
		return cmp.Compare(slices.Index(sizes, a.ImageSize), slices.Index(sizes, b.ImageSize))
	})
	return rows
}
