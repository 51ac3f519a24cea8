// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

// Scratch is the RunIdentity.From of a training that starts from random weights.
const Scratch = "none"

// RunIdentity is what makes two trainings the same run: only then one continues the checkpoints, the record and the
// description that the other left in a directory. Other facts that one of the two lacks, as those of older versions
// may, do not count. It is compared twice: by a command with run.json, before it opens the data (run.Claim in
// cmd/wepe), and by Trainer.resume with a checkpoint (state.identity) or rows alone (identityOf).
type RunIdentity struct {
	Recipe  any               // complete; compared setting by setting, and one that is missing is "unset"
	Seed    int64             // of weights, order and augmentation
	From    string            // SHA-256 of the weights that the training starts from, or Scratch
	Dataset string            // its name
	Data    string            // fingerprint of the training images or of their files
	Other   map[string]string // further facts of a task, by name
}

// OtherRunError means that a directory holds another run than the one to be trained.
type OtherRunError struct {
	Dir string // or a checkpoint in it
	// Field differs: recipe, seed, from, dataset, data, a fact of RunIdentity.Other, or the name of a setting.
	Field   string
	Was, Is string // in the directory, and now
}

// Error names the directory and the difference.
func (e *OtherRunError) Error() string {
	short := func(value string) string { // of a digest the first digits
		if len(value) >= 24 && strings.Trim(value, "0123456789abcdef") == "" {
			return value[:12] + "…"
		}
		return value
	}
	return fmt.Sprintf("%s is of another run: its %s is %s, this one's %s", e.Dir, e.Field, short(e.Was), short(e.Is))
}

// Same returns an *OtherRunError for the first difference between the run that a directory holds and the one to be
// trained, nil if there is none.
func (i RunIdentity) Same(now RunIdentity, dir string) error {
	type fact struct{ name, was, is string }
	var facts []fact
	for _, name := range slices.Sorted(maps.Keys(now.Other)) {
		facts = append(facts, fact{name, i.Other[name], now.Other[name]})
	}
	facts = append(facts, fact{"dataset", i.Dataset, now.Dataset}, fact{"from", i.From, now.From})
	setting, was, is, err := setting.First(i.Recipe, now.Recipe)
	if err != nil {
		return err
	}
	if setting != "" {
		facts = append(facts, fact{setting, was, is})
	}
	facts = append(facts, fact{"seed", strconv.FormatInt(i.Seed, 10), strconv.FormatInt(now.Seed, 10)},
		fact{"data", i.Data, now.Data})
	for _, f := range facts {
		if f.was != "" && f.is != "" && f.was != f.is {
			return &OtherRunError{Dir: dir, Field: f.name, Was: f.was, Is: f.is}
		}
	}
	return nil
}

// identityOf is what the rows of a run say of it.
func identityOf(j report.Job) RunIdentity {
	return RunIdentity{Seed: j.Seed, Dataset: j.Dataset, Other: map[string]string{"recipe": j.Recipe,
		"position": j.Encoding}}
}
