// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestRecomputeChangesNoGraphOfEvaluation(t *testing.T) {
	c := small("wepe", poolClass)
	want := graphOf(t, gomlxtest.Seeded(t, 3), c)
	c.Recompute = true
	if got := graphOf(t, gomlxtest.Seeded(t, 3), c); !slices.Equal(got, want) {
		t.Errorf("with recompute\n%q\nwithout\n%q", got, want)
	}
}

// Memory stores the values of the forward pass that the gradient reads: with Recompute only the tokens that enter a
// block.
func TestRecomputeKeepsTheTokensBetweenBlocksAlone(t *testing.T) {
	if gomlxtest.Backend().Name() == "onnxruntime" {
		t.Skip("ONNX Runtime has no barrier to compute behind")
	}
	for _, label := range gomlxtest.InTurn(0,
		"wepe", "learned", "rope-mixed", "rope1d", "liere", "wepe-bias", "alibi2d", "hybrid",
	) {
		var grads [2][][]float64
		var kept [2]int // numbers
		for k, recompute := range []bool{false, true} {
			c := small(label, poolClass)
			c.LayerScale, c.Depth, c.Recompute = 0.5, 3, recompute
			grads[k] = gomlxtest.RunModel(t, gomlxtest.Seeded(t, 3), func(scope *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				scope.Store().SetTraining(g, true)
				trace := c.Trace(scope, in[0], false)
				loss := ReduceAllSum(Square(trace.Logits))
				var weights []*Node
				for v := range scope.Store().IterVariables() {
					if v.Trainable && v.InUseByGraph(g) {
						weights = append(weights, v.NodeValue(g))
					}
				}
				out := Gradient(loss, append(weights, in[0])...)
				first, last := trace.Tokens.Id(), trace.Encoded.Id()
				of := map[NodeId]bool{in[0].Id(): true} // the images: these nodes grow with the batch
				seen := map[NodeId]bool{}
				for _, node := range g.Nodes() {
					for _, input := range node.Inputs() {
						of[node.Id()] = of[node.Id()] || of[input.Id()]
						if at := input.Id(); node.Id() > loss.Id() && at > first && at < last && of[at] && !seen[at] {
							seen[at] = true
							kept[k] += input.Shape().Size()
						}
					}
				}
				return out
			}, gomlxtest.Noise(2, small(label, poolClass).ImageRows, small(label, poolClass).ImageCols, 3))
		}
		gomlxtest.Near(t, label+": gradient", slices.Concat(grads[1]...), slices.Concat(grads[0]...), 1e-6)
		config := small(label, poolClass)
		tokens := 2 * config.Tokens() * config.Width
		// The tokens that enter three blocks, and those that leave the last, twice: before and after their barrier.
		if limit := 8 * tokens; kept[1] > limit || kept[0] < 4*limit {
			t.Errorf("%s: the gradient keeps %d numbers, %d without recomputing, want at most %d of many more", label,
				kept[1], kept[0], limit)
		}
	}
}
