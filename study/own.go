// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/report"
)

// A directory has rows of an earlier command, which may have had other settings or another model. own tells them from
// the study's: a table of both would compare settings, not encodings.
type own struct {
	sha256 string // of the weights that the study starts from, "" for none
	known  bool   // false if they cannot be read, as of a model that is gone
	others map[string]int
}

// own prepares the comparison of rows with the study.
func (s *Study) own() own {
	o := own{others: map[string]int{}}
	var err error
	o.sha256, err = s.digest()
	o.known = err == nil
	return o
}

// digest is the SHA-256 of the weights in From.
func (s *Study) digest() (string, error) {
	if s.From == "" {
		return "", nil
	}
	return checkpoints.Sum(s.From)
}

// differs says how a row differs from a unit, "" if it does not.
func (o own) differs(u Unit, row report.Result) string {
	var was origin
	if json.Unmarshal(row.Settings, &was) != nil { // without settings
		return ""
	}
	var now engine.RunIdentity
	if o.known {
		now.From = cmp.Or(o.sha256, engine.Scratch)
	}
	if err := cmp.Or(was.identity().Same(now, "it"), u.Recipe.Diff(row.Settings)); err != nil {
		return err.Error()
	}
	return ""
}

// of returns the rows of a unit that have its settings, and counts the others by what differs.
func (o own) of(u Unit, rows []report.Result) (kept []report.Result) {
	var others []report.Result
	for _, r := range rows {
		if o.differs(u, r) == "" {
			kept = append(kept, r)
		} else {
			others = append(others, r)
		}
	}
	for _, r := range latest(others) {
		o.others[o.differs(u, r)]++
	}
	return kept
}

// notes has a line for each way in which rows differ from the study.
func (o own) notes() (lines []string) {
	for _, why := range slices.Sorted(maps.Keys(o.others)) {
		line := fmt.Sprintf("%d rows of other settings are not counted: %s", o.others[why], why)
		if o.others[why] == 1 {
			line = "1 row of other settings is not counted: " + why
		}
		lines = append(lines, line)
	}
	return lines
}
