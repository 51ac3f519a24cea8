// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/additive"
)

// NaFlexImages is a batch of images that keep their aspect ratio: each has its own grid of at most N patches, padded to
// N tokens. This is the NaFlex of SigLIP 2 (https://arxiv.org/abs/2502.14786) and of timm, following NaViT
// (https://arxiv.org/abs/2307.06304) without its packing.
//
// One graph serves all grids: the encodings are computed for each of Grids and selected by Grid. Attention and pooling
// mask the padding, and it has no gradient.
type NaFlexImages struct {
	Strips *Node    // [batch, N·PatchSize, PatchSize, Channels]: patches below one another, row by row; then padding
	Grids  [][2]int // possible grids of an image, rows·cols <= N
	Grid   *Node    // int64 [batch]: index into Grids of each image
}

// NaFlexLogits is Logits for images that keep their aspect ratio. The variables are the same, and images of the grid
// Rows × Cols have the same logits. On other grids every encoding extrapolates by its own rule, as in
// Config.TrainedGrid; "learned" resamples its table as SigLIP 2 does, bilinearly with antialiasing. N need not be
// Rows·Cols.
func (c Config) NaFlexLogits(scope *model.Scope, p NaFlexImages) *Node {
	c = c.valid()
	if err := c.Encoding().ValidateNaFlex(); err != nil {
		panic(err)
	}
	d := p.Strips.Shape().Dimensions
	if len(d) != 4 || d[1] == 0 || d[1]%c.PatchSize != 0 || d[2] != c.PatchSize || d[3] != c.Channels {
		exceptions.Panicf("vit: strips are %s, the model wants [batch, N·%d, %d, %d]", p.Strips.Shape(), c.PatchSize,
			c.PatchSize, c.Channels)
	}
	n := d[1] / c.PatchSize
	if len(p.Grids) == 0 {
		exceptions.Panicf("vit: the images have no grids")
	}
	for _, grid := range p.Grids {
		if min(grid[0], grid[1]) < 1 || grid[0]*grid[1] > n {
			exceptions.Panicf("vit: a grid of %d×%d patches does not fit strips of %d", grid[0], grid[1], n)
		}
	}
	pixels := Reshape(ConvertDType(p.Strips, c.dtype()), d[0], n, -1) // [batch, N, p·p·channels]
	return c.trace(scope, pixels, func(scope *model.Scope) layout {
		return c.manyGrids(scope, p.Grids, p.Grid, c.Prefix()+n)
	}, false).Logits
}

// ValidateNaFlex returns an error if e does not support several grids in one graph.
func (e Encoding) ValidateNaFlex() error {
	for _, p := range e {
		if p.Pretrained {
			return fmt.Errorf("vit: position %s blends a table of a single grid: for images of several grids use another "+
				"encoding", p.Name)
		}
	}
	return nil
}

// manyGrids is the layout of NaFlexImages. The values of the encoders are concatenated over the grids in one table,
// from which every image gathers the rows of its grid.
type manyGrids struct {
	c      Config
	grids  []Config // the model on each grid
	grid   *Node    // int64 [batch]: index of each image's grid
	tokens int      // of an image, with padding

	rows   *Node      // [positions of all grids + 1, width] of what is added, the last zero; nil for none
	placed *Node      // int64 [batch, tokens], in rows
	scales [][3]*Node // of each block, for the tokens of all grids; nil for none
	rotary Rotary     // of all grids; nil for none, and where they cannot be joined
	turned *Node      // int64 [batch, tokens], in scales and among the positions of rotary
	each   []Rotary   // one for each grid
	scores []*Node    // of each block, [pairs of tokens of all grids, heads]; nil for none
	pairs  *Node      // int64 [batch, tokens·tokens], in scores

	conditional []Conditional // one for each grid; nil for none

	hidden  *Node // [batch, 1, 1, tokens]: 0, and hiddenScore for padding
	weights *Node // [batch, 1 or 2, tokens] of the pooling
}

// onGrids is an additive encoding that computes its rows on several grids at once, the prefix rows first.
type onGrids interface {
	EncodeOn(g *Graph, grids [][2]int) *Node
}

// manyGrids builds the encoders of every grid on the variables of the model.
func (c Config) manyGrids(scope *model.Scope, grids [][2]int, grid *Node, tokens int) *manyGrids {
	g := grid.Graph()
	for name, value := range c.TrainedGrid() {
		if model.GetParamOr(scope, name, 0) == 0 {
			scope.SetParam(name, value)
		}
	}
	encoding, own := c.Encoding(), c.encoders(scope) // own creates the variables
	atOnce, ok := own.Additive.(onGrids)
	if ok {
		encoding = encoding[1:]
	}
	m := &manyGrids{c: c, grid: grid, tokens: tokens}
	var encoders []Encoders
	for _, sides := range grids {
		on := c
		on.ImageRows, on.ImageCols = sides[0]*c.PatchSize, sides[1]*c.PatchSize
		m.grids, encoders = append(m.grids, on), append(encoders, encoding.encoders(scope.ResetVisited(), on))
	}
	switch {
	case ok:
		m.addRows([]*Node{atOnce.EncodeOn(g, grids)}, c.PrefixPositions())
	case own.Additive != nil:
		var rows []*Node
		for _, e := range encoders {
			rows = append(rows, e.Additive.Encode(g))
		}
		m.addRows(rows, 0)
	}
	if own.Modulation != nil || own.Rotary != nil {
		m.turned = m.tokensOfGrids()
	}
	if own.Modulation != nil {
		m.scaleEach(g, encoders)
	}
	if own.Rotary != nil {
		m.turnEach(encoders)
	}
	if own.Relative != nil {
		m.scoreEach(g, encoders)
	}
	if own.Conditional != nil {
		for _, e := range encoders {
			m.conditional = append(m.conditional, e.Conditional)
		}
	}
	var hidden, weights []float32
	for _, on := range m.grids {
		hidden = append(hidden, make([]float32, on.Tokens())...)
		hidden = append(hidden, slices.Repeat([]float32{hiddenScore}, tokens-on.Tokens())...)
		weights = append(weights, c.PoolWeights(on.Rows()*on.Cols(), tokens)...)
	}
	m.hidden = InsertAxes(m.own(Const(g, hidden)), 1, 1)
	m.weights = Reshape(m.own(Const(g, weights)), grid.Shape().Dim(0), -1, tokens)
	return m
}

// scaleEach joins the factors of every grid.
func (m *manyGrids) scaleEach(g *Graph, encoders []Encoders) {
	for block := range m.c.Depth {
		var parts [3][]*Node
		for _, e := range encoders {
			for i, x := range e.Modulation.Scale(g, block) {
				if x != nil {
					parts[i] = append(parts[i], x)
				}
			}
		}
		var joined [3]*Node
		for i, x := range parts {
			if x != nil {
				joined[i] = Concatenate(x, 0)
			}
		}
		m.scales = append(m.scales, joined)
	}
}

// own gathers each image's numbers from a table with equally many for every grid: [batch, numbers].
func (m *manyGrids) own(ofGrids *Node) *Node {
	return additive.Rows(Reshape(ofGrids, len(m.grids), -1), m.grid)
}

// indices gathers each image's token indices, [batch, tokens].
func (m *manyGrids) indices(at func(on Config, i, token int) int) *Node {
	var all []int64
	for i, on := range m.grids {
		for token := range m.tokens {
			all = append(all, int64(at(on, i, token)))
		}
	}
	return m.own(Const(m.grid.Graph(), all))
}

// starts returns where each grid begins in a table of first rows and then rows(grid) per grid, and its length.
func (m *manyGrids) starts(first int, rows func(on Config) int) (start []int, end int) {
	for _, on := range m.grids {
		start, first = append(start, first), first+rows(on)
	}
	return start, first
}

// tokensOfGrids returns the indices of the images' tokens among the tokens of all grids, [batch, tokens].
func (m *manyGrids) tokensOfGrids() *Node {
	start, _ := m.starts(0, Config.Tokens)
	return m.indices(func(on Config, i, token int) int {
		return start[i] + token%on.Tokens() // the position of padding does not matter
	})
}

// addRows sets the additive rows; the first shared ones are the prefix of all grids.
func (m *manyGrids) addRows(rows []*Node, shared int) {
	c := m.c
	start, end := m.starts(shared, func(on Config) int { return on.Positions() - shared })
	m.rows = Concatenate(append(rows, Zeros(m.grid.Graph(), shapes.Make(dtypes.Float32, 1, c.Width))), 0)
	m.placed = m.indices(func(on Config, i, token int) int {
		switch {
		case token < shared:
			return token
		case token < c.PrefixPositions():
			return start[i] + token
		case token < c.Prefix() || token >= on.Tokens(): // without a position, or padding
			return end
		}
		return start[i] - shared + token - c.Prefix() + c.PrefixPositions()
	})
}

func (m *manyGrids) add(x *Node) *Node {
	if m.rows == nil {
		return x
	}
	return additive.PreEncode(m.rows, x, m.placed, 1)
}

// turnEach collects the rotations of every grid's encoder, in one table if the encoders are this package's.
func (m *manyGrids) turnEach(encoders []Encoders) {
	joined := &rotary{}
	for i, e := range encoders {
		m.each = append(m.each, e.Rotary)
		switch own, ok := e.Rotary.(*rotary); {
		case !ok:
			joined = nil
		case i == 0:
			joined.tokenwise = own.tokenwise
		case joined != nil:
			joined.others = append(joined.others, own.tokenwise)
		}
	}
	if joined == nil {
		return
	}
	m.rotary = joined
}

// turnOne rotates queries and keys [batch, tokens, heads, headDim] by the encoder of every grid and selects each
// image's own.
func (m *manyGrids) turnOne(block int, q, k *Node) (*Node, *Node) {
	g := q.Graph()
	outQ, outK := q, k
	for i, on := range m.grids {
		at := make([]int64, m.tokens)
		for token := range at {
			at[token] = int64(token % on.Tokens())
		}
		turnedQ, turnedK := m.each[i].Block(block).EncodeQK(q, k, Const(g, at), 1)
		own := BroadcastToShape(Reshape(Equal(m.grid, Const(g, int64(i))), -1, 1, 1, 1),
			shapes.Make(dtypes.Bool, q.Shape().Dimensions...))
		outQ, outK = Where(own, turnedQ, outQ), Where(own, turnedK, outK)
	}
	return outQ, outK
}

// scoreEach collects the biases of every grid's encoder.
func (m *manyGrids) scoreEach(g *Graph, encoders []Encoders) {
	for block := range m.c.Depth {
		var parts []*Node
		for _, e := range encoders {
			bias := e.Relative.AttentionBias(g, block) // [heads, tokens, tokens] of this grid
			parts = append(parts, Transpose(Reshape(bias, m.c.Heads, -1), 0, 1))
		}
		m.scores = append(m.scores, Concatenate(parts, 0))
	}
	start, _ := m.starts(0, func(on Config) int { return on.Tokens() * on.Tokens() })
	var all []int64
	for i, on := range m.grids {
		for pair := range m.tokens * m.tokens {
			query, key := pair/m.tokens%on.Tokens(), pair%m.tokens%on.Tokens() // those of padding do not matter
			all = append(all, int64(start[i]+query*on.Tokens()+key))
		}
	}
	m.pairs = m.own(Const(g, all))
}

func (m *manyGrids) around(block int) Around {
	a := Around{Bias: func(*Node) *Node { return m.hidden }}
	if m.scales != nil {
		a.Scale = func(*Node) (own [3]*Node) {
			for i, x := range m.scales[block] {
				if x != nil {
					own[i] = additive.Rows(x, m.turned) // [batch, tokens, width]
				}
			}
			return own
		}
	}
	switch {
	case m.rotary != nil:
		a.Turn = func(q, k *Node) (*Node, *Node) { return m.rotary.Block(block).EncodeQK(q, k, m.turned, 1) }
	case m.each != nil:
		a.Turn = func(q, k *Node) (*Node, *Node) { return m.turnOne(block, q, k) }
	}
	if m.scores != nil {
		a.Bias = func(*Node) *Node {
			bias := TransposeAllAxes(additive.Rows(m.scores[block], m.pairs), 0, 2, 1) // [batch, heads, tokens·tokens]
			return Add(Reshape(bias, -1, m.c.Heads, m.tokens, m.tokens), m.hidden)
		}
	}
	return a
}

// after adds to the patches of each image by the encoder of its grid.
func (m *manyGrids) after(x *Node, block int) *Node {
	for i, encoder := range m.conditional {
		x = addAfter(m.grids[i], encoder, x, block, Equal(m.grid, Const(x.Graph(), int64(i))))
	}
	return x
}

func (m *manyGrids) pool(scope *model.Scope, x *Node) *Node {
	if m.c.Pool == poolMap {
		hidden := m.hidden
		if !m.c.PoolPrefix {
			hidden = Add(hidden, Const(x.Graph(), m.c.hiddenPrefix(m.tokens)))
		}
		return m.c.mapPool(scope.In("pool"), x, hidden)
	}
	return Reshape(Einsum("btd,bpt->bpd", x, m.weights), -1, m.c.PooledWidth())
}
