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
	"slices"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// study is a comparison: every unit is a training, on the same images in the same order as the others of its seed.
type study struct {
	options
	recipe      finetune.Recipe
	train, test *data.Set
	backend     compute.Backend
}

// run trains what is this shard's and reports on all that is done.
func (s study) run(ctx context.Context) error {
	units := s.units()
	length := fmt.Sprintf("%d epochs", s.recipe.Epochs)
	if s.recipe.Steps > 0 {
		length = fmt.Sprintf("%d steps", s.recipe.Steps)
	}
	part := ""
	if s.shard.Of > 1 {
		part = fmt.Sprintf(", of which part %d of %d", s.shard.Index, s.shard.Of)
	}
	fmt.Fprintf(os.Stderr, "recipe %s: %d training and %d test images of %s, %s, %d trainings%s, results in %s\n",
		s.recipe.Name, s.train.Len(), s.test.Len(), s.train.Name, length, len(units), part, s.home())
	for i, u := range units {
		if s.table || !s.shard.Has(i) {
			continue
		}
		if err := s.do(ctx, u); errors.Is(err, finetune.ErrInterrupted) {
			return fmt.Errorf("%s: %w: all is saved, the same command goes on from there", u.title(), err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", u.title(), err)
		}
	}
	return s.report(units)
}

// do is one training.
func (s study) do(ctx context.Context, u unit) error {
	recipe, err := u.recipe(s.recipe)
	if err != nil {
		return err
	}
	train, err := s.train.Fraction(u.fraction, 42)
	if err != nil {
		return err
	}
	run := finetune.Run{
		Backend: s.backend, Recipe: recipe, Seed: int64(u.seed), Train: train, Test: s.test, Fraction: u.fraction,
		Label: u.label, From: s.from, Import: checkpoints.ImportOptions{AssumeSquare: s.assumeSquare},
		Dir: s.dir(u), Progress: progress.New(u.title()),
		Log: func(line string) { progress.Line(u.title() + ": " + line) },
	}
	model, row, err := run.Do(ctx)
	if err != nil {
		return err
	}
	defer model.Finalize()
	if _, err := os.Stat(filepath.Join(run.Dir, finetune.PageFile)); err == nil {
		return nil // done before
	}
	field, err := drawField(model, run.Dir)
	if err != nil {
		return err
	}
	return run.Page(model, row, field...)
}

// results reads the rows of the units that are done, wherever they were.
func (s study) results(units []unit) (rows report.Rows, missing int, err error) {
	for _, u := range units {
		read, err := report.ReadFiles(filepath.Join(s.dir(u), finetune.RowsFile))
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		} else if err != nil {
			return rows, 0, err
		}
		if len(read.Results) == 0 {
			missing++
		}
		rows.Results, rows.Evals = append(rows.Results, read.Results...), append(rows.Evals, read.Evals...)
	}
	return rows, missing, nil
}

// report prints the table of what is done and draws the curves.
func (s study) report(units []unit) (err error) {
	rows, missing, err := s.results(units)
	if err != nil {
		return err
	}
	spec := report.Spec{}
	if len(s.variants) > 1 {
		spec.Baseline = s.variants[len(s.variants)-1].label
		for _, v := range s.variants {
			if v.label == "learned" || v.label == "wepe" && s.study.name == "ablation" {
				spec.Baseline = v.label
			}
		}
	}
	if len(s.sizes) > 1 {
		spec.GroupBy = append(spec.GroupBy, "recipe")
	}
	if len(s.fractions) > 1 {
		spec.GroupBy = append(spec.GroupBy, "fraction")
	}
	spec.GroupBy = append(spec.GroupBy, "encoding")
	if s.data != "" && s.folder == "" && s.from == "" {
		spec.Published, spec.Conditions = published, conditions
		if s.recipe.Architecture == finetune.DHVT {
			spec.Published, spec.Conditions = publishedDHVT, conditionsDHVT
		}
	}
	table, err := report.Tabulate(rows.Results, spec)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s, recipe %s", s.train.Name, s.recipe.Name)
	fmt.Printf("\n%s, chance is %.1f %%\n\n%s\n", title, 100/float64(len(s.train.Classes)), table.Text())
	if missing > 0 {
		fmt.Printf("%d of %d trainings are not done yet\n", missing, len(units))
	}
	if len(rows.Evals) == 0 {
		return nil
	}
	for _, size := range s.sizes {
		for _, fraction := range s.fractions {
			if err := s.draw(unit{size: size, fraction: fraction}, rows.Evals); err != nil {
				return err
			}
		}
	}
	fmt.Println("encodings:", filepath.Join(s.home(), "*", "field.png"))
	fmt.Println("pages:    ", filepath.Join(s.home(), "*", finetune.PageFile))
	return nil
}

// draw leaves the curves of the runs that share a unit's size and fraction.
func (s study) draw(shared unit, evals []report.Eval) error {
	recipe, err := shared.recipe(s.recipe)
	if err != nil {
		return err
	}
	evals = slices.DeleteFunc(slices.Clone(evals), func(e report.Eval) bool {
		return e.Recipe != recipe.Name || e.Fraction != shared.fraction
	})
	pictures := []string{"curves"}
	draw := map[string]func(io.Writer) error{
		"curves":  func(w io.Writer) error { return report.Curves(w, recipe.Name, evals) },
		"scalars": func(w io.Writer) error { return report.Scalars(w, "", evals) },
	}
	switch {
	case len(evals) == 0:
		return nil
	case report.HasScalars(evals):
		pictures = append(pictures, "scalars")
	}
	for _, name := range pictures {
		path := filepath.Join(s.home(), name+shared.suffix()+".png")
		if err := report.Picture(path, draw[name]); err != nil {
			return err
		}
		fmt.Printf("%-10s %s\n", name+":", path)
	}
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
	for _, u := range s.units() {
		model, err := finetune.Open(s.backend, s.dir(u))
		if err != nil {
			return err
		}
		m, err := model.Evaluate(s.test)
		model.Finalize()
		if err != nil {
			return err
		}
		fmt.Printf("%-17s  loss %.4f  top-1 %.2f %%  top-5 %.2f %%  of %d images\n", u.title(),
			float64(m.Loss), 100*float64(m.Top1), 100*float64(m.Top5), m.Images)
	}
	return nil
}
