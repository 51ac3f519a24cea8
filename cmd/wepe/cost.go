// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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
	"github.com/wepe-go/wepe/internal/plugin"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit/position"
)

// costs are the flags of wepe analyze --analyses cost.
type costs struct {
	flags     pflag.FlagSet
	positions []string
	onCPU     bool
	analysis.Cost
}

func (o *costs) declare() {
	f := &o.flags
	f.SortFlags = false
	f.StringSliceVar(&o.positions, "positions", costLabels(), "encodings; ratios are to the first")
	f.StringSliceVar(&o.Sizes, "models", []string{"Ti/16"}, "sizes of models, as Ti/16,B/16")
	f.IntSliceVar(&o.Sides, "sizes", []int{224}, "sides of square images")
	f.StringVar(&o.DType, "dtype", "float32", "float32 or bfloat16")
	f.IntVar(&o.Rounds, "rounds", 100, "rounds of every encoding; 0 for parameters and FLOPs only")
	f.BoolVar(&o.onCPU, "cpu-time", false, "measure CPU time, on a busy machine")
	f.IntVar(&o.Forward, "batch", 32, "images per inference")
	f.IntVar(&o.Step, "step-batch", 16, "images per training step")
}

// costVariants are the default: the encodings of the paper's table of costs, and their competitors. "folded" is
// missing, because a folded wepe is learned.
var costVariants = study.Each("learned", "none", "wepe", "wepe-sum", "wepe-lut", "wepe-sphere", "hybrid", "rope-axial",
	"rope-mixed", "wepe-bias")

func costLabels() (names []string) {
	for _, v := range costVariants {
		names = append(names, v.Label)
	}
	return names
}

// costVariant returns the variant with a label, or the encoding of that name.
func costVariant(label string) study.Variant {
	if i := slices.Index(costLabels(), label); i >= 0 {
		return costVariants[i]
	}
	return study.Each(label)[0]
}

// memoryOf is the environment variable that makes the command measure its own memory: size and side of the model, and
// label of the encoding.
const memoryOf = "WEPE_MEMORY_OF"

// run prints and writes the cost of encodings.
func (o *costs) run(c *cobra.Command, backend, dir string, seed uint64) (err error) {
	if len(o.Sizes) == 0 || len(o.Sides) == 0 || slices.Min(o.Sides) < 1 || o.Rounds < 0 || min(o.Forward, o.Step) < 1 {
		return cli.Usagef("cost: want --models, --sizes, --rounds of 0 or more, --batch and --step-batch of 1 or more")
	}
	for _, name := range o.positions {
		v := costVariant(name)
		if _, err := position.Parse(v.Position); err != nil {
			return cli.Usagef("--positions: %w", err)
		}
		o.Variants = append(o.Variants, v)
	}
	if o.Backend, err = openBackend(backend, 0); err != nil {
		return err
	}
	defer o.Backend.Finalize()
	out := cli.Output(c)
	if of := os.Getenv(memoryOf); of != "" {
		return o.printMemory(out, strings.SplitN(of, " ", 3))
	}
	if o.onCPU {
		o.CPUTime = cpuTime
	}
	o.Seed, o.Logger, o.Memory = seed, cli.Logger(), inFreshProcess
	rows, err := o.Cost.Run(c.Context())
	if err != nil {
		return err
	}
	out.Printf("\n%s, %s\n\n", o.Backend, o.DType)
	out.Print(analysis.Table(rows, "cost").Text() + "\n")
	path := filepath.Join(dir, "cost.jsonl")
	out.Field("rows", "%s", path)
	return analysis.Write(path, rows)
}

// inFreshProcess measures the memory of one model in a new process.
func inFreshProcess(ctx context.Context, size string, side int, v study.Variant) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(ctx, self, os.Args[1:]...)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", memoryOf, size, side, v.Label))
	var complaint strings.Builder
	child.Stderr = &complaint
	printed, err := child.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(printed)), 64)
}

// printMemory runs inference and two steps with one encoding, and prints the peak memory of this process in bytes.
func (o *costs) printMemory(out cli.Printer, of []string) error {
	side, err := strconv.Atoi(of[1])
	if err != nil {
		return err
	}
	t, err := o.NewTiming(of[0], side, costVariant(of[2]))
	if err != nil {
		return err
	}
	defer t.Close()
	for _, call := range []func() error{t.Forward, t.Step, t.Step} {
		if err := call(); err != nil {
			return err
		}
	}
	bytes, err := peakMemory()
	out.Printf("%.0f\n", bytes)
	return err
}

// peakMemory is the peak memory of this process in bytes: on the GPU if nvidia-smi lists it, otherwise resident memory.
func peakMemory() (bytes float64, err error) {
	if onGPU, err := plugin.GPUMemory(context.Background()); err == nil && onGPU[os.Getpid()] > 0 {
		return onGPU[os.Getpid()], nil
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			n, err := strconv.ParseFloat(fields[1], 64)
			return n * 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}
