// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestWeightsStartWithTheSpreadOfTheirScheme(t *testing.T) {
	gomlxtest.OnGo(t)
	c := small("none")
	c.PatchSize, c.ImageRows, c.ImageCols, c.Width, c.Heads, c.MLPDim = 2, 4, 6, 252, 7, 331
	stores := map[string]*model.Store{}
	for _, c.Init = range []string{"timm", "release"} {
		stores[c.Init] = gomlxtest.Seeded(t, 3)
		logits(t, c, stores[c.Init], false)
	}
	uniform := func(bound float64) float64 { return bound / math.Sqrt(3) }
	xavier := func(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) }
	for _, test := range []struct {
		init, path string
		want       float64
	}{
		{"timm", "patch/conv_0/weights", uniform(1 / math.Sqrt(9*3))},
		{"timm", "block_01/attention/key/weights", 0.02},
		{"timm", "block_01/attention/head_tokens/embedding", 0.02},
		{"timm", "block_01/mlp/hidden/weights", uniform(1 / math.Sqrt(252))},
		{"timm", "block_01/mlp/hidden/biases", uniform(1 / math.Sqrt(252))},
		{"timm", "block_01/mlp/depthwise/weights", uniform(1.0 / 3)},
		{"timm", "block_01/mlp/squeeze/weights", 0.02},
		{"timm", "head/biases", 0},
		{"release", "patch/conv_0/weights", xavier(9*3, 9*252)},
		{"release", "block_01/mlp/output/weights", xavier(331, 252)},
		{"release", "block_01/mlp/output/biases", 0},
		{"release", "block_01/mlp/depthwise/weights", xavier(9, 9*331)},
		{"release", "block_01/attention/output/weights", 0.02},
	} {
		values := gomlxtest.Values(t, stores[test.init].GetVariable("/dhvt/"+test.path).MustValue())
		gomlxtest.Spreads(t, test.init+": "+test.path, values, test.want)
	}
}
