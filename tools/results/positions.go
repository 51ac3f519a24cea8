// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// parameters counts the trainable parameters that an encoding adds to a published model.
func parameters(name, position string, params map[string]any) int {
	c := must.M1(vit.Variant(name))
	c.Position = position
	return weight.Count(func(scope *model.Scope, images *graph.Node) *graph.Node {
		scope.Store().SetParams(params)
		c.Encoder(scope)
		return images
	}, c.ImageRows, c.ImageCols, c.Channels)
}

// descriptions are the formulas of the table.
var descriptions = map[string]string{
	"none":            "no positions",
	"learned":         "x + T, T [1+N, width] free",
	"sinusoidal1d":    "x + sin, cos of the token index",
	"sincos2d":        "x + sin, cos of row and column",
	"grid2d":          "x + T(row, col), resampled in the graph",
	"factorized":      "x + R(row) + C(col)",
	"lape":            "LN(x) + T_l, T_l = LN(T_{l-1})",
	"rope1d":          "rotation by k·θ^(−2i/d)",
	"rope-axial":      "rotation by col·f, row·f",
	"rope-mixed":      "rotation by col·u + row·w, u and w learned",
	"rope-mixed-qkv":  "rope-mixed on q, k and v, outputs turned back",
	"rope-dinov3":     "rope-axial over [−1, 1]",
	"as2drope":        "rope-axial scaled by rows",
	"fope":            "rope1d, mixed frequencies",
	"liere":           "rotation by exp(yA₀ + xA₁), A learned",
	"wepe":            "x + β·LN(tanh(α[℘, ℘′])W + b)",
	"wepe-sum":        "wepe from the paper's truncated sums",
	"wepe-sphere":     "x + β·LN([S(αw), S(αw′)]W + b)",
	"wepe-qkv":        "q, k, v ∘ (1 + fA), (1 + fB), (1 + fC) in each block",
	"fourier-qkv":     "wepe-qkv, f = sin and cos of πkx, πky",
	"wepe-v":          "v ∘ (1 + fC) in each block",
	"fourier-v":       "wepe-v, f = sin and cos of πkx, πky",
	"legendre-v":      "wepe-v, f = Legendre polynomials of x, y",
	"free-v":          "v ∘ (1 + 2T), T [N, width] free in each block",
	"wepe-lut":        "wepe from a look-up table",
	"wepe-sphere-lut": "wepe-sphere from a look-up table",
	"hybrid":          "x + λ·WePE + (1−λ)·T",
	"relative-table":  "scores + T_h(row, col difference)",
	"wepe-bias":       "scores + tanh(α[℘(Δz), ℘′(Δz)])W_h",
	"alibi2d":         "scores − m_h·distance",
	"lookhere":        "scores − m·distance within a view",
	"cpe":             "x + depthwise 3×3 convolution after block 1",
}

// positionsTable lists the encodings with their parameters at Ti/16.
func positionsTable() report.Table {
	table := report.Table{Header: []string{"name", "acts as", "formula", "parameters"}, TextColumns: 3}
	for _, p := range position.All() {
		name := "`" + p.Name + "`"
		if p.Source != "" {
			name = fmt.Sprintf("[%s](%s)", name, p.Source)
		}
		table.Rows = append(table.Rows, []string{name, p.Kind.String(), cmp.Or(descriptions[p.Name], p.Doc),
			printable.Thousands(parameters("Ti/16", p.Name, nil))})
	}
	return table
}
