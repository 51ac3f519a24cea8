// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestFreeze_KeepsBitsAndHasNoState(t *testing.T) {
	gomlxtest.OnGo(t)
	for i, test := range []struct {
		freeze  string
		trained []string
	}{
		{"", []string{"weights", "vectors", "table", "position", "gate", "head"}},
		{"backbone,position,gate", []string{"head"}}, // the linear probe
		{"backbone", []string{"position", "gate", "head"}},
		{"table", []string{"weights", "vectors", "position", "gate", "head"}},
		{" head , gate", []string{"weights", "vectors", "table", "position"}},
		{"weights,vectors,head", []string{"table", "position", "gate"}},
	} {
		freeze, trained := test.freeze, test.trained
		for _, kind := range gomlxtest.InTurn(i, "adamw", "sgd") {
			trainer := begun(t, tinyRun(t, "model.position=hybrid;warmup_epochs=0;ema_decay=0.5;"+
				"grad_accum_steps=2;learning_rate=0.1;"+
				"optimizer.weight_decay=0;optimizer.name="+kind+";freeze="+freeze, 30))
			store := trainer.model.store
			// The initial weights are drawn while the first program is compiled; an evaluation comes first.
			if _, err := trainer.model.Evaluate(dataset(5, 2)); err != nil {
				t.Fatal(err)
			}
			before := map[string][]byte{}
			for v := range store.IterVariables() {
				before[v.Path()] = rawBytes(t, v.MustValue())
			}
			advanced(t, trainer, 3)
			moved := map[string]bool{}
			for path, old := range before {
				if !strings.HasPrefix(path, "/vit/") {
					continue
				}
				v := store.GetVariable(path)
				group := groupOf(path)
				same := bytes.Equal(old, rawBytes(t, v.MustValue()))
				moved[group] = moved[group] || !same
				state := []string{"/adamw/first", "/adamw/second", "/sgd/momentum", engine.AverageRoot, "/accumulated"}
				has := slices.ContainsFunc(state, func(root string) bool { return store.GetVariable(root+path) != nil })
				trains := slices.Contains(trained, group) && v.Trainable
				if !trains && !same || has != trains {
					t.Errorf("freeze %q, %s: %s: unchanged: %v, has state: %v", freeze, kind, path, same, has)
				}
			}
			for _, group := range trained {
				if !moved[group] {
					t.Errorf("freeze %q, %s: nothing of %s moved", freeze, kind, group)
				}
			}
		}
	}
}

// groupOf tells the group of a variable by the factor of its learning rate.
func groupOf(variable string) string {
	rates := map[string]float64{"weights": 2, "vectors": 3, "table": 5, "position": 7, "gate": 11, "head": 13, "lora": 17}
	factor := engine.Optimizer{LearningRates: rates}.Factor(variable, 0)
	for group, rate := range rates {
		if rate == factor {
			return group
		}
	}
	return ""
}
