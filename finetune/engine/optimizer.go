// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	_ "embed" // the comments of settings
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/setting"
)

//go:embed optimizer.go
var optimizerCode string

var _ = setting.Describe(optimizerCode)

// Kinds of optimizer.
const (
	kindAdamW = "adamw"
	kindLAMB  = "lamb"
	kindSGD   = "sgd"
)

// Optimizer is AdamW (Loshchilov & Hutter, https://arxiv.org/abs/1711.05101) or SGD with momentum, with parameter
// groups and clipping of the global gradient norm. With gradient g, step t and learning rate η, AdamW is
//
//	m ← β1·m + (1-β1)·g
//	v ← β2·v + (1-β2)·g²
//	w ← w - η·s·( m/(1-β1^t) / (√(v/(1-β2^t)) + ε) + d·w )
//
// where s and d are the learning-rate factor and the weight decay of the variable. LAMB (You et al. 2019,
// https://arxiv.org/abs/1904.00962) scales the parenthesized step of each decayed variable by ‖w‖/‖step‖, unless either
// is 0. SGD is
//
//	m ← μ·m + g
//	w ← w - η·s·m
//
// without weight decay, as Dosovitskiy et al. fine-tune (https://arxiv.org/abs/2010.11929). Resolve sets zero fields.
//
// A *Optimizer is an optimizer of GoMLX, for its train.Trainer, which accumulates gradients with it too:
//
//	opt := &engine.Optimizer{WeightDecay: 0.05, LayerDecay: 0.75, ClipNorm: 1, EMADecay: 0.999,
//		Schedule: engine.Schedule{Peak: 1e-3, Warmup: 100, Steps: 2000}}
//	trainer := train.NewTrainer(backend, store, modelFn, lossFn, opt, nil, nil)
//
// It trains the float32 variables that are Trainable, and counts steps in GoMLX's global step: one for all batches
// whose gradients are accumulated, also in Schedule. Groups and layers follow from the paths of this library's models;
// in other models matrices named "weights" are decayed, and all have one rate.
type Optimizer struct {
	Name        string  `json:"name"`               // adamw (default), lamb or sgd
	Momentum    float64 `json:"momentum,omitempty"` // μ of sgd, default 0.9
	Beta1       float64 `json:"beta1"`              // β1 of adamw and lamb, the decay of the mean gradient
	Beta2       float64 `json:"beta2"`              // β2 of adamw and lamb, the decay of the mean square
	Epsilon     float64 `json:"epsilon"`            // ε of adamw and lamb, added to the root of the mean square
	WeightDecay float64 `json:"weight_decay"`       // d of all "weights", 0 for the other variables
	DecayAll    bool    `json:"decay_all"`          // decay every variable, as the WePE release does
	ClipNorm    float64 `json:"clip_norm"`          // largest global gradient norm, 0 for none

	// LearningRates scales the learning rate of a group, as in {"head": 10}; other groups have 1.
	LearningRates map[string]float64 `json:"learning_rates,omitempty"`
	// LayerDecay scales the learning rate of layer l by LayerDecay^(depth+1-l), in (0, 1) or 0 for none: l is 0 for
	// patches, class token and pretrained positions, i+1 for block i, depth+1 for final norm, head and other new
	// variables.
	LayerDecay float64 `json:"layer_decay,omitempty"`

	Schedule Schedule `json:"-"` // of the learning rate η; its Peak is required
	EMADecay float64  `json:"-"` // decay of the averages of the weights, 0 for none; see SwapAverages
}

// Resolve completes and checks an optimizer. Zero fields are kind "adamw", beta1 0.9, beta2 0.999, epsilon 1e-8; of
// kind "sgd" momentum 0.9.
func (o Optimizer) Resolve() (Optimizer, error) {
	o.Name = cmp.Or(o.Name, kindAdamW)
	if o.Name == kindSGD {
		o.Momentum = cmp.Or(o.Momentum, 0.9)
	}
	o.Beta1, o.Beta2, o.Epsilon = cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.999), cmp.Or(o.Epsilon, 1e-8)
	return o, o.validate()
}

// validate reports the first field out of its range, by its JSON name.
func (o Optimizer) validate() error {
	below := func(name string, value, end float64) error {
		return setting.In("optimizer."+name, value, value >= 0 && value < end, fmt.Sprintf("0 <= value < %g", end))
	}
	if err := cmp.Or(below("momentum", o.Momentum, 1), below("layer_decay", o.LayerDecay, 1),
		below("beta1", o.Beta1, 1), below("beta2", o.Beta2, 1), below("epsilon", o.Epsilon, 1),
		below("weight_decay", o.WeightDecay, 100), below("clip_norm", o.ClipNorm, math.Inf(1))); err != nil {
		return err
	}
	switch {
	case o.Name != kindAdamW && o.Name != kindLAMB && o.Name != kindSGD:
		return fmt.Errorf("training: optimizer.name is %q, want %q, %q or %q", o.Name, kindAdamW, kindLAMB, kindSGD)
	case o.Name == kindSGD && (o.WeightDecay != 0 || o.DecayAll):
		return fmt.Errorf("training: optimizer.weight_decay is %g, but sgd does not support it: set it to 0", o.WeightDecay)
	case o.Name != kindSGD && o.Momentum != 0:
		return fmt.Errorf("training: optimizer.momentum is %g: %s has beta1 and beta2, want 0", o.Momentum, o.Name)
	}
	for _, group := range slices.Sorted(maps.Keys(o.LearningRates)) {
		if !slices.Contains(groups, group) {
			return fmt.Errorf("training: learning_rates names the unknown group %q: want one of %s", group,
				strings.Join(groups, ", "))
		}
		if scale := o.LearningRates[group]; !(scale >= 0) || math.IsInf(scale, 0) {
			return fmt.Errorf("training: learning_rates[%q] is %g, want a number >= 0", group, scale)
		}
	}
	return nil
}

// Factor is the factor of a variable's learning rate, by its group and, in a model of some blocks, its layer:
//
//	LearningRates[group] · LayerDecay^(depth+1-layer)
//
// groupOf and layerOf are in groups.go. The factor multiplies Recipe.LearningRate; that of a pretrained model is set by
// finetune.FineTuning.
func (o Optimizer) Factor(variable string, depth int) float64 {
	group, _ := groupOf(variable)
	factor, named := o.LearningRates[group]
	if !named {
		factor = 1
	}
	if o.LayerDecay > 0 && depth > 0 {
		factor *= math.Pow(o.LayerDecay, float64(depth+1-layerOf(variable, depth)))
	}
	return factor
}
