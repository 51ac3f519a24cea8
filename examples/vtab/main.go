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
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/examples/internal/backends"
	"github.com/wepe-go/wepe/examples/internal/program"
	"github.com/wepe-go/wepe/finetune/report"
)

func main() {
	program.Main("vtab", func(args []string) (options, error) { return parse(args, os.LookupEnv) }, options.saves, run)
}

// saves says whether there is something to save when a signal comes.
func (o options) saves() bool { return !o.plan && o.write == "" && len(o.merge) == 0 }

func run(ctx context.Context, o options) error {
	s := study{options: o, said: map[string]bool{}}
	if o.write != "" {
		sizes := [3]int{trainImages, valImages, trainImages + valImages}
		if o.write != shapesOrigin {
			sizes[2] = 73_728 // a tenth of dSprites
		}
		return write(ctx, o.data, o.write, sizes)
	}
	if len(o.merge) > 0 {
		if err := merge(o.checkpoint, o.merge); err != nil {
			return err
		}
		return s.report()
	}
	if o.data != "" {
		if err := s.find(); err != nil {
			return err
		}
	}
	if o.plan {
		done, err := s.results()
		if err != nil {
			return err
		}
		table, err := s.listing(done)
		fmt.Print(table.Text())
		return err
	}
	if err := s.fetch(ctx); err != nil {
		return err
	}
	backend, err := backends.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	s.backend = backend
	if err := s.run(ctx); err != nil {
		return err
	}
	return s.report()
}

// report prints the table of all that is done, by this machine and others, and leaves it as a file.
func (s study) report() error {
	done, err := s.results()
	if err != nil {
		return err
	}
	table, err := s.table(done)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", table.Text())
	path := filepath.Join(s.checkpoint, "table.md")
	if err := os.MkdirAll(s.checkpoint, 0o755); err != nil { // a shard may have had nothing to do
		return err
	}
	if err := report.Picture(path, func(w io.Writer) error {
		_, err := io.WriteString(w, table.Markdown())
		return err
	}); err != nil {
		return err
	}
	fmt.Println("as Markdown:", path)
	return nil
}
