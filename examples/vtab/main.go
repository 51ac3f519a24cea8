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
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/examples/internal/backends"
	"github.com/wepe-go/wepe/examples/internal/interrupt"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune/report"
)

// statusWaits is the exit status of a shard that has to wait for others: sysexits' "try again".
const statusWaits = 75

func main() {
	o, err := parse(os.Args[1:], os.LookupEnv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		complain(err)
		os.Exit(2)
	}
	ctx := context.Background()
	if !o.plan && o.write == "" && len(o.merge) == 0 { // those have nothing to save: a signal just ends them
		var stop func()
		ctx, stop = interrupt.Context(ctx)
		defer stop()
	}
	if err := run(ctx, o); err != nil {
		complain(err)
		os.Exit(status(ctx, err))
	}
}

// complain says what went wrong, in one line.
func complain(err error) {
	progress.Line("vtab: " + strings.ReplaceAll(err.Error(), "\n", "; "))
}

// status is the exit status after an error: of the signal that ended the work, of work that has to wait, else 1.
func status(ctx context.Context, err error) int {
	switch code := interrupt.Code(ctx); {
	case code != 0:
		return code
	case errors.Is(err, errWaits):
		return statusWaits
	}
	return 1
}

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
