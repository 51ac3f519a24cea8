// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/report"
)

func evaluate() *cobra.Command {
	var o opening
	var from, split, tta string
	var asJSON bool
	var images dataset.Options
	c := &cobra.Command{Use: "eval MODEL --data D", Short: "Measure a model: accuracy, loss, scores per class, confusion",
		Args: cobra.ExactArgs(1), Example: "  wepe eval runs/finetune-pets --data pets --split validation"}
	f := cli.FlagsOf(c)
	f.StringVar(&from, "data", "", cli.DataForms)
	_ = c.MarkFlagRequired("data")
	f.Choice(&split, "split", "default test, or validation where there is none; all: every image of a directory", "",
		"train", report.Validation, report.Test, dataset.AllSplits)
	o.flags(f)
	images.Flags(f)
	f.TestTime(&tta)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		d := must.M1(dataset.Open(c.Context(), from, images))
		m, done := o.open(c, args[0])
		defer done()
		d.Describe(m.Recipe.ValFraction)
		must.M(mirrored(m, tta))
		_, warning, err := m.Labelled(&data.Info{Name: d.Name, Classes: d.Classes}) // before the images are read
		if _, first := m.Preprocessing(); err != nil && first == nil {
			return fmt.Errorf("%w; to train it on this data: wepe train %s --data %s", err, printable.Shell(args[0]),
				printable.Shell(from))
		}
		if warning != "" {
			cli.Field("warning", "%s", warning)
		}
		set, split := must.M2(d.Split(c.Context(), split, m))
		metrics, confusion := must.M2(m.EvaluateWithConfusion(set))
		return cli.Answer(c, asJSON, map[string]any{"model": args[0], "weights": m.Source.String(),
			"sha256": m.Source.SHA256, "size": [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}, "tta": tta,
			"data": d.Name, "split": split, "metrics": metrics, "macro_f1": confusion.MacroF1(), "classes": confusion.Scores(),
			"confusion": confusion.Counts}, func(out cli.Printer) { printScores(out, split, metrics, confusion) })
	}
	return c
}

// mirrored makes a model average each image and its mirror image, by --tta flip.
func mirrored(m *finetune.Model, tta string) error {
	if tta == "none" {
		return nil
	}
	cli.Field("views", "%s: the mean of probabilities", tta)
	return m.AverageFlips()
}

const (
	shownScores    = 20 // maximum number of classes listed, the lowest F1 first
	shownConfusion = 12 // maximum number of classes for a printed confusion matrix
)

func printScores(out cli.Printer, split string, m report.Metrics, c report.Confusion) {
	out.Field(split, "%s, macro F1 %.2f %%, of %d images", m.Text(), 100*float64(c.MacroF1()), m.Images)
	table := c.Worst(shownScores)
	if len(c.Classes) > shownScores {
		table.Notes = append(table.Notes, "the classes with the lowest F1; --json prints all")
	}
	out.Print("\n" + table.Text())
	if len(c.Classes) > shownConfusion {
		return
	}
	matrix := report.Table{Header: append([]string{"class \\ predicted"}, c.Classes...), TextColumns: 1}
	for i, row := range c.Counts {
		line := []string{c.Classes[i]}
		for _, n := range row {
			line = append(line, strconv.Itoa(n))
		}
		matrix.Rows = append(matrix.Rows, line)
	}
	out.Print("\n" + matrix.Text())
}
