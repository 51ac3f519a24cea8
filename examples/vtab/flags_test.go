// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestTheReleaseHasItsOwnSettingsForThreeTasks(t *testing.T) {
	o, err := parse([]string{"-recipe", "release", "-set", "model.drop_path=0.125", "-plan"})
	if err != nil {
		t.Fatal(err)
	}
	// Rates of the backbone and images of a step in the released scripts at commit 3c27aecd.
	want := map[string]struct {
		rate  float64
		batch int
	}{"svhn": {2e-5, 16}, "resisc45": {1.5e-5, 12}, "dmlab": {1.2e-5, 12}}
	for i, task := range o.tasks {
		r, w := o.study.Tasks[i].Recipe, want[task.name]
		if r.LearningRate != w.rate || r.BatchSize != w.batch || r.Model.DropPath != 0.125 || r.ValidationPart != -1 {
			t.Errorf("%s: rate %g, batch %d, drop path %g, validation part %g", task.name, r.LearningRate, r.BatchSize,
				r.Model.DropPath, r.ValidationPart)
		}
	}
	if len(o.tasks) != len(want) || len(o.study.Tasks) != len(want) {
		t.Errorf("%d tasks with %d recipes, want %d", len(o.tasks), len(o.study.Tasks), len(want))
	}
}

func TestTheDefaultIsTheProtocolOfTheViTPaper(t *testing.T) {
	o, err := parse([]string{"-data", "d", "-from", "f"})
	if err != nil {
		t.Fatal(err)
	}
	// Dosovitskiy et al. 2021, table 4 and B.1.1.
	r := o.study.Tasks[16].Recipe // all have the same
	if r.Steps != 2500 || r.BatchSize != 512 || r.LearningRate != 0.01 || r.Optimizer.Momentum != 0.9 ||
		r.Optimizer.WeightDecay != 0 || r.Optimizer.ClipNorm != 1 || r.Augment.Size != [2]int{384, 384} || !r.ZeroHead {
		t.Errorf("recipe %+v", r)
	}
	if len(o.tasks) != 19 || len(o.study.Tasks) != 19 || o.study.Shard.String() != "0/1" {
		t.Errorf("%d tasks, %d recipes, shard %v", len(o.tasks), len(o.study.Tasks), o.study.Shard)
	}
	t.Setenv("JOB_COMPLETION_INDEX", "2")
	t.Setenv("JOB_COMPLETIONS", "5")
	for args, want := range map[string]string{"-plan": "2/5", "-plan -shard 1/3": "1/3"} {
		if o, err = parse(strings.Fields(args)); err != nil || o.study.Shard.String() != want {
			t.Errorf("%s: shard %v, %v, want %s", args, o.study.Shard, err, want)
		}
	}
}
