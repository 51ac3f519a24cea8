// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// Package serve compares its answers with predictions.
func TestServe_AnswersUntilASignal(t *testing.T) {
	free := gomlxtest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := free.Addr().String()
	free.Close()
	type ended struct {
		code int
		err  error
	}
	done, raw := make(chan ended, 1), gomlxtest.Must(os.ReadFile(corner))(t)
	go func() {
		_, code, err := invoke(t, "serve --batch 2 --addr", addr, oldRun)
		done <- ended{code, err}
	}()
	for status := 0; status == 0; { // until it listens
		select {
		case e := <-done:
			t.Fatalf("the server ended: exit code %d, %v", e.code, e.err)
		case <-time.After(20 * time.Millisecond):
		}
		if response, err := http.Post("http://"+addr+"/v1/predict", "image/png", bytes.NewReader(raw)); err == nil {
			response.Body.Close()
			status = response.StatusCode
			is.Equal(t, "status", status, http.StatusOK)
		}
	}
	gomlxtest.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	is.Equal(t, "after the signal", <-done, ended{})
}

func TestServe_IsNotExposedWithoutAToken(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:0": true, "localhost:1": true, "[::1]:1": true, "0.0.0.0:1": false,
		":1": false, "192.0.2.1:1": false, "example.com:1": false, "8080": false} {
		s := serving{addr: addr}
		is.Equal(t, addr+" is allowed", s.exposed() == nil, want)
		s.Token = "secret"
		is.Equal(t, addr+" with a token is allowed", s.exposed() == nil, strings.Contains(addr, ":"))
	}
	short := gomlxtest.Must(os.CreateTemp(t.TempDir(), ""))(t)
	gomlxtest.Must(short.WriteString("short\n"))(t)
	for _, args := range []string{"--addr :8080", "--token-file " + short.Name(), "--token-file " + os.DevNull,
		"--token-file nowhere", "--token a7Kqa7Kqa7Kqa7Kq"} {
		refuses(t, 2, "", "serve "+oldRun+" "+args)
	}
}

// The token is that of the file, without its line end, even if the variable is set.
func TestServe_ReadsItsTokenFromAFile(t *testing.T) {
	t.Setenv("WEPE_TOKEN", "a token of the variable\n") // as of echo
	file := filepath.Join(t.TempDir(), "token")
	gomlxtest.NoError(t, os.WriteFile(file, []byte("a token of the file\r\nmore"), 0o600))
	is.Equal(t, "serve --help prints the token", strings.Contains(succeeds(t, "serve --help"), "a token of the"), false)
	for name, want := range map[string]string{"": "a token of the variable", file: "a token of the file"} {
		s := serving{tokenFile: name}
		gomlxtest.NoError(t, s.readToken())
		is.Equal(t, name, s.Token, want)
	}
}

// What the environment says of memory stays, so does what it leaves open to the server.
func TestCollectRarely_KeepsWhatTheEnvironmentSays(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(7<<40), debug.SetGCPercent(77)
	defer func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }()
	for _, set := range [][2]string{{"", ""}, {"7TiB", ""}, {"", "77"}, {"7TiB", "77"}} {
		debug.SetMemoryLimit(7 << 40)
		debug.SetGCPercent(77)
		t.Setenv("GOMEMLIMIT", set[0])
		t.Setenv("GOGC", set[1])
		collectRarely(1 << 30)
		bytes, rate := debug.SetMemoryLimit(7<<40), debug.SetGCPercent(77)
		is.Equal(t, fmt.Sprintf("GOMEMLIMIT and GOGC %q stay", set), [2]bool{bytes == 7<<40, rate == 77},
			[2]bool{set[0] != "", set[1] != ""})
	}
}

func TestNeighbours_AreOfFeaturesOfTheServedModel(t *testing.T) {
	dir, out := images(t, "own", 5, 32, 32), t.TempDir()
	succeeds(t, "features --pool mean --out "+out+" --data", dir, oldRun)
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), oldRun))(t)
	defer m.Finalize()
	nearest := gomlxtest.Must(neighbours(out, m))(t)
	f := gomlxtest.Must(m.Embed(filepath.Join(dir, "green", "c.png")))(t)[0]
	got := nearest(f.Class, f.Mean, 2) // class token and mean have the same width: only one of them was written
	is.Equal(t, "neighbours", []any{len(got), got[0].Name, got[0].Label}, []any{2, "green/c.png", "green"})
	is.Near(t, "similarity to itself", got[0].Similarity, 1, 1e-6)
	other := gomlxtest.Must(finetune.OpenOptions{Size: [2]int{40, 40}}.Open(gomlxtest.Backend(), oldRun))(t)
	defer other.Finalize()
	is.Refused(t, "features of another preprocessing", is.ErrorOf(neighbours(out, other)))
}
