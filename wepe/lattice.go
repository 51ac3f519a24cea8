// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// lattice computes ℘ and ℘′ of a learned lattice and compresses them to features. It takes points in periods: (x, y) is
// z = x·2ω1 + y·2ω3. With several scales it uses similar lattices, each smaller than the last; with several harmonics
// each lattice is evaluated at z, 2z, 3z, ….
type lattice struct {
	config             Config
	scope              *model.Scope    // of the variables
	omega3, alphaScale *model.Variable // scalars, raw
	omega3Re           *model.Variable // Re ω3, a scalar; nil on a rectangular lattice
}

func newLattice(c Config, scope *model.Scope) lattice {
	c.refuseOtherForm(scope)
	l := lattice{
		config: c, scope: scope,
		omega3:     scalarVariable(scope, nameOmega3, softplusInverse(c.omega3), c.learnLattice),
		alphaScale: scalarVariable(scope, nameAlphaScale, c.mode.rawAlphaScale(c.alphaScale), c.learnAlphaScale),
	}
	if c.omega3Re != 0 {
		l.omega3Re = scalarVariable(scope, nameOmega3Re, c.omega3Re, false)
	}
	return l
}

// view holds points of a lattice and the lattice's scalars at each of them, [points]. Kernels of a GPU then have the
// size of the points, all of them, and the gradients of the points are added up in one, at the end.
type view struct {
	z, omega3          ComplexNode // Re ω3 is nil on a rectangular lattice
	omega1, alphaScale *Node
	poles              *Node          // half the distance of poles along the imaginary axis of a rectangular lattice
	basis              elliptic.Basis // of ℘
}

// scalars returns a view without z, of n points.
func (l *lattice) scalars(g *Graph, n int) (v view) {
	c := l.config
	omega1, omega3 := Scalar(g, dtypes.Float32, c.omega1), ComplexNode{Im: c.mode.omega3(l.omega3.NodeValue(g))}
	each := []*Node{omega3.Im, c.mode.alphaScale(l.alphaScale.NodeValue(g))}
	if l.omega3Re != nil {
		omega3.Re = l.omega3Re.NodeValue(g)
		b := elliptic.Reduced(omega1, omega3)
		each = append(each, omega3.Re, b.A.Re, b.A.Im, b.B.Re, b.B.Im)
	}
	each = kernel.Unstack(kernel.Once(BroadcastToDims(Stack(each, 0), len(each), n))[0])

	v.omega1, v.omega3.Im, v.alphaScale = BroadcastToDims(omega1, n), each[0], each[1]
	if l.omega3Re != nil {
		v.omega3.Re = each[2]
		v.basis = elliptic.Basis{A: ComplexNode{Re: each[3], Im: each[4]}, B: ComplexNode{Re: each[5], Im: each[6]},
			Oblique: true}
		return v
	}
	if v.poles = v.omega3.Im; c.mode == release {
		v.poles = v.omega1
	}
	v.basis = elliptic.Rectangle(v.omega1, v.poles)
	return v
}

// patches returns the points of the patches of a grid in periods, o_u + α_u·u and o_v + α_v·v: mathematics.md (6.1) and
// (6.2),
//
//	u = (col+½)/cols,  v = (row+½)/rows,  z = (o_u + α_u·u)·2ω1 + (o_v + α_v·v)·2ω3,  ω3 = Re ω3 + iω3′
//
// with the offsets o_u and o_v, 0 unless set.
func (c Config) patches(on grid) (x, y []float64) {
	u, v := on.centres()
	for k := range u {
		x, y = append(x, c.offsetU+c.alphaU*u[k]), append(y, c.offsetV+c.alphaV*v[k])
	}
	return x, y
}

// points returns z of points given in periods, [len(x)].
func (l *lattice) points(omega3 ComplexNode, x, y []float64) ComplexNode {
	c, g := l.config, omega3.Im.Graph()
	re, im := make([]float64, len(x)), make([]float64, len(y))
	for i := range x {
		re[i], im[i] = 2*c.omega1*x[i], 2*y[i]
	}
	along, across := ConstAsDType(g, dtypes.Float32, re), ConstAsDType(g, dtypes.Float32, im)
	if omega3.Re != nil {
		along = Add(along, Mul(across, omega3.Re))
	}
	return ComplexNode{Re: along, Im: Mul(across, omega3.Im)}
}

// scaled returns the coordinates in the periods of each lattice, one view after the other, (11.7).
func (c Config) scaled(periods []float64) (out []float64) {
	factor := 1.0
	for range c.scales {
		for n := range c.harmonics {
			for _, x := range periods {
				out = append(out, float64(n+1)*(factor*x))
			}
		}
		factor *= scaleRatio
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

// viewed returns points given in periods, one view after the other, [views·len(x)].
func (l *lattice) viewed(g *Graph, x, y []float64) view {
	x, y = l.reduced(l.config.scaled(x)), l.reduced(l.config.scaled(y))
	v := l.scalars(g, len(x))
	v.z = l.points(v.omega3, x, y)
	if l.config.shift > 0 && l.config.scope.IsTraining(g) {
		v.z = l.moved(v)
	}
	return v
}

// features returns the compressed ℘ and ℘′ of the patches of a grid, [rows·cols, numFeatures].
func (l *lattice) features(g *Graph, on grid) *Node {
	x, y := l.config.patches(on)
	return l.featuresAt(g, x, y)
}

// featuresAt returns the compressed ℘ and ℘′ at points given in periods, [len(x), numFeatures].
func (l *lattice) featuresAt(g *Graph, x, y []float64) *Node {
	v := l.viewed(g, x, y)
	if l.config.compression == compressSphere {
		return l.onSphere(v)
	}
	p, pPrime := l.values(v)
	return l.compressed(v.alphaScale, p, pPrime)
}

// values returns ℘ and ℘′.
func (l *lattice) values(v view) (p, pPrime ComplexNode) {
	if l.config.evaluation == evaluateSum {
		return l.config.sum.P(v.z, v.omega1, v.poles)
	}
	return elliptic.P(v.z, v.basis)
}

// onSphere returns S(α_scale·w) and S(α_scale·w′) of each view, (14.22).
func (l *lattice) onSphere(v view) *Node {
	point, prime := elliptic.Sphere(v.z, v.basis, v.alphaScale) // [views·n, 3]
	if l.config.derivative {
		point = Concatenate([]*Node{point, prime}, -1)
	}
	return l.sideBySide(point)
}

// compressed returns tanh(α_scale·f) for f = Re ℘, Im ℘, Re ℘′, Im ℘′ of each view. ℘ and ℘′ are [views·n].
func (l *lattice) compressed(alphaScale *Node, p, pPrime ComplexNode) *Node {
	parts := []*Node{p.Re, p.Im}
	if l.config.derivative {
		parts = append(parts, pPrime.Re, pPrime.Im)
	}
	for i, f := range parts {
		parts[i] = Tanh(Mul(alphaScale, f))
	}
	return l.sideBySide(Stack(parts, -1)) // [views·n, parts]
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
		refuse("", "an encoding on %s, but the model has the variables of another one in %q", c.compression, path)
	}
}

// FeatureNames implements Field.
func (l *lattice) FeatureNames() (names []string) {
	c := l.config
	parts := []string{"Re %s(%s)", "Im %s(%s)"}
	if c.compression == compressSphere {
		parts = []string{"S(%s(%s)) 1", "S(%s(%s)) 2", "S(%s(%s)) 3"}
	}
	factor := 1.0
	for range c.scales {
		for n := range c.harmonics {
			z := "z"
			if by := factor * float64(n+1); by != 1 {
				z = fmt.Sprintf("%.3gz", by)
			}
			for _, f := range []string{"P", "P′"} {
				for _, part := range parts {
					if f == "P" || c.derivative {
						names = append(names, fmt.Sprintf(part, f, z))
					}
				}
			}
		}
		factor *= scaleRatio
	}
	return names
}
