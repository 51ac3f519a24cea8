// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/report"
)

// writer writes the output of draw to a file.
type writer func(path string, draw func(io.Writer) error) error

// plots are the kinds of markers with a plot: what it shows, and how it is drawn.
var plots = map[string]struct {
	shows string
	draw  func(io.Writer, report.Rows) error
}{
	"curves:": {"loss and accuracy after each epoch", func(w io.Writer, r report.Rows) error {
		return report.PlotCurves(w, "", r.Evals)
	}},
	"sizes:": {"accuracy of the same weights at other sizes", func(w io.Writer, r report.Rows) error {
		return report.PlotSizes(w, r.Results)
	}},
	"dots:": {"test accuracy of each encoding and seed, and the parameters that it adds", func(w io.Writer,
		r report.Rows) error {
		named, _ := report.Counted(r.Results)
		for i, row := range named {
			var recipe finetune.Recipe
			if err := json.Unmarshal(row.Settings, &recipe); err != nil {
				return err
			}
			recipe.Model.Position = "none"
			without, err := recipe.Model.Resolve()
			if err != nil {
				return err
			}
			named[i].Encoding = fmt.Sprintf("+%d %s", row.Parameters-without.Parameters(), row.Encoding)
		}
		return dots(w, named)
	}},
}

// dots draws the test accuracy of each seed, the best encoding first.
func dots(w io.Writer, results []report.Result) error {
	of, mean := map[string][]float64{}, map[string]float64{}
	for _, r := range results {
		of[r.Encoding] = append(of[r.Encoding], 100*float64(r.Test.Top1))
		mean[r.Encoding] = stat.Mean(of[r.Encoding], nil)
	}
	names := slices.Sorted(maps.Keys(of))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(mean[b], mean[a]) })
	var values [][]float64
	for _, name := range names {
		values = append(values, of[name])
	}
	return figure.Dots(w, "each seed (dot) and mean (bar); + parameters added", "test top-1 accuracy (%)", names, values)
}
