// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package position has the position encodings of Vision Transformers: one table, and one file for each encoding. Each
// is a layer of its own for any attention of GoMLX:
//
//	encoder := position.New("rope-mixed", scope, position.Config{
//		Grid: position.Grid{Rows: 14, Cols: 14, Prefix: 1}, Width: 192, Heads: 3, Depth: 12})
//	x = attention.SelfAttention(scope, x, 3, 64).WithPositionalEncoder(position.QK(encoder, block)).Done()
//
// and a Biaser's scores are for WithAttentionBias, as the example of [QK] shows.
//
// An encoder acts where it has a method: [Adder] and [Repeater] on the tokens, [Scaler] and [Rotator] on queries, keys
// and values, [Biaser] on the scores, [Follower] after a block. [As] asks for one of these, also of a name such as
// "learned+wepe-v", whose encoder has the methods of both. Package vit asks at the place where each acts, and so does
// any other model.
//
// Hyperparameters are the constants Param…, read from the scope. [Register] adds an encoding of another module; package
// vittest tests it.
package position

import (
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/kernel"
)

// Encoder is a position encoding in a model: a pos.Encoder of GoMLX with some of the methods of [Adder], [Repeater],
// [Scaler], [Rotator], [Biaser] and [Follower].
type Encoder = pos.Encoder

// Adder is added to the tokens once, before the first block.
type Adder interface {
	Encoder
	pos.PreEncoder

	// Encode returns the vectors that PreEncode adds, float32 [Grid.Positions, width].
	Encode(g *Graph) *Node
}

// Repeater is added to the normalized tokens of every block, before their attention.
type Repeater interface {
	Encoder

	// Repeat returns what is added in a block, float32 [tokens, width].
	Repeat(g *Graph, block int) *Node
}

// Scaler scales the queries, keys and values of every block, channel by channel.
type Scaler interface {
	Encoder

	// Scale returns the factors of queries, keys and values in a block, float32 [tokens, width] each, or nil for those
	// that are not scaled; 1 for tokens without a position.
	Scale(g *Graph, block int) [3]*Node
}

// Rotator rotates the queries and keys of every block.
type Rotator interface {
	Encoder

	// Block returns the encoder of a block. Its EncodeQK takes and returns q, k [batch, tokens, heads, headDim] with
	// seqAxis 1, in their dtype; position indices may be nil for all tokens in order.
	Block(block int) pos.QKEncoder
}

// ValueRotator is a Rotator that also rotates the values, by the places of their tokens, and the outputs of the heads
// back, by the places of the queries: a head then sees values in the frame of its query (GTA,
// https://arxiv.org/abs/2310.10375).
type ValueRotator interface {
	Rotator

	// Back returns the inverse rotations.
	Back() Rotator
}

// Biaser adds a bias to the attention scores of every block.
type Biaser interface {
	Encoder

	// Bias returns the bias of a block, float32 [heads, tokens, tokens], query before key.
	Bias(g *Graph, block int) *Node
}

// Follower is computed from the patches and added to them, after some of the blocks.
type Follower interface {
	Encoder

	// After returns what is added after a block to the patches x [batch, rows·cols, width], row by row, in their type;
	// nil for nothing.
	After(x *Node, block int) *Node
}

// Grid is the tokens of an image: Prefix tokens, as class token and registers, then the patches row by row.
type Grid struct {
	Rows, Cols int // of patches
	Prefix     int // tokens in front of the patches; they are nowhere on the grid
	Registers  int // the last of these that are registers and no class token
	Unplaced   int // the last of these that have no vector in an additive encoding
}

// Tokens is the length of the sequence.
func (g Grid) Tokens() int { return g.Prefix + g.Rows*g.Cols }

// Positions is the number of vectors of an additive encoding: those of prefix tokens, then patches row by row.
func (g Grid) Positions() int { return g.placed() + g.Rows*g.Cols }

// AllTokens are rows of all tokens [Tokens, width] from those of an additive encoding, [Positions, width]: zeros for
// the tokens without one.
func (g Grid) AllTokens(rows *Node) *Node {
	if g.Unplaced == 0 {
		return rows
	}
	patches := kernel.ZeroPad(kernel.Crop(rows, 0, g.placed(), g.Positions()), 0, g.Unplaced, 0)
	if g.placed() == 0 {
		return patches
	}
	return Concatenate([]*Node{kernel.Crop(rows, 0, 0, g.placed()), patches}, 0)
}

func (g Grid) placed() int  { return g.Prefix - g.Unplaced }
func (g Grid) classes() int { return g.Prefix - g.Registers }

// patch returns the column x and the row y of patch k.
func (g Grid) patch(k int) (x, y float64) { return float64(k % g.Cols), float64(k / g.Cols) }

// Config is the model that an encoding is for.
type Config struct {
	Grid
	Width int // channels of a token
	Heads int // attention heads; divides Width
	Depth int // blocks; 0 for one
}

func (c Config) headDim() int { return c.Width / c.Heads }

// New builds the encoder of one of [Names], or of several joined by "+" as in [Parse], with its variables in the scope.
// Like all graph code it panics on an error: an unknown name, sizes that do not fit (see [Encoding.Validate]), an
// invalid hyperparameter.
func New(name string, scope *model.Scope, c Config) Encoder {
	e, err := Parse(name)
	if err == nil {
		err = e.Validate(c)
	}
	if err != nil {
		panic(err)
	}
	return e.build(scope, c)
}

const none = "none"

// joined is an encoder of several parts, each of another kind; of none for position "none".
type joined []Encoder

func (j joined) Name() string {
	if len(j) == 0 {
		return none
	}
	names := make([]string, len(j))
	for i, part := range j {
		names[i] = part.Name()
	}
	return strings.Join(names, "+")
}

// Parts returns the encoders of a name such as "learned+wepe-v" one by one.
func Parts(e Encoder) []Encoder {
	if j, ok := e.(joined); ok {
		return j
	}
	return []Encoder{e}
}

// As returns the part of an encoder that is a T: one of [Adder], [Repeater], [Scaler], [Rotator], [Biaser] and
// [Follower], or a type such as wepe.Encoder.
func As[T any](e Encoder) (T, bool) {
	for _, part := range Parts(e) {
		if t, ok := part.(T); ok {
			return t, true
		}
	}
	var no T
	return no, false
}

// QK returns the rotation of a block for GoMLX's own layers, attention.MultiHeadAttention and zoo/transformer, whose
// WithPositionalEncoder calls EncodeQK; nil if the encoder is no [Rotator]. They do not rotate values, so it panics on
// a [ValueRotator]. Queries and keys are [batch, tokens, heads, headDim], with all tokens of the Grid in order, or
// those of WithPosition.
func QK(e Encoder, block int) Encoder {
	r, ok := As[Rotator](e)
	if !ok {
		return nil
	}
	if _, ok := r.(ValueRotator); ok {
		exceptions.Panicf("position %s rotates values too: GoMLX's layers rotate only queries and keys", r.Name())
	}
	return namedQK{r.Block(block), r.Name()}
}

type namedQK struct {
	pos.QKEncoder
	name string
}

func (n namedQK) Name() string { return n.name }

// shared is what all blocks of a graph share: a node, or several.
type shared[T any] struct {
	graph *Graph
	value T
}

// in returns the value for a graph, built the first time.
func (s *shared[T]) in(g *Graph, build func() T) T {
	if s.graph != g {
		s.graph, s.value = g, build()
	}
	return s.value
}
