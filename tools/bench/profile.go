// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// profiling are the flags of bench profile.
type profiling struct {
	cell
	position string
	rounds   int
}

// profile prints where the time of a call goes: make profile.
//
// On XLA it reads the program (StableHLO, from go-xla's log), times each shape of matrix product in it alone, and
// subtracts: the rest is everything that is not a product, and memory. XLA's dump of its compiled program gives the
// number of fusions, library calls and copies, the kernel gives page faults and system time. On other backends it
// prints only the rates.
func profile(args []string) error {
	var o profiling
	flags := flag.NewFlagSet("profile", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "profile shows where the time of a training step on XLA for CPUs goes.\n\n")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.model, "model", "small", "model; small has width 96, depth 6, 4×4 patches of 32×32 pixels")
	flags.StringVar(&o.position, "position", "learned", "its position encoding")
	flags.StringVar(&o.call, "call", "training", "training or inference")
	flags.IntVar(&o.batch, "batch", 8, "images of a call")
	flags.IntVar(&o.rounds, "rounds", 9, "rounds of one call and one chain of each shape of product")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.call != "training" && o.call != "inference" {
		return fmt.Errorf("-call %q: want training or inference", o.call)
	}
	return o.run()
}

func (o profiling) run() error {
	dump, err := os.MkdirTemp("", "wepe-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dump)
	// XLA reads its flags when the plugin is loaded.
	flags := os.Getenv("XLA_FLAGS") + " --xla_dump_to=" + dump + " --xla_dump_hlo_as_text"
	if err := os.Setenv("XLA_FLAGS", strings.TrimSpace(flags)); err != nil {
		return err
	}
	b, err := backend.Open()
	if err != nil {
		return err
	}
	config, err := o.config()
	if err != nil {
		return err
	}
	config.Position = o.position
	images := finetune.Noise(o.batch, config.ImageRows, config.ImageCols, config.Classes)
	timing, err := analysis.NewTiming(b, config, images, o.batch, "")
	if err != nil {
		return err
	}
	call := timing.Step
	if o.call == "inference" {
		call = timing.Forward
	}
	began := time.Now()
	program, err := largestProgram(call)
	if err != nil {
		return err
	}
	first := time.Since(began).Seconds()
	shapes, err := productsOf(b, program)
	if err != nil {
		return err
	}
	took, memory, err := o.measure(call, shapes)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s, %s, batch %d, %s; medians of %d rounds\n\n", o.call, o.model, o.position, o.batch, b.Name(),
		o.rounds)
	fmt.Println(o.summary(took, o.flops(config), first, memory, shapes).Text())
	fmt.Println(productTable(took, shapes).Text())
	return printOperations(dump)
}

// usage is the kernel's accounting of a process.
type usage struct{ faults, user, system float64 }

func used() (usage, error) {
	var r syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return usage{float64(r.Minflt), float64(r.Utime.Nano()) / 1e9, float64(r.Stime.Nano()) / 1e9}, err
}

// measure interleaves the call with chains of all products. It returns the median seconds of the call and the kernel's
// mean accounting of it, and sets the seconds of the products.
func (o profiling) measure(call func() error, shapes []*product) (took float64, mean usage, err error) {
	var calls []float64
	for round := -2; round < o.rounds; round++ { // the first two compile and warm up
		before, err := used()
		if err != nil {
			return 0, mean, err
		}
		began := time.Now()
		if err := call(); err != nil {
			return 0, mean, err
		}
		seconds := time.Since(began).Seconds()
		after, err := used()
		if err != nil {
			return 0, mean, err
		}
		if round >= 0 {
			n := float64(o.rounds)
			calls = append(calls, seconds)
			mean.faults += (after.faults - before.faults) / n
			mean.user += (after.user - before.user) / n
			mean.system += (after.system - before.system) / n
		}
		for _, p := range shapes {
			seconds, err := p.time()
			if err != nil {
				return 0, mean, err
			}
			if round >= 0 {
				p.took = append(p.took, seconds)
			}
		}
	}
	return median(calls), mean, nil
}

// summary is the table of the call as a whole.
func (o profiling) summary(took, flops, first float64, memory usage, shapes []*product) report.Table {
	alone, counted := 0.0, 0.0
	for _, p := range shapes {
		alone += p.calls * median(p.took)
		counted += p.calls * p.flops
	}
	t := report.Table{Header: []string{"", "", ""}, Numeric: []bool{false, true, false}}
	row := func(name, format string, value float64, note string) {
		t.Rows = append(t.Rows, []string{name, fmt.Sprintf(format, value), note})
	}
	row("a call", "%.1f ms", 1000*took, fmt.Sprintf("%.1f images/s", float64(o.batch)/took))
	row("its first call", "%.2f s", first, "with compilation")
	row("arithmetic of the model", "%.1f GFLOP", flops/1e9, fmt.Sprintf("%.0f GFLOP/s", flops/took/1e9))
	if alone > 0 {
		row("products in the program", "%.1f GFLOP", counted/1e9, fmt.Sprintf("%.0f GFLOP/s alone", counted/alone/1e9))
		row("products alone", "%.1f ms", 1000*alone, fmt.Sprintf("%.0f %% of a call", 100*alone/took))
		row("everything else", "%.1f ms", 1000*(took-alone), fmt.Sprintf("%.0f %% of a call", 100*(1-alone/took)))
	}
	row("page faults", "%.0f", memory.faults, "")
	kernel := fmt.Sprintf("%.1f ms of it in the kernel", 1000*memory.system)
	row("CPU time", "%.1f ms", 1000*(memory.user+memory.system), kernel)
	return t
}
