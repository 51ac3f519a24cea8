// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/finetune/study"
	"github.com/wepe-go/wepe/internal/program"
)

// pictures are those of a task on this machine.
type pictures struct {
	task
	files map[string]*data.Files // by the name of the list; nil where there are none
	last  *data.Set              // what was read last for training: the trainings of a task come in a row
}

// find reads the lists of all tasks that have a folder on this machine, and says which have none. No picture is read,
// but what is wrong with a list is known before hours of training on another one.
func (o *options) find() error {
	found := false
	for i, p := range o.pictures {
		folder := filepath.Join(o.data, p.name)
		for _, name := range p.aliases {
			if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
				folder = filepath.Join(o.data, name)
			}
		}
		switch _, err := os.Stat(folder); {
		case errors.Is(err, fs.ErrNotExist):
			program.Line(fmt.Sprintf("%s: no data in %s, left out; its pictures come from %s", p.name,
				filepath.Join(o.data, p.name), p.source))
			continue
		case err != nil:
			return err
		}
		var err error
		if o.study.Tasks[i].Origin, err = p.read(folder, o.partial); err != nil {
			return err
		}
		o.study.Tasks[i].Images = p.training
		found = true
	}
	if !found && !o.plan {
		return fmt.Errorf("no task has data in %s: want folders like %s, see docs/vtab.md", o.data,
			filepath.Join(o.data, o.tasks[0].name))
	}
	return nil
}

// read reads the lists of a task, and what originFile says; partial accepts other lengths than VTAB-1k's, with a line.
func (p *pictures) read(folder string, partial bool) (origin string, err error) {
	p.files = map[string]*data.Files{}
	var other []string
	for _, part := range []struct {
		name   string
		length int
	}{{train800, trainImages}, {val200, valImages}, {train1000, trainImages + valImages}, {test, p.test}} {
		files, err := data.Lists(folder, part.name+".txt", p.classNames())
		if err != nil {
			return "", err
		}
		if files.Len() != part.length {
			if !partial {
				return "", fmt.Errorf("%s has %d pictures, VTAB-1k has %d: fetch it again, or take it as it is with "+
					"-allow-partial", filepath.Join(folder, part.name+".txt"), files.Len(), part.length)
			}
			other = append(other, fmt.Sprintf("%d of %d in %s", files.Len(), part.length, part.name))
		}
		files.Name = p.name + "-" + part.name // whatever the folder is called here
		p.files[part.name] = files
	}
	if len(other) > 0 {
		program.Line(fmt.Sprintf("%s: no VTAB-1k, pictures are %s", p.name, strings.Join(other, ", ")))
	}
	text, err := os.ReadFile(filepath.Join(folder, originFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if origin, _, _ = strings.Cut(string(text), "\n"); origin != "" {
		program.Line(fmt.Sprintf("%s: %.200s", p.name, origin))
	}
	return origin, nil
}

// classNames are the labels' numbers: the layout has no names.
func (t task) classNames() []string {
	names := make([]string, t.classes)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// training reads the pictures that a unit is trained on.
func (p *pictures) training(ctx context.Context, u study.Unit) (set, _ *data.Set, err error) {
	files, size := p.files[u.Part()], u.Recipe.Augment.Size
	if p.last == nil || p.last.Name != files.Name || size != [2]int{p.last.Height, p.last.Width} {
		p.last, err = load(ctx, files, size)
	}
	return p.last, nil, err
}

// measure evaluates a model on all pictures of a list, some at a time: all of the largest test list would take 32 GB at
// 384 pixels.
func (p *pictures) measure(ctx context.Context, u study.Unit, m *finetune.Model) (all report.Metrics, err error) {
	files := p.files[test]
	if u.Search {
		files = p.files[val200]
	}
	rows := make([]int, files.Len())
	for i := range rows {
		rows[i] = i
	}
	batch := m.Recipe.EvalBatchSize
	var loss, top1, top5 float64
	for chunk := range slices.Chunk(rows, max(1, 1024/batch)*batch) { // whole batches: one program for all but the last
		set, err := load(ctx, files.Subset(chunk), u.Recipe.Augment.Size)
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

// load reads pictures, squashed to a size as VTAB does it.
func load(ctx context.Context, files *data.Files, size [2]int) (*data.Set, error) {
	set, err := files.Load(ctx, preprocess.Settings{Fit: preprocess.FitExact, Size: size},
		func(line string) { program.Line(files.Name + ": " + line) })
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w while reading %s", finetune.ErrInterrupted, files.Name)
	}
	return set, err
}
