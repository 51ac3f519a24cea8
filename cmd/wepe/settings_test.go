// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"train --position learned --set wepe_alpha_scale=0.9": "no effect with position learned: leave it out, or use one " +
			"of wepe, wepe-sum",
		"compare --position none,learned --set wepe_alpha_scale=0.9": "no effect with position none, learned",
		// the model's own
		"train " + demoModel + " --data shapes --set wepe_harmonics=3": "no effect with position learned",
		"train --set wepe_beta_pos=0.02":                               "no effect with position wepe-v",
		"train --position wepe --set wepe_gate=0.5": "no effect with position wepe: leave " +
			"it out, or use",
		"train --position wepe-bias --set wepe_shift=0.5": "no effect with position wepe-bias",
		"train --set validation_part=0": "validation_part = 0 would be the " +
			"default: -1",
		"train --set optimizer.kind=sgd --set optimizer.momentum=0": "optimizer.momentum = 0 would be the " +
			"default: 0.9",
		"train --set augment.mixup_alpha=1 --set augment.mix_prob=0": "leave out mixup_alpha",
		"train --set freeze=foo":                                     "unknown group \"foo\"",
		"train --set augment.policy=rand":                            "policy \"rand\": use for example rand-m9",
		"train --show-augmentation a.jpg":                            "ends in .png",
		"detect train --set validation_part=0.3":                     "have their own validation split",
		"detect train --data coco:x --objects 1": "--objects has no effect with --data " +
			"coco:x",
		"detect train --position wepe,wepe":        "names wepe twice",
		"detect train --write x --seeds 3":         "--seeds has no effect with --write",
		"analyze --position wepe,learned":          "--position is for --what cost",
		"analyze --what cost --limit 3":            "--limit has no effect with --what cost",
		"analyze --what cost " + demoModel:         "leave out " + demoModel,
		"verify " + demoModel + " --images 3":      "--images has no effect with one model",
		"features " + demoModel + " --probe --k 3": "--k has no effect without --knn",
		"features " + demoModel + " --pca --temperature 1": "--temperature has no effect without " +
			"--knn",
		"features " + demoModel + " --knn --shown 3": "--shown has no effect without " +
			"--nearest or --pca",
		"features " + demoModel + " --nearest --foreground": "--foreground has no effect without --pca",
		"train --set late_mixup_alpha=0.3":                  "no effect without late_from",
		"train --set augment.erase_noise=true":              "no effect without augment.erase_prob",
		"train --epochs 1 --set epochs=2": "--epochs 1 and --set epochs are two " +
			"lengths",
		"train --epochs 1 --set steps=40":                                         "--epochs 1 and --set steps",
		"train --size 24x24 --set augment.size=[32,32]":                           "--size 24x24 and --set augment.size",
		"compare --study gate " + demoModel + " --set lookhere_views=halves-none": "no effect with position",
	} {
		_, code, err := invoke(t, strings.Fields(line)...)
		if code != 2 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("wepe %s: exit code %d, %v, want %q", line, code, err, want)
		}
	}
}
