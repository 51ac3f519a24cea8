// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/internal/numeric"
)

// exporting are the flags of wepe export.
type exporting struct {
	opening
	to, resample string
	classes      int
	fold         bool
	options      checkpoints.ExportOptions
}

func export() *cobra.Command {
	var o exporting
	c := &cobra.Command{Use: "export MODEL DIR", Short: "Write a model for other software, or in another size or type",
		Args: cobra.ExactArgs(2),
		Long: `Write a model for other software: hf (Hugging Face), timm, jax (Google's vision_transformer), onnx (for any
batch size) or native (this library). For hf, timm and jax the position encoding is folded into a table. The
result is opened again and its logits are compared with the model's (onnx: where ONNX Runtime is).`,
		Example: "  wepe train --position learned\n  wepe export runs/shapes-shapes-learned out/first --to hf"}
	f := cli.FlagsOf(c)
	f.Choice(&o.to, "to", "format", "hf", "timm", "jax", "onnx", "native")
	f.BoolVar(&o.fold, "fold", false, "fold the encoding into a table also with --to native, and the "+
		"additive part of a combination with --to onnx")
	f.Choice(&o.options.DType, "dtype", "data type of the weights on disk", "float32", "float16", "bfloat16")
	f.Float64Var(&o.options.Epsilon, "epsilon", 0, "epsilon of the norms, 1e-6 for timm and jax; default the model's")
	f.Choice(&o.resample, "resample", "how a position table is resampled for another --size; default as the model's "+
		"software", append([]string{""}, checkpoints.Resamplings()...)...)
	f.Int(&o.classes, "classes", 0, 0, math.MaxInt,
		"give the model a new head of zeros, if it has another number of classes")
	f.BoolVar(&o.options.Headless, "no-head", false, "leave the classifier out")
	o.flags(f)
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, args[0], args[1]) }
	return c
}

// read reads MODEL and prints a description.
func (o *opening) read(c *cobra.Command, path string, options checkpoints.ImportOptions) *checkpoints.Imported {
	chosen, line := run.Weights(c, path, o.checkpoint)
	options.Hints = o.files
	options.ImageRows, options.ImageCols, options.UsualSize = o.size[0], o.size[1], true // as predict
	m := must.M1(checkpoints.Import(chosen, options))
	cli.Field("model", "%s: %s", path, m.Report[0])
	if line != "" {
		cli.Field("weights", "%s", line)
	}
	return m
}

func (o *exporting) run(c *cobra.Command, path, dir string) error {
	o.options.Format = o.to
	must.M(cli.Usage(o.options.Validate()))
	if o.options.Headless {
		cli.Unread(c, "with --no-head", "classes")
	}
	m := o.read(c, path, checkpoints.ImportOptions{Resample: o.resample, Classes: o.classes, HeadOptional: true})
	if !slices.ContainsFunc(m.Report, func(line string) bool { // of checkpoints.Resample
		return strings.HasPrefix(line, "positions: ") && strings.HasSuffix(line, "("+o.resample+")")
	}) {
		cli.Unread(c, "where no position table is resampled: --size does", "resample")
	}
	newHead := m.Headless() && o.classes > 0
	if c := m.Config; newHead { // zero, as in the ViT paper's fine-tuning
		m.Variables["head/weights"] = tensors.FromShape(shapes.Make(dtypes.Float32, c.PooledWidth(), c.Classes))
		m.Variables["head/biases"] = tensors.FromShape(shapes.Make(dtypes.Float32, c.Classes))
	}
	b := openBackend(o.backend, 0)
	defer b.Finalize()
	out := cli.Output(c)
	must.M(o.write(out, b, m, dir))
	if o.options.Format != "onnx" { // Export compares it itself
		line, err := o.compared(b, m, dir, newHead)
		if err != nil {
			return fmt.Errorf("%s and %s: %w", path, dir, errors.Join(err, os.RemoveAll(dir)))
		}
		out.Field("compared", "%s", line)
	}
	out.Field("written", "%s", filepath.Clean(dir))
	return nil
}

// compared compares a model with its export in dir: the pooled features if both have no head, or a new head of zeros.
func (o *exporting) compared(b compute.Backend, m *checkpoints.Imported, dir string, newHead bool) (string, error) {
	again, err := checkpoints.Import(dir, checkpoints.ImportOptions{HeadOptional: true,
		Hints: checkpoints.Hints{AssumeSquare: true}})
	if err != nil {
		return "", fmt.Errorf("opening the result again: %w", err)
	}
	headless := m.Headless() || o.options.Headless
	if headless != again.Headless() {
		return "", errors.New("the result has no head")
	}
	return difference(b, m, again, newHead || headless, 2, 1, tolerance(o.options.DType))
}

// difference compares the logits of two models on random images; of models without a head, or with one of zeros, the
// pooled features.
func difference(b compute.Backend, m, other *checkpoints.Imported, features bool, images int, seed uint64,
	tolerance float64) (line string, err error) {
	if features {
		drawHead(m)
		drawHead(other)
	}
	noise := checkpoints.Noise(m.Config, images, seed)
	want, failed := m.Logits(b, noise)
	got, err := other.Logits(b, noise)
	if err := errors.Join(failed, err); err != nil {
		return "", err
	}
	if line, err = judge(got, want, images, tolerance); err == nil && features {
		line = "pooled features, by a random head: " + line
	}
	return line, err
}

// drawHead replaces the head by a random one.
func drawHead(m *checkpoints.Imported) {
	const classes = 7
	m.Config.Classes = classes
	weights := make([]float32, m.Config.PooledWidth()*classes)
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range weights {
		weights[i] = float32(rng.NormFloat64())
	}
	m.Variables["head/weights"] = tensors.FromFlatDataAndDimensions(weights, m.Config.PooledWidth(), classes)
	m.Variables["head/biases"] = tensors.FromShape(shapes.Make(dtypes.Float32, classes))
}

// write exports a model, and prints the report.
func (o *exporting) write(out cli.Printer, b compute.Backend, m *checkpoints.Imported, dir string) error {
	o.options.Labels, o.options.Activation, o.options.Preprocess = m.Names, m.Activation, m.Preprocess
	store, config := model.NewStore(), m.Config
	must.M(m.Load(store.Scope("/vit")))
	for name, value := range m.Params {
		store.SetParam("/"+name, value)
	}
	if o.fold && config.Position != config.Encoding().Folded() {
		store, config = must.M2(config.Fold(b, store.Scope("/vit")))
	}
	lines, err := checkpoints.Export(dir, b, store.Scope("/vit"), config, o.options)
	for _, line := range append(m.Report[1:], lines...) {
		out.Printf("%s\n", line)
	}
	return err
}

// tolerance bounds the difference of logits after rounding to a type: 1e-4 for float32; for others more, by the ratio
// of the types' roundings, with a margin for depth.
func tolerance(dtype string) float64 {
	return map[string]float64{"float16": 2e-2, "bfloat16": 1e-1}[dtype] + 1e-4
}

func judge(got, want []float32, images int, tolerance float64) (string, error) {
	d, scale := numeric.Difference(got, want)
	line := fmt.Sprintf("logits on %d random images differ by %.3g at most, the largest is %.3g", images, d, scale)
	if !(d <= tolerance*max(1, scale)) {
		return "", fmt.Errorf("%s: more than the tolerance of %g", line, tolerance)
	}
	return line, nil
}
