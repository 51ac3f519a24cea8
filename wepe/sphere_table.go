// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// sphereTable is what a table of an encoding on the sphere holds: S(w) and S(w′) over the whole cell, 6 numbers a
// node. They are smooth everywhere, so that nothing is taken off, and any part of any multiple of the cell can be
// looked up. α_scale acts on what is looked up.
const sphereTable tableKind = "sphere"

// channels is how many numbers a node has.
func (k tableKey) channels() int {
	if k.Kind == sphereTable {
		return 6
	}
	return 4
}

// sphere returns S(w) and S(w′) at points in periods, side by side.
func (k tableKey) sphere() (func(x, y float64) []float64, error) {
	if err := k.validate(); err != nil {
		return nil, err
	}
	lattice, err := weierstrass.NewLattice(k.halfPeriods())
	if err != nil {
		return nil, err
	}
	sphere := lattice.Sphere()
	return func(x, y float64) []float64 {
		point, prime := sphere.At(complex(x*2*lattice.Omega1(), y*2*lattice.Omega3p()))
		return append(point[:], prime[:]...)
	}, nil
}

// lookUpSphere returns the features of the patches out of the stored table.
func (e *Encoder) lookUpSphere(g *Graph) *Node {
	key, err := e.checkTable()
	if err != nil {
		exceptions.Panicf("%v", err)
	}
	nodes := e.scope.At(scopeTable).GetVariable(nameTableValues).NodeValue(g) // [resolution, resolution, 6]
	x, y := e.config.patches()
	place := func(periods []float64) []float64 {
		periods = e.scaled(periods)
		for i, x := range periods {
			periods[i] = (x - math.Floor(x)) * float64(key.Resolution-1)
		}
		return periods
	}
	f := bilinear(nodes, place(x), place(y)) // [views·n, 6]

	// weierstrass.Dilated.
	s := e.config.mode.alphaScale(e.alphaScale.NodeValue(g))
	var parts []*Node
	for i := 0; i < e.config.numFeatures()/e.config.views(); i += 3 {
		height := channel(f, i+2)
		top, bottom := Mul(Square(s), AddScalar(height, 1)), OneMinus(height)
		sum := Add(top, bottom)
		parts = append(parts, Div(MulScalar(Mul(s, channel(f, i)), 2), sum),
			Div(MulScalar(Mul(s, channel(f, i+1)), 2), sum), Div(Sub(top, bottom), sum))
	}
	return e.sideBySide(Stack(parts, -1))
}
