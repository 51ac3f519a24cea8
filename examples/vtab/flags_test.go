// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/wepe-go/wepe/examples/internal/shard"
)

func TestTheReleaseHasItsOwnSettingsForThreeTasks(t *testing.T) {
	o, err := parse([]string{"-recipe", "release", "-set", "model.drop_path=0.125", "-plan"}, environment(""))
	if err != nil {
		t.Fatal(err)
	}
	// Rates of the backbone and images of a step in the released scripts at commit 3c27aecd.
	want := map[string]struct {
		rate  float64
		batch int
	}{"svhn": {2e-5, 16}, "resisc45": {1.5e-5, 12}, "dmlab": {1.2e-5, 12}}
	for _, task := range o.tasks {
		r, w := o.recipes[task.name], want[task.name]
		if r.LearningRate != w.rate || r.BatchSize != w.batch || r.Model.DropPath != 0.125 || r.ValidationPart != -1 {
			t.Errorf("%s: rate %g, batch %d, drop path %g, validation part %g", task.name, r.LearningRate, r.BatchSize,
				r.Model.DropPath, r.ValidationPart)
		}
	}
	if len(o.tasks) != len(want) || len(o.recipes) != len(want) {
		t.Errorf("%d tasks with %d recipes, want %d", len(o.tasks), len(o.recipes), len(want))
	}
}

func TestTheDefaultIsTheProtocolOfTheViTPaper(t *testing.T) {
	o, err := parse([]string{"-data", "d", "-from", "f"}, environment(""))
	if err != nil {
		t.Fatal(err)
	}
	// Dosovitskiy et al. 2021, table 4 and B.1.1.
	r := o.recipes["kitti"]
	if r.Steps != 2500 || r.BatchSize != 512 || r.LearningRate != 0.01 || r.Optimizer.Momentum != 0.9 ||
		r.Optimizer.WeightDecay != 0 || r.Optimizer.ClipNorm != 1 || r.Augment.Size != [2]int{384, 384} || !r.ZeroHead {
		t.Errorf("recipe %+v", r)
	}
	if len(o.tasks) != 19 || len(o.recipes) != 19 || o.shard.Of != 1 {
		t.Errorf("%d tasks, %d recipes, shard %v", len(o.tasks), len(o.recipes), o.shard)
	}
	pod := environment("JOB_COMPLETION_INDEX=2 JOB_COMPLETIONS=5")
	if o, err = parse([]string{"-plan"}, pod); err != nil || o.shard != (shard.Shard{Index: 2, Of: 5}) {
		t.Errorf("shard %v, %v", o.shard, err)
	}
	if o, err = parse([]string{"-plan", "-shard", "1/3"}, pod); err != nil || o.shard != (shard.Shard{Index: 1, Of: 3}) {
		t.Errorf("shard %v, %v", o.shard, err)
	}
}

// environment is one with the given variables, "name=value name=value".
func environment(text string) func(string) (string, bool) {
	values := map[string]string{}
	for _, pair := range strings.Fields(text) {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}
