// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package gomlxtest

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute"
)

// A test that OnGo skips on every backend would be green without having run.
func TestOnGoRunsOnPureGoAlone(t *testing.T) {
	ran, name := false, cmp.Or(os.Getenv(compute.ConfigEnvVar), pureGo)
	t.Run("on "+name, func(t *testing.T) {
		OnGo(t)
		ran = true
	})
	if want := name == "go" || strings.HasPrefix(name, "go:"); ran != want {
		t.Errorf("on %s: ran %v, want %v", name, ran, want)
	}
}
