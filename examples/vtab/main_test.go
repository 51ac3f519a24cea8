// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

// with runs the program with flags.
func with(t *testing.T, values map[string]string) {
	t.Helper()
	for name, value := range values {
		gomlxtest.NoError(t, flag.Set(name, value))
	}
	gomlxtest.NoError(t, run(t.Context()))
}

func TestRun_RefusesArgumentsAndWritesOnlyIntoAFolder(t *testing.T) {
	for args, want := range map[string]string{"-seeds 1 oops -plan": "oops", "-write shapes": "-data"} {
		gomlxtest.NoError(t, flag.CommandLine.Parse(strings.Fields(args)))
		if err := run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
		gomlxtest.NoError(t, errors.Join(flag.Set("write", ""), flag.CommandLine.Parse(nil)))
	}
}

func TestASettingIsChosenTrainedOnceAndTabulated(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go:ops_sequential")
	tasks, results := t.TempDir(), t.TempDir()
	with(t, map[string]string{"write": "shapes", "data": tasks})
	for _, list := range []string{"train800", "val200", "train800val200", "test"} { // 16 images of each are enough
		path := filepath.Join(tasks, "dsprites_ori", list+".txt")
		lines := strings.SplitAfter(string(gomlxtest.Must(os.ReadFile(path))(t)), "\n")
		gomlxtest.NoError(t, os.WriteFile(path, []byte(strings.Join(lines[:16], "")), 0o644))
	}
	with(t, map[string]string{"write": "", "from": "../cifar100/demo/vit", "out": results, "tasks": "dsprites_ori",
		"recipe": "demo-shapes", "positions": "learned", "sweep": "learning_rate=0.0001,0.01", "allow-partial": "true",
		"set": "steps=2;warmup_steps=1;batch_size=4;eval_every_steps=2"})
	path := filepath.Join(results, "results.jsonl")
	rows := gomlxtest.Must(report.ReadFiles(path))(t).Results
	if len(rows) != 3 { // two to choose on val200, one final
		t.Fatalf("%d rows, want 3", len(rows))
	}
	for i, want := range []int{16, 16, 0} {
		if rows[i].Validation.Images != want || rows[i].Test.Images != 16-want {
			t.Errorf("row %d has %d validation and %d test images", i, rows[i].Validation.Images, rows[i].Test.Images)
		}
	}
	table := string(gomlxtest.Must(os.ReadFile(filepath.Join(results, "table.md")))(t))
	if !strings.Contains(table, "| dsprites_ori | 16 |") {
		t.Errorf("the table lacks the task:\n%s", table)
	}
	before := gomlxtest.Must(os.ReadFile(path))(t)
	with(t, map[string]string{"plan": "true"})
	with(t, map[string]string{"plan": "false"}) // nothing is left to do
	if after := gomlxtest.Must(os.ReadFile(path))(t); string(after) != string(before) {
		t.Error("the second time trains again")
	}
}
