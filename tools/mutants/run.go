// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// selecting is added to the package: it reads which mutant is on, and notes the mutants that a test reaches.
const selecting = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var (
	mutantOn, _ = strconv.Atoi(os.Getenv("MUTANT"))
	mutantsReached = os.Getenv("MUTANTS_REACHED")
	mutantsSeen sync.Map
)

func mutantIs(id int) bool {
	if mutantsReached != "" {
		if _, seen := mutantsSeen.LoadOrStore(id, true); !seen {
			f, err := os.OpenFile(mutantsReached, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(f, id)
			f.Close()
		}
	}
	return id == mutantOn
}

func mutantPick[T any](id int, original, changed func() T) T {
	if mutantIs(id) {
		return changed()
	}
	return original()
}
`

// binary is a test binary that contains all mutants.
type binary struct{ file, dir, tmp string }

// build compiles the tests with the mutants that compile, and returns those.
func (p *pkg) build(tmp string, sample []*mutant) (*binary, []*mutant, error) {
	b := &binary{file: filepath.Join(tmp, "tests"), dir: p.dir, tmp: tmp}
	for {
		overlay, ranges, err := p.overlay(tmp, sample)
		if err != nil {
			return nil, nil, err
		}
		cmd := exec.Command("go", "test", "-c", "-gcflags=-e", "-overlay", overlay, "-o", b.file, p.path)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return b, sample, nil
		}
		kept := slices.DeleteFunc(slices.Clone(sample), func(m *mutant) bool { return ranges.wrong(m, out) })
		if len(kept) == len(sample) {
			return nil, nil, fmt.Errorf("go test -c: %w\n%s", err, out)
		}
		sample = kept
	}
}

// ranges are the lines of each mutant in the changed files.
type ranges map[*mutant][2]int

var compileError = regexp.MustCompile(`([\w.-]+\.go):(\d+):`)

func (r ranges) wrong(m *mutant, out []byte) bool {
	for _, e := range compileError.FindAllSubmatch(out, -1) {
		line, _ := strconv.Atoi(string(e[2]))
		if string(e[1]) == filepath.Base(m.file) && r[m][0] <= line && line <= r[m][1] {
			return true
		}
	}
	return false
}

// overlay writes the changed files and the file for go's flag -overlay.
func (p *pkg) overlay(tmp string, sample []*mutant) (string, ranges, error) {
	lines := ranges{}
	replace := map[string]string{}
	add := func(file string, content []byte) error {
		to := filepath.Join(tmp, filepath.Base(file))
		replace[file] = to
		return os.WriteFile(to, content, 0o600)
	}
	for file, source := range p.source {
		var changed bytes.Buffer
		at := 0
		for _, m := range sample {
			if m.file != file {
				continue
			}
			changed.Write(source[at:m.from])
			first := 1 + bytes.Count(changed.Bytes(), []byte("\n"))
			fmt.Fprintf(&changed, m.changed, m.id)
			lines[m] = [2]int{first, 1 + bytes.Count(changed.Bytes(), []byte("\n"))}
			at = m.to
		}
		if at == 0 {
			continue
		}
		changed.Write(source[at:])
		if err := add(file, changed.Bytes()); err != nil {
			return "", nil, err
		}
	}
	if err := add(filepath.Join(p.dir, "mutants_selected.go"), fmt.Appendf(nil, selecting, p.name)); err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(tmp, "overlay.json")
	return file, lines, os.WriteFile(file, text, 0o600)
}

// test is a test with its time and the mutants that it reaches.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool
}

// learn runs every test once without a mutant.
func (b *binary) learn(log io.Writer, parallel int) ([]*test, error) {
	out, err := b.call(0, time.Minute, "-test.list=.")
	if err != nil {
		return nil, err
	}
	var tests []*test
	var mu sync.Mutex
	names := regexp.MustCompile(`(?m)^(Test|Example|Fuzz)\w*$`).FindAllString(string(out), -1)
	each(names, parallel, func(name string) {
		t := &test{name: name, reaches: map[int]bool{}}
		reached := filepath.Join(b.tmp, name)
		start := time.Now()
		out, err := b.call(0, time.Hour, "-test.run=^"+name+"$", "MUTANTS_REACHED="+reached)
		t.took = time.Since(start)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			fmt.Fprintf(log, "left out, as it fails without a mutant: %s\n%s\n", name, out)
			return
		}
		ids, _ := os.ReadFile(reached) // absent if it reaches none
		for _, id := range strings.Fields(string(ids)) {
			n, _ := strconv.Atoi(id)
			t.reaches[n] = true
		}
		tests = append(tests, t)
	})
	slices.SortFunc(tests, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	return tests, nil
}

// run runs the tests that reach a mutant in groups, each at least as long as all before it.
func (b *binary) run(m *mutant, tests []*test) (verdict, by string) {
	verdict = "unreached"
	var group []string
	var took, before time.Duration
	var reaching []*test
	for _, t := range tests {
		if t.reaches[m.id] {
			reaching = append(reaching, t)
		}
	}
	for i, t := range reaching {
		verdict = "survived"
		group, took = append(group, t.name), took+t.took
		if took < max(before, 3*time.Second) && i < len(reaching)-1 {
			continue
		}
		out, err := b.call(m.id, 4*took+30*time.Second, "-test.failfast", "-test.run=^("+strings.Join(group, "|")+")$")
		if err != nil {
			return "caught", failed(out, err)
		}
		group, took, before = nil, 0, before+took
	}
	return verdict, ""
}

// failed is the name of the first test that failed.
func failed(out []byte, err error) string {
	if name := regexp.MustCompile(`--- FAIL: (\S+)`).FindSubmatch(out); name != nil {
		return string(name[1])
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "too slow"
	}
	return err.Error()
}

// call runs the binary with a mutant on; arguments of the form NAME=value in capitals are variables.
func (b *binary) call(mutant int, limit time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	env := append(os.Environ(), "MUTANT="+strconv.Itoa(mutant))
	args = slices.DeleteFunc(args, func(a string) bool {
		variable := strings.HasPrefix(a, "MUTANTS_")
		if variable {
			env = append(env, a)
		}
		return variable
	})
	cmd := exec.CommandContext(ctx, b.file, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = b.dir, env, time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}
