// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit/position"
)

// trained returns a store with the model of a configuration, its weights stirred so that none has its initial value,
// and with other variables of a training run.
func trained(t *testing.T, c Config, params ...map[string]any) *model.Store {
	t.Helper()
	store := gomlxtest.Seeded(t, 7)
	for _, p := range params {
		store.SetParams(p)
	}
	variables(t, store, c)
	gomlxtest.Stirred(t, store)
	gomlxtest.Must(store.CreateVariable("/adamw/first/vit/class", tensors.FromScalar(float32(1))))(t)
	return store
}

// logitsOf runs a model on a batch of images.
func logitsOf(t *testing.T, store *model.Store, c Config, images *tensors.Tensor) []float64 {
	t.Helper()
	return run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, images)[0]
}

// graphOf lists the nodes of a model's graph: operation, shape and inputs of each.
func graphOf(t *testing.T, store *model.Store, c Config) (nodes []string) {
	t.Helper()
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		out := c.Logits(s.In("vit"), in[0])
		for _, node := range in[0].Graph().Nodes() {
			line := fmt.Sprintf("%s %s", node.Type(), node.Shape())
			if node.Type() == NodeTypeParameter {
				line += " " + node.GetParameterName()
			}
			for _, input := range node.Inputs() {
				line += fmt.Sprintf(" %d", input.Id())
			}
			nodes = append(nodes, line)
		}
		return []*Node{out}
	}, noise(c, 2))
	return nodes
}

// Of two encodings the table replaces the additive one: the encoding in the attention stays, with its variables. The
// hyperparameters contain its details.
func TestFold_keeps_the_logits_of_every_form(t *testing.T) {
	for _, of := range []struct {
		label, want string
		params      map[string]any
	}{
		{"wepe+rope-mixed", "learned+rope-mixed", nil}, {"hybrid+liere", "learned+liere", nil},
		{"learned+fope", "learned+fope", nil},
		{"sincos2d+rope-axial+wepe-bias", "learned+rope-axial+wepe-bias", nil},
		{"factorized", "learned", nil}, {"sincos2d", "learned", nil},
		{"wepe", "learned", map[string]any{"wepe_mode": "release", "wepe_alpha_u": 0.3, "wepe_derivative": false}},
		{"hybrid", "learned", map[string]any{"wepe_surrogate": "svhn", "wepe_gate": 0.9}},
		{"hybrid", "learned", map[string]any{"wepe_blend": "exact", "wepe_gate": 0.7, "wepe_alpha_u": 0.3}},
	} {
		if gomlxtest.OnXLA() && of.params == nil {
			continue // the laws of package vittest fold encodings with their defaults
		}
		c := small(of.label, poolClass)
		store := trained(t, c, of.params)
		gomlxtest.Must(store.CreateVariable("/vit/position/of_none", tensors.FromScalar(float32(1))))(t)
		gomlxtest.NoError(t, weight.Adapt(store.Scope("/vit"), 3, true))
		gomlxtest.Stirred(t, store)
		folded, config, err := c.Fold(gomlxtest.Backend(), store.Scope("/vit"))
		gomlxtest.NoError(t, err)
		is.Equal(t, of.label, config, small(of.want, poolClass))
		gomlxtest.Near(t, of.label, logitsOf(t, folded, config, noise(config, 2)), logitsOf(t, store, c, noise(c, 2)),
			4e-6) // rounding through two blocks, with and without FMA
		ordinary := trained(t, config)
		is.Equal(t, of.label+": variables", shapesBelow(folded, "/"), shapesBelow(ordinary, "/vit/"))
		is.Equal(t, of.label+": graph", graphOf(t, folded, config), graphOf(t, ordinary, config))
	}
}

// shapesBelow lists the variables of a store whose paths begin with prefix.
func shapesBelow(store *model.Store, prefix string) map[string]string {
	shapes := make(map[string]string)
	for v := range store.IterVariables() {
		if strings.HasPrefix(v.Path(), prefix) {
			shapes[v.Path()] = v.Shape().String()
		}
	}
	return shapes
}

func TestFoldTakesAModelInTheRootScope(t *testing.T) {
	c := small("wepe", poolMean)
	logits := func(store *model.Store, c Config) []float64 {
		return run(t, store, func(_ *model.Scope, in []*Node) []*Node {
			return []*Node{c.Logits(store.RootScope(), in[0])}
		}, noise(c, 2))[0]
	}
	store := gomlxtest.Seeded(t, 7)
	plain := logits(store, c)
	gomlxtest.NoError(t, weight.Adapt(store.RootScope(), 3, true))
	gomlxtest.Near(t, "adapters that are zero", logits(store, c), plain, 0)
	want := logits(gomlxtest.Stirred(t, store), c)
	folded, config, err := c.Fold(gomlxtest.Backend(), store.RootScope())
	gomlxtest.NoError(t, err)
	gomlxtest.Near(t, "logits", logits(folded, config), want, 1e-6)
}

func TestFold_RefusesModelsWithoutATable(t *testing.T) {
	wepe, learned, sincos := small("wepe", poolClass), small("learned", poolClass), small("sincos2d", poolClass)
	without := func(path string) *model.Store {
		store := trained(t, wepe)
		gomlxtest.NoError(t, store.DeleteVariable(path))
		return store
	}
	freed := func(path string) *model.Store {
		store := trained(t, wepe)
		gomlxtest.NoError(t, store.GetVariable(path).MustValue().FinalizeAll())
		return store
	}
	const scalar = "/vit/position/wepe/beta_pos"
	narrow := sincos
	narrow.Width = 30
	for name, of := range map[string]struct {
		config Config
		store  *model.Store
		scope  string
		names  string // what the error names
	}{
		"without the encoding":    {wepe, trained(t, learned), "/vit", "/vit/position lacks 8"},
		"without one variable":    {wepe, without(scalar), "/vit", "/vit/position lacks 1"},
		"a table of another grid": {learned, trained(t, sized(learned, 2, 7)), "/vit", `"learned"`},
		"a freed variable":        {wepe, freed(scalar), "/vit", scalar},
		"a freed head":            {wepe, freed("/vit/head/weights"), "/vit", "/vit/head/weights"},
		"an empty scope":          {sincos, trained(t, learned), "/elsewhere", "/elsewhere"},
		"an invalid model":        {narrow, trained(t, learned), "/vit", "width"},
	} {
		_, _, err := of.config.Fold(gomlxtest.Backend(), of.store.Scope(of.scope))
		is.Refused(t, name, err, of.names)
	}
}

// acting is what the encoder of a model does in one place, nil for nothing.
func acting[T any](c Config, scope *model.Scope) T {
	e, _ := position.As[T](c.Encoder(scope))
	return e
}

// small is a model whose sizes are all different, on 5×3 patches of 2×2 pixels.
func small(position, pool string) Config {
	return gomlxtest.Resolved(Config{
		ImageRows: 10, ImageCols: 6, Channels: 3, PatchSize: 2, Width: 28, Depth: 2, Heads: 7, MLPDim: 37, Classes: 11,
		Pool: pool, Position: position,
	})
}

// noise is a batch of images for a model, the same numbers at every call.
func noise(c Config, batch int) *tensors.Tensor {
	return gomlxtest.Noise(batch, c.ImageRows, c.ImageCols, c.Channels)
}
