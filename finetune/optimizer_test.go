// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

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
		{`position/(grid2d/(table|prefix)|(rope_mixed|liere)/block_00/(frequencies|generators))`, "position", false, 2},
		{`position/factorized/(rows|cols)`, "position", false, 2},
		{`position/relative_table/block_00/scores`, "position", false, 2},
		{`position/cpe/block_00/(kernel|bias)`, "position", false, 2},
		{`position/wepe_(qkv|v)/wepe_field_sphere/(omega3_raw|alpha_scale_raw)`, "position", false, 2},
		{`position/(wepe|fourier)_(qkv|v)/block_00/(query|key|value)`, "position", false, 2},
	}
	used := make([]bool, len(of))
	for _, name := range gomlxtest.Encodings(position.Names()) {
		trainer := begun(t, tinyRun(t, "model.depth=1;model.patch_norm=true;model.position="+name, 30))
		advanced(t, trainer, 1)
		for v := range trainer.model.variables() {
			path := v.Path()
			if !v.Trainable {
				continue
			}
			group, decays := engine.GroupOf(path)
			patterns := 0
			for i, m := range of {
				if !regexp.MustCompile(`^/vit/(` + m.pattern + `)$`).MatchString(path) {
					continue
				}
				used[i] = true
				patterns++
				if group != m.group || decays != m.decays || engine.LayerOf(path, 1) != m.layer {
					t.Errorf("%s: %s is in %s, decays: %v, layer %d, want %+v", name, path, group, decays, engine.LayerOf(path, 1), m)
				}
			}
			if patterns != 1 {
				t.Errorf("%s: %d patterns for %s, want one", name, patterns, path)
			}
			if trainer.model.store.GetVariable("/adamw/first"+path) == nil {
				t.Errorf("%s: %s is not optimized", name, path)
			}
		}
	}
	for i, m := range of {
		if !used[i] && !gomlxtest.OnXLA() {
			t.Errorf("no variable is %s", m.pattern)
		}
	}
}

func TestSchedule_CountsOptimizerSteps(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, c := range map[string]struct {
		settings              string
		images, steps, warmup int
		evaluated             []int
	}{
		// 31 images in batches of 6 are 5 steps an epoch and 20 in all; round(1.5·5) = 8 of them warm up.
		"epochs": {"epochs=4;warmup_epochs=1.5", 31, 20, 8, []int{5, 10, 15, 20}},
		// 9 images are one batch per epoch, drawn anew each time; an incomplete batch is dropped.
		"steps": {"epochs=0;warmup_epochs=0;steps=10;warmup_steps=4;eval_steps=3", 9, 10, 4, []int{3, 6, 9, 10}},
	} {
		trainer := begun(t, tinyRun(t, c.settings+";learning_rate=0.2;validation_part=-1", c.images))
		batches, evaluated := map[string]bool{}, []int(nil)
		trainer.Training.Progress = func(p engine.Progress) {
			if p.Eval != nil {
				evaluated = append(evaluated, p.Step)
			}
		}
		for step := range c.steps {
			want := engine.Schedule{Peak: 0.2, Warmup: c.warmup, Steps: c.steps}.At(step)
			if got := trainer.Optimizer.Schedule.At(step); got != want {
				t.Errorf("%s: rate %g at step %d, want %g", name, got, step, want)
			}
			advanced(t, trainer, 1)
			_, _, seen := trainer.order.At(step - step%trainer.PerPass)
			batch := slices.Clone(seen)
			slices.Sort(batch)
			batches[fmt.Sprint(batch)] = true
		}
		if trainer.Step() != trainer.Steps || !slices.Equal(evaluated, c.evaluated) {
			t.Errorf("%s: %d steps of %d, evaluated after %v", name, trainer.Step(), trainer.Steps, evaluated)
		}
		if name == "steps" && len(batches) < 5 {
			t.Errorf("%d different batches in 10 epochs of one", len(batches))
		}
	}
}
