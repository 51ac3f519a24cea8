// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// loud makes attention far from uniform, and the bias of relative positions, if there is one, as large as the scores of
// a trained model.
func loud(store *model.Store) {
	for v := range store.IterVariables() {
		path := v.Path()
		ofBias := strings.HasPrefix(path, "/vit/position/wepe_bias/") && v.Shape().Rank() > 0
		ofScores := strings.Contains(path, "/attention/query") || strings.Contains(path, "/attention/key")
		if !ofBias && !ofScores {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			for i, x := range flat.([]float32) {
				if flat.([]float32)[i] = 20 * x; ofBias {
					flat.([]float32)[i] = float32(math.Sin(float64(3*i + len(v.Name()))))
				}
			}
		})
	}
}

// The timm fixture checks the values of the attention, but its weights are nearly uniform, and nothing is added to the
// scores. Nothing else of the position enters the attention.
func TestAttentionIsTheSoftmaxOfScaledScoresAndBiasInEveryBlock(t *testing.T) {
	for _, label := range []string{"wepe", "wepe-bias", "wepe-qkv", "wepe-v"} {
		c := small(label, poolClass)
		store := gomlxtest.Seeded(t, 11)
		build := func(s *model.Scope, in []*Node) (nodes []*Node) {
			trace := c.Trace(s.In("vit"), in[0], true)
			encoder := c.Encoder(s.Shared("vit"))
			for block, b := range trace.Blocks {
				q, k, v := b.Query, b.Key, b.Value
				if scaler, ok := position.As[position.Scaler](encoder); ok {
					scales := scaler.Scale(in[0].Graph(), block)
					for i, x := range []**Node{&q, &k, &v} {
						if scales[i] == nil {
							continue
						}
						*x = Mul(*x, Reshape(scales[i], 1, c.Tokens(), c.Heads, c.headDim()))
					}
				}
				scores := MulScalar(Einsum("bqhd,bkhd->bhqk", q, k), 1/math.Sqrt(float64(c.headDim())))
				if biaser, ok := position.As[position.Biaser](encoder); ok {
					scores = Add(scores, InsertAxes(biaser.Bias(in[0].Graph(), block), 0))
				}
				weights := Softmax(scores, -1) // [batch, heads, query, key]
				mixed := Reshape(Einsum("bhqk,bkhd->bqhd", weights, v), -1, c.Tokens(), c.Width)
				output := s.Store().Scope(fmt.Sprintf("/vit/block_%02d/attention/output", block))
				of := func(name string) *Node { return output.GetVariable(name).NodeValue(in[0].Graph()) }
				attention := Add(Einsum("btd,de->bte", mixed, of("weights")), Reshape(of("biases"), 1, 1, -1))
				nodes = append(nodes, weights, MulScalar(b.Weights, 1), attention, MulScalar(b.Attention, 1))
			}
			return append(nodes, trace.Logits)
		}
		gomlxtest.Build(t, store, build, noise(c, 2))
		loud(store)
		got := run(t, store, build, noise(c, 2))
		for i := 0; i+1 < len(got); i += 2 {
			what := fmt.Sprintf("%s, block %d: %s", label, i/4, []string{"weights", "attention"}[i/2%2])
			gomlxtest.Near(t, what, got[i+1], got[i], 1e-5)
			if peak := slices.Max(got[i]); i%4 == 0 && peak < 0.3 {
				t.Errorf("%s: the largest attention weight is %g: too uniform for this test", label, peak)
			}
		}
	}
}

// Nodes that the blocks of a graph share belong to that graph alone.
func TestOneEncoderServesSeveralGraphs(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, label := range []string{"alibi2d", "lookhere", "wepe-bias", "relative-table", "wepe-qkv", "wepe-v", "liere",
		"fope"} {
		c, store := small(label, poolClass), gomlxtest.Seeded(t, 5)
		encoder := c.Encoder(store.Scope("/vit"))
		values := func() []float64 {
			return slices.Concat(run(t, store, func(_ *model.Scope, in []*Node) (nodes []*Node) {
				g := in[0].Graph()
				for block := range c.Depth {
					switch e := encoder.(type) {
					case position.Biaser:
						nodes = append(nodes, MulScalar(e.Bias(g, block), 1))
					case position.Scaler:
						scales := e.Scale(g, block)
						nodes = append(nodes, slices.DeleteFunc(scales[:], func(x *Node) bool { return x == nil })...)
					case position.Rotator:
						q, _ := e.Block(block).EncodeQK(in[0], in[0], nil, 1)
						nodes = append(nodes, q)
					}
				}
				return nodes
			}, gomlxtest.Noise(1, c.Tokens(), c.Heads, c.headDim()))...)
		}
		gomlxtest.NearAbs(t, label, values(), values(), 0)
	}
}
