// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// job is what another process of the test binary is to fetch, in the variable of this name.
const jobVariable = "WEPE_FETCH_JOB"

type job struct {
	File File
	Path string
}

// TestMain lets the test binary be the other process.
func TestMain(m *testing.M) {
	raw, ok := os.LookupEnv(jobVariable)
	if !ok {
		os.Exit(m.Run())
	}
	var j job
	if err := json.Unmarshal([]byte(raw), &j); err != nil {
		panic(err)
	}
	if err := NewClient(nil, "").Fetch(context.Background(), j.File, j.Path, nil); err != nil {
		panic(err)
	}
}

// start begins to fetch in another process.
func start(t *testing.T, f File, path string) *exec.Cmd {
	raw, err := json.Marshal(job{f, path})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+string(raw))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestFetchGoesOnWhereAKilledProcessStopped(t *testing.T) {
	s := newServer(t, 900_001)
	s.setStall(time.Minute)
	path := filepath.Join(t.TempDir(), "file.bin")
	cmd := start(t, s.file(), path)
	half := int64(len(s.content) / 2)
	for fileSize(path+".incomplete") < half {
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	absent(t, path)
	s.setStall(0)
	if err := fetch(t, s.file(), path); err != nil {
		t.Fatal(err)
	}
	arrived(t, path, s.content)
	if _, sent := s.seen(); sent != len(s.content)-int(half) {
		t.Errorf("%d bytes sent after the kill, want the other half of %d", sent, len(s.content))
	}
}

func TestTwoProcessesShareOneTransfer(t *testing.T) {
	s := newServer(t, 300_007)
	s.setStall(100 * time.Millisecond) // time for the other one to come
	path := filepath.Join(t.TempDir(), "file.bin")
	cmd := start(t, s.file(), path)
	if err := fetch(t, s.file(), path); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	arrived(t, path, s.content)
	if requests, _ := s.seen(); len(requests) != 1 {
		t.Errorf("%d requests, want 1", len(requests))
	}
}
