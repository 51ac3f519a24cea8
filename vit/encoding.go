// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/vit/position"
)

// Encoding returns the encoding of the model. It panics if the name is unknown.
func (c Config) Encoding() position.Encoding {
	e, err := position.Parse(cmp.Or(c.Position, defaultPosition))
	if err != nil {
		panic(err)
	}
	return e
}

// positions is the model as its encoding sees it.
func (c Config) positions() position.Config {
	return position.Config{
		Grid: position.Grid{
			Rows: c.Rows(), Cols: c.Cols(), Prefix: c.Prefix(), Registers: c.Registers,
			Unplaced: c.Prefix() - c.PrefixPositions(),
		},
		Width: c.Width, Heads: c.Heads, Depth: c.Depth,
	}
}

// TrainedGrid returns the hyperparameters that set c's grid as the training grid of an encoding used at another image
// size; none if the encoding has no such hyperparameters.
func (c Config) TrainedGrid() map[string]any {
	return c.Encoding().TrainedGrid(c.positions().Grid)
}

// Encoder builds the position encoder of a model, in "position" below its scope.
func (c Config) Encoder(scope *model.Scope) position.Encoder {
	return c.encoder(scope.At(ScopePosition))
}

func (c Config) encoder(scope *model.Scope) position.Encoder {
	return position.New(c.Encoding().String(), scope, c.positions())
}

// placement is where the tokens of a batch are: the encoder of their positions, and what is not there.
type placement struct {
	position.Encoder
	hidden  *Node // scores of padding, float32 [batch, 1, 1, tokens]: 0, and hiddenScore for padding; nil for none
	weights *Node // of the pooling: [tokens], [2, tokens] where two vectors are concatenated, or [batch, 1 or 2, tokens]
}

// add adds to the tokens x [batch, tokens, width] that have a vector in the encoding.
func (p placement) add(c Config, x *Node) *Node {
	e, ok := position.As[position.Adder](p.Encoder)
	switch {
	case !ok:
		return x
	case c.Positions() == c.Tokens() || p.hidden != nil:
		return e.PreEncode(x, nil, 1)
	}
	return additive.PreEncode(c.positions().AllTokens(e.Encode(x.Graph())), x, nil, 1)
}

// hooks returns the functions of the encoding in the attention of a block.
func (p placement) hooks(c Config, block int) (a AttentionHooks) {
	if e, ok := position.As[position.Repeater](p.Encoder); ok {
		a.Add = func(x *Node) *Node {
			rows := e.Repeat(x.Graph(), block)
			return Reshape(rows, -1, x.Shape().Dim(1), c.Width) // [1 or batch, tokens, width]
		}
	}
	if e, ok := position.As[position.Scaler](p.Encoder); ok {
		// In Config.attention: after the projections and their norms, before Rotate, RotateValues and the scores.
		a.Scale = func(q *Node) [3]*Node { return e.Scale(q.Graph(), block) }
	}
	if e, ok := position.As[position.Rotator](p.Encoder); ok {
		a.Rotate = func(q, k *Node) (*Node, *Node) { return e.Block(block).EncodeQK(q, k, nil, 1) }
	}
	if e, ok := position.As[position.ValueRotator](p.Encoder); ok {
		one := func(e position.Rotator) func(x *Node) *Node {
			return func(x *Node) *Node { x, _ = e.Block(block).EncodeQK(x, x, nil, 1); return x }
		}
		a.RotateValues, a.Back = one(e), one(e.Back())
	}
	e, ok := position.As[position.Biaser](p.Encoder)
	if !ok && p.hidden == nil {
		return a
	}
	a.Bias = func(q *Node) *Node {
		if !ok {
			return p.hidden
		}
		bias := e.Bias(q.Graph(), block)
		if p.hidden == nil {
			return InsertAxes(bias, 0)
		}
		return Add(bias, p.hidden)
	}
	return a
}

// after adds to the patches, the tokens x [batch, tokens, width] behind the prefix, after a block.
func (p placement) after(c Config, x *Node, block int) *Node {
	e, ok := position.As[position.Follower](p.Encoder)
	if !ok {
		return x
	}
	y := e.After(kernel.Crop(x, 1, c.Prefix(), x.Shape().Dim(1)), block)
	if y == nil {
		return x
	}
	return Add(x, kernel.ZeroPad(y, 1, c.Prefix(), 0))
}

// pool returns [batch, PooledWidth] from the tokens [batch, tokens, width]; the variables of poolMap are in the scope.
// It is a product with constants, because Slice cannot be differentiated on every backend.
func (p placement) pool(c Config, scope *model.Scope, x *Node) *Node {
	tokens := x.Shape().Dim(1)
	if c.Pool != poolMap {
		pooled := Einsum([]string{"btd,t->bd", "btd,pt->bpd", "btd,bpt->bpd"}[p.weights.Rank()-1], x, p.weights)
		return Reshape(pooled, -1, c.PooledWidth())
	}
	hidden := p.hidden
	if !c.PoolPrefix && c.Prefix() > 0 {
		scores := make([]float32, tokens)
		for i := range c.Prefix() {
			scores[i] = hiddenScore
		}
		prefix := Reshape(Const(x.Graph(), scores), 1, 1, 1, tokens)
		if hidden != nil {
			prefix = Add(hidden, prefix)
		}
		hidden = prefix
	}
	return c.mapPool(scope.In(ScopePool), x, hidden)
}
