// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/report"
)

// results are the rows of finished units, by Unit.ID. In a record a row that was for choosing a setting has validation
// metrics, any other row has test metrics.
type results map[string]report.Result

// results reads the record of a study: the finished training runs of this machine and others. It is nil if there is
// none.
func (s *Study) results() (results, error) {
	if !s.recorded() {
		return nil, nil
	}
	done, notes, err := readRecords(s.Dir)
	for _, note := range notes {
		s.logger("record").Info(note)
	}
	return done, cmp.Or(err, s.agree(done, Unit{}, origin{}))
}

// recordOf is the name of the file for a shard's rows. Shards on a common disk have separate files: appending to one
// file from several machines is not atomic on every network file system.
func recordOf(s Shard) string {
	if s.of() == 1 {
		return "results.jsonl"
	}
	return fmt.Sprintf("results-%d-of-%d.jsonl", s.Index, s.Of)
}

// records matches the results of recordOf.
const records = "results*.jsonl"

// readRecords reads every record of the given directories. Of two rows of one unit the one that was finished first
// counts, in any order of the directories.
func readRecords(dirs ...string) (done results, notes []string, err error) {
	var paths []string
	for _, dir := range dirs {
		names, _ := fs.Glob(os.DirFS(dir), records) // fails only by a malformed pattern
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	rows, err := report.ReadFiles(paths...)
	if err != nil {
		return nil, nil, err
	}
	done = results{}
	for _, row := range rows.Results {
		if old, ok := done[row.ID]; row.ID != "" && (!ok || row.Date < old.Date) {
			done[row.ID] = row
		}
	}
	return done, rows.Skipped, nil
}

// Merge appends to the study's record the finished training runs of the other directories that it lacks, in an order
// that does not depend on theirs, and logs how many of them are not of this study. It writes nothing if they started
// from other weights or images.
func (s *Study) Merge(others []string) error {
	own, _, err := readRecords(s.Dir)
	if err != nil {
		return err
	}
	theirs, _, err := readRecords(others...)
	if err != nil {
		return err
	}
	for _, other := range others {
		if rows, _, _ := readRecords(other); len(rows) == 0 { // all of them can be read
			return fmt.Errorf("%s contains no rows: give the directory of a study on another machine", other)
		}
	}
	var rows []report.Result
	for id, row := range theirs {
		if _, ok := own[id]; !ok {
			rows = append(rows, row)
			own[id] = row
		}
	}
	if err := s.agree(own, Unit{}, origin{}); err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b report.Result) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.ID, b.ID))
	})
	units, err := s.units(own)
	if err != nil {
		return err
	}
	foreign := 0
	for _, row := range rows {
		if !slices.ContainsFunc(units, func(u Unit) bool { return u.id == row.ID }) {
			foreign++
		}
		if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{})), row); err != nil {
			return err
		}
	}
	if foreign > 0 {
		s.logger("merge").Warn(fmt.Sprintf("%d of %d new rows have other settings than this study: its table omits them",
			foreign, len(rows)))
	}
	return nil
}

// origin identifies the start of a training run, in the settings of its row beside the recipe.
type origin struct {
	From struct {
		SHA256 string `json:"sha256"`
	} `json:"from"`
	Data     string `json:"data"`               // fingerprint of the training images
	Measured string `json:"measured,omitempty"` // fingerprint of the images of the metrics, "" in older rows
	Origin   string `json:"origin,omitempty"`   // Task.Origin
}

// addTo returns settings with the origin of the images. Only the last element of the checkpoint's path is kept: records
// are published, and other directories mean nothing on another machine.
func (o origin) addTo(settings json.RawMessage) (json.RawMessage, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(settings, &fields); err != nil {
		return nil, err
	}
	if from, ok := fields["from"].(map[string]any); ok {
		if path, ok := from["path"].(string); ok {
			from["path"] = filepath.Base(path)
		}
	}
	if fields["from"] == nil && o.From.SHA256 != "" { // of a training that diverged
		fields["from"] = o.From
	}
	fields["data"] = o.Data
	if o.Measured != "" {
		fields["measured"] = o.Measured
	}
	if o.Origin != "" {
		fields["origin"] = o.Origin
	}
	return json.Marshal(fields)
}

// shared are the identities that rows share, by what they are of: the weights of a study, the training images of a
// task's part at one size, the images on which these are measured. Older rows lack some.
func (o origin) shared(u Unit, failed bool) map[string]engine.RunIdentity {
	images := fmt.Sprint(u.Task.Name, u.part, u.Fraction, u.Recipe.Augment.Size)
	of := map[string]engine.RunIdentity{images: {Data: o.Data}}
	if !failed || o.From.SHA256 != "" {
		of[""] = engine.RunIdentity{From: cmp.Or(o.From.SHA256, engine.Scratch)}
	}
	if o.Measured != "" {
		of[fmt.Sprint("measured", u.Task.Name, u.Search, u.Recipe.Augment.Size)] =
			engine.RunIdentity{Other: map[string]string{"measured": o.Measured}}
	}
	return of
}

// agree refuses rows of this study that started from different checkpoints, or were trained or measured on different
// images of one task. It compares digests, because paths differ between machines and a file may change. starting is the
// training that is about to start, or has just been measured, if it has an ID.
func (s *Study) agree(done results, starting Unit, now origin) error {
	units, err := s.units(done)
	if err != nil {
		return err
	}
	known := map[string]engine.RunIdentity{}
	if starting.id != "" {
		known = now.shared(starting, false)
	} else if s.sha256 != "" {
		known[""] = engine.RunIdentity{From: s.sha256}
	}
	for _, u := range units {
		row, ok := done[u.id]
		var was origin
		if !ok || json.Unmarshal(row.Settings, &was) != nil {
			continue
		}
		of := was.shared(u, row.Failed != "")
		for _, what := range slices.Sorted(maps.Keys(of)) {
			if _, ok := known[what]; !ok {
				known[what] = of[what]
			}
			if err := of[what].Same(known[what], s.Dir); err != nil {
				return fmt.Errorf("study: %s: %w", u, err)
			}
		}
	}
	return nil
}

// diverged is the row of a training without a result.
func diverged(run finetune.Run, why error) (row report.Result, err error) {
	row = report.Result{
		Job: report.Job{Recipe: run.Recipe.Name, Dataset: run.Train.Describe().Name, Fraction: run.Fraction,
			Encoding: run.Label, Seed: run.Seed},
		Backend: run.Backend.String(), Failed: why.Error(),
	}
	row.Stamp(time.Now())
	row.Settings, err = json.Marshal(run.Recipe)
	return row, err
}
