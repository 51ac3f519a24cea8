// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command vtab fine-tunes a pretrained vision transformer on the 19 tasks of VTAB-1k (Zhai et al. 2019,
// https://arxiv.org/abs/1910.04867) with the position encodings of your choice, and compares them with each other and
// with what is published.
//
//	go run ./examples/vtab -data DIR -from CHECKPOINT -seeds 3
//	go run ./examples/vtab -data DIR -from CHECKPOINT -sweep "learning_rate=0.003,0.01,0.03" -shard 2/8
//	go run ./examples/vtab -sweep … -merge dir1,dir2                       one table of all machines
//	go run ./examples/vtab -sweep … -plan                                  what there is to do
//
// A setting is chosen on val200 after training on train800; with the chosen one the model is trained on train800val200
// and tested once. The same command goes on where an interrupted one stopped, and does nothing twice. The layout of the
// data, the protocol and commands for Slurm and Kubernetes are in docs/vtab.md.
package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
)

func main() { program.Main("vtab", parse, options.saves, run) }

// saves says whether there is something to save when a signal comes.
func (o options) saves() bool { return !o.plan && o.write == "" && len(o.merge) == 0 }

// run finds the pictures, trains what is not trained yet, and compares.
func run(ctx context.Context, o options) error {
	s := &o.study
	switch {
	case o.write != "":
		return vtab.Write(ctx, o.data, o.write, program.Line)
	case len(o.merge) > 0:
		if err := study.Merge(s.Dir, o.merge); err != nil {
			return fmt.Errorf("-merge: %w", err)
		}
		return compare(s)
	}
	if o.data != "" {
		if err := o.find(); err != nil {
			return err
		}
	}
	if o.plan {
		table, err := s.Listing()
		program.Printf("%s", table.Text())
		return err
	}
	var err error
	if s.From, err = program.Fetch(ctx, s.From); err != nil {
		return err
	}
	if s.Backend, err = backend.Open(backend.Devices(s.Devices)); err != nil {
		return err
	}
	defer s.Backend.Finalize()
	if err := s.Run(ctx); err != nil {
		return err
	}
	return compare(s)
}

// find gives the tasks their pictures; those that have none on this machine are left out.
func (o *options) find() error {
	lists, err := vtab.Open(o.data, o.tasks, o.partial, program.Line)
	if err != nil {
		return err
	}
	if len(lists) == 0 && !o.plan {
		return fmt.Errorf("no task has data in %s: want folders like %s, see docs/vtab.md", o.data,
			filepath.Join(o.data, o.tasks[0].Name))
	}
	for i := range o.study.Tasks {
		t := &o.study.Tasks[i]
		if of := lists[t.Name]; of != nil {
			t.Origin = of.Origin
			t.FromFiles(of.Train, of.Test, program.Line)
		}
	}
	return nil
}

// compare prints the table of all that is done, by this machine and others, and leaves it as a file.
func compare(s *study.Study) error {
	table, err := s.Table()
	if err != nil {
		return err
	}
	program.Printf("\n%s\n", table.Text())
	path := filepath.Join(s.Dir, "table.md")
	if err := report.Picture(path, func(w io.Writer) error {
		_, err := io.WriteString(w, table.Markdown())
		return err
	}); err != nil {
		return err
	}
	program.Printf("as Markdown: %s\n", path)
	return nil
}
