// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The tables of the authors' wef_pe_lut.py differ from ours: nodes contain compressed features, axes are (u, v), ω3′ is
// not stored, and queries are half a node off: node i is at u = i/(R-1) but is read at u = (i+½)/R. The same gather
// reads both kinds.
func TestQueries_of_released_tables_come_out_of_the_same_gather(t *testing.T) {
	fixtures.Each(t, testQueries_of_released_tables_come_out_of_the_same_gather)
}

func testQueries_of_released_tables_come_out_of_the_same_gather(t *testing.T) {
	tensors := fixtures.Tensors(t, "official_lut", "tensors.safetensors")
	compared := 0
	for _, mode := range []string{"pretraining", "finetuning"} {
		for name, want := range tensors {
			var resolution, rows, cols int
			if n, _ := fmt.Sscanf(name, mode+".r%d.query.%dx%d", &resolution, &rows, &cols); n != 3 {
				continue
			}
			table, stored := tensors[fmt.Sprintf("%s.r%d.lut", mode, resolution)] // [R, R, 4], u slowest
			if !stored {
				continue
			}
			x, y := grid{rows: cols, cols: rows}.centres() // first axis the column, as in the release
			for i := range x {
				x[i], y[i] = x[i]*float64(resolution)-0.5, y[i]*float64(resolution)-0.5
			}
			got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{bilinear(in[0], x, y)} }, gomlxtest.Input(table))
			if worst := distance(got[0], want.Data); !(worst <= 2e-5) {
				t.Errorf("%s: features off by %.3g", name, worst)
			}
			compared++
		}
	}
	if compared == 0 {
		t.Fatal("no query of a table that is stored")
	}
}
