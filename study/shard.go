// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"strconv"
	"strings"
)

// Shard is the part of a study that one machine runs: unit k belongs to the shard with index k mod Of. The zero value
// is the whole study.
type Shard struct{ Index, Of int }

func (s Shard) of() int { return max(1, s.Of) }

// String returns "i/n", as ParseShard reads it.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.of()) }

// ParseShard reads "i/n", 0 ≤ i < n. "" takes the part from the scheduler's environment variables, which lookup reads.
func ParseShard(text string, lookup func(string) (string, bool), completions int) (Shard, error) {
	if text == "" {
		return scheduled(lookup, completions)
	}
	i, n, _ := strings.Cut(text, "/")
	index, errIndex := strconv.Atoi(i)
	of, errOf := strconv.Atoi(n)
	if errIndex != nil || errOf != nil || index < 0 || index >= of {
		return Shard{}, fmt.Errorf("shard %q: want i/n with 0 <= i < n, as 0/4 to 3/4", text)
	}
	return Shard{index, of}, nil
}

// scheduled reads from the scheduler's variables which part of a job array this process is: of an indexed job of
// Kubernetes, where completions is the number of parts, or of a job array of Slurm. Outside both it is the whole study.
func scheduled(lookup func(string) (string, bool), completions int) (Shard, error) {
	number := func(name string) (int, error) {
		text, _ := lookup(name)
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%s is %q, want a whole number: give the shard, i/n", name, text)
		}
		return n, nil
	}
	if completions < 0 {
		return Shard{}, fmt.Errorf("completions are %d, want 1 or more", completions)
	}
	if _, ok := lookup("JOB_COMPLETION_INDEX"); ok {
		index, err := number("JOB_COMPLETION_INDEX")
		if err != nil {
			return Shard{}, err
		}
		if _, ok := lookup("JOB_COMPLETIONS"); ok && completions == 0 {
			if completions, err = number("JOB_COMPLETIONS"); err != nil {
				return Shard{}, err
			}
		}
		if completions < 1 {
			return Shard{}, fmt.Errorf("JOB_COMPLETION_INDEX is %d, but the number of completions is unknown: "+
				"give it, or set JOB_COMPLETIONS", index)
		}
		if index < 0 || index >= completions {
			return Shard{}, fmt.Errorf("JOB_COMPLETION_INDEX is %d, want 0 to %d of %d completions", index, completions-1,
				completions)
		}
		return Shard{index, completions}, nil
	}
	if _, ok := lookup("SLURM_ARRAY_TASK_ID"); !ok {
		return Shard{0, 1}, nil
	}
	var id, first, last, count int
	step := 1
	for _, v := range []struct {
		name  string
		value *int
	}{{"SLURM_ARRAY_TASK_ID", &id}, {"SLURM_ARRAY_TASK_MIN", &first}, {"SLURM_ARRAY_TASK_MAX", &last},
		{"SLURM_ARRAY_TASK_COUNT", &count}, {"SLURM_ARRAY_TASK_STEP", &step}} {
		if _, ok := lookup(v.name); !ok && v.name == "SLURM_ARRAY_TASK_STEP" {
			continue // missing in older versions; the next check finds a step other than 1
		}
		var err error
		if *v.value, err = number(v.name); err != nil {
			return Shard{}, err
		}
	}
	if step < 1 || (last-first)/step+1 != count || (id-first)%step != 0 || id < first || id > last {
		return Shard{}, fmt.Errorf("the job array has task %d of %d from %d to %d, which is not a regular range: give "+
			"the shard, i/n", id, count, first, last)
	}
	return Shard{(id - first) / step, count}, nil
}
