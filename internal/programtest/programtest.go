// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package programtest tests a command as a process: the test binary executes itself as that command.
package programtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// asProgram is the variable that turns a test binary into the program under test.
const asProgram = "WEPE_TEST_MAIN"

// Main is for TestMain: it runs the program, or the tests.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Ended is the result of a run of the program.
type Ended struct {
	Stdout, Stderr string
	Code           int
}

// Command returns the program with arguments, on the backend go by default.
func Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Dir = t.TempDir() // default output directories are created here
	command.Env = append(os.Environ(), asProgram+"=1")
	if os.Getenv(compute.ConfigEnvVar) == "" {
		command.Env = append(command.Env, compute.ConfigEnvVar+"=go")
	}
	return command
}

// Run runs the program.
func Run(t *testing.T, args ...string) Ended {
	t.Helper()
	return Finish(t, Command(t, args...))
}

// Finish runs a command of the program.
func Finish(t *testing.T, command *exec.Cmd) Ended {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Ended{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// Interrupted runs the program and sends it a signal after the first line about progress.
func Interrupted(t *testing.T, s os.Signal, args ...string) Ended {
	t.Helper()
	command := Command(t, args...)
	stderr := gomlxtest.Must(command.StderrPipe())(t)
	gomlxtest.NoError(t, command.Start())
	defer time.AfterFunc(3*time.Minute, func() { _ = command.Process.Kill() }).Stop()
	var printed strings.Builder
	sent := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if !sent && strings.Contains(lines.Text(), "images/s") {
			sent = true
			gomlxtest.NoError(t, command.Process.Signal(s))
		}
	}
	_ = command.Wait() // its status contains the result
	return Ended{"", printed.String(), command.ProcessState.ExitCode()}
}

// Complaint checks that the program ended with a status and a last line that begins with its name and contains every
// want.
func (e Ended) Complaint(t *testing.T, name string, code int, wants ...string) {
	t.Helper()
	stderr := strings.TrimSuffix(e.Stderr, "\n")
	last := stderr[strings.LastIndex(stderr, "\n")+1:]
	if e.Code != code || !strings.HasPrefix(last, name+": ") || strings.Contains(stderr, "goroutine ") {
		t.Errorf("%s: status %d, want %d and a last line of ours: %s", name, e.Code, code, e.Stderr)
	}
	for _, want := range wants {
		if !strings.Contains(last, want) {
			t.Errorf("%s: the last line lacks %q: %s", name, want, last)
		}
	}
}

// Mpirun returns a command as n processes of an MPI job on this machine, even with fewer cores. The test is skipped if
// MPI is missing.
func Mpirun(t *testing.T, n int, command *exec.Cmd) *exec.Cmd {
	t.Helper()
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("mpirun is not installed: apt-get install openmpi-bin libopenmpi-dev")
	}
	flags := []string{"--oversubscribe", "--bind-to", "none", "-np", strconv.Itoa(n)}
	if os.Getuid() == 0 {
		flags = append(flags, "--allow-run-as-root")
	}
	job := exec.CommandContext(t.Context(), mpirun, append(flags, command.Args...)...)
	job.Dir, job.Env = command.Dir, command.Env
	return job
}
