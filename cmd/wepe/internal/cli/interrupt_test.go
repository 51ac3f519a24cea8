// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// TestMain is also the program that the test interrupts while it saves.
func TestMain(m *testing.M) {
	if os.Getenv("WEPE_TEST_INTERRUPT") == "" {
		os.Exit(m.Run())
	}
	ctx := Interruptible(&cobra.Command{})
	fmt.Println("running")
	<-ctx.Done()
	fmt.Println("saving")
	time.Sleep(time.Minute)
	fmt.Println("saved")
}

// The test of wepe train covers saving at the first signal, and the exit code.
// As under nohup: the hangup is ignored, and the first signal is the next.
func TestInterruptible_LeavesAHangupIgnored(t *testing.T) {
	command := exec.Command("sh", "-c", `trap "" HUP; exec "$0"`, os.Args[0])
	command.Env = append(os.Environ(), "WEPE_TEST_INTERRUPT=1")
	stdout, complaint := gomlxtest.Must(command.StdoutPipe())(t), &strings.Builder{}
	command.Stderr = complaint
	gomlxtest.NoError(t, command.Start())
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		_ = command.Process.Signal(syscall.SIGHUP)
		time.Sleep(100 * time.Millisecond)
		_ = command.Process.Signal(syscall.SIGTERM)
	}
	_ = command.Wait()
	if code := command.ProcessState.ExitCode(); code != 143 || !strings.HasPrefix(complaint.String(), "terminated") {
		t.Errorf("status %d: %s", code, complaint)
	}
}

func TestInterruptible_TheSecondSignalEndsAtOnce(t *testing.T) {
	for s, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "WEPE_TEST_INTERRUPT=1")
		stdout := gomlxtest.Must(command.StdoutPipe())(t)
		begin := time.Now()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		var printed []string
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			printed = append(printed, lines.Text())
			if err := command.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		_ = command.Wait() // its status contains the result
		if code := command.ProcessState.ExitCode(); !slices.Equal(printed, []string{"running", "saving"}) ||
			code != status || time.Since(begin) > 30*time.Second {
			t.Errorf("%v: printed %q, status %d after %v, want %d", s, printed, code, time.Since(begin), status)
		}
	}
}
