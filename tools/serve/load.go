// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// row is a line of docs/runs/measured.jsonl.
type row struct {
	Figure  string  `json:"figure"`
	Model   string  `json:"model"` // the column
	Seed    int     `json:"seed"`
	Images  string  `json:"images"`
	Measure string  `json:"measure"`
	At      string  `json:"at"` // the row
	Value   float64 `json:"value"`
	Commit  string  `json:"commit"`
}

// measured are the undisturbed rounds of a target with a number of clients.
type measured struct {
	name, url         string
	speed, p99        []float64 // requests/s, milliseconds
	failed, disturbed int
}

// load measures servers in interleaved rounds and prints the medians over rounds.
func load(args []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	targets := flags.String("targets", "wepe serve=http://127.0.0.1:8080/v1/predict", "NAME=URL, separated by semicolons")
	clients := flags.String("clients", "1,8,64", "numbers of clients, each of which sends its next request after its "+
		"answer")
	round := flags.Duration("round", 3*time.Second, "length of a round")
	rounds := flags.Int("rounds", 3, "rounds of each target")
	commit := flags.String("commit", "", "of the rows")
	pids := flags.String("pids", "", "processes of the targets, by commas: rounds that others disturb do not count")
	_ = flags.Parse(args) // exits
	if flags.NArg() != 1 {
		return errors.New("load takes one image")
	}
	body, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	for _, number := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients %q: use numbers above 0", number)
		}
		var all []*measured
		for _, target := range strings.Split(*targets, ";") {
			name, url, found := strings.Cut(target, "=")
			if !found {
				return fmt.Errorf("-targets %q: use NAME=URL", target)
			}
			all = append(all, &measured{name: name, url: url})
		}
		for range *rounds {
			for _, m := range all {
				m.round(body, n, *round, *pids)
			}
		}
		for _, m := range all {
			if err := m.print(n, *commit); err != nil {
				return err
			}
		}
	}
	return nil
}

// round adds a round, unless processes other than the given ones were active.
func (m *measured) round(body []byte, clients int, length time.Duration, pids string) {
	var result vegeta.Metrics
	busy, begin := others(pids), time.Now()
	attack(m.url, body, clients, length, &result)
	took := time.Since(begin)
	if others(pids)-busy > took/20 {
		m.disturbed++
		return
	}
	result.Close()
	done := float64(result.Requests) * result.Success
	m.speed = append(m.speed, done/took.Seconds())
	m.p99 = append(m.p99, float64(result.Latencies.P99.Microseconds())/1e3)
	m.failed += int(result.Requests) - int(done+.5)
}

// print prints all rounds to stderr and the rows of their medians.
func (m *measured) print(clients int, commit string) error {
	fmt.Fprintf(os.Stderr, "%s, %d clients: requests/s %.1f, p99 %.0f ms, failed %d, disturbed rounds %d\n", m.name,
		clients, m.speed, m.p99, m.failed, m.disturbed)
	if len(m.speed) == 0 {
		return nil
	}
	of := fmt.Sprintf("%d clients", clients)
	if clients == 1 {
		of = "1 client"
	}
	for _, r := range []row{{Model: "requests/s, " + of, Value: median(m.speed)},
		{Model: "p99, " + of + ", ms", Value: median(m.p99)}} {
		r.Figure, r.Measure, r.At, r.Commit = "serve", "server", m.name, commit
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return nil
}

// others is the CPU time of all processes of this machine except the given ones and this one, 0 without pids.
func others(pids string) time.Duration {
	if pids == "" {
		return 0
	}
	ticks := func(path string, from, to int) (sum int) {
		raw, _ := os.ReadFile(path) // time of a finished process counts as another's
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		for _, field := range fields[min(from, len(fields)):min(to, len(fields))] {
			n, _ := strconv.Atoi(field)
			sum += n
		}
		return sum
	}
	sum := ticks("/proc/stat", 1, 4) // user, nice, system
	for pid := range strings.SplitSeq(pids+",self", ",") {
		sum -= ticks("/proc/"+pid+"/stat", 11, 13) // utime, stime
	}
	return time.Duration(sum) * time.Second / 100
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// attack keeps n requests in flight for some time.
func attack(url string, body []byte, n int, length time.Duration, m *vegeta.Metrics) {
	targeter := vegeta.NewStaticTargeter(vegeta.Target{Method: "POST", URL: url, Body: body,
		Header: map[string][]string{"Content-Type": {"application/octet-stream"}}})
	attacker := vegeta.NewAttacker(vegeta.Workers(uint64(n)), vegeta.MaxWorkers(uint64(n)), vegeta.KeepAlive(true),
		vegeta.Timeout(60*time.Second))
	for result := range attacker.Attack(targeter, vegeta.Rate{}, length, "") {
		m.Add(result)
	}
}
