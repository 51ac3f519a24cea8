// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// RelativeBias is WePE on relative positions: one bias per head and ordered pair of tokens, added to the attention
// scores before the softmax, mathematics.md (10.1) and (10.2). For the patches i ≠ j
//
//	bias[h, i, j] = tanh(α_scale·[Re ℘(z), Im ℘(z), Re ℘′(z), Im ℘′(z)])·weights[:, h] + biases[h],   z = z_j - z_i
//
// where ℘ is even and ℘′ is odd in z. At the pole z = 0 (i = j) the bias is the learned own[h]. Pairs with a prefix
// token get 0.
//
// The settings of an Encoder apply, except projection, prefix and β_pos. Variables, below the scope given to New:
//
//	wepe_bias/omega3_raw, alpha_scale_raw    []
//	wepe_bias/weights                        [4, heads]   N(0, 0.02²) at the start; 4 as for Encoder
//	wepe_bias/biases, own                    [heads]      0 at the start
type RelativeBias interface {
	pos.Encoder

	// AttentionBias returns the bias [heads, tokens, tokens], query before key; tokens is prefix + rows·cols. ℘ is
	// evaluated once per distinct offset, (2·rows-1)(2·cols-1) times.
	AttentionBias(g *Graph) *Node

	// Scalars returns ω3′ and α_scale as those of an Encoder.
	Scalars() (map[string]float64, error)
}

type relativeBias struct {
	lattice
	heads                int
	weights, biases, own *model.Variable
}

const scopeBias = "wepe_bias"

// Bias creates the variables of a RelativeBias for the attention heads, in place of Build.
func (c *Config) Bias(heads int) RelativeBias {
	if heads < 1 {
		refuse("", "a relative bias for %d heads, want at least 1", heads)
	}
	resolved := c.resolve()
	if resolved.evaluation == evaluateTable || resolved.compression == compressSphere {
		refuse("", "a bias is neither evaluated by a table, which spans patches and not their differences, nor on the sphere")
	}
	resolved.shift = 0 // differences do not depend on it
	scope := c.scope.In(scopeBias)
	return &relativeBias{
		lattice: newLattice(resolved, scope),
		heads:   heads,
		weights: weight.Float32(scope, "weights", weight.Normal(linearStd), resolved.numFeatures(), heads),
		biases:  weight.Float32(scope, "biases", weight.Constant(0), heads),
		own:     weight.Float32(scope, "own", weight.Constant(0), heads),
	}
}

func (b *relativeBias) Name() string {
	c := b.config
	return fmt.Sprintf("WePE-bias(%s, %s, %d×%d+%d)", c.mode, c.evaluation, c.rows, c.cols, c.prefix)
}

// AttentionBias implements RelativeBias.
func (b *relativeBias) AttentionBias(g *Graph) *Node {
	c := b.config
	zero := Zeros(g, shapes.Make(dtypes.Float32, 1, b.heads)) // for pairs with a prefix token
	table := Concatenate([]*Node{b.offsets(g), zero}, 0)
	return TransposeAllAxes(additive.Rows(table, Const(g, additive.Pairs(c.rows, c.cols, c.prefix))), 2, 0, 1)
}

// offsets returns the bias of every offset of one patch from another, [(2·rows-1)(2·cols-1), heads]: rows from
// -(rows-1) to rows-1, columns likewise, the column running fastest.
func (b *relativeBias) offsets(g *Graph) *Node {
	c := b.config
	var x, y, apart []float64
	for _, offset := range additive.Offsets(c.rows, c.cols) {
		// z is linear in (6.1), (6.2), so an offset is a point like any other.
		x = append(x, c.alphaU*float64(offset.Cols)/float64(c.cols))
		y = append(y, c.alphaV*float64(offset.Rows)/float64(c.rows))
		apart = append(apart, 1)
	}
	u, v := b.reduced(x), b.reduced(y)
	for i := range x {
		if math.Hypot(u[i], v[i]) < coincident {
			x[i], y[i], apart[i] = 0.5, 0, 0 // evaluate at ω1, where values are small, and drop the result
		}
	}
	linear := Add(MatMul(b.featuresAt(g, x, y), b.weights.NodeValue(g)), InsertAxes(b.biases.NodeValue(g), 0))
	mask := InsertAxes(ConstAsDType(g, dtypes.Float32, apart), -1) // [offsets, 1]
	return Add(Mul(mask, linear), Mul(OneMinus(mask), InsertAxes(b.own.NodeValue(g), 0)))
}

// coincident is the distance, in periods, below which two patches fall on the same point of the lattice's cell.
const coincident = 1e-9
