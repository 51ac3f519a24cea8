// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build cgo && !noxla

package backend

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// init is the program of TestTune_RestartsOnce.
func init() {
	if os.Getenv("WEPE_TEST_TASK") != "tune" {
		return
	}
	Tune()
	started, _ := os.ReadFile("/proc/self/environ") // of this execve
	fmt.Print(os.Getpid(), " ", strings.Contains(string(started), "GLIBC_TUNABLES=glibc.malloc.arena_max=1"), " ",
		os.Getenv("GLIBC_TUNABLES")+os.Getenv(tuneVariable), " ", os.Getenv("GODEBUG"), " ", os.Args[1:])
	os.Exit(0)
}

func TestTune_RestartsOnce(t *testing.T) {
	for _, c := range []struct {
		environment string
		want        string // whether it was re-executed, variables that children inherit, arguments
	}{
		{"GOMLX_BACKEND=xla:cpu", "true  cpu.fma=off [a b c]"},
		{"GOMLX_BACKEND=go", "false  cpu.fma=off [a b c]"},
		{"WEPE_TUNE=0", "false 0 cpu.fma=off [a b c]"},
		{"GLIBC_TUNABLES=glibc.malloc.perturb=1", "false glibc.malloc.perturb=1 cpu.fma=off [a b c]"},
		{"WEPE_TUNE=1 GOMLX_BACKEND=go GODEBUG=madvdontneed=1", "false  madvdontneed=1,cpu.fma=off [a b c]"},
	} {
		if strings.Contains(c.environment, "madvdontneed") && !strings.Contains(runtime.Version(), "simd") {
			continue
		}
		command := exec.Command(os.Args[0], "a", "b c")
		command.Env = append([]string{"HOME=" + t.TempDir(), "WEPE_TEST_TASK=tune", "GODEBUG=cpu.fma=off"},
			strings.Fields(c.environment)...)
		var out strings.Builder
		command.Stdout, command.Stderr = &out, os.Stderr
		gomlxtest.NoError(t, command.Run())
		is.Equal(t, fmt.Sprint(c.environment), out.String(), fmt.Sprint(command.Process.Pid, " ", c.want))
	}
}

// The slow exponential is of programs with vectorized kernels; the user's other settings of GODEBUG stay.
func TestUntuned_GODEBUG(t *testing.T) {
	for _, c := range []struct{ version, debug, want string }{
		{"go1.26.8 X:simd", "", "GODEBUG=cpu.fma=off"},
		{"go1.26.8 X:simd", "gctrace=1", "GODEBUG=gctrace=1,cpu.fma=off"},
		{"go1.26.8 X:simd", "cpu.fma=on", ""},
		{"go1.26.8", "", ""},
	} {
		lookup := func(name string) string {
			return map[string]string{"GODEBUG": c.debug, "GOMLX_BACKEND": "go"}[name]
		}
		if got := strings.Join(untuned(c.version, lookup), " "); got != c.want && runtime.GOARCH == "amd64" {
			t.Errorf("%s, GODEBUG=%q: %q, want %q", c.version, c.debug, got, c.want)
		}
	}
}
