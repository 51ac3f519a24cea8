// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command bench compares this library with timm (eager and torch.compile) and with a plain ViT in JAX: make bench.
//
// Every candidate is a separate process, restricted by taskset to one core per thread. The processes of a cell (call,
// model, batch, threads) make one call each per round, in a random order, so that a slow phase of the machine affects
// all. Figures are medians; ratios are medians of the ratios within rounds. Encodings are compared with the learned
// table in the same rounds.
//
// The share of the product rate is the FLOP rate of a call (vit.Config.FLOPs, three times for training, divided by its
// time), divided by the rate of a chain of the model's largest matrix products on the same backend in the same rounds.
//
//	go run ./tools/bench --models S/16 --batches 8 --threads 2 --peers timm,jax --positions learned,wepe
//	bench --device cuda --dtype bfloat16 --models Ti/16 --batches 128 --threads 16 --memory 1000 --python python3
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/tools/bench/rows"
)

// options are the flags.
type options struct {
	calls, models, peers, positions []string
	batches, threads                []int
	pairs                           int
	python, out                     string
	device, dtype                   string
	backend, processor              string  // of the rows
	memory                          float64 // GiB
}

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		backend.Tune()
		err = serve(os.Stdin, os.Stdout, os.Args[2])
	} else {
		var o options
		if o, err = parse(os.Args[1:]); err == nil {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			err = o.run(ctx)
			stop()
		}
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "bench times inference and training steps of this library, timm and JAX in "+
			"interleaved rounds, on a CPU or a GPU.\n\n"+flags.FlagUsages())
	}
	flags.StringSliceVar(&o.calls, "calls", []string{"inference", "training"}, "what is measured")
	flags.StringSliceVar(&o.models, "models", []string{"small", "Ti/16", "S/16", "B/16"},
		"models; small has width 96, depth 6, 4×4 patches of 32×32 pixels")
	flags.StringSliceVar(&o.peers, "peers", []string{"timm", "compiled", "jax"}, "peers; empty for none")
	flags.StringSliceVar(&o.positions, "positions", []string{"learned", "wepe", "wepe-sphere", "rope-mixed"},
		"encodings, learned first: peers are compared with it")
	flags.IntSliceVar(&o.batches, "batches", []int{1, 8, 32}, "images of a call")
	flags.IntSliceVar(&o.threads, "threads", []int{1, 2}, "threads, each on a processor of its own")
	flags.IntVar(&o.pairs, "pairs", 11, "rounds of a cell, an odd number")
	flags.Float64Var(&o.memory, "memory", 8, "GiB that the processes of a cell may take together; others are skipped")
	flags.StringVar(&o.device, "device", "cpu", "cpu, or cuda: the first GPU; --threads are then the processors beside it")
	flags.StringVar(&o.dtype, "dtype", "float32", "float32 (with TF32 products on a GPU) or bfloat16 (peers: autocast)")
	flags.StringVar(&o.python, "python", "", "a Python with the packages of tools/bench/peers/requirements.txt; "+
		"default: a virtual environment, made in the user's cache directory on first use")
	flags.StringVar(&o.out, "out", "", "file to which rows are appended, as docs/runs/bench.jsonl")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.pairs < 1 || o.pairs%2 == 0 || len(o.positions) == 0 || o.positions[0] != "learned" {
		return o, fmt.Errorf("want flags only, odd --pairs and learned first of --positions, not %q", args)
	}
	if !slices.Contains([]string{"cpu", "cuda"}, o.device) || !slices.Contains([]string{"float32", "bfloat16"}, o.dtype) {
		return o, fmt.Errorf("--device %s --dtype %s: want cpu or cuda, float32 or bfloat16", o.device, o.dtype)
	}
	return o, nil
}

// run measures all cells and prints their table.
func (o options) run(ctx context.Context) (err error) {
	// Rows contain the backend, not where its plugin is.
	if o.backend = strings.TrimSpace(os.Getenv("GOMLX_BACKEND")); o.backend == "" {
		o.backend = "xla:" + o.device
		if err := os.Setenv("GOMLX_BACKEND", o.backend); err != nil {
			return err
		}
	} else if o.device == "cuda" {
		o.backend = "xla:cuda"
	}
	if len(o.peers) > 0 && o.python == "" {
		if o.python, err = environment(ctx); err != nil {
			return err
		}
	}
	if o.processor, err = processor(ctx, o.device); err != nil {
		return err
	}
	var all []rows.Row
	for _, model := range o.models {
		for _, batch := range o.batches {
			for _, threads := range o.threads {
				for _, call := range o.calls {
					c := cell{call: call, model: model, batch: batch, threads: threads, dtype: o.dtype}
					measured, err := o.measure(ctx, c)
					if err != nil {
						return fmt.Errorf("%s: %w", c, err)
					}
					if err := rows.Append(o.out, measured, os.Stdout); err != nil {
						return err
					}
					all = append(all, measured...)
				}
			}
		}
	}
	fmt.Print("\n", rows.Summary(all).Text())
	return nil
}

// median returns the median of values.
func median(values []float64) float64 { return quantile(values, 2) }

func quantile(values []float64, quarter int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*quarter/4, len(sorted)-1)]
}
