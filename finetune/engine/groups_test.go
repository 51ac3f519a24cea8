// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// A new variable must be listed here: its group, whether weight decay applies to it, and its layer in a model of one
// block, by the path below the model's scope. Every pattern matches some encoding, and every variable one pattern.
func TestGroupOf_EveryTrainedVariable(t *testing.T) {
	gomlxtest.OnGo(t)
	const dense = `block_00/(attention/(query|key|value|output)|mlp/(hidden|output))`
	of := []struct {
		pattern, group string
		decays         bool
		layer          int
	}{
		{`patch/weights`, "weights", true, 0},
		{`class|patch/(biases|norm/(gain|offset))`, "vectors", false, 0},
		{dense + `/weights`, "weights", true, 1},
		{dense + `/biases|block_00/norm[12]/(gain|offset)`, "vectors", false, 1},
		{`norm/(gain|offset)`, "vectors", false, 2},
		{`head/weights`, "head", true, 2},
		{`head/biases`, "head", false, 2},
		{`position/embedding`, "table", false, 0},
		{`position/gate_raw`, "gate", false, 2},
		{`position/(wepe|wepe_sphere)/(omega3_raw|alpha_scale_raw|beta_pos|prefix)`, "position", false, 2},
		{`position/(wepe|wepe_sphere|surrogate)/projection/.*/(weights|biases|gain|offset)`, "position", false, 2},
		{`position/surrogate/(omega3_raw|beta_raw|scale|offset)`, "position", false, 2},
		{`position/wepe_bias/(omega3_raw|alpha_scale_raw|weights|biases|own)`, "position", false, 2},
		{`position/(grid2d/(table|prefix)|liere/block_00/generators)`, "position", false, 2},
		{`position/(rope_mixed|rope_mixed_qkv)/block_00/frequencies`, "position", false, 2},
		{`position/factorized/(rows|cols)`, "position", false, 2},
		{`position/relative_table/block_00/scores`, "position", false, 2},
		{`position/cpe/block_00/(kernel|bias)`, "position", false, 2},
		{`position/wepe_(qkv|v)/wepe_field_sphere/(omega3_raw|alpha_scale_raw)`, "position", false, 2},
		{`position/lape/(table|prefix|block_00/(gain|offset))`, "position", false, 2},
		{`position/(wepe|fourier|legendre|free)_(qkv|v)/block_00/(query|key|value)`, "position", false, 2},
	}
	used := make([]bool, len(of))
	for _, name := range gomlxtest.Encodings(position.Names()) {
		c, err := vit.Config{ImageRows: 4, ImageCols: 6, Channels: 3, PatchSize: 2, Width: 12, Depth: 1, Heads: 3, Classes: 7,
			PatchNorm: true, Position: name}.Resolve()
		gomlxtest.NoError(t, err)
		store := model.NewStore()
		gomlxtest.RunModel(t, store, func(scope *model.Scope, in []*Node) []*Node {
			return []*Node{c.Logits(scope.In("vit"), in[0])}
		}, tensors.FromShape(shapes.Make(dtypes.Float32, 1, 4, 6, 3)))
		for v := range store.IterVariables() {
			path := v.Path()
			if !v.Trainable || !strings.HasPrefix(path, "/vit/") {
				continue
			}
			group, decays := groupOf(path)
			patterns := 0
			for i, m := range of {
				if !regexp.MustCompile(`^/vit/(` + m.pattern + `)$`).MatchString(path) {
					continue
				}
				used[i] = true
				patterns++
				if group != m.group || decays != m.decays || layerOf(path, 1) != m.layer {
					t.Errorf("%s: %s is in %s, decays: %v, layer %d, want %+v", name, path, group, decays, layerOf(path, 1), m)
				}
			}
			if patterns != 1 {
				t.Errorf("%s: %d patterns for %s, want one", name, patterns, path)
			}
		}
	}
	for i, m := range of {
		if !used[i] && !gomlxtest.OnXLA() {
			t.Errorf("no variable is %s", m.pattern)
		}
	}
}
