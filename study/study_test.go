// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

// planned is a study of two tasks, two encodings, three seeds and two learning rates, with a record.
func planned(t *testing.T) *Study {
	t.Helper()
	recipe := gomlxtest.Must(finetune.Named("shapes"))(t)
	s := &Study{Dir: t.TempDir(), Variants: Each("learned", "hybrid"), Seeds: 3, Sweep: "learning_rate=0.1,0.2"}
	for _, name := range []string{"dtd", "kitti"} {
		s.Tasks = append(s.Tasks, Task{Name: name, Recipe: recipe, Parts: [2]string{"some", "all"},
			Images:  func(context.Context, Unit) (_, _ data.Source, err error) { return nil, nil, nil },
			Measure: func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, _ error) { return }})
	}
	return s
}

// units lists the units that choose settings, and the final ones.
func units(t *testing.T, s *Study, done results) (searches, finals []Unit) {
	t.Helper()
	all := gomlxtest.Must(s.Units(done))(t)
	for _, u := range all {
		if u.Search {
			searches = append(searches, u)
		} else {
			finals = append(finals, u)
		}
	}
	return searches, finals
}

// measured adds the rows of all searches, with an accuracy by setting and seed.
func measured(t *testing.T, s *Study, done results, top1 func(u Unit) float64) {
	t.Helper()
	searches, _ := units(t, s, done)
	for _, u := range searches {
		done[u.ID] = report.Result{ID: u.ID,
			Validation: report.Metrics{Top1: report.Number(top1(u)), Images: 200}}
	}
}

func TestUnitsAreTheSameOnEveryMachine(t *testing.T) {
	s := planned(t)
	searches, _ := units(t, s, nil)
	ids := map[string]bool{}
	for _, u := range searches {
		ids[u.ID] = true
	}
	if len(searches) != 24 || len(ids) != 24 {
		t.Errorf("%d searches with %d names, want tasks × positions × settings × seeds = 24", len(searches), len(ids))
	}
	other := *s
	other.Shard = Shard{Index: 4, Of: 5}
	other.Dir, other.From = "elsewhere", "/other/model.npz"
	again, _ := units(t, &other, nil)
	for k := range searches {
		if again[k].ID != searches[k].ID || again[k].String() != searches[k].String() || again[k].Shard != k%5 {
			t.Errorf("unit %d is %v of shard %d there, %v here", k, again[k], again[k].Shard, searches[k])
		}
	}
	if got := searches[3].String(); got != "dtd learned seed 0 on some learning_rate=0.2" {
		t.Errorf("title %q", got)
	}
	other.Tasks = []Task{s.Tasks[0], s.Tasks[1]}
	for i := range other.Tasks {
		other.Tasks[i].Recipe.Epochs++
	}
	other.FirstSeed = 7
	if again, _ = units(t, &other, nil); ids[again[0].ID] || again[0].Seed != 7 || again[2].Seed != 9 {
		t.Errorf("another recipe has the units %v to %v", again[0], again[2])
	}
}

// Names from before this package existed: records and directories remain valid.
func TestTheDirectoriesOfEarlierVersionsGoOn(t *testing.T) {
	s := planned(t)
	searches, finals := units(t, s, nil)
	for _, c := range []struct {
		unit Unit
		want string
	}{
		{searches[1], "dtd/learned-seed1-some-52dea76e44ed"}, // by commit c080d19
		{searches[23], "kitti/hybrid-seed2-some-" + searches[23].ID},
	} {
		if got, err := filepath.Rel(s.Dir, c.unit.Dir); err != nil || got != c.want {
			t.Errorf("%v lives in %s, %v, want %s", c.unit, got, err, c.want)
		}
	}
	s.Fractions = []float64{0.5, 1}
	ids := map[string]bool{}
	parts, _ := units(t, s, nil)
	for _, u := range parts {
		ids[u.ID] = true
	}
	if len(parts) != 48 || len(ids) != 48 || !ids["52dea76e44ed"] {
		t.Errorf("two fractions of 24 units have %d names", len(ids))
	}
	if finals[0].ID != "" {
		t.Errorf("a training run whose setting is open has the name %s", finals[0].ID)
	}
	plain := Study{Dir: "d", Tasks: []Task{{Recipe: s.Tasks[0].Recipe}}, Sizes: [][2]int{{24, 32}},
		Fractions: []float64{0.2, 1}, Seeds: 2, Variants: []Variant{{"hybrid", "hybrid β = 0.2, γ = 0.5", ""}}}
	_, finals = units(t, &plain, nil)
	for k, want := range []string{"hybrid-β-0.2-γ-0.5-24x32-fraction0.2-seed0", "hybrid-β-0.2-γ-0.5-24x32-seed0",
		"hybrid-β-0.2-γ-0.5-24x32-fraction0.2-seed1"} {
		if got := filepath.Base(finals[k].Dir); got != want || finals[k].Recipe.Name != "shapes 24x32" {
			t.Errorf("unit %d, %v, lives in %s, want %s", k, finals[k], got, want)
		}
	}
	if got := finals[2].String(); got != "hybrid β = 0.2, γ = 0.5 24x32 on 0.2 seed 1" {
		t.Errorf("title %q", got)
	}
}

// Rows of fractions before this test were of these images.
func TestAFractionIsTheImagesOfSeed42(t *testing.T) {
	train, test, err := data.Shapes("where", 31, 17, 16, 0)
	if err != nil {
		t.Fatal(err)
	}
	part, rest, err := Sets(train, test)(t.Context(), Unit{Fraction: 0.4})
	want := gomlxtest.Must(data.Fraction(train, 0.4, 42))(t)
	if err != nil || rest != test || !reflect.DeepEqual(part, want) {
		t.Errorf("%v, %v, other images", part, err)
	}
}

func TestTheSettingIsChosenByItsMeanOverAllSeedsOnVal200(t *testing.T) {
	s, done := planned(t), results{}
	measured(t, s, done, func(u Unit) float64 {
		switch {
		case u.Task.Name == "dtd": // 0.2 has the best seed, 0.1 the best mean
			return map[string][]float64{
				"learning_rate=0.1": {0.5, 0.6, 0.7}, "learning_rate=0.2": {0.9, 0.4, 0.4},
			}[u.Setting][u.Seed]
		case u.Position == "learned":
			return map[string][]float64{ // 0.2 is best by its first seed
				"learning_rate=0.1": {0.2, 0.4, 0.4}, "learning_rate=0.2": {0.9, 0.2, 0.2},
			}[u.Setting][u.Seed]
		}
		return 0 // equal: the first
	})
	_, finals := units(t, s, done)
	if len(finals) != 12 {
		t.Errorf("%d training runs count, want tasks × positions × seeds = 12", len(finals))
	}
	for _, f := range finals {
		want := 0.1
		if f.Task.Name == "kitti" && f.Position == "learned" {
			want = 0.2
		}
		if f.Recipe.LearningRate != want || f.Setting != fmt.Sprintf("learning_rate=%g", want) || f.Waits != 0 {
			t.Errorf("%v trains with %g, want %g", f, f.Recipe.LearningRate, want)
		}
	}
}

func TestAListingSaysWhichSettingsAreToBeChosen(t *testing.T) {
	s := planned(t)
	s.Tasks, s.Variants, s.Seeds, s.Shard = s.Tasks[:1], Each("learned"), 1, Shard{Index: 0, Of: 2}
	searches, _ := units(t, s, nil)
	var text string
	for i, want := range []string{"to be chosen", "to be chosen", "learning_rate=0.1"} { // after i training runs
		listing := gomlxtest.Must(s.Listing())(t)
		if text = listing.Text(); listing.Rows[2][4] != want {
			t.Errorf("after %d of 2 training runs %q, want %q", i, listing.Rows[2], want)
		}
		if i == 1 { // shard 1 is to train the other setting
			if err := s.Run(t.Context()); !errors.Is(err, Waiting(1)) {
				t.Errorf("a training of another shard is missing: %v", err)
			}
		}
		if i < 2 {
			if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{})), report.Result{ID: searches[i].ID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := `training  task  position  seed  setting            shard  state
────────  ────  ────────  ────  ─────────────────  ─────  ─────
some      dtd   learned      0  learning_rate=0.1    0/2  done
some      dtd   learned      0  learning_rate=0.2    1/2  done
all       dtd   learned      0  learning_rate=0.1    0/2  to do
2 training runs on some, 1 on all; this is shard 0/2
`; text != want {
		t.Errorf("listing\n%swant\n%s", text, want)
	}
	s.Tasks[0].Images = nil
	if listing := gomlxtest.Must(s.Listing())(t); listing.Rows[2][6] != "no data" {
		t.Errorf("without images %q", listing.Rows[2])
	}
}

func TestATrainingWaitsForTheSettingsOfAllShards(t *testing.T) {
	s, done := planned(t), results{}
	measured(t, s, done, func(Unit) float64 { return 0.5 })
	searches, _ := units(t, s, done)
	s.Shard = Shard{Index: 0, Of: 2}
	delete(done, searches[1].ID) // dtd learned, of shard 1
	next, waits, err := s.next(done, nil)
	if err != nil || next == nil || next.Search || next.Task.Name != "kitti" || next.Position != "learned" {
		t.Errorf("next %v, %v, want the first training on all images of kitti learned", next, err)
	}
	for next != nil { // run all that is possible
		done[next.ID] = report.Result{Test: report.Metrics{Top1: 0.5, Images: 7}}
		if next, waits, err = s.next(done, nil); err != nil {
			t.Fatal(err)
		}
	}
	if waits != 3 { // of dtd learned this shard has all seeds
		t.Errorf("%d training runs wait, want 3", waits)
	}
	s.Tasks[0].Images = nil
	if next, waits, err = s.next(done, nil); next != nil || waits != 0 || err != nil {
		t.Errorf("without data: next %v, %d wait, %v", next, waits, err)
	}
}

func TestASettingThatDivergesIsNotChosen(t *testing.T) {
	s, done := planned(t), results{}
	measured(t, s, done, func(u Unit) float64 { return u.Recipe.LearningRate }) // 0.2 is the best
	searches, _ := units(t, s, done)
	fail := func(setting string) {
		for _, u := range searches {
			if u.Task.Name == "kitti" && u.Seed == 1 && u.Setting == setting {
				done[u.ID] = report.Result{ID: u.ID, Failed: "diverged"}
			}
		}
	}
	fail("learning_rate=0.2")
	_, finals := units(t, s, done)
	if last := finals[11]; last.Position != "hybrid" || last.Setting != "learning_rate=0.1" {
		t.Errorf("chose %v", last)
	}
	fail("learning_rate=0.1")
	_, finals = units(t, s, done)
	if last := finals[11]; !last.Failed || last.Waits != 0 || last.ID != "" {
		t.Errorf("of settings that all diverged %v", last)
	}
	for _, row := range done {
		if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{})), row); err != nil {
			t.Fatal(err)
		}
	}
	listing := gomlxtest.Must(s.Listing())(t)
	states := map[string]int{}
	for _, row := range listing.Rows {
		states[row[len(row)-1]]++
	}
	// Of 24 searches 4 failed, 2 encodings of kitti have no setting for 3 seeds each, 6 of dtd are left to do.
	if states["failed"] != 4 || states["done"] != 20 || states["no setting"] != 6 || states["to do"] != 6 {
		t.Errorf("states %v", states)
	}

	for _, f := range finals[:6] { // dtd
		if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{})), report.Result{ID: f.ID, ImageSize: "24x40",
			Steps: 17, Settings: []byte(`{"model":{"width":12},"batch_size":5}`),
			Test: report.Metrics{Top1: 0.5, Images: 7}}); err != nil {
			t.Fatal(err)
		}
	}
	table, err := s.Table()
	notes := strings.Join(table.Notes, "\n")
	if err != nil || !strings.Contains(notes, "over the 1 of 19 tasks") ||
		!strings.Contains(notes, "kitti is in no mean (learned: 3 of 3 diverged, hybrid: 3 of 3 diverged)") ||
		!strings.Contains(notes, "width 12, depth 0, patches of 0 at 24x40 px, 17 steps of 5") {
		t.Errorf("table %s, %v", table.Text(), err)
	}
}

func TestATableNamesTheModelOfATrainingThatDidNotDiverge(t *testing.T) {
	s := planned(t)
	s.Tasks, s.Seeds, s.Sweep = s.Tasks[:1], 1, ""
	_, finals := units(t, s, nil)
	for i, failed := range []string{"", "diverged"} {
		if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{})), report.Result{ID: finals[i].ID, Date: "2",
			Failed: failed, ImageSize: "24x40", Steps: 17,
			Settings: fmt.Appendf(nil, `{"model":{"width":%d},"batch_size":5}`, 12+i),
			Test:     report.Metrics{Top1: 0.5, Images: 7}}); err != nil {
			t.Fatal(err)
		}
	}
	table := gomlxtest.Must(s.Table())(t)
	if notes := strings.Join(table.Notes, "\n"); !strings.Contains(notes, "here: width 12, depth 0, patches of 0 at "+
		"24x40 px, 17 steps of 5; compare") {
		t.Errorf("notes %q", notes)
	}
	if err := report.Append(filepath.Join(s.Dir, recordOf(Shard{Index: 1, Of: 2})), report.Result{ID: finals[1].ID,
		Date: "1", ImageSize: "8x8", Steps: 3, Settings: []byte(`{"model":{"width":10}}`)}); err != nil {
		t.Fatal(err)
	}
	table = gomlxtest.Must(s.Table())(t)
	if notes := strings.Join(table.Notes, "\n"); !strings.Contains(notes, "3 steps of 0 in 1 rows, width 12") {
		t.Errorf("notes of two settings: %q", notes)
	}
	var log bytes.Buffer
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	damaged := filepath.Join(s.Dir, recordOf(Shard{Index: 1, Of: 2}))
	if err := os.WriteFile(damaged, []byte("{damaged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if rows, err := s.results(); err != nil || len(rows) != 2 || !strings.Contains(log.String(), "run=record") {
		t.Errorf("a damaged line: %d rows, %v, log %q", len(rows), err, log.String())
	}
}

func TestMergingJoinsRowsOnceInAnyOrder(t *testing.T) {
	row := func(id, date string, top1 float64) report.Result {
		return report.Result{Date: date, ID: id, Test: report.Metrics{Top1: report.Number(top1), Images: 3}}
	}
	into := func(dir string) *Study {
		s := planned(t)
		s.Dir = dir
		return s
	}
	first, second := t.TempDir(), t.TempDir()
	a, b := recordOf(Shard{Index: 0, Of: 2}), recordOf(Shard{Index: 1, Of: 2})
	for path, rows := range map[string][]report.Result{
		filepath.Join(first, a):  {row("a", "2026-01-02", 0.1), row("b", "2026-01-01", 0.2)},
		filepath.Join(second, b): {row("c", "2026-01-01", 0.3), row("a", "2026-01-01", 0.4)},
	} {
		for _, r := range rows {
			if err := report.Append(path, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	var joined []string
	var log bytes.Buffer
	for _, order := range [][]string{{first, second}, {second, first}, {second, first, first}} {
		dir := t.TempDir()
		for range 2 { // the second time there is nothing to merge
			s := into(dir)
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if err := s.Merge(order); err != nil {
				t.Fatal(err)
			}
		}
		rows := gomlxtest.Must(report.ReadFiles(filepath.Join(dir, recordOf(Shard{Of: 1}))))(t)
		var got []string
		for _, r := range rows.Results {
			got = append(got, fmt.Sprint(r.ID, r.Test.Top1))
		}
		joined = append(joined, strings.Join(got, " "))
	}
	for _, got := range joined {
		if got != "a0.4 b0.2 c0.3" { // by date, then name; the earlier a
			t.Errorf("joined %q", joined)
		}
	}
	if got := strings.Count(log.String(), "3 of 3 new rows have other settings"); got != 3 {
		t.Errorf("%d of 3 merges say that no row is of this study: %s", got, log.String())
	}
	err := into(t.TempDir()).Merge([]string{t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "contains no rows") {
		t.Errorf("an empty directory: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err = into(filepath.Join(file, "study")).Merge([]string{first})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("into a directory below a file: %v", err)
	}
}

func TestValidateNamesDuplicatesAndValuesOutOfRange(t *testing.T) {
	valid := func() Study {
		s := planned(t)
		s.Sweep, s.Seeds, s.Fractions = "", 1, []float64{1}
		return *s
	}
	for want, change := range map[string]func(*Study){
		"variant wepe appears twice": func(s *Study) { s.Variants = Each("wepe", "none", "wepe") },
		"size [8 8] appears twice":   func(s *Study) { s.Sizes = [][2]int{{8, 8}, {8, 8}} },
		"fraction 0.5 appears twice": func(s *Study) { s.Fractions = []float64{0.5, 5e-1} },
		"fraction 1.5: want 0 <":     func(s *Study) { s.Fractions = []float64{1.5} },
		"fraction 0: want 0 <":       func(s *Study) { s.Fractions = []float64{0} },
		"0 variants":                 func(s *Study) { s.Variants = nil },
		"0 seeds":                    func(s *Study) { s.Seeds = 0 },
		`"nowhere"`:                  func(s *Study) { s.Variants = Each("nowhere") },
		"stretch":                    func(s *Study) { s.Aspects = []string{"stretch"} },
	} {
		s := valid()
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
