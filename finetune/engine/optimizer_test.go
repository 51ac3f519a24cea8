// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
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
		is.Near(t, fmt.Sprintf("%+v", test), got, test.want, 1e-12)
	}
}

// Ten steps of torch 2 on the host, generated by
//
//	w = torch.nn.Parameter(torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]]))
//	b = torch.nn.Parameter(torch.tensor([0.1, -0.2]))
//	opt = torch.optim.AdamW([{"params": [w], "weight_decay": 0.3}, {"params": [b], "weight_decay": 0}], lr=1)
//	for s in range(10):
//	    for group in opt.param_groups: group["lr"] = rate(s)  # warm-up of 3 of 10 steps to 0.1, then a half cosine
//	    opt.zero_grad()
//	    (((x @ w + b) - y) ** 2).mean().backward()
//	    torch.nn.utils.clip_grad_norm_([w, b], 0.7)
//	    opt.step()
//
// in float64, with x and y below.
var (
	torchX = [][]float32{{1, -2, 0.5}, {0.25, 3, -1}, {-1.5, 0.75, 2}, {2, 1, -0.5}, {0.5, -0.25, 1.25}}
	torchY = [][]float32{{1, 0}, {-1, 2}, {0.5, -0.5}, {2, 1}, {0, -1}}

	torchLosses = []float64{14.5252343762, 14.5252343762, 13.6726404780, 12.0888894908, 10.0054570829,
		8.3066829073, 7.0339689715, 6.1737422462, 5.6675753262, 5.4331387391}
	torchWeights = []float64{0.3411053327, -0.3907387009, 1.2487491648, 0.6513631242, -0.1755130690,
		0.8197076028}
	torchBiases = []float64{-0.3177361343, -0.0574324015}
)

// affine is x·w + b, squares the mean of the squared differences.
func affine(scope *model.Scope, x *Node) *Node {
	in := func(name string) *Node { return scope.Store().GetVariable("/layer/" + name).NodeValue(x.Graph()) }
	return Add(MatMul(x, in("weights")), ExpandLeftToRank(in("biases"), 2))
}

func squares(labels, predictions []*Node) *Node {
	return ReduceAllMean(Square(Sub(predictions[0], labels[0])))
}

func batch() train.Batch {
	return train.Batch{Inputs: []*tensors.Tensor{tensors.FromValue(torchX)},
		Labels: []*tensors.Tensor{tensors.FromValue(torchY)}}
}

// In GoMLX's own trainer the optimizer makes torch's steps, and its averages are those of their weights; with gradients
// accumulated over two equal batches it makes the same.
func TestOptimizer_InGoMLXsTrainerIsTorchs(t *testing.T) {
	for name, accumulated := range map[string]int{"each step": 1, "accumulated": 2} {
		store := model.NewStore()
		values := func(name string) []float64 {
			return gomlxtest.Values(t, store.GetVariable("/layer/"+name).MustValue())
		}
		store.RootScope().In("layer").VariableWithValue("weights", [][]float32{{0.5, -1}, {2, 0.25}, {-0.75, 1.5}})
		store.RootScope().In("layer").VariableWithValue("biases", []float32{0.1, -0.2})
		opt := &Optimizer{WeightDecay: 0.3, ClipNorm: 0.7, EMADecay: 0.9, Schedule: Schedule{Peak: 0.1, Warmup: 3, Steps: 10}}
		trainer := train.NewTrainer(gomlxtest.Backend(), store, affine, squares, opt, nil, nil)
		if accumulated > 1 {
			gomlxtest.NoError(t, trainer.AccumulateGradients(accumulated))
		}
		var average float64
		for step := range 10 {
			for range accumulated {
				loss := gomlxtest.Must(trainer.TrainStep(batch()))(t)
				gomlxtest.Near(t, name+": loss", gomlxtest.Values(t, loss[0]), torchLosses[step:step+1], 2e-6)
			}
			decay := 0.0
			if step > 0 {
				decay = math.Min(0.9, float64(1+step)/float64(10+step))
			}
			average = decay*average + (1-decay)*values("biases")[1]
		}
		gomlxtest.Near(t, name+": weights", values("weights"), torchWeights, 3e-6)
		gomlxtest.Near(t, name+": biases", values("biases"), torchBiases, 3e-6)
		gomlxtest.NoError(t, SwapAverages(store))
		gomlxtest.Near(t, name+": average", values("biases")[1:], []float64{average}, 1e-6)
		is.Equal(t, name+": steps", optimizer.GetGlobalStep(store), 10)
		for v := range store.IterVariables() {
			path, average := strings.CutPrefix(v.Path(), AverageRoot)
			is.Equal(t, name+": an average of "+path, average && !strings.HasPrefix(path, "/layer/"), false)
		}
		gomlxtest.NoError(t, opt.Clear(store.RootScope()))
		is.Equal(t, name+": moments", store.GetVariable(firstRoot+"/layer/biases"), nil)
		// The first step of new moments, m̂/√v̂ = ±1, has the length of the rate.
		before := values("biases")
		trainer = train.NewTrainer(gomlxtest.Backend(), store, affine, squares, &Optimizer{Schedule: Schedule{Peak: 0.01}},
			nil, nil)
		gomlxtest.Must(trainer.TrainStep(batch()))(t)
		for i, after := range values("biases") {
			moved := []float64{math.Abs(after - before[i])}
			gomlxtest.NearAbs(t, name+": move of a bias in the first step after Clear", moved, []float64{0.01}, 1e-6)
		}
	}
}

// GoMLX's checkpoint brings the random generator back as a trainable variable, and variables only as they are used.
func TestOptimizer_ResumesFromGoMLXsCheckpoint(t *testing.T) {
	dropped := func(scope *model.Scope, x *Node) *Node {
		w := scope.In("layer").VariableWithValue("weights", [][]float32{{0.5, -1}, {2, 0.25}, {-0.75, 1.5}})
		keep := scope.RandomBernoulli(Scalar(x.Graph(), dtypes.Float32, 0.5), x.Shape())
		return MatMul(Mul(x, keep), w.NodeValue(x.Graph()))
	}
	weights := func(starts ...bool) []float64 {
		var trainer *train.Trainer
		var store *model.Store
		var saved *checkpoint.Handler
		dir := t.TempDir()
		for _, start := range starts {
			if start {
				store = model.NewStore()
				store.SetParam("/"+model.ParamInitialSeed, int64(3))
				saved = gomlxtest.Must(checkpoint.Build(store).Dir(dir).Done())(t)
				trainer = train.NewTrainer(gomlxtest.Backend(), store, dropped, squares, &Optimizer{EMADecay: 0.9,
					Schedule: Schedule{Peak: 0.1}}, nil, nil)
				is.Equal(t, "averages that are not read yet are none", errors.Is(SwapAverages(store), ErrNoAverages), true)
			}
			gomlxtest.Must(trainer.TrainStep(batch()))(t)
			gomlxtest.NoError(t, saved.Save())
		}
		gomlxtest.NoError(t, SwapAverages(store))
		return gomlxtest.Values(t, store.GetVariable("/layer/weights").MustValue())
	}
	stopped := weights(true, false, true, false)
	is.Equal(t, "averages, stopped after two of four steps", stopped, weights(true, false, false, false))
}

// The loss is the sum of all variables, so a step of SGD moves each by its factor of the rate, here 1. The layers are
// those of any scope, and frozen blocks count.
func TestOptimizer_LayerDecayOfOtherModels(t *testing.T) {
	for _, c := range []struct {
		peak   float64
		value  any
		moves  map[string]float64 // 0: frozen
		fields string             // of the error
	}{
		{1, float32(0), map[string]float64{"/net/block_00/norm/gain": 0.125, "/net/block_01/biases": 0,
			"/net/block_02/biases": 0, "/net/norm/gain": 1, "/net/patch/norm/gain": 0.0625,
			"/net/patch/conv_0/norm/gain": 0.0625, "/net/head/weights": 1}, ""},
		{1, float32(0), map[string]float64{"/net/dense/biases": 1, "/net/norm/gain": 1}, ""},
		{0, float32(0), map[string]float64{"/net/dense/biases": 1}, "Schedule.Peak"},
		{1, 0.0, map[string]float64{"/net/dense/biases": 1}, "float32"},
	} {
		opt := Optimizer{Name: kindSGD, LayerDecay: 0.5, Schedule: Schedule{Peak: c.peak}}
		store := model.NewStore()
		for path, move := range c.moves {
			store.VariableWithValue(path, c.value).SetTrainable(move != 0)
		}
		trainer := train.NewTrainer(gomlxtest.Backend(), store, func(scope *model.Scope, x *Node) *Node {
			sum := ScalarZero(x.Graph(), dtypes.Float32)
			for path := range c.moves {
				sum = Add(sum, ConvertDType(store.GetVariable(path).NodeValue(x.Graph()), dtypes.Float32))
			}
			return sum
		}, func(_, predictions []*Node) *Node { return predictions[0] }, &opt, nil, nil)
		if _, err := trainer.TrainStep(batch()); c.fields != "" || err != nil {
			if err == nil || c.fields == "" || !strings.Contains(err.Error(), c.fields) {
				t.Errorf("%v, want an error about %q", err, c.fields)
			}
			continue
		}
		for path, move := range c.moves {
			gomlxtest.Near(t, path, gomlxtest.Values(t, store.GetVariable(path).MustValue()), []float64{-move}, 1e-6)
		}
	}
}

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
	is.Equal(t, "the layer of a pool with weights", layerOf("/vit/pool/query/weights", 12), 13) // as timm's unmatched ones
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
				is.Equal(t, name+": group, decay and layer of "+path, []any{group, decays, layerOf(path, 1)},
					[]any{m.group, m.decays, m.layer})
			}
			is.Equal(t, name+": patterns for "+path, patterns, 1)
		}
	}
	for i, m := range of {
		is.Equal(t, "some variable is "+m.pattern, used[i] || gomlxtest.OnXLA(), true)
	}
}
