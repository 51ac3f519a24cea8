// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	detection "github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/finetune"
)

func TestEveryListedSettingIsKnown(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range listSettings() {
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
	for _, name := range []string{"learning_rate", "optimizer.weight_decay", "optimizer.learning_rates.GROUP",
		"model.dtype",
		"augment.mixup_alpha", "detector.rpn.high", "wepe_alpha_scale", "lookhere_slope"} {
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
	}
}
