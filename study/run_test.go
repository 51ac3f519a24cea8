// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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

// single is small with one encoding and one seed.
func single(t *testing.T, encoding string) *Study {
	t.Helper()
	s := small(t)
	s.Variants, s.Seeds = Variants(encoding), 1
	return s
}

func run(t *testing.T, s *Study) {
	t.Helper()
	gomlxtest.NoError(t, s.Run(t.Context()))
}

// rowsIn are the results in a file.
func rowsIn(t *testing.T, file ...string) []report.Result {
	t.Helper()
	return gomlxtest.Must(report.ReadFiles(filepath.Join(file...)))(t).Results
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
		is.Equal(t, "rows of other sizes", len(rows), len(units)*len(sizes))
		for i, r := range rows {
			u := units[i%len(units)]
			if r.Recipe != "small at "+r.ImageSize || r.Encoding != u.Label || r.Seed != int64(u.Seed) ||
				r.Weights.Name != weights || r.Validation != (report.Metrics{}) || r.Scalars != nil || !(r.WallSeconds > 0) {
				t.Errorf("%v: %+v", u, r)
			}
			m := gomlxtest.Must(finetune.OpenOptions{Size: sizes[r.ImageSize], Weights: weights}.Open(s.Backend, u.Dir))(t)
			is.Equal(t, u.String()+" at "+r.ImageSize, r.Test, gomlxtest.Must(m.Evaluate(test))(t))
			m.Finalize()
		}
		measured[weights] = rows[1].Test
	}
	is.Equal(t, "best and last weights are the same", measured["best"] == measured["last"], false)
	for _, u := range units {
		rows := rowsIn(t, u.Dir, multiResolutionFile)
		is.Equal(t, u.String()+": rows of other sizes, each once for both weights", len(rows), 6)
	}
	is.Equal(t, "lines", lines(t, s, 3), []string{"small|learned|2", "small|wepe|2", "small at 16x16|learned|2",
		"small at 16x16|wepe|2", "small at 24x24|learned|2", "small at 24x24|wepe|2", "small at 8x32|learned|2",
		"small at 8x32|wepe|2"})
	var names []string
	for _, path := range gomlxtest.Must(s.Curves())(t) {
		names = append(names, filepath.Base(path))
		is.Equal(t, path+" has content", gomlxtest.Must(os.Stat(path))(t).Size() > 1000, true)
	}
	is.Equal(t, "files of curves", names, []string{"curves.png", "scalars.png", "resolution.png"})
	trained := rowsIn(t, units[0].Dir, engine.RowsFile)[0]
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
		is.Equal(t, name+" is no error", err == nil, false)
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
		s := single(t, "none")
		s.EvalSizes, s.Group, s.Tasks[0].Recipe.GradAccumSteps = [][2]float64{{2, 2}}, twin(rank), 2
		run(t, s)
		files := gomlxtest.Must(filepath.Glob(filepath.Join(s.Dir, "*", "*.*")))(t)
		if page := filepath.Join(s.Dir, "none-seed0", finetune.PageFile); slices.Contains(files, page) != (rank == 0) ||
			rank > 0 && len(files) > 0 {
			t.Errorf("process %d has written %q", rank, files)
		}
	}
	s := recorded(t)
	s.Group = twin(0)
	is.Equal(t, "processes share the runs of a record", s.Run(t.Context()) == nil, false)
}

func TestRun_PageOlderThanItsRowsIsWrittenAgain(t *testing.T) {
	gomlxtest.OnGo(t)
	s := single(t, "learned")
	run(t, s)
	dir := filepath.Join(s.Dir, "learned-seed0")
	page := filepath.Join(dir, finetune.PageFile)
	rows := gomlxtest.Must(os.Stat(filepath.Join(dir, engine.RowsFile)))(t).ModTime()
	for later, kept := range map[time.Duration]bool{-time.Hour: false, 0: true, time.Hour: true} {
		gomlxtest.NoError(t, errors.Join(os.WriteFile(page, []byte("kept"), 0o600), os.Chtimes(page, rows, rows.Add(later))))
		run(t, s)
		found := string(gomlxtest.Must(os.ReadFile(page))(t))
		is.Equal(t, "a page "+later.String()+" after its rows is kept", found == "kept", kept)
	}
}

// In a study with a record it is a row, otherwise an error after the others have ended.
func TestRun_TrainingThatDivergesDoesNotStopTheOthers(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, s := range []*Study{small(t), recorded(t)} {
		s.Seeds, s.Variants = 2, []Variant{{"learned", "wild", wild}, {"learned", "learned", ""}}
		err := s.Run(t.Context())
		if !s.recorded() {
			is.Error(t, "two runs that diverge", err, engine.ErrDiverged)
			is.Equal(t, "of the name", strings.Count(err.Error(), "wild seed"), 2)
			is.Equal(t, "lines", lines(t, s, 2), []string{"learned|2"})
			continue
		}
		gomlxtest.NoError(t, err)
		for _, row := range gomlxtest.Must(s.results())(t) {
			is.Equal(t, row.Encoding, []any{row.Failed != "", row.Recipe, row.Fraction, row.Dataset},
				[]any{row.Encoding == "wild", "small", 1.0, "shapes-where-train"})
		}
	}
}

func TestRun_AspectsAndSizesAreSeparateTrainings(t *testing.T) {
	gomlxtest.OnGo(t)
	s := single(t, "none")
	s.Aspects = finetune.Aspects()
	s.Tasks[0].Images = func(ctx context.Context, u Unit) (p data.Splits, err error) {
		settings, err := u.Recipe.Preprocessing([2]int{16, 16})
		if err != nil {
			return p, err
		}
		train, test, err := data.ShapesOfAspects("where", 31, 17, 32, 0, settings)
		return data.Splits{Train: train, Test: test}, err
	}
	run(t, s)
	is.Equal(t, "lines", lines(t, s, 3), []string{"small crop|none|1", "small squash|none|1", "small keep|none|1"})
	s = single(t, "none")
	s.Sizes = [][2]int{{16, 16}, {24, 16}}
	run(t, s)
	is.Equal(t, "lines", lines(t, s, 3), []string{"small 16x16|none|1", "small 24x16|none|1"})
	for _, u := range gomlxtest.Must(s.units(nil))(t) {
		m := gomlxtest.Must(finetune.Open(s.Backend, u.Dir))(t)
		is.Equal(t, u.String(), [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}, u.Size)
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
	lost.Tasks[0].Images = func(context.Context, Unit) (data.Splits, error) { return data.Splits{}, fs.ErrNotExist }
	is.Error(t, "without images", lost.Run(t.Context()), fs.ErrNotExist)
	is.Equal(t, "curves before any training", gomlxtest.Must(s.Curves())(t), nil)
	run(t, s)
	is.Equal(t, "lines", lines(t, s, 2), []string{"wepe|1"}) // unit 1 of 4
	dirs := gomlxtest.Must(filepath.Glob(filepath.Join(s.Dir, "*seed*")))(t)
	is.Equal(t, "directories", len(dirs), 1)
	s.Shard = Shard{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.Error(t, "interrupted", s.Run(ctx), engine.ErrInterrupted)
}

// The best weights are those of the validation images of the task, if it has some.
func TestTask_MayHaveValidationImages(t *testing.T) {
	gomlxtest.OnGo(t)
	s := single(t, "none")
	read := s.Tasks[0].Images
	s.Tasks[0].Images = func(ctx context.Context, u Unit) (data.Splits, error) {
		p, err := read(ctx, u)
		p.Validation, p.Test = p.Test, p.Train // 17 and 31 images
		return p, err
	}
	run(t, s)
	rows := rowsIn(t, s.Dir, "none-seed0", engine.RowsFile)
	is.Equal(t, "results, validation images", [2]int{len(rows), rows[0].Validation.Images}, [2]int{1, 17})
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
		_, notes, err := s.trained()
		gomlxtest.NoError(t, err)
		is.Equal(t, "notes", len(notes), 1)
		is.Equal(t, "lines", lines(t, s, 3), []string{"small|" + line, "small at 24x24|" + line})
	}
	one.Tasks[0].Recipe.LearningRate = 0.1
	is.Equal(t, "curves of other settings", gomlxtest.Must(one.Curves())(t), nil)
}

func TestTable_HasALineForEachTask(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Seeds, s.Tasks = 1, append(s.Tasks, s.Tasks[0])
	s.Tasks[0].Name, s.Tasks[1].Name = "here", "there" // of one dataset
	gomlxtest.NoError(t, s.Validate())
	run(t, s)
	is.Equal(t, "lines", lines(t, s, 4), []string{"here|small|learned|1", "here|small|wepe|1", "there|small|learned|1",
		"there|small|wepe|1"})
}

// What a run takes from its model is no other setting, the model is.
func TestTable_RowsOfAnotherModelAreNotCounted(t *testing.T) {
	gomlxtest.OnGo(t)
	scratch := small(t)
	scratch.Seeds, scratch.Tasks[0].Recipe.EMADecay = 1, 0.9
	run(t, scratch)
	tuned := *scratch
	tuned.Dir, tuned.Variants, tuned.Tasks = t.TempDir(), Variants("hybrid"), slices.Clone(scratch.Tasks)
	tuned.Tasks[0].Recipe.Model = vit.Config{} // the pretrained model's
	// Of a model that is gone it is unknown: its own counts.
	for from, want := range map[string]int{"learned-seed0": 1, "": 0, "wepe-seed0": 0, "gone": 1} {
		tuned.From = filepath.Join(scratch.Dir, "learned-seed0")
		run(t, &tuned)
		if tuned.From = filepath.Join(scratch.Dir, from); from == "" {
			tuned.From = ""
		}
		is.Equal(t, fmt.Sprintf("lines from %q", from), len(lines(t, &tuned, 2)), want)
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
			is.Equal(t, weights+" weights: notes", len(got), c.notes+min(more, len(c.rows)))
		}
	}
	for want, s := range map[string]Study{
		"learned": {Variants: Variants("wepe", "learned", "none")}, "none": {Variants: Variants("wepe", "none")},
		"wepe": {Variants: Variants("wepe", "learned", "none"), Spec: report.Spec{Baseline: "wepe"}},
		"":     {Variants: Variants("wepe")},
	} {
		is.Equal(t, "baseline", s.baseline(), want)
	}
}

// files writes images as PNG.
func files(t *testing.T, name string, n int, seed int64) *data.Files {
	t.Helper()
	set, _, err := data.Shapes("where", n, 1, 16, seed)
	gomlxtest.NoError(t, err)
	paths, images := make([]string, n), map[string][]byte{}
	for i := range paths {
		paths[i] = fmt.Sprintf("%d.png", i)
		images[paths[i]] = datatest.PNG(set.RGBA(i))
	}
	return gomlxtest.Must(data.NewFiles(name, datatest.Tree(t, images), paths, set.Labels, set.Classes))(t)
}

// recorded is a study of one training run with a record and no metrics.
func recorded(t *testing.T) *Study {
	t.Helper()
	s := single(t, "learned")
	s.Parts = [2]string{"some", "all"}
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, _ error) { return }
	return s
}

// write appends rows to the study's record.
func (s *Study) write(t *testing.T, rows ...report.Result) {
	t.Helper()
	for _, row := range rows {
		gomlxtest.NoError(t, report.Append(filepath.Join(s.Dir, recordOf(Shard{})), row))
	}
}

// 1,030 images are read in two parts, weighted by their number of images.
func TestFromFiles_ChoosesOnValidationImagesAndMeasuresTheTest(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	task := &s.Tasks[0]
	task.Name, s.Parts, task.Recipe.Augment.Size = "where", [2]string{"some", "all"}, [2]int{16, 16}
	training := [2]*data.Files{files(t, "some", 20, 1), files(t, "all", 31, 2)}
	testing := [2]*data.Files{files(t, "validation", 13, 3), files(t, "test", 1030, 4)}
	silent := slog.New(slog.DiscardHandler)
	task.FromFiles(training, testing, silent)
	s.Seeds, s.Keep, s.Sweep = 1, true, "learning_rate=0.001,0.01"
	run(t, s)
	units, done, err := s.finished()
	gomlxtest.NoError(t, err)
	is.Equal(t, "units and rows", [2]int{len(units), len(done)}, [2]int{6, 6})
	fit := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{16, 16}}
	all := gomlxtest.Must(testing[1].Load(t.Context(), fit, silent))(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, u := range units {
		row := done[u.id]
		_, last := os.Stat(filepath.Join(u.Dir, checkpoints.LastDir))
		_, best := os.Stat(filepath.Join(u.Dir, checkpoints.BestDir))
		gomlxtest.Must(os.Stat(filepath.Join(u.Dir, engine.LogFile)))(t)
		is.Equal(t, u.String()+": lacks last and best", [2]bool{last != nil, best != nil}, [2]bool{u.Search, u.Search})
		if u.Search {
			is.Equal(t, u.String(), []any{row.Validation.Images, row.Test.Images, row.Dataset}, []any{13, 0, "some"})
			continue
		}
		m := gomlxtest.Must(finetune.Open(s.Backend, u.Dir))(t)
		_, _, err := task.Measure(ended, u, m)
		is.Error(t, "interrupted", err, engine.ErrInterrupted)
		want := gomlxtest.Must(m.Evaluate(all))(t)
		m.Recipe.EvalBatchSize = 1029 // more than are read at a time
		again, images, err := task.Measure(t.Context(), u, m)
		gomlxtest.NoError(t, err)
		is.Equal(t, u.String()+": the row has the fingerprint of the same images in other batches",
			strings.Contains(string(row.Settings), fmt.Sprintf(`"measured":%q`, images)), true)
		is.Equal(t, u.String(), []any{row.Dataset, want.Images}, []any{"all", 1030})
		for _, got := range []report.Metrics{row.Test, again} {
			is.Near(t, u.String(), float64(got.Loss), float64(want.Loss), 1e-6)
			got.Loss = want.Loss
			is.Equal(t, u.String()+": test", got, want)
		}
		m.Finalize()
	}
	u := units[0]
	_, err = task.Images(ended, u)
	is.Error(t, "images whose reading was interrupted", err, engine.ErrInterrupted)
	u.Recipe.Augment.Size = [2]int{8, 24} // images of another size are read again
	info := gomlxtest.Must(task.Images(t.Context(), u))(t).Train.Describe()
	is.Equal(t, "images of another size", [2]int{info.Height, info.Width}, [2]int{8, 24})
	for name, change := range map[string]func(*Study){
		"another seed": func(*Study) {},
		"trained on other images": func(o *Study) {
			o.Tasks[0].FromFiles([2]*data.Files{files(t, "some", 20, 5), training[1]}, testing, silent)
		},
		"measured on other images": func(o *Study) {
			o.Tasks[0].FromFiles(training, [2]*data.Files{files(t, "validation", 13, 5), testing[1]}, silent)
		},
		"from other weights": func(o *Study) { o.From = units[len(units)-1].Dir },
	} {
		other := *s
		other.Dir, other.Tasks, other.Seeds = t.TempDir(), slices.Clone(s.Tasks), 2
		gomlxtest.NoError(t, os.CopyFS(other.Dir, os.DirFS(s.Dir)))
		change(&other)
		is.Equal(t, name+" is accepted", other.Run(t.Context()) == nil, name == "another seed")
	}
}

// Records are published: they contain only the last element of a model's path.
func TestRun_RowNamesThePretrainedModelWithoutItsDirectory(t *testing.T) {
	gomlxtest.OnGo(t)
	from := single(t, "learned")
	run(t, from)
	s := recorded(t)
	s.From, s.Tasks[0].Origin, s.Tasks[0].Recipe.Model = filepath.Join(from.Dir, "learned-seed0"), "elsewhere",
		vit.Config{}
	for settings, failed := range map[string]bool{"": false, wild: true} {
		s.Dir, s.Variants[0].Settings = t.TempDir(), settings
		run(t, s)
		for _, row := range gomlxtest.Must(s.results())(t) {
			text := string(row.Settings)
			if !strings.Contains(text, `"origin":"elsewhere"`) || !strings.Contains(text, s.sha256) || s.sha256 == "" ||
				(row.Failed != "") != failed || !failed && !strings.Contains(text, `"path":"learned-seed0"`) {
				t.Errorf("failed %q: %s", row.Failed, text)
			}
		}
	}
	// A file that all need is known to be there before any training; without a record each training opens it.
	s.Tasks[0].Images = nil // nothing to train here
	for file, want := range map[string]error{fixtures.Dir(t, "dinov2_tiny"): nil, "gone": fs.ErrNotExist} {
		s.From, s.Dir = file, t.TempDir()
		is.Error(t, file, s.Run(t.Context()), want)
	}
	s.From, s.Parts = "gone", [2]string{}
	run(t, s) // a model that is not needed is not read
}

// If the training runs cannot be listed or rows cannot be read, nothing is trained, tabulated or drawn: a table without
// some rows would compare fewer training runs than there are.
func TestStudy_UnknownSettingsAndUnreadableRowsAreAnErrorEverywhere(t *testing.T) {
	calls := map[string]func(*Study) error{
		"Run": func(s *Study) error { return s.Run(t.Context()) }, "Validate": (*Study).Validate,
		"Table":   func(s *Study) error { _, err := s.Table(); return err },
		"Curves":  func(s *Study) error { _, err := s.Curves(); return err },
		"Listing": func(s *Study) error { _, err := s.Listing(); return err },
		"Merge":   func(s *Study) error { return s.Merge([]string{t.TempDir()}) },
	}
	for _, c := range []struct {
		parts                 [2]string
		settings, file, calls string
	}{
		{[2]string{}, "learning_rat=1", "", "Run Validate Table Curves Listing"},
		{[2]string{"some", "all"}, "learning_rat=1", "", "Run Validate Table Curves Listing"},
		{[2]string{}, "", "learned-seed1/" + engine.RowsFile, "Table Curves"},
		{[2]string{}, "", "learned-seed0/" + multiResolutionFile, "Table Curves"},
		{[2]string{"some", "all"}, "", recordOf(Shard{}), "Run Table Listing Merge"},
	} {
		s := small(t)
		s.EvalSizes, s.Variants[1].Settings, s.Parts = [][2]float64{{1, 1}}, c.settings, c.parts
		if c.file != "" { // is a directory
			gomlxtest.NoError(t, os.MkdirAll(filepath.Join(s.Dir, c.file), 0o755))
		}
		for _, name := range strings.Fields(c.calls) {
			if err := calls[name](s); err == nil || !strings.Contains(err.Error(), filepath.FromSlash(c.file)) {
				t.Errorf("%s, %q: %v", name, c.settings+c.file, err)
			}
		}
	}
}

// Two rows of one record, of the same task, encoding and part of the images.
func TestRecord_OfDifferentImagesOrWeightsIsRefused(t *testing.T) {
	const weights, others = `{"from":{"sha256":"a1"},"data":"x"}`, `{"from":{"sha256":"b2"},"data":"x"}`
	for _, c := range []struct {
		first, second, failed string // of the second row
		refused               bool
	}{
		{weights, weights, "", false}, {weights, others, "", true}, {weights, `{"data":"x"}`, "", true},
		{weights, `{"from":{"sha256":"a1"},"data":"y"}`, "", true},
		{weights, `{"from":{"sha256":"a1"},"data":"x","measured":"m"}`, "", false}, // an older row does not say
		{`{"data":"x","measured":"m"}`, `{"data":"x","measured":"n"}`, "", true},
		{weights, `{"data":"x"}`, "diverged", false}, // older failed rows have no weights
		{weights, others, "diverged", true},
	} {
		s := recorded(t)
		s.Tasks[0].Name, s.Seeds = "where", 2
		for i, u := range gomlxtest.Must(s.units(nil))(t) {
			s.write(t, report.Result{ID: u.id, Settings: []byte([]string{c.first, c.second}[i]),
				Failed: []string{"", c.failed}[i], Test: report.Metrics{Top1: 0.5, Images: 17}})
		}
		into := *s
		into.Dir = t.TempDir()
		_, table := s.Table()
		merged := into.Merge([]string{s.Dir})
		names, _ := os.ReadDir(into.Dir)
		is.Equal(t, fmt.Sprintf("%s, %s, failed %q: table, merge and writing are refused", c.first, c.second, c.failed),
			[3]bool{table != nil, merged != nil, len(names) == 0}, [3]bool{c.refused, c.refused, c.refused})
	}
}

func TestRun_FailedMeasurementLeavesNoRow(t *testing.T) {
	gomlxtest.OnGo(t)
	s := recorded(t)
	record := filepath.Join(s.Dir, recordOf(Shard{}))
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, err error) {
		return m, "", fs.ErrPermission
	}
	is.Error(t, "a measurement", s.Run(t.Context()), fs.ErrPermission)
	is.Equal(t, "rows", len(gomlxtest.Must(s.results())(t)), 0)
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, err error) {
		return m, "", os.Mkdir(record, 0o755)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), record) {
		t.Errorf("a record that cannot be written: %v", err)
	}
}
