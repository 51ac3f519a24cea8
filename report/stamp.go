// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Stamp fills the fields of a run about its time, source and machine: Date, Commit, Cores and Command.
func (r *Result) Stamp(now time.Time) {
	r.Date = now.UTC().Format(time.RFC3339)
	r.Commit = Commit()
	r.Cores = runtime.NumCPU()
	r.Command = commandLine(os.Args)
}

// Commit returns the source revision of the running program: the one that the Go tool stamped into the binary, or that
// of the git checkout of the working directory if this is the program's own module (go run and go test stamp nothing),
// or "unknown". A revision with uncommitted changes ends in "+dirty".
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := make(map[string]string)
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	revision, dirty := settings["vcs.revision"], settings["vcs.modified"] == "true"
	if revision == "" {
		top, _ := git("", "rev-parse", "--show-toplevel")
		module, err := os.ReadFile(filepath.Join(top, "go.mod"))
		if err != nil || !strings.HasPrefix(string(module), "module "+info.Main.Path+"\n") {
			return "unknown"
		}
		if revision, ok = git(top, "rev-parse", "HEAD"); !ok {
			return "unknown"
		}
		// Only sources of the program: rows appended to a versioned record change no result.
		changes, ok := git(top, "status", "--porcelain", "--", "*.go", "go.mod", "go.sum")
		dirty = !ok || changes != ""
	}
	if dirty {
		return revision + "+dirty"
	}
	return revision
}

// git runs a git command in a directory ("" is the current one) and returns its trimmed output.
func git(dir string, args ...string) (string, bool) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err == nil
}

// commandLine joins the arguments as typed on a command line. Records are published, so only the last element of an
// absolute path is kept: other directories mean nothing on another machine.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		at := strings.IndexByte(arg, '/') // of DIR, --out=DIR, cifar100:DIR, but not hf://owner/name
		if at >= 0 && !strings.HasPrefix(arg[at:], "//") && (at == 0 || strings.ContainsRune("=:", rune(arg[at-1]))) {
			arg = arg[:at] + filepath.Base(arg)
		}
		if strings.ContainsAny(arg, " ;'\"*?$&|<>()") || arg == "" {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words[i] = arg
	}
	return strings.Join(words, " ")
}
