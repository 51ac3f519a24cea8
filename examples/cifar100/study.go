// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/examples/internal/backends"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// study is the training of every encoding with every seed, on the same images in the same order.
type study struct {
	options
	recipe      finetune.Recipe
	train, test *data.Set
	backend     compute.Backend
}

// load returns the images that the flags name. The generated ones take a second and no disk.
func load(ctx context.Context, o options) (train, test *data.Set, err error) {
	if o.data == "" {
		train, test, err = data.Shapes(o.task, 3000, 1000, 32, 0)
	} else {
		train, test, err = data.CIFAR100(o.data)
		if errors.Is(err, fs.ErrNotExist) && o.download {
			if _, err = data.DownloadCIFAR100(ctx, o.data, func(done, total int64) {
				fmt.Fprintf(os.Stderr, "\rCIFAR-100: %d of %d MB", done>>20, total>>20)
			}); err == nil {
				train, test, err = data.CIFAR100(o.data)
			}
		}
	}
	if err == nil && o.fraction < 1 {
		train, err = train.Fraction(o.fraction, 42)
	}
	return train, test, err
}

// dir is where the run of one encoding and seed lives.
func (o options) dir(position string, seed int) string {
	return filepath.Join(o.checkpoint, o.recipe, fmt.Sprintf("%s-seed%d", position, seed))
}

// run trains, seed by seed so that an early look compares like with like, and reports.
func (s study) run(ctx context.Context) error {
	length := fmt.Sprintf("%d epochs", s.recipe.Epochs)
	if s.recipe.Steps > 0 {
		length = fmt.Sprintf("%d steps", s.recipe.Steps)
	}
	fmt.Fprintf(os.Stderr, "recipe %s: %d training and %d test images of %s, %s, encodings %v, %d seeds, "+
		"results in %s\n", s.recipe.Name, s.train.Len(), s.test.Len(), s.train.Name, length, s.positions, s.seeds,
		filepath.Join(s.checkpoint, s.options.recipe))
	var runs []report.Run
	var evals []report.Eval
	for seed := range s.seeds {
		for _, position := range s.positions {
			title := fmt.Sprintf("%s seed %d", position, seed)
			recipe := s.recipe
			recipe.Model.Position = position
			run := finetune.Run{
				Backend: s.backend, Recipe: recipe, Seed: int64(seed), Train: s.train, Test: s.test, Fraction: s.fraction,
				From: s.from, Import: checkpoints.ImportOptions{AssumeSquare: s.assumeSquare},
				Dir: s.dir(position, seed), Progress: progress.New(title),
				Log: func(line string) { progress.Line(title + ": " + line) },
			}
			model, row, err := run.Do(ctx)
			if errors.Is(err, finetune.ErrInterrupted) {
				return fmt.Errorf("%s: %w: all is saved, the same command goes on from there", title, err)
			} else if err != nil {
				return fmt.Errorf("%s: %w", title, err)
			}
			rows, err := report.ReadFiles(filepath.Join(run.Dir, finetune.RowsFile))
			if err != nil {
				return err
			}
			runs, evals = append(runs, row), append(evals, rows.Evals...)
			field, err := drawField(model, run.Dir)
			if err != nil {
				return err
			}
			if err := run.Page(model, row, field...); err != nil {
				return err
			}
		}
	}
	return s.report(runs, evals)
}

// report prints the table and draws the curves of all runs.
func (s study) report(runs []report.Run, evals []report.Eval) (err error) {
	spec := report.Spec{}
	if len(s.positions) > 1 {
		spec.Baseline = s.positions[len(s.positions)-1]
		for _, p := range s.positions {
			if p == "learned" {
				spec.Baseline = p
			}
		}
	}
	table, err := report.Tabulate(runs, spec)
	if err != nil {
		return err
	}
	path := filepath.Join(s.checkpoint, s.options.recipe, "curves.png")
	title := fmt.Sprintf("%s, recipe %s", s.train.Name, s.recipe.Name)
	fmt.Printf("\n%s, chance is %.1f %%\n\n%s\n", title, 100/float64(len(s.train.Classes)), table.Text())
	if err := report.Picture(path, func(w io.Writer) error { return report.Curves(w, title, evals) }); err != nil {
		return err
	}
	fmt.Println("curves:   ", path)
	if report.HasScalars(evals) {
		path := filepath.Join(filepath.Dir(path), "scalars.png")
		if err := report.Picture(path, func(w io.Writer) error { return report.Scalars(w, "", evals) }); err != nil {
			return err
		}
		fmt.Println("scalars:  ", path)
	}
	fmt.Println("encodings:", filepath.Join(s.checkpoint, s.options.recipe, "*", "field.png"))
	fmt.Println("pages:    ", filepath.Join(s.checkpoint, s.options.recipe, "*", finetune.PageFile))
	return nil
}

// drawField leaves a picture of what the encoding of a trained model knows of each patch, and returns it for the page.
func drawField(model *finetune.Model, dir string) ([]report.Figure, error) {
	features, vectors, err := model.Encoding()
	if err != nil || vectors == nil {
		return nil, err
	}
	c := model.Recipe.Model
	field := analysis.Field{Title: c.Position, Rows: c.Rows(), Cols: c.Cols(), Features: features, Vectors: vectors}
	var picture bytes.Buffer
	if err := field.Draw(&picture); err != nil {
		return nil, err
	}
	figure := report.Figure{Title: "What the encoding knows of each patch", PNG: picture.Bytes(),
		Caption: "Its features over the patch grid, where it has them, and how alike the vector of each position is to " +
			"that of the centre patch."}
	return []report.Figure{figure}, report.Picture(filepath.Join(dir, "field.png"), field.Draw)
}

// evaluate measures the trained models on the test images.
func (s study) evaluate() error {
	for seed := range s.seeds {
		for _, position := range s.positions {
			model, err := finetune.Open(s.backend, s.dir(position, seed))
			if err != nil {
				return err
			}
			m, err := model.Evaluate(s.test)
			if err != nil {
				return err
			}
			fmt.Printf("%-10s seed %d  loss %.4f  top-1 %.2f %%  top-5 %.2f %%  of %d images\n", position, seed,
				float64(m.Loss), 100*float64(m.Top1), 100*float64(m.Top5), m.Images)
		}
	}
	return nil
}

// predict names what the first trained model sees in image files.
func predict(o options) error {
	backend, err := backends.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	model, err := finetune.Open(backend, o.dir(o.positions[0], 0))
	if err != nil {
		return err
	}
	for _, file := range o.predict {
		classes, err := model.Predict(file, o.top)
		if err != nil {
			return err
		}
		fmt.Println(file)
		for _, c := range classes {
			fmt.Printf("  %5.1f %%  %s\n", 100*c.Probability, c.Name)
		}
	}
	return nil
}
