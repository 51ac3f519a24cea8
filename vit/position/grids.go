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

// OnGrids is New for a batch of images that each have a grid of their own, padded to the same number of tokens: an
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
		first := (Encoding{s}).New(scope, c) // creates the variables
		o := onGrids{Encoder: first, c: c, own: own, tokens: tokens}
		for _, sides := range grids {
			on := c
			on.Rows, on.Cols = sides[0], sides[1]
			o.grids = append(o.grids, on.Grid)
			if table, ok := first.(*learnedTable); ok {
				o.each = append(o.each, table.on(on.Grid))
			} else if s.New != nil {
				o.each = append(o.each, s.New(scope.ResetVisited(), on))
			}
		}
		switch s.Kind {
		case Additive:
			out = append(out, newAdderOnGrids(o))
		case Modulation:
			out = append(out, scalerOnGrids{o, o.ofTokens()})
		case Rotary:
			out = append(out, rotatorOnGrids{o, o.ofTokens()})
		case Bias:
			out = append(out, newBiaserOnGrids(o))
		case Conditional:
			out = append(out, followerOnGrids{o})
		}
	}
	return out
}

// onGrids has an encoder for each grid.
type onGrids struct {
	Encoder // on the grid of the model
	c       Config
	grids   []Grid
	each    []Encoder
	own     *Node // int64 [batch]
	tokens  int
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

// ofTokens returns the indices of the images' tokens among the tokens of all grids, [batch, tokens].
func (o onGrids) ofTokens() *Node {
	return o.index(o.tokens, Grid.Tokens, func(on Grid, token int) int { return token % on.Tokens() })
}

// adderOnGrids gathers the rows of each image from those of all grids, each of which has zeros behind them.
type adderOnGrids struct {
	onGrids
	at *Node
}

func newAdderOnGrids(o onGrids) Encoder {
	size := func(on Grid) int { return on.Positions() + 1 }
	return adderOnGrids{o, o.index(o.tokens, size, func(on Grid, token int) int {
		switch {
		case token < on.placed():
			return token
		case token < on.Prefix || token >= on.Tokens(): // without a position, or padding
			return on.Positions()
		}
		return token - on.Unplaced
	})}
}

func (a adderOnGrids) Encode(g *Graph) *Node {
	var rows []*Node
	for _, e := range a.each {
		rows = append(rows, e.(Adder).Encode(g), Zeros(g, shapes.Make(dtypes.Float32, 1, a.c.Width)))
	}
	return additive.Rows(Concatenate(rows, 0), a.at)
}

func (a adderOnGrids) PreEncode(x, _ *Node, _ int) *Node {
	return Add(x, ConvertDType(a.Encode(x.Graph()), x.DType()))
}

// scalerOnGrids gathers the factors of each image from those of all grids.
type scalerOnGrids struct {
	onGrids
	at *Node
}

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

// rotatorOnGrids rotates by rows of a table of all grids, or, where an encoding of another module has no such rows, by
// the encoder of every grid, of which each image keeps its own.
type rotatorOnGrids struct {
	onGrids
	at *Node // int64 [batch, tokens], in the tokens of all grids
}

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
	return rotatedTogether{all.Block(block), r.at}
}

type rotatedTogether struct {
	all pos.QKEncoder
	at  *Node
}

func (r rotatedTogether) EncodeQK(q, k, _ *Node, seqAxis int) (*Node, *Node) {
	return r.all.EncodeQK(q, k, r.at, seqAxis)
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
type biaserOnGrids struct {
	onGrids
	pairs *Node
}

func newBiaserOnGrids(o onGrids) Encoder {
	size := func(on Grid) int { return on.Tokens() * on.Tokens() }
	return biaserOnGrids{o, o.index(o.tokens*o.tokens, size, func(on Grid, pair int) int {
		return pair/o.tokens%on.Tokens()*on.Tokens() + pair%o.tokens%on.Tokens() // those of padding do not matter
	})}
}

func (b biaserOnGrids) Bias(g *Graph, block int) *Node {
	var scores []*Node // [pairs of tokens of a grid, heads]
	for _, e := range b.each {
		scores = append(scores, Transpose(Reshape(e.(Biaser).Bias(g, block), b.c.Heads, -1), 0, 1))
	}
	bias := additive.Rows(Concatenate(scores, 0), b.pairs) // [batch, tokens·tokens, heads]
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

var (
	_ Adder    = adderOnGrids{}
	_ Scaler   = scalerOnGrids{}
	_ Rotator  = rotatorOnGrids{}
	_ Biaser   = biaserOnGrids{}
	_ Follower = followerOnGrids{}
)
