// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/examples/internal/shard"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/report"
)

// planned is a study of two tasks, two encodings, three seeds and two learning rates.
func planned(t *testing.T) study {
	t.Helper()
	recipe, err := finetune.Named("shapes")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := chooseTasks("dtd,kitti")
	if err != nil {
		t.Fatal(err)
	}
	axes, err := parseSweep("learning_rate=0.1,0.2")
	if err != nil {
		t.Fatal(err)
	}
	recipes := map[string]finetune.Recipe{}
	for _, task := range tasks {
		recipes[task.name] = recipe
	}
	return study{options: options{checkpoint: t.TempDir(), recipes: recipes, tasks: chosen,
		positions: []string{"learned", "hybrid"}, seeds: 3, sweep: axes, shard: shard.Shard{Of: 1}}}
}

// measured adds the rows of all searches, with an accuracy by setting and seed.
func measured(t *testing.T, s study, done results, top1 func(u unit) float64) {
	t.Helper()
	searches, err := s.searches()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range searches {
		done[u.id] = report.Result{Job: report.Job{ID: u.id},
			Validation: report.Metrics{Top1: report.Number(top1(u)), Images: 200}}
	}
}

func TestUnitsAreTheSameOnEveryMachine(t *testing.T) {
	s := planned(t)
	searches, err := s.searches()
	if err != nil || len(searches) != 2*2*2*3 {
		t.Fatalf("%d searches, %v, want tasks × positions × settings × seeds = 24", len(searches), err)
	}
	ids := map[string]bool{}
	for _, u := range searches {
		ids[u.id] = true
	}
	if len(ids) != 24 {
		t.Errorf("%d names for 24 units", len(ids))
	}
	other := s
	other.shard = shard.Shard{Index: 4, Of: 5}
	other.checkpoint, other.data, other.from = "elsewhere", "/mnt", "/other/model.npz"
	again, err := other.searches()
	if err != nil {
		t.Fatal(err)
	}
	for k := range searches {
		if again[k].id != searches[k].id || again[k].String() != searches[k].String() || again[k].shard != k%5 {
			t.Errorf("unit %d is %v of shard %d there, %v here", k, again[k], again[k].shard, searches[k])
		}
	}
	longer := s.recipes["dtd"]
	longer.Epochs++
	other.recipes = map[string]finetune.Recipe{"dtd": longer, "kitti": longer}
	if again, err = other.searches(); err != nil || ids[again[0].id] {
		t.Errorf("another recipe has the same units: %v", err)
	}
}

func TestTheSettingIsChosenByItsMeanOverAllSeedsOnVal200(t *testing.T) {
	s, done := planned(t), results{}
	measured(t, s, done, func(u unit) float64 {
		switch {
		case u.task.name == "dtd": // 0.2 has the best seed, 0.1 the best mean
			return map[string][]float64{
				"learning_rate=0.1": {0.5, 0.6, 0.7}, "learning_rate=0.2": {0.9, 0.4, 0.4},
			}[u.setting][u.seed]
		case u.position == "learned":
			return map[string]float64{"learning_rate=0.1": 0.3, "learning_rate=0.2": 0.305}[u.setting]
		}
		return 0.25 // equal: the first
	})
	for _, c := range []struct{ task, position, want string }{
		{"dtd", "learned", "learning_rate=0.1"}, {"dtd", "hybrid", "learning_rate=0.1"},
		{"kitti", "learned", "learning_rate=0.2"}, {"kitti", "hybrid", "learning_rate=0.1"},
	} {
		chosen, err := chooseTasks(c.task)
		if err != nil {
			t.Fatal(err)
		}
		setting, missing, err := s.choose(done, chosen[0], c.position)
		if err != nil || missing != 0 || setting == nil || *setting != c.want {
			t.Errorf("%s %s: setting %v, %d missing, %v, want %s", c.task, c.position, setting, missing, err, c.want)
		}
	}
	finals, err := s.finals(done)
	if err != nil || len(finals) != 2*2*3 {
		t.Fatalf("%d finals, %v, want tasks × positions × seeds = 12", len(finals), err)
	}
	for _, f := range finals {
		if got := f.recipe.LearningRate; (got == 0.2) != (f.task.name == "kitti" && f.position == "learned") {
			t.Errorf("%v trains with %g", f, got)
		}
	}
}

func TestATrainingWaitsForTheSettingsOfAllShards(t *testing.T) {
	s, done := planned(t), results{}
	s.lists = map[string]*lists{"dtd": {}, "kitti": {}}
	measured(t, s, done, func(unit) float64 { return 0.5 })
	searches, err := s.searches()
	if err != nil {
		t.Fatal(err)
	}
	s.shard = shard.Shard{Index: 1, Of: 2}
	missing := searches[0] // dtd learned, of shard 0
	delete(done, missing.id)
	next, waits, err := s.next(done)
	if err != nil || next == nil || !next.final || next.task.name != "dtd" || next.position != "hybrid" {
		t.Errorf("next %v, %v, want the first training on all images of dtd hybrid", next, err)
	}
	for next != nil { // do all that can be done
		done[next.id] = report.Result{Test: report.Metrics{Top1: 0.5, Images: 7}}
		if next, waits, err = s.next(done); err != nil {
			t.Fatal(err)
		}
	}
	if waits != 1 { // of the seeds 0, 1, 2 of dtd learned this shard has one
		t.Errorf("%d trainings wait, want 1", waits)
	}
	s.lists = map[string]*lists{"kitti": {}}
	if next, waits, err = s.next(done); next != nil || waits != 0 || err != nil {
		t.Errorf("without data: next %v, %d wait, %v", next, waits, err)
	}
}

func TestASettingThatDivergesIsNotChosen(t *testing.T) {
	s, done := planned(t), results{}
	measured(t, s, done, func(u unit) float64 { return u.recipe.LearningRate }) // 0.2 is the best
	searches, err := s.searches()
	if err != nil {
		t.Fatal(err)
	}
	fail := func(setting string) {
		for _, u := range searches {
			if u.task.name == "kitti" && u.seed == 1 && u.setting == setting {
				done[u.id] = report.Result{Job: report.Job{ID: u.id}, Failed: "diverged"}
			}
		}
	}
	fail("learning_rate=0.2")
	setting, _, err := s.choose(done, s.tasks[1], "hybrid")
	if err != nil || setting == nil || *setting != "learning_rate=0.1" {
		t.Errorf("chose %v, %v", setting, err)
	}
	fail("learning_rate=0.1")
	if setting, missing, err := s.choose(done, s.tasks[1], "hybrid"); err != nil || setting != nil || missing != 0 {
		t.Errorf("chose %v of settings that all diverged, %d missing, %v", setting, missing, err)
	}
	table, err := s.listing(done)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]int{}
	for _, row := range table.Rows {
		states[row[len(row)-1]]++
	}
	// Of 24 searches 4 failed, 2 encodings of kitti have no setting for 3 seeds each, 6 of dtd are left to do.
	if states["failed"] != 4 || states["done"] != 20 || states["no setting"] != 6 || states["to do"] != 6 {
		t.Errorf("states %v", states)
	}
}

func TestMergingJoinsRowsOnceInAnyOrder(t *testing.T) {
	row := func(id, date string, top1 float64) report.Result {
		return report.Result{Date: date, Job: report.Job{ID: id}, Test: report.Metrics{Top1: report.Number(top1), Images: 3}}
	}
	first, second := t.TempDir(), t.TempDir()
	a, b := recordOf(shard.Shard{Index: 0, Of: 2}), recordOf(shard.Shard{Index: 1, Of: 2})
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
	for _, order := range [][]string{{first, second}, {second, first}, {second, first, first}} {
		dir := t.TempDir()
		for range 2 { // the second time there is nothing to join
			if err := merge(dir, order); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := report.ReadFiles(filepath.Join(dir, recordOf(shard.Shard{Of: 1})))
		if err != nil {
			t.Fatal(err)
		}
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
	if err := merge(t.TempDir(), []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no rows") {
		t.Errorf("an empty directory: %v", err)
	}
}
