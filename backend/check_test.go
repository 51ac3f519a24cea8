// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package backend

import (
	"os"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/plugin"
)

func TestCheck_PassesOnGo(t *testing.T) {
	if err := Check(gomlxtest.PureGo()); err != nil {
		t.Error(err)
	}
}

// A plugin with the miscompilation computes correct sums through Open, with any flags of the user.
func TestSumsAreRightOnXLAWhateverTheFlags(t *testing.T) {
	if _, installed := xlaCPU(); !installed {
		t.Skip("no PJRT plugin for CPUs: make xla")
	}
	for _, flags := range []string{
		"",
		"--xla_backend_optimization_level=1",
		"--xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_REDUCE,LIBRARY_FUSION_TYPE_ELTWISE",
		"--xla_cpu_experimental_ynn_fusion_type=+LIBRARY_FUSION_TYPE_ELTWISE",
		"no-such-file",
	} {
		printed := inProcess(t, "check", "GOMLX_BACKEND=xla:cpu", "XLA_FLAGS="+flags)
		if !strings.HasPrefix(printed, "backend: xla:cpu (") || strings.Count(printed, "\n") != 1 {
			t.Errorf("XLA_FLAGS=%q: %s", flags, printed)
		}
	}
}

// Without Open's flags the same check fails, on a plugin with the miscompilation.
func TestCheckFindsTheMiscompilation(t *testing.T) {
	path, installed := xlaCPU()
	if !installed {
		t.Skip("no PJRT plugin for CPUs: make xla")
	}
	file := gomlxtest.Must(os.Open(path))(t)
	defer file.Close()
	if known, err := plugin.Contains(file, plugin.FusionFlag); !known {
		t.Skipf("%s has no YNNPACK fusions: %v", path, err)
	}
	printed := inProcess(t, "unguarded", "GOMLX_NO_AUTO_INSTALL=1",
		"XLA_FLAGS=--"+plugin.FusionFlag+"=LIBRARY_FUSION_TYPE_REDUCE")
	if !strings.Contains(printed, "computes a sum of") {
		t.Errorf("%s computes right sums with YNNPACK fusions on (%s): is the guard of flags.go still needed?", path, printed)
	}
}

func xlaCPU() (path string, installed bool) {
	for _, p := range plugin.All() {
		if strings.HasPrefix(p.Name, "cpu") {
			return p.Path, true
		}
	}
	return "", false
}
