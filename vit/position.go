// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
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

	// AttentionBias returns what is added in block i, float32 [heads, tokens, tokens], query before key.
	AttentionBias(g *Graph, i int) *Node
}

// Rotary is a position encoding that turns the queries and keys of every block.
type Rotary interface {
	pos.Encoder

	// Block returns the encoder of block i. Its EncodeQK takes and returns q, k [batch, tokens, heads, headDim] with
	// seqAxis 1, of the type they come in; position indices may be nil for all tokens in order.
	Block(i int) pos.QKEncoder
}

// Position is one row of the table of encodings. It has one constructor, of its kind: called once per graph, it creates
// all variables of the encoding in the scope it is given, and reads there what it needs besides Config.
type Position struct {
	Name   string
	Doc    string // what it is, in a few words
	Source string // where it comes from; empty for what is this library's

	Width   int // the model's width must be a multiple of it; 0 for any
	HeadDim int // the channels of a head must be a multiple of it; 0 for any

	Parameters  func(Config) int            // trainable numbers of the default form; nil for none
	Variables   []string                    // its variables below the scope "position"; whole scopes end in "/"
	Params      []string                    // hyperparameters it reads
	TrainedGrid func(Config) map[string]any // of these, the ones of Config.TrainedGrid; nil for none

	// Pretrained says that it begins with the table of a pretrained model, the variable of position "learned": it is for
	// fine-tuning.
	Pretrained bool

	Additive func(*model.Scope, Config) Additive
	Rotary   func(*model.Scope, Config) Rotary
	Relative func(*model.Scope, Config) Relative
}

// Kinds of encodings: where in the model they act.
const (
	KindNone     = "none"
	KindAdditive = "additive"      // on the tokens, once before the first block: absolute positions
	KindRotary   = "rotary"        // on the queries and keys of every block
	KindBias     = "relative bias" // on the attention scores of every block
)

// Kind returns one of KindNone, KindAdditive, KindRotary and KindBias.
func (p Position) Kind() string {
	switch {
	case p.Additive != nil:
		return KindAdditive
	case p.Rotary != nil:
		return KindRotary
	case p.Relative != nil:
		return KindBias
	}
	return KindNone
}

// Folds says whether a table in front of the first block can take its place, see Config.Fold.
func (p Position) Folds() bool { return p.Additive != nil || p.Kind() == KindNone }

// positions is the one table of encodings. A new one is a file of its own and a row here, or a call of Register:
// nowhere else is its name compared with anything.
var positions = []Position{
	{Name: "none", Doc: "no positions: a bag of patches"},
	{
		Name: learned, Doc: "a free vector per token (APE)", Source: "https://arxiv.org/abs/2010.11929",
		Parameters: func(c Config) int { return c.Positions() * c.Width }, Variables: []string{learnedName},
		Additive: newLearned,
	},
	{
		Name: "sinusoidal1d", Doc: "fixed sines and cosines of the number of the token (SPE)",
		Source: "https://arxiv.org/abs/1706.03762", Additive: newSinusoidal1D,
	},
	{
		Name: "sincos2d", Doc: "fixed sines and cosines of row and column", Source: "https://arxiv.org/abs/2111.06377",
		Width: 4, Params: []string{paramSinCos2DVariant}, Additive: newSinCos2D,
	},
	{
		Name: "grid2d", Doc: "a learned table that resamples itself to another grid",
		Parameters: grid2dParameters, Variables: []string{"grid2d/"},
		Params:      []string{paramGrid2DRows, paramGrid2DCols, ParamGrid2DKernel},
		TrainedGrid: grid2dTrainedGrid, Additive: newGrid2D,
	},
	{
		Name: "factorized", Doc: "a learned table for rows and one for columns, resampled on their own",
		Source:     "https://arxiv.org/abs/2307.06304",
		Parameters: factorizedParameters, Variables: []string{"factorized/"},
		Params:      []string{paramFactorizedRows, paramFactorizedCols, paramFactorizedAspect},
		TrainedGrid: factorizedTrainedGrid, Additive: newFactorized,
	},
	{
		Name: "rope1d", Doc: "pairs of channels turn by the number of the patch",
		Source:  "https://arxiv.org/abs/2104.09864",
		HeadDim: 2, Params: []string{ParamRopeTheta}, Rotary: newRope1D,
	},
	{
		Name: "rope-axial", Doc: "half of the pairs turn by the column, half by the row",
		Source:  "https://arxiv.org/abs/2403.13298",
		HeadDim: 4, Params: setting.Names(new(axialRope).settings()), Rotary: newRopeAxial,
	},
	{
		Name: "rope-mixed", Doc: "pairs turn along directions learned for each head",
		Source:  "https://arxiv.org/abs/2403.13298",
		HeadDim: 4, Parameters: ropeMixedParameters, Variables: []string{"rope_mixed/"},
		Params: []string{ParamRopeTheta}, Rotary: newRopeMixed,
	},
	{
		Name: "rope-dinov3", Doc: "axial over places from -1 to 1 on any grid, jittered in training",
		Source:  "https://arxiv.org/abs/2508.10104",
		HeadDim: 4, Params: setting.Names(new(dinoRope).settings()), Rotary: newRopeDINOv3,
	},
	{
		Name: "as2drope", Doc: "axial, scaled to the grid of the training, class token too",
		Source:  "https://arxiv.org/abs/2403.00522",
		HeadDim: 4, Params: []string{ParamRopeTheta, paramAS2DRoPEBaseRows, paramAS2DRoPERotateClass},
		TrainedGrid: as2dTrainedGrid, Rotary: newAS2DRoPE,
	},
	{
		Name: "fope", Doc: "rope1d with mixtures of frequencies", Source: "https://arxiv.org/abs/2412.17739",
		HeadDim: 2, Variables: []string{"fope/"}, Params: setting.Names(new(fopeSettings).settings()),
		TrainedGrid: fopeTrainedGrid, Rotary: newFoPE,
	},
	{
		Name: "liere", Doc: "learned rotations of 8 channels at once", Source: "https://arxiv.org/abs/2406.10322",
		Parameters: liereParameters, Variables: []string{"liere/"}, Params: setting.Names(new(liereSettings).settings()),
		TrainedGrid: liereTrainedGrid,
		Rotary:      newLieRE,
	},
	{
		Name: "wepe", Doc: "℘ and ℘′ of the patch's place, projected",
		Parameters: wepeParameters, Variables: []string{"wepe/", "wepe_sphere/"}, Params: wepe.Params(),
		TrainedGrid: wepeTrainedGrid, Additive: newWePE,
	},
	{
		Name: "wepe-sphere", Doc: "wepe with ℘ and ℘′ as points of the Riemann sphere",
		Parameters: wepeSphereParameters, Variables: []string{"wepe/", "wepe_sphere/"}, Params: wepe.Params(),
		TrainedGrid: wepeTrainedGrid, Additive: newWePESphere,
	},
	{
		Name: "wepe-residual", Doc: "a learned table that begins as sphere features",
		Parameters: wepeResidualParameters, Variables: []string{"wepe_residual/"}, Params: wepe.Params(),
		TrainedGrid: wepeTrainedGrid, Additive: newWePEResidual,
	},
	{
		Name: "wepe-attention", Doc: "sphere features added to the queries and keys of every block",
		Parameters: wepeAttentionParameters, Variables: []string{"wepe_attention/"}, Params: wepe.Params(),
		TrainedGrid: wepeTrainedGrid, Rotary: newWePEAttention,
	},
	{
		Name: "wepe-lut", Doc: "wepe by a look-up table, its lattice fixed",
		Parameters: wepeTableParameters, Variables: []string{"wepe/", "wepe_sphere/"}, Params: wepe.Params(),
		Additive: newWePETable,
	},
	{
		Name: "hybrid", Doc: "a learned table blended with a surrogate of ℘ by a gate", Width: 2,
		Parameters: hybridParameters, Variables: []string{learnedName, "gate_raw", "surrogate/", "wepe/", "wepe_sphere/"},
		Params: append(wepe.Params(), ParamBlend), Pretrained: true, Additive: newHybrid,
	},
	{
		Name: "wepe-bias", Doc: "℘ and ℘′ of the difference of two places, a score per head",
		Parameters: wepeBiasParameters, Variables: []string{"wepe_bias/", "wepe_bias_sphere/"}, Params: wepe.Params(),
		Relative: newWePEBias,
	},
	{
		Name: "relative-table", Doc: "a learned score per head and offset of two patches",
		Source: "https://arxiv.org/abs/2106.08254", Parameters: relativeTableParameters,
		Variables: []string{"relative_table/"}, Params: setting.Names(relativeTableSettings(new(int), new(int))),
		TrainedGrid: relativeTableTrainedGrid, Relative: newRelativeTable,
	},
	{
		Name: "alibi2d", Doc: "a slope per head times the distance of two patches",
		Source: "https://arxiv.org/abs/2311.00566", Relative: newALiBi2D,
	},
	{
		Name: "lookhere", Doc: "heads that each look one way, and less far block by block",
		Source: "https://arxiv.org/abs/2405.13985",
		Params: append(setting.Names(new(lookHere).settings()), paramLookHereViews), Relative: newLookHere,
	},
}

// Positions returns all encodings, in the order of tables.
func Positions() []Position { return slices.Clone(positions) }

// PositionNames lists their names.
func PositionNames() []string { return strings.Split(Encoding(positions).String(), "+") }

// Encoding is what Config.Position names: one row of the table, or several of different kinds. Together each keeps the
// variables and hyperparameters that it has alone.
type Encoding []Position

// EncodingNamed returns the encoding of one of PositionNames, or of several joined by "+": what is added to the tokens
// first, then rotary, then bias, as in "learned+rope-axial".
func EncodingNamed(name string) (Encoding, error) {
	var e Encoding
	order := []string{KindAdditive, KindRotary, KindBias}
	for _, part := range strings.Split(name, "+") {
		row := slices.IndexFunc(positions, func(p Position) bool { return p.Name == part })
		if row < 0 {
			return nil, fmt.Errorf("vit: unknown position encoding %q: want one of %s, or A+B of two that act in different "+
				"places", part, strings.Join(PositionNames(), ", "))
		}
		e = append(e, positions[row])
	}
	place := func(p Position) int { return slices.Index(order, p.Kind()) }
	for i := 1; i < len(e); i++ {
		if place(e[0]) < 0 || place(e[i-1]) >= place(e[i]) {
			return nil, fmt.Errorf("vit: position %q: %s is %s, %s is %s: want at most one of each kind, in the order %s",
				name, e[i-1].Name, e[i-1].Kind(), e[i].Name, e[i].Kind(), strings.Join(order, ", "))
		}
	}
	return e, nil
}

// Encoding returns the encoding of the model and panics where Validate refuses its name.
func (c Config) Encoding() Encoding {
	e, err := EncodingNamed(c.WithDefaults().Position)
	if err != nil {
		panic(err)
	}
	return e
}

// String is the name.
func (e Encoding) String() string {
	names := make([]string, len(e))
	for i, p := range e {
		names[i] = p.Name
	}
	return strings.Join(names, "+")
}

// Parameters is the number of trainable numbers of the default form in a model.
func (e Encoding) Parameters(c Config) (total int) {
	for _, p := range e {
		if p.Parameters != nil {
			total += p.Parameters(c)
		}
	}
	return total
}

// Params lists the hyperparameters that it reads.
func (e Encoding) Params() (names []string) {
	for _, p := range e {
		for _, name := range p.Params {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Params lists the names of the hyperparameters of all encodings, read from the model's scope, so that a program can
// refuse one that nothing reads. Their defaults are the published values of the encoding's own authors.
func Params() []string { return Encoding(positions).Params() }

// TrainedGrid returns the hyperparameters that tell the encoding of a model on images of another size what grid c was
// trained on; none where it does not ask.
func (c Config) TrainedGrid() map[string]any {
	c = c.WithDefaults()
	params := map[string]any{}
	for _, p := range c.Encoding() {
		if p.TrainedGrid != nil {
			maps.Copy(params, p.TrainedGrid(c))
		}
	}
	return params
}

// Owns says whether a variable below the scope "position" is one of its own.
func (e Encoding) Owns(variable string) bool {
	return slices.ContainsFunc(e, func(p Position) bool {
		return slices.ContainsFunc(p.Variables, func(own string) bool {
			return variable == own || strings.HasSuffix(own, "/") && strings.HasPrefix(variable, own)
		})
	})
}

// Shared is what both encodings have.
func (e Encoding) Shared(other Encoding) (shared Encoding) {
	for _, p := range e {
		if slices.ContainsFunc(other, func(q Position) bool { return q.Name == p.Name }) {
			shared = append(shared, p)
		}
	}
	return shared
}

// Inherits says whether a model with this encoding, made from one with another, takes over its variable below the scope
// "position": one of an encoding that both have, or the table that this one begins with.
func (e Encoding) Inherits(from Encoding, variable string) bool {
	return e.Shared(from).Owns(variable) || variable == learnedName && e.BeginsWith(from)
}

// BeginsWith says whether a model with this encoding, made from one with another, begins with its table.
func (e Encoding) BeginsWith(from Encoding) bool {
	return from[0].Name == learned && slices.ContainsFunc(e, func(p Position) bool { return p.Pretrained })
}

// learned is the name of the encoding whose rows can be those of any other that is added to the tokens.
const learned = "learned"

// Folds says whether Config.Fold makes an ordinary ViT of the model.
func (e Encoding) Folds() bool { return e.Folded() == learned }

// Folded is the Config.Position that Config.Fold leaves: "learned" and what acts in the attention; empty where nothing
// can be folded.
func (e Encoding) Folded() string {
	if !e[0].Folds() {
		return ""
	}
	return append(Encoding{{Name: learned}}, e[1:]...).String()
}

// readSettings takes over the hyperparameters of an encoding from the scope, and refuses what they do not take.
func readSettings(scope *model.Scope, rows []setting.Row) {
	setting.Read(scope, rows)
	if err := setting.Check(rows); err != nil {
		exceptions.Panicf("vit: %v", err)
	}
}

// positionScope is where the encoders of a model keep their variables, below the model's scope.
const positionScope = "position"

// Encoders are what an encoding does in one model, nil where it has nothing of that kind.
type Encoders struct {
	Additive Additive
	Rotary   Rotary
	Relative Relative
}

// Encoders builds the position encoders of a model below its scope.
func (c Config) Encoders(scope *model.Scope) Encoders {
	return c.WithDefaults().encoders(scope.At(positionScope))
}

func (c Config) encoders(scope *model.Scope) Encoders { return c.Encoding().encoders(scope, c) }

func (e Encoding) encoders(scope *model.Scope, c Config) (out Encoders) {
	for _, p := range e {
		switch p.Kind() {
		case KindAdditive:
			out.Additive = p.Additive(scope, c)
		case KindRotary:
			out.Rotary = p.Rotary(scope, c)
		case KindBias:
			out.Relative = p.Relative(scope, c)
		}
	}
	return out
}
