// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
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

// The test of wepe train covers saving at the first signal, and the exit code. Under nohup a hangup is ignored, and the
// first signal is the next.
func TestInterruptible_TheSecondSignalEndsAtOnce(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hangups are ignored, as under nohup")
	}
	for _, c := range []struct {
		before string
		sent   []syscall.Signal
		status int
	}{
		{"", []syscall.Signal{syscall.SIGINT}, 130}, {"", []syscall.Signal{syscall.SIGTERM}, 143},
		{"", []syscall.Signal{syscall.SIGHUP}, 129},
		{`trap "" HUP; `, []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}, 143},
	} {
		command := exec.Command("sh", "-c", c.before+`exec "$0"`, os.Args[0])
		command.Env = append(os.Environ(), "WEPE_TEST_INTERRUPT=1")
		stdout, complaint := gomlxtest.Must(command.StdoutPipe())(t), &strings.Builder{}
		command.Stderr = complaint
		begin := time.Now()
		gomlxtest.NoError(t, command.Start())
		var printed []string
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			printed = append(printed, lines.Text())
			for i, s := range c.sent {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				gomlxtest.NoError(t, command.Process.Signal(s))
			}
		}
		_ = command.Wait()                      // its status contains the result
		first := c.sent[len(c.sent)-1].String() // that is not ignored
		if code := command.ProcessState.ExitCode(); !slices.Equal(printed, []string{"running", "saving"}) ||
			code != c.status || !strings.HasPrefix(complaint.String(), first) || time.Since(begin) > 30*time.Second {
			t.Errorf("%v: printed %q, status %d after %v, want %d: %s", c.sent, printed, code, time.Since(begin), c.status,
				complaint)
		}
	}
}
