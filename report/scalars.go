// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// Size of one panel of Scalars.
const panelWidth, panelHeight = 4 * vg.Inch, 2.7 * vg.Inch

// symbols are the known scalars of the encodings (the Scalars methods of package wepe) in the order of their panels,
// as formulas call them.
var symbols = []struct{ name, symbol string }{
	{"lambda", "gate λ"}, {"omega3", "ω3′"}, {"omega3_re", "Re ω3"}, {"alpha_scale", "α_scale"}, {"beta_pos", "β_pos"},
	{"beta", "β"}, {"gamma", "γ"}, {"strength", "strength σ"}, {"scale", "scale s"},
}

// Scalars draws the numbers that the encodings learned over the steps, as a PNG: one panel per scalar, colours, seeds
// and means as in Curves. An encoding without a scalar is absent from its panel; what no run moves has none, unless
// nothing moves at all.
func Scalars(w io.Writer, evals []Eval) error {
	curves := collect(evals, drawnSplit(evals))
	names := scalarNames(curves)
	if len(names) == 0 {
		return fmt.Errorf("report: no rows with scalars to draw")
	}
	cols := min(3, len(names))
	if len(names) == 4 {
		cols = 2
	}
	var plots [][]*plot.Plot
	for i, name := range names {
		if i%cols == 0 {
			plots = append(plots, make([]*plot.Plot, cols))
		}
		plots[i/cols][i%cols] = scalarPlot(curves, name)
	}
	return drawPlots(w, vg.Length(cols)*panelWidth, vg.Length(len(plots))*panelHeight, plots)
}

// HasScalars reports whether any row has a scalar to draw.
func HasScalars(evals []Eval) bool {
	return slices.ContainsFunc(evals, func(e Eval) bool { return len(e.Scalars) > 0 })
}

// scalarNames lists the scalars that some run moves, or where none is moved all: the known ones first, then others by
// name.
func scalarNames(curves []curve) (names []string) {
	present, moved := make(map[string]bool), make(map[string]bool)
	for _, c := range curves {
		for _, seed := range c.seeds {
			for _, e := range seed {
				for name, value := range e.Scalars {
					present[name] = true
					first, ok := seed[0].Scalars[name]
					if !ok || math.Abs(float64(value-first)) > 1e-6*math.Abs(float64(first)) {
						moved[name] = true
					}
				}
			}
		}
	}
	if len(moved) > 0 {
		present = moved
	}
	for _, s := range symbols {
		if present[s.name] {
			names = append(names, s.name)
			delete(present, s.name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(present))...)
}

// symbol is what formulas call a scalar.
func symbol(name string) string {
	for _, s := range symbols {
		if s.name == name {
			return s.symbol
		}
	}
	return name
}

func scalarPlot(curves []curve, name string) *plot.Plot {
	p := newPlot(symbol(name), "")
	for i, c := range curves {
		drawSeries(p, c, palette[i%len(palette)], "%.3g", func(e Eval) float64 {
			if v, ok := e.Scalars[name]; ok {
				return float64(v)
			}
			return math.NaN()
		})
	}
	return p
}
