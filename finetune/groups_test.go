// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestFrozenGroupsKeepTheirBitsAndHaveNoState(t *testing.T) {
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
		for _, kind := range gomlxtest.InTurn(i, "adamw", engine.KindSGD) {
			trainer := begun(t, tinyRun(t, "model.position=hybrid;warmup_epochs=0;ema=0.5;accumulate=2;learning_rate=0.1;"+
				"optimizer.weight_decay=0;optimizer.kind="+kind+";freeze="+freeze, 30))
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
				group, _ := engine.GroupOf(path)
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

func TestTheTableOfGroupsCountsEveryVariableOnce(t *testing.T) {
	gomlxtest.OnGo(t)
	trainer := begun(t, tinyRun(t, "model.position=hybrid;freeze=table;optimizer.layer_decay=0.5;"+
		`optimizer.learning_rates={"head":10,"gate":3}`, 30))
	if err := trainer.Advance(); err != nil {
		t.Fatal(err)
	}
	line, numbers := trainer.model.groupsLine(), 0
	for _, found := range regexp.MustCompile(`(\d+) numbers`).FindAllStringSubmatch(line, -1) {
		numbers += gomlxtest.Must(strconv.Atoi(found[1]))(t)
	}
	if want := trainer.Recipe.Model.Parameters(); numbers != want {
		t.Errorf("the groups have %d numbers, the model %d parameters", numbers, want)
	}
	// By hand: width 12, depth 2, MLP 20, patches of 2·2·3, 7 classes, 6 patches and a class token.
	want := regexp.MustCompile(`^weights ×1 \(13 variables, 2256 numbers, decay 0.05\), ` + // 12·12 + 2·(4·144 + 2·240)
		`vectors ×1 \(24 variables, 304 numbers\), ` + // 12 + 12 + 2·(4·12 + 4·12 + 32) + 2·12
		`table frozen \(1 variables, 84 numbers\), ` + // 7·12
		`position ×1 \(.*\), gate ×3 \(1 variables, 1 numbers\), ` +
		`head ×10 \(2 variables, 91 numbers, decay 0.05\), ` + // 12·7 + 7
		`each layer ×0.5 of the one above$`)
	if !want.MatchString(line) {
		t.Errorf("%s, want %s", line, want)
	}
}
