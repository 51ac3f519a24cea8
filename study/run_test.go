// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// small is a study of two encodings and two seeds that trains in a moment, on grids of 2×2.
func small(t *testing.T) *Study {
	t.Helper()
	train, test, err := data.Shapes("where", 31, 17, 16, 0)
	gomlxtest.NoError(t, err)
	return &Study{
		Dir: t.TempDir(), Variants: Variants("learned", "wepe"), Seeds: 2, Backend: gomlxtest.Backend(),
		Tasks: []Task{{Images: Sets(train, test), Recipe: finetune.Recipe{
			Name: "small", Model: vit.Config{PatchSize: 8, Width: 8, Depth: 1, Heads: 2},
			Epochs: 1, BatchSize: 10, LearningRate: 1e-3,
		}}},
	}
}

func run(t *testing.T, s *Study) {
	t.Helper()
	gomlxtest.NoError(t, s.Run(t.Context()))
}

// lines are the first cells of a table's rows.
func lines(t *testing.T, s *Study, cells int) (got []string) {
	t.Helper()
	for _, row := range gomlxtest.Must(s.Table())(t).Rows {
		got = append(got, strings.Join(row[:cells], "|"))
	}
	return got
}

// wild makes a training diverge: pixels beyond float32's range.
const wild = "augment.std=[1e-40,1e-40,1e-40]"

func TestRun_OtherSizesAreEvaluatedOnceWithTheWeightsOfTheRow(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Fractions = []float64{1}
	recipe := &s.Tasks[0].Recipe
	recipe.ValFraction, recipe.LearningRate, recipe.Steps, recipe.EvalEverySteps, recipe.Epochs = 0.4, 0.1, 12, 1, 0
	run(t, s)
	s.EvalSizes = [][2]float64{{1, 1}, {1.5, 1.5}, {0.5, 2}} // opens the trained models
	sizes := map[string][2]int{"16x16": {16, 16}, "24x24": {24, 24}, "8x32": {8, 32}}
	units := gomlxtest.Must(s.units(nil))(t)
	test := gomlxtest.Must(s.Tasks[0].Images(t.Context(), units[0]))(t).Test
	measured := map[string]report.Metrics{}
	for _, weights := range []string{"best", "best", "last"} {
		s.Weights = weights
		run(t, s)
		trained, _, err := s.trained()
		gomlxtest.NoError(t, err)
		rows := otherSizesOf(trained)
		if len(rows) != len(units)*len(sizes) {
			t.Fatalf("%d rows of other sizes", len(rows))
		}
		for i, r := range rows {
			u := units[i%len(units)]
			if r.Recipe != "small at "+r.ImageSize || r.Encoding != u.Label || r.Seed != int64(u.Seed) ||
				r.Weights.Name != weights || r.Validation != (report.Metrics{}) || r.Scalars != nil || !(r.WallSeconds > 0) {
				t.Errorf("%v: %+v", u, r)
			}
			m := gomlxtest.Must(finetune.OpenOptions{Size: sizes[r.ImageSize], Weights: weights}.Open(s.Backend, u.Dir))(t)
			if is := gomlxtest.Must(m.Evaluate(test))(t); r.Test != is {
				t.Errorf("%v at %s: %+v, want %+v", u, r.ImageSize, r.Test, is)
			}
			m.Finalize()
		}
		measured[weights] = rows[1].Test
	}
	if measured["best"] == measured["last"] {
		t.Errorf("best and last: %+v", measured)
	}
	for _, u := range units {
		if rows := gomlxtest.Must(report.ReadFiles(filepath.Join(u.Dir, multiResolutionFile)))(t); len(rows.Results) != 6 {
			t.Errorf("%v: %d rows of other sizes, want each once for both weights", u, len(rows.Results))
		}
	}
	want := []string{"small|learned|2", "small|wepe|2", "small at 16x16|learned|2", "small at 16x16|wepe|2",
		"small at 24x24|learned|2", "small at 24x24|wepe|2", "small at 8x32|learned|2", "small at 8x32|wepe|2"}
	if got := lines(t, s, 3); !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	pictures, err := s.Curves()
	var names []string
	for _, path := range pictures {
		names = append(names, filepath.Base(path))
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err != nil || !slices.Equal(names, []string{"curves.png", "scalars.png", "resolution.png"}) {
		t.Errorf("pictures %q, %v", pictures, err)
	}
	trained := gomlxtest.Must(report.ReadFiles(filepath.Join(units[0].Dir, engine.RowsFile)))(t).Results[0]
	s.EvalSizes = [][2]float64{{2, 2}}
	other, _, err := data.Shapes("shape", 11, 7, 16, 0)
	gomlxtest.NoError(t, err)
	gone := units[0]
	gone.Dir = t.TempDir()
	for name, err := range map[string]error{
		"a model that is gone":    s.multiResolution(t.Context(), gone, trained, test),
		"a row without a recipe":  s.multiResolution(t.Context(), units[0], report.Result{}, test),
		"images of other classes": s.multiResolution(t.Context(), units[0], trained, other),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// twin is one of two processes that send the same.
type twin int

func (t twin) Rank() int                               { return int(t) }
func (t twin) Size() int                               { return 2 }
func (t twin) Gather(message []byte) ([][]byte, error) { return [][]byte{message, message}, nil }
func (t twin) SumFloat32(values []float32) error {
	for i := range values {
		values[i] *= 2
	}
	return nil
}

func TestRun_FirstProcessOfAGroupWritesAlone(t *testing.T) {
	gomlxtest.OnGo(t)
	for rank := range 2 {
		s := small(t)
		s.Variants, s.Seeds, s.EvalSizes, s.Group = Variants("none"), 1, [][2]float64{{2, 2}}, twin(rank)
		s.Tasks[0].Recipe.GradAccumSteps = 2
		run(t, s)
		files := gomlxtest.Must(filepath.Glob(filepath.Join(s.Dir, "*", "*.*")))(t)
		if page := filepath.Join(s.Dir, "none-seed0", finetune.PageFile); slices.Contains(files, page) != (rank == 0) ||
			rank > 0 && len(files) > 0 {
			t.Errorf("process %d has written %q", rank, files)
		}
	}
	s := recorded(t)
	s.Group = twin(0)
	if err := s.Run(t.Context()); err == nil {
		t.Error("processes share the runs of a record")
	}
}

func TestRun_PageOlderThanItsRowsIsWrittenAgain(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds = Variants("learned"), 1
	run(t, s)
	dir := filepath.Join(s.Dir, "learned-seed0")
	page := filepath.Join(dir, finetune.PageFile)
	rows := gomlxtest.Must(os.Stat(filepath.Join(dir, engine.RowsFile)))(t).ModTime()
	for later, kept := range map[time.Duration]bool{-time.Hour: false, 0: true, time.Hour: true} {
		err := errors.Join(os.WriteFile(page, []byte("kept"), 0o600), os.Chtimes(page, rows, rows.Add(later)))
		gomlxtest.NoError(t, err)
		run(t, s)
		if is := string(gomlxtest.Must(os.ReadFile(page))(t)) == "kept"; is != kept {
			t.Errorf("a page %v after its rows is kept: %v", later, is)
		}
	}
}

// In a study with a record it is a row, otherwise an error after the others have ended.
func TestRun_TrainingThatDivergesDoesNotStopTheOthers(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, parts := range [][2]string{{}, {"some", "all"}} {
		s := small(t)
		s.Variants = []Variant{{"learned", "wild", wild}, {"learned", "learned", ""}}
		s.Parts = parts
		s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, _ error) { return }
		err := s.Run(t.Context())
		if !s.recorded() {
			if got := lines(t, s, 2); !errors.Is(err, engine.ErrDiverged) || strings.Count(err.Error(), "wild seed") != 2 ||
				!slices.Equal(got, []string{"learned|2"}) {
				t.Errorf("%v, lines %q, want two runs that diverge", err, got)
			}
			continue
		}
		for _, row := range gomlxtest.Must(s.results())(t) {
			if (row.Failed != "") != (row.Encoding == "wild") || row.Recipe != "small" || row.Fraction != 1 ||
				row.Dataset != "shapes-where-train" || err != nil {
				t.Errorf("failed %q, %+v, %v", row.Failed, row.Job, err)
			}
		}
	}
}

func TestRun_AspectsAndSizesAreSeparateTrainings(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Aspects, s.Variants, s.Seeds = finetune.Aspects(), Variants("none"), 1
	s.Tasks[0].Images = func(ctx context.Context, u Unit) (p data.Splits, err error) {
		settings, err := u.Recipe.Preprocessing([2]int{16, 16})
		if err != nil {
			return p, err
		}
		train, test, err := data.ShapesOfAspects("where", 31, 17, 32, 0, settings)
		return data.Splits{Train: train, Test: test}, err
	}
	run(t, s)
	want := []string{"small crop|none|1", "small squash|none|1", "small keep|none|1"}
	if got := lines(t, s, 3); !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	s = small(t)
	s.Variants, s.Seeds, s.Sizes = Variants("none"), 1, [][2]int{{16, 16}, {24, 16}}
	run(t, s)
	if got := lines(t, s, 3); !slices.Equal(got, []string{"small 16x16|none|1", "small 24x16|none|1"}) {
		t.Errorf("two sizes are the lines %q", got)
	}
	for _, u := range gomlxtest.Must(s.units(nil))(t) {
		m := gomlxtest.Must(finetune.Open(s.Backend, u.Dir))(t)
		if c := m.Recipe.Model; [2]int{c.ImageRows, c.ImageCols} != u.Size {
			t.Errorf("%s is a model of %d×%d", u, c.ImageRows, c.ImageCols)
		}
		m.Finalize()
	}
}

func TestRun_ShardsAndInterruptions(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Shard = Shard{Index: 1, Of: 3}
	s.Sizes, s.Aspects = [][2]int{{16, 16}}, []string{"crop"} // one of each makes no column
	lost := *s
	lost.Tasks = slices.Clone(s.Tasks)
	lost.Tasks[0].Images = func(context.Context, Unit) (p data.Splits, err error) {
		return p, fs.ErrNotExist
	}
	if err := lost.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without images: %v", err)
	}
	if images, err := s.Curves(); len(images) != 0 || err != nil {
		t.Errorf("before any training: %q, %v", images, err)
	}
	run(t, s)
	if got := lines(t, s, 2); !slices.Equal(got, []string{"wepe|1"}) { // unit 1 of 4
		t.Errorf("lines %q", got)
	}
	if dirs := gomlxtest.Must(filepath.Glob(filepath.Join(s.Dir, "*seed*")))(t); len(dirs) != 1 {
		t.Errorf("%s are there", dirs)
	}
	s.Shard = Shard{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); !errors.Is(err, engine.ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
}

// The best weights are those of the validation images of the task, if it has some.
func TestTask_MayHaveValidationImages(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds = Variants("none"), 1
	validation, _, err := data.Shapes("where", 13, 5, 16, 3)
	gomlxtest.NoError(t, err)
	read := s.Tasks[0].Images
	s.Tasks[0].Images = func(ctx context.Context, u Unit) (data.Splits, error) {
		p, err := read(ctx, u)
		p.Validation = validation
		return p, err
	}
	run(t, s)
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(s.Dir, "none-seed0", engine.RowsFile)))(t)
	if len(rows.Results) != 1 || rows.Results[0].Validation.Images != 13 {
		t.Errorf("%+v", rows.Results)
	}
}

// As from two commands with one directory: learned with one recipe, WePE with another.
func TestTable_RowsOfOtherSettingsAreNotCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	one := small(t)
	one.Variants, one.EvalSizes = Variants("learned"), [][2]float64{{1.5, 1.5}}
	run(t, one)
	two := *one
	two.Tasks, two.Variants = slices.Clone(one.Tasks), Variants("wepe")
	two.Tasks[0].Recipe.LearningRate, two.Tasks[0].Recipe.Epochs = 0.03, 2
	run(t, &two)
	for line, s := range map[string]*Study{"learned|2": one, "wepe|2": &two} {
		s.Variants = Variants("learned", "wepe")
		want := []string{"small|" + line, "small at 24x24|" + line}
		_, notes, err := s.trained()
		if got := lines(t, s, 3); !slices.Equal(got, want) || len(notes) != 1 || err != nil {
			t.Errorf("lines %q, want %q, notes %q, %v", got, want, notes, err)
		}
	}
	one.Tasks[0].Recipe.LearningRate = 0.1
	if images, err := one.Curves(); err != nil || len(images) > 0 {
		t.Errorf("curves of other settings: %q, %v", images, err)
	}
}

func TestTable_HasALineForEachTask(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	one := gomlxtest.Must(s.Tasks[0].Images(t.Context(), Unit{Fraction: 1}))(t).Train
	other, test, err := data.Shapes("shape", 29, 11, 16, 0)
	gomlxtest.NoError(t, err)
	s.Seeds, s.Tasks = 1, append(s.Tasks, s.Tasks[0])
	s.Tasks[0].Name, s.Tasks[1].Name, s.Tasks[1].Images = "here", "there", Sets(other, test)
	gomlxtest.NoError(t, s.Validate())
	run(t, s)
	var want []string
	for _, set := range []data.Dataset{one, other} {
		for _, encoding := range []string{"learned", "wepe"} {
			want = append(want, set.Describe().Name+"|small|"+encoding+"|1")
		}
	}
	if got := lines(t, s, 4); !slices.Equal(got, want) || slices.Equal(want[:2], want[2:]) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

// What a run takes from its model is no other setting, the model is.
func TestTable_RowsOfAnotherModelAreNotCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	scratch := small(t)
	scratch.Seeds, scratch.Tasks[0].Recipe.EMADecay = 1, 0.9
	run(t, scratch)
	tuned := *scratch
	tuned.Dir, tuned.Variants, tuned.Tasks = t.TempDir(), Variants("hybrid"), slices.Clone(scratch.Tasks)
	// the pretrained model's
	tuned.Tasks[0].Recipe.Model = vit.Config{}
	// unknown: its own count
	for from, want := range map[string]int{"learned-seed0": 1, "": 0, "wepe-seed0": 0, "gone": 1} {
		tuned.From = filepath.Join(scratch.Dir, "learned-seed0")
		run(t, &tuned)
		if tuned.From = filepath.Join(scratch.Dir, from); from == "" {
			tuned.From = ""
		}
		if got := lines(t, &tuned, 2); len(got) != want {
			t.Errorf("from %q: lines %q", from, got)
		}
	}
}

func TestTable_NotesSourcesThatRowsDoNotShare(t *testing.T) {
	row := func(encoding string, seed int64, backend, commit string) report.Result {
		return report.Result{Job: report.Job{Encoding: encoding, Seed: seed}, Backend: backend, Commit: commit,
			Weights: report.Weights{Name: "best"}}
	}
	first := row("x", 1, "xla", "a1")
	for _, c := range []struct {
		rows  []report.Result
		notes int
	}{
		{nil, 0}, {[]report.Result{first, row("x", 2, "xla", "a1"), row("y", 1, "", "")}, 0},
		{[]report.Result{row("x", 1, "go", "b2"), first, row("y", 1, "xla", "a1")}, 0}, // repeated
		{[]report.Result{first, row("x", 2, "go", "a1")}, 1}, {[]report.Result{first, row("x", 2, "go", "b2")}, 2},
	} {
		for weights, more := range map[string]int{"": 0, "best": 0, "last": 1} {
			got := (&Study{Weights: weights}).sources(c.rows)
			if want := c.notes + min(more, len(c.rows)); len(got) != want {
				t.Errorf("%s weights: notes %q, want %d", weights, got, want)
			}
		}
	}
	for want, s := range map[string]Study{
		"learned": {Variants: Variants("wepe", "learned", "none")}, "none": {Variants: Variants("wepe", "none")},
		"wepe": {Variants: Variants("wepe", "learned", "none"), Spec: report.Spec{Baseline: "wepe"}},
		"":     {Variants: Variants("wepe")},
	} {
		if got := s.baseline(); got != want {
			t.Errorf("baseline %q, want %q", got, want)
		}
	}
}
