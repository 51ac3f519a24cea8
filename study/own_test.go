// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// tabulated is a table's lines, as "learned|2", and its notes about rows that are not counted.
func tabulated(t *testing.T, s *Study) (lines, notes []string) {
	t.Helper()
	table := gomlxtest.Must(s.Table())(t)
	encoding := slices.Index(table.Header, "encoding")
	for _, row := range table.Rows {
		lines = append(lines, strings.Join(row[encoding:encoding+2], "|"))
	}
	for _, note := range table.Notes {
		if strings.Contains(note, "not counted") {
			notes = append(notes, note)
		}
	}
	return lines, notes
}

func TestATableNotesRowsOfSeveralBackendsAndCommits(t *testing.T) {
	row := func(encoding string, seed int64, backend, commit string) report.Result {
		r := report.Result{Backend: backend, Commit: commit}
		r.Encoding, r.Seed, r.Weights.Name = encoding, seed, "best"
		return r
	}
	first, second := strings.Repeat("a1", 20), strings.Repeat("b2", 20)
	for _, c := range []struct {
		rows []report.Result
		want string
	}{
		{nil, ""},
		{[]report.Result{row("x", 1, "xla", first), row("x", 2, "xla", first), row("y", 1, "", "")}, ""},
		{[]report.Result{row("x", 1, "go", second), row("x", 1, "xla", first), row("y", 1, "xla", first)}, ""}, // repeated
		{[]report.Result{row("x", 1, "xla", first), row("x", 2, "go", first), row("y", 1, "xla", first)},
			"results 1 on go, 2 on xla"},
		{[]report.Result{row("x", 1, "xla", second), row("x", 2, "xla", first), row("y", 1, "xla", second)},
			"results 1 of commit a1a1a1a1a1a1, 2 of commit b2b2b2b2b2b2"},
	} {
		if got := strings.Join((&Study{}).noteSources(report.Table{}, c.rows).Notes, "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestADamagedRowDiffersFromEveryStudy(t *testing.T) {
	for settings, want := range map[string]string{
		`{"from":{"path":"x"}}`: "checkpoint x has patches of 0 pixels", `{"epochs":`: "unexpected end of JSON input",
	} {
		if got := small(t).Tasks[0].Recipe.Differ([]byte(settings)); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
	}
}

// As from two commands with one directory: learned with one recipe, WePE with another.
func TestRowsOfOtherSettingsAreNotCountedButNoted(t *testing.T) {
	gomlxtest.OnGo(t)
	one := small(t)
	one.Variants, one.EvalSizes = Each("learned"), [][2]float64{{1.5, 1.5}}
	one.Tasks[0].Recipe.LearningRate = 0.003
	run(t, one)
	two := *one
	two.Tasks, two.Variants = slices.Clone(one.Tasks), Each("wepe")
	two.Tasks[0].Recipe.LearningRate, two.Tasks[0].Recipe.Epochs = 0.03, 2
	run(t, &two)
	for _, c := range []struct {
		s           *Study
		line, noted string
	}{
		{one, "learned|2", "epochs 2, not 1"}, {&two, "wepe|2", "epochs 1, not 2"}, // the first by name
	} {
		c.s.Variants = Each("learned", "wepe")
		lines, notes := tabulated(t, c.s)
		if !slices.Equal(lines, []string{c.line, c.line}) || // and at the other size
			!slices.Equal(notes, []string{"2 rows of other settings are not counted: " + c.noted}) {
			t.Errorf("lines %q, notes %q, want %s and %s", lines, notes, c.line, c.noted)
		}
	}
	one.Tasks[0].Recipe.LearningRate = 0.1
	images, err := one.Curves()
	if err != nil || len(images) > 0 {
		t.Errorf("curves of other settings: %q, %v", images, err)
	}
}

func TestRowsOfAnotherModelAreNotCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	scratch := small(t)
	scratch.Variants, scratch.Seeds, scratch.Tasks[0].Recipe.EMA = Each("learned", "wepe"), 1, 0.9
	run(t, scratch)
	tuned := *scratch
	tuned.Dir, tuned.Variants, tuned.Tasks = t.TempDir(), Each("hybrid"), slices.Clone(scratch.Tasks)
	tuned.Tasks[0].Recipe.Model = vit.Config{} // the pretrained model's
	tuned.From = filepath.Join(scratch.Dir, "learned-seed0")
	run(t, &tuned)
	if lines, notes := tabulated(t, &tuned); !slices.Equal(lines, []string{"hybrid|1"}) || notes != nil {
		t.Errorf("lines %q, notes %q: what a run takes from its model is no other setting", lines, notes)
	}
	was := gomlxtest.Must(report.ReadFiles(filepath.Join(tuned.Dir, "hybrid-seed0", engine.RowsFile)))(t)
	for from, want := range map[string]string{"": ", not none", filepath.Join(scratch.Dir, "wepe-seed0"): ", not "} {
		tuned.From = from
		_, notes := tabulated(t, &tuned)
		if len(notes) != 1 || !strings.Contains(notes[0], "1 row of other settings is not counted: started from weights "+
			"of SHA-256 ") || !strings.Contains(notes[0], want) {
			t.Errorf("from %q: %q", from, notes)
		}
	}
	tuned.From = filepath.Join(scratch.Dir, "gone") // unknown: its own rows count
	if lines, notes := tabulated(t, &tuned); len(lines) != 1 || notes != nil {
		t.Errorf("of a model that is gone: lines %q, notes %q", lines, notes)
	}
	if got := tuned.Tasks[0].Recipe.Differ(nil); got != "" || len(was.Results) != 1 {
		t.Errorf("a row without settings differs: %s", got)
	}
}
