// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
)

// lists are the pictures of a task.
type lists struct {
	files  map[string]*data.Files // by the name of the list
	origin string                 // what originFile says
}

// find reads the lists of all tasks that have a folder on this machine, and says which have none. No picture is read,
// but what is wrong with a list is known before hours of training on another one.
func (s *study) find() error {
	s.lists = map[string]*lists{}
	for _, t := range s.tasks {
		folder, err := t.folder(s.data)
		switch {
		case err != nil:
			return err
		case folder == "":
			progress.Line(fmt.Sprintf("%s: no data in %s, left out; its pictures come from %s", t.name,
				filepath.Join(s.data, t.name), t.source))
			continue
		}
		if s.lists[t.name], err = t.read(folder, s.partial); err != nil {
			return err
		}
	}
	if len(s.lists) == 0 && !s.plan {
		return fmt.Errorf("no task has data in %s: want folders like %s, see docs/vtab.md", s.data,
			filepath.Join(s.data, s.tasks[0].name))
	}
	return nil
}

// folder returns where a task lies below dir, under whichever of its names; "" if nowhere.
func (t task) folder(dir string) (string, error) {
	for _, name := range append([]string{t.name}, t.aliases...) {
		folder := filepath.Join(dir, name)
		switch _, err := os.Stat(folder); {
		case err == nil:
			return folder, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}

// read reads the lists of a task; partial accepts other lengths than VTAB-1k's, with a line.
func (t task) read(folder string, partial bool) (*lists, error) {
	found := &lists{files: map[string]*data.Files{}}
	var other []string
	for _, part := range []struct {
		name   string
		length int
	}{{train800, trainImages}, {val200, valImages}, {train1000, trainImages + valImages}, {test, t.test}} {
		files, err := data.Lists(folder, part.name+".txt", t.classNames())
		if err != nil {
			return nil, err
		}
		if files.Len() != part.length {
			if !partial {
				return nil, fmt.Errorf("%s has %d pictures, VTAB-1k has %d: fetch it again, or take it as it is with "+
					"-allow-partial", filepath.Join(folder, part.name+".txt"), files.Len(), part.length)
			}
			other = append(other, fmt.Sprintf("%d of %d in %s", files.Len(), part.length, part.name))
		}
		files.Name = t.name + "-" + part.name // whatever the folder is called here
		found.files[part.name] = files
	}
	if len(other) > 0 {
		progress.Line(fmt.Sprintf("%s: no VTAB-1k, pictures are %s", t.name, strings.Join(other, ", ")))
	}
	origin, err := os.ReadFile(filepath.Join(folder, originFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if found.origin, _, _ = strings.Cut(string(origin), "\n"); found.origin != "" {
		progress.Line(fmt.Sprintf("%s: %.200s", t.name, found.origin))
	}
	return found, nil
}

// classNames are the labels' numbers: the layout has no names.
func (t task) classNames() []string {
	names := make([]string, t.classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// state says whether a training that is not done could be: "no data" where its task has none.
func (s *study) state(t task) string {
	if s.data != "" && s.lists[t.name] == nil {
		return "no data"
	}
	return "to do"
}

// trainingSet reads the pictures that a unit is trained on. Those that were read last are kept, since the trainings of
// a task come in a row.
func (s *study) trainingSet(ctx context.Context, u unit) (*data.Set, error) {
	files := s.lists[u.task.name].files[u.part()]
	size := u.recipe.Augment.Size
	if s.set != nil && s.set.Name == files.Name && size == [2]int{s.set.Height, s.set.Width} {
		return s.set, nil
	}
	set, err := s.load(ctx, files, u.recipe)
	s.set = set
	return set, err
}

// chunks reads a list some pictures at a time: all of the largest test list would take 32 GB at 384 pixels.
func (s *study) chunks(ctx context.Context, files *data.Files, size int, r finetune.Recipe,
) iter.Seq2[*data.Set, error] {
	rows := make([]int, files.Len())
	for i := range rows {
		rows[i] = i
	}
	return func(yield func(*data.Set, error) bool) {
		for chunk := range slices.Chunk(rows, size) {
			set, err := s.load(ctx, files.Subset(chunk), r)
			if !yield(set, err) || err != nil {
				return
			}
		}
	}
}

// load reads pictures, squashed to the size of the recipe as VTAB does it.
func (s *study) load(ctx context.Context, files *data.Files, r finetune.Recipe) (*data.Set, error) {
	set, err := files.Load(ctx, preprocess.Settings{Fit: preprocess.FitExact, Size: r.Augment.Size},
		data.LoadOptions{Log: func(line string) { progress.Line(files.Name + ": " + line) }})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w while reading %s", finetune.ErrInterrupted, files.Name)
	}
	return set, err
}
