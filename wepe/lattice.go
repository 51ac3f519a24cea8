// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// lattice is ℘ and ℘′ of a learned lattice, compressed to features. It takes points in periods: (x, y) is
// z = x·2ω1 + y·2ω3.
type lattice struct {
	config             Config
	omega3, alphaScale *model.Variable // scalars, raw
}

func newLattice(c Config, scope *model.Scope) lattice {
	return lattice{
		config: c,
		omega3: scalarVariable(scope, nameOmega3, c.dtype, softplusInverse(c.omega3), c.learnLattice),
		alphaScale: scalarVariable(scope, nameAlphaScale, c.dtype, c.mode.rawAlphaScale(c.alphaScale),
			c.learnAlphaScale),
	}
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
	return ComplexNode{ConstAsDType(g, c.dtype, re), Mul(ConstAsDType(g, c.dtype, im), l.Omega3(g))}
}

// reduced drops whole periods from a coordinate where points move with the lattice: here that is exact, in the graph the
// periods would cancel in the gradient of ω3′, mathematics.md (3.10).
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

// values returns ℘ and ℘′ at points given in periods, each [len(x)].
func (l *lattice) values(g *Graph, x, y []float64) (p, pPrime ComplexNode) {
	c := l.config
	z, omega1 := l.points(g, l.reduced(x), l.reduced(y)), Scalar(g, c.dtype, c.omega1)
	omega3p := omega1
	if c.mode == Paper {
		omega3p = l.Omega3(g)
	}
	if c.evaluation == EvaluateSum {
		return c.sum.P(z, omega1, omega3p)
	}
	return P(z, omega1, omega3p)
}

// features returns the compressed ℘ and ℘′ at points given in periods.
func (l *lattice) features(g *Graph, x, y []float64) *Node { return l.compressed(l.values(g, x, y)) }

// compressed returns tanh(α_scale·f) for f = Re ℘, Im ℘, Re ℘′, Im ℘′, each [n]: [n, 4], or [n, 2] without derivative.
func (l *lattice) compressed(p, pPrime ComplexNode) *Node {
	parts := []*Node{p.Re, p.Im}
	if l.config.derivative {
		parts = append(parts, pPrime.Re, pPrime.Im)
	}
	alphaScale := l.config.mode.alphaScale(l.alphaScale.NodeValue(p.Re.Graph()))
	return Tanh(Mul(alphaScale, Stack(parts, -1)))
}

// numFeatures is the length of a row of features.
func (c Config) numFeatures() int {
	if c.derivative {
		return 4
	}
	return 2
}
