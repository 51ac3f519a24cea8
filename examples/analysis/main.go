// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command analysis looks at models side by side: what their position encodings know, how their attention uses it, what
// they stand and what they cost. It leaves rows, tables and one page of pictures.
//
//	go run ./examples/analysis                                            two small models, trained first, minutes
//	go run ./examples/analysis -model A,B -images DIR  runs, exports, models of others, on your pictures
//	go run ./examples/analysis -model runs/cifar100-small/wepe-seed0,hf://google/vit-base-patch16-224 -what attention
//	go run ./examples/analysis -model x=A,x=B,y=C -start                  seeds in one column; and before training
//	go run ./examples/analysis -what cost -variant Ti/16,B/16 -sizes 224  parameters, speed and memory of encodings
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
)

func main() { program.Main("analysis", parse, options.saves, run) }

// saves says whether there is something to save when a signal comes: a training.
func (o options) saves() bool { return len(o.models) == 0 && !o.costs }

// run looks at the models, and at what encodings cost.
func run(ctx context.Context, o options) error {
	backend, err := backend.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	if o.cost.Backend = backend; o.memoryOf != "" {
		return o.printMemory()
	}
	if o.costs {
		return o.measureCost(ctx)
	}
	if o.models, err = o.find(ctx, backend); err != nil {
		return err
	}
	look := analysis.Look{Backend: backend, Models: o.models, Figures: o.figures, Seed: o.seed, Log: program.Line}
	if look.Images, look.Mask, err = o.load(ctx, backend); err != nil {
		return err
	}
	found, failed := look.Run(ctx)
	if found == nil {
		return failed
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, f := range o.figures {
		program.Printf("\n%s\n\n%s", f.Title, analysis.Table(found.Rows, f.Name).Text())
	}
	rows, page := filepath.Join(o.out, "rows.jsonl"), filepath.Join(o.out, "analysis.html")
	if err := analysis.Write(rows, found.Rows); err != nil {
		return err
	}
	if err := report.Picture(page, found.Page.HTML); err != nil {
		return err
	}
	program.Printf("\nrows: %s\npage: %s\n", rows, page)
	return failed
}
