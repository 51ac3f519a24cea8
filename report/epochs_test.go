// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestEpochsAreMeansOverSeedsAndTheTestComesLast(t *testing.T) {
	job := func(encoding string, seed int64) Job { return Job{Recipe: "r", Encoding: encoding, Seed: seed} }
	at := func(encoding string, seed int64, epoch, top1 float64, split string) Eval {
		return Eval{Job: job(encoding, seed), Epoch: Number(epoch), Split: split,
			Metrics: Metrics{Top1: Number(top1), Images: 10}}
	}
	rows := Rows{
		Evals: []Eval{
			at("b", 3, 2, .11, Validation), at("a", 3, 2, .30, Validation), at("a", 3, 1, .2, Validation),
			at("a", 4, 1, .9, Validation), at("a", 4, 1, .4, Validation), // evaluated again after a resume
			at("a", 4, 2, .99, Test), // not part of the curve
		},
		Results: []Result{{Job: job("a", 3), Test: Metrics{Top1: .4567, Images: 10}}},
	}
	table := gomlxtest.Must(Epochs(rows))(t)
	if want := []string{"encoding", "n", "1", "2", "test"}; !slices.Equal(table.Header, want) {
		t.Errorf("header %v, want %v", table.Header, want)
	}
	want := [][]string{{"b", "1", "–", "11.0", "–"}, {"a", "2", "30.0", "30.0", "45.67"}}
	if !slices.EqualFunc(table.Rows, want, slices.Equal) {
		t.Errorf("rows %q, want %q", table.Rows, want)
	}
	if want := []string{"a, 2: 1 of 2 runs", "a, test: 1 of 2 runs"}; !slices.Equal(table.Notes, want) {
		t.Errorf("notes %q, want %q", table.Notes, want)
	}
	table = gomlxtest.Must(Epochs(Rows{Evals: rows.Evals}))(t)
	if !slices.Equal(table.Header, []string{"encoding", "n", "1", "2", "test"}) ||
		!slices.Equal(table.Rows[1], []string{"a", "2", "30.0", "30.0", "–"}) ||
		!slices.Equal(table.Numeric, []bool{false, true, true, true, true}) {
		t.Errorf("before the first run ends: %q, %q, %v", table.Header, table.Rows, table.Numeric)
	}
}

func TestEpochsOfTwoRecipesAreNotMixed(t *testing.T) {
	at := func(recipe string, fraction float64) Eval {
		return Eval{Job: Job{Recipe: recipe, Encoding: "a", Fraction: fraction}, Epoch: 1, Split: Validation,
			Metrics: Metrics{Top1: .5, Images: 10}}
	}
	for want, second := range map[string]Eval{`recipe "r" and of "s"`: at("s", 1),
		`fraction "1" and of "0.5"`: at("r", .5)} {
		if _, err := Epochs(Rows{Evals: []Eval{at("r", 1), second}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
