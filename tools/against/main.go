// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command against compares this library with PyTorch on the same machine: make against-torch. Two processes take turns
// call by call, so that a slow spell meets both, and the figure to read is the median of the ratios of neighbours. The
// other side is tools/py/vit_speed.py, a ViT of timm's structure in plain torch with a learned table. Which
// processors both may use is said by taskset, to which ONNX Runtime keeps with the library of tools/ort.
//
// With -start it measures instead what begins before the first step: a fresh process, its graph and compilation.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// options are what the flags say.
type options struct {
	variants, what []string
	batches        []int
	position       string
	rounds         int
	python         string
	start          bool
	first          bool // a child of -start
}

func main() {
	program.Main("against", parse, func(options) bool { return false }, run)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("against", flag.ContinueOnError)
	variants := flags.String("variants", "Ti/16,S/16", "models")
	what := flags.String("what", "inference,training", "of these")
	batches := flags.String("batches", "1,8,32", "images of a call")
	flags.StringVar(&o.position, "position", "learned", "position encoding of ours")
	flags.IntVar(&o.rounds, "rounds", 7, "pairs of calls")
	flags.StringVar(&o.python, "python", "/usr/bin/python3", "a Python with torch")
	flags.BoolVar(&o.start, "start", false, "measure the time from the start of a process to its first step")
	flags.BoolVar(&o.first, "first-step", false, "make two steps, as the processes of -start do")
	if err := program.Parse(flags, "compares this library with PyTorch.", args); err != nil {
		return o, err
	}
	o.variants, o.what = study.Split(*variants), study.Split(*what)
	for _, word := range study.Split(*batches) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-batches: %q is no number of images", word)
		}
		o.batches = append(o.batches, n)
	}
	for _, w := range o.what {
		if w != "inference" && w != "training" {
			return o, fmt.Errorf("-what: %q, want inference or training", w)
		}
	}
	if o.rounds < 1 || len(o.variants) == 0 || len(o.batches) == 0 {
		return o, errors.New("nothing to measure: want -variants, -batches and -rounds")
	}
	return o, nil
}

func run(_ context.Context, o options) error {
	switch {
	case o.first:
		return o.twoSteps()
	case o.start:
		return o.starts()
	}
	torch, err := startTorch(o.python)
	if err != nil {
		return err
	}
	defer torch.close()
	table := report.Table{Header: []string{"model", "call", "batch", "ours, processor s", "torch", "ours/torch",
		"quartiles", "on the clock", "pairs"}}
	table.Numeric = []bool{false, false, true, true, true, true, true, true, true}
	for _, variant := range o.variants {
		for _, batch := range o.batches {
			for _, what := range o.what {
				row, err := o.compare(torch, variant, what, batch)
				if err != nil {
					return err
				}
				table.Rows = append(table.Rows, row)
				program.Line(strings.Join(row, "  "))
			}
		}
	}
	program.Printf("\n%s", table.Text())
	return nil
}

var open = sync.OnceValues(func() (compute.Backend, error) { return backend.Open() })

func (o options) timing(variant string, batch int) (*finetune.Timing, error) {
	backend, err := open()
	if err != nil {
		return nil, err
	}
	return analysis.Cost{Backend: backend, Forward: batch, Step: batch}.NewTiming(variant, 224,
		study.Arm{Position: o.position, Label: o.position})
}

// compare lets both make a call in turns, the first of each unmeasured, and returns a row of the table.
func (o options) compare(torch *torch, variant, what string, batch int) ([]string, error) {
	c, err := vit.Variant(variant)
	if err != nil {
		return nil, err
	}
	t, err := o.timing(variant, batch)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	call := map[string]func() error{"inference": t.Forward, "training": t.Step}[what]
	line := fmt.Sprintf("%s %d %d %d %d 224 %d\n", what, c.Width, c.Depth, c.Heads, c.PatchSize, batch)
	var ours, theirs, ratios, clocks []float64
	for round := -1; round < o.rounds; round++ {
		used, began := program.ProcessorTime(), time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		clock, processor := time.Since(began).Seconds(), program.ProcessorTime()-used
		theirClock, theirProcessor, err := torch.call(line)
		if err != nil {
			return nil, err
		}
		if round >= 0 {
			ours, theirs = append(ours, processor), append(theirs, theirProcessor)
			ratios, clocks = append(ratios, processor/theirProcessor), append(clocks, clock/theirClock)
		}
	}
	for _, s := range [][]float64{ours, theirs, ratios, clocks} {
		slices.Sort(s)
	}
	n := len(ratios)
	return []string{variant, what, strconv.Itoa(batch), fmt.Sprintf("%.3f", ours[n/2]), fmt.Sprintf("%.3f", theirs[n/2]),
		fmt.Sprintf("%.2f", ratios[n/2]), fmt.Sprintf("%.2f … %.2f", ratios[n/4], ratios[3*n/4]),
		fmt.Sprintf("%.2f", clocks[n/2]), strconv.Itoa(n)}, nil
}

// torch is the process of PyTorch.
type torch struct {
	process *exec.Cmd
	asked   io.WriteCloser
	answers *bufio.Reader
}

func startTorch(python string) (*torch, error) {
	t := &torch{process: exec.Command(python, "tools/py/vit_speed.py")}
	t.process.Stderr = os.Stderr
	answers, err := t.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.answers = bufio.NewReader(answers)
	if t.asked, err = t.process.StdinPipe(); err != nil {
		return nil, err
	}
	return t, t.process.Start()
}

// call makes a call and returns what it took.
func (t *torch) call(line string) (clock, processor float64, err error) {
	if _, err = io.WriteString(t.asked, line); err != nil {
		return 0, 0, fmt.Errorf("torch: %w", err)
	}
	answer, err := t.answers.ReadString('\n')
	if err != nil {
		return 0, 0, fmt.Errorf("torch: %w", err)
	}
	_, err = fmt.Sscan(answer, &clock, &processor)
	return clock, processor, err
}

func (t *torch) close() {
	t.asked.Close()
	_ = t.process.Wait()
}
