// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// Cost measures the cost of encodings relative to the first: all models of a size run in one process, interleaved in
// random order, so that a slow phase of the machine affects all.
type Cost struct {
	Backend  compute.Backend
	Sizes    []string // of models, of vit.Variant
	Sides    []int    // of square images, in pixels
	Variants []study.Variant
	DType    string // of the recipe's model
	Forward  int    // images of an inference
	Step     int    // images of a training step
	Rounds   int    // 0 for only parameters and FLOPs, without a model
	Seed     uint64

	// CPUTime returns the CPU seconds of this process, which then replace wall time: useful on a busy CPU, meaningless on
	// an accelerator.
	CPUTime func() float64

	// Memory returns the peak memory in bytes of a new process for inference and a training step, 0 if it is not known;
	// nil omits it.
	Memory func(ctx context.Context, size string, side int, v study.Variant) (float64, error)
	Logger *slog.Logger
}

// config is a model of a size.
func (c Cost) config(size string, side int, v study.Variant) (vit.Config, error) {
	config, err := vit.Variant(size)
	config.ImageRows, config.ImageCols, config.Classes, config.Position = side, side, 100, v.Position
	if config.DType = c.DType; err == nil {
		_, err = config.Resolve()
	}
	return config, err
}

// NewTiming prepares a model of a size.
func (c Cost) NewTiming(size string, side int, v study.Variant) (*finetune.Timing, error) {
	config, err := c.config(size, side, v)
	if err != nil {
		return nil, err
	}
	return NewTiming(c.Backend, config, finetune.Noise(c.Step, 32, 32, config.Classes), c.Forward, v.Settings)
}

// NewTiming prepares training steps of a model with all images as a batch, and inference of the given number of images,
// with settings of the recipe.
func NewTiming(b compute.Backend, model vit.Config, images *data.InMemory, forward int,
	settings string) (*finetune.Timing, error) {
	recipe, err := finetune.Recipe{Name: "timing", Model: model, Epochs: 1_000_000, BatchSize: images.Len(),
		LearningRate:  1e-5,
		EvalBatchSize: forward, ValFraction: -1, EvalEveryEpochs: 1_000_000,
		Augment:   data.Augment{Size: [2]int{model.ImageRows, model.ImageCols}},
		Optimizer: engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1}}.Set(settings)
	if err != nil {
		return nil, err
	}
	return finetune.NewTiming(finetune.Run{Backend: b, Devices: 1, Recipe: recipe, Train: images})
}

// Run measures all sizes and returns rows of analysis "cost", one column for each variant; with an error those so far.
func (c Cost) Run(ctx context.Context) (rows []Row, err error) {
	for _, size := range c.Sizes { // a wrong one is said before the first is measured
		for _, side := range c.Sides {
			for _, v := range c.Variants {
				_, err := c.config(size, side, v)
				if v.Settings != "" {
					err = fmt.Errorf("parameters and FLOPs do not count settings: leave %q out", v.Settings)
				}
				if err != nil {
					return nil, fmt.Errorf("%s, %d: %w", size, side, err)
				}
			}
		}
	}
	for _, size := range c.Sizes {
		for _, side := range c.Sides {
			at := fmt.Sprintf("%s, %d", size, side)
			err := c.measure(ctx, size, side, func(v study.Variant, measure string, value float64) {
				rows = append(rows, Row{Analysis: "cost", Model: v.Label, Images: "noise", Measure: measure, At: at,
					Value: report.JSONFloat(value)})
			})
			if err != nil {
				return rows, fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return rows, nil
}

// adder adds a row.
type adder func(v study.Variant, measure string, value float64)

func (c Cost) measure(ctx context.Context, size string, side int, add adder) error {
	for _, v := range c.Variants {
		config, err := c.config(size, side, v)
		if err != nil {
			return err
		}
		add(v, "parameters", float64(config.Parameters()))
		add(v, "inference, GFLOPs an image", config.FLOPs()/1e9)
	}
	if c.Rounds == 0 {
		return nil
	}
	if err := c.time(ctx, size, side, add); err != nil || c.Memory == nil {
		return err
	}
	var base float64
	for _, v := range c.Variants {
		bytes, err := c.Memory(ctx, size, side, v)
		if err != nil {
			return fmt.Errorf("%s: memory: %w", v.Label, err)
		}
		if bytes == 0 {
			continue
		}
		base = cmp.Or(base, bytes)
		add(v, "peak memory of a process, MiB", bytes/(1<<20))
		add(v, "peak memory × "+c.Variants[0].Label, bytes/base)
	}
	return nil
}

// time measures inference and training steps. Ratios are medians of quotients of the same round.
func (c Cost) time(ctx context.Context, size string, side int, add adder) (err error) {
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
	draw := rand.New(rand.NewPCG(c.Seed, uint64(side)))
	took := [2][][]float64{make([][]float64, len(timings)), make([][]float64, len(timings))} // inference, step
	for round := -2; round < c.Rounds; round++ {                                             // the first two compile
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
		if done := round + 1; c.Logger != nil && done > 0 && done%10 == 0 {
			c.Logger.Info(fmt.Sprintf("%s, %d: round %d of %d", size, side, done, c.Rounds))
		}
	}
	images := [2]int{c.Forward, c.Step}
	for i, v := range c.Variants {
		for k, call := range []string{"inference", "training"} {
			quotients := make([]float64, c.Rounds)
			for r := range quotients {
				quotients[r] = took[k][i][r] / took[k][0][r]
			}
			add(v, call+", images/"+second, float64(images[k])/quantile(took[k][i], 0.5))
			add(v, call+", time × "+c.Variants[0].Label, quantile(quotients, 0.5))
		}
	}
	return nil
}
