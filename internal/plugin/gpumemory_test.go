// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"os"
	"testing"
)

func TestMemoryOfProcessesIsThatOfTheDriver(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := GPUMemory(t.Context()); err == nil {
		t.Error("no error without nvidia-smi")
	}
	listed := "#!/bin/sh\necho '17, 3'\necho '19, [N/A]'\necho '23, 5238'\n"
	if err := os.WriteFile(dir+"/nvidia-smi", []byte(listed), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := GPUMemory(t.Context())
	if want := map[int]float64{17: 3 << 20, 23: 5238 << 20}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
