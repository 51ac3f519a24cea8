// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/gomlx/compute"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/programtest"
)

// TestMain makes pure Go the backend of commands that name none.
func TestMain(m *testing.M) {
	_ = os.Setenv(compute.ConfigEnvVar, "go")
	programtest.Main(m, main)
}

// lastVariables returns the variables of the newest checkpoint of a run, and its step; nil before the first.
func lastVariables(t *testing.T, run string) (content []byte, step int64) {
	t.Helper()
	checkpoint, _, err := checkpoints.Find(run, checkpoints.LastDir)
	if err != nil || checkpoint == nil {
		return nil, 0
	}
	return gomlxtest.Must(os.ReadFile(filepath.Join(checkpoint.Path, "variables.safetensors")))(t), checkpoint.Step
}

// onBackend is the backend of the tests, go if GOMLX_BACKEND is not set.
var onBackend = cmp.Or(os.Getenv(compute.ConfigEnvVar), "go")

// ends runs the program, which must succeed.
func ends(t *testing.T, args ...string) {
	t.Helper()
	if e := programtest.Run(t, args...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
}

// everything is a training run with all random and stateful features enabled, with a number of micro-batches.
func everything(data, run string, parts int) []string {
	return []string{"train", "--backend", onBackend, "--data", data, "--size", "16x24", "--out", run, "--position", "wepe",
		"--set", fmt.Sprintf("grad_accum_steps=%d;epochs=0;steps=40;eval_every_steps=1;warmup_epochs=0;warmup_steps=7;"+
			"batch_size=12;ema_decay=0.9;eval_batch_size=5;model.patch_size=8;model.width=8;model.num_heads=2;model.depth=2;"+
			"model.dropout=0.1;model.drop_path=0.1;augment.mixup_alpha=0.4;mixup_switch_epoch=3;late_mixup_alpha=1", parts)}
}

func TestKill_EndsWithTheBitsOfAnUninterruptedTraining(t *testing.T) {
	data, whole, root := images(t, "kill", 13, 16, 24), filepath.Join(t.TempDir(), "run"), t.TempDir()
	begin := time.Now()
	ends(t, everything(data, whole, 2)...)
	unbroken := time.Since(begin)
	want, steps := lastVariables(t, whole)
	wholeRow := row(t, whole)
	r, kills, between := campaign.Rand(23), 0, 0
	for n := 0; kills < campaign.Times(4); n++ {
		run, step := filepath.Join(root, fmt.Sprint(n)), int64(0)
		command := everything(data, run, 2)
		for kills < campaign.Times(4) {
			process := programtest.Command(t, command...)
			gomlxtest.NoError(t, process.Start())
			timer := time.AfterFunc(time.Duration(r.Int64N(int64(unbroken))), func() { _ = process.Process.Kill() })
			_ = process.Wait()
			timer.Stop()
			code := process.ProcessState.ExitCode()
			if code > 0 {
				t.Fatalf("failed by itself: exit code %d", code)
			}
			if code == 0 {
				break // sooner than it was to be killed
			}
			kills++
			if _, step = lastVariables(t, run); step > 0 { // resume reads all from the run's directory
				between++
				command = []string{"resume", run, "--backend", onBackend}
			}
		}
		ends(t, command...)
		got, end := lastVariables(t, run)
		is.Equal(t, "the last step", end, steps)
		is.Equal(t, "variables are those of the unbroken run", string(got) == string(want), true)
		rows := results(t, run)
		is.Equal(t, "results", len(rows), 1)
		is.Equal(t, "validation", rows[0].Validation, wholeRow.Validation)
		if c := rows[0].Command; step > 0 && step < steps &&
			!regexp.MustCompile(`^\S+ train .+; \S+ resume `).MatchString(c) {
			t.Errorf("the result is by the command %s", c)
		}
		gomlxtest.NoError(t, os.RemoveAll(run))
	}
	t.Logf("%d between the first save and the end of %d tries", between, kills)
}

func TestSignal_SavesAndTheExitCodeNamesIt(t *testing.T) {
	data, run := images(t, "signal", 13, 16, 24), filepath.Join(t.TempDir(), "run")
	args := everything(data, run, 1)
	args[len(args)-1] += ";steps=4000"
	e := programtest.Interrupted(t, syscall.SIGTERM, args...)
	e.Complaint(t, "wepe train", 128+15, "interrupted at step", "wepe resume "+run)
	_, step := lastVariables(t, run)
	is.Equal(t, "something is saved", step > 0, true)
	programtest.Interrupted(t, syscall.SIGTERM, "detect", "train", "--train-scenes", "7", "--test-scenes", "3", "--set",
		"steps=4000;batch_size=1;warmup_steps=1;eval_every_steps=1", "--out", filepath.Join(t.TempDir(), "run")).Complaint(t,
		"wepe detect train", 128+15, "the same command")
}

func TestFullDisk_IsAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer full.Close()
	for _, words := range []string{"list recipes", "--help", "train --help"} {
		command := programtest.Command(t, strings.Fields(words)...)
		var complaint strings.Builder
		command.Stdout, command.Stderr = full, &complaint
		_ = command.Run() // its status contains the result
		is.Equal(t, words+": exit code", command.ProcessState.ExitCode(), 1)
		is.Said(t, words, complaint.String(), "no space left")
	}
}

// commands are the arguments that name each command below c.
func commands(c *cobra.Command) (all [][]string) {
	if len(c.Commands()) == 0 {
		return [][]string{strings.Fields(c.CommandPath())[1:]}
	}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// One string as MODEL, DIR, IMAGE, dataset and setting of every command, then as the name of a class and of an image,
// which reach a run's labels, a tar's members, and what each command prints about them.
func TestHostile_StringsObeyNoTerminal(t *testing.T) {
	const hostile = "\x1b[2J\u009b31m\u202egpj\r\nwepe: forged"
	own := images(t, "own", 5, 32, 32)
	class := filepath.Join(own, hostile)
	gomlxtest.NoError(t, os.Rename(filepath.Join(own, "red"), class))
	image := filepath.Join(class, hostile+".png")
	gomlxtest.NoError(t, os.Rename(filepath.Join(class, "b.png"), image))
	raw := string(gomlxtest.Must(os.ReadFile(image))(t))
	shard := filepath.Join(t.TempDir(), hostile+".tar")
	members := datatest.Tar([2]string{hostile + ".png", raw}, [2]string{hostile + ".cls", hostile})
	gomlxtest.NoError(t, os.WriteFile(shard, members, 0o600))
	run := filepath.Join(t.TempDir(), "run")
	rows := [][]string{
		append([]string{"train", "--data", own, "--size", "16x16", "--out", run}, strings.Fields(small)...),
		{"train", "--data", "tar:" + shard, "--out", filepath.Join(t.TempDir(), "tar"), "--backend", "go"},
		{"predict", run, image, "--backend", "go"}, {"predict", run, image, "--json", "--backend", "go"},
		{"eval", run, "--data", own, "--backend", "go"}, {"inspect", run}, {"inspect", run, "--json"},
		{"features", run, "--data", own, "--backend", "go", "--out", filepath.Join(t.TempDir(), hostile)},
		{"export", run, filepath.Join(t.TempDir(), hostile), "--to", "hf", "--backend", "go"},
	}
	for _, words := range commands(command()) {
		if slices.Contains([]string{"completion", "help", "doctor", "licenses"}, words[0]) { // no words of the user's
			continue
		}
		for _, args := range [][]string{{hostile}, {hostile, hostile}, {"--data", hostile}, {hostile, "--data", hostile},
			{"--set", hostile}, {"--" + hostile}, {run, hostile, "--data", hostile}} {
			rows = append(rows, append(slices.Clone(words), args...))
		}
	}
	t.Setenv("GOMLX_BACKEND", "go")
	for i, args := range rows {
		ended := programtest.Run(t, args...)
		if i == 0 && ended.Code != 0 {
			t.Fatalf("training: %s", ended.Stderr)
		}
		for line := range strings.Lines(ended.Stdout + ended.Stderr) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "wepe: forged") || len(line) > 20_000 || strings.ContainsFunc(line, func(r rune) bool {
				return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
			}) {
				t.Errorf("wepe %q prints %.200q", args, line)
			}
		}
	}
}
