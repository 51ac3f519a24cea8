// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/wepe-go/wepe/examples/internal/shard"
	"github.com/wepe-go/wepe/finetune/report"
)

// recordOf is the name of the file that a shard's rows go to. Shards on a common disk each have their own: appending to
// one file from several machines is not atomic on every network file system.
func recordOf(s shard.Shard) string {
	if s.Of == 1 {
		return "results.jsonl"
	}
	return fmt.Sprintf("results-%d-of-%d.jsonl", s.Index, s.Of)
}

// records matches what recordOf returns.
const records = "results*.jsonl"

// results are the rows of finished trainings, by unit. A row's validation metrics are those on val200, its test metrics
// those on the test list; each has one of the two.
type results map[string]report.Result

// readResults reads every record of the given directories: what this machine and others have finished. Of two rows of
// one unit the one that was finished first counts, whatever the order of the directories.
func readResults(dirs ...string) (done results, notes []string, err error) {
	done = results{}
	for _, dir := range dirs {
		names, err := fs.Glob(os.DirFS(dir), records)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", dir, err)
		}
		for _, name := range names {
			rows, err := report.ReadFiles(filepath.Join(dir, name))
			if err != nil {
				return nil, nil, err
			}
			notes = append(notes, rows.Skipped...)
			for _, row := range rows.Results {
				if old, ok := done[row.ID]; row.ID != "" && (!ok || row.Date < old.Date) {
					done[row.ID] = row
				}
			}
		}
	}
	return done, notes, nil
}

// origin is what a training started from, in the settings of its row beside the recipe.
type origin struct {
	From struct {
		SHA256 string `json:"sha256"`
	} `json:"from"`
	Data   string `json:"data"`             // fingerprint of the training images
	Origin string `json:"origin,omitempty"` // of the pictures, where it is not a copy of VTAB-1k
}

// addTo returns settings with what they do not say of the images. Of the checkpoint's path only the last element stays:
// records are published, and the directories of one machine help nobody else.
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
	fields["data"] = o.Data
	if o.Origin != "" {
		fields["origin"] = o.Origin
	}
	return json.Marshal(fields)
}

// agree refuses rows of this study that start from different checkpoints, or from different images of one task. Names
// cannot tell: paths differ between machines, and one may stand for two files. A unit u that has an id is about to
// start from now.
func (s *study) agree(done results, u unit, now origin) error {
	units, err := s.searches()
	if err != nil {
		return err
	}
	finals, err := s.finals(done)
	if err != nil {
		return err
	}
	for _, f := range finals {
		units = append(units, f.unit)
	}
	sum, images := s.sum, map[string]string{}
	if u.id != "" {
		images[u.images()] = now.Data
	}
	for _, u := range units {
		row, ok := done[u.id]
		var was origin
		if !ok || json.Unmarshal(row.Settings, &was) != nil {
			continue
		}
		if sum = cmp.Or(sum, was.From.SHA256); was.From.SHA256 != "" && was.From.SHA256 != sum {
			return fmt.Errorf("%s: %s started from a checkpoint with SHA-256 %.12s…, not %.12s…: use another -checkpoint "+
				"directory", s.checkpoint, u, was.From.SHA256, sum)
		}
		if other := cmp.Or(images[u.images()], was.Data); was.Data != other {
			return fmt.Errorf("%s: %s was trained on other images, fingerprint %.12s…, not %.12s…: use another -checkpoint "+
				"directory", s.checkpoint, u, was.Data, other)
		}
		images[u.images()] = cmp.Or(images[u.images()], was.Data)
	}
	return nil
}

// merge appends to the record in dir what the other directories have finished and it has not, in an order that does not
// depend on theirs.
func merge(dir string, others []string) error {
	own, _, err := readResults(dir)
	if err != nil {
		return err
	}
	for _, other := range others {
		if theirs, _, err := readResults(other); err != nil {
			return err
		} else if len(theirs) == 0 {
			return fmt.Errorf("-merge: %s holds no rows: want a -checkpoint directory of another machine", other)
		}
	}
	theirs, _, err := readResults(others...)
	if err != nil {
		return err
	}
	var rows []report.Result
	for id, row := range theirs {
		if _, ok := own[id]; !ok {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b report.Result) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.ID, b.ID))
	})
	for _, row := range rows {
		if err := report.Append(filepath.Join(dir, recordOf(shard.Shard{Of: 1})), row); err != nil {
			return err
		}
	}
	return nil
}
