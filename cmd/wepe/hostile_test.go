// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/programtest"
)

// commands are the arguments that name each command below c.
func commands(c *cobra.Command) (all [][]string) {
	if len(c.Commands()) == 0 {
		return [][]string{strings.Fields(c.CommandPath())[1:]}
	}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

// One string as MODEL, DIR, IMAGE, dataset and setting of every command, then as the name of a class and of an image,
// which reach a run's labels, a tar's members, and what each command prints about them.
func TestHostile_StringsObeyNoTerminal(t *testing.T) {
	const hostile = "\x1b[2J\u009b31m\u202egpj\r\nwepe: forged"
	own := images(t, "own", 5, 32, 32)
	class := filepath.Join(own, hostile)
	gomlxtest.NoError(t, os.Rename(filepath.Join(own, "red"), class))
	image := filepath.Join(class, hostile+".png")
	gomlxtest.NoError(t, os.Rename(filepath.Join(class, "b.png"), image))
	raw := string(gomlxtest.Must(os.ReadFile(image))(t))
	shard := filepath.Join(t.TempDir(), hostile+".tar")
	members := datatest.Tar([2]string{hostile + ".png", raw}, [2]string{hostile + ".cls", hostile})
	gomlxtest.NoError(t, os.WriteFile(shard, members, 0o600))
	run := filepath.Join(t.TempDir(), "run")
	rows := [][]string{
		append([]string{"train", "--data", own, "--size", "16x16", "--out", run}, strings.Fields(small)...),
		{"train", "--data", "tar:" + shard, "--out", filepath.Join(t.TempDir(), "tar"), "--backend", "go"},
		{"predict", run, image, "--backend", "go"}, {"predict", run, image, "--json", "--backend", "go"},
		{"eval", run, "--data", own, "--backend", "go"}, {"inspect", run}, {"inspect", run, "--json"},
		{"features", run, "--data", own, "--backend", "go", "--out", filepath.Join(t.TempDir(), hostile)},
		{"export", run, filepath.Join(t.TempDir(), hostile), "--to", "hf", "--backend", "go"},
	}
	for _, words := range commands(command()) {
		if slices.Contains([]string{"completion", "help", "doctor", "licenses"}, words[0]) { // no words of the user's
			continue
		}
		for _, args := range [][]string{{hostile}, {hostile, hostile}, {"--data", hostile}, {hostile, "--data", hostile},
			{"--set", hostile}, {"--" + hostile}, {run, hostile, "--data", hostile}} {
			rows = append(rows, append(slices.Clone(words), args...))
		}
	}
	t.Setenv("GOMLX_BACKEND", "go")
	for i, args := range rows {
		ended := programtest.Run(t, args...)
		if i == 0 && ended.Code != 0 {
			t.Fatalf("training: %s", ended.Stderr)
		}
		for line := range strings.Lines(ended.Stdout + ended.Stderr) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "wepe: forged") || len(line) > 20_000 || strings.ContainsFunc(line, func(r rune) bool {
				return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
			}) {
				t.Errorf("wepe %q prints %.200q", args, line)
			}
		}
	}
}
