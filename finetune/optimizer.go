// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Kinds of optimizer.
const (
	AdamW = "adamw"
	SGD   = "sgd"
)

// Optimizer is AdamW (Loshchilov & Hutter, https://arxiv.org/abs/1711.05101) or SGD with momentum, with parameter
// groups and clipping of the global gradient norm. With gradient g, step t and learning rate η, AdamW is
//
//	m ← β1·m + (1-β1)·g
//	v ← β2·v + (1-β2)·g²
//	w ← w - η·s·( m/(1-β1^t) / (√(v/(1-β2^t)) + ε) + d·w )
//
// where s and d are the learning-rate factor and the weight decay of the variable, and SGD is
//
//	m ← μ·m + g
//	w ← w - η·s·m
//
// without weight decay, as Dosovitskiy et al. fine-tune (https://arxiv.org/abs/2010.11929). GoMLX's own Adam decays
// every variable alike and clips single values only; its SGD has no momentum.
type Optimizer struct {
	Kind        string  `json:"kind"`               // AdamW (default) or SGD
	Momentum    float64 `json:"momentum,omitempty"` // μ of SGD, default 0.9
	Beta1       float64 `json:"beta1"`              // default 0.9
	Beta2       float64 `json:"beta2"`              // default 0.999
	Epsilon     float64 `json:"epsilon"`            // default 1e-8
	WeightDecay float64 `json:"weight_decay"`       // d of all "weights", 0 for the other variables
	DecayAll    bool    `json:"decay_all"`          // decay every variable, as the WePE release does
	ClipNorm    float64 `json:"clip_norm"`          // largest global gradient norm, 0 for none

	// LearningRates scales the learning rate of a group, as in {"head": 10}; groups it does not name have 1.
	LearningRates map[string]float64 `json:"learning_rates,omitempty"`
	// LayerDecay in (0, 1) scales the learning rate of layer l by LayerDecay^(depth+1-l): l is 0 for patches, class token
	// and pretrained positions, i+1 for block i, depth+1 for final norm, head and what else is new. 0 for none.
	LayerDecay float64 `json:"layer_decay,omitempty"`
}

func (o Optimizer) withDefaults() Optimizer {
	setDefault(&o.Kind, AdamW)
	if o.Kind == SGD {
		setDefault(&o.Momentum, 0.9)
	}
	setDefault(&o.Beta1, 0.9)
	setDefault(&o.Beta2, 0.999)
	setDefault(&o.Epsilon, 1e-8)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o Optimizer) validate() error {
	for _, f := range []struct {
		name     string
		value    float64
		low, end float64
	}{
		{"momentum", o.Momentum, 0, 1}, {"layer_decay", o.LayerDecay, 0, 1}, {"beta1", o.Beta1, 0, 1},
		{"beta2", o.Beta2, 0, 1}, {"epsilon", o.Epsilon, 0, 1},
		{"weight_decay", o.WeightDecay, 0, 100}, {"clip_norm", o.ClipNorm, 0, math.Inf(1)},
	} {
		if !(f.value >= f.low && f.value < f.end) {
			return fmt.Errorf("finetune: %s is %g, want %g <= value < %g", f.name, f.value, f.low, f.end)
		}
	}
	switch {
	case o.Kind != AdamW && o.Kind != SGD:
		return fmt.Errorf("finetune: optimizer.kind is %q, want %q or %q", o.Kind, AdamW, SGD)
	case o.Kind == SGD && (o.WeightDecay != 0 || o.DecayAll):
		return fmt.Errorf("finetune: optimizer.weight_decay is %g: sgd has none here, want 0", o.WeightDecay)
	case o.Kind == AdamW && o.Momentum != 0:
		return fmt.Errorf("finetune: optimizer.momentum is %g: adamw has beta1 and beta2, want 0", o.Momentum)
	}
	for group, scale := range o.LearningRates {
		if !slices.Contains(groups, group) {
			return fmt.Errorf("finetune: learning_rates names the unknown group %q: want one of %s", group,
				strings.Join(groups, ", "))
		}
		if !(scale >= 0) || math.IsInf(scale, 0) {
			return fmt.Errorf("finetune: learning_rates[%q] is %g, want a number >= 0", group, scale)
		}
	}
	return nil
}

// scalars are the numbers of step t (from 0) that the graph takes as input [3]: the learning rate and the two bias
// corrections. Computed here in float64, so that the graph holds no counters and every step runs the same program.
func (o Optimizer) scalars(learningRate float64, t int) []float32 {
	return []float32{
		float32(learningRate),
		float32(1 / (1 - math.Pow(o.Beta1, float64(t+1)))),
		float32(1 / (1 - math.Pow(o.Beta2, float64(t+1)))),
	}
}

// trainable returns the variables that the loss reaches and the recipe does not freeze, by path. The order of the store
// is that of creation, another one after a resume, and the gradient norm is a sum whose last bit depends on the order.
func (r Recipe) trainable(scope *model.Scope, g *Graph) []*model.Variable {
	var vars []*model.Variable
	for v := range scope.Store().IterVariables() {
		if v.Trainable && v.InUseByGraph(g) && r.trains(v.Path()) {
			vars = append(vars, v)
		}
	}
	if len(vars) == 0 {
		exceptions.Panicf("finetune: freeze is %q: nothing is left to train", r.Freeze)
	}
	slices.SortFunc(vars, func(a, b *model.Variable) int { return cmp.Compare(a.Path(), b.Path()) })
	return vars
}

// companion returns the float32 variable that belongs to v under another root: its moment, its average.
func companion(scope *model.Scope, root string, v *model.Variable) *model.Variable {
	return scope.Store().Scope(model.JoinPath(root, v.Scope())).WithInitializer(initializer.Zero).
		VariableWithShape(v.Name(), v.Shape()).SetTrainable(false)
}

// update builds one optimizer step on vars, of a model of the given depth, and returns the global gradient norm before
// clipping.
func (o Optimizer) update(scope *model.Scope, depth int, vars []*model.Variable, grads []*Node, scalars *Node,
) (norm *Node) {
	g := scalars.Graph()
	number := func(i int64) *Node { return Reshape(Gather(scalars, Const(g, []int64{i}))) } // scalar
	rate, fix1, fix2 := number(scalarRate), number(scalarFirst), number(scalarSecond)

	sum := ScalarZero(g, dtypes.Float32)
	for _, grad := range grads {
		sum = Add(sum, ReduceAllSum(Square(ConvertDType(grad, dtypes.Float32))))
	}
	norm = Sqrt(sum)
	if o.ClipNorm > 0 {
		scale := MinScalar(Div(Scalar(g, dtypes.Float32, o.ClipNorm), AddScalar(norm, 1e-6)), 1)
		for i := range grads {
			grads[i] = Mul(grads[i], scale)
		}
	}
	for i, v := range vars {
		w := v.NodeValue(g)
		var step *Node
		if o.Kind == SGD {
			momentum := companion(scope, "/sgd/momentum", v)
			step = Add(MulScalar(momentum.NodeValue(g), o.Momentum), grads[i])
			momentum.SetNodeValue(step)
		} else {
			first, second := companion(scope, "/adamw/first", v), companion(scope, "/adamw/second", v)
			m := Add(MulScalar(first.NodeValue(g), o.Beta1), MulScalar(grads[i], 1-o.Beta1))
			s := Add(MulScalar(second.NodeValue(g), o.Beta2), MulScalar(Square(grads[i]), 1-o.Beta2))
			step = Div(Mul(m, fix1), AddScalar(Sqrt(Mul(s, fix2)), o.Epsilon))
			first.SetNodeValue(m)
			second.SetNodeValue(s)
		}
		if _, decays := GroupOf(v.Path()); (decays || o.DecayAll) && o.WeightDecay > 0 {
			step = Add(step, MulScalar(w, o.WeightDecay))
		}
		lr := rate
		if factor := o.factor(v.Path(), depth); factor != 1 {
			lr = MulScalar(rate, factor)
		}
		v.SetNodeValue(Sub(w, Mul(step, lr)))
	}
	return norm
}
