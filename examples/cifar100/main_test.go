// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/program/programtest"
	"github.com/wepe-go/wepe/report"
)

// TestMain is also the program under test.
func TestMain(m *testing.M) { programtest.Main(m, main) }

var cifar100 = programtest.Program{
	Name: "cifar100",
	Said: regexp.MustCompile(`^(backend:|recipe |\S+ seed \d+|interrupt:|terminated:)`),
}

func cifar(t *testing.T) string { return datatest.Tree(t, datatest.CIFAR100(67, 23)) }

const tiny = "epochs=1;warmup_epochs=0;batch_size=17;eval_batch_size=23;model.patch_size=8;model.width=8;" +
	"model.heads=2;model.depth=1"

func TestHelpListsTheFlagsOnStdout(t *testing.T) {
	e := cifar100.Run(t, "-help")
	if e.Code != 0 || e.Stderr != "" {
		t.Errorf("status %d, stderr %q", e.Code, e.Stderr)
	}
	for _, want := range []string{"-data", "-checkpoint", "-set", "cifar100-small",
		"none,learned,sincos2d,wepe,wepe-sphere"} {
		if !strings.Contains(e.Stdout, want) {
			t.Errorf("no %s in:\n%s", want, e.Stdout)
		}
	}
}

func TestAStudyIsRecordedOnceMeasuredAndUsed(t *testing.T) {
	dataset, runs := cifar(t), t.TempDir()
	study := []string{"-data", dataset, "-checkpoint", runs, "-position", "wepe,none", "-set", tiny}
	first := cifar100.Run(t, study...)
	if first.Code != 0 || !strings.Contains(first.Stdout, "\nwepe ") || !strings.Contains(first.Stdout, "\nnone ") {
		t.Fatalf("status %d, stdout %s, stderr %s", first.Code, first.Stdout, first.Stderr)
	}
	if strings.Contains(first.Stdout+first.Stderr, "\x1b") || strings.Contains(first.Stderr, "\r") {
		t.Errorf("a terminal's codes where there is none: %q", first.Stderr)
	}
	for _, picture := range []string{"curves.png", "scalars.png", "wepe-seed0/field.png", "wepe-seed0/curves.png"} {
		file, err := os.Open(filepath.Join(runs, "cifar100-small", picture))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(file); err != nil {
			t.Errorf("%s: %v", picture, err)
		}
		file.Close()
	}
	for _, position := range []string{"wepe", "none"} {
		page, err := os.ReadFile(filepath.Join(runs, "cifar100-small", position+"-seed0", finetune.PageFile))
		if err != nil {
			t.Fatal(err)
		}
		// Of the two only wepe has scalars and a field.
		for _, part := range []string{"What the encoding learned", "What the encoding knows of each patch"} {
			if got := strings.Contains(string(page), part); got != (position == "wepe") {
				t.Errorf("%s: a page with %q is %v", position, part, got)
			}
		}
	}

	t.Run("a finished study prints its table again and trains nothing", func(t *testing.T) {
		before := programtest.Tree(t, filepath.Join(runs, "cifar100-small", "wepe-seed0", "last"))
		again := cifar100.Run(t, study...)
		if again.Code != 0 || again.Stdout != first.Stdout {
			t.Errorf("status %d, printed\n%s\nwant\n%s", again.Code, again.Stdout, first.Stdout)
		}
		if strings.Contains(again.Stderr, "images/s") {
			t.Errorf("trained: %s", again.Stderr)
		}
		same(t, before, programtest.Tree(t, filepath.Join(runs, "cifar100-small", "wepe-seed0", "last")))
	})

	t.Run("eval measures what was recorded", func(t *testing.T) {
		rows, err := report.ReadFiles(filepath.Join(runs, "cifar100-small", "wepe-seed0", finetune.RowsFile))
		if err != nil || len(rows.Results) != 1 {
			t.Fatalf("%d runs recorded, want 1: %v", len(rows.Results), err)
		}
		e := cifar100.Run(t, "-eval", "-data", dataset, "-checkpoint", runs, "-position", "wepe")
		want := fmt.Sprintf("loss %.4f  top-1 %.2f %%  top-5 %.2f %%  of 23 images", float64(rows.Results[0].Test.Loss),
			100*float64(rows.Results[0].Test.Top1), 100*float64(rows.Results[0].Test.Top5))
		if e.Code != 0 || !strings.Contains(e.Stdout, want) {
			t.Errorf("status %d, printed %q, want %q", e.Code, e.Stdout, want)
		}
	})

	t.Run("predict names classes of an image of any size", func(t *testing.T) {
		picture := filepath.Join(t.TempDir(), "picture.png")
		programtest.Write(t, picture, datatest.PNG(image.NewGray(image.Rect(0, 0, 47, 19))))
		predict := []string{"-data", dataset, "-checkpoint", runs, "-position", "wepe", "-top", "3", "-predict"}
		e := cifar100.Run(t, append(predict, picture)...)
		lines := strings.Split(strings.TrimSpace(e.Stdout), "\n")
		if e.Code != 0 || len(lines) != 4 || lines[0] != picture {
			t.Fatalf("status %d, printed %q, %s", e.Code, e.Stdout, e.Stderr)
		}
		for _, line := range lines[1:] {
			if !regexp.MustCompile(`^ +\d+\.\d % +class_\d+$`).MatchString(line) {
				t.Errorf("answer %q", line)
			}
		}
		programtest.Write(t, picture, []byte("hello"))
		cifar100.Run(t, append(predict, picture)...).Complaint(t, "no image", 1, picture, "not a JPEG")
	})

	t.Run("a run of another recipe is refused and left as it is", func(t *testing.T) {
		before := programtest.Tree(t, runs)
		other := append(slices.Clone(study), "-set", strings.Replace(tiny, "depth=1", "depth=2", 1))
		cifar100.Run(t, other...).Complaint(t, "another model", 1, "model.depth is 1", "2", "wepe-seed0", "directory")
		cifar100.Run(t, "-eval", "-checkpoint", runs, "-recipe", "cifar100-small", "-position", "wepe").Complaint(t,
			"a model of other classes", 1, "shapes", "100")
		same(t, before, programtest.Tree(t, runs))
	})
}

// same compares two trees of files.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, content := range after {
		if before[path] != content {
			t.Errorf("%s changed", path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, before %d", len(after), len(before))
	}
}

func TestFineTuningTakesTheModelOfARunToAnotherSize(t *testing.T) {
	dataset, runs := cifar(t), t.TempDir()
	first := cifar100.Run(t, "-data", dataset, "-checkpoint", runs, "-position", "learned", "-set", tiny)
	if first.Code != 0 {
		t.Fatal(first.Stderr)
	}
	from := filepath.Join(runs, "cifar100-small", "learned-seed0")
	const short = "steps=3;warmup_steps=1;batch_size=17;eval_batch_size=23;augment.size=[48,40]"
	args := []string{"-data", dataset, "-checkpoint", runs, "-from", from, "-set", short}
	e := cifar100.Run(t, args...)
	if e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	for _, want := range []string{
		"recipe demo-cifar100", "learned seed 0: starting from " + from, "learned 3x3 -> 6x5 (timm)",
		"wepe in place of the checkpoint's learned", "hybrid 3x3 -> 6x5 (timm)", "gate ×1 (1 variables, 1 numbers)",
	} {
		if !strings.Contains(e.Stderr, want) {
			t.Errorf("no line with %q in:\n%s", want, e.Stderr)
		}
	}
	if strings.Contains(e.Stderr, "head: a new one") {
		t.Errorf("the head of the same classes is replaced:\n%s", e.Stderr)
	}
	rows, err := report.ReadFiles(filepath.Join(runs, "demo-cifar100", "hybrid-seed0", finetune.RowsFile))
	if err != nil || len(rows.Results) != 1 || rows.Results[0].ImageSize != "48x40" || rows.Results[0].Steps != 3 {
		t.Errorf("rows %+v, %v", rows.Results, err)
	}

	t.Run("on generated shapes the head is a new one", func(t *testing.T) {
		e := cifar100.Run(t, "-checkpoint", runs, "-from", from, "-position", "hybrid", "-task", "location", "-set",
			"steps=1;warmup_steps=0;eval_batch_size=500")
		if e.Code != 0 || !strings.Contains(e.Stderr, "recipe demo-shapes") ||
			!strings.Contains(e.Stderr, "hybrid seed 0: head: a new one for 16 classes in place of the checkpoint's for 100") {
			t.Errorf("status %d: %s", e.Code, e.Stderr)
		}
	})
	t.Run("a finished run needs the model no more", func(t *testing.T) {
		if err := os.RemoveAll(from); err != nil {
			t.Fatal(err)
		}
		if again := cifar100.Run(t, args...); again.Code != 0 || again.Stdout != e.Stdout {
			t.Errorf("status %d, printed\n%s\nwant\n%s%s", again.Code, again.Stdout, e.Stdout, again.Stderr)
		}
	})
}

func TestARecipeOfDHVTComparesWhatItTakesWithThePaper(t *testing.T) {
	e := cifar100.Run(t, "-recipe", "dhvt-300", "-data", cifar(t), "-set", "epochs=1;warmup_epochs=0;batch_size=17;"+
		"eval_batch_size=23;model.width=8;model.mlp_dim=12;model.depth=1")
	lines := regexp.MustCompile(`(?m)^(none|wepe) .* (\d\d\.\d\d) .*$`).FindAllStringSubmatch(e.Stdout, -1)
	if e.Code != 0 || len(lines) != 2 || lines[0][2] != "74.78" || lines[1][2] != "76.53" {
		t.Errorf("status %d, want none and wepe beside 74.78 and 76.53: %s%s", e.Code, e.Stdout, e.Stderr)
	}
}

func TestAFullDiskIsOneLineAndNothingHalfWritten(t *testing.T) {
	dataset, runs := cifar(t), t.TempDir()
	command := cifar100.Command(t, "-data", dataset, "-checkpoint", runs, "-position", "wepe", "-set", tiny)
	// A limit on the size of a file stops a write in the middle, as a full disk does.
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh to set a limit with")
	}
	command.Args = append([]string{"sh", "-c", `ulimit -f 8; exec "$0" "$@"`, command.Path}, command.Args[1:]...)
	command.Path = shell
	cifar100.Finish(t, command).Complaint(t, "full disk", 1, "wepe seed 0", runs, "variables.safetensors",
		"file too large")
	for path := range programtest.Tree(t, runs) {
		if base := filepath.Base(path); base != ".lock" && base != finetune.RowsFile {
			t.Errorf("left %s", path)
		}
	}
	rows, err := report.ReadFiles(filepath.Join(runs, "cifar100-small", "wepe-seed0", finetune.RowsFile))
	if err != nil || len(rows.Skipped) > 0 {
		t.Errorf("rows: %v, %v", rows.Skipped, err)
	}
}

func TestAnInterruptSavesAndTheSameCommandGoesOn(t *testing.T) {
	dataset, runs := cifar(t), t.TempDir()
	args := []string{"-data", dataset, "-checkpoint", runs, "-position", "wepe",
		"-set", strings.Replace(tiny, "epochs=1", "epochs=100000", 1)}
	step := int64(0)
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		e := cifar100.Interrupted(t, c.signal, args...)
		e.Complaint(t, c.signal.String(), c.code, "wepe seed 0", "interrupted at step", "saved", "same command")
		if step > 0 && !strings.Contains(e.Stderr, fmt.Sprintf("resuming step=%d ", step)) {
			t.Errorf("did not go on at step %d: %s", step, e.Stderr)
		}
		checkpoint, skipped, err := checkpoints.Latest(filepath.Join(runs, "cifar100-small", "wepe-seed0", "last"))
		if err != nil || checkpoint == nil || len(skipped) > 0 {
			t.Fatalf("checkpoint %v, skipped %v, %v", checkpoint, skipped, err)
		}
		if want := fmt.Sprintf("step %d of", checkpoint.Step); checkpoint.Step <= step || !strings.Contains(e.Stderr, want) {
			t.Errorf("saved step %d after %d, said %s", checkpoint.Step, step, e.Stderr)
		}
		var state struct{ Seed *int64 }
		if err := json.Unmarshal(checkpoint.Meta, &state); err != nil || state.Seed == nil {
			t.Errorf("state %s: %v", checkpoint.Meta, err)
		}
		step = checkpoint.Step
	}
}

func TestTheTableJoinsWhatShardsTrained(t *testing.T) {
	study := []string{"-position", "none,rope-axial", "-sizes", "16x32,24x24", "-fraction", "0.05", "-checkpoint",
		t.TempDir(), "-set", "epochs=1;model.depth=1;model.width=8;eval_batch_size=500"}
	for shard, missing := range []string{"2 of 4 trainings are not done yet", "1 of 4 trainings are not done yet", ""} {
		e := cifar100.Run(t, append(study, "-shard", fmt.Sprintf("%d/3", shard))...)
		if e.Code != 0 || !strings.Contains(e.Stdout, missing) {
			t.Fatalf("shard %d: status %d, printed %s%s", shard, e.Code, e.Stdout, e.Stderr)
		}
	}
	table := cifar100.Run(t, append(study, "-table")...)
	lines := regexp.MustCompile(`(?m)^shapes (16x32|24x24) +(none|rope-axial) +1 `).FindAllString(table.Stdout, -1)
	if table.Code != 0 || len(lines) != 4 || strings.Contains(table.Stdout, "not done") ||
		strings.Contains(table.Stderr, "images/s") {
		t.Errorf("status %d, printed %s%s", table.Code, table.Stdout, table.Stderr)
	}
}
