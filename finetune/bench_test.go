// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

var (
	benchModel = flag.String("model", "Ti/16", "model of BenchmarkStep")
	benchSize  = flag.Int("size", 224, "image side of BenchmarkStep, in pixels")
	benchBatch = flag.Int("batch", 4, "images a step of BenchmarkStep")
	benchNames = flag.String("encodings", "learned,wepe", "encodings of BenchmarkStep; the first is the baseline")
	benchSet   = flag.String("recipe-set", "", "changes to the recipe of BenchmarkStep")
)

// BenchmarkStep times whole optimizer steps, augmentation included, of models that differ in their encoding alone.
// Their steps alternate, so that a slow spell of the machine meets all, and the figure to read is "NAME-overhead-%",
// from the median of each and that of the first.
func BenchmarkStep(b *testing.B) {
	c, err := vit.Variant(*benchModel)
	if err != nil {
		b.Fatal(err)
	}
	c.ImageRows, c.ImageCols, c.Classes = *benchSize, *benchSize, 100
	set := Noise(101, 32, 32, 100)
	var steps []*trainer
	names := strings.Split(*benchNames, ",")
	for _, position := range names {
		recipe := Recipe{Model: c, Epochs: 1000, BatchSize: *benchBatch, LearningRate: 1e-5, ValidationPart: -1,
			EvalEpochs: 1000, Augment: data.Augment{Pad: 4, FlipProb: 0.5, Size: [2]int{*benchSize, *benchSize}},
			Optimizer: Optimizer{WeightDecay: 0.05, ClipNorm: 1}}
		recipe.Model.Position = position
		if recipe, err = recipe.Set(*benchSet); err != nil {
			b.Fatal(err)
		}
		run, err := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: set}.prepared()
		if err != nil {
			b.Fatal(err)
		}
		t, err := run.begin()
		if err != nil {
			b.Fatal(err)
		}
		defer t.close()
		steps = append(steps, t)
	}
	times := make([][]time.Duration, len(steps))
	measure := func(keep bool) {
		for i, t := range steps {
			start := time.Now()
			if err := t.advance(); err != nil {
				b.Fatal(err)
			}
			if err := t.drain(); err != nil {
				b.Fatal(err)
			}
			if keep {
				times[i] = append(times[i], time.Since(start))
			}
		}
		slices.Reverse(steps) // neither always goes first
		slices.Reverse(times)
	}
	measure(false) // compiles
	measure(false)
	b.ResetTimer()
	for range b.N {
		measure(true)
	}
	b.StopTimer()
	median := func(position string) float64 {
		for i, t := range steps {
			if t.Recipe.Model.Position == position {
				slices.Sort(times[i])
				return times[i][len(times[i])/2].Seconds()
			}
		}
		return 0
	}
	base := median(names[0])
	for _, name := range names[1:] {
		b.ReportMetric(100*(median(name)/base-1), name+"-overhead-%")
	}
	b.ReportMetric(1e3*base, names[0]+"-ms")
	b.ReportMetric(float64(*benchBatch)/base, "images/s")
	b.ReportMetric(3*c.FLOPs()*float64(*benchBatch)/base/1e9, "GFLOP/s")
}
