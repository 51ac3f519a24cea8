// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestSettingsWithoutEffectAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"train --position learned --set wepe_alpha_scale=0.9": "no effect with position learned: leave it out, or use one " +
			"of wepe, wepe-sphere",
		"compare --position none,learned --set wepe_alpha_scale=0.9":    "no effect with position none, learned",
		"train " + demoModel + " --data shapes --set wepe_harmonics=3":  "no effect with position learned", // the model's own
		"train --set late_mixup_alpha=0.3":                              "no effect without late_from",
		"train --set augment.erase_noise=true":                          "no effect without augment.erase_prob",
		"train --epochs 1 --set epochs=2":                               "--epochs 1 and --set epochs are two lengths",
		"train --epochs 1 --set steps=40":                               "--epochs 1 and --set steps",
		"train --size 24x24 --set augment.size=[32,32]":                 "--size 24x24 and --set augment.size",
		"compare --study gate " + demoModel + " --set lookhere_views=2": "no effect with position",
	} {
		_, code, err := invoke(t, strings.Fields(line)...)
		if code != 2 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("wepe %s: exit code %d, %v, want %q", line, code, err, want)
		}
	}
}
