// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/janpfeifer/must"
)

func TestFusionsAreOffAndTheUsersFlagsStay(t *testing.T) {
	t.Chdir(t.TempDir())
	must.M(os.WriteFile("flags.txt", []byte("--xla_dump_to=d\n"), 0o600))
	for _, c := range []struct {
		user    string
		unknown bool // the plugin does not have the flag
		want    string
	}{
		{"", false, noFusions}, {"--a=1 --b", false, "--a=1 --b " + noFusions},
		{"--a=1 " + noFusions, false, "--a=1 " + noFusions}, // as for a second backend
		{"--xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_REDUCE", false,
			"--xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_REDUCE " + noFusions},
		{"flags.txt", false, "--xla_dump_to=d " + noFusions}, {"missing.txt", false, noFusions},
		{"--a=1", true, "--a=1"}, {noFusions + " --a=1", true, "--a=1"}, {"flags.txt", true, "flags.txt"},
	} {
		got, note := withoutFusions(c.user, !c.unknown)
		if got != c.want || (note == "") != c.unknown {
			t.Errorf("%q: %q, %q, want %q", c.user, got, note, c.want)
		}
	}
}

func TestContainsFindsTextAcrossReads(t *testing.T) {
	const text = "flag"
	for before := 1<<20 - 5; before < 1<<20+3; before++ {
		stream := strings.Repeat("f", before) + text + "!"
		if found, err := Contains(iotest.HalfReader(strings.NewReader(stream)), text); !found || err != nil {
			t.Errorf("after %d bytes: %t, %v", before, found, err)
		}
		if found, err := Contains(strings.NewReader(stream[:before+3]), text); found || err != nil {
			t.Errorf("cut after %d bytes: %t, %v", before+3, found, err)
		}
	}
	failed := errors.New("disk")
	if _, err := Contains(iotest.ErrReader(failed), text); !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
}

func TestMemoryOfProcessesIsThatOfTheDriver(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := GPUMemory(t.Context()); err == nil {
		t.Error("no error without nvidia-smi")
	}
	listed := "#!/bin/sh\necho '17, 3'\necho '19, [N/A]'\necho '23, 5238'\n"
	must.M(os.WriteFile(dir+"/nvidia-smi", []byte(listed), 0o700))
	got, err := GPUMemory(t.Context())
	if want := map[int]float64{17: 3 << 20, 23: 5238 << 20}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
