// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command gomlx fine-tunes a pretrained ViT with GoMLX's own trainer, loop, progress bar and checkpoints. This
// library's are the model, with its table of positions blended with WePE by a learned gate, the datasets and the
// optimizer.
//
//	go run ./examples/gomlx                           the demo's model on ten classes of CIFAR-100, 30 s of CPU time
//	go run ./examples/gomlx -size 112 MODEL DIR       a model of timm or Hugging Face on DIR/{train,test}/CLASS/
//	go run ./examples/gomlx -out tuned MODEL DIR      also saves: the same command resumes an interrupted one
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ui/commandline"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
)

// settings are those of a training.
type settings struct {
	model, dir, position, out string
	size, steps, batch        int
	rate                      float64
}

func main() {
	backend.Tune()
	s := settings{model: "examples/cifar100/demo/vit", dir: "examples/cifar100/demo"}
	flag.StringVar(&s.position, "position", "hybrid", "position encoding")
	flag.StringVar(&s.out, "out", "", "directory of checkpoints and of the fine-tuned model; default none")
	flag.IntVar(&s.size, "size", 0, "side of the images in pixels; default 36 for the demo, else the model's own")
	flag.IntVar(&s.steps, "steps", 100, "training steps")
	flag.IntVar(&s.batch, "batch", 32, "images of a training step")
	flag.Float64Var(&s.rate, "lr", 1e-3, "peak learning rate")
	flag.Parse()
	switch flag.NArg() {
	case 0:
		s.size = cmp.Or(s.size, 36)
	case 2:
		s.model, s.dir = flag.Arg(0), flag.Arg(1)
	default:
		log.Fatal("usage: gomlx [flags] [MODEL DIR]")
	}
	b := must.M1(backend.Open()) // XLA where its plugin is installed, else pure Go
	defer b.Finalize()
	if b.Name() == "onnxruntime" { // docs/evidence/upstream.md
		log.Fatal("GoMLX's Trainer.Eval is wrong on ONNX Runtime: set GOMLX_BACKEND to xla:cpu or go")
	}

	start := time.Now()
	before, after := s.tune(b)
	fmt.Printf("test accuracy %.1f %% before, %.1f %% after %d steps; loss %.3f and %.3f; %.0f s\n", 100*before.accuracy,
		100*after.accuracy, s.steps, before.loss, after.loss, time.Since(start).Seconds())
}

// tune trains a model and evaluates it before and after.
func (s settings) tune(b compute.Backend) (before, after result) {
	// 1. The model, in a store of GoMLX: its table of positions is resampled to the new size, its head replaced.
	classes, images := open(s.dir)
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, int64(1))
	m := must.M1(checkpoints.Load(b, store.Scope("/vit"), s.model, checkpoints.Options{
		ImportOptions: checkpoints.ImportOptions{Classes: len(classes)}, Size: s.size, Position: s.position}))
	fmt.Println(strings.Join(m.Report, "\n"))
	if m.Preprocess == nil {
		must.M(fmt.Errorf("%s does not say how images become its input", s.model))
	}

	// 2. The datasets: random crops and flips for training; and each test image once.
	training, test := images(*m.Preprocess)
	augment := data.Augment{Size: [2]int{m.Config.ImageRows, m.Config.ImageCols}, CropScale: [2]float64{0.7, 1},
		HFlip: 0.5, Interpolation: m.Preprocess.Resample}
	augment.Mean, augment.Std = m.Preprocess.Normalization()
	batches, inOrder := data.Batches(training, s.batch, augment, 1), data.InOrder(test, s.batch, augment)

	// 3. Checkpoints: Done restores the newest one, if there is any.
	var saved *checkpoint.Handler
	if s.out != "" {
		dir := filepath.Join(s.out, "checkpoints")
		_, err := os.Stat(dir)
		if _, there := os.Stat(filepath.Join(s.out, "vit")); err != nil && there == nil { // of no earlier run
			must.M(fmt.Errorf("-out %s: vit, which the result would replace, is there: name another directory", s.out))
		}
		saved = must.M1(checkpoint.Build(store).Dir(dir).Keep(2).Done())
	}

	// 4. The trainer. This AdamW does not decay biases, norms and positions, clips the global norm of the gradient, moves
	// early layers less, and its rate warms up and falls along a half cosine.
	optimizer := &engine.Optimizer{WeightDecay: 0.05, ClipNorm: 1, LayerDecay: 0.75,
		Schedule: engine.Schedule{Peak: s.rate, Warmup: s.steps / 10, Steps: s.steps}}
	trainer := train.NewTrainer(b, store, m.ModelFn(data.BatchImages), loss.SparseCategoricalCrossEntropyLogits, optimizer,
		[]metric.Interface{metric.NewMovingAverageSparseCategoricalAccuracy("Moving accuracy", "~acc", 0.05)},
		[]metric.Interface{metric.NewSparseCategoricalAccuracy("Accuracy", "acc")})
	if before = evaluate(trainer, inOrder); trainer.GlobalStep() > 0 {
		fmt.Printf("resumed: \"before\" is at step %d\n", trainer.GlobalStep())
	}

	// 5. The loop.
	loop := train.NewLoop(trainer)
	commandline.AttachProgressBar(loop)
	if saved != nil {
		train.PeriodicCallback(loop, time.Minute, true, "checkpoint", 100, saved.SaveOnStepFn)
	}
	batches.Step = loop.LoopStep // where the checkpoint was
	must.M1(loop.RunToGlobalStep(batches, s.steps))
	after = evaluate(trainer, inOrder)

	// 6. A plain ViT for transformers and timm: at this size table, encoding and gate are one table.
	if s.out != "" {
		out := filepath.Join(s.out, "vit")
		must.M(os.RemoveAll(out)) // of an earlier run
		must.M1(m.Export(out, b, checkpoints.ExportOptions{Format: "hf", Labels: classes}))
	}
	return before, after
}

// open returns the classes of a directory, of CIFAR-100 or with a folder for each class, and a function that returns
// its training and test images as preprocessed for a model.
func open(dir string) (classes []string, images func(preprocess.Settings) (training, test data.Dataset)) {
	training, test, err := data.CIFAR100(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		must.M(err)
		return training.Classes, func(preprocess.Settings) (data.Dataset, data.Dataset) { return training, test }
	}
	parts := must.M1(data.Folder(dir))
	fit, held := parts.Train, cmp.Or(parts.Test, parts.Validation)
	if held == nil {
		fit, held = must.M2(fit.Split(0.2, 0))
	}
	return fit.Classes, func(p preprocess.Settings) (data.Dataset, data.Dataset) {
		return must.M1(fit.Stream(p, data.Streaming{})), must.M1(held.Stream(p, data.Streaming{}))
	}
}

type result struct{ loss, accuracy float64 }

// evaluate runs GoMLX's metrics over a dataset.
func evaluate(trainer *train.Trainer, ds train.Dataset) result {
	metrics := must.M1(trainer.Eval(ds))
	value := func(i int) float64 { return float64(tensors.ToScalar[float32](metrics[i])) }
	return result{loss: value(0), accuracy: value(1)}
}
