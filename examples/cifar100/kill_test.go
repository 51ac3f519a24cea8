// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/report"
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
	const epochs, stepsPerEpoch = 40, 6 // 60 of 67 images in batches of 10; every epoch saves
	dataset := cifar(t)
	args := func(runs string) []string {
		return []string{"-data", dataset, "-checkpoint", runs, "-position", "wepe", "-set", "epochs=40;warmup_epochs=9;" +
			"batch_size=10;accumulate=2;ema=0.9;eval_batch_size=23;model.patch_size=8;model.width=8;model.heads=2;" +
			"model.depth=2;model.dropout=0.1;model.drop_path=0.1;augment.mixup_alpha=0.4;late_from=20;late_mixup_alpha=1"}
	}
	whole := t.TempDir()
	begin := time.Now()
	if e := cifar100.Run(t, args(whole)...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	unbroken := time.Since(begin)
	wholeRun := filepath.Join(whole, "cifar100-small", "wepe-seed0")
	want, step := lastVariables(t, wholeRun)
	if step != epochs*stepsPerEpoch {
		t.Fatalf("the unbroken run ended at step %d, want %d", step, epochs*stepsPerEpoch)
	}

	runs := t.TempDir()
	run := filepath.Join(runs, "cifar100-small", "wepe-seed0")
	r := rand.New(rand.NewPCG(23, 0))
	kills, resumes := 0, 0
	for kills < 6 {
		command := cifar100.Command(t, args(runs)...)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		// Anywhere from the start of the process to a third of a whole run after it.
		timer := time.AfterFunc(time.Duration(r.Int64N(int64(unbroken)/3)), func() { _ = command.Process.Kill() })
		err := command.Wait()
		timer.Stop()
		if err == nil {
			break // it came to its end
		}
		if command.ProcessState.ExitCode() != -1 {
			t.Fatalf("the program failed by itself: %v", err)
		}
		kills++
		if _, step := lastVariables(t, run); step > 0 && step < epochs*stepsPerEpoch {
			resumes++
		}
	}
	if e := cifar100.Run(t, args(runs)...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	t.Logf("unbroken in %v; %d kills, %d of them between the first and the last step saved", unbroken, kills, resumes)
	if resumes == 0 {
		t.Error("no kill left a checkpoint to go on from: this test showed nothing")
	}
	got, step := lastVariables(t, run)
	if step != epochs*stepsPerEpoch || string(got) != string(want) {
		t.Errorf("after kills the run ends at step %d with other variables than the unbroken one", step)
	}
	wholeRows, err := report.ReadFiles(filepath.Join(wholeRun, finetune.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := report.ReadFiles(filepath.Join(run, finetune.RowsFile))
	if err != nil || len(rows.Results) != 1 || rows.Results[0].Test != wholeRows.Results[0].Test {
		t.Errorf("runs %+v, %v, want the test results %+v", rows.Results, err, wholeRows.Results[0].Test)
	}
	// A kill between an evaluation's row and its checkpoint repeats the row: the same numbers for the same step.
	first := map[int]report.Metrics{}
	for _, row := range wholeRows.Evals {
		first[row.Step] = row.Metrics
	}
	for _, row := range rows.Evals {
		if row.Metrics != first[row.Step] {
			t.Errorf("step %d evaluates to %+v, want %+v", row.Step, row.Metrics, first[row.Step])
		}
	}
	if last := rows.Evals[len(rows.Evals)-1]; len(rows.Evals) < epochs || last.Step != int(step) {
		t.Errorf("%d evaluations, the last one at step %d", len(rows.Evals), last.Step)
	}
}
