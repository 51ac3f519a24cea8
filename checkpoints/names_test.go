// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

var allNamings = []naming{{FormatHF, "vit."}, {FormatHF, ""}, {FormatTimm, ""}, {FormatJAX, ""}}

// smallViT has sizes that no two of are equal where a swap could hide, and more than ten blocks.
var smallViT = vit.Config{ImageRows: 6, ImageCols: 10, Channels: 3, PatchSize: 2, Width: 14, Depth: 11, Heads: 7,
	MLPDim: 5, Classes: 13, Position: "learned"}.WithDefaults()

func TestTheNameTableHoldsExactlyTheVariablesOfTheModel(t *testing.T) {
	for _, pool := range []string{vit.PoolClass, vit.PoolMean} {
		c := smallViT
		c.Pool = pool
		store := model.NewStore()
		images := tensors.FromFlatDataAndDimensions(make([]float32, 6*10*3), 1, 6, 10, 3)
		gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			return []*Node{c.Logits(s.In("m"), in[0])}
		}, images)
		built := map[string][]int{}
		for v := range store.IterVariables() {
			if path, ok := strings.CutPrefix(v.Path(), "/m/"); ok {
				built[path] = v.Shape().Dimensions
			}
		}
		for _, n := range allNamings {
			listed := n.names(c)
			if len(listed) != len(built) {
				t.Errorf("%s, %s: %d variables, the model has %d", n.format, pool, len(listed), len(built))
			}
			for _, v := range listed {
				if !slices.Equal(built[v.path], v.shape(c)) {
					t.Errorf("%s, %s: %s is %v, in the model %v", n.format, pool, v.path, v.shape(c), built[v.path])
				}
			}
		}
	}
}

// Each format's names of a model of the fixture's size are the names in the fixture.
func TestTheNamesAreThoseInTheFixtures(t *testing.T) {
	for format, set := range sets {
		f, err := openWeights(fixtures.Dir(t, set))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		found, err := f.describe(optionsFor(t, format))
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]bool{}
		for _, v := range found.names(found.config) {
			listed[v.foreign] = true
			if tensor, ok := f.tensors[v.foreign]; !ok || !slices.Equal(tensor.dims, v.foreignShape(format, found.config)) {
				t.Errorf("%s: %s is %v, want %v", format, v.foreign, tensor.dims, v.foreignShape(format, found.config))
			}
		}
		if len(listed) != len(f.tensors) {
			t.Errorf("%s: %d names, the file has %d", format, len(listed), len(f.tensors))
		}
	}
}

// Every element of a foreign tensor has one place in ours: the layouts lose and double nothing. timm's query, key and
// value are three parts of one tensor, next to each other.
func TestLayoutsArePermutations(t *testing.T) {
	for _, n := range allNamings {
		last := named{parts: 1}
		for _, v := range n.names(smallViT) {
			stacked := n.format == FormatTimm && strings.Contains(v.foreign, "qkv")
			goesOn := v.foreign == last.foreign && v.part == last.part+1
			if stacked != (v.parts == 3) || goesOn != (v.part > 0) || !goesOn && last.part != last.parts-1 {
				t.Errorf("%s: %s is part %d of %d of %s after %s", n.format, v.path, v.part, v.parts, v.foreign, last.foreign)
			}
			last = v
			size := 1
			for _, dim := range v.foreignShape(n.format, smallViT) {
				size *= dim
			}
			in, out := make([]float32, size), make([]float32, size/v.parts)
			for i := range in {
				in[i] = float32(i)
			}
			v.arrange(n.format, smallViT, in, out)
			slices.Sort(out)
			if !slices.Equal(out, in[v.part*len(out):(v.part+1)*len(out)]) {
				t.Errorf("%s: %s is no permutation of its part of %s", n.format, v.path, v.foreign)
			}
		}
	}
}
