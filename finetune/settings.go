// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit/position"
)

// Set changes fields from settings in GoMLX's form, "epochs=3;optimizer.weight_decay=0.1;wepe_alpha_scale=0.2": the
// JSON names of Recipe, joined by dots, or a hyperparameter of the encoding. Values are JSON; a bare word is a string.
// If a field is set twice, the last value counts.
func (r Recipe) Set(settings string) (Recipe, error) {
	if err := setting.Set(&r, settings, position.Params()); err != nil {
		return r, fmt.Errorf("finetune: %w", err)
	}
	return r, r.refuseZeros(setting.Keys(settings))
}

// refuseZeros refuses 0 where it stands for a default, and says how to get its effect.
func (r Recipe) refuseZeros(keys []string) error {
	stepped := float64(min(r.Steps, 1)) // then 0 is right for epochs, otherwise for steps
	for _, zero := range []struct {
		key     string
		value   float64
		instead string
	}{
		{"val_fraction", r.ValFraction, "-1 splits nothing off"},
		{"optimizer.momentum", r.Optimizer.Momentum, "0.9; a tiny value is almost none"},
		{"optimizer.beta1", r.Optimizer.Beta1, "0.9; a tiny value is almost none"},
		{"optimizer.beta2", r.Optimizer.Beta2, "0.999; a tiny value is almost none"},
		{"optimizer.epsilon", r.Optimizer.Epsilon, "1e-8; a tiny value is almost none"},
		{"model.epsilon", r.Model.Epsilon, "1e-6; a tiny value is almost none"},
		{"eval_every_epochs", float64(r.EvalEveryEpochs) + stepped, "1; leave it out"},
		{"eval_every_steps", float64(r.EvalEverySteps) + 1 - stepped, "a tenth of steps; leave it out"},
		{"grad_accum_steps", float64(r.GradAccumSteps), "1; leave it out"},
		{"eval_batch_size", float64(r.EvalBatchSize), "batch_size; leave it out"},
		{"augment.mix_prob", r.Augment.MixProb, "1; leave out mixup_alpha and cutmix_alpha"},
		{"augment.switch_prob", r.Augment.SwitchProb, "0.5; leave out cutmix_alpha"},
	} {
		if zero.value == 0 && slices.Contains(keys, zero.key) {
			return fmt.Errorf("finetune: %s = 0 would be the default: %s", zero.key, zero.instead)
		}
	}
	return nil
}

// Diff returns an *engine.OtherRunError if the settings in the row of a finished run differ from this recipe. What a
// run sets itself does not count: the sizes of its images, their classes, what its
// pretrained model determines, and the micro-batches of a group.
func (r Recipe) Diff(settings json.RawMessage) error {
	var row struct {
		Recipe
		From *initialModel `json:"from"`
	}
	if len(settings) == 0 {
		return nil // a row from a version that did not record them
	}
	if err := json.Unmarshal(settings, &row); err != nil {
		return err
	}
	if row.From != nil {
		var err error
		if r, err = r.adopt(row.From); err != nil {
			return err
		}
	}
	was, _ := row.Recipe.Resolve() // an older version may have had other bounds
	m := row.Recipe.Model
	r.Model.ImageRows, r.Model.ImageCols = cmp.Or(r.Model.ImageRows, m.ImageRows), cmp.Or(r.Model.ImageCols, m.ImageCols)
	r.Model.Channels, r.Model.Classes = cmp.Or(r.Model.Channels, m.Channels), cmp.Or(r.Model.Classes, m.Classes)
	r.GradAccumSteps = cmp.Or(r.GradAccumSteps, was.GradAccumSteps)
	if r.Aspect == AspectKeep {
		r.Augment.Size = was.Augment.Size
	}
	r, _ = r.Resolve()
	return engine.RunIdentity{Recipe: was}.Same(engine.RunIdentity{Recipe: r}, "it")
}

// UnusedSetting returns an error for the first of some settings, in the form of Set, that has no effect on training
// runs of the recipe with any of the encodings; without encodings it does not check hyperparameters. A recipe itself
// may have such settings: for encodings that it is not used with, or for steps that other settings disable.
func (r Recipe) UnusedSetting(settings string, positions ...string) error {
	for _, key := range setting.Keys(settings) {
		if without := r.without(key); without != "" {
			return fmt.Errorf("finetune: %s has no effect without %s: set both, or neither", key, without)
		}
		if len(positions) == 0 || !slices.Contains(position.Params(), key) && rated[key] == "" ||
			slices.ContainsFunc(positions, func(name string) bool { return readsParam(name, key) }) {
			continue
		}
		return fmt.Errorf("finetune: %s has no effect with position %s: leave it out, or use one of %s", key,
			strings.Join(positions, ", "), strings.Join(readersOf(key), ", "))
	}
	return nil
}

// without names what a setting lacks to have an effect, "" for nothing.
func (r Recipe) without(key string) string {
	a := r.Augment
	frozen, _ := engine.Frozen(r.frozen())
	switch {
	case key == "optimizer.layer_decay" && r.Optimizer.LayerDecay > 0 && !engine.TrainsBackbone(frozen):
		return "a freeze that trains the backbone"
	case key == "late_mixup_alpha" && r.LateMixupAlpha > 0 && r.MixupSwitchEpoch == 0:
		return "mixup_switch_epoch, the first epoch with it"
	case key == "augment.erase_noise" && a.EraseNoise && a.RandomErasingProb == 0,
		key == "augment.erase_scale" && a.EraseScale != [2]float64{} && a.RandomErasingProb == 0:
		return "augment.random_erasing_prob, the probability of erasing"
	case key == "augment.crop_ratio" && a.CropRatio != [2]float64{} && a.CropScale == [2]float64{}:
		return "augment.crop_scale, the area of the crop"
	case key == "augment.mix_prob" && a.MixProb > 0 && a.MixupAlpha == 0 && a.CutmixAlpha == 0:
		return "augment.mixup_alpha or augment.cutmix_alpha"
	case key == "augment.switch_prob" && a.SwitchProb > 0 && (a.MixupAlpha == 0 || a.CutmixAlpha == 0):
		return "augment.mixup_alpha and augment.cutmix_alpha"
	case slices.Contains([]string{"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon"}, key) &&
		r.Optimizer.Name == "sgd":
		return "optimizer.name adamw or lamb"
	case key == "optimizer.decay_all" && r.Optimizer.DecayAll && r.Optimizer.WeightDecay == 0:
		return "optimizer.weight_decay"
	}
	switch group, is := strings.CutPrefix(key, ratesOf); {
	case !is || !slices.Contains(frozen, group):
		return ""
	case group == "lora" && r.LoRA == 0:
		return "lora, the rank of adapters"
	case r.LoRA > 0 && !slices.Contains(strings.Split(r.Freeze, ","), group):
		return "lora=0"
	default:
		return "a freeze that trains " + group
	}
}

// ratesOf is the prefix of the settings with the factor of a group's learning rate; rated are the variables, below an
// encoding's scope, of the groups that few encodings have.
const ratesOf = "optimizer.learning_rates."

var rated = map[string]string{ratesOf + "gate": "gate_raw", ratesOf + "table": position.TableName}

// readersOf lists the encodings that read a hyperparameter.
func readersOf(param string) (names []string) {
	for _, name := range position.Names() {
		if readsParam(name, param) {
			names = append(names, name)
		}
	}
	return names
}

// readsParam reports whether an encoding reads a hyperparameter, or has the variables of a setting in rated; an unknown
// one, which Validate refuses, reads all.
func readsParam(name, param string) bool {
	encoding, err := position.Parse(name)
	return err != nil || slices.Contains(encoding.Params(), param) || slices.ContainsFunc(encoding,
		func(s position.Spec) bool { return slices.Contains(s.Variables, rated[param]) })
}
