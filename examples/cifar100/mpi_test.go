// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && mpi

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/program/programtest"
)

// shared is a training with all that is random or remembers switched on, in so many parts.
func shared(t *testing.T, dataset string, parts int) (args []string, run string) {
	t.Helper()
	if backend := os.Getenv(compute.ConfigEnvVar); backend != "" && !strings.HasPrefix(backend, "go") {
		t.Skipf("backend %s does not promise the same bits twice", backend)
	}
	runs := t.TempDir()
	settings := fmt.Sprintf("accumulate=%d;", parts) +
		"epochs=12;warmup_epochs=2;batch_size=12;ema=0.9;eval_batch_size=5;model.patch_size=8;model.width=8;" +
		"model.heads=2;model.depth=2;model.dropout=0.1;model.drop_path=0.1;augment.mixup_alpha=0.4"
	return []string{"-data", dataset, "-checkpoint", runs, "-position", "wepe", "-set", settings},
		filepath.Join(runs, "cifar100-small", "wepe-seed0")
}

// By MPI_Allreduce the order in which three are added is the MPI's own, and not that of the ranks for all lengths.
func TestProcessesUnderMpirunTrainTheWeightsOfOne(t *testing.T) {
	dataset := cifar(t)
	for n, ways := range map[int][]string{2: {"allreduce", "ordered"}, 3: {"ordered"}} {
		args, run := shared(t, dataset, n)
		if e := cifar100.Run(t, args...); e.Code != 0 {
			t.Fatal(e.Stderr)
		}
		want, step := lastVariables(t, run)
		for _, way := range ways {
			t.Run(fmt.Sprint(n, way), func(t *testing.T) {
				args, run := shared(t, dataset, n)
				e := cifar100.Finish(t, programtest.Mpirun(t, n, cifar100.Command(t, append(args, "-mpi", way)...)))
				if e.Code != 0 {
					t.Fatal(e.Stderr)
				}
				if got, at := lastVariables(t, run); at != step || string(got) != string(want) {
					t.Errorf("after step %d of %d the weights are not those of one process", at, step)
				}
				if strings.Count(e.Stdout, "pages:") != 1 || strings.Count(e.Stderr, "recipe ") != 1 {
					t.Errorf("not one process alone tells of the run: %s\n%s", e.Stdout, e.Stderr)
				}
			})
		}
	}
}

// children are the processes that a process started, the oldest first.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	text := gomlxtest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)))(t)
	for _, field := range strings.Fields(string(text)) {
		var child int
		if _, err := fmt.Sscan(field, &child); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, child)
	}
	slices.Sort(pids)
	return pids
}

func TestTheDeathOfAProcessEndsTheRunAndAnotherGoesOn(t *testing.T) {
	dataset := cifar(t)
	args, run := shared(t, dataset, 2)
	if e := cifar100.Run(t, args...); e.Code != 0 {
		t.Fatal(e.Stderr)
	}
	want, steps := lastVariables(t, run)
	for rank, victim := range []string{"the one that writes", "the other"} {
		t.Run(victim, func(t *testing.T) {
			args, run := shared(t, dataset, 2)
			job := programtest.Mpirun(t, 2, cifar100.Command(t, append(args, "-mpi", "allreduce")...))
			var said strings.Builder
			job.Stderr = &said
			if err := job.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- job.Wait() }()
			deadline := time.After(2 * time.Minute)
			for step := int64(0); step == 0; _, step = lastVariables(t, run) {
				select {
				case err := <-ended:
					t.Fatalf("ended before the kill: %v: %s", err, said.String())
				case <-deadline:
					t.Fatalf("no checkpoint in two minutes: %s", said.String())
				case <-time.After(20 * time.Millisecond):
				}
			}
			if err := syscall.Kill(children(t, job.Process.Pid)[rank], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			var err error
			select {
			case err = <-ended:
			case <-time.After(time.Minute):
				_ = job.Process.Kill()
				t.Fatal("the others still wait after a minute")
			}
			_, at := lastVariables(t, run) // of a whole checkpoint: every file has the sum that its list says
			t.Logf("%v after step %d of %d saved, and said:\n%s", err, at, steps, said.String())
			if exit := (*exec.ExitError)(nil); err == nil || !errors.As(err, &exit) || exit.ExitCode() != 128+9 {
				t.Errorf("ended with %v, want status 137", err)
			}
			if line := fmt.Sprintf("process rank %d", rank); !strings.Contains(said.String(), line) ||
				!strings.Contains(said.String(), "signal 9 (Killed)") {
				t.Errorf("no line names the process %d that was killed: %s", rank, said.String())
			}
			if at == 0 || at >= steps {
				t.Fatalf("the checkpoint is of step %d of %d: this test showed nothing", at, steps)
			}
			e := cifar100.Finish(t, programtest.Mpirun(t, 2, cifar100.Command(t, append(args, "-mpi", "allreduce")...)))
			if got, at := lastVariables(t, run); e.Code != 0 || at != steps || string(got) != string(want) {
				t.Errorf("status %d, step %d: the run that goes on ends with other weights: %s", e.Code, at, e.Stderr)
			}
		})
	}
}

// The directory is in use: the process that writes cannot begin, and the other would wait for it.
func TestAProcessThatFailsAloneUnderMpirunEndsTheOthers(t *testing.T) {
	args, run := shared(t, cifar(t), 2)
	unlock := gomlxtest.Must(checkpoints.Lock(run))(t)
	defer func() { _ = unlock() }()
	e := cifar100.Finish(t, programtest.Mpirun(t, 2, cifar100.Command(t, append(args, "-mpi", "allreduce")...)))
	if e.Code != 1 || !strings.Contains(e.Stderr, "cifar100: process 0 of 2: ") ||
		!strings.Contains(e.Stderr, "in use by another process") {
		t.Errorf("status %d: %s", e.Code, e.Stderr)
	}
}
