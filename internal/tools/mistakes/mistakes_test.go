// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package mistakes runs the programs with what users do wrong, and holds docs/mistakes.md to what they say.
package mistakes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

const page = "../../../docs/mistakes.md"

var update = flag.Bool("update", false, "write what is seen into docs/mistakes.md")

// mistake is a command of the shell, given in the directory of workplace, and what becomes of it.
type mistake struct {
	line   string // what is done, and after a # why
	status int
	wants  string // what the last line on stderr must hold, divided by |; of status 0 that on stdout
	left   string // what is there that was not before; with … at its end all of that directory
	user   bool   // by one who may write nothing there: only where root runs the test
	long   bool   // takes seconds: only where WEPE_CAMPAIGN=1 is set
}

// numbers are those that differ from run to run: of processes, of steps when a signal came.
var numbers = regexp.MustCompile(`(tmp-|interrupted at step )\d+`)

// say is what a process printed last, with paths as they are from the workplace.
func (p *place) say(printed string) (before []string, last string) {
	printed = strings.NewReplacer(p.dir+"/", "", p.dir, ".", p.hub, "$HUB").Replace(strings.TrimRight(printed, "\n"))
	printed = numbers.ReplaceAllString(printed, "${1}N")
	lines := strings.Split(printed, "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// tree is what is below the workplace: sizes and times by path.
func (p *place) tree(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(p.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && !entry.IsDir() {
			all[path] = fmt.Sprint(info.Size(), info.ModTime(), info.Mode())
		} else if err == nil {
			all[path] = fmt.Sprint(info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run does what a mistake says and returns its row of the page.
func (p *place) run(t *testing.T, m mistake) (row string) {
	t.Helper()
	before := p.tree(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", m.line)
	command.Dir, command.Env, command.WaitDelay = p.dir, p.env, time.Second
	if m.user {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", m.line, err)
	}
	lines, said := p.say(stderr.String())
	if got := command.ProcessState.ExitCode(); got != m.status {
		t.Errorf("%s: status %d, want %d: %s", m.line, got, m.status, stderr.String())
	}
	program, rest, _ := strings.Cut(said, ": ")
	switch {
	case m.status == 0:
		_, said = p.say(stdout.String())
	case !strings.Contains(m.line, program):
		t.Errorf("%s: no line of the program's own: %s", m.line, said)
	default:
		said = rest
	}
	for _, line := range lines { // which tell how far it came
		if m.status == 2 || strings.HasPrefix(line, program+": ") || strings.Contains(line, "goroutine ") {
			t.Errorf("%s: a line more than the complaint: %s", m.line, line)
		}
	}
	for _, want := range strings.Split(m.wants, "|") {
		if !strings.Contains(said, want) {
			t.Errorf("%s: the last line lacks %q: %s", m.line, want, said)
		}
	}
	var left []string
	after := p.tree(t)
	for path, what := range after {
		if before[path] != what {
			left = append(left, strings.TrimPrefix(path, p.dir+"/"))
		}
	}
	for path := range before {
		if after[path] == "" {
			t.Errorf("%s: %s is gone", m.line, path)
		}
	}
	slices.Sort(left)
	whole, all := strings.CutSuffix(m.left, "/…")
	if got := strings.Join(left, " "); got != m.left && !(all && slices.Contains(left, whole) &&
		!slices.ContainsFunc(left, func(path string) bool { return path != whole && !strings.HasPrefix(path, whole+"/") })) {
		t.Errorf("%s: left %q, want %q", m.line, got, m.left)
	}
	for _, path := range slices.Backward(left) {
		if before[filepath.Join(p.dir, path)] != "" {
			t.Fatalf("%s: changed %s", m.line, path)
		}
		if err := os.Remove(filepath.Join(p.dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	what, why, _ := strings.Cut(m.line, " # ")
	return fmt.Sprintf("| %s | %s | %s | %d | %s |\n", why, code(what), code(said), m.status, code(m.left))
}

// code is text in a cell of Markdown.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "`", "'") + "`"
}

func TestEveryMistakeIsOneLineThatSaysWhatToDoAndLeavesNothingHalfWritten(t *testing.T) {
	p := workplace(t)
	text := string(gomlxtest.Must(os.ReadFile(page))(t))
	known := map[string]string{} // rows of the page by what is done
	for _, row := range regexp.MustCompile("(?m)^\\| .*?\\| (`.*?`) \\| .*\n").FindAllStringSubmatch(text, -1) {
		known[row[1]] = row[0]
	}
	var all strings.Builder
	var count int
	for _, group := range mistakes {
		fmt.Fprintf(&all, "\n## %s\n\n| why | what is done | what is said | status | what is left |\n", group.about)
		all.WriteString("| --- | --- | --- | ---: | --- |\n")
		for _, m := range group.of {
			what, _, _ := strings.Cut(m.line, " # ")
			row := known[code(what)]
			if (!m.long || os.Getenv("WEPE_CAMPAIGN") == "1") && (!m.user || os.Getuid() == 0) {
				row = p.run(t, m)
			}
			if row == "" {
				t.Errorf("%s is not in %s: WEPE_CAMPAIGN=1 go test ./internal/tools/mistakes -update", m.line, page)
			}
			all.WriteString(row)
			count++
		}
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d mistakes; %v of processor time, %v of it before the first", count,
		time.Duration(used.Utime.Nano()+used.Stime.Nano()), p.used)
	const begin, end = "<!-- mistakes -->\n", "\n<!-- end -->"
	head, rest, _ := strings.Cut(text, begin)
	old, tail, _ := strings.Cut(rest, end)
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+all.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	is, says := slices.Collect(strings.Lines(all.String())), slices.Collect(strings.Lines(old))
	for _, line := range says {
		if !slices.Contains(is, line) {
			t.Errorf("%s has a row that is not so (-update mends it): %s", page, line)
		}
	}
	for _, line := range is {
		if !slices.Contains(says, line) {
			t.Errorf("%s lacks (-update mends it): %s", page, line)
		}
	}
}
