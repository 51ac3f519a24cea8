// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command campaign runs the tests of the goals of docs/reliability.md as often as is promised there, and notes what
// came of each part in a line of docs/runs/campaign.jsonl. What stands there for the present commit is not done again,
// so that a campaign that was stopped goes on.
//
//	go run ./internal/tools/campaign                 # all, hours
//	go run ./internal/tools/campaign -only R5,R7
//	go run ./internal/tools/campaign -short          # what the tests do by default, minutes; nothing is noted
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
)

var (
	only   = flag.String("only", "", "goals, or parts as finetune/data:^FuzzTar$, joined by commas; all if empty")
	short  = flag.Bool("short", false, "as often as the tests do by default, without searches and -race; notes nothing")
	out    = flag.String("out", "docs/runs/campaign.jsonl", "file of the rows")
	logs   = flag.String("logs", "runs/campaign", "directory of what the tests print")
	seed   = flag.Uint64("seed", 0, "another one makes other mutations, schedules and models")
	search = flag.Duration("search", time.Minute, "how long the Go tool searches inputs for a fuzz target; 0 not at all")
	limit  = flag.Duration("limit", 0, "for each part, which then ends short of what is promised; 0 for none")
	vulndb = flag.String("vulndb", "https://vuln.go.dev", "database of vulnerabilities")
)

func main() {
	flag.Parse()
	failed, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func run() (failed bool, err error) {
	if err := os.MkdirAll(*logs, 0o755); err != nil {
		return false, err
	}
	if *short {
		*search = 0
	}
	commit, err := commit()
	if err != nil {
		return false, err
	}
	for _, g := range goals {
		for _, p := range g.parts {
			if *only != "" && !slices.Contains(strings.Split(*only, ","), g.name) &&
				!slices.Contains(strings.Split(*only, ","), p.String()) || *short && p.race {
				continue
			}
			rows, err := campaign.Read(*out)
			if err != nil {
				return failed, err
			}
			if slices.ContainsFunc(rows, func(r campaign.Row) bool {
				return r.Goal == g.name && r.Part == p.String() && r.Commit == commit && r.Whole && r.Seed == *seed
			}) {
				continue
			}
			row := p.do()
			row.Goal, row.Promise, row.Commit, row.Seed = g.name, g.promise, commit, *seed
			fmt.Printf("%-4s %-50s %6d s  %v %s %v\n", g.name, row.Part, row.Seconds, row.Counts, row.Note, row.Defects)
			failed = failed || len(row.Defects) > 0
			if !*short {
				if err := campaign.Append(*out, row); err != nil {
					return failed, err
				}
			}
		}
	}
	return failed, nil
}

// commit is the present one, marked where anything but the rows and their table has changed since.
func commit() (string, error) {
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse HEAD: %w", err)
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--", ".", ":!docs/runs",
		":!docs/reliability.md").Output()
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	name := strings.TrimSpace(string(head))
	if len(changed) > 0 {
		name += "+dirty"
	}
	return name, nil
}

func (p part) String() string {
	if p.tool != nil {
		return p.tool[1]
	}
	if p.race {
		return "-race " + p.packages
	}
	return p.packages + ":" + p.tests
}

// do runs a part.
func (p part) do() campaign.Row {
	start := time.Now()
	row := campaign.Row{Part: p.String(), Whole: !*short, Date: start.UTC().Format(time.RFC3339), Counts: map[string]int{},
		Defects: []string{}}
	switch {
	case p.tool != nil:
		args := slices.Clone(p.tool)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "$VULNDB", *vulndb)
		}
		said, err := p.command(args...)
		affected := regexp.MustCompile(`affected by \d+ vulnerabilit.*`).FindString(string(said))
		row.Note = affected + database()
		switch {
		case affected == "":
			row.Note, row.Whole = "not done: "+lastLine(said), false
		case err != nil:
			row.Defects = append(row.Defects, affected)
		}
	default:
		args := []string{"test", "-tags", p.tags, "-count", "1", "-timeout", "0", "-v", "-run", p.tests}
		if p.race {
			args = append(args, "-p", "1", "-race", "-gcflags=all=-d=checkptr=0") // as make test-long does
		}
		var packages []string
		for name := range strings.FieldsSeq(p.packages) {
			packages = append(packages, "./"+name)
		}
		said, err := p.command(append(args, packages...)...)
		collect(&row, said, err)
		if name, isTarget := strings.CutPrefix(p.tests, "^Fuzz"); isTarget && *search > 0 && len(row.Defects) == 0 {
			said, err := p.command("test", "-run", "^$", "-fuzz", "^Fuzz"+name, "-fuzztime", search.String(),
				"-fuzzminimizetime", "1x", "-parallel", "1", packages[0])
			collect(&row, said, err)
		}
	}
	row.Seconds = int(time.Since(start).Seconds())
	return row
}

// database says of when a copy of the database of vulnerabilities is.
func database() string {
	dir, isCopy := strings.CutPrefix(*vulndb, "file://")
	if !isCopy {
		return ""
	}
	raw, _ := os.ReadFile(filepath.Join(dir, "index", "db.json"))
	return ", by a copy of the database: " + string(bytes.TrimSpace(raw))
}

// command runs the Go tool in the environment of a campaign, and keeps what it prints.
func (p part) command(args ...string) ([]byte, error) {
	command := exec.Command("go", args...)
	size := "1"
	if *short || p.race { // which looks for other faults, and is ten times slower
		size = "0"
	}
	command.Env = append(os.Environ(), campaign.Variable+"="+size, fmt.Sprintf("%s=%d", campaign.SeedVariable, *seed))
	if *limit > 0 {
		command.Env = append(command.Env, campaign.Limit+"="+limit.String())
	}
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(p.String(), "-")
	file, err := os.OpenFile(filepath.Join(*logs, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var said bytes.Buffer
	command.Stdout = io.MultiWriter(file, &said)
	command.Stderr = command.Stdout
	err = command.Run()
	return said.Bytes(), err
}

var (
	logged = regexp.MustCompile(campaign.Logged + `(\d+) (.+)`)
	execs  = regexp.MustCompile(`execs: (\d+) `)
	passed = regexp.MustCompile(`(?m)^\s*--- PASS: `)
	broken = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^(panic: .*)$|^(WARNING: DATA RACE)$`)
	unsaid = regexp.MustCompile(`(?m)^\s*--- SKIP: (\S+)`)
)

// collect takes counts and defects from what the tests printed.
func collect(row *campaign.Row, said []byte, err error) {
	for _, found := range logged.FindAllSubmatch(said, -1) {
		n, _ := strconv.Atoi(string(found[1]))
		row.Counts[string(found[2])] += n
	}
	if all := execs.FindAllSubmatch(said, -1); all != nil {
		n, _ := strconv.Atoi(string(all[len(all)-1][1]))
		row.Counts["executions of a search"] += n
	} else {
		row.Counts["tests"] += len(passed.FindAll(said, -1))
	}
	row.Whole = row.Whole && !bytes.Contains(said, []byte(campaign.Stopped))
	for _, found := range unsaid.FindAllSubmatch(said, -1) {
		row.Note = strings.TrimPrefix(row.Note+", skipped "+string(found[1]), ", ")
	}
	for _, found := range broken.FindAllSubmatch(said, -1) {
		row.Defects = append(row.Defects, string(bytes.TrimSpace(slices.Concat(found[1:]...))))
	}
	if err != nil && len(row.Defects) == 0 {
		row.Defects = append(row.Defects, fmt.Sprintf("%v: %s", err, lastLine(said)))
	}
}

func lastLine(said []byte) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return lines[len(lines)-1]
}
