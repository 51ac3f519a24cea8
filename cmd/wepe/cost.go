// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/internal/suggest"
	"github.com/wepe-go/wepe/study"
)

// costs are the flags of wepe analyze --what cost.
type costs struct {
	position, variants, sides, memoryOf, backend string
	processor                                    bool
	analysis.Cost
}

func (o *costs) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.position, "position", "", "of --what cost: some of "+strings.Join(costLabels(), ", ")+
		"; the first is compared with; default all")
	flags.StringVar(&o.variants, "variants", "Ti/16", "of --what cost: sizes of models, as Ti/16,B/16")
	flags.StringVar(&o.sides, "sizes", "224", "of --what cost: sides of square images, as 224,384")
	flags.StringVar(&o.DType, "dtype", "float32", "of --what cost: float32 or bfloat16")
	flags.IntVar(&o.Rounds, "rounds", 100, "of --what cost: of every encoding; 0 for parameters and FLOPs only")
	flags.BoolVar(&o.processor, "cpu-time", false, "of --what cost: measure CPU time, on a busy machine")
	flags.IntVar(&o.Forward, "batch", 32, "of --what cost: images of an inference")
	flags.IntVar(&o.Cost.Step, "step-batch", 16, "of --what cost: images of a training step")
	flags.StringVar(&o.memoryOf, "memory-of", "", "print the memory of one encoding")
	_ = flags.MarkHidden("memory-of")
}

func costLabels() (names []string) {
	for _, a := range analysis.CostVariants {
		names = append(names, a.Label)
	}
	return names
}

// run prints and writes what encodings cost.
func (o *costs) run(c *cobra.Command, backend, dir string, seed uint64) (err error) {
	o.Sizes, o.Cost.Seed, o.backend = names(o.variants), seed, backend
	for _, side := range names(o.sides) {
		n, err := strconv.Atoi(side)
		if err != nil || n < 1 {
			return cli.Usagef("--sizes: %q is not a side in pixels", side)
		}
		o.Sides = append(o.Sides, n)
	}
	if len(o.Sizes) == 0 || len(o.Sides) == 0 || o.Rounds < 0 || min(o.Forward, o.Cost.Step) < 1 {
		return cli.Usagef(
			"--what cost: want --variants, --sizes, --rounds of 0 or more, --batch and --step-batch of 1 or more",
		)
	}
	if o.Rounds == 0 {
		o.Rounds = -1
	}
	o.Variants = analysis.CostVariants
	if names := names(o.position); len(names) > 0 {
		o.Variants = nil
		for _, name := range names {
			at := slices.Index(costLabels(), name)
			if at < 0 {
				return cli.Usage(suggest.Unknown("--position", name, costLabels()))
			}
			o.Variants = append(o.Variants, analysis.CostVariants[at])
		}
	}
	if o.Backend, err = openBackend(backend, 0); err != nil {
		return err
	}
	defer o.Backend.Finalize()
	out := cli.Output(c)
	if o.memoryOf != "" {
		return o.printMemory(out)
	}
	if o.processor {
		o.CPUTime = cli.CPUTime
	}
	o.Logger, o.Memory = cli.Logger(), o.inFreshProcess
	rows, err := o.Cost.Run(c.Context())
	if err != nil {
		return err
	}
	out.Printf("\n%s, %s\n\n%s\n", o.Backend, o.DType, analysis.Table(rows, "cost").Text())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "cost.jsonl")
	out.Field("rows", "%s", path)
	return analysis.Write(path, rows)
}

// inFreshProcess measures memory: what one model left behind does not count for the next.
func (o *costs) inFreshProcess(ctx context.Context, variant string, side int, arm study.Variant) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(ctx, self, "analyze", "--what", "cost", "--variants", variant, "--sizes",
		strconv.Itoa(side), "--dtype", o.DType, "--batch", strconv.Itoa(o.Forward), "--step-batch",
		strconv.Itoa(o.Cost.Step), "--backend", o.backend, "--memory-of", arm.Label)
	var complaint strings.Builder
	child.Stderr = &complaint
	answer, err := child.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(answer)), 64)
}

// printMemory makes an inference and two steps with one encoding and prints the most bytes that the process held: on
// the GPU where nvidia-smi lists it, else in all.
func (o *costs) printMemory(out *cli.Printer) error {
	at := slices.Index(costLabels(), o.memoryOf)
	if at < 0 {
		return cli.Usage(suggest.Unknown("--memory-of", o.memoryOf, costLabels()))
	}
	t, err := o.NewTiming(o.Sizes[0], o.Sides[0], analysis.CostVariants[at])
	if err != nil {
		return err
	}
	defer t.Close()
	for _, call := range []func() error{t.Forward, t.Step, t.Step} {
		if err := call(); err != nil {
			return err
		}
	}
	bytes, err := cli.PeakMemory()
	out.Printf("%.0f\n", bytes)
	return err
}
