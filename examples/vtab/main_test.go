// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/program/programtest"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// TestMain is also the program under test.
func TestMain(m *testing.M) { programtest.Main(m, main, func() { _ = os.RemoveAll(scratch()) }) }

var command = programtest.Program{Name: "vtab", Env: []string{"HF_HUB_OFFLINE=1"}}

// scratch holds what the tests share.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "vtab-test-")
	if err != nil {
		panic(err)
	}
	return dir
})

// made is a directory with two tasks of generated shapes, and a tiny model pretrained on others.
var made = sync.OnceValues(func() (paths [2]string, err error) {
	paths = [2]string{filepath.Join(scratch(), "data"), filepath.Join(scratch(), "pretrained")}
	err = vtab.WriteShapes(paths[0], [3]int{31, 13, 29}, 24, func(string) {})
	return paths, errors.Join(err, pretrain(paths[1], 0))
})

// pretrain leaves a tiny model in a directory.
func pretrain(dir string, seed int64) error {
	train, _, err := data.Shapes(data.TaskWhere, 20, 1, 16, 3)
	if err != nil {
		return err
	}
	_, _, err = finetune.Run{
		Backend: gomlxtest.Backend(), Train: train, Dir: dir, Seed: seed,
		Recipe: finetune.Recipe{
			Name: "tiny", Model: vit.Config{PatchSize: 8, Width: 8, Depth: 1, Heads: 2, Position: "learned"},
			Steps: 2, BatchSize: 10, LearningRate: 1e-3, ValidationPart: -1,
		},
	}.Do(context.Background())
	return err
}

// arguments are those of a tiny study in a directory, and more.
func arguments(t *testing.T, runs string, more ...string) []string {
	t.Helper()
	paths, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"-data", paths[0], "-from", paths[1], "-checkpoint", runs, "-allow-partial",
		"-tasks", "dsprites_loc,dsprites_ori", "-position", "learned,hybrid", "-recipe", "demo-shapes",
		"-set", "steps=3;warmup_steps=1;eval_steps=2;batch_size=10;eval_batch_size=10;augment.size=[24,24]",
		"-sweep", "wepe_gate=0.1,0.5"}, more...)
}

// studied is that study done.
func studied(t *testing.T, runs string, more ...string) programtest.Ended {
	t.Helper()
	return command.Run(t, arguments(t, runs, more...)...)
}

// trainings counts those that a run of the program ended.
func trainings(e programtest.Ended) int {
	return len(regexp.MustCompile(`step 3/3 `).FindAllString(e.Stderr, -1))
}

// files lists what is below a directory, but for locks.
func files(t *testing.T, dir string) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(programtest.Tree(t, dir)))
}

// tableIn returns the table that the program printed.
func tableIn(t *testing.T, e programtest.Ended) string {
	t.Helper()
	begin := strings.Index(e.Stdout, "task ")
	end := strings.Index(e.Stdout, "as Markdown:")
	if e.Code != 0 || begin < 0 || end < 0 {
		t.Fatalf("status %d, stdout %s, stderr %s", e.Code, e.Stdout, e.Stderr)
	}
	return e.Stdout[begin:end]
}

// results are the rows of all records in a directory.
func results(t *testing.T, dir string) []report.Result {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "results*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := report.ReadFiles(names...)
	if err != nil || len(rows.Skipped) > 0 {
		t.Fatal(rows.Skipped, err)
	}
	return rows.Results
}

// numbers are the results of a study by unit, to the last bit, with all settings.
func numbers(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	for _, row := range results(t, dir) {
		if !strings.Contains(string(row.Settings), `"path":"pretrained"`) {
			t.Errorf("the row names directories of this machine: %s", row.Settings)
		}
		lines = append(lines, fmt.Sprintf("%s %+v %x %x %s\n", row.ID, row.Job, row.Validation, row.Test, row.Settings))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestFlagsGiveEveryTaskItsRecipe(t *testing.T) {
	t.Setenv("JOB_COMPLETION_INDEX", "2")
	t.Setenv("JOB_COMPLETIONS", "5")
	for _, c := range []struct {
		args, shard string
		recipes     []string // of the tasks; one where it is that of all 19
	}{
		{"-data d -from f", "2/5", []string{"dosovitskiy-vtab"}},
		{"-plan -shard 1/3", "1/3", []string{"dosovitskiy-vtab"}},
		{"-recipe release -plan", "2/5", []string{"release-svhn", "release-resisc45", "release-dmlab"}},
	} {
		o, err := parse(append(strings.Fields(c.args), "-set", "model.drop_path=0.125"))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.recipes) == 1 {
			c.recipes = slices.Repeat(c.recipes, 19)
		}
		for i, task := range o.study.Tasks {
			r := task.Recipe
			if r.Name != c.recipes[i] || r.Model.DropPath != 0.125 || r.ValidationPart != -1 || task.Name != o.tasks[i].Name {
				t.Errorf("%s: task %d, %s, has %+v, want %s", c.args, i, task.Name, r, c.recipes[i])
			}
		}
		if len(o.tasks) != len(c.recipes) || o.study.Shard.String() != c.shard {
			t.Errorf("%s: %d tasks, shard %v", c.args, len(o.tasks), o.study.Shard)
		}
	}
}

func TestTwoShardsComeToTheBitsOfOneMachine(t *testing.T) {
	whole, first, second, joined := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	one := studied(t, whole)
	want := tableIn(t, one)
	// learned: 2 trainings that count; hybrid: 2·2 to choose from and 2 that count.
	if trainings(one) != 8 {
		t.Errorf("%d trainings, want 8: %s", trainings(one), one.Stderr)
	}
	for _, cell := range []string{"dsprites_loc", "dsprites_ori", "mean of 2 of 19 tasks", "measured on 29 pictures",
		"dsprites_loc: generated shapes, no VTAB data"} {
		if !strings.Contains(want, cell) {
			t.Errorf("the table lacks %q:\n%s", cell, want)
		}
	}
	if !regexp.MustCompile(`^task +test images +learned +hybrid `).MatchString(want) { // as -position has them
		t.Errorf("columns: %.80s", want)
	}
	markdown, err := os.ReadFile(filepath.Join(whole, "table.md"))
	if err != nil || !strings.Contains(string(markdown), "| dsprites_ori |") {
		t.Errorf("table.md: %s, %v", markdown, err)
	}

	// Two machines without a common disk: what waits for the other's settings is left, with a status of its own.
	a, b := studied(t, first, "-shard", "0/2"), studied(t, second, "-shard", "1/2")
	tableIn(t, a) // of learned: its trainings are 0 and 2 of those that count
	b.Complaint(t, "shard 1", 75, "2 of them", "same command")
	merge := []string{"-merge", first + "," + second}
	if e := studied(t, joined, merge...); trainings(e) != 0 || !strings.Contains(tableIn(t, e), "mean of 0 of 19 tasks") {
		t.Errorf("merged: %s", e.Stdout)
	}
	// Then on one disk.
	c, d := studied(t, joined, "-shard", "0/2"), studied(t, joined, "-shard", "1/2")
	if got := [4]int{trainings(a), trainings(b), trainings(c), trainings(d)}; got != [4]int{4, 2, 0, 2} {
		t.Errorf("trainings %v, want 2 searches each, 2 of learned and after the merge 2 of hybrid: %s", got, d.Stderr)
	}
	e := studied(t, joined, merge...)
	if backend := os.Getenv(compute.ConfigEnvVar); backend != "" && !strings.HasPrefix(backend, "go") {
		t.Skipf("backend %s does not promise the same bits twice", backend)
	}
	if got := tableIn(t, e); got != want {
		t.Errorf("two shards come to\n%s\none machine to\n%s", got, want)
	}
	if got, want := numbers(t, joined), numbers(t, whole); got != want {
		t.Errorf("two shards have the rows\n%s\none machine\n%s", got, want)
	}
}

func TestAStudyThatIsDoneIsNotRepeated(t *testing.T) {
	runs := t.TempDir()
	study := func(more ...string) programtest.Ended {
		return studied(t, runs, append([]string{"-sweep", "", "-tasks", "dsprites_loc", "-keep"}, more...)...)
	}
	first := study()
	want := tableIn(t, first)
	before := files(t, runs)
	kept := slices.DeleteFunc(slices.Clone(before), func(path string) bool {
		return filepath.Base(path) != "variables.safetensors"
	})
	if len(kept) != 2 || strings.Contains(strings.Join(kept, " "), "/best/") {
		t.Errorf("-keep keeps %q, want the last models of 2", kept)
	}
	again := study()
	if trainings(again) != 0 || tableIn(t, again) != want {
		t.Errorf("%s%s", again.Stdout, again.Stderr)
	}
	if after := files(t, runs); !slices.Equal(after, before) {
		t.Errorf("files %q, before %q", after, before)
	}
	t.Run("of other images it is refused", func(t *testing.T) {
		other := t.TempDir()
		if err := vtab.WriteShapes(other, [3]int{31, 13, 29}, 20, func(string) {}); err != nil {
			t.Fatal(err)
		}
		study("-seeds", "2", "-data", other).Complaint(t, "other images", 1, runs, "other images", "another directory")
	})
	t.Run("a training that ended before it was measured is only measured", func(t *testing.T) {
		if err := os.Remove(filepath.Join(runs, "results.jsonl")); err != nil {
			t.Fatal(err)
		}
		again := study()
		if trainings(again) != 0 || tableIn(t, again) != want {
			t.Errorf("%s%s, want %s", again.Stdout, again.Stderr, want)
		}
	})
	t.Run("of another checkpoint it is refused", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "pretrained") // the same name
		if err := pretrain(other, 1); err != nil {
			t.Fatal(err)
		}
		study("-from", other).Complaint(t, "another checkpoint", 1, runs, "SHA-256", "another directory")
	})
}

func TestThePlanWritesNothing(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	process := command.Command(t, arguments(t, runs, "-plan", "-seeds", "2", "-completions", "3")...)
	process.Env = append(process.Env, "JOB_COMPLETION_INDEX=1") // as a pod of an indexed job has it
	e := command.Finish(t, process)
	lines := strings.Split(strings.TrimSpace(e.Stdout), "\n")
	// 2 tasks × 2 settings × 2 seeds of hybrid, then 2 tasks × 2 positions × 2 seeds; a header of two lines, a note.
	if e.Code != 0 || len(lines) != 8+8+3 || !strings.Contains(lines[len(lines)-1], "8 trainings on train800, 8 on") ||
		!strings.Contains(lines[len(lines)-1], "shard 1/3") {
		t.Fatalf("status %d, %d lines: %s%s", e.Code, len(lines), e.Stdout, e.Stderr)
	}
	for i, line := range lines[2:10] {
		if fields := strings.Fields(line); fields[0] != "train800" || fields[2] != "hybrid" ||
			fields[5] != fmt.Sprintf("%d/3", i%3) {
			t.Errorf("search %d: %s", i, line)
		}
	}
	if _, err := os.Stat(runs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left %q, %v", files(t, runs), err)
	}
}

func TestTasksWithoutDataAreLeftOutWithALine(t *testing.T) {
	runs := t.TempDir()
	e := studied(t, runs, "-sweep", "", "-tasks", "dsprites_loc,svhn,cifar", "-position", "learned")
	table := tableIn(t, e)
	for _, want := range []string{"svhn: no data", "ufldl.stanford.edu", "cifar: no data", "cs.toronto.edu"} {
		if !strings.Contains(e.Stderr, want) {
			t.Errorf("stderr lacks %q: %s", want, e.Stderr)
		}
	}
	if trainings(e) != 1 || !strings.Contains(table, "mean of 1 of 19 tasks") ||
		!strings.Contains(table, "svhn is in no mean (learned: 1 of 1 to do)") {
		t.Errorf("%d trainings, table %s", trainings(e), table)
	}
	studied(t, runs, "-tasks", "svhn").Complaint(t, "none", 1, "no task has data")
	idle := studied(t, filepath.Join(t.TempDir(), "runs"), "-sweep", "", "-tasks", "dsprites_loc", "-position", "learned",
		"-shard", "1/2")
	if table := tableIn(t, idle); trainings(idle) != 0 || !strings.Contains(table, "nothing is measured here yet") {
		t.Errorf("a shard without work: %s%s", table, idle.Stderr)
	}
}

func TestAnInterruptSavesAndTheSameCommandGoesOn(t *testing.T) {
	runs := t.TempDir()
	args := func(steps int) []string {
		return arguments(t, runs, "-sweep", "", "-tasks", "dsprites_loc", "-position", "hybrid", "-set",
			fmt.Sprintf("steps=%d;warmup_steps=1;eval_steps=1;batch_size=10;augment.size=[24,24]", steps))
	}
	e := command.Interrupted(t, syscall.SIGTERM, args(100_000)...)
	e.Complaint(t, "interrupted", 143, "dsprites_loc hybrid seed 0", "interrupted at step", "same command")
	again := command.Interrupted(t, syscall.SIGINT, args(100_000)...)
	again.Complaint(t, "interrupted again", 130, "interrupted at step")
	if !strings.Contains(again.Stderr, "resuming step=") {
		t.Errorf("begins anew: %s", again.Stderr)
	}
}

func TestASettingThatDivergesIsRecordedAndTheStudyGoesOn(t *testing.T) {
	runs := t.TempDir()
	// The second setting makes pixels beyond float32's range.
	args := []string{"-tasks", "dsprites_loc", "-position", "learned", "-sweep", "augment.std=[1e-40,1e-40,1e-40],[1,1,1]"}
	tableIn(t, studied(t, runs, args...))
	done := results(t, runs)
	if len(done) != 3 {
		t.Fatalf("%d rows, want 2 of the choice and 1 that counts", len(done))
	}
	for _, row := range done {
		var recipe finetune.Recipe
		if err := json.Unmarshal(row.Settings, &recipe); err != nil {
			t.Fatal(err)
		}
		if diverged := strings.Contains(row.Failed, "diverged"); diverged != (recipe.Augment.Std[0] < 1) {
			t.Errorf("std %g: failed %q", recipe.Augment.Std, row.Failed)
		}
	}
	plan := studied(t, runs, append(args, "-plan")...)
	if strings.Count(plan.Stdout, "failed") != 1 || strings.Count(plan.Stdout, "done") != 2 {
		t.Errorf("the plan: %s", plan.Stdout)
	}
}
