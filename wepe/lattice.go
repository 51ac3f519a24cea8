// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// lattice is ℘ and ℘′ of a learned lattice, compressed to features. It takes points in periods: (x, y) is
// z = x·2ω1 + y·2ω3. With several scales it is as many lattices of one form, each smaller than the last.
type lattice struct {
	config             Config
	omega3, alphaScale *model.Variable // scalars, raw
	omega3Re           *model.Variable // Re ω3, a scalar; nil on a rectangular lattice
}

func newLattice(c Config, scope *model.Scope) lattice {
	l := lattice{
		config: c,
		omega3: scalarVariable(scope, nameOmega3, c.dtype, softplusInverse(c.omega3), c.learnLattice),
		alphaScale: scalarVariable(scope, nameAlphaScale, c.dtype, c.mode.rawAlphaScale(c.alphaScale),
			c.learnAlphaScale),
	}
	if c.oblique() {
		l.omega3Re = scalarVariable(scope, nameOmega3Re, c.dtype, c.omega3Re, c.learnOblique)
	}
	return l
}

// Omega3 returns the effective ω3′, a scalar.
func (l *lattice) Omega3(g *Graph) *Node { return l.config.mode.omega3(l.omega3.NodeValue(g)) }

// points returns z of points given in periods, [len(x)].
func (l *lattice) points(g *Graph, x, y []float64) ComplexNode {
	c := l.config
	re, im := make([]float64, len(x)), make([]float64, len(y))
	for i := range x {
		re[i], im[i] = 2*c.omega1*x[i], 2*y[i]
	}
	along, across := ConstAsDType(g, c.dtype, re), ConstAsDType(g, c.dtype, im)
	if l.omega3Re != nil {
		along = Add(along, Mul(across, l.omega3Re.NodeValue(g)))
	}
	return ComplexNode{along, Mul(across, l.Omega3(g))}
}

// scaled returns the coordinates as each of the lattices sees them, one lattice after the other, (11.7).
func (l *lattice) scaled(periods []float64) []float64 {
	out := slices.Clone(periods)
	for range l.config.scales - 1 {
		for _, x := range out[len(out)-len(periods):] {
			out = append(out, l.config.scaleRatio*x)
		}
	}
	return out
}

// reduced drops whole periods from a coordinate where points move with the lattice: here that is exact, in the graph
// the periods would cancel in the gradient of ω3′, mathematics.md (3.10).
func (l *lattice) reduced(periods []float64) []float64 {
	if l.config.mode == Release || l.config.evaluation == EvaluateSum {
		return periods
	}
	out := make([]float64, len(periods))
	for i, x := range periods {
		out[i] = x - math.Round(x)
	}
	return out
}

// values returns ℘ and ℘′ at points given in periods, each [scales·len(x)], one lattice after the other.
func (l *lattice) values(g *Graph, x, y []float64) (p, pPrime ComplexNode) {
	c := l.config
	z, omega1 := l.points(g, l.reduced(l.scaled(x)), l.reduced(l.scaled(y))), Scalar(g, c.dtype, c.omega1)
	omega3p := omega1
	if c.mode == Paper {
		omega3p = l.Omega3(g)
	}
	if c.evaluation == EvaluateSum {
		return c.sum.P(z, omega1, omega3p)
	}
	if l.omega3Re != nil {
		return POblique(z, omega1, ComplexNode{l.omega3Re.NodeValue(g), omega3p})
	}
	return P(z, omega1, omega3p)
}

// features returns the compressed ℘ and ℘′ at points given in periods.
func (l *lattice) features(g *Graph, x, y []float64) *Node { return l.compressed(l.values(g, x, y)) }

// compressed returns tanh(α_scale·f) for f = Re ℘, Im ℘, Re ℘′, Im ℘′ of each lattice: [n, 4·scales], or [n, 2·scales]
// without derivative. ℘ and ℘′ are [scales·n].
func (l *lattice) compressed(p, pPrime ComplexNode) *Node {
	parts := []*Node{p.Re, p.Im}
	if l.config.derivative {
		parts = append(parts, pPrime.Re, pPrime.Im)
	}
	alphaScale := l.config.mode.alphaScale(l.alphaScale.NodeValue(p.Re.Graph()))
	f := Tanh(Mul(alphaScale, Stack(parts, -1))) // [scales·n, parts]
	if l.config.scales > 1 {
		f = TransposeAllAxes(Reshape(f, l.config.scales, -1, len(parts)), 1, 0, 2) // [n, scales, parts]
		f = Reshape(f, -1, l.config.numFeatures())
	}
	return f
}

// numFeatures is the length of a row of features.
func (c Config) numFeatures() int {
	if c.derivative {
		return 4 * c.scales
	}
	return 2 * c.scales
}

// oblique says whether ω3 has a real part, now or after training.
func (c Config) oblique() bool { return c.omega3Re != 0 || c.learnOblique }
