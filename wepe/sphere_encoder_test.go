// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// The addition formula for the features: shifting an even grid by half is a rotation.
func TestFeatures_on_the_sphere_turn_where_the_grid_is_shifted_by_half_a_cell(t *testing.T) {
	const rows, cols = 4, 6
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		e := New(s, rows, cols, 6).OnSphere().with(kv{ParamDerivative: false, ParamOmega3: 2.1}).Done()
		return []*Node{e.Features(in[0].Graph())}
	}, float32(0))[0]
	lattice, err := weierstrass.NewLattice(weierstrass.OmegaSquare, 2.1)
	if err != nil {
		t.Fatal(err)
	}
	v := lattice.Invariants()
	k, complement := math.Sqrt((v.E2-v.E3)/(v.E1-v.E3)), math.Sqrt((v.E1-v.E2)/(v.E1-v.E3)) // the axes, (14.10)
	for axis, shift := range map[[3]float64][2]int{
		{k, 0, complement}: {0, cols / 2}, {0, 1, 0}: {rows / 2, cols / 2}, {complement, 0, -k}: {rows / 2, 0},
	} {
		for row := range rows {
			for col := range cols {
				from := got[3*(row*cols+col):]
				to := got[3*((row+shift[0])%rows*cols+(col+shift[1])%cols):]
				along := axis[0]*from[0] + axis[1]*from[1] + axis[2]*from[2]
				for i, n := range axis { // a half-turn
					if d := math.Abs(2*along*n - from[i] - to[i]); !(d < 2e-6) {
						t.Errorf("a shift by %v turns patch (%d, %d) about %v but for %.2g", shift, row, col, axis, d)
					}
				}
			}
		}
	}
}

func TestEncoder_OpensInItsOwnForm(t *testing.T) {
	for _, saved := range []compression{compressTanh, compressSphere} {
		store := model.NewStore()
		if _, err := built(store, kv{byCompression: saved}); err != nil {
			t.Fatal(err)
		}
		for _, opened := range []compression{compressTanh, compressSphere} {
			_, err := built(store, kv{byCompression: opened})
			if opened == saved && err != nil {
				t.Errorf("%s: %v", saved, err)
			} else if opened != saved {
				refused(t, "another form", err, "")
			}
		}
	}
}
