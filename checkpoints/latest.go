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

// listNames returns the checkpoint directories of dir, newest first, and the temporary ones after them.
func listNames(dir string) (whole, temporary []string, err error) {
	listed, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
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

// Latest returns the newest intact checkpoint of a run directory, nil if there is none, and the ones it skipped: newer
// checkpoints that are damaged, and directories that a killed process left half-written. It fails only if dir cannot be
// read; a directory that does not exist has no checkpoint.
//
// A caller that gets no checkpoint but skipped ones should report it rather than silently start over.
func Latest(dir string) (*Checkpoint, []error, error) {
	names, temporary, err := listNames(dir)
	if err != nil {
		return nil, nil, err
	}
	var skipped []error
	for _, path := range temporary {
		skipped = append(skipped, errors.Errorf("%s skipped: incomplete: the process that wrote it ended early", path))
	}
	for _, path := range names {
		c, err := Open(path)
		if err == nil {
			return c, skipped, nil
		}
		skipped = append(skipped, errors.WithMessagef(err, "%s skipped", path))
	}
	return nil, skipped, nil
}

// The subdirectories of a run in which training saves checkpoints; also values of Find's argument which.
const (
	BestDir = "best" // the weights with the highest accuracy on the validation split
	LastDir = "last" // the newest weights
	// Start is another value of which: the initial weights, which are not stored. Find returns the default checkpoint,
	// from whose seed they are drawn again.
	Start = "start"
)

// Find returns the checkpoint at a path, nil if there is none: the path itself, the newest complete checkpoint in a
// directory of them, or a checkpoint of a run. For a run, which is BestDir, LastDir or Start; empty is the
// best if there is one, otherwise the last. Damaged checkpoints are skipped as by [Latest]; it is an error if all are
// damaged, or if the run has no checkpoint in which.
func Find(path, which string) (*Checkpoint, []error, error) {
	switch which {
	case "", BestDir, LastDir:
	case Start:
		which = ""
	default:
		return nil, nil, errors.Errorf("checkpoints: weights %q: want %q, %q or %q", which, BestDir, LastDir, Start)
	}
	if !isDirectory(path) {
		return nil, nil, nil
	}
	if fileExists(filepath.Join(path, manifestName)) {
		c, err := Open(path)
		return c, nil, err
	}
	var skipped []error
	for _, kind := range kinds {
		if kind != "" && which != "" && kind != which {
			continue
		}
		dir := filepath.Join(path, kind)
		c, here, err := Latest(dir)
		skipped = append(skipped, here...)
		if c != nil || err != nil {
			return c, skipped, err
		}
		if whole, _, _ := listNames(dir); len(whole) > 0 && len(here) > 0 { // a first save that was killed leaves none
			return nil, skipped, errors.Errorf("checkpoints: no intact checkpoint in %s: %s", dir, here[0])
		}
	}
	if len(skipped) > 0 {
		return nil, skipped, errors.Errorf("checkpoints: no intact checkpoint in %s: %s", path, skipped[0])
	}
	if all, err := All(path); which != "" && err == nil && len(all) > 0 {
		return nil, nil, errors.Errorf("checkpoints: %s has no %q checkpoint, only %s", path, which, all[0])
	}
	return nil, nil, nil
}

// kinds are the subdirectories that Find tries, in order; "" is the path itself.
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

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
