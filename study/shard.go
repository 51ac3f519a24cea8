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

// text is "i/n", as ParseShard reads it.
func (s Shard) text() string { return fmt.Sprintf("%d/%d", s.Index, s.of()) }

// ParseShard reads "i/n", 0 ≤ i < n. "" takes the part from the scheduler's environment variables, which lookup reads:
// of an indexed job of Kubernetes, where completions is the number of parts, or of a job array of Slurm; outside both
// it is the whole study.
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

func scheduled(lookup func(string) (string, bool), completions int) (Shard, error) {
	var wrong error
	number := func(name string, otherwise int) int {
		text, ok := lookup(name)
		if !ok {
			return otherwise
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			wrong = fmt.Errorf("%s is %q, want a whole number: give the shard, i/n", name, text)
		}
		return n
	}
	if completions < 0 {
		return Shard{}, fmt.Errorf("completions are %d, want 1 or more", completions)
	}
	if _, ok := lookup("JOB_COMPLETION_INDEX"); ok {
		index := number("JOB_COMPLETION_INDEX", 0)
		if completions == 0 {
			completions = number("JOB_COMPLETIONS", 0)
		}
		if wrong == nil && (index < 0 || index >= completions) {
			wrong = fmt.Errorf("JOB_COMPLETION_INDEX is %d of %d completions: give their number, or set JOB_COMPLETIONS",
				index, completions)
		}
		return Shard{index, completions}, wrong
	}
	if _, ok := lookup("SLURM_ARRAY_TASK_ID"); !ok {
		return Shard{0, 1}, nil
	}
	slurm := func(name string, otherwise int) int { return number("SLURM_ARRAY_TASK_"+name, otherwise) }
	id, first, last, count := slurm("ID", 0), slurm("MIN", 0), slurm("MAX", 0), slurm("COUNT", 0)
	step := slurm("STEP", 1) // older versions lack it; a range with another is then not regular
	switch {
	case wrong != nil:
		return Shard{}, wrong
	case step < 1 || (last-first)/step+1 != count || (id-first)%step != 0 || id < first || id > last:
		return Shard{}, fmt.Errorf("the job array has task %d of %d from %d to %d, which is not a regular range: give "+
			"the shard, i/n", id, count, first, last)
	}
	return Shard{(id - first) / step, count}, nil
}
