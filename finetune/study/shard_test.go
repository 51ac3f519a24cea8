// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"strings"
	"testing"
)

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

func TestAShardComesFromTheScheduler(t *testing.T) {
	for _, c := range []struct {
		name, environment string
		completions       int
		want              Shard
	}{
		{"no scheduler", "SLURM_JOB_ID=17 JOB_COMPLETIONS=3", 0, Shard{0, 1}},
		{"sbatch --array=0-6, its last task", "SLURM_ARRAY_TASK_ID=6 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=6 " +
			"SLURM_ARRAY_TASK_COUNT=7 SLURM_ARRAY_TASK_STEP=1", 0, Shard{6, 7}},
		{"sbatch --array=1-5", "SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=5 " +
			"SLURM_ARRAY_TASK_COUNT=5", 0, Shard{1, 5}},
		{"sbatch --array=2-13:4: 2, 6 and 10", "SLURM_ARRAY_TASK_ID=6 SLURM_ARRAY_TASK_MIN=2 SLURM_ARRAY_TASK_MAX=13 " +
			"SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_STEP=4", 0, Shard{1, 3}},
		{"Kubernetes", "JOB_COMPLETION_INDEX=4", 11, Shard{4, 11}},
		{"Kubernetes, by environment", "JOB_COMPLETION_INDEX=0 JOB_COMPLETIONS=3", 0, Shard{0, 3}},
		{"the flag before the environment", "JOB_COMPLETION_INDEX=4 JOB_COMPLETIONS=3", 5, Shard{4, 5}},
	} {
		got, err := ParseShard("", environment(c.environment), c.completions)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestASchedulerThatLeavesTheShardOpenIsRefused(t *testing.T) {
	slurm := "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_ID="
	for _, c := range []struct {
		environment string
		completions int
		wants       []string
	}{
		{"JOB_COMPLETION_INDEX=4", 0, []string{"JOB_COMPLETION_INDEX is 4", "completions", "JOB_COMPLETIONS"}},
		{"JOB_COMPLETION_INDEX=4", 4, []string{"0 to 3"}},
		{"", -3, []string{"completions are -3"}},
		{"JOB_COMPLETION_INDEX=-1", 4, []string{"-1", "0 to 3"}},
		{"JOB_COMPLETION_INDEX=two", 4, []string{`JOB_COMPLETION_INDEX is "two"`}},
		{"JOB_COMPLETION_INDEX=1 JOB_COMPLETIONS=many", 0, []string{`JOB_COMPLETIONS is "many"`}},
		{"SLURM_ARRAY_TASK_ID=3", 0, []string{"SLURM_ARRAY_TASK_MIN", "shard"}},
		{slurm + "3", 0, []string{"3 of 3 from 1 to 7", "shard"}},                         // --array=1,3,7
		{slurm + "3 SLURM_ARRAY_TASK_STEP=3", 0, []string{"3 of 3 from 1 to 7", "shard"}}, // not 1, 4 or 7
		{slurm + "4 SLURM_ARRAY_TASK_STEP=0", 0, []string{"4 of 3 from 1 to 7", "shard"}},
	} {
		_, err := ParseShard("", environment(c.environment), c.completions)
		if err == nil {
			t.Errorf("%s: accepted", c.environment)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error lacks %q: %v", c.environment, want, err)
			}
		}
	}
	for _, text := range []string{"3", "3/3", "-1/3", "0/0", "1/", "/2", "1/2/3", "a/b"} {
		if s, err := ParseShard(text, nil, 0); err == nil {
			t.Errorf("-shard %s: accepted as %v", text, s)
		}
	}
}
