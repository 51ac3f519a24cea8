// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// Encoder adds one vector to each token: a learned one to every prefix token, the projected Weierstrass features to
// every patch. Build it with New(…).Done(). Patches are numbered row by row, after the prefix.
//
// Every method with a graph argument builds new nodes, for [rows·cols] elements, independent of the batch.
type Encoder struct {
	lattice
	betaPos    *model.Variable // scalar
	table      hostTable       // of evaluation by a table, with its stored values
	tableError float64         // bound on the error of features from it, when it was opened
	nodes      *model.Variable // [nodes, nodes, 4 or 6]
	prefix     *model.Variable // [prefix, width], nil without prefix tokens
	projection projection
}

// Done creates the variables and returns the encoder. It panics with Refused on invalid settings. Call it once per
// scope and graph.
func (c *Config) Done() *Encoder { return newEncoder(c.resolve()) }

func newEncoder(c Config) *Encoder {
	scope := c.scope.In("%s", c.formScope(scopeName))
	e := &Encoder{
		lattice:    newLattice(c, scope),
		betaPos:    scalarVariable(scope, nameBetaPos, c.betaPos, c.learnBetaPos),
		projection: newProjection(c, scope.In(scopeProjection)),
	}
	if c.evaluation == evaluateTable {
		e.openTable()
	}
	if c.prefix > 0 {
		e.prefix = weight.Float32(scope, namePrefix, weight.Normal(prefixStd), c.prefix, c.width)
	}
	return e
}

func (e *Encoder) layout() grid { return e.config.grid }

// Name implements pos.Encoder: mode, evaluation, projection and grid.
func (e *Encoder) Name() string {
	c := e.config
	form := string(c.mode)
	if c.compression == compressSphere {
		form = string(compressSphere)
	}
	return fmt.Sprintf("WePE(%s, %s, %s, %d×%d+%d)", form, c.evaluation, c.projection, c.rows, c.cols, c.prefix)
}

// patches returns the points of the patches in periods, o_u + α_u·u and o_v + α_v·v: mathematics.md (6.1) and (6.2),
//
//	u = (col+½)/cols,  v = (row+½)/rows,  z = (o_u + α_u·u)·2ω1 + (o_v + α_v·v)·2ω3,  ω3 = Re ω3 + iω3′
//
// with the offsets o_u and o_v, 0 unless set.
func (c Config) patches() (x, y []float64) {
	u, v := c.centres()
	for k := range u {
		x, y = append(x, c.offsetU+c.alphaU*u[k]), append(y, c.offsetV+c.alphaV*v[k])
	}
	return x, y
}

// several returns the grids of the patches: the encoder's own, or the grids of EncodeOn.
func (c Config) several() [][2]int {
	if c.grids == nil {
		return [][2]int{{c.rows, c.cols}}
	}
	return c.grids
}

// centres returns the centres of the patches of all grids.
func (c Config) centres() (u, v []float64) {
	for _, sides := range c.several() {
		x, y := grid{rows: sides[0], cols: sides[1]}.centres()
		u, v = append(u, x...), append(v, y...)
	}
	return u, v
}

// Features returns tanh(α_scale·f) for f = Re ℘, Im ℘, Re ℘′, Im ℘′: [rows·cols, 4], or [rows·cols, 2] without
// derivative; on the sphere S(α_scale·w) and S(α_scale·w′), [rows·cols, 6] or [rows·cols, 3], see [Sphere]; times the
// number of scales and of harmonics.
func (e *Encoder) Features(g *Graph) *Node {
	switch {
	case e.config.evaluation != evaluateTable:
		x, y := e.config.patches()
		return e.features(g, x, y)
	case e.config.compression == compressSphere:
		return e.lookUpSphere(g)
	default:
		p, pPrime := e.lookUpPatches(g)
		return e.compressed(e.config.mode.alphaScale(e.alphaScale.NodeValue(g)), p, pPrime)
	}
}

// Encode returns the vectors that PreEncode adds, β_pos·[prefix rows; projected features]: float32 [prefix + rows·cols,
// width]. On a grid coarser than the training grid (TrainedGrid) a patch gets the mean over the training patches that
// it covers, mathematics.md (6.11). Config.Fold of package vit stores this table in a ViT with learned positions.
func (e *Encoder) Encode(g *Graph) *Node { return e.EncodeOn(g, e.config.several()) }

// EncodeOn is Encode on other grids (rows and columns of patches): the prefix vectors, then the patch vectors grid by
// grid, [prefix + Σ rows·cols, width]. ℘ is evaluated once for all grids.
func (e *Encoder) EncodeOn(g *Graph, grids [][2]int) *Node {
	denser := *e
	denser.config = e.config.denser(grids)
	rows := e.projection.apply(denser.Features(g))
	rows = e.config.means(rows, grids) // [Σ rows·cols, width]
	if e.prefix != nil {
		rows = Concatenate([]*Node{e.prefix.NodeValue(g), rows}, 0)
	}
	return Mul(e.betaPos.NodeValue(g), rows)
}

// PreEncode implements pos.PreEncoder: it returns x plus the encoding, in x's shape and dtype.
//
// x is [..., seq, ..., width] with the sequence at seqAxis and the width last. With positionIndices nil, or an Iota
// over all positions, the sequence is the prefix and the whole grid. Otherwise positionIndices, integers in [0, prefix
// + rows·cols), is the position of each token: [seq], or one row per batch element, shaped as the axes of x up to
// seqAxis. Subsets and permutations of the patches thus keep their positions.
func (e *Encoder) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(e.Encode(x.Graph()), x, positionIndices, seqAxis)
}
