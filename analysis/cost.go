// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"context"
	"fmt"
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

// Cost measures what encodings cost, as a ratio to the first: all models of a size live in one process and take turns,
// in an order that is drawn anew for every round, so that a slow spell of the machine meets all. Zero numbers mean the
// defaults beside them.
type Cost struct {
	Backend  compute.Backend
	Variants []string // of vit.Variant
	Sides    []int    // of square images, in pixels
	Arms     []study.Arm
	DType    string // of the recipe's model; "" for float32
	Forward  int    // 32: images of an inference
	Step     int    // 16: images of a training step
	Rounds   int    // 100; below 0 none: parameters and FLOPs alone, without a model
	Seed     uint64

	// Processor returns the seconds of processor time that this process has used, which are then what is measured; nil
	// measures seconds that pass. On a CPU that does other work they say more, on an accelerator nothing.
	Processor func() float64

	// Memory returns the bytes that a fresh process at most holds for an encoding, inference and training step; nil leaves
	// memory out.
	Memory func(ctx context.Context, variant string, side int, arm study.Arm) (float64, error)
	Log    func(line string)
}

// CostArms are the encodings that the paper's table of costs is about, and those that compete with them. "folded" is
// not among them: once wepe is folded it is learned.
var CostArms = slices.Concat(study.Each("learned", "none", "wepe"), []study.Arm{
	{Position: "wepe", Label: "wepe sum", Settings: "wepe_evaluation=sum"},
}, study.Each("wepe-lut", "wepe-sphere", "hybrid", "rope-axial", "rope-mixed", "wepe-bias"))

// config is a model of a size.
func (c Cost) config(variant string, side int, arm study.Arm) (vit.Config, error) {
	config, err := vit.Variant(variant)
	config.ImageRows, config.ImageCols, config.Classes, config.Position = side, side, 100, arm.Position
	config.DType = cmp.Or(c.DType, "float32")
	return config, err
}

// NewTiming prepares a model of a size.
func (c Cost) NewTiming(variant string, side int, arm study.Arm) (*finetune.Timing, error) {
	config, err := c.config(variant, side, arm)
	if err != nil {
		return nil, err
	}
	step := cmp.Or(c.Step, 16)
	recipe, err := finetune.Recipe{Name: "cost", Model: config, Epochs: 1_000_000, BatchSize: step, LearningRate: 1e-5,
		EvalBatchSize: cmp.Or(c.Forward, 32), ValidationPart: -1, EvalEpochs: 1_000_000,
		Augment:   data.Augment{Size: [2]int{side, side}},
		Optimizer: finetune.Optimizer{WeightDecay: 0.05, ClipNorm: 1}}.Set(arm.Settings)
	if err != nil {
		return nil, err
	}
	return finetune.NewTiming(finetune.Run{Backend: c.Backend, Devices: 1, Recipe: recipe,
		Train: finetune.Noise(step, 32, 32, 100)})
}

// Run measures all sizes and returns rows of figure "cost", one column for each arm.
func (c Cost) Run(ctx context.Context) (rows []Row, err error) {
	for _, variant := range c.Variants {
		for _, side := range c.Sides {
			more, err := c.size(ctx, variant, side)
			if err != nil {
				return nil, fmt.Errorf("%s at %d: %w", variant, side, err)
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

func (c Cost) size(ctx context.Context, variant string, side int) (rows []Row, err error) {
	at := fmt.Sprintf("%s, %d", variant, side)
	add := func(arm study.Arm, measure string, value float64) {
		rows = append(rows, Row{Figure: "cost", Model: arm.Label, Images: "noise", Measure: measure, At: at,
			Value: report.Number(value)})
	}
	for _, arm := range c.Arms {
		config, err := c.config(variant, side, arm)
		if err != nil {
			return nil, err
		}
		add(arm, "parameters", float64(config.Parameters()))
		add(arm, "inference, GFLOPs an image", config.FLOPs()/1e9)
	}
	if c.Rounds < 0 {
		return rows, nil
	}
	timings := make([]*finetune.Timing, len(c.Arms))
	for i, arm := range c.Arms {
		if timings[i], err = c.NewTiming(variant, side, arm); err != nil {
			return nil, fmt.Errorf("%s: %w", arm.Label, err)
		}
		defer timings[i].Close()
	}
	forward, step := make([][]float64, len(c.Arms)), make([][]float64, len(c.Arms))
	draw := rand.New(rand.NewPCG(c.Seed, uint64(side)))
	clock, second := c.Processor, "processor second"
	if clock == nil {
		started := time.Now()
		clock, second = func() float64 { return time.Since(started).Seconds() }, "s"
	}
	rounds := cmp.Or(c.Rounds, 100)
	for round := -2; round < rounds; round++ { // the first two compile
		for _, i := range draw.Perm(len(timings)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for k, call := range []func() error{timings[i].Forward, timings[i].Step} {
				began := clock()
				if err := call(); err != nil {
					return nil, fmt.Errorf("%s: %w", c.Arms[i].Label, err)
				}
				took := &[][][]float64{forward, step}[k][i]
				if round >= 0 {
					*took = append(*took, clock()-began)
				}
			}
		}
		if c.Log != nil && (round+1)%10 == 0 {
			c.Log(fmt.Sprintf("%s: round %d of %d", at, round+1, rounds))
		}
	}
	// Ratios are of medians of pairs from the same round, which a slow spell does not move.
	ratio := func(times [][]float64, i int) float64 {
		quotients := make([]float64, rounds)
		for k := range quotients {
			quotients[k] = times[i][k] / times[0][k]
		}
		return median(quotients)
	}
	for i, arm := range c.Arms {
		add(arm, "inference, images/"+second, float64(cmp.Or(c.Forward, 32))/median(forward[i]))
		add(arm, "inference, time × "+c.Arms[0].Label, ratio(forward, i))
		add(arm, "training, images/"+second, float64(cmp.Or(c.Step, 16))/median(step[i]))
		add(arm, "training, time × "+c.Arms[0].Label, ratio(step, i))
	}
	if c.Memory == nil {
		return rows, nil
	}
	var base float64
	for i, arm := range c.Arms {
		bytes, err := c.Memory(ctx, variant, side, arm)
		if err != nil {
			return nil, fmt.Errorf("%s: memory: %w", arm.Label, err)
		}
		if i == 0 {
			base = bytes
		}
		add(arm, "peak memory of a process, MiB", bytes/(1<<20))
		add(arm, "peak memory × "+c.Arms[0].Label, bytes/base)
	}
	return rows, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
