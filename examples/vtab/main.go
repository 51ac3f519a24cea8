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

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/finetune/study"
	"github.com/wepe-go/wepe/internal/program"
)

func main() { program.Main("vtab", parse, options.saves, run) }

// saves says whether there is something to save when a signal comes.
func (o options) saves() bool { return !o.plan && o.write == "" && len(o.merge) == 0 }

func run(ctx context.Context, o options) error {
	s := &o.study
	switch {
	case o.write != "":
		sizes := [3]int{trainImages, valImages, trainImages + valImages}
		if o.write != shapesOrigin {
			sizes[2] = 73_728 // a tenth of dSprites
		}
		return write(ctx, o.data, o.write, sizes)
	case len(o.merge) > 0:
		if err := study.Merge(s.Dir, o.merge); err != nil {
			return fmt.Errorf("-merge: %w", err)
		}
		return o.report()
	}
	if o.data != "" {
		if err := o.find(); err != nil {
			return err
		}
	}
	if o.plan {
		done, err := s.Results()
		if err != nil {
			return err
		}
		table, err := s.Listing(done)
		fmt.Print(table.Text())
		return err
	}
	if err := o.fetch(ctx); err != nil {
		return err
	}
	var err error
	if s.Backend, err = program.OpenBackend(); err != nil {
		return err
	}
	defer s.Backend.Finalize()
	if err := s.Run(ctx); err != nil {
		return err
	}
	return o.report()
}

// fetch brings the pretrained checkpoint here, if it is on the hub, and opens it: before anything is trained it is
// known to be readable, and to be the one that recorded trainings started from.
func (o *options) fetch(ctx context.Context) (err error) {
	s := &o.study
	if s.From, err = program.Fetch(ctx, s.From); err != nil {
		return err
	}
	source, err := finetune.OpenSource(s.From, s.Import, o.tasks[0].classNames())
	if err != nil {
		return err
	}
	s.SHA256 = source.SHA256
	return nil
}

// report prints the table of all that is done, by this machine and others, and leaves it as a file.
func (o options) report() error {
	done, err := o.study.Results()
	if err != nil {
		return err
	}
	table, err := o.table(done)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", table.Text())
	path := filepath.Join(o.study.Dir, "table.md")
	if err := report.Picture(path, func(w io.Writer) error {
		_, err := io.WriteString(w, table.Markdown())
		return err
	}); err != nil {
		return err
	}
	fmt.Println("as Markdown:", path)
	return nil
}
