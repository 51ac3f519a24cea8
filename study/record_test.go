// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
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
	gomlxtest.NoError(t, err)
	dir, paths := t.TempDir(), make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("%d.png", i)
		f := gomlxtest.Must(os.Create(filepath.Join(dir, paths[i])))(t)
		gomlxtest.NoError(t, png.Encode(f, set.RGBA(i)))
		f.Close()
	}
	return gomlxtest.Must(data.NewFiles(name, dir, paths, set.Labels, set.Classes))(t)
}

// recorded is small with a record and no metrics.
func recorded(t *testing.T) *Study {
	t.Helper()
	s := small(t)
	s.Variants, s.Seeds, s.Parts = Variants("learned"), 1, [2]string{"some", "all"}
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
	task.FromFiles(training, testing, slog.New(slog.DiscardHandler))
	s.Seeds, s.Keep, s.Sweep = 1, true, "learning_rate=0.001,0.01"
	run(t, s)
	units, done, err := s.finished()
	if err != nil || len(units) != 6 || len(done) != 6 {
		t.Fatalf("%d units, %d rows, %v", len(units), len(done), err)
	}
	fit := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{16, 16}}
	all := gomlxtest.Must(testing[1].Load(t.Context(), fit, slog.New(slog.DiscardHandler)))(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, u := range units {
		row := done[u.id]
		_, last := os.Stat(filepath.Join(u.Dir, checkpoints.LastDir))
		_, best := os.Stat(filepath.Join(u.Dir, checkpoints.BestDir))
		if _, err := os.Stat(filepath.Join(u.Dir, engine.LogFile)); err != nil || (best == nil) == u.Search ||
			(last == nil) == u.Search {
			t.Errorf("%s: last %v, best %v, log %v", u, last, best, err)
		}
		if u.Search {
			if row.Validation.Images != 13 || row.Test.Images != 0 || row.Dataset != "some" {
				t.Errorf("%s: validation %+v, test %+v, %s", u, row.Validation, row.Test, row.Dataset)
			}
			continue
		}
		m := gomlxtest.Must(finetune.Open(s.Backend, u.Dir))(t)
		if _, _, err := task.Measure(ended, u, m); !errors.Is(err, engine.ErrInterrupted) {
			t.Errorf("interrupted: %v", err)
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
		m.Finalize()
	}
	u := units[0]
	if _, err := task.Images(ended, u); !errors.Is(err, engine.ErrInterrupted) {
		t.Errorf("images of which reading was interrupted: %v", err)
	}
	u.Recipe.Augment.Size = [2]int{8, 24} // images of another size are read again
	again, err := task.Images(t.Context(), u)
	if info := again.Train.Describe(); err != nil || info.Height != 8 || info.Width != 24 {
		t.Errorf("%+v, %v", info, err)
	}
	for name, change := range map[string]func(*Study){
		"another seed": func(*Study) {},
		"trained on other images": func(o *Study) {
			o.Tasks[0].FromFiles([2]*data.Files{files(t, "some", 20, 5), training[1]}, testing, slog.New(slog.DiscardHandler))
		},
		"measured on other images": func(o *Study) {
			o.Tasks[0].FromFiles(training, [2]*data.Files{files(t, "validation", 13, 5), testing[1]},
				slog.New(slog.DiscardHandler))
		},
		"from other weights": func(o *Study) { o.From = units[len(units)-1].Dir },
	} {
		other := *s
		other.Dir, other.Tasks, other.Seeds = t.TempDir(), slices.Clone(s.Tasks), 2
		gomlxtest.NoError(t, os.CopyFS(other.Dir, os.DirFS(s.Dir)))
		change(&other)
		if err := other.Run(t.Context()); (err == nil) != (name == "another seed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Records are published: they contain only the last element of a model's path.
func TestRun_RowNamesThePretrainedModelWithoutItsDirectory(t *testing.T) {
	gomlxtest.OnGo(t)
	from := small(t)
	from.Variants, from.Seeds = Variants("learned"), 1
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
		if s.From, s.Dir = file, t.TempDir(); !errors.Is(s.Run(t.Context()), want) {
			t.Errorf("%s: want %v", file, want)
		}
	}
	if s.From, s.Parts = "gone", [2]string{}; s.Run(t.Context()) != nil {
		t.Error("without a record a model is read that is not needed")
	}
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
		if names, _ := os.ReadDir(into.Dir); (table != nil) != c.refused || (merged != nil) != c.refused ||
			(len(names) == 0) != c.refused {
			t.Errorf("%s, %s, failed %q: table %v, merge %v writes %v", c.first, c.second, c.failed, table, merged, names)
		}
	}
}

func TestRun_FailedMeasurementLeavesNoRow(t *testing.T) {
	gomlxtest.OnGo(t)
	s := recorded(t)
	record := filepath.Join(s.Dir, recordOf(Shard{}))
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, err error) {
		return m, "", fs.ErrPermission
	}
	if err := s.Run(t.Context()); !errors.Is(err, fs.ErrPermission) || len(gomlxtest.Must(s.results())(t)) != 0 {
		t.Errorf("%v, want the measurement's and no row", err)
	}
	s.Tasks[0].Measure = func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, err error) {
		return m, "", os.Mkdir(record, 0o755)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), record) {
		t.Errorf("a record that cannot be written: %v", err)
	}
}
