// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/examples/internal/pretrained"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// study is what the flags ask for, on this machine.
type study struct {
	options
	lists   map[string]*lists // of the tasks that have data here, by name
	sum     string            // SHA-256 of the checkpoint, once it is open
	backend compute.Backend
	set     *data.Set       // what was read last
	said    map[string]bool // lines that were printed
}

// waiting is how many trainings have to wait for other shards: nothing failed.
type waiting int

func (w waiting) Error() string {
	return fmt.Sprintf("trainings wait for settings that other shards still measure (%d of them): once they have, the "+
		"same command goes on", int(w))
}

// ExitCode is sysexits' "try again".
func (waiting) ExitCode() int { return 75 }

// fetch brings the pretrained checkpoint here, if it is on the hub, and opens it: before anything is trained it is
// known to be readable, and to be the one that recorded trainings started from.
func (s *study) fetch(ctx context.Context) (err error) {
	if s.from, err = pretrained.Fetch(ctx, s.from); err != nil {
		return err
	}
	source, err := finetune.OpenSource(s.from, checkpoints.ImportOptions{AssumeSquare: s.assumeSquare},
		s.tasks[0].classNames())
	if err != nil {
		return err
	}
	s.sum = source.SHA256
	return nil
}

// run does what is this shard's and not done yet, the choice of settings first. Rows of other shards in the same
// directory are read again before each training.
func (s *study) run(ctx context.Context) error {
	last := ""
	for {
		done, err := s.results()
		if err != nil {
			return err
		}
		next, waits, err := s.next(done)
		switch {
		case err != nil:
			return err
		case next == nil && waits > 0:
			return waiting(waits)
		case next == nil:
			return nil
		case next.id == last: // never train one thing for ever
			return fmt.Errorf("%s: its row is not in %s", next, filepath.Join(s.checkpoint, recordOf(s.shard)))
		}
		last = next.id
		if err := s.do(ctx, *next, done); err != nil {
			return fmt.Errorf("%s: %w", next, err)
		}
	}
}

// results reads what is done, and says which lines of the records are damaged.
func (s *study) results() (results, error) {
	done, notes, err := readResults(s.checkpoint)
	for _, note := range notes {
		s.say("vtab", note)
	}
	if err != nil {
		return nil, err
	}
	return done, s.agree(done, unit{}, origin{})
}

// next returns the first training of this shard that can be done now, nil if there is none, and how many of them wait
// for other shards.
func (s *study) next(done results) (next *unit, waits int, err error) {
	can := func(u unit) bool {
		_, finished := done[u.id]
		return u.shard == s.shard.Index && !finished && s.lists[u.task.name] != nil
	}
	searches, err := s.searches()
	if err != nil {
		return nil, 0, err
	}
	for _, u := range searches {
		if can(u) {
			return &u, 0, nil
		}
	}
	finals, err := s.finals(done)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range finals {
		switch {
		case !can(f.unit) || f.failed:
		case f.waits > 0:
			waits++
		default:
			return &f.unit, 0, nil
		}
	}
	return nil, waits, nil
}

// do trains and measures one unit and records it.
func (s *study) do(ctx context.Context, u unit, done results) error {
	set, err := s.trainingSet(ctx, u)
	if err != nil {
		return goesOn(err)
	}
	row := report.Result{Job: report.Job{ID: u.id, Recipe: u.recipe.Name, Dataset: set.Name, Fraction: 1,
		Encoding: u.position, Seed: int64(u.seed)}, Backend: s.backend.String()}
	if row.Settings, err = json.Marshal(u.recipe); err != nil {
		return err
	}
	origin := origin{Data: set.Fingerprint(), Origin: s.lists[u.task.name].origin}
	origin.From.SHA256 = s.sum
	if err := s.agree(done, u, origin); err != nil {
		return err
	}
	run := finetune.Run{
		Backend: s.backend, Recipe: u.recipe, Seed: int64(u.seed), Train: set, Dir: u.dir(s.checkpoint),
		From: s.from, Import: checkpoints.ImportOptions{AssumeSquare: s.assumeSquare},
		Progress: progress.New(u.String()), Log: func(line string) { s.say(u.String(), line) },
	}
	model, trained, err := run.Do(ctx)
	part, measured := val200, &trained.Validation
	if u.final {
		part, measured = test, &trained.Test
	}
	switch {
	case errors.Is(err, finetune.ErrDiverged): // a result like others: the setting is not for this task
		progress.Line(fmt.Sprintf("%s: %v", u, err))
		row.Failed = err.Error()
		row.Stamp(time.Now())
	case err != nil:
		return goesOn(err)
	default:
		defer model.Finalize()
		if *measured, err = s.measure(ctx, model, s.lists[u.task.name].files[part]); err != nil {
			return goesOn(err)
		}
		row = trained
		row.ID = u.id
	}
	if row.Settings, err = origin.addTo(row.Settings); err != nil {
		return err
	}
	if err := report.Append(filepath.Join(s.checkpoint, recordOf(s.shard)), row); err != nil {
		return err
	}
	if u.final && s.keep {
		return nil
	}
	// A model with its momentum takes gigabytes; the row has what the study needs of it.
	return errors.Join(os.RemoveAll(filepath.Join(run.Dir, "last")), os.RemoveAll(filepath.Join(run.Dir, "best")))
}

// goesOn adds to an interrupt what is to be known of it.
func goesOn(err error) error {
	if errors.Is(err, finetune.ErrInterrupted) {
		return fmt.Errorf("%w: all is saved, the same command goes on from there", err)
	}
	return err
}

// say prints what somebody says, each line once: where a model comes from is the same for hundreds of trainings.
func (s *study) say(who, line string) {
	if !s.said[line] {
		s.said[line] = true
		progress.Line(who + ": " + line)
	}
}

// measure evaluates a model on all pictures of a list.
func (s *study) measure(ctx context.Context, m *finetune.Model, files *data.Files) (all report.Metrics, err error) {
	batch := m.Recipe.EvalBatchSize
	chunk := max(1, 1024/batch) * batch // whole batches, so that one program serves all chunks but the last
	var loss, top1, top5 float64
	for set, err := range s.chunks(ctx, files, chunk, m.Recipe) {
		if err != nil {
			return all, err
		}
		part, err := m.Evaluate(set)
		if err != nil {
			return all, err
		}
		n := float64(part.Images)
		loss += float64(part.Loss) * n
		top1 += math.Round(float64(part.Top1) * n) // pictures
		top5 += math.Round(float64(part.Top5) * n)
		all.Images += part.Images
	}
	n := float64(all.Images)
	all.Loss, all.Top1, all.Top5 = report.Number(loss/n), report.Number(top1/n), report.Number(top5/n)
	return all, nil
}
