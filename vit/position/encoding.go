// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Kind is where in the model an encoding acts, which is the method that its encoder has. Kinds are in their order in a
// name such as "learned+rope-axial".
type Kind int

// Kinds of encodings.
const (
	noKind      Kind = iota
	Additive         // Adder: on the tokens, once before the first block; absolute positions
	Repeated         // Repeater: on the normalized tokens of every block
	Modulation       // Scaler: on the queries, keys and values of every block
	Rotary           // Rotator: on the queries and keys of every block, ValueRotator: also on the values
	Bias             // Biaser: on the attention scores of every block
	Conditional      // Follower: on the patches, after some blocks
)

// kinds are their names, and whether an encoder is of the kind.
var kinds = [...]struct {
	name string
	has  func(Encoder) bool
}{
	{none, func(Encoder) bool { return false }}, {"additive", isA[Adder]}, {"repeated", isA[Repeater]},
	{"modulation", isA[Scaler]}, {"rotary", isA[Rotator]}, {"relative bias", isA[Biaser]}, {"conditional", isA[Follower]},
}

func isA[T any](e Encoder) bool { _, ok := e.(T); return ok }

// String returns the name of the kind.
func (k Kind) String() string { return kinds[k].name }

// Spec describes an encoding: a row of the table.
type Spec struct {
	Name   string
	Doc    string // short description
	Source string // paper or code; empty for this library's own
	Kind   Kind

	Width      int // the model's width must be a multiple of it; 0 for any
	HeadDim    int // the channels of a head must be a multiple of it; 0 for any
	MinHeadDim int // and at least these; 0 for any

	// Size is about how many numbers it stores beyond a vector per token and a score per block, head and offset of two
	// patches, which count for every encoding; nil for few. It bounds the memory of configurations from files.
	Size func(Config) float64

	Variables   []string                  // below the scope of the encoding; whole scopes end in "/"
	Params      []string                  // hyperparameters that it reads
	TrainedGrid func(Grid) map[string]any // see Encoding.TrainedGrid; nil for none

	// Neutral are the last elements of the names of variables that at zero make the encoding the identity. They start at
	// zero in a model that adds the encoding to those of a pretrained one, whose function is then unchanged.
	Neutral []string

	// Pretrained marks an encoding for fine-tuning that starts with the table of a pretrained model, the variable of
	// position "learned".
	Pretrained bool

	// New creates all variables of the encoding in the scope and reads its hyperparameters from it. It is called once
	// for a graph. The encoder has the method of Kind, and of no other kind.
	New func(*model.Scope, Config) Encoder
}

// All returns all encodings, in the order of tables.
func All() []Spec { return slices.Clone(specs) }

// Names returns the names of all encodings.
func Names() []string { return strings.Split(Encoding(specs).String(), "+") }

// Params lists the names of the hyperparameters of all encodings, read from the scope of the encoding or above it, so
// that a program can reject an unknown one. The defaults are the values that each encoding's authors published.
func Params() []string { return Encoding(specs).Params() }

// Register adds a position encoding of another module, so that its name is known in models, detectors, training,
// comparisons, analyses, checkpoints and exports (to hf, timm and JAX of additive ones, folded into a table). It needs
// Name, Kind and New; all other fields are optional. Call it from an init function or before the first model is built.
// It panics on an invalid s or a name that is taken.
//
// vittest.Laws checks the properties that the rest of the library relies on.
func Register(s Spec) {
	if err := s.fits(); err != nil {
		panic(err)
	}
	specs = append(specs, s)
}

// fits checks a row before it joins the table.
func (s Spec) fits() error {
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "+,; \n|"):
		return fmt.Errorf("position: register: name %q: want one word without any of + , ; |", s.Name)
	case slices.Contains(Names(), s.Name):
		return fmt.Errorf("position: register: encoding %q exists already", s.Name)
	case s.Kind <= noKind || int(s.Kind) >= len(kinds) || s.New == nil:
		return fmt.Errorf("position: register %s: want New and one of the Kinds", s.Name)
	case s.Pretrained && s.Kind != Additive:
		return fmt.Errorf("position: register %s: only an additive encoding begins with a pretrained table", s.Name)
	}
	for _, own := range s.Variables {
		for _, other := range specs {
			if (Encoding{other}).Owns(own) && (!s.Pretrained || own != TableName) {
				return fmt.Errorf("position: register %s: variable %q is one of %s", s.Name, own, other.Name)
			}
		}
	}
	return nil
}

// Encoding is one encoding, or several of different kinds, each with its own variables. Hyperparameters of one name are
// shared.
type Encoding []Spec

// Parse returns the encoding of one of Names, or of several joined by "+" in the order additive, repeated, modulation,
// rotary, relative bias, conditional, as in "learned+rope-axial".
func Parse(name string) (Encoding, error) {
	var e Encoding
	for _, part := range strings.Split(name, "+") {
		row := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == part })
		if row < 0 {
			return nil, fmt.Errorf("position: unknown encoding %q: want one of %s, or A+B of two that act in different places",
				part, strings.Join(Names(), ", "))
		}
		e = append(e, specs[row])
	}
	for i := 1; i < len(e); i++ {
		if e[0].Kind == noKind || e[i-1].Kind >= e[i].Kind {
			return nil, fmt.Errorf("position: encoding %q: %s is %s, %s is %s: want at most one of each kind, in the order "+
				"additive, repeated, modulation, rotary, relative bias, conditional", name, e[i-1].Name, e[i-1].Kind,
				e[i].Name, e[i].Kind)
		}
	}
	return e, nil
}

// Validate returns an error that names the size of a model that does not fit.
func (e Encoding) Validate(c Config) error {
	switch {
	case c.Rows < 1 || c.Cols < 1:
		return fmt.Errorf("position: a grid of %d×%d patches, want at least 1×1: set Rows and Cols", c.Rows, c.Cols)
	case min(c.Registers, c.Unplaced) < 0 || max(c.Registers, c.Unplaced) > c.Prefix:
		return fmt.Errorf("position: Registers %d, Unplaced %d, want each from 0 to Prefix, %d", c.Registers, c.Unplaced,
			c.Prefix)
	case c.Width < 1 || c.Heads < 1 || c.Width%c.Heads != 0:
		return fmt.Errorf("position: width %d does not divide into %d heads", c.Width, c.Heads)
	}
	for _, s := range e {
		switch {
		case c.Width%max(s.Width, 1) != 0:
			return fmt.Errorf("position %s wants a multiple of %d as width, not %d", s.Name, s.Width, c.Width)
		case c.headDim()%max(s.HeadDim, 1) != 0:
			return fmt.Errorf("position %s wants heads of a multiple of %d channels, not %d", s.Name, s.HeadDim, c.headDim())
		case c.headDim() < s.MinHeadDim:
			return fmt.Errorf("position %s wants heads of at least %d channels, not %d", s.Name, s.MinHeadDim, c.headDim())
		}
	}
	return nil
}

// build builds the encoder in the scope. It panics where an encoder is not of the Kind of its row.
func (e Encoding) build(scope *model.Scope, c Config) Encoder {
	c.Depth = max(1, c.Depth)
	var parts joined
	for _, s := range e {
		if s.New == nil {
			continue
		}
		part := s.New(scope, c)
		for kind, k := range kinds {
			if k.has(part) != (Kind(kind) == s.Kind) {
				exceptions.Panicf("position: %s is registered as %s, and its encoder %T acts as %s: %t", s.Name, s.Kind, part,
					k.name, k.has(part))
			}
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts
}

// String returns the name, as in Parse.
func (e Encoding) String() string {
	names := make([]string, len(e))
	for i, s := range e {
		names[i] = s.Name
	}
	return strings.Join(names, "+")
}

// Params lists the hyperparameters of e.
func (e Encoding) Params() (names []string) {
	for _, s := range e {
		for _, name := range s.Params {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// TrainedGrid returns the hyperparameters that set a grid as the training grid of an encoding used on another one; none
// if the encoding has no such hyperparameters.
func (e Encoding) TrainedGrid(g Grid) map[string]any {
	params := map[string]any{}
	for _, s := range e {
		if s.TrainedGrid != nil {
			maps.Copy(params, s.TrainedGrid(g))
		}
	}
	return params
}

// Owns reports whether a variable below the scope of the encoding belongs to e.
func (e Encoding) Owns(variable string) bool {
	return slices.ContainsFunc(e, func(s Spec) bool {
		return slices.ContainsFunc(s.Variables, func(own string) bool {
			return variable == own || strings.HasSuffix(own, "/") && strings.HasPrefix(variable, own)
		})
	})
}

// Shared returns the encodings that are in both.
func (e Encoding) Shared(other Encoding) (shared Encoding) {
	for _, s := range e {
		if slices.ContainsFunc(other, func(o Spec) bool { return o.Name == s.Name }) {
			shared = append(shared, s)
		}
	}
	return shared
}

// Inherits reports whether a model with encoding e, made from one with encoding from, copies a variable below the scope
// of the encoding: a variable of an encoding that both have, or the table that e starts with.
func (e Encoding) Inherits(from Encoding, variable string) bool {
	return e.Shared(from).Owns(variable) || variable == TableName && e.BeginsWith(from)
}

// Added returns the encodings of e that a model made from one with encoding from has in addition to all of from; none
// if it replaces any of them.
func (e Encoding) Added(from Encoding) (added Encoding) {
	for _, s := range from {
		kept := len(e.Shared(Encoding{s})) > 0 || s.Name == learned && e.BeginsWith(from)
		if s.Kind != noKind && !kept {
			return nil
		}
	}
	return slices.DeleteFunc(slices.Clone(e), func(s Spec) bool { return len(from.Shared(Encoding{s})) > 0 })
}

// Neutral reports whether a variable below the scope of the encoding is a Neutral one of e.
func (e Encoding) Neutral(variable string) bool {
	return slices.ContainsFunc(e, func(s Spec) bool {
		return slices.Contains(s.Neutral, path.Base(variable)) && Encoding{s}.Owns(variable)
	})
}

// BeginsWith reports whether a model with this encoding, made from one with another, starts with the table of from.
func (e Encoding) BeginsWith(from Encoding) bool {
	return from[0].Name == learned && e.pretrained() != ""
}

// pretrained is the name of the part that begins with a pretrained table, "" for none.
func (e Encoding) pretrained() string {
	for _, s := range e {
		if s.Pretrained {
			return s.Name
		}
	}
	return ""
}

// ValidateGrids returns an error if e does not support several grids in one graph.
func (e Encoding) ValidateGrids() error {
	if name := e.pretrained(); name != "" {
		return fmt.Errorf("position %s blends a table of a single grid: for images of several grids use another encoding",
			name)
	}
	return nil
}

// Folds reports whether folding the encoding gives an ordinary ViT, with position "learned" alone.
func (e Encoding) Folds() bool { return e.Folded() == learned }

// Folded is the name after folding: "learned" and the encodings inside the attention; empty if nothing can be folded.
func (e Encoding) Folded() string {
	if e[0].Kind > Additive {
		return ""
	}
	return append(Encoding{{Name: learned}}, e[1:]...).String()
}
