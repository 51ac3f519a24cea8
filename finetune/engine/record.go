// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/report"
)

// evaluate evaluates the validation split, records the row and saves.
func (t *Trainer) evaluate() (report.Eval, error) {
	row, score, measured, err := t.Measure()
	if err != nil {
		return row, err
	}
	t.course.LossSum, t.course.LossSteps = 0, 0
	if err := errors.Join(t.Record(row), t.writeLog()); err != nil {
		return row, err
	}
	c := &t.course
	loss := float64(row.Loss)
	diverged := math.IsNaN(loss) || math.IsInf(loss, 0)
	if measured && !diverged && (score > c.Best || score == c.Best && loss < c.BestLoss) { // small splits tie often
		c.Best, c.BestLoss, c.BestStep = score, loss, t.step
		if err := t.save(checkpoints.BestDir); err != nil {
			return row, err
		}
	}
	return row, t.save(checkpoints.LastDir)
}

// Measure returns the row of an evaluation. Its training loss is NaN before the first step.
func (t *Trainer) Measure() (row report.Eval, score float64, measured bool, err error) {
	row = report.Eval{
		Job: t.Job, Step: t.step, Epoch: report.JSONFloat(float64(t.step) / float64(t.PerPass)), Split: report.Validation,
		TrainLoss:       report.JSONFloat(t.course.LossSum / float64(t.course.LossSteps)),
		LearningRate:    report.JSONFloat(float32(t.Optimizer.Schedule.At(t.step))),
		ImagesPerSecond: report.JSONFloat(t.course.imagesPerSecond(t.BatchSize)),
	}
	score, measured, err = t.Task.Evaluate(&row)
	return row, score, measured, err
}

// Result returns the row of a finished training, without metrics. settings are stored with it as JSON.
func (t *Trainer) Result(settings any) (report.Result, error) {
	encoded, err := json.Marshal(settings)
	return report.Result{
		Command: t.course.Command, Job: t.Job, Backend: t.Backend.String(), Parameters: t.parameters(), Steps: t.step,
		Epochs:          report.JSONFloat(float64(t.step) / float64(t.PerPass)),
		WallSeconds:     report.JSONFloat(t.course.Seconds + time.Since(t.started).Seconds()),
		ImagesPerSecond: report.JSONFloat(t.course.imagesPerSecond(t.BatchSize)), Settings: encoded,
	}, err
}

// writes reports whether this process writes files.
func (t *Trainer) writes() bool { return t.Dir != "" && t.Group.Rank() == 0 }

// describe writes the description of the run.
func (t *Trainer) describe() error {
	if !t.writes() || t.Description == nil {
		return nil
	}
	return disk.Write(filepath.Join(t.Dir, DescriptionFile), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(t.Description)
	})
}

// sweep removes the unfinished files of processes that were killed.
func (t *Trainer) sweep() error {
	left, err := fs.Glob(os.DirFS(t.Dir), "*.tmp-*")
	for _, name := range left {
		if info, statErr := os.Lstat(filepath.Join(t.Dir, name)); statErr == nil && info.Mode().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(t.Dir, name)))
		}
	}
	return err
}

// Record adds a row to the run's record.
func (t *Trainer) Record(row report.Row) error {
	if !t.writes() {
		return nil
	}
	return report.Append(filepath.Join(t.Dir, RowsFile), row)
}

// writeLog writes the evaluations so far as CSV and for TensorBoard, which follows a file that is rewritten in place.
func (t *Trainer) writeLog() error {
	if !t.writes() {
		return nil
	}
	rows, err := report.ReadFiles(filepath.Join(t.Dir, RowsFile))
	if err != nil {
		return err
	}
	steps := map[int]report.Eval{} // a resumed run may evaluate a step again
	for _, e := range rows.Evals {
		steps[e.Step] = e
	}
	var evals []report.Eval
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		evals = append(evals, steps[step])
	}
	var events bytes.Buffer
	if err := writeEvents(&events, evals); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.Dir, eventsFile), events.Bytes(), 0o644); err != nil {
		return err
	}
	return disk.Write(filepath.Join(t.Dir, LogFile), func(w io.Writer) error { return writeCSV(w, evals) })
}

// save writes a checkpoint of the state between two steps.
func (t *Trainer) save(kind string) error {
	if err := t.drain(); err != nil || !t.writes() { // every process of a group learns of a divergence at the same step
		return err
	}
	course := t.course
	course.Seconds += time.Since(t.started).Seconds()
	course.Backend = t.Backend.Name()
	row := report.Result{Command: course.Command}
	row.Stamp(time.Now())
	course.Command = row.Command
	saver := checkpoints.Saver{Dir: filepath.Join(t.Dir, kind), Omit: temporary}
	path, err := saver.Save(t.Store, int64(t.step), t.Task.State(course))
	if err != nil && path != "" { // the checkpoint is complete
		t.Logger.Warn("checkpoint saved", "path", path, "error", err)
		err = nil
	}
	t.saved = time.Now()
	return err
}

// resume restores the newest intact checkpoint of the run directory, of the best weights only if there is no other. If
// there is none, it starts the task.
func (t *Trainer) resume() error {
	if t.Dir == "" {
		return t.Task.Start()
	}
	checkpoint, skipped, err := checkpoints.Find(t.Dir, checkpoints.Resume)
	if err != nil {
		return err
	}
	for _, s := range skipped {
		t.Logger.Warn("checkpoint skipped", "error", s)
	}
	if checkpoint == nil {
		rows, err := report.ReadFiles(filepath.Join(t.Dir, RowsFile))
		if err == nil && len(rows.Evals) > 0 {
			if err := identityOf(rows.Evals[0].Job).Same(identityOf(t.Job), t.Dir); err != nil {
				return err
			}
		}
		if len(skipped) > 0 {
			t.Logger.Warn("no checkpoint is intact: starting at step 0")
		}
		return t.Task.Start()
	}
	now := t.Task.Identity()
	was, course, err := t.Task.Load(checkpoint)
	if err != nil {
		return err
	}
	if err := was.Same(now, checkpoint.Path); err != nil {
		return err
	}
	t.step, t.startStep = int(checkpoint.Step), int(checkpoint.Step)
	if course.BestStep > 0 && t.step < t.Steps && !t.Exhausted(t.step, course) {
		best, _, err := checkpoints.Find(t.Dir, checkpoints.BestDir)
		switch {
		case errors.As(err, new(syscall.Errno)): // later it may be readable
			return err
		case best == nil:
			t.Logger.Warn("the best weights are gone: the best from here on take their place", "step", course.BestStep)
			course.Best, course.BestLoss, course.BestStep = -1, 0, 0
		}
	}
	t.course = course
	t.Logger.Info("resuming", "step", t.step, "of", t.Steps)
	if was, is := t.course.Backend, t.Backend.Name(); was != "" && was != is {
		t.Logger.Warn("the run began on another backend, so its numbers will differ from those of a run on one", "before",
			was, "now", is)
	}
	return nil
}

// agree checks that all processes are at the same step: otherwise their gradients would belong to different weights.
func (t *Trainer) agree() error {
	if t.Group.Size() == 1 {
		return nil
	}
	// Not State, which has the damaged images that this process alone has read.
	state, err := json.Marshal([]any{t.Task.Identity(), t.course})
	if err != nil {
		return err
	}
	all, err := t.Group.Gather(binary.BigEndian.AppendUint64(state, uint64(t.step)))
	if err != nil {
		return err
	}
	steps := func(said []byte) uint64 { return binary.BigEndian.Uint64(said[len(said)-8:]) }
	for rank, other := range all {
		switch {
		case steps(other) != steps(all[0]):
			return fmt.Errorf("training: process %d begins at step %d, process 0 at step %d: all must see the same run "+
				"directory", rank, steps(other), steps(all[0]))
		case !bytes.Equal(other, all[0]):
			return fmt.Errorf("training: process %d has another run than process 0: all want the same flags, images and "+
				"pretrained model", rank)
		}
	}
	return nil
}
