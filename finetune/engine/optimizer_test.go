// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// host is a variable, with the optimizer as documented.
type host struct {
	w, m, v   []float64
	lr, decay float64 // factors of its group
}

// step counts from 1.
func (h *host) step(o Optimizer, grad []float64, rate float64, step int) {
	b1, b2, epsilon := cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.999), cmp.Or(o.Epsilon, 1e-8)
	move := make([]float64, len(grad))
	for i, g := range grad {
		if o.Name == kindSGD { // torch's SGD(momentum=μ), and optax's: m is the velocity
			h.m[i] = cmp.Or(o.Momentum, 0.9)*h.m[i] + g
			move[i] = h.m[i]
			continue
		}
		h.m[i] = b1*h.m[i] + (1-b1)*g
		h.v[i] = b2*h.v[i] + (1-b2)*g*g
		first, second := h.m[i]/(1-math.Pow(b1, float64(step))), h.v[i]/(1-math.Pow(b2, float64(step)))
		move[i] = first/(math.Sqrt(second)+epsilon) + h.decay*h.w[i]
	}
	trust, weights, length := 1.0, floats.Norm(h.w, 2), floats.Norm(move, 2)
	if o.Name == kindLAMB && h.decay > 0 && weights > 0 && length > 0 { // as NVIDIA's apex, the FusedLAMB of DeiT-III
		trust = weights / length
	}
	floats.AddScaled(h.w, -rate*h.lr*trust, move)
}

func TestUpdate_IsAdamWOnTheHost(t *testing.T) {
	variables := []struct {
		path   string
		size   int
		lr     float64 // with the LearningRates below
		decays bool
		layer  float64 // 0.7 to the power of 3 layers less the variable's
	}{
		{"/vit/block_00/mlp/hidden/weights", 7, 0.5, true, 0.7 * 0.7},
		{"/vit/block_00/mlp/hidden/biases", 3, 1, false, 0.7 * 0.7},
		{"/vit/block_01/norm1/gain", 3, 1, false, 0.7},
		{"/vit/norm/gain", 5, 1, false, 1},
		{"/vit/class", 2, 1, false, 0.7 * 0.7 * 0.7},
		{"/vit/patch/weights", 6, 0.5, true, 0.7 * 0.7 * 0.7},
		{"/vit/position/embedding", 6, 0.25, false, 0.7 * 0.7 * 0.7},
		{"/vit/position/gate_raw", 1, 7, false, 1},
		{"/vit/position/wepe/beta_pos", 1, 3, false, 1},
		{"/vit/position/wepe/projection/dense/weights", 11, 3, false, 1},
		{"/vit/head/weights", 13, 10, true, 1},
		{"/vit/head/biases", 4, 10, false, 1},
	}
	factors := map[string]float64{groupWeights: 0.5, "position": 3, "head": 10, "table": 0.25, "gate": 7}
	for name, o := range map[string]Optimizer{
		"plain":         {},
		"decay":         {WeightDecay: 0.3},
		"decay all":     {WeightDecay: 0.3, DecayAll: true},
		"groups":        {WeightDecay: 0.1, LearningRates: factors},
		"clip active":   {WeightDecay: 0.1, ClipNorm: 0.7},
		"clip inactive": {WeightDecay: 0.1, ClipNorm: 1e4},
		"layers":        {WeightDecay: 0.3, LayerDecay: 0.7},
		"layer groups":  {WeightDecay: 0.1, LayerDecay: 0.7, LearningRates: factors, ClipNorm: 0.7},
		"lamb":          {Name: kindLAMB, WeightDecay: 0.3, LearningRates: factors, ClipNorm: 0.7},
		"lamb of all":   {Name: kindLAMB, WeightDecay: 0.01, DecayAll: true},
		"sgd":           {Name: kindSGD, ClipNorm: 0.7},
		"sgd by layers": {Name: kindSGD, Momentum: 0.6, LayerDecay: 0.7, LearningRates: factors},
		"other betas":   {Beta1: 0.5, Beta2: 0.7, Epsilon: 0.01, LearningRates: map[string]float64{"head": 0}},
	} {
		if gomlxtest.OnXLA() && !slices.Contains([]string{"layer groups", "lamb", "sgd by layers"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			draw := func(n int) (single []float32, double []float64) {
				for range n {
					v := float32(r.NormFloat64())
					single, double = append(single, v), append(double, float64(v))
				}
				return single, double
			}
			store, hosts := model.NewStore(), make([]host, len(variables))
			for k, v := range variables {
				flat, w := draw(v.size)
				h := host{w: w, m: make([]float64, v.size), v: make([]float64, v.size), lr: 1}
				if v.decays || o.DecayAll {
					h.decay = o.WeightDecay
				}
				if o.LayerDecay > 0 {
					h.lr = v.layer
				}
				if o.LearningRates["gate"] > 0 {
					h.lr *= v.lr
				} else if o.LearningRates != nil && strings.Contains(v.path, "/head/") {
					h.lr = 0
				}
				hosts[k] = h
				gomlxtest.Must(store.CreateVariable(v.path, tensors.FromFlatDataAndDimensions(flat, v.size)))(t)
			}
			full := gomlxtest.Must(o.Resolve())(t)
			full.Schedule = Schedule{Peak: 1} // the rates below are inputs
			exec := gomlxtest.Must(model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, in []*Node) []*Node {
				var vars []*model.Variable
				for _, v := range variables {
					vars = append(vars, s.Store().GetVariable(v.path))
				}
				factor := func(variable string) float64 { return full.Factor(variable, 2) }
				return []*Node{full.apply(s, vars, in[1:], ratesOf(in[0]), factor)}
			}))(t)
			defer exec.Finalize()
			for step, rate := range []float64{0, 0.01, 0.1, 0.05, 0.02, 0.01} {
				scalars := full.scalars(step)
				scalars[0] = float32(rate)
				inputs, grads, sum := []any{scalars}, [][]float64{}, 0.0
				for _, v := range variables {
					flat, grad := draw(v.size)
					inputs, grads, sum = append(inputs, flat), append(grads, grad), sum+floats.Dot(grad, grad)
				}
				scale := 1.0
				if o.ClipNorm > 0 {
					scale = min(1, o.ClipNorm/(math.Sqrt(sum)+1e-6)) // torch's clip_grad_norm_
				}
				for k := range hosts {
					floats.Scale(scale, grads[k])
					hosts[k].step(o, grads[k], rate, step+1)
				}
				norm := gomlxtest.Must(exec.Call(inputs...))(t)
				gomlxtest.Near(t, "norm before clipping", gomlxtest.Values(t, norm[0]), []float64{math.Sqrt(sum)}, 1e-6)
				for k, v := range variables {
					got := gomlxtest.Values(t, store.GetVariable(v.path).MustValue())
					gomlxtest.Near(t, fmt.Sprintf("step %d: %s", step, v.path), got, hosts[k].w, 2e-6)
				}
			}
		})
	}
}

func TestSchedule_WarmsUpThenHalfACosine(t *testing.T) {
	half := math.Sqrt(0.5)
	for _, test := range []struct {
		step, warmup, total int
		want                float64 // of peak 2
	}{
		{0, 4, 20, 0}, {1, 4, 20, 0.5}, {3, 4, 20, 1.5}, {4, 4, 20, 2}, // warm-up ends at the peak
		{8, 4, 20, 1 + half}, {12, 4, 20, 1}, {16, 4, 20, 1 - half}, {20, 4, 20, 0}, {25, 4, 20, 0},
		{0, 0, 8, 2}, {4, 0, 8, 1}, {8, 0, 8, 0}, // without warm-up the first step has the peak
		{7, 8, 8, 1.75}, // all warm-up
	} {
		got := Schedule{Peak: 2, Warmup: test.warmup, Steps: test.total}.At(test.step)
		if !(math.Abs(got-test.want) <= 1e-12) {
			t.Errorf("step %d of %d, warm-up %d: %g, want %g", test.step, test.total, test.warmup, got, test.want)
		}
	}
}
