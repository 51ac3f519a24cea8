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

func TestAShardComesFromTheSchedulerOrIsRefused(t *testing.T) {
	irregular := "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_ID="
	for _, c := range []struct {
		environment string
		completions int
		want        string // the shard, or words of the error, separated by bars
	}{
		{"SLURM_JOB_ID=17 JOB_COMPLETIONS=3", 0, "0/1"}, // no array, no indexed job
		// sbatch --array=0-6, its last task; --array=1-5; --array=2-13:4, which is 2, 6 and 10; --array=1-9:4.
		{"SLURM_ARRAY_TASK_ID=6 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=6 SLURM_ARRAY_TASK_COUNT=7 " +
			"SLURM_ARRAY_TASK_STEP=1", 0, "6/7"},
		{"SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=5 SLURM_ARRAY_TASK_COUNT=5", 0, "1/5"},
		{"SLURM_ARRAY_TASK_ID=6 SLURM_ARRAY_TASK_MIN=2 SLURM_ARRAY_TASK_MAX=13 SLURM_ARRAY_TASK_COUNT=3 " +
			"SLURM_ARRAY_TASK_STEP=4", 0, "1/3"},
		{"SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=9 SLURM_ARRAY_TASK_COUNT=3 " +
			"SLURM_ARRAY_TASK_STEP=4", 0, "1/3"},
		{"JOB_COMPLETION_INDEX=4", 11, "4/11"},
		{"JOB_COMPLETION_INDEX=0", 1, "0/1"},
		{"JOB_COMPLETION_INDEX=0 JOB_COMPLETIONS=3", 0, "0/3"},
		{"JOB_COMPLETION_INDEX=4 JOB_COMPLETIONS=3", 5, "4/5"}, // the flag before the environment

		{"JOB_COMPLETION_INDEX=4", 0, "JOB_COMPLETION_INDEX is 4|completions|JOB_COMPLETIONS"},
		{"JOB_COMPLETION_INDEX=4", 4, "0 to 3"},
		{"", -3, "completions are -3"},
		{"JOB_COMPLETION_INDEX=-1", 4, "-1|0 to 3"},
		{"JOB_COMPLETION_INDEX=two", 4, `JOB_COMPLETION_INDEX is "two"`},
		{"JOB_COMPLETION_INDEX=1 JOB_COMPLETIONS=many", 0, `JOB_COMPLETIONS is "many"`},
		{"SLURM_ARRAY_TASK_ID=3", 0, "SLURM_ARRAY_TASK_MIN|shard"},
		{irregular + "3", 0, "3 of 3 from 1 to 7|shard"},                         // --array=1,3,7
		{irregular + "3 SLURM_ARRAY_TASK_STEP=3", 0, "3 of 3 from 1 to 7|shard"}, // not 1, 4 or 7
		{irregular + "4 SLURM_ARRAY_TASK_STEP=0", 0, "4 of 3 from 1 to 7|shard"},
	} {
		s, err := ParseShard("", environment(c.environment), c.completions)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		for _, want := range strings.Split(c.want, "|") {
			if (err == nil) != strings.Contains(c.want, "/") || !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", c.environment, got, want)
			}
		}
	}
	for text, want := range map[string]Shard{"0/1": {0, 1}, "3/4": {3, 4}} {
		if s, err := ParseShard(text, environment(""), 0); err != nil || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"3", "3/3", "-1/3", "0/0", "1/", "/2", "1/2/3", "a/b", "0/99999999999999999999"} {
		if s, err := ParseShard(text, nil, 0); err == nil {
			t.Errorf("-shard %s: accepted as %v", text, s)
		}
	}
}
