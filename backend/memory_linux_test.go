// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build cgo && !noxla

package backend

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// init is the program of TestKeepMemoryRestartsOnce.
func init() {
	if os.Getenv("WEPE_TEST_TASK") != "keep memory" {
		return
	}
	KeepMemory()
	started, _ := os.ReadFile("/proc/self/environ") // of this execve
	fmt.Print(os.Getpid(), " ", strings.Contains(string(started), "GLIBC_TUNABLES=glibc.malloc.arena_max=1"), " ",
		os.Getenv("GLIBC_TUNABLES")+os.Getenv(memoryVariable), " ", os.Args[1:])
	os.Exit(0)
}

func TestKeepMemoryRestartsOnce(t *testing.T) {
	for _, c := range []struct {
		environment string
		want        string // whether it was re-executed, variables that children inherit, arguments
	}{
		{"GOMLX_BACKEND=xla:cpu", "true  [a b c]"},
		{"GOMLX_BACKEND=go", "false  [a b c]"},
		{"WEPE_KEEP_MEMORY=0", "false 0 [a b c]"},
		{"GLIBC_TUNABLES=glibc.malloc.perturb=1", "false glibc.malloc.perturb=1 [a b c]"},
	} {
		command := exec.Command(os.Args[0], "a", "b c")
		command.Env = []string{"HOME=" + t.TempDir(), "WEPE_TEST_TASK=keep memory", c.environment}
		var out strings.Builder
		command.Stdout, command.Stderr = &out, os.Stderr
		if err := command.Run(); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint(command.Process.Pid, " ", c.want); out.String() != want {
			t.Errorf("%s: %q, want %q", c.environment, &out, want)
		}
	}
}
