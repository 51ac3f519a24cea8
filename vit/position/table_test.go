// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
)

// combined are combinations of encodings of different kinds.
var combined = []string{
	"learned+rope-axial", "wepe+rope-mixed", "hybrid+liere", "grid2d+fope", "wepe+wepe-bias", "as2drope+wepe-bias",
	"wepe-sphere+rope-mixed", "wepe-qkv+rope-mixed", "factorized+lookhere",
	"learned+cpe", "wepe-v+rope-axial+wepe-bias+cpe",
	"sincos2d+rope1d+wepe-bias", "wepe+rope-dinov3+alibi2d",
}

func TestPositionsAreListedByKind(t *testing.T) {
	byKind := map[string][]string{}
	for _, p := range Positions() {
		byKind[p.Kind()] = append(byKind[p.Kind()], p.Name)
		if p.Doc == "" || strings.ContainsAny(p.Doc, "\n|") {
			t.Errorf("%s: Doc is %q, want a few words", p.Name, p.Doc)
		}
		if p.Folds() != (p.Kind() == kindNone || p.Kind() == kindAdditive) || p.Folds() != (Encoding{p}).Folds() {
			t.Errorf("%s is %s and folds %v", p.Name, p.Kind(), p.Folds())
		}
	}
	for kind, want := range map[string][]string{
		kindNone: {"none"},
		kindAdditive: {"learned", "sinusoidal1d", "sincos2d", "grid2d", "factorized", "wepe", "wepe-sphere",
			"wepe-lut", "hybrid"},
		kindModulation:  {"wepe-qkv", "fourier-qkv", "wepe-v", "fourier-v"},
		kindRotary:      {"rope1d", "rope-axial", "rope-mixed", "rope-dinov3", "as2drope", "fope", "liere"},
		kindBias:        {"wepe-bias", "relative-table", "alibi2d", "lookhere"},
		kindConditional: {"cpe"},
	} {
		if got := byKind[kind]; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	Positions()[0].Name = "changed"
	if got := PositionNames(); got[0] != "none" {
		t.Errorf("the list is the caller's to change, and now begins with %q", got[0])
	}
}

// built lists the variables of an encoding below the scope of the positions, as soon as its encoders are made.
func built(c Config, params map[string]any) (variables []string) {
	store := model.NewStore()
	store.SetParams(params)
	c.Encoders(store.RootScope())
	for v := range store.IterVariables() {
		variables = append(variables, strings.TrimPrefix(v.Path(), "/"+positionScope+"/"))
	}
	return variables
}

// A row describes the properties of its encoding that other packages use.
func TestEveryRowDescribesItsEncoding(t *testing.T) {
	rows := Positions()
	for i, p := range rows {
		c := small(p.Name, poolClass)
		variables, inModel := built(c, nil), 0
		for path := range weights(t, c, 1) {
			if strings.HasPrefix(path, "/vit/position/") {
				inModel++
			}
		}
		if inModel != len(variables) {
			t.Errorf("%s makes %d variables at once, and %d in all", p.Name, len(variables), inModel)
		}
		variables = append(variables, built(c, map[string]any{paramBlend: blendExact})...)
		for _, compression := range []string{"tanh", "sphere"} {
			variables = append(variables, built(c, map[string]any{"wepe_compression": compression})...)
		}
		variables = append(variables, built(c, map[string]any{paramBlend: blendSphere})...)
		for _, own := range p.Variables {
			if !slices.ContainsFunc(variables, Encoding{{Variables: []string{own}}}.Owns) {
				t.Errorf("%s has no variable %s", p.Name, own)
			}
		}
		for _, v := range variables {
			for k, q := range rows {
				owns := Encoding{q}.Owns(v)
				if k == i && !owns {
					t.Errorf("%s does not own its variable %s", p.Name, v)
				}
				if p.Kind() != q.Kind() && owns { // both in one model would share it
					t.Errorf("%s, variable of %s, is also one of %s", v, p.Name, q.Name)
				}
			}
		}
		for _, name := range p.Params {
			if !slices.Contains(Params(), name) {
				t.Errorf("%s, read by %s, is not listed", name, p.Name)
			}
		}
	}
}

func TestEncodingsOfDifferentKindsCombine(t *testing.T) {
	for _, name := range append(PositionNames(), combined...) {
		e, err := EncodingNamed(name)
		if err != nil || e.String() != name {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	for name, want := range map[string]string{
		"rope":                 `unknown position encoding "rope": want one of none, learned, `,
		"":                     `unknown position encoding ""`,
		"learned+":             `unknown position encoding ""`,
		"wepe+rope2":           `unknown position encoding "rope2"`,
		"wepe+learned":         "wepe is additive, learned is additive: want at most one of each kind, in the order additive",
		"wepe+wepe":            "wepe is additive, wepe is additive",
		"rope-axial+learned":   "rope-axial is rotary, learned is additive",
		"wepe-bias+rope-axial": "wepe-bias is relative bias, rope-axial is rotary",
		"none+rope-axial":      "none is none, rope-axial is rotary",
		"rope1d+none":          "rope1d is rotary, none is none",
	} {
		if _, err := EncodingNamed(name); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		c := small(name, poolClass)
		if err := c.Validate(); name != "" && err == nil {
			t.Errorf("%s is a model", name)
		}
		err := exceptions.TryCatch[error](func() { c.Encoding() })
		if name != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("the encoding of a model of %s: %v, want %q", name, err, want)
		}
	}
}

func shapeOf(t *testing.T, c Config, path string) []int {
	t.Helper()
	store := model.NewStore()
	c.Encoders(store.Scope("/vit"))
	return store.GetVariable(path).Shape().Dimensions
}

// A table is copied to another encoding only if that starts with one.
func TestAModelInheritsWhatItsEncodingHas(t *testing.T) {
	for _, c := range []struct {
		of, from, variable string
		want               bool
	}{
		{"learned", "learned", "embedding", true},
		{"hybrid", "learned", "embedding", true},
		{"hybrid+rope-axial", "learned", "embedding", true},
		{"learned", "hybrid", "embedding", false}, // it is blended, not copied
		{"learned+rope-mixed", "learned", "embedding", true},
		{"learned+rope-mixed", "rope-mixed", "rope_mixed/block_00/frequencies", true},
		{"learned+rope-mixed", "wepe+rope-mixed", "wepe/beta_pos", false},
		{"wepe", "wepe", "wepe/beta_pos", true},
		{"wepe-lut", "wepe", "wepe/beta_pos", false}, // with its lattice
		{"wepe", "learned", "embedding", false},
		{"none", "learned", "embedding", false},
		{"learned", "learned", "stray", false},
	} {
		of, from := small(c.of, poolClass).Encoding(), small(c.from, poolClass).Encoding()
		if got := of.Inherits(from, c.variable); got != c.want {
			t.Errorf("%s from %s, %s: %v", c.of, c.from, c.variable, got)
		}
	}
}

func TestRegisterRefusesARowThatDoesNotFit(t *testing.T) {
	before := slices.Clone(positions)
	t.Cleanup(func() { positions = before })
	sound := Position{Name: "new", Additive: newLearned, Variables: []string{"new/"}}
	for want, change := range map[string]func(*Position){
		`name ""`:                         func(p *Position) { p.Name = "" },
		`name "a+b": want one word`:       func(p *Position) { p.Name = "a+b" },
		`name "a b"`:                      func(p *Position) { p.Name = "a b" },
		`position encoding "wepe" exists`: func(p *Position) { p.Name = "wepe" },
		"register new: 0 constructors":    func(p *Position) { p.Additive = nil },
		"register new: 2 constructors":    func(p *Position) { p.Rotary = newRope1D },
		"register new: 3 constructors":    func(p *Position) { p.Modulation, p.Relative = newWePEQKV, newALiBi2D },
		"only an additive encoding": func(p *Position) {
			p.Additive, p.Rotary, p.Pretrained = nil, newRope1D, true
		},
		`variable "embedding" is one of lear`: func(p *Position) { p.Variables = []string{"new/", "embedding"} },
		`variable "wepe/" is one of wepe`:     func(p *Position) { p.Pretrained, p.Variables = true, []string{"wepe/"} },
	} {
		p := sound
		change(&p)
		err := exceptions.TryCatch[error](func() { Register(p) })
		if err == nil || !strings.HasPrefix(err.Error(), "vit: register") || !strings.Contains(err.Error(), want) ||
			len(positions) != len(before) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	Register(sound)
	Register(Position{Name: "begun", Additive: newLearned, Variables: []string{"embedding"}, Pretrained: true})
	if got := PositionNames()[len(before):]; !slices.Equal(got, []string{"new", "begun"}) {
		t.Errorf("registered are %v", got)
	}
}
