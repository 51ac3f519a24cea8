// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package programtest

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

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
