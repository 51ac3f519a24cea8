// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
)

// OnGrids is [New] for a batch of images that each have a grid of their own, padded to the same number of tokens: an
// encoder with the same methods, whose vectors and factors are [batch, tokens, width] and whose bias is
// [batch, heads, tokens, tokens]. own, int64 [batch], is the index into grids, rows and columns, of each image. The
// variables are those on the grid of c. What padding gets does not matter: the network hides it. On another grid than
// that of c every encoding extrapolates by its own rule, as with TrainedGrid. See ValidateGrids.
func (e Encoding) OnGrids(scope *model.Scope, c Config, grids [][2]int, own *Node, tokens int) Encoder {
	for name, value := range e.TrainedGrid(c.Grid) {
		if model.GetParamOr(scope, name, 0) == 0 {
			scope.SetParam(name, value)
		}
	}
	var out joined
	for _, s := range e {
		one := Encoding{s}
		first := one.build(scope, c) // creates the variables
		o := onGrids{Encoder: first, c: c, own: own, tokens: tokens}
		for _, sides := range grids {
			on := c
			on.Rows, on.Cols = sides[0], sides[1]
			o.grids = append(o.grids, on.Grid)
			if table, ok := first.(*learnedTable); ok {
				o.each = append(o.each, table.on(on.Grid))
			} else {
				o.each = append(o.each, one.build(scope.ResetVisited(), on))
			}
		}
		o.at = o.index(tokens, Grid.Tokens, tokenOf)
		switch s.Kind {
		case Additive:
			out = append(out, adderOnGrids{o})
		case Repeated:
			out = append(out, repeaterOnGrids{o})
		case Modulation:
			out = append(out, scalerOnGrids{o})
		case Rotary:
			out = append(out, o.rotator())
		case Bias:
			o.at = o.index(tokens*tokens, func(on Grid) int { return on.Tokens() * on.Tokens() },
				func(on Grid, pair int) int { return tokenOf(on, pair/tokens)*on.Tokens() + tokenOf(on, pair%tokens) })
			out = append(out, biaserOnGrids{o})
		case Conditional:
			out = append(out, followerOnGrids{o})
		}
	}
	return out
}

// tokenOf is a token among those of a grid; what padding gets does not matter.
func tokenOf(on Grid, token int) int { return token % on.Tokens() }

// onGrids has an encoder for each grid.
type onGrids struct {
	Encoder // on the grid of the model
	c       Config
	grids   []Grid
	each    []Encoder
	own     *Node // int64 [batch]
	tokens  int
	at      *Node // int64 [batch, n]: the rows of each image among those of all grids
}

// index returns n indices for each image, int64 [batch, n], into tables of its grid's size that follow each other.
func (o onGrids) index(n int, size func(Grid) int, at func(on Grid, k int) int) *Node {
	var all []int64
	start := 0
	for _, on := range o.grids {
		for k := range n {
			all = append(all, int64(start+at(on, k)))
		}
		start += size(on)
	}
	return additive.Rows(Reshape(Const(o.own.Graph(), all), len(o.grids), n), o.own)
}

// gathered returns the rows of each image, [batch, tokens, width], from those of all grids.
func (o onGrids) gathered(rows func(Grid, Encoder) *Node) *Node {
	var all []*Node
	for i, e := range o.each {
		all = append(all, rows(o.grids[i], e))
	}
	return additive.Rows(Concatenate(all, 0), o.at)
}

// adderOnGrids gathers the rows of each image from those of all grids.
type adderOnGrids struct{ onGrids }

func (a adderOnGrids) Encode(g *Graph) *Node {
	return a.gathered(func(on Grid, e Encoder) *Node { return on.AllTokens(e.(Adder).Encode(g)) })
}

func (a adderOnGrids) PreEncode(x, _ *Node, _ int) *Node {
	return Add(x, ConvertDType(a.Encode(x.Graph()), x.DType()))
}

// repeaterOnGrids gathers the rows of each image from those of all grids.
type repeaterOnGrids struct{ onGrids }

func (r repeaterOnGrids) Repeat(g *Graph, block int) *Node {
	return r.gathered(func(_ Grid, e Encoder) *Node { return e.(Repeater).Repeat(g, block) })
}

// scalerOnGrids gathers the factors of each image from those of all grids.
type scalerOnGrids struct{ onGrids }

func (s scalerOnGrids) Scale(g *Graph, block int) (scales [3]*Node) {
	var parts [3][]*Node
	for _, e := range s.each {
		for i, x := range e.(Scaler).Scale(g, block) {
			if x != nil {
				parts[i] = append(parts[i], x)
			}
		}
	}
	for i, x := range parts {
		if x != nil {
			scales[i] = additive.Rows(Concatenate(x, 0), s.at) // [batch, tokens, width]
		}
	}
	return scales
}

// rotator is the Rotator on these grids, or the ValueRotator.
func (o onGrids) rotator() Encoder {
	if _, turnsValues := o.Encoder.(ValueRotator); !turnsValues {
		return rotatorOnGrids{o}
	}
	there, back := o, o
	there.each, back.each = nil, nil
	for _, e := range o.each {
		v := e.(ValueRotator)
		back.each = append(back.each, v.Back())
		if own, ok := e.(valueRotary); ok {
			e = own.Rotator
		}
		there.each = append(there.each, e)
	}
	return valueRotary{rotatorOnGrids{there}, rotatorOnGrids{back}}
}

// rotatorOnGrids rotates by rows of a table of all grids, or, where an encoding of another module has no such rows, by
// the encoder of every grid, of which each image keeps its own.
type rotatorOnGrids struct{ onGrids }

func (r rotatorOnGrids) Block(block int) pos.QKEncoder {
	all := &rotary{}
	for i, e := range r.each {
		switch own, ok := e.(*rotary); {
		case !ok:
			return rotatedByEach{r.onGrids, block}
		case i == 0:
			all.tokenwise = own.tokenwise
		default:
			all.others = append(all.others, own.tokenwise)
		}
	}
	return &rotaryBlock{all, block, r.at}
}

type rotatedByEach struct {
	onGrids
	block int
}

func (r rotatedByEach) EncodeQK(q, k, _ *Node, seqAxis int) (*Node, *Node) {
	g := q.Graph()
	outQ, outK := q, k
	for i, on := range r.grids {
		at := make([]int64, r.tokens)
		for token := range at {
			at[token] = int64(token % on.Tokens())
		}
		turnedQ, turnedK := r.each[i].(Rotator).Block(r.block).EncodeQK(q, k, Const(g, at), seqAxis)
		own := r.images(i, q.Shape().Dimensions)
		outQ, outK = Where(own, turnedQ, outQ), Where(own, turnedK, outK)
	}
	return outQ, outK
}

// images is true in the images of grid i, bool of the given dimensions.
func (o onGrids) images(i int, dims []int) *Node {
	own := Equal(o.own, Const(o.own.Graph(), int64(i)))
	return BroadcastToShape(Reshape(own, append([]int{-1}, slices.Repeat([]int{1}, len(dims)-1)...)...),
		shapes.Make(dtypes.Bool, dims...))
}

// biaserOnGrids gathers the bias of each image from those of all grids.
type biaserOnGrids struct{ onGrids }

func (b biaserOnGrids) Bias(g *Graph, block int) *Node {
	var scores []*Node // [pairs of tokens of a grid, heads]
	for _, e := range b.each {
		scores = append(scores, Transpose(Reshape(e.(Biaser).Bias(g, block), b.c.Heads, -1), 0, 1))
	}
	bias := additive.Rows(Concatenate(scores, 0), b.at) // [batch, tokens·tokens, heads]
	return Reshape(TransposeAllAxes(bias, 0, 2, 1), -1, b.c.Heads, b.tokens, b.tokens)
}

// followerOnGrids adds to the patches of each image by the encoder of its grid.
type followerOnGrids struct{ onGrids }

func (f followerOnGrids) After(x *Node, block int) (sum *Node) {
	n := x.Shape().Dim(1)
	for i, on := range f.grids {
		patches := on.Rows * on.Cols
		y := f.each[i].(Follower).After(kernel.Crop(x, 1, 0, patches), block)
		if y == nil {
			continue
		}
		y = kernel.ZeroPad(y, 1, 0, n-patches)
		y = Where(f.images(i, y.Shape().Dimensions), y, ZerosLike(y))
		if sum == nil {
			sum = y
		} else {
			sum = Add(sum, y)
		}
	}
	return sum
}
