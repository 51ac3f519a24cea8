// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

// The best weights are those of the validation images of the task, if it has some.
func TestATaskMayHaveValidationImages(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds = Each("none"), 1
	validation, _, err := data.Shapes("where", 13, 5, 16, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{fs.ErrPermission, nil} {
		s.Tasks[0].Validation = func(context.Context, Unit) (data.Source, error) { return validation, want }
		if err := s.Run(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(s.Dir, "none-seed0", engine.RowsFile)))(t)
	if len(rows.Results) != 1 || rows.Results[0].Validation.Images != 13 {
		t.Errorf("%+v", rows.Results)
	}
}

// No training begins before a file that all need is known to be there.
func TestAModelThatIsGoneIsAnErrorBeforeAnyTraining(t *testing.T) {
	s := small(t)
	s.From = filepath.Join(t.TempDir(), "gone")
	s.Tasks[0].Parts, s.Tasks[0].Images = [2]string{"some", "all"}, nil // nothing to train here
	if err := s.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that the model does not exist", err)
	}
	s.Tasks[0].Parts = [2]string{} // each training opens it
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("without a record: %v", err)
	}
}

// Sizes in whole patches, at least one, of the side of a square as large as the recipe's images.
func TestSizesAreWholePatchesOfASquareOfEqualArea(t *testing.T) {
	recipe, set := shapes(t)
	for _, c := range []struct {
		patch    int
		image    [2]int
		multiple [2]float64
		want     [2]int
	}{
		{1, [2]int{6, 6}, [2]float64{0.5, 2}, [2]int{3, 12}}, {4, [2]int{16, 36}, [2]float64{1, 0.5}, [2]int{24, 12}},
		{4, [2]int{24, 24}, [2]float64{0.01, 0.25}, [2]int{4, 8}}, {5, [2]int{20, 20}, [2]float64{1.1, 1.2}, [2]int{20, 25}},
	} {
		recipe.Augment.Size, recipe.Model.PatchSize = c.image, c.patch
		got, err := SizesOf([][2]float64{c.multiple}, recipe, &set.Info)
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	recipe.Model.PatchSize = 0
	if got, err := SizesOf(nil, recipe, &set.Info); err != nil || len(got) > 0 {
		t.Errorf("no sizes of unknown patches: %v, %v", got, err)
	}
}

// The width of a model that is not open yet has to fit the encodings: 64 per head.
func TestAWidthThatIsNotKnownYetFitsTheEncodings(t *testing.T) {
	s := small(t)
	s.Variants = Each("rope-axial", "sincos2d") // of heads of a multiple of 4 channels, of a width of a multiple of 4
	for _, heads := range []int{0, 1, 3} {
		s.Tasks[0].Recipe.Model.Width, s.Tasks[0].Recipe.Model.Heads, s.Tasks[0].Recipe.Model.Depth = 0, heads, 0
		if err := s.Validate(); err != nil {
			t.Errorf("%d heads: %v", heads, err)
		}
	}
}

// Rows without a name, as of a study without a record, are of no unit; of equal names the first by date counts.
func TestARecordHasOneRowOfEachUnit(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []report.Result{{ID: "", Date: "2026-01-01"}, {ID: "a", Date: "2026-01-03", Steps: 3},
		{ID: "a", Date: "2026-01-02", Steps: 2}, {ID: "a", Date: "2026-01-04", Steps: 4}, {ID: "b", Date: "2026-01-01"}} {
		if err := report.Append(filepath.Join(dir, recordOf(Shard{})), row); err != nil {
			t.Fatal(err)
		}
	}
	done, _, err := readRecords(dir)
	if err != nil || len(done) != 2 || done["a"].Steps != 2 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestAShardHasItsOwnRecord(t *testing.T) {
	for want, s := range map[string]Shard{"results.jsonl": {}, "results-2-of-5.jsonl": {2, 5},
		"results-0-of-2.jsonl": {0, 2}} {
		if got := recordOf(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
		if matched, err := filepath.Match(records, recordOf(s)); !matched || err != nil {
			t.Errorf("%v: the record is not found: %v", s, err)
		}
	}
}

func TestARowOfOtherWeightsSaysWhich(t *testing.T) {
	for _, c := range []struct{ settings, study, want string }{
		{``, "a1", ""}, // without settings
		{`{}`, "b2", "started from weights of SHA-256 none, not b2"},
		{`{"from":{"sha256":"a1"}}`, "", "started from weights of SHA-256 a1, not none"},
		{`{"from":{"sha256":"a123456789012345"}}`, "b2", "started from weights of SHA-256 a12345678901, not b2"},
	} {
		o := own{sha256: c.study, known: true}
		if got := o.differs(Unit{}, report.Result{Settings: []byte(c.settings)}); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.settings, c.study, got, c.want)
		}
	}
}

// The name of a unit in a record is a hash of its recipe, which has to be written.
func TestARecipeThatCannotBeWrittenHasNoUnits(t *testing.T) {
	s := small(t)
	s.Tasks[0].Recipe.LearningRate = math.NaN()
	if _, err := s.Units(nil); err != nil {
		t.Errorf("without a record: %v", err)
	}
	s.Tasks[0].Parts = [2]string{"some", "all"}
	if _, err := s.Units(nil); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("with a record: %v", err)
	}
}
