// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
	if err != nil {
		t.Fatal(err)
	}
	return &Study{
		Dir: t.TempDir(), Variants: Each("learned", "wepe"), Seeds: 2, Backend: gomlxtest.Backend(),
		Tasks: []Task{{Images: Sets(train, test), Recipe: finetune.Recipe{
			Name: "small", Model: vit.Config{PatchSize: 8, Width: 8, Depth: 1, Heads: 2},
			Epochs: 1, BatchSize: 10, LearningRate: 1e-3,
		}}},
	}
}

func run(t *testing.T, s *Study) {
	t.Helper()
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOtherSizesAreEvaluatedWithTheWeightsOfTheRow(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds, s.Fractions = Each("learned"), 1, []float64{1}
	recipe := &s.Tasks[0].Recipe
	recipe.ValidationPart, recipe.LearningRate, recipe.Steps, recipe.EvalSteps, recipe.Epochs = 0.4, 0.1, 12, 1, 0
	s.EvalSizes = [][2]float64{{1.5, 1.5}}
	var measured []report.Metrics
	for _, weights := range []string{"best", "last", "best"} {
		s.Weights = weights
		run(t, s)
		units, _, err := s.found()
		if err != nil {
			t.Fatal(err)
		}
		rows := gomlxtest.Must(s.multiResolutionRows(units))(t)
		if len(rows) != 1 || rows[0].Weights.Name != weights {
			t.Fatalf("rows %+v, want one of the %s weights", rows, weights)
		}
		if r := rows[0]; r.Validation != (report.Metrics{}) || r.Scalars != nil || !(r.WallSeconds > 0) {
			t.Errorf("a row at another size has what was measured in training: %+v", r)
		}
		_, test, err := s.Tasks[0].Images(t.Context(), units[0])
		if err != nil {
			t.Fatal(err)
		}
		m := gomlxtest.Must(finetune.Opening{Size: [2]int{24, 24}, Weights: weights}.Open(s.Backend, units[0].Dir))(t)
		if is := gomlxtest.Must(m.Evaluate(test))(t); rows[0].Test != is {
			t.Errorf("%s: %+v, want %+v", weights, rows[0].Test, is)
		}
		m.Finalize()
		measured = append(measured, rows[0].Test)
		for asked, want := range map[string]string{weights: "", "first": "results 2 of the " + weights + " weights"} {
			s.Weights = asked
			table := gomlxtest.Must(s.Table())(t)
			if got := strings.Join(table.Notes, "\n"); strings.Contains(got, "results") != (want != "") ||
				!strings.Contains(got, want) {
				t.Errorf("a table of %s weights: %q, want %q", asked, got, want)
			}
		}
	}
	if measured[0] == measured[1] || measured[0] != measured[2] {
		t.Errorf("best, last, best: %+v", measured)
	}
}

func TestTrainedModelsAreEvaluatedAtOtherSizesOnce(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Fractions = []float64{1}
	run(t, s)
	s.EvalSizes = [][2]float64{{1, 1}, {1.5, 1.5}, {0.5, 2}} // opens the trained models
	for range 2 {
		run(t, s)
	}
	units, _, err := s.found()
	if err != nil {
		t.Fatal(err)
	}
	_, test, err := s.Tasks[0].Images(t.Context(), units[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		for _, name := range []string{finetune.PageFile, "field.png"} {
			if info, err := os.Stat(filepath.Join(u.Dir, name)); err != nil || info.Size() < 1000 {
				t.Errorf("%v: %s: %v", u, name, err)
			}
		}
		trained, err := report.ReadFiles(filepath.Join(u.Dir, engine.RowsFile))
		if err != nil || len(trained.Results) != 1 {
			t.Fatalf("%v: %d rows, %v", u, len(trained.Results), err)
		}
		rows, err := report.ReadFiles(filepath.Join(u.Dir, multiResolutionFile))
		if err != nil || len(rows.Results) != 3 {
			t.Fatalf("%v: %d rows of other sizes, %v, want each once", u, len(rows.Results), err)
		}
		for i, want := range []string{"16x16", "24x24", "8x32"} {
			r := rows.Results[i]
			if r.ImageSize != want || r.Recipe != "small at "+want || r.Encoding != u.Label ||
				r.Seed != int64(u.Seed) || r.Test.Images != 17 {
				t.Errorf("%v: row %+v, want one at %s", u, r.Job, want)
			}
			size := [][2]int{{16, 16}, {24, 24}, {8, 32}}[i]
			m := gomlxtest.Must(finetune.Opening{Size: size}.Open(s.Backend, u.Dir))(t)
			if is := gomlxtest.Must(m.Evaluate(test))(t); r.Test != is {
				t.Errorf("%v at %s: %+v, want %+v", u, want, r.Test, is)
			}
			m.Finalize()
		}
	}
	if err := os.Rename(filepath.Join(s.Dir, "wepe-seed1"), filepath.Join(s.Dir, "away")); err != nil {
		t.Fatal(err)
	}
	gone := units[slices.IndexFunc(units, func(u Unit) bool { return u.String() == "wepe seed 1" })]
	row0 := gomlxtest.Must(report.ReadFiles(filepath.Join(s.Dir, "away", engine.RowsFile)))(t).Results[0]
	if err := s.multiResolution(t.Context(), gone, row0, test); err == nil ||
		!strings.Contains(err.Error(), "at 16x16: ") {
		t.Errorf("a model that is gone: %v", err)
	}
	if err := os.Rename(filepath.Join(s.Dir, "away"), filepath.Join(s.Dir, "wepe-seed1")); err != nil {
		t.Fatal(err)
	}
	if err := s.multiResolution(t.Context(), units[0], report.Result{}, test); err == nil ||
		!strings.Contains(err.Error(), units[0].Dir+": the recipe in its row") {
		t.Errorf("a row without a recipe: %v", err)
	}
	other, _, err := data.Shapes("shape", 11, 7, 16, 0)
	if err != nil {
		t.Fatal(err)
	}
	again := *s
	again.EvalSizes = [][2]float64{{2, 2}}
	trained := gomlxtest.Must(report.ReadFiles(filepath.Join(units[0].Dir, engine.RowsFile)))(t)
	if err := again.multiResolution(t.Context(), units[0], trained.Results[0], other); err == nil ||
		!strings.Contains(err.Error(), "at 32x32") {
		t.Errorf("images of other classes: %v", err)
	}
	table := gomlxtest.Must(s.Table())(t)
	var got []string
	for _, row := range table.Rows {
		got = append(got, strings.Join(row[:3], "|")) // recipe, encoding, n
	}
	want := strings.Fields("small|learned|2 small|wepe|2 small@16x16|learned|2 small@16x16|wepe|2 " +
		"small@24x24|learned|2 small@24x24|wepe|2 small@8x32|learned|2 small@8x32|wepe|2")
	for i := range want {
		want[i] = strings.Replace(want[i], "@", " at ", 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	pictures, err := s.Curves()
	wantPictures := []string{"curves.png", "scalars.png", "resolution.png"}
	for i, name := range wantPictures {
		wantPictures[i] = filepath.Join(s.Dir, name)
	}
	if err != nil || !slices.Equal(pictures, wantPictures) {
		t.Errorf("pictures %q, %v, want %q", pictures, err, wantPictures)
	}
	for _, path := range pictures {
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range pictures { // a directory in place of a picture
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Curves(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s cannot be written: %v", path, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	s.Variants, s.EvalSizes = s.Variants[:1], nil // a table, without scalars
	if pictures, err = s.Curves(); err != nil || !slices.Equal(pictures, wantPictures[:1]) {
		t.Errorf("pictures of a table %q, %v", pictures, err)
	}
	row := trained.Results[0]
	row.Date = "earlier"
	if err := again.multiResolution(t.Context(), units[0], row, test); err != nil {
		t.Fatal(err)
	}
	rows := gomlxtest.Must(report.ReadFiles(filepath.Join(units[0].Dir, multiResolutionFile)))(t)
	if last := rows.Results[len(rows.Results)-1]; last.ImageSize != "32x32" || last.Date == "earlier" {
		t.Errorf("a row at 32×32 has the date of its training: %+v", last)
	}
	path := filepath.Join(units[0].Dir, multiResolutionFile)
	err = errors.Join(os.Remove(path), os.Symlink(filepath.Join(s.Dir, "gone", "rows"), path))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.multiResolution(t.Context(), units[0], row, test); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("rows that cannot be written: %v", err)
	}
}

// first is the first and only process of a group.
type first struct{}

func (first) Rank() int                               { return 0 }
func (first) Size() int                               { return 1 }
func (first) SumFloat32([]float32) error              { return nil }
func (first) Gather(message []byte) ([][]byte, error) { return [][]byte{message}, nil }

func TestTheFirstProcessOfAGroupWritesThePage(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds, s.Group = Each("none"), 1, first{}
	run(t, s)
	if _, err := os.Stat(filepath.Join(s.Dir, "none-seed0", finetune.PageFile)); err != nil {
		t.Error(err)
	}
	s.Tasks[0].Parts = [2]string{"some", "all"}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "use shards") {
		t.Errorf("a study with a record: %v", err)
	}
}

// pair is one of two processes.
type pair struct {
	rank       int
	give, take chan []byte
}

func (p pair) Rank() int { return p.rank }
func (p pair) Size() int { return 2 }
func (p pair) Gather(message []byte) ([][]byte, error) {
	p.give <- bytes.Clone(message)
	all := [][]byte{message, <-p.take}
	if p.rank == 1 {
		slices.Reverse(all)
	}
	return all, nil
}
func (p pair) SumFloat32(values []float32) error {
	own := make([]byte, 4*len(values))
	_, _ = binary.Encode(own, binary.LittleEndian, values)
	all, _ := p.Gather(own)
	others := make([]float32, len(values))
	_, err := binary.Decode(all[1-p.rank], binary.LittleEndian, others)
	for i, v := range others {
		values[i] += v
	}
	return err
}

func TestTheSecondProcessOfAGroupWritesNothing(t *testing.T) {
	gomlxtest.OnGo(t)
	a, b := make(chan []byte, 1), make(chan []byte, 1)
	dirs, failed := [2]string{t.TempDir(), t.TempDir()}, make(chan error)
	for rank, channels := range [2][2]chan []byte{{a, b}, {b, a}} {
		s := small(t)
		s.Dir, s.Variants, s.Seeds, s.EvalSizes = dirs[rank], Each("none"), 1, [][2]float64{{2, 2}}
		s.Group, s.Tasks[0].Recipe.Accumulate = pair{rank, channels[0], channels[1]}, 2
		go func() { failed <- s.Run(t.Context()) }()
	}
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Fatal(err)
	}
	for rank, dir := range dirs {
		files := gomlxtest.Must(filepath.Glob(filepath.Join(dir, "*", "*.*")))(t)
		if (len(files) > 0) != (rank == 0) {
			t.Errorf("process %d has written %q", rank, files)
		}
	}
}

func TestAPageIsWrittenAgainWhenItIsOlderThanItsRows(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds = Each("learned"), 1
	run(t, s)
	units, _, err := s.found()
	if err != nil || len(units) != 1 {
		t.Fatal(units, err)
	}
	page := filepath.Join(units[0].Dir, finetune.PageFile)
	rows := gomlxtest.Must(os.Stat(filepath.Join(units[0].Dir, engine.RowsFile)))(t).ModTime()
	for later, kept := range map[time.Duration]bool{-time.Hour: false, 0: true, time.Hour: true} {
		err := errors.Join(os.WriteFile(page, []byte("kept"), 0o600), os.Chtimes(page, rows, rows.Add(later)))
		if err != nil {
			t.Fatal(err)
		}
		run(t, s)
		if is := string(gomlxtest.Must(os.ReadFile(page))(t)) == "kept"; is != kept {
			t.Errorf("a page %v after its rows is kept: %v", later, is)
		}
	}
	for _, name := range []string{"field.png", finetune.PageFile} { // a directory in place of the file
		path := filepath.Join(units[0].Dir, name)
		if err := errors.Join(os.Chtimes(page, rows, rows.Add(-time.Hour)), os.Remove(path), os.Mkdir(path, 0o755),
			os.Chtimes(path, rows, rows.Add(-time.Hour))); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s cannot be written: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		run(t, s)
	}
}

func TestATrainingThatDivergesIsARowWithoutAModel(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t) // without a Log
	s.Tasks[0].Parts = [2]string{"some", "all"}
	s.Tasks[0].Recipe.Augment.Std = [3]float64{1e-40, 1e-40, 1e-40} // pixels beyond float32's range
	s.Seeds = 1
	run(t, s)
	done, err := s.results()
	if err != nil || len(done) != 2 {
		t.Fatalf("%d rows, %v, want 2", len(done), err)
	}
	for id, row := range done {
		if !strings.Contains(row.Failed, "diverged") || row.Recipe != "small" || row.Dataset != "shapes-where-train" ||
			row.Encoding == "" || row.Fraction != 1 {
			t.Errorf("%s: failed %q, %+v", id, row.Failed, row.Job)
		}
	}
}

// The first variant diverges, whichever its seed.
func TestARunThatDivergesDoesNotStopTheOthers(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants = []Variant{{"learned", "wild", "augment.std=[1e-40,1e-40,1e-40]"}, {"learned", "learned", ""}}
	err := s.Run(t.Context())
	if !errors.Is(err, engine.ErrDiverged) || strings.Count(err.Error(), "wild seed") != 2 {
		t.Errorf("%v, want two runs that diverge", err)
	}
	table := gomlxtest.Must(s.Table())(t).Text()
	if !regexp.MustCompile(`learned +2 `).MatchString(table) {
		t.Errorf("the others are not in the table:\n%s", table)
	}
}

func TestAspectsOfAStudyAreSeparateTrainings(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Aspects = finetune.Aspects()
	s.Seeds = 1
	s.Tasks[0].Images = func(ctx context.Context, u Unit) (train, test data.Source, err error) {
		settings, err := u.Recipe.Preprocessing([2]int{16, 16})
		if err != nil {
			return nil, nil, err
		}
		return data.ShapesOfAspects("where", 31, 17, 32, 0, settings)
	}
	run(t, s)
	table := gomlxtest.Must(s.Table())(t)
	var got []string
	for _, row := range table.Rows {
		got = append(got, strings.Join(row[:3], "|")) // recipe, encoding, n
	}
	want := []string{"small crop|learned|1", "small crop|wepe|1", "small squash|learned|1", "small squash|wepe|1",
		"small keep|learned|1", "small keep|wepe|1"}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "wepe-keep-seed0")); err != nil {
		t.Error(err)
	}
}

func TestAStudyListsMissingTrainingsAndHowToResume(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Shard = Shard{Index: 1, Of: 3}
	s.Sizes, s.Aspects = [][2]int{{16, 16}}, []string{"crop"} // one of each makes no column
	lost := *s
	lost.Dir, lost.Tasks = t.TempDir(), slices.Clone(s.Tasks)
	lost.Tasks[0].Images = func(context.Context, Unit) (train, test data.Source, err error) {
		return nil, nil, fs.ErrNotExist
	}
	if err := lost.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "wepe 16x16 crop seed 0: ") {
		t.Errorf("without images: %v", err)
	}
	both := *s
	both.Fractions = []float64{0.5, 1}
	if table := gomlxtest.Must(both.Table())(t); !slices.Equal(table.Header[:2], []string{"fraction", "encoding"}) {
		t.Errorf("header %q", table.Header)
	}
	if images, err := s.Curves(); len(images) != 0 || err != nil {
		t.Errorf("before any training: %q, %v", images, err)
	}
	run(t, s)
	table, err := s.Table()
	if err != nil || len(table.Rows) != 1 || table.Rows[0][0] != "wepe" || // unit 1 of 4
		!slices.Contains(table.Notes, "3 of 4 training runs are not done yet") {
		t.Errorf("table %s, %v", table.Text(), err)
	}
	s.Shard = Shard{}
	for _, a := range s.Variants {
		if dirs, err := filepath.Glob(filepath.Join(s.Dir, a.Label+"*seed1")); len(dirs) > 0 || err != nil {
			t.Errorf("%s are there: %v", dirs, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); !errors.Is(err, engine.ErrInterrupted) ||
		!strings.Contains(err.Error(), "learned 16x16 crop seed 0: ") ||
		!strings.Contains(err.Error(), "same command continues") {
		t.Errorf("interrupted: %v", err)
	}
}
