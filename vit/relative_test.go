// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// loud makes the bias of relative positions, if there is one, as large as the scores of a trained model.
func loud(store *model.Store) {
	for v := range store.IterVariables() {
		if !strings.HasPrefix(v.Path(), "/vit/position/wepe_bias/") || v.Shape().Rank() == 0 {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			for i := range flat.([]float32) {
				flat.([]float32)[i] = float32(math.Sin(float64(3*i + len(v.Name()))))
			}
		})
	}
}

// The timm fixture holds the attention to values, but its weights are nearly uniform, and nothing is added to the
// scores.
func TestAttentionIsTheSoftmaxOfScoresAndBiasInEveryBlock(t *testing.T) {
	for _, position := range []string{"wepe", "wepe-bias"} {
		c := small(position, PoolClass)
		n, d := c.Tokens(), c.headDim()
		store := gomlxtest.Seeded(t, 11)
		build := func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.In("vit"), in[0], true)
			bias := Zeros(in[0].Graph(), shapes.Make(dtypes.Float32, c.Heads, n, n))
			if relative := c.Encoders(s.Shared("vit")).Relative; relative != nil {
				bias = relative.AttentionBias(in[0].Graph(), 0)
			}
			nodes := []*Node{bias}
			for _, b := range trace.Blocks {
				nodes = append(nodes, b.Query, b.Key, b.Weights)
			}
			return append(nodes, trace.Logits)
		}
		gomlxtest.Build(t, store, build, noise(c, 2))
		large(store)
		loud(store)
		got := run(t, store, build, noise(c, 2))
		bias := got[0]
		for block := range c.Depth {
			q, k := got[1+3*block], got[2+3*block]
			var want []float64
			for image := range 2 {
				for head := range c.Heads {
					for query := range n {
						row, sum := make([]float64, n), 0.0
						for key := range n {
							for i := range d {
								row[key] += q[((image*n+query)*c.Heads+head)*d+i] * k[((image*n+key)*c.Heads+head)*d+i]
							}
							row[key] = math.Exp(row[key]/math.Sqrt(float64(d)) + bias[(head*n+query)*n+key])
							sum += row[key]
						}
						for key := range n {
							want = append(want, row[key]/sum)
						}
					}
				}
			}
			gomlxtest.Near(t, position+": weights [batch, heads, query, key]", got[3+3*block], want, 1e-5)
			if peak := slices.Max(want); peak < 0.3 {
				t.Errorf("%s: the largest attention weight is %g: too uniform for this test", position, peak)
			}
		}
	}
}
