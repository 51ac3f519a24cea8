// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/report"
)

// lastVariables returns the bytes of the newest checkpoint of a run, and its step.
func lastVariables(t *testing.T, run string) ([]byte, int64) {
	t.Helper()
	checkpoint, _, err := checkpoints.Latest(filepath.Join(run, "last"))
	if err != nil {
		t.Fatal(err)
	}
	if checkpoint == nil {
		return nil, 0
	}
	variables, err := os.ReadFile(filepath.Join(checkpoint.Path, "variables.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return variables, checkpoint.Step
}

func TestAKilledTrainingEndsWithTheBitsOfAnUnbrokenOne(t *testing.T) {
	if backend := os.Getenv(compute.ConfigEnvVar); backend != "" && !strings.HasPrefix(backend, "go") {
		t.Skipf("backend %s does not promise the same bits twice", backend)
	}
	const steps = 60 // in batches of 10 of 60 of 67 images; every step saves
	dataset := cifar(t)
	args := func(runs string) []string {
		return []string{"-data", dataset, "-checkpoint", runs, "-position", "wepe", "-set", "epochs=0;steps=60;" +
			"eval_steps=1;warmup_epochs=0;warmup_steps=13;batch_size=10;accumulate=2;ema=0.9;eval_batch_size=23;" +
			"model.patch_size=8;model.width=8;model.heads=2;model.depth=2;model.dropout=0.1;model.drop_path=0.1;" +
			"augment.mixup_alpha=0.4;late_from=5;late_mixup_alpha=1"}
	}
	directory := func(runs string) string { return filepath.Join(runs, "cifar100-small", "wepe-seed0") }
	whole := t.TempDir()
	begin := time.Now()
	if e := cifar100.Run(t, args(whole)...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	unbroken := time.Since(begin)
	want, step := lastVariables(t, directory(whole))
	if step != steps {
		t.Fatalf("the unbroken run ended at step %d, want %d", step, steps)
	}
	wholeRows, err := report.ReadFiles(filepath.Join(directory(whole), finetune.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	first := map[int]report.Metrics{}
	for _, row := range wholeRows.Evals {
		first[row.Step] = row.Metrics
	}

	resumes, runs := 0, filepath.Join(t.TempDir(), "runs")
	ended := func() { // a run whose last process came to its end: it is compared, and the next one begins
		got, step := lastVariables(t, directory(runs))
		if step != steps || string(got) != string(want) {
			t.Fatalf("after kills the run ends at step %d with other variables than the unbroken one", step)
		}
		rows, err := report.ReadFiles(filepath.Join(directory(runs), finetune.RowsFile))
		if err != nil || len(rows.Results) != 1 || rows.Results[0].Test != wholeRows.Results[0].Test {
			t.Fatalf("runs %+v, %v, want the test results %+v", rows.Results, err, wholeRows.Results[0].Test)
		}
		// A kill between an evaluation's row and its checkpoint repeats the row: the same numbers for the same step.
		for _, row := range rows.Evals {
			if row.Metrics != first[row.Step] {
				t.Fatalf("step %d evaluates to %+v, want %+v", row.Step, row.Metrics, first[row.Step])
			}
		}
		if last := rows.Evals[len(rows.Evals)-1]; len(rows.Evals) < steps || last.Step != int(step) {
			t.Fatalf("%d evaluations, the last one at step %d", len(rows.Evals), last.Step)
		}
		if err := os.RemoveAll(runs); err != nil {
			t.Fatal(err)
		}
	}
	r := campaign.Rand(23)
	for range campaign.Times(t, 5, 1000, "kills") {
		for killed := false; !killed; {
			command := cifar100.Command(t, args(runs)...)
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			// Anywhere from the start of the process to where an unbroken run ends.
			timer := time.AfterFunc(time.Duration(r.Int64N(int64(unbroken))), func() { _ = command.Process.Kill() })
			err := command.Wait()
			timer.Stop()
			if killed = err != nil; !killed {
				ended()
			} else if command.ProcessState.ExitCode() != -1 {
				t.Fatalf("the program failed by itself: %v", err)
			}
		}
		if _, step := lastVariables(t, directory(runs)); step > 0 && step < steps {
			resumes++
		}
	}
	if e := cifar100.Run(t, args(runs)...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	ended()
	campaign.Did(t, resumes, "of them between the first and the last save")
	if resumes == 0 {
		t.Error("no kill left a checkpoint to go on from: this test showed nothing")
	}
}
