// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"errors"
	"flag"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
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
	var steps []*classification
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

// BenchmarkEvaluate is what comes of the speed of inference: one batch of the bare network, whose input is there,
// an evaluation of a set in memory, one of JPEGs of 320×240 that are read from a folder, and a prediction for as many
// files. They alternate, and are compared by medians of an image's time on the clock and by processor time.
func BenchmarkEvaluate(b *testing.B) {
	c, err := vit.Variant(*benchModel)
	if err != nil {
		b.Fatal(err)
	}
	c.ImageRows, c.ImageCols, c.Classes = *benchSize, *benchSize, 2
	recipe := Recipe{Model: c, Epochs: 1, BatchSize: 1, LearningRate: 1e-5, ValidationPart: -1, EvalBatchSize: *benchBatch,
		Augment: data.Augment{Size: [2]int{*benchSize, *benchSize}}}
	const batches = 3
	images := batches * *benchBatch
	memory := Noise(images, *benchSize, *benchSize, 2)
	run := gomlxtest.Must(Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: memory}.prepared())(b)
	t := gomlxtest.Must(run.begin())(b)
	defer t.close()

	dir, files := b.TempDir(), []string{}
	for i := range images {
		img := image.NewNRGBA(image.Rect(0, 0, 320, 240))
		for k := range img.Pix {
			img.Pix[k] = uint8((k*k>>7 + i*k>>5) & 255)
		}
		var content bytes.Buffer
		if err := jpeg.Encode(&content, img, nil); err != nil {
			b.Fatal(err)
		}
		files = append(files, filepath.Join(dir, strconv.Itoa(i%2), strconv.Itoa(i)+".jpg"))
		if err := errors.Join(os.MkdirAll(filepath.Dir(files[i]), 0o755),
			os.WriteFile(files[i], content.Bytes(), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	folder, _, err := data.Folder(dir, nil, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	streamed := gomlxtest.Must(folder.Stream(preprocess.Settings{Fit: preprocess.FitExact,
		Size: [2]int{*benchSize, *benchSize}}, data.Streaming{}))(b)

	bare := gomlxtest.Must(model.NewExec(gomlxtest.Backend(), t.model.store,
		func(scope *model.Scope, in []*graph.Node) []*graph.Node {
			return []*graph.Node{t.Recipe.Model.Logits(scope.Store().Scope("/"+modelScope), in[0])}
		}))(b)
	input := tensors.FromShape(shapes.Make(dtypes.Float32, *benchBatch, *benchSize, *benchSize, 3))
	evaluate := func(set data.Source) func() error {
		return func() error {
			t.model.examined.source = nil
			_, err := t.model.Evaluate(set)
			return err
		}
	}
	ways := []struct {
		name   string
		images int
		call   func() error
	}{
		{"bare", *benchBatch, func() error {
			outputs, err := bare.Call(input)
			if err != nil {
				return err
			}
			return outputs[0].FinalizeAll()
		}},
		{"memory", images, evaluate(memory)},
		{"folder", images, evaluate(streamed)},
		{"predict", images, func() error { _, err := t.model.PredictFiles(files, 1); return err }},
	}
	clock, processor := make([][]float64, len(ways)), make([][]float64, len(ways))
	measure := func(keep bool) {
		for i, way := range ways {
			start, used := time.Now(), gomlxtest.ProcessorTime(b)
			if err := way.call(); err != nil {
				b.Fatal(way.name, err)
			}
			if keep {
				clock[i] = append(clock[i], time.Since(start).Seconds()/float64(way.images))
				processor[i] = append(processor[i], float64(gomlxtest.ProcessorTime(b)-used)/1e9/float64(way.images))
			}
		}
	}
	measure(false) // compiles
	b.ResetTimer()
	for range b.N {
		measure(true)
	}
	b.StopTimer()
	median := func(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }
	for i, way := range ways {
		b.ReportMetric(1/median(clock[i]), way.name+"-images/s")
		b.ReportMetric(median(clock[i])/median(clock[0]), way.name+"-time")
		b.ReportMetric(median(processor[i])/median(processor[0]), way.name+"-processor-time")
	}
}
