// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestMain is also the program that the tests interrupt.
func TestMain(m *testing.M) {
	switch os.Getenv("WEPE_TEST_INTERRUPT") {
	case "":
		os.Exit(m.Run())
	case "saves":
		ctx := Interruptible(&cobra.Command{})
		fmt.Println("running")
		<-ctx.Done()
		fmt.Println("saved")
		os.Exit(signalStatus(ctx))
	case "hangs": // while saving
		ctx := Interruptible(&cobra.Command{})
		fmt.Println("running")
		<-ctx.Done()
		fmt.Println("saving")
		time.Sleep(time.Minute)
		fmt.Println("saved")
		os.Exit(0)
	}
}

// interrupted starts the program, sends it a signal after each of the lines "running" and "saving", and returns what
// it printed and its exit status.
func interrupted(t *testing.T, kind string, s syscall.Signal) (printed string, code int) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "WEPE_TEST_INTERRUPT="+kind)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		printed += line
		if err == io.EOF {
			break
		}
		if strings.HasPrefix(line, "running") || strings.HasPrefix(line, "saving") {
			if err := command.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = command.Wait() // its status says all
	return printed, command.ProcessState.ExitCode()
}

func TestTheFirstSignalLetsTheRunSaveAndTheSecondEndsItAtOnce(t *testing.T) {
	for kind, want := range map[string]string{"saves": "running\nsaved\n", "hangs": "running\nsaving\n"} {
		for s, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			begin := time.Now()
			printed, code := interrupted(t, kind, s)
			if printed != want || code != status || time.Since(begin) > 30*time.Second {
				t.Errorf("%s, %v: printed %q, status %d after %v, want %d", kind, s, printed, code, time.Since(begin), status)
			}
		}
	}
}
