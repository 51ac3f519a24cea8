// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
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

// Commit returns the source revision of the running program from its build information: the revision that the Go tool
// stamped, with "+dirty" for uncommitted changes, or the version of the module, or "unknown", as with go run and go
// test. The working directory does not matter.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return revision(info)
}

func revision(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	switch commit := settings["vcs.revision"]; {
	case commit != "" && settings["vcs.modified"] == "true":
		return commit + "+dirty"
	case commit != "":
		return commit
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "unknown"
}

// commandLine joins the arguments as typed on a command line, so that it can be pasted; of the program only the name is
// kept.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if i == 0 {
			arg = filepath.Base(arg)
		}
		if strings.ContainsAny(arg, " ;'\"*?$&|<>()") || arg == "" {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		words[i] = arg
	}
	return strings.Join(words, " ")
}
