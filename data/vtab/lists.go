// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vtab

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/disk"
)

// The splits of a task: files with a list, and its length. The length of the test list depends on the task.
const (
	train800    = "train800"
	val200      = "val200"
	train1000   = "train800val200"
	test        = "test"
	trainImages = 800
	valImages   = 200
)

// originFile is a file in a task's folder with one line about the origin of its images, if they are not a copy of
// VTAB-1k. Rows and tables repeat it.
const originFile = "ORIGIN"

// Lists are the images of a task, not yet read. The first of each pair is for hyperparameter search.
type Lists struct {
	Train  [2]*data.Files // train800, train800val200
	Test   [2]*data.Files // val200, test
	Origin string         // "" for a copy of VTAB-1k
}

// Open reads the lists of the tasks that have a folder in dir, by name or alias, and logs the others. A list whose
// length differs from VTAB-1k's is an error, or with partial a warning.
func Open(dir string, tasks []Task, partial bool, logger *slog.Logger) (map[string]*Lists, error) {
	found := map[string]*Lists{}
	for _, t := range tasks {
		folder := filepath.Join(dir, t.Name)
		for _, name := range t.Aliases {
			if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
				folder = filepath.Join(dir, name)
			}
		}
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			logger.Warn("task skipped: no data", "task", t.Name, "directory", filepath.Join(dir, t.Name), "source", t.Source)
			continue
		}
		lists, err := t.open(folder, partial, logger.With("task", t.Name))
		if err != nil {
			return nil, err
		}
		found[t.Name] = lists
	}
	return found, nil
}

// open reads the lists of a task, and the line of originFile.
func (t Task) open(folder string, partial bool, logger *slog.Logger) (*Lists, error) {
	classes := make([]string, t.Classes) // the layout has no class names
	for i := range classes {
		classes[i] = strconv.Itoa(i)
	}
	lists, other := &Lists{}, []string(nil)
	for _, part := range []struct {
		name   string
		length int
		to     **data.Files
	}{
		{train800, trainImages, &lists.Train[0]}, {val200, valImages, &lists.Test[0]},
		{train1000, trainImages + valImages, &lists.Train[1]}, {test, t.Test, &lists.Test[1]},
	} {
		files, err := data.Lists(folder, part.name+".txt", classes)
		if err != nil {
			return nil, err
		}
		if files.Len() != part.length {
			if !partial {
				return nil, fmt.Errorf("%s has %d images, VTAB-1k has %d: download it again, or "+
					"use examples/vtab with -allow-partial", filepath.Join(folder, part.name+".txt"), files.Len(), part.length)
			}
			other = append(other, fmt.Sprintf("%d of %d in %s", files.Len(), part.length, part.name))
		}
		files.Name = t.Name + "-" + part.name // independent of the folder's name
		*part.to = files
	}
	if other != nil {
		logger.Warn("this is not VTAB-1k: the lists have other lengths", "images", strings.Join(other, ", "))
	}
	text, err := disk.ReadFile(filepath.Join(folder, originFile), 1<<16)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lists.Origin, _, _ = strings.Cut(string(text), "\n")
	if other != nil {
		lists.Origin = strings.TrimPrefix(lists.Origin+"; "+strings.Join(other, ", "), "; ")
	}
	if lists.Origin != "" {
		logger.Info("origin of the images", "origin", fmt.Sprintf("%.200s", lists.Origin))
	}
	return lists, nil
}
