// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// named is an encoding for a model.
type named struct {
	Config
	name string
}

// on builds the encoder where a model in the scope has it.
func (n named) on(scope *model.Scope) Encoder { return New(n.name, scope.At("position"), n.Config) }

// acting is what an encoder does in one place.
func acting[T any](n named, scope *model.Scope) T {
	e, _ := As[T](n.on(scope))
	return e
}

// small is on 5×3 patches after a class token, in two blocks with seven heads of 4 channels.
func small(name string) named {
	return named{Config{Grid: Grid{Rows: 5, Cols: 3, Prefix: 1}, Width: 28, Heads: 7, Depth: 2}, name}
}

// turning is small with three heads of 20 channels.
func turning(name string) named {
	n := small(name)
	n.Width, n.Heads = 60, 3
	return n
}

// onGrid is on patches alone, with heads of 4 channels.
func onGrid(name string, rows, cols, depth, heads int) named {
	return named{Config{Grid: Grid{Rows: rows, Cols: cols}, Width: 4 * heads, Heads: heads, Depth: depth}, name}
}

func rotationOf(r Encoder) *rotation { return r.(*rotary).tokenwise.(*rotation) }
func liereOf(r Encoder) *liere       { return r.(*rotary).tokenwise.(*liere) }

// stored is a store with some hyperparameters.
func stored(params map[string]any) *model.Store {
	store := model.NewStore()
	store.SetParams(params)
	return store
}

// refuses requires a call to panic with an error of the given words.
func refuses(t testing.TB, what string, call func(), words ...string) {
	t.Helper()
	err := exceptions.TryCatch[error](call)
	lacks := func(word string) bool { return !strings.Contains(err.Error(), word) }
	if err == nil || slices.ContainsFunc(words, lacks) {
		t.Errorf("%s: want an error with %q, got %v", what, words, err)
	}
}

// rowsOf returns the rows that an encoding adds.
func rowsOf(t *testing.T, n named, store *model.Store) []float64 {
	t.Helper()
	// Times one: a variable that is itself an output comes back wrong from the onnx backend.
	return gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{MulScalar(acting[Adder](n, s.In("vit")).Encode(in[0].Graph()), 1)}
	}, float32(0))[0]
}

// inBlock is what an encoder does in a block: its bias, its rows, its factors, or what becomes of the queries q.
func inBlock(e Encoder, block int, q *Node) []*Node {
	switch e := e.(type) {
	case Biaser:
		return []*Node{e.Bias(q.Graph(), block)}
	case Repeater:
		return []*Node{e.Repeat(q.Graph(), block)}
	case Scaler:
		scales := e.Scale(q.Graph(), block)
		return slices.DeleteFunc(scales[:], func(x *Node) bool { return x == nil })
	case Rotator:
		q, _ = e.Block(block).EncodeQK(q, q, nil, 1)
	}
	return []*Node{q}
}
