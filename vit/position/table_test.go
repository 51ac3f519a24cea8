// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// combined are combinations of encodings of different kinds.
var combined = []string{"learned+lape", "learned+rope-axial", "hybrid+liere", "as2drope+wepe-bias",
	"factorized+lookhere", "learned+cpe", "wepe-v+rope-axial+wepe-bias+cpe", "sincos2d+rope1d+wepe-bias",
	"wepe-qkv+rope-mixed",
}

// built lists the variables of an encoding below the scope of the specs, as soon as its encoders are made.
func built(c named, params map[string]any) (variables []string) {
	store := stored(params)
	c.on(store.RootScope())
	for v := range store.IterVariables() {
		variables = append(variables, strings.TrimPrefix(v.Path(), "/position/"))
	}
	return variables
}

// A row describes the properties of its encoding that other packages use.
func TestEveryRowDescribesItsEncoding(t *testing.T) {
	rows := All()
	All()[0].Name = "changed"
	is.Equal(t, "the first of the list, which is the caller's to change", Names()[0], none)
	for _, p := range rows { // vittest.Laws checks that it owns all its variables
		c := small(p.Name)
		variables := slices.Concat(built(c, nil), built(c, map[string]any{ParamBlend: blendExact}),
			built(c, map[string]any{ParamBlend: blendSphere}))
		for _, own := range p.Variables {
			has := slices.ContainsFunc(variables, Encoding{{Variables: []string{own}}}.Owns)
			is.Equal(t, p.Name+" has "+own, has, true)
		}
		for _, v := range variables {
			for _, q := range rows {
				if p.Kind != q.Kind && (Encoding{q}).Owns(v) { // both in one model would share it
					t.Errorf("%s, variable of %s, is also one of %s", v, p.Name, q.Name)
				}
			}
		}
	}
}

func TestEncodingsOfDifferentKindsCombine(t *testing.T) {
	for _, name := range append(Names(), combined...) {
		is.Equal(t, "encoding", gomlxtest.Must(Parse(name))(t).String(), name)
	}
	for _, name := range []string{"rope", "", "learned+", "wepe+rope2", "wepe+learned", "wepe+wepe", "rope-axial+learned",
		"wepe-bias+rope-axial", "none+rope-axial", "rope1d+none"} {
		if e, err := Parse(name); err == nil {
			t.Errorf("%s is %v", name, e)
		}
		refuses(t, name, func() { small(name).on(model.NewStore().RootScope()) })
	}
}

func TestSizesThatDoNotFitAreRefused(t *testing.T) {
	for _, name := range Names() {
		n := small(name)
		n.Prefix, n.Registers, n.Unplaced = 3, 3, 3
		gomlxtest.NoError(t, gomlxtest.Must(Parse(name))(t).Validate(n.Config))
		for field, change := range map[string]func(*Config){
			"Rows": func(c *Config) { c.Rows = 0 }, "Cols": func(c *Config) { c.Cols = -1 },
			"Registers": func(c *Config) { c.Registers = 4 }, "Unplaced": func(c *Config) { c.Unplaced = 4 },
			"Prefix": func(c *Config) { c.Prefix, c.Registers, c.Unplaced = -1, -1, -1 },
			"width":  func(c *Config) { c.Width = 0 }, "heads": func(c *Config) { c.Heads = 3 },
		} {
			c := n.Config
			change(&c)
			refuses(t, name, func() { New(name, model.NewStore().RootScope(), c) }, field)
		}
	}
	for name, width := range map[string]int{"fope": 6, "liere": 3} {
		c := Config{Grid: Grid{Rows: 2, Cols: 5}, Width: 2 * width, Heads: 3}
		New(name, model.NewStore().RootScope(), c)
		if c.Width = width; gomlxtest.Must(Parse(name))(t).Validate(c) == nil {
			t.Errorf("%s with heads of %d channels is valid", name, width/3)
		}
	}
}

// A block beyond Config.Depth, 1 where it is left out, is refused by all encodings that differ between blocks. Nodes
// that the blocks of a graph share belong to that graph alone.
func TestEncodersServeTheBlocksOfSeveralGraphs(t *testing.T) {
	gomlxtest.OnGo(t)
	for label, alike := range map[string]bool{"alibi2d": true, "lookhere": false, "relative-table": false,
		"wepe-bias": true, "lape": false, "free-v": false, "rope-mixed": false, "fope": false, "liere": false,
		"rope-axial": true, "wepe-qkv": false, "wepe-v": false} {
		c, store := small(label), gomlxtest.Seeded(t, 5)
		encoder := c.on(store.RootScope())
		values := func() []float64 {
			return slices.Concat(gomlxtest.RunModel(t, store, func(_ *model.Scope, in []*Node) (nodes []*Node) {
				for block := range c.Depth {
					for _, x := range inBlock(encoder, block, in[0]) {
						nodes = append(nodes, MulScalar(x, 1))
					}
				}
				if alike {
					inBlock(encoder, c.Depth, in[0])
				} else {
					refuses(t, label, func() { inBlock(encoder, c.Depth, in[0]) }, "Config.Depth")
				}
				return nodes
			}, noise(c))...)
		}
		gomlxtest.NearAbs(t, label, values(), values(), 0)
	}
	c, store := onGrid("rope-mixed", 2, 5, 0, 3), model.NewStore() // of one block
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		refuses(t, "two blocks without Depth", func() { inBlock(c.on(s), 1, in[0]) })
		return in
	}, noise(c))
}

// A table is copied to another encoding only if that starts with one.
func TestAModelInheritsWhatItsEncodingHas(t *testing.T) {
	for _, c := range []struct {
		of, from, variable string
		want               bool
	}{
		{"learned", "learned", "embedding", true}, {"hybrid", "learned", "embedding", true},
		{"learned", "hybrid", "embedding", false}, // it is blended, not copied
		{"hybrid+rope-axial", "learned", "embedding", true}, {"learned+rope-mixed", "learned", "embedding", true},
		{"learned+rope-mixed", "rope-mixed", "rope_mixed/block_00/frequencies", true},
		{"learned+rope-mixed", "wepe+rope-mixed", "wepe/beta_pos", false},
		{"wepe", "wepe", "wepe/beta_pos", true},
		{"wepe-lut", "wepe", "wepe/beta_pos", false}, // with its lattice
		{"wepe", "learned", "embedding", false}, {"none", "learned", "embedding", false},
		{"learned", "learned", "stray", false},
	} {
		of, from := gomlxtest.Must(Parse(c.of))(t), gomlxtest.Must(Parse(c.from))(t)
		is.Equal(t, fmt.Sprint(c), of.Inherits(from, c.variable), c.want)
	}
}

func TestRegisterRefusesARowThatDoesNotFit(t *testing.T) {
	before := slices.Clone(specs)
	t.Cleanup(func() { specs = before })
	sound := Spec{Name: "new", Kind: Additive, New: newLearned, Variables: []string{"new/"}}
	for of, change := range map[string]func(*Spec){
		"no name":               func(s *Spec) { s.Name = "" },
		"two names":             func(s *Spec) { s.Name = "a+b" },
		"two words":             func(s *Spec) { s.Name = "a b" },
		"a name that is taken":  func(s *Spec) { s.Name = "wepe" },
		"no constructor":        func(s *Spec) { s.New = nil },
		"an unknown kind":       func(s *Spec) { s.Kind = Kind(len(kinds)) },
		"kind none":             func(s *Spec) { s.Kind = noKind },
		"a pretrained rotation": func(s *Spec) { s.Kind, s.New, s.Pretrained = Rotary, newRope1D, true },
		"the learned table":     func(s *Spec) { s.Variables = []string{"new/", "embedding"} },
		"the scope of wepe":     func(s *Spec) { s.Pretrained, s.Variables = true, []string{"wepe/"} },
	} {
		s := sound
		change(&s)
		refuses(t, of, func() { Register(s) })
		is.Equal(t, of+": encodings", len(specs), len(before))
	}
	Register(sound)
	Register(Spec{Name: "begun", Kind: Additive, New: newLearned, Variables: []string{"embedding"}, Pretrained: true})
	Register(Spec{Name: "turned", Kind: Rotary, New: newLearned})
	is.Equal(t, "registered", Names()[len(before):], []string{"new", "begun", "turned"})
	refuses(t, "an additive encoder as a rotary one", func() { small("turned").on(model.NewStore().RootScope()) })
}
