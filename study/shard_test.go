// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"strings"
	"testing"
)

func TestParseShard_ComesFromTheSchedulerOrIsRefused(t *testing.T) {
	irregular := "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_ID="
	for _, c := range []struct {
		environment string
		completions int
		want        string // "" is an error
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

		{"JOB_COMPLETION_INDEX=4", 0, ""}, {"JOB_COMPLETION_INDEX=4", 4, ""}, {"", -3, ""},
		{"JOB_COMPLETION_INDEX=-1", 4, ""}, {"JOB_COMPLETION_INDEX=two", 4, ""},
		{"JOB_COMPLETION_INDEX=1 JOB_COMPLETIONS=many", 0, ""}, {"SLURM_ARRAY_TASK_ID=3", 0, ""},
		{irregular + "3", 0, ""},                         // --array=1,3,7
		{irregular + "3 SLURM_ARRAY_TASK_STEP=3", 0, ""}, // not 1, 4 or 7
		{irregular + "4 SLURM_ARRAY_TASK_STEP=0", 0, ""},
	} {
		lookup := func(name string) (string, bool) {
			for _, pair := range strings.Fields(c.environment) {
				if is, value, _ := strings.Cut(pair, "="); is == name {
					return value, true
				}
			}
			return "", false
		}
		if s, err := ParseShard("", lookup, c.completions); (err != nil) != (c.want == "") || err == nil &&
			s.text() != c.want {
			t.Errorf("%s: %v, %v, want %q", c.environment, s, err, c.want)
		}
	}
	for text, want := range map[string]Shard{"0/1": {0, 1}, "3/4": {3, 4}, "3": {}, "3/3": {}, "-1/3": {}, "0/0": {},
		"1/": {}, "/2": {}, "1/2/3": {}, "a/b": {}, "0/99999999999999999999": {}} {
		if s, err := ParseShard(text, nil, 0); (err != nil) != (want == Shard{}) || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for want, s := range map[string]Shard{"results.jsonl": {}, "results-2-of-5.jsonl": {2, 5},
		"results-0-of-2.jsonl": {0, 2}} {
		if got := recordOf(s); got != want {
			t.Errorf("%v: the record is %s, want %s", s, got, want)
		}
	}
}
