// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"github.com/gofrs/flock"
	"github.com/pkg/errors"
)

// dirName is the name of a checkpoint directory: its step, and the number of the attempt at this step. A step is saved
// again when a run resumed from an older checkpoint; the earlier directory is never overwritten.
type dirName struct {
	step      int64
	attempt   int
	temporary bool // still being written, or left by a process that was killed
}

var dirPattern = regexp.MustCompile(`^step-(\d{8,18})(?:\.(\d{1,6}))?(\.tmp-\d+)?$`)

// String is the final name, without the mark of a temporary directory.
func (n dirName) String() string {
	if n.attempt == 0 {
		return fmt.Sprintf("step-%08d", n.step)
	}
	return fmt.Sprintf("step-%08d.%d", n.step, n.attempt)
}

// parseName parses the names that Save gives; ok is false for others.
func parseName(base string) (n dirName, ok bool) {
	match := dirPattern.FindStringSubmatch(base)
	if match == nil {
		return n, false
	}
	n.step, _ = strconv.ParseInt(match[1], 10, 64) // at most 18 digits: it fits
	n.attempt, _ = strconv.Atoi(match[2])
	n.temporary = match[3] != ""
	return n, n.String()+match[3] == base
}

// listNames returns the checkpoint directories of dir, newest first, and the temporary ones after them; none of a file.
func listNames(dir string) (whole, temporary []string, err error) {
	listed, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, errors.Wrap(err, "checkpoints")
	}
	var names []dirName
	for _, entry := range listed {
		switch n, ok := parseName(entry.Name()); {
		case ok && n.temporary:
			temporary = append(temporary, filepath.Join(dir, entry.Name()))
		case ok:
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b dirName) int {
		return cmp.Or(cmp.Compare(b.step, a.step), cmp.Compare(b.attempt, a.attempt))
	})
	for _, n := range names {
		whole = append(whole, filepath.Join(dir, n.String()))
	}
	return whole, temporary, nil
}

// latest returns the newest intact checkpoint of a directory, nil if there is none, why it skipped newer ones, and
// whether there are damaged ones only. A directory that does not exist has none. A file that cannot be read now, as
// without permission, is an error: later it may be intact. A run that is training can remove what was listed: then it
// is listed again.
func latest(dir, kind string) (c *Checkpoint, skipped []error, damaged bool, err error) {
	for again := 0; ; again++ {
		names, temporary, err := listNames(filepath.Join(dir, kind))
		if err != nil {
			return nil, nil, false, err
		}
		skipped = nil
		for _, path := range temporary {
			skipped = append(skipped, errors.Errorf("%s skipped: incomplete: being written, or its writer was killed", path))
		}
		gone := false
		for _, path := range names {
			c, err := openCheckpoint(path)
			if err == nil {
				return c, skipped, false, nil
			}
			var cause syscall.Errno
			if errors.As(err, &cause) && !slices.Contains(noCheckpoint, cause) {
				return nil, skipped, false, errors.WithMessagef(err, "%s: if it stays so, move it away: an older one is used", path)
			}
			gone = gone || cause == syscall.ENOENT
			skipped = append(skipped, errors.WithMessagef(err, "%s skipped", path))
		}
		if !gone || again == 2 {
			return nil, skipped, len(names) > 0, nil
		}
	}
}

// noCheckpoint are the errors of a directory that is no checkpoint.
var noCheckpoint = []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP}

// The weights of a run: BestDir and LastDir are subdirectories of its directory, Start and Resume further values of
// Find's argument which. engine.Trainer.evaluate writes the best. A run's own row, also in a study, is of Run.Weights
// (classification.chosen in package finetune); a command opens what --checkpoint names, by default BestDir, without any
// the last (run.Origin in cmd/wepe).
const (
	BestDir = "best"   // the weights with the highest accuracy on the validation split
	LastDir = "last"   // the newest weights
	Start   = "start"  // the initial weights, which are not stored: Find returns the checkpoint whose seed draws them
	Resume  = "resume" // those to continue training with
)

// Find returns the checkpoint at a path, nil if there is none: the path itself, the newest intact one in a directory of
// them, or one of a run. skipped are damaged newer ones, and directories that a killed process left half-written.
//
//	which        of a run
//	"", Start    the best, without any the last
//	BestDir      the best; an error if the run has only others (the commands' "best" is "", run.Origin)
//	LastDir      the last; an error if the run has only others
//	Resume       the last, without an intact one the best
//
// It is an error if all checkpoints are damaged. With Resume it is not: a run then starts over, and reports skipped.
func Find(path, which string) (c *Checkpoint, skipped []error, err error) {
	order := kinds
	switch which {
	case "", Start:
		which = ""
	case BestDir, LastDir:
		order = []string{which, ""}
	case Resume:
		order = []string{LastDir, BestDir}
	default:
		return nil, nil, errors.Errorf("checkpoints: weights %q: want %q, %q or %q", which, BestDir, LastDir, Start)
	}
	if info, _ := os.Stat(path); info == nil || !info.IsDir() {
		return nil, nil, nil
	}
	if fileExists(filepath.Join(path, manifestName)) {
		c, err := openCheckpoint(path)
		return c, nil, err
	}
	for _, kind := range order {
		c, here, damaged, err := latest(path, kind)
		skipped = append(skipped, here...)
		if c != nil || err != nil {
			return c, skipped, err
		}
		if damaged && which != Resume { // a first save that was killed leaves none
			err := errors.Errorf("checkpoints: no intact checkpoint in %s: %s", filepath.Join(path, kind), here[0])
			if kind == BestDir {
				err = errors.Errorf("%s: use the weights %q", err, LastDir)
			}
			return nil, skipped, err
		}
	}
	if which == Resume {
		return nil, skipped, nil
	}
	if len(skipped) > 0 {
		return nil, skipped, errors.Errorf("checkpoints: no intact checkpoint in %s: %s", path, skipped[0])
	}
	if all, err := All(path); which != "" && err == nil && len(all) > 0 {
		return nil, nil, errors.Errorf("checkpoints: %s has no %q checkpoint, only %s", path, which, all[0])
	}
	return nil, nil, nil
}

// kinds are the subdirectories that Find tries by default, in order; "" is the path itself.
var kinds = []string{BestDir, LastDir, ""}

// All lists the directories of all checkpoints, intact or not, that Find chooses from.
func All(path string) ([]string, error) {
	var all []string
	for _, kind := range kinds {
		whole, temporary, err := listNames(filepath.Join(path, kind))
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, whole, temporary)
	}
	return all, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lockName is the lock file of a run directory. Unlocking does not remove it: otherwise two processes could lock two
// files of the same name.
const lockName = ".lock"

// ErrInUse means that another process has locked a run directory.
var ErrInUse = errors.New("in use by another process")

// Lock locks the run directory, created when absent, until unlock is called or the process ends. It does not wait: a
// directory in use is an error.
func Lock(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Wrap(err, "checkpoints: run directory")
	}
	lock := flock.New(filepath.Join(dir, lockName))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, errors.Wrapf(err, "checkpoints: locking %s", dir)
	}
	if !locked {
		return nil, fmt.Errorf("checkpoints: run directory %s is %w: stop that one or choose another directory", dir,
			ErrInUse)
	}
	return lock.Unlock, nil
}
