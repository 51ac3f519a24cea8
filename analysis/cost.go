// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// Cost measures the cost of encodings as a ratio to the first: all models of a size are in one process, in runs
// interleaved in random order, so that a slow phase of the machine meets all. Zero numbers mean the defaults beside
// them.
type Cost struct {
	Backend  compute.Backend
	Sizes    []string // of models, of vit.Variant
	Sides    []int    // of square images, in pixels
	Variants []study.Variant
	DType    string // of the recipe's model; "" for float32
	Forward  int    // 32: images of an inference
	Step     int    // 16: images of a training step
	Rounds   int    // 100; below 0 none: parameters and FLOPs alone, without a model
	Seed     uint64

	// CPUTime returns the CPU seconds that this process has used, which are then measured in place of wall time: useful on
	// a busy CPU, meaningless on an accelerator.
	CPUTime func() float64

	// Memory returns the peak memory in bytes of a fresh process for inference and a training step; nil leaves it out.
	Memory func(ctx context.Context, size string, side int, v study.Variant) (float64, error)
	Logger *slog.Logger
}

// CostVariants are the encodings of the paper's table of costs, and their competitors. "folded" is not among them: a
// folded wepe is learned.
var CostVariants = slices.Concat(study.Each("learned", "none", "wepe"), []study.Variant{
	{Position: "wepe", Label: "wepe sum", Settings: "wepe_evaluation=sum"},
}, study.Each("wepe-lut", "wepe-sphere", "hybrid", "rope-axial", "rope-mixed", "wepe-bias"))

// config is a model of a size.
func (c Cost) config(size string, side int, v study.Variant) (vit.Config, error) {
	config, err := vit.Variant(size)
	config.ImageRows, config.ImageCols, config.Classes, config.Position = side, side, 100, v.Position
	config.DType = cmp.Or(c.DType, "float32")
	return config, err
}

// NewTiming prepares a model of a size.
func (c Cost) NewTiming(size string, side int, v study.Variant) (*finetune.Timing, error) {
	config, err := c.config(size, side, v)
	if err != nil {
		return nil, err
	}
	step := cmp.Or(c.Step, 16)
	recipe, err := finetune.Recipe{Name: "cost", Model: config, Epochs: 1_000_000, BatchSize: step, LearningRate: 1e-5,
		EvalBatchSize: cmp.Or(c.Forward, 32), ValidationPart: -1, EvalEpochs: 1_000_000,
		Augment:   data.Augment{Size: [2]int{side, side}},
		Optimizer: finetune.Optimizer{WeightDecay: 0.05, ClipNorm: 1}}.Set(v.Settings)
	if err != nil {
		return nil, err
	}
	return finetune.NewTiming(finetune.Run{Backend: c.Backend, Devices: 1, Recipe: recipe,
		Train: finetune.Noise(step, 32, 32, 100)})
}

// costRows collects the rows of one size.
type costRows struct {
	at   string
	rows []Row
}

func (r *costRows) add(v study.Variant, measure string, value float64) {
	r.rows = append(r.rows, Row{Analysis: "cost", Model: v.Label, Images: "noise", Measure: measure, At: r.at,
		Value: report.Number(value)})
}

// Run measures all sizes and returns rows of analysis "cost", one column for each variant.
func (c Cost) Run(ctx context.Context) (rows []Row, err error) {
	for _, size := range c.Sizes {
		for _, side := range c.Sides {
			out := costRows{at: fmt.Sprintf("%s, %d", size, side)}
			if err := c.measure(ctx, size, side, &out); err != nil {
				return nil, fmt.Errorf("%s at %d: %w", size, side, err)
			}
			rows = append(rows, out.rows...)
		}
	}
	return rows, nil
}

func (c Cost) measure(ctx context.Context, size string, side int, out *costRows) error {
	for _, v := range c.Variants {
		config, err := c.config(size, side, v)
		if err != nil {
			return err
		}
		out.add(v, "parameters", float64(config.Parameters()))
		out.add(v, "inference, GFLOPs an image", config.FLOPs()/1e9)
	}
	if c.Rounds < 0 {
		return nil
	}
	if err := c.time(ctx, size, side, out); err != nil || c.Memory == nil {
		return err
	}
	var base float64
	for _, v := range c.Variants {
		bytes, err := c.Memory(ctx, size, side, v)
		if err != nil {
			return fmt.Errorf("%s: memory: %w", v.Label, err)
		}
		base = cmp.Or(base, bytes)
		out.add(v, "peak memory of a process, MiB", bytes/(1<<20))
		out.add(v, "peak memory × "+c.Variants[0].Label, bytes/base)
	}
	return nil
}

// time measures inference and training steps. Ratios are medians of quotients of the same round.
func (c Cost) time(ctx context.Context, size string, side int, out *costRows) (err error) {
	timings := make([]*finetune.Timing, len(c.Variants))
	for i, v := range c.Variants {
		if timings[i], err = c.NewTiming(size, side, v); err != nil {
			return fmt.Errorf("%s: %w", v.Label, err)
		}
		defer timings[i].Close()
	}
	clock, second := c.CPUTime, "CPU second"
	if clock == nil {
		started := time.Now()
		clock, second = func() float64 { return time.Since(started).Seconds() }, "s"
	}
	rounds, draw := cmp.Or(c.Rounds, 100), rand.New(rand.NewPCG(c.Seed, uint64(side)))
	took := [2][][]float64{make([][]float64, len(timings)), make([][]float64, len(timings))} // inference, step
	for round := -2; round < rounds; round++ {                                               // the first two compile
		for _, i := range draw.Perm(len(timings)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			for k, call := range []func() error{timings[i].Forward, timings[i].Step} {
				began := clock()
				if err := call(); err != nil {
					return fmt.Errorf("%s: %w", c.Variants[i].Label, err)
				}
				if round >= 0 {
					took[k][i] = append(took[k][i], clock()-began)
				}
			}
		}
		if c.Logger != nil && round > 0 && (round+1)%10 == 0 {
			c.Logger.Info(fmt.Sprintf("%s: round %d of %d", out.at, round+1, rounds))
		}
	}
	images := [2]int{cmp.Or(c.Forward, 32), cmp.Or(c.Step, 16)}
	for i, v := range c.Variants {
		for k, call := range []string{"inference", "training"} {
			quotients := make([]float64, rounds)
			for r := range quotients {
				quotients[r] = took[k][i][r] / took[k][0][r]
			}
			out.add(v, call+", images/"+second, float64(images[k])/median(took[k][i]))
			out.add(v, call+", time × "+c.Variants[0].Label, median(quotients))
		}
	}
	return nil
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }
