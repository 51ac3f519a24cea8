// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
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
	recipe := gomlxtest.Must(finetune.RecipeByName("shapes"))(t)
	s := &Study{Dir: t.TempDir(), Variants: Variants("learned", "hybrid"), Seeds: 3, Sweep: "learning_rate=0.1,0.2",
		Parts: [2]string{"some", "all"}}
	for _, name := range []string{"dtd", "kitti"} {
		s.Tasks = append(s.Tasks, Task{Name: name, Recipe: recipe,
			Images:  func(context.Context, Unit) (p data.Splits, err error) { return },
			Measure: func(context.Context, Unit, *finetune.Model) (m report.Metrics, _ string, _ error) { return }})
	}
	return s
}

// units lists the units that choose settings, and the final ones.
func units(t *testing.T, s *Study, done results) (searches, finals []Unit) {
	t.Helper()
	all := gomlxtest.Must(s.units(done))(t)
	for _, u := range all {
		if u.Search {
			searches = append(searches, u)
		} else {
			finals = append(finals, u)
		}
	}
	return searches, finals
}

// measured adds the rows of all searches, with an accuracy; a negative one diverged.
func measured(t *testing.T, s *Study, done results, top1 func(u Unit) float64) {
	t.Helper()
	searches, _ := units(t, s, done)
	for _, u := range searches {
		row := report.Result{ID: u.id, Validation: report.Metrics{Top1: report.JSONFloat(top1(u)), Images: 200}}
		if row.Validation.Top1 < 0 {
			row = report.Result{ID: u.id, Failed: "diverged"}
		}
		done[u.id] = row
	}
}

// Names from before this package existed: records and directories remain valid.
func TestUnits_AreTheSameOnEveryMachineAndOfEarlierVersions(t *testing.T) {
	s := planned(t)
	searches, finals := units(t, s, nil)
	ids := map[string]bool{}
	for _, u := range searches {
		ids[u.id] = true
	}
	if len(searches) != 24 || len(ids) != 24 || finals[0].id != "" { // whose setting is open
		t.Errorf("%d searches with %d names, want tasks × positions × settings × seeds = 24", len(searches), len(ids))
	}
	other := *s
	other.Shard = Shard{Index: 4, Of: 5}
	other.Dir, other.From = "elsewhere", "/other/model.npz"
	again, _ := units(t, &other, nil)
	for k := range searches {
		if again[k].id != searches[k].id || again[k].String() != searches[k].String() || again[k].shard != k%5 {
			t.Errorf("unit %d is %v of shard %d there, %v here", k, again[k], again[k].shard, searches[k])
		}
	}
	for unit, want := range map[*Unit]string{
		&searches[1]:  "dtd/learned-seed1-some-52dea76e44ed", // by commit c080d19
		&searches[23]: "kitti/hybrid-seed2-some-" + searches[23].id,
	} {
		if got := gomlxtest.Must(filepath.Rel(s.Dir, unit.Dir))(t); got != want {
			t.Errorf("%v lives in %s, want %s", unit, got, want)
		}
	}
	other.Tasks = slices.Clone(s.Tasks)
	for i := range other.Tasks {
		other.Tasks[i].Recipe.Epochs++
	}
	other.FirstSeed = 7
	if again, _ = units(t, &other, nil); ids[again[0].id] || again[0].Seed != 7 || again[2].Seed != 9 {
		t.Errorf("another recipe has the units %v to %v", again[0], again[2])
	}
	s.Fractions = []float64{0.5, 1}
	parts, _ := units(t, s, nil)
	for _, u := range parts {
		ids[u.id] = true
	}
	if len(parts) != 48 || len(ids) != 48 {
		t.Errorf("two fractions of 24 units have %d names", len(ids))
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
	train, test, err := data.Shapes("where", 31, 17, 16, 0) // a fraction is the images of seed 42
	gomlxtest.NoError(t, err)
	part, err := Sets(train, test)(t.Context(), Unit{Fraction: 0.4})
	want := gomlxtest.Must(data.Fraction(train, 0.4, 42))(t)
	if err != nil || part.Test != test || !reflect.DeepEqual(part.Train, want) {
		t.Errorf("%v, %v, other images", part, err)
	}
}

// By its mean over all seeds, on validation images; never one that diverges.
func TestUnits_ChooseTheSetting(t *testing.T) {
	s, done := planned(t), results{}
	accuracies := map[string]map[string][]float64{
		"dtd learned": {"0.1": {0.5, 0.6, 0.7}, "0.2": {0.9, 0.4, 0.4}}, // 0.2 has the best seed, 0.1 the best mean
		"dtd hybrid":  {"0.1": {0, 0, 0}, "0.2": {0, 0, 0}},             // equal: the first
		// 0.2 is best by its first seed.
		"kitti learned": {"0.1": {0.2, 0.4, 0.4}, "0.2": {0.9, 0.2, 0.2}},
		"kitti hybrid":  {"0.1": {0.1, 0.1, 0.1}, "0.2": {0.9, -1, 0.9}},
	}
	top1 := func(u Unit) float64 {
		return accuracies[u.Task.Name+" "+u.Position][strings.TrimPrefix(u.Setting, "learning_rate=")][u.Seed]
	}
	measured(t, s, done, top1)
	_, finals := units(t, s, done)
	if len(finals) != 12 {
		t.Errorf("%d training runs count, want tasks × positions × seeds = 12", len(finals))
	}
	for _, f := range finals {
		want := 0.1
		if f.Task.Name == "kitti" && f.Position == "learned" {
			want = 0.2
		}
		if f.Recipe.LearningRate != want || f.Setting != fmt.Sprintf("learning_rate=%g", want) || f.waits != 0 {
			t.Errorf("%v trains with %g, want %g", f, f.Recipe.LearningRate, want)
		}
	}
	accuracies["kitti hybrid"]["0.1"][0], accuracies["kitti learned"] = -1, map[string][]float64{
		"0.1": {-1, 0, 0}, "0.2": {0, 0, -1}}
	measured(t, s, done, top1)
	_, finals = units(t, s, done)
	if last := finals[11]; !last.failed || last.waits != 0 || last.id != "" {
		t.Errorf("of settings that all diverged %v", last)
	}
	for _, row := range done {
		s.write(t, row)
	}
	states := map[string]int{}
	for _, row := range gomlxtest.Must(s.Listing())(t).Rows {
		states[row[len(row)-1]]++
	}
	// Of 24 searches 4 failed; 2 encodings of kitti have no setting for 3 seeds each, 6 runs of dtd are left to do.
	if !reflect.DeepEqual(states, map[string]int{"failed": 4, "done": 20, "no setting": 6, "to do": 6}) {
		t.Errorf("states %v", states)
	}
	for _, f := range finals[:6] { // dtd
		s.write(t, report.Result{ID: f.id, Test: report.Metrics{Top1: 0.5, Images: 7}})
	}
	if got := lines(t, s, 4); !slices.Contains(got, "dtd|7|50.00 (50.00 … 50.00)|50.00 (50.00 … 50.00)") ||
		!slices.Contains(got, "kitti|–|failed|failed") {
		t.Errorf("lines %q", got)
	}
}

func TestNext_WaitsForTheSettingsOfAllShards(t *testing.T) {
	s, done := planned(t), results{}
	measured(t, s, done, func(Unit) float64 { return 0.5 })
	searches, _ := units(t, s, done)
	s.Shard = Shard{Index: 0, Of: 2}
	delete(done, searches[1].id) // dtd learned, of shard 1
	next, waits, err := s.next(done, nil)
	if err != nil || next == nil || next.Search || next.Task.Name != "kitti" || next.Position != "learned" {
		t.Errorf("next %v, %v, want the first training on all images of kitti learned", next, err)
	}
	for next != nil { // run all that is possible
		done[next.id] = report.Result{ID: next.id, Test: report.Metrics{Top1: 0.5, Images: 7}}
		next, waits, err = s.next(done, nil)
		gomlxtest.NoError(t, err)
	}
	if waits != 3 { // of dtd learned this shard has all seeds
		t.Errorf("%d training runs wait, want 3", waits)
	}
	for _, row := range done {
		s.write(t, row)
	}
	if err := s.Run(t.Context()); !errors.Is(err, ErrPending) {
		t.Errorf("a training of another shard is missing: %v", err)
	}
	s.Tasks[0].Images = nil
	if next, waits, err = s.next(done, nil); next != nil || waits != 0 || err != nil {
		t.Errorf("without data: next %v, %d wait, %v", next, waits, err)
	}
}

// Of two rows of one unit the one that was finished first counts; rows without a name are of no unit.
func TestMerge_JoinsRowsOnceInAnyOrder(t *testing.T) {
	machine := func(rows ...report.Result) string {
		s := planned(t)
		s.write(t, rows...)
		return s.Dir
	}
	row := func(id, date string, steps int) report.Result { return report.Result{Date: date, ID: id, Steps: steps} }
	first := machine(row("a", "2026-01-02", 1), row("b", "2026-01-01", 2), row("", "2026-01-01", 9))
	second := machine(row("c", "2026-01-01", 3), row("a", "2026-01-01", 4), row("a", "2026-01-03", 5))
	for _, order := range [][]string{{first, second}, {second, first}, {second, first, first}} {
		s := planned(t)
		for range 2 { // the second time there is nothing to merge
			gomlxtest.NoError(t, s.Merge(order))
		}
		var got string
		for _, r := range gomlxtest.Must(report.ReadFiles(filepath.Join(s.Dir, recordOf(Shard{}))))(t).Results {
			got += fmt.Sprint(r.ID, r.Steps, " ")
		}
		if got != "a4 b2 c3 " { // by date, then name; the earlier a
			t.Errorf("joined %q", got)
		}
	}
	for name, dirs := range map[string][2]string{"an empty directory": {t.TempDir(), t.TempDir()},
		"below a file": {filepath.Join(first, recordOf(Shard{}), "x"), first}} {
		s := planned(t)
		s.Dir = dirs[0]
		if err := s.Merge(dirs[1:]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestValidate_Refusals(t *testing.T) {
	for name, change := range map[string]func(*Study){
		"":                            func(*Study) {},
		"a variant twice":             func(s *Study) { s.Variants = Variants("wepe", "none", "wepe") },
		"a size twice":                func(s *Study) { s.Sizes = [][2]int{{8, 8}, {8, 8}} },
		"a fraction twice":            func(s *Study) { s.Fractions = []float64{0.5, 5e-1} },
		"more than all":               func(s *Study) { s.Fractions = []float64{1.5} },
		"no images":                   func(s *Study) { s.Fractions = []float64{0} },
		"no variants":                 func(s *Study) { s.Variants = nil },
		"no seeds":                    func(s *Study) { s.Seeds = 0 },
		"no tasks":                    func(s *Study) { s.Tasks = nil },
		"a task twice":                func(s *Study) { s.Tasks[1].Name = "dtd" },
		"an unknown baseline":         func(s *Study) { s.Spec.Baseline = "wepe" },
		"a record of no measures":     func(s *Study) { s.Tasks[1].Measure = nil },
		"a sweep without a record":    func(s *Study) { s.Sweep, s.Parts = "batch_size=3,5", [2]string{} },
		"one file name of two labels": func(s *Study) { s.Variants = []Variant{{"wepe", "a 1", ""}, {"none", "a=1", ""}} },
		"an unknown encoding":         func(s *Study) { s.Variants = Variants("nowhere") },
		"an unknown aspect":           func(s *Study) { s.Aspects = []string{"stretch"} },
		"a recipe without a name":     func(s *Study) { s.Tasks[0].Recipe.LearningRate = math.NaN() }, // its hash
	} {
		s := planned(t)
		s.Sweep, s.Seeds, s.Fractions = "", 1, []float64{1}
		if strings.HasPrefix(name, "one file") {
			s.Parts = [2]string{}
		}
		change(s)
		if err := s.Validate(); (err != nil) != (name != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The width of a model that is not open yet has to fit the encodings: 64 per head.
	s := small(t)
	s.Variants = Variants("rope-axial", "sincos2d") // of heads of a multiple of 4 channels, of a width of a multiple of 4
	for _, heads := range []int{0, 1, 3} {
		s.Tasks[0].Recipe.Model.Width, s.Tasks[0].Recipe.Model.Heads, s.Tasks[0].Recipe.Model.Depth = 0, heads, 0
		if err := s.Validate(); err != nil {
			t.Errorf("%d heads: %v", heads, err)
		}
	}
}
