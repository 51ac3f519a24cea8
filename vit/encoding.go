// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
)

// Encoding is the value of Config.Position: one Position, or several of different kinds, each with its own variables.
// Hyperparameters of one name are shared.
type Encoding []Position

// EncodingNamed returns the encoding of one of PositionNames, or of several joined by "+" in the order additive,
// modulation, rotary, relative bias, conditional, as in "learned+rope-axial".
func EncodingNamed(name string) (Encoding, error) {
	var e Encoding
	for _, part := range strings.Split(name, "+") {
		row := slices.IndexFunc(positions, func(p Position) bool { return p.Name == part })
		if row < 0 {
			return nil, fmt.Errorf("vit: unknown position encoding %q: want one of %s, or A+B of two that act in different "+
				"places", part, strings.Join(PositionNames(), ", "))
		}
		e = append(e, positions[row])
	}
	place := func(p Position) int { return slices.Index(kinds, p.Kind()) }
	for i := 1; i < len(e); i++ {
		if place(e[0]) < 0 || place(e[i-1]) >= place(e[i]) {
			return nil, fmt.Errorf("vit: position %q: %s is %s, %s is %s: want at most one of each kind, in the order %s",
				name, e[i-1].Name, e[i-1].Kind(), e[i].Name, e[i].Kind(), strings.Join(kinds, ", "))
		}
	}
	return e, nil
}

// Encoding returns the encoding of the model. It panics if Validate rejects the name.
func (c Config) Encoding() Encoding {
	e, err := EncodingNamed(c.WithDefaults().Position)
	if err != nil {
		panic(err)
	}
	return e
}

// String returns the name, as in Config.Position.
func (e Encoding) String() string {
	names := make([]string, len(e))
	for i, p := range e {
		names[i] = p.Name
	}
	return strings.Join(names, "+")
}

// Parameters is the number of trainable parameters, with default hyperparameters, in a model c.
func (e Encoding) Parameters(c Config) (total int) {
	for _, p := range e {
		if p.Parameters != nil {
			total += p.Parameters(c)
		}
	}
	return total
}

// Params lists the hyperparameters of e.
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
// reject an unknown one. The defaults are the values that each encoding's authors published.
func Params() []string { return Encoding(positions).Params() }

// TrainedGrid returns the hyperparameters that set c's grid as the training grid of an encoding used at another image
// size; none if the encoding has no such hyperparameters.
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

// Owns reports whether a variable below the scope "position" belongs to e.
func (e Encoding) Owns(variable string) bool {
	return slices.ContainsFunc(e, func(p Position) bool {
		return slices.ContainsFunc(p.Variables, func(own string) bool {
			return variable == own || strings.HasSuffix(own, "/") && strings.HasPrefix(variable, own)
		})
	})
}

// Shared returns the positions that are in both encodings.
func (e Encoding) Shared(other Encoding) (shared Encoding) {
	for _, p := range e {
		if slices.ContainsFunc(other, func(q Position) bool { return q.Name == p.Name }) {
			shared = append(shared, p)
		}
	}
	return shared
}

// Inherits reports whether a model with encoding e, made from one with encoding from, copies a variable below the scope
// "position": a variable of an encoding that both have, or the table that e starts with.
func (e Encoding) Inherits(from Encoding, variable string) bool {
	return e.Shared(from).Owns(variable) || variable == learnedName && e.BeginsWith(from)
}

// Added returns the positions of e that a model made from one with encoding from has in addition to all of from; none
// if it replaces any of them.
func (e Encoding) Added(from Encoding) (added Encoding) {
	for _, p := range from {
		kept := len(e.Shared(Encoding{p})) > 0 || p.Name == learned && e.BeginsWith(from)
		if p.Kind() != kindNone && !kept {
			return nil
		}
	}
	return slices.DeleteFunc(slices.Clone(e), func(p Position) bool { return len(from.Shared(Encoding{p})) > 0 })
}

// Neutral reports whether a variable below the scope "position" is a Neutral one of e.
func (e Encoding) Neutral(variable string) bool {
	return slices.ContainsFunc(e, func(p Position) bool {
		return slices.Contains(p.Neutral, path.Base(variable)) && Encoding{p}.Owns(variable)
	})
}

// BeginsWith reports whether a model with this encoding, made from one with another, starts with the table of from.
func (e Encoding) BeginsWith(from Encoding) bool {
	return from[0].Name == learned && slices.ContainsFunc(e, func(p Position) bool { return p.Pretrained })
}

// learned is the name of the encoding whose table can start with the rows of any other additive encoding.
const learned = "learned"

// Folds reports whether Config.Fold turns the model into an ordinary ViT.
func (e Encoding) Folds() bool { return e.Folded() == learned }

// Folded is the Config.Position after Config.Fold: "learned" and the encodings inside the attention; empty if nothing
// can be folded.
func (e Encoding) Folded() string {
	if !e[0].Folds() {
		return ""
	}
	return append(Encoding{{Name: learned}}, e[1:]...).String()
}

// readSettings reads the hyperparameters of an encoding from the scope, and refuses invalid values.
func readSettings(scope *model.Scope, rows []setting.Row) {
	setting.Read(scope, rows)
	if err := setting.Check(rows); err != nil {
		exceptions.Panicf("vit: %v", err)
	}
}

// trainedGrid names the hyperparameters name_rows and name_cols: the grid of patches in training, to which an
// encoding's tables belong. 0, the default, is the model's own grid.
type trainedGrid string

const maxSide = 1 << 14 // of a grid

func (name trainedGrid) settings(rows, cols *int) []setting.Row {
	return []setting.Row{
		setting.Number(string(name)+"_rows", rows, 0, maxSide, "the rows of patches in training; 0 for the model's own"),
		setting.Number(string(name)+"_cols", cols, 0, maxSide, "the columns of patches in training; 0 for the model's own"),
	}
}

// of is a Position.TrainedGrid.
func (name trainedGrid) of(c Config) map[string]any {
	return map[string]any{string(name) + "_rows": c.Rows(), string(name) + "_cols": c.Cols()}
}

// positionScope is the scope of the position encoders' variables, below the model's scope.
const positionScope = "position"

// Encoders are the position encoders of one model, by kind; nil for none.
type Encoders struct {
	Additive    Additive
	Modulation  Modulation
	Rotary      Rotary
	Relative    Relative
	Conditional Conditional
}

// Encoders builds the position encoders of a model below its scope.
func (c Config) Encoders(scope *model.Scope) Encoders {
	return c.WithDefaults().encoders(scope.At(positionScope))
}

func (c Config) encoders(scope *model.Scope) Encoders { return c.Encoding().encoders(scope, c) }

func (e Encoding) encoders(scope *model.Scope, c Config) (out Encoders) {
	for _, p := range e {
		switch p.Kind() {
		case kindAdditive:
			out.Additive = p.Additive(scope, c)
		case kindModulation:
			out.Modulation = p.Modulation(scope, c)
		case kindRotary:
			out.Rotary = p.Rotary(scope, c)
		case kindBias:
			out.Relative = p.Relative(scope, c)
		case kindConditional:
			out.Conditional = p.Conditional(scope, c)
		}
	}
	return out
}
