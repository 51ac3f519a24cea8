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
	units, done, err := s.recorded()
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
		parts[u.part()]++
		table.Rows = append(table.Rows, []string{u.part(), u.Task.Name, u.named(" %s", " on %g"), strconv.Itoa(u.Seed),
			setting, Shard{u.shard, s.Shard.of()}.text(), state})
	}
	of := s.Tasks[0].Parts
	table.Notes = []string{fmt.Sprintf("%d training runs on %s, %d on %s; this is shard %s", parts[of[0]], of[0],
		parts[of[1]], of[1], s.Shard.text())}
	return table, nil
}

// Table compares the variants by their results on the test images, with a note on missing ones: with a record task by
// task, with the means of VTAB-1k; otherwise size by size and fraction by fraction. Rows of other settings than the
// study's are noted but not counted.
func (s *Study) Table() (report.Table, error) {
	if s.Tasks[0].recorded() {
		return s.recordTable()
	}
	units, found, err := s.found()
	if err != nil {
		return report.Table{}, err
	}
	var rows []report.Result
	own, missing := s.own(), 0
	for i, u := range units {
		kept := own.of(u, found[i].Results)
		rows = append(rows, kept...)
		if len(kept) == 0 {
			missing++
		}
	}
	other, err := s.multiResolutionRows(units)
	if err != nil {
		return report.Table{}, err
	}
	rows = append(rows, other...)
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
		table.Notes = append(table.Notes, fmt.Sprintf("%d of %d training runs are not done yet", missing, len(units)))
	}
	table.Notes = append(table.Notes, own.notes()...)
	return s.noteSources(table, rows), err
}

// noteSources notes what the rows of a table do not share: their weights, if these are not the study's, the backend and
// the commit that computed them. A directory has such rows from earlier commands.
func (s *Study) noteSources(table report.Table, rows []report.Result) report.Table {
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
		table.Notes = append(table.Notes, "results "+strings.Join(parts, ", "))
	}
	return table
}

// recordTable is the table of a study with a record: of the tasks of VTAB-1k.
func (s *Study) recordTable() (report.Table, error) {
	units, done, err := s.recorded()
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
	units, found, err := s.found()
	if err != nil {
		return nil, err
	}
	var names []string
	own, evals := s.own(), map[string][]report.Eval{}
	for i, u := range units {
		if results := found[i].Results; len(results) > 0 && len(own.of(u, results)) == 0 {
			continue
		}
		u.Label = ""
		if name := filepath.Join(u.Task.Name, u.fileName()); len(found[i].Evals) > 0 {
			if evals[name] == nil {
				names = append(names, name)
			}
			evals[name] = append(evals[name], found[i].Evals...)
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
	other, err := s.multiResolutionRows(units)
	if err != nil || len(other) == 0 {
		return images, err
	}
	err = leave("resolution", func(w io.Writer) error { return report.PlotSizes(w, other) })
	return images, err
}

// recorded lists the units of a study with a record, and the finished training runs.
func (s *Study) recorded() (units []Unit, done results, err error) {
	if done, err = s.results(); err == nil {
		units, err = s.units(done)
	}
	return units, done, err
}

// found lists the units of a study without a record, and the rows in their directories.
func (s *Study) found() (units []Unit, rows []report.Rows, err error) {
	if units, err = s.units(nil); err != nil {
		return nil, nil, err
	}
	rows = make([]report.Rows, len(units))
	for i, u := range units {
		rows[i], err = report.ReadFiles(filepath.Join(u.Dir, engine.RowsFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return units, rows, nil
}
