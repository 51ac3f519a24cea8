// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	detection "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/setting"
)

// DeiT's settings (https://arxiv.org/abs/2012.12877, table 9) and those of detectron2's FastRCNNOutputLayers.
func TestValuesOf_ARecipe(t *testing.T) {
	for recipe, want := range map[string]map[string]string{
		"scratch": {"model.width": "384", "optimizer.weight_decay": "0.05", "label_smoothing": "0.1"},
		"scenes":  {"detector.roi.score_threshold": "0.05"},
	} {
		values, err := valuesOf(recipe, listSettings())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range values {
			if value, ok := want[e.Name]; ok && e.Value == value {
				delete(want, e.Name)
			}
		}
		if len(want) > 0 {
			t.Errorf("recipe %s lacks %v", recipe, want)
		}
	}
	if _, err := valuesOf("scrath", nil); !errors.As(err, new(*setting.UnknownError)) {
		t.Errorf("an unknown recipe: %v", err)
	}
}

// The meaning comes from the comment of the field; a field without a comment has none.
func TestSettings_AreKnownAndHaveAMeaning(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range listSettings() {
		if meaning, _, _ := strings.Cut(e.About, ";"); len(meaning) < 2 {
			t.Errorf("%s: %q", e.Name, e.About)
		}
		listed[e.Name] = true
		name := strings.Replace(e.Name, "GROUP", "head", 1)
		_, err := (finetune.Recipe{}).Set(name + "=1")
		if strings.HasSuffix(e.About, "for wepe detect train") {
			_, err = (detection.Recipe{}).Set(name + "=1")
		}
		if err != nil && strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	for name := range strings.FieldsSeq(`learning_rate optimizer.weight_decay optimizer.learning_rates.GROUP model.dtype
		augment.mixup_alpha wepe_alpha_scale lookhere_views

		label_smoothing grad_accum_steps ema_decay optimizer.name val_fraction eval_every_epochs eval_every_steps
		interpolation mixup_switch_epoch wepe_pole_value augment.grayscale_prob augment.random_erasing_prob augment.hflip
		augment.vflip augment.repeated_aug augment.interpolation lr_milestones scale_jitter.low
		detector.roi.max_detections detector.roi.score_threshold detector.roi.nms_iou detector.rpn.nms_iou
		detector.rpn.neg_iou detector.rpn.pos_iou`) { // the second part is renamed in package setting
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"train --recipe ":        "cifar100-15",
		"detect train --recipe ": "scenes",
		"analyze --analyses ":    "similarity",
		"train --position ":      "wepe-v",
		"export a b --to ":       "native",
	} {
		if text := succeeds(t, append([]string{"__complete"}, strings.Split(line, " ")...)...); !strings.Contains(
			"\n"+text, "\n"+want+"\n") {
			t.Errorf("%sTAB gives\n%s", line, text)
		}
	}
}

// The modules are those that the Go tool put into this program.
func TestLicenses(t *testing.T) {
	out := succeeds(t, "licenses")
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if !strings.Contains(out, m.Path+" "+m.Version+"\n") {
			t.Errorf("%s is not listed", m.Path)
		}
	}
}
