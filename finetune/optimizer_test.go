// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
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

func TestUpdateEqualsAdamWOnTheHost(t *testing.T) {
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
	factors := map[string]float64{groupWeights: 0.5, groupPosition: 3, groupHead: 10, groupTable: 0.25, groupGate: 7}
	for name, o := range map[string]Optimizer{
		"plain":         {},
		"decay":         {WeightDecay: 0.3},
		"decay all":     {WeightDecay: 0.3, DecayAll: true},
		"groups":        {WeightDecay: 0.1, LearningRates: factors},
		"clip active":   {WeightDecay: 0.1, ClipNorm: 0.7},
		"clip inactive": {WeightDecay: 0.1, ClipNorm: 1e4},
		"layers":        {WeightDecay: 0.3, LayerDecay: 0.7},
		"layer groups":  {WeightDecay: 0.1, LayerDecay: 0.7, LearningRates: factors, ClipNorm: 0.7},
		"lamb":          {Kind: kindLAMB, WeightDecay: 0.3, LearningRates: factors, ClipNorm: 0.7},
		"lamb of all":   {Kind: kindLAMB, WeightDecay: 0.01, DecayAll: true},
		"sgd":           {Kind: kindSGD, ClipNorm: 0.7},
		"sgd by layers": {Kind: kindSGD, Momentum: 0.6, LayerDecay: 0.7, LearningRates: factors},
		"other betas":   {Beta1: 0.5, Beta2: 0.7, Epsilon: 0.01, LearningRates: map[string]float64{groupHead: 0}},
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
					lamb: o.Kind == kindLAMB}
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
				if o.LearningRates[groupGate] > 0 {
					h.lr *= v.lr
				} else if o.LearningRates != nil && strings.Contains(v.path, "/head/") {
					h.lr = 0
				}
				host = append(host, h)
				if _, err := store.CreateVariable(v.path, tensors.FromFlatDataAndDimensions(flat, v.size)); err != nil {
					t.Fatal(err)
				}
			}
			o := Recipe{Optimizer: o}.WithDefaults().Optimizer
			exec, err := model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, in []*Node) []*Node {
				var vars []*model.Variable
				for _, v := range variables {
					vars = append(vars, s.Store().GetVariable(v.path))
				}
				factor := func(variable string) float64 { return o.factor(variable, 2) }
				return []*Node{o.update(s, vars, in[1:], in[0], factor)}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer exec.Finalize()
			for step := range 6 {
				rate := []float64{0, 0.01, 0.1, 0.05, 0.02, 0.01}[step]
				inputs := []any{o.scalars(rate, step)}
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
					if o.Kind == kindSGD {
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
			for k, v := range variables {
				if o.Kind == kindSGD {
					m := gomlxtest.Values(t, store.GetVariable("/sgd/momentum"+v.path).MustValue())
					gomlxtest.Near(t, "momentum of "+v.path, m, host[k].m, 4e-6)
					if store.GetVariable("/adamw/first"+v.path) != nil {
						t.Errorf("sgd keeps a moment of adamw of %s", v.path)
					}
					continue
				}
				m := gomlxtest.Values(t, store.GetVariable("/adamw/first"+v.path).MustValue())
				gomlxtest.Near(t, "first moment of "+v.path, m, host[k].m, 2e-6)
				s := gomlxtest.Values(t, store.GetVariable("/adamw/second"+v.path).MustValue())
				gomlxtest.Near(t, "second moment of "+v.path, s, host[k].v, 2e-6)
			}
		})
	}
}

// A new variable must be listed here: its group, whether weight decay applies to it, and its layer in a model of one
// block, by the path below the model's scope. Every pattern matches some encoding, and every variable one pattern.
func TestTheGlobalNormIsThatOfAllGradientsTogether(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{globalNorm(in)} },
		[][]float32{{1, -2, 3}, {4, 5, -6}}, []float32{7, 8}, float32(9), [][]float32{{10}})
	gomlxtest.Near(t, "norm", got[0], []float64{math.Sqrt(385)}, 1e-6) // Σk² up to 10 is 10·11·21/6
}

func TestEveryTrainedVariableIsInTheGroupItBelongsTo(t *testing.T) {
	gomlxtest.OnGo(t)
	const dense = `block_00/(attention/(query|key|value|output)|mlp/(hidden|output))`
	of := []struct {
		pattern, group string
		decays         bool
		layer          int
	}{
		{`patch/weights`, groupWeights, true, 0},
		{`class|patch/(biases|norm/(gain|offset))`, groupVectors, false, 0},
		{dense + `/weights`, groupWeights, true, 1},
		{dense + `/biases|block_00/norm[12]/(gain|offset)`, groupVectors, false, 1},
		{`norm/(gain|offset)`, groupVectors, false, 2},
		{`head/weights`, groupHead, true, 2},
		{`head/biases`, groupHead, false, 2},
		{`position/embedding`, groupTable, false, 0},
		{`position/gate_raw`, groupGate, false, 2},
		{`position/(wepe|wepe_sphere)/(omega3_raw|alpha_scale_raw|beta_pos|prefix)`, groupPosition, false, 2},
		{`position/(wepe|wepe_sphere|surrogate)/projection/.*/(weights|biases|gain|offset)`, groupPosition, false, 2},
		{`position/surrogate/(omega3_raw|beta_raw|scale|offset)`, groupPosition, false, 2},
		{`position/wepe_bias/(omega3_raw|alpha_scale_raw|weights|biases|own)`, groupPosition, false, 2},
		{`position/(grid2d/(table|prefix)|(rope_mixed|liere)/block_00/(frequencies|generators))`, groupPosition, false, 2},
		{`position/factorized/(rows|cols)`, groupPosition, false, 2},
		{`position/relative_table/block_00/scores`, groupPosition, false, 2},
		{`position/cpe/block_00/(kernel|bias)`, groupPosition, false, 2},
		{`position/wepe_(qkv|v)/wepe_field_sphere/(omega3_raw|alpha_scale_raw)`, groupPosition, false, 2},
		{`position/(wepe|fourier)_(qkv|v)/block_00/(query|key|value)`, groupPosition, false, 2},
	}
	used := make([]bool, len(of))
	for _, name := range gomlxtest.Encodings(position.Names()) {
		trainer := begun(t, tinyRun(t, "model.depth=1;model.patch_norm=true;model.position="+name, 30))
		advanced(t, trainer, 1)
		for v := range trainer.model.variables() {
			path := v.Path()
			if !v.Trainable {
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
			if trainer.model.store.GetVariable("/adamw/first"+path) == nil {
				t.Errorf("%s: %s is not optimized", name, path)
			}
		}
	}
	for i, m := range of {
		if !used[i] && !gomlxtest.OnXLA() {
			t.Errorf("no variable is %s", m.pattern)
		}
	}
}

func TestLearningRateIsLinearWarmupThenHalfACosine(t *testing.T) {
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
		if got := LearningRate(2, test.step, test.warmup, test.total); !(math.Abs(got-test.want) <= 1e-12) {
			t.Errorf("step %d of %d, warm-up %d: %g, want %g", test.step, test.total, test.warmup, got, test.want)
		}
	}
}

func TestTheScheduleCountsOptimizerSteps(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, c := range map[string]struct {
		settings              string
		images, steps, warmup int
		evaluated             []int
	}{
		// 31 images in batches of 6 are 5 steps an epoch and 20 in all; round(1.5·5) = 8 of them warm up.
		"epochs": {"epochs=4;warmup_epochs=1.5", 31, 20, 8, []int{5, 10, 15, 20}},
		// 9 images are one batch per epoch, drawn anew each time; an incomplete batch is dropped.
		"steps": {"epochs=0;warmup_epochs=0;steps=10;warmup_steps=4;eval_steps=3", 9, 10, 4, []int{3, 6, 9, 10}},
	} {
		trainer := begun(t, tinyRun(t, c.settings+";learning_rate=0.2;validation_part=-1", c.images))
		batches, evaluated := map[string]bool{}, []int(nil)
		trainer.Training.Progress = func(p Progress) {
			if p.Eval != nil {
				evaluated = append(evaluated, p.Step)
			}
		}
		for step := range c.steps {
			if got, want := float64(trainer.scalars()[scalarRate]), LearningRate(0.2, step, c.warmup, c.steps); !(math.Abs(
				got-want) <= 1e-7) {
				t.Errorf("%s: rate %g at step %d, want %g", name, got, step, want)
			}
			advanced(t, trainer, 1)
			_, _, seen := trainer.order.At(step - step%trainer.PerPass)
			batch := slices.Clone(seen)
			slices.Sort(batch)
			batches[fmt.Sprint(batch)] = true
		}
		if trainer.step != trainer.Steps || !slices.Equal(evaluated, c.evaluated) {
			t.Errorf("%s: %d steps of %d, evaluated after %v", name, trainer.step, trainer.Steps, evaluated)
		}
		if name == "steps" && len(batches) < 5 {
			t.Errorf("%d different batches in 10 epochs of one", len(batches))
		}
	}
}
