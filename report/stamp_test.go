// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"
)

func TestCommitNamesTheCheckoutAndMarksChangedSources(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if _, err := exec.LookPath("git"); err != nil || !ok || info.Main.Path == "" {
		t.Skip("needs git and a module build")
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			t.Skip("the test binary itself is stamped")
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := Commit(); got != "unknown" {
		t.Errorf("outside a checkout: %q, want unknown", got)
	}
	run("init", "-q")
	write("go.mod", "module "+info.Main.Path+"\n")
	if got := Commit(); got != "unknown" {
		t.Errorf("before the first commit: %q, want unknown", got)
	}
	write("go.mod", "module example.com/another\n")
	write("main.go", "package main\n")
	run("add", ".")
	run("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "first")
	if got := Commit(); got != "unknown" {
		t.Errorf("in the checkout of another module: %q, want unknown", got)
	}
	write("go.mod", "module "+info.Main.Path+"\n")
	run("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-a", "-m", "second")
	revision, _ := git("", "rev-parse", "HEAD")
	write("runs.jsonl", "{}\n")
	if got := Commit(); got != revision || len(got) < 40 {
		t.Errorf("clean sources: %q, want %q", got, revision)
	}
	write("main.go", "package main // changed\n")
	for _, from := range []string{dir, filepath.Join(dir, "folder")} {
		if err := os.MkdirAll(from, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Chdir(from)
		if got := Commit(); got != revision+"+dirty" {
			t.Errorf("changed sources, in %s: %q, want %q", from, got, revision+"+dirty")
		}
	}
}

func TestTheCommandLineKeepsNoDirectoryOfTheMachine(t *testing.T) {
	got := commandLine([]string{"/some/where/cifar100", "-data=/home/me/sets/cifar", "-out", "/home/me/out", "-seeds=3",
		"-set", "a=1;b=2", "-data=rel/dir", "hf://owner/name", "cifar100:/home/me/sets", "--data=vtab:dtd:/home/me/vtab",
		"", "it's"})
	want := "cifar100 -data=cifar -out out -seeds=3 -set 'a=1;b=2' -data=rel/dir hf://owner/name cifar100:sets " +
		`--data=vtab:dtd:vtab '' 'it'\''s'`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStampWritesTheDateInUTC(t *testing.T) {
	var run Result
	run.Stamp(time.Date(2026, 11, 21, 3, 4, 5, 6, time.FixedZone("east", 2*60*60)))
	if run.Date != "2026-11-21T01:04:05Z" || run.Cores < 1 || run.Commit == "" || run.Command == "" {
		t.Errorf("got %+v", run)
	}
}
