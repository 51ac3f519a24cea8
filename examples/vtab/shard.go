// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// shard is the part of a study that one machine does: unit k belongs to shard k mod of.
type shard struct{ index, of int }

func (s shard) has(k int) bool { return k%s.of == s.index }

// record is the name of the file that this shard's rows go to. Shards on a shared disk each have their own: appending
// to one file from several machines is not atomic on every network file system.
func (s shard) record() string {
	if s.of == 1 {
		return "results.jsonl"
	}
	return fmt.Sprintf("results-%d-of-%d.jsonl", s.index, s.of)
}

// records matches what record returns.
const records = "results*.jsonl"

// parseShard reads "i/n", 0 ≤ i < n.
func parseShard(text string) (shard, error) {
	i, n, ok := strings.Cut(text, "/")
	index, errIndex := strconv.Atoi(i)
	of, errOf := strconv.Atoi(n)
	if !ok || errIndex != nil || errOf != nil || index < 0 || of < 1 || index >= of {
		return shard{}, fmt.Errorf("-shard is %q, want i/n with 0 <= i < n, as 0/4 to 3/4", text)
	}
	return shard{index, of}, nil
}

// scheduledShard reads which part of an array of jobs this process is from what the scheduler says: of an indexed job
// of Kubernetes, where completions is their number, or of a job array of Slurm. Outside both it is the whole.
func scheduledShard(lookup func(string) (string, bool), completions int) (shard, error) {
	number := func(name string) (int, error) {
		text, _ := lookup(name)
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%s is %q, want a whole number: give -shard i/n", name, text)
		}
		return n, nil
	}
	if _, ok := lookup("JOB_COMPLETION_INDEX"); ok {
		index, err := number("JOB_COMPLETION_INDEX")
		if err != nil {
			return shard{}, err
		}
		if _, ok := lookup("JOB_COMPLETIONS"); ok && completions == 0 {
			if completions, err = number("JOB_COMPLETIONS"); err != nil {
				return shard{}, err
			}
		}
		if completions < 1 {
			return shard{}, fmt.Errorf("JOB_COMPLETION_INDEX is %d, but of how many: give -completions or JOB_COMPLETIONS, "+
				"the completions of the job", index)
		}
		if index < 0 || index >= completions {
			return shard{}, fmt.Errorf("JOB_COMPLETION_INDEX is %d, want 0 to %d of %d completions", index, completions-1,
				completions)
		}
		return shard{index, completions}, nil
	}
	if _, ok := lookup("SLURM_ARRAY_TASK_ID"); !ok {
		return shard{0, 1}, nil
	}
	var id, first, last, count int
	step := 1
	for _, v := range []struct {
		name  string
		value *int
	}{{"SLURM_ARRAY_TASK_ID", &id}, {"SLURM_ARRAY_TASK_MIN", &first}, {"SLURM_ARRAY_TASK_MAX", &last},
		{"SLURM_ARRAY_TASK_COUNT", &count}, {"SLURM_ARRAY_TASK_STEP", &step}} {
		if _, ok := lookup(v.name); !ok && v.name == "SLURM_ARRAY_TASK_STEP" {
			continue // older versions do not say; 1 is right unless the next check complains
		}
		var err error
		if *v.value, err = number(v.name); err != nil {
			return shard{}, err
		}
	}
	if step < 1 || count < 1 || (last-first)/step+1 != count || (id-first)%step != 0 || id < first || id > last {
		return shard{}, fmt.Errorf("the job array has task %d of %d from %d to %d, which is no regular range: give "+
			"-shard i/n", id, count, first, last)
	}
	return shard{(id - first) / step, count}, nil
}
