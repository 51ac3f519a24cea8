// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
	is.Equal(t, "searches, names: tasks × positions × settings × seeds", [2]int{len(searches), len(ids)}, [2]int{24, 24})
	is.Equal(t, "a unit whose setting is open", finals[0].id, "")
	other := *s
	other.Shard = Shard{Index: 4, Of: 5}
	other.Dir, other.From = "elsewhere", "/other/model.npz"
	again, _ := units(t, &other, nil)
	for k := range searches {
		is.Equal(t, fmt.Sprint("unit ", k), []any{again[k].id, again[k].String(), again[k].shard},
			[]any{searches[k].id, searches[k].String(), k % 5})
	}
	for unit, want := range map[*Unit]string{
		&searches[1]:  "dtd/learned-seed1-some-52dea76e44ed", // by commit c080d19
		&searches[23]: "kitti/hybrid-seed2-some-" + searches[23].id,
	} {
		is.Equal(t, unit.String(), gomlxtest.Must(filepath.Rel(s.Dir, unit.Dir))(t), want)
	}
	other.Tasks = slices.Clone(s.Tasks)
	for i := range other.Tasks {
		other.Tasks[i].Recipe.Epochs++
	}
	other.FirstSeed = 7
	again, _ = units(t, &other, nil)
	is.Equal(t, "another recipe has known units, and seeds", []any{ids[again[0].id], again[0].Seed, again[2].Seed},
		[]any{false, 7, 9})
	s.Fractions = []float64{0.5, 1}
	parts, _ := units(t, s, nil)
	for _, u := range parts {
		ids[u.id] = true
	}
	is.Equal(t, "units of two fractions, and all names", [2]int{len(parts), len(ids)}, [2]int{48, 48})
	plain := Study{Dir: "d", Tasks: []Task{{Recipe: s.Tasks[0].Recipe}}, Sizes: [][2]int{{24, 32}},
		Fractions: []float64{0.2, 1}, Seeds: 2, Variants: []Variant{{"hybrid", "hybrid β = 0.2, γ = 0.5", ""}}}
	_, finals = units(t, &plain, nil)
	for k, want := range []string{"hybrid-β-0.2-γ-0.5-24x32-fraction0.2-seed0", "hybrid-β-0.2-γ-0.5-24x32-seed0",
		"hybrid-β-0.2-γ-0.5-24x32-fraction0.2-seed1"} {
		is.Equal(t, finals[k].String(), [2]string{filepath.Base(finals[k].Dir), finals[k].Recipe.Name},
			[2]string{want, "shapes 24x32"})
	}
	train, test, err := data.Shapes("where", 31, 17, 16, 0) // a fraction is the images of seed 42
	gomlxtest.NoError(t, err)
	part := gomlxtest.Must(Sets(train, test)(t.Context(), Unit{Fraction: 0.4}))(t)
	is.Equal(t, "part", part, data.Splits{Train: gomlxtest.Must(data.Fraction(train, 0.4, 42))(t), Test: test})
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
	is.Equal(t, "training runs that count: tasks × positions × seeds", len(finals), 12)
	for _, f := range finals {
		want := "0.1"
		if f.Task.Name == "kitti" && f.Position == "learned" {
			want = "0.2"
		}
		is.Equal(t, f.String(), []any{fmt.Sprint(f.Recipe.LearningRate), f.Setting, f.waits},
			[]any{want, "learning_rate=" + want, 0})
	}
	accuracies["kitti hybrid"]["0.1"][0], accuracies["kitti learned"] = -1, map[string][]float64{
		"0.1": {-1, 0, 0}, "0.2": {0, 0, -1}}
	measured(t, s, done, top1)
	_, finals = units(t, s, done)
	last := finals[11] // of settings that all diverged
	is.Equal(t, last.String(), []any{last.failed, last.waits, last.id}, []any{true, 0, ""})
	for _, row := range done {
		s.write(t, row)
	}
	states := map[string]int{}
	for _, row := range gomlxtest.Must(s.Listing())(t).Rows {
		states[row[len(row)-1]]++
	}
	// Of 24 searches 4 failed; 2 encodings of kitti have no setting for 3 seeds each, 6 runs of dtd are left to do.
	is.Equal(t, "states", states, map[string]int{"failed": 4, "done": 20, "no setting": 6, "to do": 6})
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
	delete(done, searches[1].id)          // dtd learned, of shard 1
	next, waits, err := s.next(done, nil) // the first training on all images of kitti learned
	gomlxtest.NoError(t, err)
	is.Equal(t, next.String(), []any{next.Search, next.Task.Name, next.Position}, []any{false, "kitti", "learned"})
	for next != nil { // run all that is possible
		done[next.id] = report.Result{ID: next.id, Test: report.Metrics{Top1: 0.5, Images: 7}}
		next, waits, err = s.next(done, nil)
		gomlxtest.NoError(t, err)
	}
	is.Equal(t, "training runs that wait, of dtd learned this shard has all seeds", waits, 3)
	for _, row := range done {
		s.write(t, row)
	}
	is.Error(t, "a training of another shard is missing", s.Run(t.Context()), ErrPending)
	s.Tasks[0].Images = nil
	next, waits, err = s.next(done, nil)
	gomlxtest.NoError(t, err)
	is.Equal(t, "without data it waits", waits, 0)
	is.Equal(t, "without data next", next, nil)
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
		for _, r := range rowsIn(t, s.Dir, recordOf(Shard{})) {
			got += fmt.Sprint(r.ID, r.Steps, " ")
		}
		is.Equal(t, "joined, by date, then name; the earlier a", got, "a4 b2 c3 ")
	}
	for name, dirs := range map[string][2]string{"an empty directory": {t.TempDir(), t.TempDir()},
		"below a file": {filepath.Join(first, recordOf(Shard{}), "x"), first}} {
		s := planned(t)
		s.Dir = dirs[0]
		is.Equal(t, name+" is merged", s.Merge(dirs[1:]) == nil, false)
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
		is.Equal(t, name, s.Validate() != nil, name != "")
	}
	// The width of a model that is not open yet has to fit the encodings: 64 per head.
	s := small(t)
	s.Variants = Variants("rope-axial", "sincos2d") // of heads of a multiple of 4 channels, of a width of a multiple of 4
	for _, heads := range []int{0, 1, 3} {
		s.Tasks[0].Recipe.Model.Width, s.Tasks[0].Recipe.Model.Heads, s.Tasks[0].Recipe.Model.Depth = 0, heads, 0
		gomlxtest.NoError(t, s.Validate())
	}
}

func TestParseShard_ComesFromTheSchedulerOrIsRefused(t *testing.T) {
	irregular := "TASK_MIN=1 TASK_MAX=7 TASK_COUNT=3 TASK_ID="
	for _, c := range []struct {
		environment string
		completions int
		want        string // "" is an error
	}{
		{"SLURM_JOB_ID=17 JOB_COMPLETIONS=3", 0, "0/1"}, // no array, no indexed job
		// sbatch --array=0-6, its last task; --array=1-5; --array=2-13:4, which is 2, 6 and 10; --array=1-9:4.
		{"TASK_ID=6 TASK_MIN=0 TASK_MAX=6 TASK_COUNT=7 TASK_STEP=1", 0, "6/7"},
		{"TASK_ID=2 TASK_MIN=1 TASK_MAX=5 TASK_COUNT=5", 0, "1/5"},
		{"TASK_ID=6 TASK_MIN=2 TASK_MAX=13 TASK_COUNT=3 TASK_STEP=4", 0, "1/3"},
		{"TASK_ID=5 TASK_MIN=1 TASK_MAX=9 TASK_COUNT=3 TASK_STEP=4", 0, "1/3"},
		{"JOB_COMPLETION_INDEX=4", 11, "4/11"},
		{"JOB_COMPLETION_INDEX=0", 1, "0/1"},
		{"JOB_COMPLETION_INDEX=0 JOB_COMPLETIONS=3", 0, "0/3"},
		{"JOB_COMPLETION_INDEX=4 JOB_COMPLETIONS=3", 5, "4/5"}, // the flag before the environment

		{"JOB_COMPLETION_INDEX=4", 0, ""}, {"JOB_COMPLETION_INDEX=4", 4, ""}, {"", -3, ""},
		{"JOB_COMPLETION_INDEX=-1", 4, ""}, {"JOB_COMPLETION_INDEX=two", 4, ""},
		{"JOB_COMPLETION_INDEX=1 JOB_COMPLETIONS=many", 0, ""}, {"TASK_ID=3", 0, ""},
		{irregular + "3", 0, ""},             // --array=1,3,7
		{irregular + "3 TASK_STEP=3", 0, ""}, // not 1, 4 or 7
		{irregular + "4 TASK_STEP=0", 0, ""},
	} {
		lookup := func(name string) (string, bool) {
			for _, pair := range strings.Fields(strings.ReplaceAll(c.environment, "TASK_", "SLURM_ARRAY_TASK_")) {
				if is, value, _ := strings.Cut(pair, "="); is == name {
					return value, true
				}
			}
			return "", false
		}
		s, err := ParseShard("", lookup, c.completions)
		if is.Equal(t, c.environment+" is refused", err != nil, c.want == ""); err == nil {
			is.Equal(t, c.environment, s.text(), c.want)
		}
	}
	for text, want := range map[string]Shard{"0/1": {0, 1}, "3/4": {3, 4}, "3": {}, "3/3": {}, "-1/3": {}, "0/0": {},
		"1/": {}, "/2": {}, "1/2/3": {}, "a/b": {}, "0/99999999999999999999": {}} {
		s, err := ParseShard(text, nil, 0)
		is.Equal(t, text, s, want)
		is.Equal(t, text+" is refused", err != nil, want == Shard{})
	}
	for want, s := range map[string]Shard{"results.jsonl": {}, "results-2-of-5.jsonl": {2, 5},
		"results-0-of-2.jsonl": {0, 2}} {
		is.Equal(t, "the record", recordOf(s), want)
	}
}

func TestSweep_IsEveryCombinationThatAnEncodingReads(t *testing.T) {
	of := func(position, sweep string) []string {
		return gomlxtest.Must((&Study{Sweep: sweep}).settingsFor(position))(t)
	}
	const sweep = "learning_rate=0.01, 0.03; wepe_gate=0.1,0.5;augment.size=[24,24],[32,48]"
	plain := []string{
		"learning_rate=0.01;augment.size=[24,24]", "learning_rate=0.01;augment.size=[32,48]",
		"learning_rate=0.03;augment.size=[24,24]", "learning_rate=0.03;augment.size=[32,48]",
	}
	for _, position := range []string{"learned", "none", "rope-mixed", "wepe", "wepe-bias"} {
		is.Equal(t, position, of(position, sweep), plain)
	}
	for position, setting := range map[string]string{
		"hybrid": "wepe_gate", "wepe": "wepe_beta_pos", "wepe-bias": "wepe_area",
	} {
		got := of(position, strings.ReplaceAll(sweep, "wepe_gate", setting))
		is.Equal(t, position, []any{len(got), got[0], got[len(got)-1]}, []any{8, "learning_rate=0.01;" + setting +
			"=0.1;augment.size=[24,24]", "learning_rate=0.03;" + setting + "=0.5;augment.size=[32,48]"})
	}
	is.Equal(t, "without a sweep, the recipe as it is", of("learned", ""), []string{""})
	s := planned(t) // without image sizes, and with a checkpoint of unknown patch size
	s.Tasks[1].Recipe.Model.PatchSize = 0
	for sweep, ok := range map[string]bool{"learning_rate=0.1,0.2": true, "learning_rate=0.1,-1": false,
		"wepe_gate=0.1,2": false, "learning_rate=0.1,fast": false, "learning_rate": false, "=1": false, "a=": false,
		"a=1,1": false, "a=1;a=2": false, "a=1;b": false, "batch_size=3,5": true} {
		s.Sweep = sweep
		is.Equal(t, sweep, s.Validate() == nil, ok)
	}
	for i := range s.Tasks { // of the final training runs, whose settings are not chosen yet
		s.Tasks[i].Recipe.LearningRate = 0
	}
	for sweep, ok := range map[string]bool{"learning_rate=0.1,0.2": true, "batch_size=3,5": false} {
		s.Sweep = sweep
		is.Equal(t, sweep+" before a recipe without a rate", s.Validate() == nil, ok)
	}
}
