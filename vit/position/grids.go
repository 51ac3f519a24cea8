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

// Batch is the grids of a batch of images that each have a grid of their own, padded to the same number of tokens.
type Batch struct {
	Grids  [][2]int // possible rows and columns
	Grid   *Node    // int64 [batch]: the index into Grids of each image
	Tokens int      // of an image: prefix, patches, padding
}

// OnGrids is New for a batch of images with grids of their own: an encoder with the same methods, whose factors are
// [batch, tokens, width] and whose bias is [batch, heads, tokens, tokens]. The variables are those on the grid of c.
// What padding gets does not matter: the network hides it. On another grid than that of c every encoding extrapolates
// by its own rule, as with TrainedGrid. See ValidateGrids.
func (e Encoding) OnGrids(scope *model.Scope, c Config, b Batch) Encoder {
	for name, value := range e.TrainedGrid(c.Grid) {
		if model.GetParamOr(scope, name, 0) == 0 {
			scope.SetParam(name, value)
		}
	}
	var out joined
	for _, s := range e {
		own := (Encoding{s}).New(scope, c) // creates the variables
		o := onGrids{Encoder: own, c: c, Batch: b}
		_, atOnce := own.(encodesOn)
		for _, sides := range b.Grids {
			on := c
			on.Rows, on.Cols = sides[0], sides[1]
			o.grids = append(o.grids, on.Grid)
			if !atOnce && s.New != nil {
				o.each = append(o.each, s.New(scope.ResetVisited(), on))
			}
		}
		switch s.Kind {
		case Additive:
			out = append(out, newAdderOnGrids(o))
		case Modulation:
			out = append(out, newScalerOnGrids(o))
		case Rotary:
			out = append(out, rotatorOnGrids{o, o.tokens(b.Grid.Graph())})
		case Bias:
			out = append(out, newBiaserOnGrids(o))
		case Conditional:
			out = append(out, followerOnGrids{o})
		}
	}
	return out
}

// encodesOn is an additive encoding that computes its rows on several grids at once, the prefix rows first.
type encodesOn interface {
	EncodeOn(g *Graph, grids [][2]int) *Node
}

// onGrids has an encoder for each grid.
type onGrids struct {
	Encoder // on the grid of the model
	Batch
	c     Config
	grids []Grid
	each  []Encoder
}

// Own gathers each image's numbers from a table with equally many for every grid: [batch, numbers].
func (b Batch) Own(ofGrids *Node) *Node {
	return additive.Rows(Reshape(ofGrids, len(b.Grids), -1), b.Grid)
}

// indices gathers each image's token indices, [batch, tokens].
func (o onGrids) indices(g *Graph, at func(on Grid, i, token int) int) *Node {
	var all []int64
	for i, on := range o.grids {
		for token := range o.Tokens {
			all = append(all, int64(at(on, i, token)))
		}
	}
	return o.Own(Const(g, all))
}

// starts returns where each grid begins in a table of first rows and then rows(grid) per grid, and its length.
func (o onGrids) starts(first int, rows func(on Grid) int) (start []int, end int) {
	for _, on := range o.grids {
		start, first = append(start, first), first+rows(on)
	}
	return start, first
}

// tokens returns the indices of the images' tokens among the tokens of all grids, [batch, tokens].
func (o onGrids) tokens(g *Graph) *Node {
	start, _ := o.starts(0, Grid.Tokens)
	return o.indices(g, func(on Grid, i, token int) int { return start[i] + token%on.Tokens() })
}

// adderOnGrids gathers the rows of each image from those of all grids.
type adderOnGrids struct {
	onGrids
	rows *Node // [positions of all grids + 1, width], the last zero
	at   *Node // int64 [batch, tokens], in rows
}

func newAdderOnGrids(o onGrids) Encoder {
	g, shared := o.Grid.Graph(), 0
	var rows []*Node
	if atOnce, ok := o.Encoder.(encodesOn); ok {
		rows, shared = []*Node{atOnce.EncodeOn(g, o.Grids)}, o.c.placed()
	}
	for _, e := range o.each {
		rows = append(rows, e.(Adder).Encode(g))
	}
	start, end := o.starts(shared, func(on Grid) int { return on.Positions() - shared })
	rows = append(rows, Zeros(g, shapes.Make(dtypes.Float32, 1, o.c.Width)))
	at := o.indices(g, func(on Grid, i, token int) int {
		switch {
		case token < shared:
			return token
		case token < o.c.placed():
			return start[i] + token
		case token < o.c.Prefix || token >= on.Tokens(): // without a position, or padding
			return end
		}
		return start[i] - shared + token - o.c.Unplaced
	})
	return &adderOnGrids{o, Concatenate(rows, 0), at}
}

func (a *adderOnGrids) Encode(*Graph) *Node { return a.rows }

func (a *adderOnGrids) PreEncode(x, _ *Node, seqAxis int) *Node {
	return additive.PreEncode(a.rows, x, a.at, seqAxis)
}

// scalerOnGrids gathers the factors of each image from those of all grids.
type scalerOnGrids struct {
	onGrids
	scales [][3]*Node // of each block, for the tokens of all grids
	at     *Node      // int64 [batch, tokens], in scales
}

func newScalerOnGrids(o onGrids) Encoder {
	g := o.Grid.Graph()
	s := &scalerOnGrids{onGrids: o, at: o.tokens(g)}
	for block := range o.c.Depth {
		var parts [3][]*Node
		for _, e := range o.each {
			for i, x := range e.(Scaler).Scale(g, block) {
				if x != nil {
					parts[i] = append(parts[i], x)
				}
			}
		}
		var all [3]*Node
		for i, x := range parts {
			if x != nil {
				all[i] = Concatenate(x, 0)
			}
		}
		s.scales = append(s.scales, all)
	}
	return s
}

func (s *scalerOnGrids) Scale(_ *Graph, block int) (own [3]*Node) {
	for i, x := range s.scales[block] {
		if x != nil {
			own[i] = additive.Rows(x, s.at) // [batch, tokens, width]
		}
	}
	return own
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
		at := make([]int64, r.Tokens)
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
	own := Equal(o.Grid, Const(o.Grid.Graph(), int64(i)))
	return BroadcastToShape(Reshape(own, append([]int{-1}, slices.Repeat([]int{1}, len(dims)-1)...)...),
		shapes.Make(dtypes.Bool, dims...))
}

// biaserOnGrids gathers the bias of each image from those of all grids.
type biaserOnGrids struct {
	onGrids
	scores []*Node // of each block, [pairs of tokens of all grids, heads]
	pairs  *Node   // int64 [batch, tokens·tokens], in scores
}

func newBiaserOnGrids(o onGrids) Encoder {
	g := o.Grid.Graph()
	b := &biaserOnGrids{onGrids: o}
	for block := range o.c.Depth {
		var parts []*Node
		for _, e := range o.each {
			bias := e.(Biaser).Bias(g, block) // [heads, tokens, tokens] of this grid
			parts = append(parts, Transpose(Reshape(bias, o.c.Heads, -1), 0, 1))
		}
		b.scores = append(b.scores, Concatenate(parts, 0))
	}
	start, _ := o.starts(0, func(on Grid) int { return on.Tokens() * on.Tokens() })
	var all []int64
	for i, on := range o.grids {
		for pair := range o.Tokens * o.Tokens {
			query, key := pair/o.Tokens%on.Tokens(), pair%o.Tokens%on.Tokens() // those of padding do not matter
			all = append(all, int64(start[i]+query*on.Tokens()+key))
		}
	}
	b.pairs = o.Own(Const(g, all))
	return b
}

func (b *biaserOnGrids) Bias(_ *Graph, block int) *Node {
	bias := TransposeAllAxes(additive.Rows(b.scores[block], b.pairs), 0, 2, 1) // [batch, heads, tokens·tokens]
	return Reshape(bias, -1, b.c.Heads, b.Tokens, b.Tokens)
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
	_ Adder    = (*adderOnGrids)(nil)
	_ Scaler   = (*scalerOnGrids)(nil)
	_ Rotator  = rotatorOnGrids{}
	_ Biaser   = (*biaserOnGrids)(nil)
	_ Follower = followerOnGrids{}
)
