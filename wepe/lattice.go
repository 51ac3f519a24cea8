// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// lattice computes ℘ and ℘′ of a learned lattice and compresses them to features. It takes points in periods: (x, y) is
// z = x·2ω1 + y·2ω3. With several scales it uses similar lattices, each smaller than the last; with several harmonics
// each lattice is evaluated at z, 2z, 3z, ….
type lattice struct {
	config             Config
	omega3, alphaScale *model.Variable // scalars, raw
	omega3Re           *model.Variable // Re ω3, a scalar; nil on a rectangular lattice
}

func newLattice(c Config, scope *model.Scope) lattice {
	c.refuseOtherForm(scope)
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

// omega3p returns the effective ω3′, a scalar.
func (l *lattice) omega3p(g *Graph) *Node { return l.config.mode.omega3(l.omega3.NodeValue(g)) }

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
	return ComplexNode{along, Mul(across, l.omega3p(g))}
}

// scaled returns the coordinates in the periods of each lattice, one view after the other, (11.7).
func (c Config) scaled(periods []float64) (out []float64) {
	periods = slices.Clone(periods)
	for range c.scales {
		for n := range c.harmonics {
			for _, x := range periods {
				out = append(out, float64(n+1)*x)
			}
		}
		for i := range periods {
			periods[i] *= c.scaleRatio
		}
	}
	return out
}

// reduced drops whole periods from the coordinates of points that move with the lattice. On the host this is exact; in
// the graph the periods would cancel in the gradient of ω3′, mathematics.md (3.10).
func (l *lattice) reduced(periods []float64) []float64 {
	if l.config.mode == release || l.config.evaluation == evaluateSum {
		return periods
	}
	out := make([]float64, len(periods))
	for i, x := range periods {
		out[i] = x - math.Round(x)
	}
	return out
}

// values returns ℘ and ℘′ at points given in periods, each [views·len(x)], one view after the other.
func (l *lattice) values(g *Graph, x, y []float64) (p, pPrime ComplexNode) {
	z, omega1 := l.viewed(g, x, y)
	if l.config.evaluation == evaluateSum {
		return l.config.sum.P(z, omega1, l.poles(omega1))
	}
	return inLattice(z, l.basis(omega1))
}

// poles returns the modulus of the imaginary half-period of ℘.
func (l *lattice) poles(omega1 *Node) *Node {
	if l.config.mode == release {
		return omega1
	}
	return l.omega3p(omega1.Graph())
}

func (l *lattice) basis(omega1 *Node) basis {
	omega3p := l.poles(omega1)
	if l.omega3Re != nil {
		return reducedBasis(omega1, ComplexNode{l.omega3Re.NodeValue(omega1.Graph()), omega3p})
	}
	return rectangle(omega1, omega3p)
}

// viewed returns z of points given in periods, [views·len(x)], and ω1.
func (l *lattice) viewed(g *Graph, x, y []float64) (z ComplexNode, omega1 *Node) {
	z = l.points(g, l.reduced(l.config.scaled(x)), l.reduced(l.config.scaled(y)))
	if l.config.shift > 0 && l.config.scope.IsTraining(g) {
		z = l.moved(g, z)
	}
	return z, Scalar(g, l.config.dtype, l.config.omega1)
}

// features returns the compressed ℘ and ℘′ at points given in periods, [len(x), numFeatures].
func (l *lattice) features(g *Graph, x, y []float64) *Node {
	if l.config.compression == compressSphere {
		return l.onSphere(g, x, y)
	}
	return l.compressed(l.values(g, x, y))
}

// onSphere returns S(α_scale·w) and S(α_scale·w′) of each view, (14.22).
func (l *lattice) onSphere(g *Graph, x, y []float64) *Node {
	z, omega1 := l.viewed(g, x, y)
	point, prime := sphere(z, l.basis(omega1), l.config.mode.alphaScale(l.alphaScale.NodeValue(g))) // [views·n, 3]
	if l.config.derivative {
		point = Concatenate([]*Node{point, prime}, -1)
	}
	return l.sideBySide(point)
}

// compressed returns tanh(α_scale·f) for f = Re ℘, Im ℘, Re ℘′, Im ℘′ of each view. ℘ and ℘′ are [views·n].
func (l *lattice) compressed(p, pPrime ComplexNode) *Node {
	parts := []*Node{p.Re, p.Im}
	if l.config.derivative {
		parts = append(parts, pPrime.Re, pPrime.Im)
	}
	alphaScale := l.config.mode.alphaScale(l.alphaScale.NodeValue(p.Re.Graph()))
	return l.sideBySide(Tanh(Mul(alphaScale, Stack(parts, -1)))) // [views·n, parts]
}

// sideBySide rearranges the features of one view after the other, [views·n, parts], to rows [n, views·parts].
func (l *lattice) sideBySide(f *Node) *Node {
	if views := l.config.views(); views > 1 {
		f = TransposeAllAxes(Reshape(f, views, -1, f.Shape().Dim(-1)), 1, 0, 2) // [n, views, parts]
		f = Reshape(f, -1, l.config.numFeatures())
	}
	return f
}

// views is the number of evaluations of each point.
func (c Config) views() int { return c.scales * c.harmonics }

// numFeatures is the length of a row of features.
func (c Config) numFeatures() int {
	parts := map[compression]int{compressTanh: 2, compressSphere: 3}[c.compression]
	if c.derivative {
		parts *= 2
	}
	return parts * c.views()
}

// oblique reports whether ω3 has a real part, now or after training.
func (c Config) oblique() bool { return c.omega3Re != 0 || c.learnOblique }

// formScope is the name of the scope for the variables of an encoding. Each compression has its own, so that a saved
// model opens only in its own form.
func (c Config) formScope(name string) string {
	if c.compression == compressSphere {
		return name + sphereSuffix
	}
	return name
}

// refuseOtherForm panics if the model's variables belong to the other compression.
func (c Config) refuseOtherForm(scope *model.Scope) {
	path, sphere := strings.CutSuffix(scope.Scope(), sphereSuffix)
	if !sphere {
		path += sphereSuffix
	}
	if scope.Store().GetVariable(model.JoinPath(path, nameAlphaScale)) != nil {
		exceptions.Panicf("wepe: %s = %q, but the model has the variables of another one in %q", paramCompression,
			c.compression, path)
	}
}
