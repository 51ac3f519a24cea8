// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"maps"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
	"github.com/wepe-go/wepe/wepe"
)

func TestHybrid_with_a_gate_fixed_at_1_is_the_blended_encoding_bit_for_bit(t *testing.T) {
	c := small("hybrid", poolClass)
	exact := func(s *model.Scope) wepe.Encoding {
		return wepe.New(s, c.Rows(), c.Cols(), c.Width).FromScope().Done()
	}
	for name, blended := range map[string]struct {
		params map[string]any
		build  func(*model.Scope) wepe.Encoding
	}{
		"the default": {nil, func(s *model.Scope) wepe.Encoding {
			return wepe.New(s, c.Rows(), c.Cols(), c.Width).FromScope().Surrogate()
		}},
		"exact": {map[string]any{"wepe_blend": "exact"}, exact},
		"sphere": {map[string]any{"wepe_blend": "sphere"}, func(s *model.Scope) wepe.Encoding {
			return wepe.New(s, c.Rows(), c.Cols(), c.Width).OnSphere().FromScope().Done()
		}},
	} {
		params := map[string]any{"wepe_gate": 1.0, "wepe_learn_gate": false, "wepe_alpha_u": 0.3}
		maps.Copy(params, blended.params)
		store := trained(t, c, params)
		values, err := model.CallOnceN(gomlxtest.Backend(), store, func(_ *model.Scope, g *Graph) []*Node {
			scope := store.Scope("/vit/position")
			learned := scope.GetVariable(position.TableName).NodeValue(g)
			return []*Node{acting[position.Adder](c, store.Scope("/vit")).Encode(g), blended.build(scope).Encode(g),
				MulScalar(learned, 1)}
		})
		if err != nil {
			t.Fatal(err)
		}
		got, encoding, table := gomlxtest.Values(t, values[0]), gomlxtest.Values(t, values[1]), gomlxtest.Values(t, values[2])
		head := c.Prefix() * c.Width
		if !slices.Equal(got[head:], encoding) || !slices.Equal(got[:head], table[:head]) {
			t.Errorf("blend of %s: the rows are not those of the encoding, and of the table for the class token", name)
		}
		if v := store.GetVariable("/vit/position/gate_raw"); v.Trainable {
			t.Errorf("blend of %s: the gate trains", name)
		}
	}
}
