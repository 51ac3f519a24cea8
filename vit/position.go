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

	// Encode returns the vectors that PreEncode adds, float32 [Config.Positions, width].
	Encode(g *Graph) *Node
}

// Relative is a position encoding that is added to the attention scores of every block.
type Relative interface {
	pos.Encoder

	// AttentionBias returns the bias of block i, float32 [heads, tokens, tokens], query before key.
	AttentionBias(g *Graph, i int) *Node
}

// Modulation is a position encoding that scales the queries, keys and values of every block, channel by channel.
type Modulation interface {
	pos.Encoder

	// Scale returns the factors of queries, keys and values in block i, float32 [tokens, width] each, or nil for those
	// that are not scaled; 1 for tokens without a position.
	Scale(g *Graph, i int) [3]*Node
}

// Rotary is a position encoding that rotates the queries and keys of every block.
type Rotary interface {
	pos.Encoder

	// Block returns the encoder of block i. Its EncodeQK takes and returns q, k [batch, tokens, heads, headDim] with
	// seqAxis 1, in their dtype; position indices may be nil for all tokens in order.
	Block(i int) pos.QKEncoder
}

// Conditional is a position encoding that is computed from the patches and added to them, after some of the blocks.
type Conditional interface {
	pos.Encoder

	// After returns what is added after block i to the patches x [batch, rows, cols, width], in their type; nil for
	// nothing.
	After(x *Node, i int) *Node
}

// Position describes an encoding. Its one constructor is called once per graph, creates all variables of the encoding
// in the scope and reads hyperparameters from it.
type Position struct {
	Name   string
	Doc    string // short description
	Source string // paper or code; empty for this library's own

	Width   int // the model's width must be a multiple of it; 0 for any
	HeadDim int // the channels of a head must be a multiple of it; 0 for any

	Parameters  func(Config) int            // trainable parameters with default settings; nil for none
	Variables   []string                    // its variables below the scope "position"; whole scopes end in "/"
	Params      []string                    // hyperparameters it reads
	TrainedGrid func(Config) map[string]any // see Config.TrainedGrid; nil for none

	// Neutral are the last elements of the names of variables that at zero make the encoding the identity. They start at
	// zero in a model that adds the encoding to those of a pretrained one, whose function is then unchanged.
	Neutral []string

	// Pretrained marks an encoding for fine-tuning that starts with the table of a pretrained model, the variable of
	// position "learned".
	Pretrained bool

	Additive    func(*model.Scope, Config) Additive
	Modulation  func(*model.Scope, Config) Modulation
	Rotary      func(*model.Scope, Config) Rotary
	Relative    func(*model.Scope, Config) Relative
	Conditional func(*model.Scope, Config) Conditional
}

// Kinds of encodings: where in the model they act.
const (
	kindNone        = "none"
	kindAdditive    = "additive"      // on the tokens, once before the first block: absolute positions
	kindModulation  = "modulation"    // on the queries, keys and values of every block
	kindRotary      = "rotary"        // on the queries and keys of every block
	kindBias        = "relative bias" // on the attention scores of every block
	kindConditional = "conditional"   // on the patches, after some blocks
)

// kinds is their order in a name such as "learned+rope-axial".
var kinds = []string{kindAdditive, kindModulation, kindRotary, kindBias, kindConditional}

// Kind returns where in the model the encoding acts: "none", "additive", "modulation", "rotary", "relative bias" or
// "conditional".
func (p Position) Kind() string {
	switch {
	case p.Additive != nil:
		return kindAdditive
	case p.Modulation != nil:
		return kindModulation
	case p.Rotary != nil:
		return kindRotary
	case p.Relative != nil:
		return kindBias
	case p.Conditional != nil:
		return kindConditional
	}
	return kindNone
}

// Folds reports whether a position table can replace the encoding, see [Config.Fold].
func (p Position) Folds() bool { return p.Additive != nil || p.Kind() == kindNone }

// Positions returns all encodings, in the order of tables.
func Positions() []Position { return slices.Clone(positions) }

// PositionNames returns the names of all encodings.
func PositionNames() []string { return strings.Split(Encoding(positions).String(), "+") }

// Register adds a position encoding of another module, so that Config.Position can name it in training, comparisons,
// analyses, checkpoints and exports. It needs a Name and one constructor, which determines its kind; all other fields
// are optional. Call it from an init function or before the first model is built. It panics on an invalid p or a name
// that is taken.
//
// vittest.Laws checks the properties that the rest of the library relies on. An encoding creates its variables in the
// scope that its constructor receives.
func Register(p Position) {
	if err := p.fits(); err != nil {
		panic(err)
	}
	positions = append(positions, p)
}

// fits checks a row before it joins the table.
func (p Position) fits() error {
	constructors := 0
	for _, has := range []bool{
		p.Additive != nil, p.Modulation != nil, p.Rotary != nil, p.Relative != nil, p.Conditional != nil,
	} {
		if has {
			constructors++
		}
	}
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, "+,; \n|"):
		return fmt.Errorf("vit: register: name %q: want one word without any of + , ; |", p.Name)
	case slices.Contains(PositionNames(), p.Name):
		return fmt.Errorf("vit: register: position encoding %q exists already", p.Name)
	case constructors != 1:
		return fmt.Errorf("vit: register %s: %d constructors, want one of Additive, Modulation, Rotary, "+
			"Relative and Conditional", p.Name, constructors)
	case p.Pretrained && p.Additive == nil:
		return fmt.Errorf("vit: register %s: only an additive encoding begins with a pretrained table", p.Name)
	}
	for _, own := range p.Variables {
		for _, q := range positions {
			if (Encoding{q}).Owns(own) && (!p.Pretrained || own != learnedName) {
				return fmt.Errorf("vit: register %s: variable %q is one of %s", p.Name, own, q.Name)
			}
		}
	}
	return nil
}
