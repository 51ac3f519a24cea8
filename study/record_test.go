// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// files writes images as PNG.
func files(t *testing.T, name string, n int, seed int64) *data.Files {
	t.Helper()
	set, _, err := data.Shapes("where", n, 1, 16, seed)
	if err != nil {
		t.Fatal(err)
	}
	dir, paths := t.TempDir(), make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("%d.png", i)
		f := gomlxtest.Must(os.Create(filepath.Join(dir, paths[i])))(t)
		if err := png.Encode(f, set.RGBA(i)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return gomlxtest.Must(data.NewFiles(name, dir, paths, set.Labels, set.Classes))(t)
}

// 1,030 images are read in two parts, weighted by their number of images.
func TestAStudyOfFilesChoosesOnValidationImagesAndMeasuresTheTest(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	task := &s.Tasks[0]
	task.Name, task.Parts, task.Recipe.Augment.Size = "where", [2]string{"some", "all"}, [2]int{16, 16}
	validation, test := files(t, "validation", 13, 3), files(t, "test", 1030, 4)
	training := [2]*data.Files{files(t, "some", 20, 1), files(t, "all", 31, 2)}
	task.FromFiles(training, [2]*data.Files{validation, test}, slog.New(slog.DiscardHandler))
	s.Seeds, s.Keep, s.Sweep = 1, true, "learning_rate=0.001,0.01"
	run(t, s)
	units, done, err := s.recorded()
	if err != nil || len(units) != 6 || len(done) != 6 {
		t.Fatalf("%d units, %d rows, %v", len(units), len(done), err)
	}
	for _, size := range [][2]int{{16, 16}, {8, 24}, {16, 16}} { // images of another size are read again
		u := units[len(units)-1]
		u.Recipe.Augment.Size = size
		train, _, err := task.Images(t.Context(), u)
		if err != nil || [2]int{train.Describe().Height, train.Describe().Width} != size {
			t.Errorf("%v: %+v, %v", size, train.Describe(), err)
		}
	}
	fit := preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{16, 16}}
	all := gomlxtest.Must(test.Load(t.Context(), fit, slog.New(slog.DiscardHandler)))(t)
	for _, u := range units {
		row := done[u.ID]
		_, err := os.Stat(filepath.Join(u.Dir, checkpoints.LastDir))
		if _, errBest := os.Stat(filepath.Join(u.Dir, checkpoints.BestDir)); (errBest == nil) != (err == nil) {
			t.Errorf("%s: of two models one is kept: last %v, best %v", u, err, errBest)
		}
		if _, err := os.Stat(filepath.Join(u.Dir, engine.LogFile)); err != nil {
			t.Error(err)
		}
		if u.Search {
			if row.Validation.Images != 13 || row.Test.Images != 0 || row.Dataset != "some" || err == nil {
				t.Errorf("%s: validation %+v, test %+v, %s, model: %v", u, row.Validation, row.Test, row.Dataset, err)
			}
			continue
		}
		m := gomlxtest.Must(finetune.Open(s.Backend, u.Dir))(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := task.Images(ctx, units[0]); !errors.Is(err, engine.ErrInterrupted) ||
			!strings.Contains(err.Error(), "while reading some") {
			t.Errorf("images of which reading was interrupted: %v", err)
		}
		if _, _, err := task.Measure(ctx, u, m); !errors.Is(err, engine.ErrInterrupted) {
			t.Errorf("interrupted: %v", err)
		}
		var odd Task
		one := *files(t, "one", 3, 5)
		one.Classes = append(slices.Clone(one.Classes[:len(one.Classes)-1]), "other")
		odd.FromFiles([2]*data.Files{&one, &one}, [2]*data.Files{&one, &one}, slog.New(slog.DiscardHandler))
		if _, _, err := odd.Measure(t.Context(), u, m); err == nil || !strings.Contains(err.Error(), "classes") {
			t.Errorf("images of other classes: %v", err)
		}
		want := gomlxtest.Must(m.Evaluate(all))(t)
		m.Recipe.EvalBatchSize = 1029 // more than are read at a time
		again, images, err := task.Measure(t.Context(), u, m)
		if err != nil || !strings.Contains(string(row.Settings), fmt.Sprintf(`"measured":%q`, images)) {
			t.Errorf("%s: %s lacks the fingerprint %s of the same images in other batches: %v", u, row.Settings, images, err)
		}
		for _, got := range []report.Metrics{row.Test, again} {
			if got.Images != 1030 || got.Top1 != want.Top1 || got.Top5 != want.Top5 ||
				!(math.Abs(float64(got.Loss-want.Loss)) <= 1e-6) || row.Dataset != "all" {
				t.Errorf("%s: test %+v, want %+v", u, got, want)
			}
		}
	}
	if got := s.runWith(t, func(o *Study) { o.Seeds = 2 }); got != nil {
		t.Errorf("another seed: %v", got)
	}
	for want, change := range map[string]func(*Study){
		"was trained on other images, fingerprint": func(o *Study) {
			o.Seeds = 3
			o.Tasks[0].FromFiles([2]*data.Files{files(t, "some", 20, 5), training[1]}, [2]*data.Files{validation, test},
				slog.New(slog.DiscardHandler))
		},
		"was measured on other images, fingerprint": func(o *Study) {
			o.Seeds = 3
			o.Tasks[0].FromFiles(training, [2]*data.Files{files(t, "validation", 13, 5), test},
				slog.New(slog.DiscardHandler))
		},
		"started from weights of SHA-256 none, not ": func(o *Study) { o.From = units[len(units)-1].Dir },
	} {
		if err := s.runWith(t, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s.Seeds = 3
	if _, err := s.results(); err != nil {
		t.Errorf("a refused training has left a row: %v", err)
	}
}

// Records are published: they contain only the last element of a model's path.
func TestARowNamesThePretrainedModelWithoutItsDirectory(t *testing.T) {
	gomlxtest.OnGo(t)
	from := small(t)
	from.Variants, from.Seeds = Each("learned"), 1
	run(t, from)
	s, steps := small(t), 0
	s.Variants, s.Seeds, s.From = from.Variants, 1, filepath.Join(from.Dir, "learned-seed0")
	s.Progress = func(string) func(engine.Progress) { return func(engine.Progress) { steps++ } }
	s.Tasks[0].Parts, s.Tasks[0].Origin = [2]string{"some", "all"}, "elsewhere"
	s.Tasks[0].Recipe.Model = vit.Config{}
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, _ error) { return }
	run(t, s)
	for _, row := range gomlxtest.Must(s.results())(t) {
		text := string(row.Settings)
		for _, want := range []string{`"path":"learned-seed0"`, `"origin":"elsewhere"`, s.sha256} {
			if !strings.Contains(text, want) || want == "" {
				t.Errorf("%s lacks %q", text, want)
			}
		}
	}
	if steps != 2 { // 28 images in batches of 10
		t.Errorf("%d steps were reported", steps)
	}
	s.Dir, s.Tasks[0].Recipe.Augment.Std = t.TempDir(), [3]float64{1e-40, 1e-40, 1e-40} // the training diverges
	run(t, s)
	for _, row := range gomlxtest.Must(s.results())(t) {
		if text := string(row.Settings); row.Failed == "" || !strings.Contains(text, `"from":{"sha256":"`+s.sha256) {
			t.Errorf("failed %q: %s does not name the weights", row.Failed, text)
		}
	}
}

func TestAPretrainedModelNeedsNoHead(t *testing.T) {
	s := small(t)
	s.From = fixtures.Dir(t, "dinov2_tiny")
	s.Tasks[0].Parts, s.Tasks[0].Images = [2]string{"some", "all"}, nil // on a machine without images
	if run(t, s); len(s.sha256) != 64 {
		t.Errorf("weights of SHA-256 %q", s.sha256)
	}
}

// runWith runs the study again with a change.
func (s *Study) runWith(t *testing.T, change func(*Study)) error {
	t.Helper()
	other := *s
	other.Tasks = append([]Task(nil), s.Tasks...)
	change(&other)
	return other.Run(t.Context())
}

func TestAnEncodingWithoutVectorsHasNoFigure(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds, s.Sizes = Each("none"), 1, [][2]int{{16, 16}, {24, 16}}
	run(t, s)
	table := gomlxtest.Must(s.Table())(t)
	if len(table.Rows) != 2 || table.Rows[0][0] != "small 16x16" || table.Rows[1][0] != "small 24x16" {
		t.Errorf("two sizes are the lines %q", table.Rows)
	}
	for _, u := range gomlxtest.Must(s.Units(nil))(t) {
		m := gomlxtest.Must(finetune.Open(s.Backend, u.Dir))(t)
		if c := m.Recipe.Model; [2]int{c.ImageRows, c.ImageCols} != u.Size {
			t.Errorf("%s is a model of %d×%d", u, c.ImageRows, c.ImageCols)
		}
	}
}

// If the training runs cannot be listed, nothing is trained, tabulated or drawn.
func TestUnknownSettingsAreAnErrorEverywhere(t *testing.T) {
	for _, parts := range [][2]string{{}, {"some", "all"}} {
		s := small(t)
		s.Variants[1].Settings, s.Tasks[0].Parts = "learning_rat=1", parts
		for name, call := range map[string]func() error{
			"Run": func() error { return s.Run(t.Context()) }, "Validate": s.Validate,
			"Table":   func() error { _, err := s.Table(); return err },
			"Curves":  func() error { _, err := s.Curves(); return err },
			"Listing": func() error { _, err := s.Listing(); return err },
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), "learning_rat") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s := small(t)
	s.Sweep = "learning_rate=0.1,fast" // not a number
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "learned: finetune: ") {
		t.Errorf("a sweep over words: %v", err)
	}
}

// A table without the rows that cannot be read would compare fewer training runs than there are.
func TestRowsThatCannotBeReadAreAnErrorEverywhere(t *testing.T) {
	s, recorded := small(t), small(t)
	s.EvalSizes, recorded.Tasks[0].Parts = [][2]float64{{1, 1}}, [2]string{"some", "all"}
	call := map[string]func(*Study) error{
		"Table":   func(s *Study) error { _, err := s.Table(); return err },
		"Curves":  func(s *Study) error { _, err := s.Curves(); return err },
		"Listing": func(s *Study) error { _, err := s.Listing(); return err },
		"Run":     func(s *Study) error { return s.Run(t.Context()) },
		"other sizes": func(s *Study) error {
			u := gomlxtest.Must(s.Units(nil))(t)[0]
			_, test, err := s.Tasks[0].Images(t.Context(), u)
			return errors.Join(err, s.multiResolution(t.Context(), u, report.Result{Settings: []byte("{}")}, test))
		},
		"Merge into": func(s *Study) error { return s.Merge([]string{t.TempDir()}) },
		"Merge of": func(s *Study) error {
			other := *s
			other.Dir = t.TempDir()
			return other.Merge([]string{s.Dir})
		},
	}
	for _, c := range []struct {
		study *Study
		file  string
		calls []string
	}{
		{s, "learned-seed1/" + engine.RowsFile, []string{"Table", "Curves"}},
		{s, "learned-seed0/" + multiResolutionFile, []string{"Table", "Curves", "other sizes"}},
		{recorded, recordOf(Shard{}), []string{"Table", "Listing", "Run", "Merge into", "Merge of"}},
	} {
		c.study.Dir = t.TempDir()
		if err := os.MkdirAll(filepath.Join(c.study.Dir, c.file), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.calls {
			if err := call[name](c.study); err == nil || !strings.Contains(err.Error(), filepath.FromSlash(c.file)) {
				t.Errorf("%s, %s is a directory: %v", name, c.file, err)
			}
		}
	}
	s.Dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(s.Dir, recordOf(Shard{})), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := call["Listing"](s); err != nil {
		t.Errorf("a study without a record reads one: %v", err)
	}
	s.Dir = t.TempDir()
	if err := call["other sizes"](s); err == nil || !strings.Contains(err.Error(), "model.patch_size") {
		t.Errorf("a row without patches: %v", err)
	}
}

// Two rows of one record, of the same task, encoding and part of the images.
func TestARecordOfDifferentImagesOrWeightsIsNotTabulated(t *testing.T) {
	const weights, others = `{"from":{"sha256":"a1"},"data":"x"}`, `{"from":{"sha256":"b2"},"data":"x"}`
	for _, c := range []struct {
		settings [2]string
		failed   string // of the second row
		want     string
	}{
		{[2]string{weights, weights}, "", ""},
		{[2]string{weights, `{"from":{"sha256":"a1"},"data":"y"}`}, "", "seed 1 on all was trained on other images"},
		{[2]string{weights, `{"from":{"sha256":"a1"},"data":"x","measured":"m"}`}, "", ""}, // an older row does not say
		{[2]string{`{"data":"x","measured":"m"}`, `{"data":"x","measured":"n"}`}, "",
			"seed 1 on all was measured on other images"},
		{[2]string{weights, others}, "", "learned seed 1 on all started from weights of SHA-256 b2, not a1"},
		{[2]string{weights, `{"data":"x"}`}, "", "weights of SHA-256 none, not a1"},
		{[2]string{weights, `{"data":"x"}`}, "diverged", ""}, // older failed rows have no weights
		{[2]string{weights, others}, "diverged", "weights of SHA-256 b2, not a1"},
	} {
		s := small(t)
		s.Tasks[0].Name, s.Tasks[0].Parts, s.Variants = "where", [2]string{"some", "all"}, Each("learned")
		for i, u := range gomlxtest.Must(s.Units(nil))(t) {
			row := report.Result{ID: u.ID, Settings: []byte(c.settings[i]), Test: report.Metrics{Top1: 0.5, Images: 17}}
			row.Failed = []string{"", c.failed}[i]
			if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{})), row); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Table(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v, want %q", c.settings, c.failed, err, c.want)
		}
		into := *s
		into.Dir = t.TempDir()
		err := into.Merge([]string{s.Dir})
		if names, _ := os.ReadDir(into.Dir); (err == nil) != (len(names) == 1) ||
			err != nil && !strings.Contains(err.Error(), c.want) || (err == nil) != (c.want == "") {
			t.Errorf("%q, %q: merging writes %v, %v, want %q", c.settings, c.failed, names, err, c.want)
		}
	}
}

func TestAFailedMeasurementLeavesNoRow(t *testing.T) {
	gomlxtest.OnGo(t)
	s := small(t)
	s.Variants, s.Seeds, s.Tasks[0].Parts = Each("none"), 1, [2]string{"some", "all"}
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, err error) {
		return m, "", os.ErrPermission
	}
	if err := s.Run(t.Context()); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v, want the measurement's", err)
	}
	if done := gomlxtest.Must(s.results())(t); len(done) != 0 {
		t.Errorf("rows %v", done)
	}
	record := filepath.Join(s.Dir, recordOf(Shard{}))
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, err error) {
		return m, "", os.Mkdir(record, 0o755)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), record) || !strings.HasPrefix(err.Error(),
		"none seed 0") {
		t.Errorf("a record that cannot be written: %v", err)
	}
}

func TestTheBaselineIsNamedOrLearnedOrTheLast(t *testing.T) {
	for want, s := range map[string]Study{
		"learned": {Variants: Each("wepe", "learned", "none")}, "none": {Variants: Each("wepe", "none")},
		"wepe": {Variants: Each("wepe", "learned", "none"), Baseline: "wepe"}, "": {Variants: Each("wepe")},
	} {
		if got := s.baseline(); got != want {
			t.Errorf("baseline %q, want %q", got, want)
		}
	}
}
