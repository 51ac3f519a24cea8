// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
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
	stirred(t, store)
	if _, err := store.CreateVariable("/adamw/first/vit/class", tensors.FromScalar(float32(1))); err != nil {
		t.Fatal(err)
	}
	return store
}

// stirred moves every trainable variable away from its initial value, so that zeros and ones hide nothing.
func stirred(t *testing.T, store *model.Store) *model.Store {
	t.Helper()
	i := 0.0
	for v := range store.IterVariables() {
		if !strings.HasPrefix(v.Path(), "/vit/") || !v.Trainable {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			for k := range flat.([]float32) {
				i++
				flat.([]float32)[k] += float32(0.1 * math.Sin(i))
			}
		})
	}
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
		if _, err := store.CreateVariable("/vit/position/of_none", tensors.FromScalar(float32(1))); err != nil {
			t.Fatal(err)
		}
		folded, config, err := c.Fold(gomlxtest.Backend(), store.Scope("/vit"))
		if err != nil {
			t.Fatal(err)
		}
		if config != small(of.want, poolClass) {
			t.Errorf("%s: the folded configuration is %+v", of.label, config)
		}
		gomlxtest.Near(t, of.label, logitsOf(t, folded, config, noise(config, 2)), logitsOf(t, store, c, noise(c, 2)),
			1e-6)
		ordinary := trained(t, config)
		if got, want := shapesBelow(folded, "/"), shapesBelow(ordinary, "/vit/"); !maps.Equal(got, want) {
			t.Errorf("%s: the folded store holds %v, want %v", of.label, got, want)
		}
		if got, want := graphOf(t, folded, config), graphOf(t, ordinary, config); !slices.Equal(got, want) {
			t.Errorf("%s: the graph is not that of a model of %s:\n%q\n%q", of.label, of.want, got, want)
		}
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
	want := logits(store, c)
	folded, config, err := c.Fold(gomlxtest.Backend(), store.RootScope())
	if err != nil {
		t.Fatal(err)
	}
	gomlxtest.Near(t, "logits", logits(folded, config), want, 1e-6)
}

func TestFold_refuses_encodings_without_a_table(t *testing.T) {
	for _, p := range position.All() {
		if (position.Encoding{p}).Folds() {
			continue
		}
		c := small(p.Name, poolClass)
		_, _, err := c.Fold(gomlxtest.Backend(), trained(t, c).Scope("/vit"))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q acts inside the blocks", p.Name)) {
			t.Errorf("%s: got %v, want the reason", p.Name, err)
		}
	}

	c := small("wepe", poolClass)
	other := trained(t, small("learned", poolClass))
	_, _, err := c.Fold(gomlxtest.Backend(), other.Scope("/vit"))
	if err == nil || !strings.Contains(err.Error(), "/vit/position lacks 8 of its variables") {
		t.Errorf("a model without the encoding: got %v, want what is missing", err)
	}
	lacking := trained(t, c)
	if err := lacking.DeleteVariable("/vit/position/wepe/beta_pos"); err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Fold(gomlxtest.Backend(), lacking.Scope("/vit"))
	if err == nil || !strings.Contains(err.Error(), "/vit/position lacks 1 of its variables") {
		t.Errorf("a model without one variable: got %v, want the number", err)
	}
	larger := trained(t, sized(small("learned", poolClass), 2, 7))
	_, _, err = small("learned", poolClass).Fold(gomlxtest.Backend(), larger.Scope("/vit"))
	if err == nil || !strings.HasPrefix(err.Error(), `vit: table of position "learned": `) {
		t.Errorf("a table of another grid: got %v, want its name", err)
	}
	for _, path := range []string{"/vit/position/wepe/beta_pos", "/vit/head/weights"} {
		freed := trained(t, c)
		if err := freed.GetVariable(path).MustValue().FinalizeAll(); err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Fold(gomlxtest.Backend(), freed.Scope("/vit"))
		if err == nil || !strings.HasPrefix(err.Error(), "vit: copy of "+path+": ") {
			t.Errorf("%s without a value: got %v, want its path", path, err)
		}
	}
	c = small("sincos2d", poolClass)
	_, _, err = c.Fold(gomlxtest.Backend(), other.Scope("/elsewhere"))
	if err == nil || !strings.Contains(err.Error(), "no model in scope /elsewhere") {
		t.Errorf("an empty scope: got %v, want its name", err)
	}
	c.Width = 30
	_, _, err = c.Fold(gomlxtest.Backend(), other.Scope("/vit"))
	if err == nil || !strings.Contains(err.Error(), "width") {
		t.Errorf("a bad configuration: got %v, want the field", err)
	}
}
