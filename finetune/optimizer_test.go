// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

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
		"steps": {"epochs=0;warmup_epochs=0;steps=10;warmup_steps=4;eval_every_steps=3", 9, 10, 4, []int{3, 6, 9, 10}},
	} {
		trainer := begun(t, tinyRun(t, c.settings+";learning_rate=0.2;val_fraction=-1", c.images))
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
