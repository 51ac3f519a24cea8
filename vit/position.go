// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"
)

// Additive is a position encoding that is added to the tokens once, before the first block.
type Additive interface {
	pos.Encoder
	pos.PreEncoder

	// Encode returns the vectors that PreEncode adds, float32 [prefix+Rows·Cols, width].
	Encode(g *Graph) *Node
}

// Relative is a position encoding that is added to the attention scores of every block.
type Relative interface {
	pos.Encoder

	// AttentionBias returns what is added, float32 [heads, tokens, tokens], query before key.
	AttentionBias(g *Graph) *Node
}

// Rotary is a position encoding that turns the queries and keys of every block.
type Rotary interface {
	pos.Encoder

	// Block returns the encoder of block i. Its EncodeQK takes and returns q, k [batch, tokens, heads, headDim] with
	// seqAxis 1, of the type they come in; position indices may be nil for all tokens in order.
	Block(i int) pos.QKEncoder
}

// Position is one entry of the table of encodings: one constructor per kind, nil where it has none of that kind.
// Encoders are built once per model; their variables live in the scope they are given.
type Position struct {
	Name   string
	Doc    string // what it is, in a few words
	Source string // where it comes from; empty for what is this library's

	Parameters func(Config) int // trainable numbers of the default form
	HeadDim    int              // a head's channels must be a multiple of it; 0 for any number
	Additive   func(*model.Scope, Config) Additive
	Relative   func(*model.Scope, Config) Relative
	Rotary     func(*model.Scope, Config) Rotary
}

// Kinds of encodings: where in the model they act.
const (
	KindNone   = "none"
	KindAdded  = "added"  // on the tokens, once before the first block
	KindRotary = "rotary" // on the queries and keys of every block
	KindBias   = "bias"   // on the attention scores of every block
)

// Kind returns one of KindNone, KindAdded, KindRotary and KindBias.
func (p Position) Kind() string {
	switch {
	case p.Additive != nil:
		return KindAdded
	case p.Rotary != nil:
		return KindRotary
	case p.Relative != nil:
		return KindBias
	}
	return KindNone
}

// Folds says whether Config.Table and Config.Fold take it.
func (p Position) Folds() bool { return p.Rotary == nil && p.Relative == nil }

// positions is the one table of encodings. A new one is a file of its own and a row here.
var positions = []Position{
	{Name: "none", Doc: "no positions: a bag of patches", Parameters: func(Config) int { return 0 }},
	{
		Name: "learned", Doc: "a free vector per token (APE)", Source: "https://arxiv.org/abs/2010.11929",
		Parameters: func(c Config) int { return c.Tokens() * c.Width }, Additive: newLearned,
	},
	{
		Name: "sinusoidal1d", Doc: "fixed sines and cosines of the number of the token (SPE)",
		Source:     "https://arxiv.org/abs/1706.03762",
		Parameters: func(Config) int { return 0 }, Additive: newSinusoidal1D,
	},
	{
		Name: "sincos2d", Doc: "fixed sines and cosines of row and column", Source: "https://arxiv.org/abs/2111.06377",
		Parameters: func(Config) int { return 0 }, Additive: newSinCos2D,
	},
	{Name: "grid2d", Doc: "a learned table that resamples itself to another grid", Parameters: grid2dParameters,
		Additive: newGrid2D},
	{
		Name: "rope1d", Doc: "pairs of channels turn by the number of the patch", HeadDim: 2,
		Source:     "https://arxiv.org/abs/2104.09864",
		Parameters: func(Config) int { return 0 }, Rotary: newRope1D,
	},
	{
		Name: "rope-axial", Doc: "half of the pairs turn by the column, half by the row", HeadDim: 4,
		Source:     "https://arxiv.org/abs/2403.13298",
		Parameters: func(Config) int { return 0 }, Rotary: newRopeAxial,
	},
	{
		Name: "rope-mixed", Doc: "pairs turn along directions learned for each head", HeadDim: 4,
		Source:     "https://arxiv.org/abs/2403.13298",
		Parameters: ropeMixedParameters, Rotary: newRopeMixed,
	},
	{
		Name: "as2drope", Doc: "axial, scaled to the grid of the training, class token too", HeadDim: 4,
		Source:     "https://arxiv.org/abs/2403.00522",
		Parameters: func(Config) int { return 0 }, Rotary: newAS2DRoPE,
	},
	{
		Name: "fope", Doc: "rope1d with mixtures of frequencies", HeadDim: 2,
		Source:     "https://arxiv.org/abs/2412.17739",
		Parameters: func(Config) int { return 0 }, Rotary: newFoPE,
	},
	{
		Name: "liere", Doc: "learned rotations of 8 channels at once", Source: "https://arxiv.org/abs/2406.10322",
		Parameters: liereParameters, Rotary: newLieRE,
	},
	{Name: "wepe", Doc: "℘ and ℘′ of the patch's place, projected", Parameters: wepeParameters, Additive: newWePE},
	{Name: "wepe-lut", Doc: "wepe by a look-up table, its lattice fixed", Parameters: wepeTableParameters,
		Additive: newWePETable},
	{Name: "hybrid", Doc: "a learned table blended with a surrogate of ℘ by a gate", Parameters: hybridParameters,
		Additive: newHybrid},
	{Name: "wepe-bias", Doc: "℘ and ℘′ of the difference of two places, a score per head",
		Parameters: wepeBiasParameters, Relative: newWePEBias},
}

// Positions returns all encodings, in the order of tables.
func Positions() []Position { return slices.Clone(positions) }

// PositionNames lists the names that Config.Position accepts.
func PositionNames() []string {
	names := make([]string, len(positions))
	for i, p := range positions {
		names[i] = p.Name
	}
	return names
}

func position(name string) (Position, error) {
	for _, p := range positions {
		if p.Name == name {
			return p, nil
		}
	}
	return Position{}, fmt.Errorf("vit: unknown position encoding %q: want one of %s",
		name, strings.Join(PositionNames(), ", "))
}

// positionScope is where the encoders of a model keep their variables, below the model's scope.
const positionScope = "position"

// Encoder returns the additive encoder of the model, nil where Position has none. The scope is the model's; what the
// encoder needs besides Config are hyperparameters of that scope (wepe.Param…).
func (c Config) Encoder(scope *model.Scope) Additive {
	return c.WithDefaults().encoder(scope.At(positionScope))
}

func (c Config) encoder(scope *model.Scope) Additive {
	p, err := position(c.Position)
	if err != nil {
		panic(err)
	}
	if p.Additive == nil {
		return nil
	}
	return p.Additive(scope, c)
}

// RelativeEncoder returns the encoder of relative positions of the model, nil where Position has none; as Encoder.
func (c Config) RelativeEncoder(scope *model.Scope) Relative {
	return c.WithDefaults().relative(scope.At(positionScope))
}

func (c Config) relative(scope *model.Scope) Relative {
	p, err := position(c.Position)
	if err != nil {
		panic(err)
	}
	if p.Relative == nil {
		return nil
	}
	return p.Relative(scope, c)
}

// RotaryEncoder returns the encoder of queries and keys of the model, nil where Position has none; as Encoder.
func (c Config) RotaryEncoder(scope *model.Scope) Rotary {
	return c.WithDefaults().rotary(scope.At(positionScope))
}

func (c Config) rotary(scope *model.Scope) Rotary {
	p, err := position(c.Position)
	if err != nil {
		panic(err)
	}
	if p.Rotary == nil {
		return nil
	}
	return p.Rotary(scope, c)
}
