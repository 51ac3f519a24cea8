// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
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
		if err := reachesItself(); err != nil {
			fmt.Fprintln(os.Stderr, "the tests serve files on 127.0.0.1, which cannot be reached here:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(raw), &j)
	if err == nil {
		err = NewClient(nil, "").Fetch(context.Background(), j.File, j.Path, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reachesItself tells whether this machine has a loopback interface, which a network namespace need not.
func reachesItself() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	connection, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
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

// killWhen kills a process once its work has come so far; one that ends before fails the test, as does one that hangs.
func killWhen(t *testing.T, cmd *exec.Cmd, reached func() bool) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.After(time.Minute); !reached(); {
		select {
		case err := <-ended:
			t.Fatalf("the other process ended too early: %v", err)
		case <-deadline:
			t.Fatal("the other process did nothing for a minute")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestFetchGoesOnWhereAKilledProcessStopped(t *testing.T) {
	s := newServer(t, 900_001)
	s.setStall(time.Minute)
	path := filepath.Join(t.TempDir(), "file.bin")
	cmd := start(t, s.file(), path)
	half := int64(len(s.content) / 2)
	killWhen(t, cmd, func() bool { return fileSize(path+".incomplete") >= half })
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
