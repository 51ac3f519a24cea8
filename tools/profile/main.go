// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command profile says how near training and inference come to what the products alone would take, and where the rest
// of the time goes: `make profile`.
//
// The floor is measured in the same process, in turns with the steps: a chain of the model's largest products, those of
// the MLP, says what multiply-adds take on this backend, and the arithmetic of a step is counted (vit.Config.FLOPs,
// three times for training). Kinds of operations are those of ONNX Runtime's own profile, which ort/profile.c asks for,
// or on the pure-Go backend the executors in a profile of the processor.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// options are what the flags say.
type options struct {
	variant, position   string
	side, batch, rounds int
	ort                 string
	top                 int
}

func main() {
	program.Main("profile", parse, func(options) bool { return false }, run)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("profile", flag.ContinueOnError)
	flags.StringVar(&o.variant, "variant", "Ti/16", "model")
	flags.StringVar(&o.position, "position", "wepe", "its position encoding")
	flags.IntVar(&o.side, "size", 224, "side of the images in pixels")
	flags.IntVar(&o.batch, "batch", 16, "images of a step")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of one step, one inference and one chain of products")
	flags.IntVar(&o.top, "top", 14, "kinds of operations to print")
	flags.StringVar(&o.ort, "ort-profile", "", "what the profiles of ONNX Runtime begin with, which `make profile` says")
	return o, program.Parse(flags, "says where the time of a training step goes.", args)
}

func run(_ context.Context, o options) error {
	backend, err := backend.Open()
	if err != nil {
		return err
	}
	config, err := vit.Variant(o.variant)
	if err != nil {
		return err
	}
	config.ImageRows, config.ImageCols, config.Classes, config.Position = o.side, o.side, 100, o.position
	timing, err := analysis.Cost{Backend: backend, Step: o.batch, Forward: o.batch}.NewTiming(o.variant, o.side,
		study.Arm{Position: o.position, Label: o.position})
	if err != nil {
		return err
	}
	config = config.WithDefaults()
	products, err := newChain(backend, o.batch*config.Tokens(), config.Width, config.MLPDim)
	if err != nil {
		return err
	}
	square, err := newChain(backend, 1024, 1024, 1024)
	if err != nil {
		return err
	}
	flops := config.FLOPs() * float64(o.batch)
	rates, err := o.measure([]work{
		{"the model's largest products", products.flops, products.call},
		{"products of 1024×1024", square.flops, square.call},
		{"training step", 3 * flops, timing.Step},
		{"inference", flops, timing.Forward},
	})
	if err != nil {
		return err
	}
	program.Printf("%s at %d, %s, batch %d, medians of %d\n\n%s\n", o.variant, o.side, o.position, o.batch, o.rounds,
		rates)
	kinds, err := o.kinds(backend, timing)
	if err != nil {
		return err
	}
	program.Printf("%s\n", kinds)
	return nil
}

// work is something that is called again and again, and its arithmetic.
type work struct {
	name  string
	flops float64
	call  func() error
}

// measure lets the works take turns and returns a table of their rates, the first being what the others are compared
// with: on the clock, and by processor time, which says more where other programs run.
func (o options) measure(works []work) (string, error) {
	clocks := []func() float64{func() float64 { return float64(time.Now().UnixNano()) / 1e9 }}
	title := []string{"", "GFLOP", "s", "GFLOP/s", "share"}
	if program.ProcessorTime != nil {
		clocks = append(clocks, program.ProcessorTime)
		title = append(title, "processor s", "GFLOP/s", "share")
	}
	took := make([][][]float64, len(works))      // [work][clock][round]
	for round := -2; round < o.rounds; round++ { // the first two compile
		for i, w := range works {
			took[i] = append(took[i], make([][]float64, len(clocks))...)[:len(clocks)]
			began := now(clocks)
			if err := w.call(); err != nil {
				return "", fmt.Errorf("%s: %w", w.name, err)
			}
			for c, end := range now(clocks) {
				if round >= 0 {
					took[i][c] = append(took[i][c], end-began[c])
				}
			}
		}
	}
	rate := func(i, c int) (seconds, gflops float64) {
		seconds = slices.Sorted(slices.Values(took[i][c]))[o.rounds/2]
		return seconds, works[i].flops / seconds / 1e9
	}
	table := report.Table{Header: title, Numeric: make([]bool, len(title))}
	for i := range title[1:] {
		table.Numeric[1+i] = true
	}
	for i, w := range works {
		row := []string{w.name, fmt.Sprintf("%.1f", w.flops/1e9)}
		for c := range clocks {
			_, floor := rate(0, c)
			seconds, gflops := rate(i, c)
			row = append(row, fmt.Sprintf("%.3f", seconds), fmt.Sprintf("%.1f", gflops),
				fmt.Sprintf("%.1f %%", 100*gflops/floor))
		}
		table.Rows = append(table.Rows, row)
	}
	return table.Text(), nil
}

func now(clocks []func() float64) (times []float64) {
	for _, clock := range clocks {
		times = append(times, clock())
	}
	return times
}

// chain is a program of nothing but products, [n, k]·[k, m]·[m, k]·….
type chain struct {
	program *Exec
	inputs  []any
	flops   float64
}

func newChain(backend compute.Backend, n, k, m int) (*chain, error) {
	const links = 8
	matrix := func(rows, cols int) any { return tensors.FromShape(shapes.Make(dtypes.Float32, rows, cols)) }
	program, err := NewExec(backend, func(x, up, down *Node) *Node {
		for range links / 2 {
			x = kernel.Product(kernel.Product(x, up), down)
		}
		return x
	})
	return &chain{program, []any{matrix(n, k), matrix(k, m), matrix(m, k)}, links * 2 * float64(n) * float64(k*m)}, err
}

func (c *chain) call() error {
	outputs, err := c.program.Call(c.inputs...)
	if err != nil {
		return err
	}
	return outputs[0].FinalizeAll()
}
