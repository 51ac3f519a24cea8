// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/report"
)

// findSource opens what the run starts from, nil if it starts from scratch. A run that has begun knows its source: the
// file may be gone since, but not be another one.
func (run Run) findSource() (*Source, error) {
	if run.From == "" {
		return nil, nil
	}
	source, err := OpenSource(run.From, run.Import, run.Train.Classes) // nil with an error
	if begun := run.begunFrom(); begun != nil && (source == nil || source.SHA256 == begun.SHA256) {
		return begun, nil
	}
	return source, err
}

// begunFrom returns the source that the run directory's last checkpoint tells of, nil without one.
func (run Run) begunFrom() *Source {
	if run.Dir == "" {
		return nil
	}
	last, _, err := checkpoints.Latest(filepath.Join(run.Dir, lastDir))
	if err != nil || last == nil {
		return nil // resume says what is wrong
	}
	begun, err := stateOf(last)
	if err != nil {
		return nil
	}
	return begun.From
}

// resume takes over the newest whole checkpoint of the run directory. Without one, the run starts at its source.
func (t *trainer) resume() error {
	if t.Dir == "" {
		return t.start()
	}
	checkpoint, skipped, err := checkpoints.Latest(filepath.Join(t.Dir, lastDir))
	if err != nil {
		return err
	}
	for _, s := range skipped {
		t.Log(s.String())
	}
	if checkpoint == nil {
		return t.start()
	}
	s, err := stateOf(checkpoint)
	if err != nil {
		return err
	}
	if err := sameRun(s, t.state); err != nil {
		return fmt.Errorf("finetune: %s is of another run: %w: use another directory", checkpoint.Path, err)
	}
	if err := t.model.load(checkpoint); err != nil {
		return err
	}
	t.state, t.step, t.startStep = s, int(checkpoint.Step), int(checkpoint.Step)
	t.Log(fmt.Sprintf("resuming at step %d of %d", t.step, t.steps))
	return nil
}

// agree sees that all processes are about to make the same steps: their gradients would be of different weights
// otherwise.
func (t *trainer) agree(done bool) error {
	if t.Group.Size() == 1 {
		return nil
	}
	text, err := json.Marshal(t.state)
	if err != nil {
		return err
	}
	said := []float32{float32(t.step / 4096), float32(t.step % 4096), 0} // exact as float32
	if done {
		said[2] = 1
	}
	sum := sha256.Sum256(text)
	for i := 0; i < 16; i += 2 {
		said = append(said, float32(binary.BigEndian.Uint16(sum[i:])))
	}
	all, err := gather(t.Group, said...)
	if err != nil {
		return err
	}
	for rank, other := range all {
		switch {
		case !slices.Equal(other[:3], all[0][:3]):
			step := func(said []float32) int { return int(said[0])*4096 + int(said[1]) }
			return fmt.Errorf("finetune: process %d begins at step %d, process 0 at step %d: all must see the same run "+
				"directory", rank, step(other), step(all[0]))
		case !slices.Equal(other, all[0]):
			return fmt.Errorf("finetune: process %d has another run than process 0: all want the same flags, pictures and "+
				"pretrained model", rank)
		}
	}
	return nil
}

// start gives the model what it starts with besides drawn weights.
func (t *trainer) start() error {
	if t.source != nil {
		lines, err := t.source.load(t.model)
		if err != nil {
			return err
		}
		for _, line := range lines {
			t.Log(line)
		}
	}
	if t.Recipe.ZeroHead {
		return t.model.zeroHead()
	}
	return nil
}

// sameRun says what differs between the run of a checkpoint and the one that is asked for.
func sameRun(old, now state) error {
	if was, is := old.From.sum(), now.From.sum(); was != is {
		return fmt.Errorf("it started from weights of SHA-256 %.12s, this one from %.12s", cmp.Or(was, "none"),
			cmp.Or(is, "none"))
	}
	if err := Differ(old.Recipe, now.Recipe); err != nil {
		return err
	}
	switch {
	case old.Seed != now.Seed:
		return fmt.Errorf("its seed is %d, this one's %d", old.Seed, now.Seed)
	case old.Data != now.Data:
		return errors.New("its training images differ")
	}
	return nil
}

// recorded returns the row of a run that had ended before.
func (t *trainer) recorded() (row report.Result, done bool) {
	if t.step < t.steps {
		return row, false
	}
	rows, err := report.ReadFiles(filepath.Join(t.Dir, RowsFile))
	if err != nil {
		return row, false // finish writes it again
	}
	for _, r := range rows.Results {
		if r.Job == t.job && r.Steps == t.steps && r.Failed == "" {
			row, done = r, true
		}
	}
	return row, done
}
