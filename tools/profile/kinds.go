// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// kind is what operations of one name took in a step.
type kind struct {
	seconds float64
	calls   int // 0 where the profile does not say
}

// kinds returns a table of the kinds of operations of a training step, and closes the training.
func (o options) kinds(backend compute.Backend, timing *finetune.Timing) (string, error) {
	var found map[string]kind
	var err error
	switch {
	case backend.Name() == "Go Backend":
		found, err = o.sampled(timing)
		timing.Close()
	case o.ort != "":
		timing.Close() // which writes the profiles
		found, err = o.recorded()
	default:
		timing.Close()
		return "no profile of operations: of ONNX Runtime `make profile` has one, of XLA its own tools\n", nil
	}
	if err != nil {
		return "", err
	}
	total, names := 0.0, slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Compare(found[b].seconds, found[a].seconds)
	})
	for _, k := range found {
		total += k.seconds
	}
	table := report.Table{Header: []string{"operation of a training step", "calls", "ms", "share"},
		Numeric: []bool{false, true, true, true}}
	add := func(name string, k kind) {
		table.Rows = append(table.Rows, []string{name, fmt.Sprint(k.calls), fmt.Sprintf("%.1f", 1e3*k.seconds),
			fmt.Sprintf("%.1f %%", 100*k.seconds/total)})
	}
	var rest kind
	for i, name := range names {
		if k := found[name]; i < o.top {
			add(name, k)
		} else {
			rest.seconds, rest.calls = rest.seconds+k.seconds, rest.calls+k.calls
		}
	}
	add(fmt.Sprintf("%d others", max(0, len(names)-o.top)), rest)
	add("all", kind{seconds: total})
	return table.Text(), nil
}

// recorded reads the profile that ONNX Runtime wrote of the program with the most operations, the training step: each
// operation's median over the steps, on the clock.
func (o options) recorded() (map[string]kind, error) {
	files, err := filepath.Glob(o.ort + "-*.json")
	if err != nil {
		return nil, err
	}
	type operation struct{ name, kind string }
	var most map[operation][]float64
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var events []struct {
			Category string  `json:"cat"`
			Name     string  `json:"name"`
			Duration float64 `json:"dur"` // µs
			Args     struct {
				Kind string `json:"op_name"`
			} `json:"args"`
		}
		if json.Unmarshal(content, &events) != nil {
			continue // of a session that is not closed yet, not that of a step
		}
		times := map[operation][]float64{}
		for _, e := range events {
			if e.Category == "Node" && strings.HasSuffix(e.Name, "_kernel_time") {
				key := operation{e.Name, e.Args.Kind}
				times[key] = append(times[key], e.Duration/1e6)
			}
		}
		if len(times) > len(most) {
			most = times
		}
	}
	if most == nil {
		return nil, errors.New("ONNX Runtime has written no profile")
	}
	found := map[string]kind{}
	for op, times := range most {
		slices.Sort(times)
		k := found[op.kind]
		found[op.kind] = kind{k.seconds + times[len(times)/2], k.calls + 1}
	}
	return found, nil
}

// executor is what the pure-Go backend computes a kind of operation with.
var executor = regexp.MustCompile(`internal/gobackend/([a-z]+\.[(*]*[A-Za-z]+)`)

// sampled profiles steps on the pure-Go backend: processor time by the outermost function of the backend's packages of
// operations that each sample was taken in. What none of them is in is Go's: garbage, scheduling.
func (o options) sampled(timing *finetune.Timing) (map[string]kind, error) {
	f, err := os.CreateTemp("", "profile-*.pb.gz")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	for range o.rounds {
		if err = timing.Step(); err != nil {
			break
		}
	}
	pprof.StopCPUProfile()
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	traces, err := exec.Command("go", "tool", "pprof", "-traces", f.Name()).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof: %w", err)
	}
	found, what, took := map[string]kind{}, "", 0.0
	end := func() {
		k := found[cmp.Or(what, "none: garbage, scheduling")]
		found[cmp.Or(what, "none: garbage, scheduling")] = kind{seconds: k.seconds + took/float64(o.rounds)}
		what, took = "", 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(traces)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "-----------+"):
			end()
			continue
		case len(fields) > 1:
			if d, err := time.ParseDuration(fields[0]); err == nil {
				took = d.Seconds()
			}
		}
		if m := executor.FindStringSubmatch(lines.Text()); m != nil && !strings.HasPrefix(m[1], "workerspool") {
			what = m[1] // the last is the outermost
		}
	}
	end()
	return found, nil
}
