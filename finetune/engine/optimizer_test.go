// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// adamW is the documented optimizer on the host, for one variable.
type adamW struct {
	w, m, v         []float64
	lr, decay       float64 // factors of the variable's group
	lamb            bool
	b1, b2, epsilon float64
}

// sgd steps with torch's SGD(momentum=mu), and optax's: m is the velocity.
func (a *adamW) sgd(grad []float64, rate, mu float64) {
	for i, g := range grad {
		a.m[i] = mu*a.m[i] + g
		a.w[i] -= rate * a.lr * a.m[i]
	}
}

func (a *adamW) step(grad []float64, rate float64, t int) {
	step := make([]float64, len(grad))
	var weights, length float64
	for i, g := range grad {
		a.m[i] = a.b1*a.m[i] + (1-a.b1)*g
		a.v[i] = a.b2*a.v[i] + (1-a.b2)*g*g
		first := a.m[i] / (1 - math.Pow(a.b1, float64(t)))
		second := a.v[i] / (1 - math.Pow(a.b2, float64(t)))
		step[i] = first/(math.Sqrt(second)+a.epsilon) + a.decay*a.w[i]
		weights, length = weights+a.w[i]*a.w[i], length+step[i]*step[i]
	}
	trust := 1.0
	if a.lamb && a.decay > 0 && weights > 0 && length > 0 { // as NVIDIA's apex, the FusedLAMB of DeiT-III
		trust = math.Sqrt(weights / length)
	}
	for i := range step {
		a.w[i] -= rate * a.lr * trust * step[i]
	}
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
			store := model.NewStore()
			var host []*adamW
			for _, v := range variables {
				flat := make([]float32, v.size)
				h := &adamW{m: make([]float64, v.size), v: make([]float64, v.size), lr: 1, b1: 0.9, b2: 0.999, epsilon: 1e-8,
					lamb: o.Name == kindLAMB}
				for i := range flat {
					flat[i] = float32(r.NormFloat64())
					h.w = append(h.w, float64(flat[i]))
				}
				if o.Beta1 != 0 {
					h.b1, h.b2, h.epsilon = o.Beta1, o.Beta2, o.Epsilon
				}
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
				host = append(host, h)
				gomlxtest.Must(store.CreateVariable(v.path, tensors.FromFlatDataAndDimensions(flat, v.size)))(t)
			}
			o := gomlxtest.Must(o.Resolve())(t)
			o.Schedule = Schedule{Peak: 1} // the rates below are inputs
			exec, err := model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, in []*Node) []*Node {
				var vars []*model.Variable
				for _, v := range variables {
					vars = append(vars, s.Store().GetVariable(v.path))
				}
				factor := func(variable string) float64 { return o.Factor(variable, 2) }
				return []*Node{o.apply(s, vars, in[1:], ratesOf(in[0]), factor)}
			})
			gomlxtest.NoError(t, err)
			defer exec.Finalize()
			for step := range 6 {
				rate := []float64{0, 0.01, 0.1, 0.05, 0.02, 0.01}[step]
				scalars := o.scalars(step)
				scalars[0] = float32(rate)
				inputs := []any{scalars}
				var grads [][]float64
				var sum float64
				for _, v := range variables {
					flat, grad := make([]float32, v.size), make([]float64, v.size)
					for i := range flat {
						flat[i] = float32(r.NormFloat64())
						grad[i] = float64(flat[i])
						sum += grad[i] * grad[i]
					}
					inputs, grads = append(inputs, flat), append(grads, grad)
				}
				scale := 1.0
				if o.ClipNorm > 0 {
					scale = min(1, o.ClipNorm/(math.Sqrt(sum)+1e-6)) // torch's clip_grad_norm_
				}
				for k, h := range host {
					for i := range grads[k] {
						grads[k][i] *= scale
					}
					if o.Name == kindSGD {
						h.sgd(grads[k], rate, o.Momentum)
					} else {
						h.step(grads[k], rate, step+1)
					}
				}
				norm := gomlxtest.Must(exec.Call(inputs...))(t)
				gomlxtest.Near(t, "norm before clipping", gomlxtest.Values(t, norm[0]), []float64{math.Sqrt(sum)}, 1e-6)
				for k, v := range variables {
					got := gomlxtest.Values(t, store.GetVariable(v.path).MustValue())
					gomlxtest.Near(t, fmt.Sprintf("step %d: %s", step, v.path), got, host[k].w, 2e-6)
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
		if got := (Schedule{Peak: 2, Warmup: test.warmup,
			Steps: test.total}).At(test.step); !(math.Abs(got-test.want) <= 1e-12) {
			t.Errorf("step %d of %d, warm-up %d: %g, want %g", test.step, test.total, test.warmup, got, test.want)
		}
	}
}
