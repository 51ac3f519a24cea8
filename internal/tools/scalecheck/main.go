// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command scalecheck shows that training does not care how large its set is, nor what keeps it: it generates sets of
// small JPEGs in class folders, tar shards and Parquet files, trains a tiny model from each as a stream, by several
// numbers of workers, kills a training and lets it go on, and prints a table. It fails where the resident memory of the
// largest set is more than a tenth above that of the smallest, or where pixels, their order or weights differ.
//
//	go run ./internal/tools/scalecheck                             2,000 and 20,000 pictures: make scale-check
//	go run ./internal/tools/scalecheck -pictures 10000,100000 -dir DIR -steps 200
//	go run ./internal/tools/scalecheck -generate 100000 -dir DIR   a set alone, to keep
//
// Processes are children of this one, so that each has a memory of its own. Weights are compared bit by bit, which the
// pure-Go backend promises.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/program"
)

// options are what the flags say.
type options struct {
	dir      string
	pictures []int
	workers  []int
	steps    int
	generate int
	train    string // the set of a child process
	runs     string
	mpi      bool
}

func main() {
	program.Main("scalecheck", parse, func(o options) bool { return o.train != "" }, run)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("scalecheck", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "directory for the sets, which stay there; default a temporary one")
	pictures := flags.String("pictures", "2000,20000", "sizes of the sets, from the smallest to the largest")
	workers := flags.String("workers", "1,4", "numbers of workers")
	flags.IntVar(&o.steps, "steps", 100, "optimizer steps of 32 pictures")
	flags.IntVar(&o.generate, "generate", 0, "only generate a set of so many pictures in -dir")
	flags.StringVar(&o.train, "train", "", "train on a set, as the child processes do")
	flags.StringVar(&o.runs, "runs", "", "with -train: directory of the run")
	flags.BoolVar(&o.mpi, "mpi", false, "with -train: as one of the processes that mpirun started")
	if err = program.Parse(flags, "shows that training does not care how large its set is.", args); err != nil {
		return o, err
	}
	for _, list := range []struct {
		text string
		into *[]int
	}{{*pictures, &o.pictures}, {*workers, &o.workers}} {
		for _, word := range strings.Split(list.text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return o, fmt.Errorf("%q: want numbers above 0, separated by commas", list.text)
			}
			*list.into = append(*list.into, n)
		}
	}
	if o.generate > 0 && o.dir == "" || o.train != "" && o.runs == "" {
		return o, errors.New("-generate needs -dir, -train needs -runs")
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	switch {
	case o.train != "":
		return train(ctx, o)
	case o.generate > 0:
		return generate(o.dir, o.generate)
	case o.dir == "":
		dir, err := os.MkdirTemp("", "scalecheck")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	return o.check()
}

// check trains on all sets and compares.
func (o options) check() error {
	var wrong []string
	fmt.Printf("%9s  %-9s  %7s  %10s  %10s  %10s  %s\n", "pictures", "container", "workers", "memory MB", "read /s",
		"trained /s", "weights")
	memory := map[string]float64{} // of the smallest set
	for i, n := range o.pictures {
		dir := filepath.Join(o.dir, strconv.Itoa(n))
		if _, err := os.Stat(filepath.Join(dir, "tar", "classnames.txt")); err != nil { // written last
			if err := generate(dir, n); err != nil {
				return err
			}
		}
		var first *trained
		for _, container := range containers {
			for _, workers := range o.workers {
				got, err := o.child(filepath.Join(dir, container), workers, 0, 1)
				if err != nil {
					return err
				}
				what := fmt.Sprintf("%d pictures in %s by %d workers", n, container, workers)
				fmt.Printf("%9d  %-9s  %7d  %10.1f  %10.0f  %10.0f  %.12s\n", n, container, workers, got.MemoryMB, got.Read,
					got.ImagesPerSecond, got.Weights)
				if first == nil {
					first = got
				}
				if got.Pixels != first.Pixels {
					wrong = append(wrong, what+": another order, or other pixels")
				}
				if got.Weights != first.Weights {
					wrong = append(wrong, what+": other weights")
				}
				key := fmt.Sprint(container, workers)
				if i == 0 {
					memory[key] = got.MemoryMB
				} else if got.MemoryMB > 1.1*memory[key] {
					wrong = append(wrong, fmt.Sprintf("%s: %.1f MB, the smallest set %.1f", what, got.MemoryMB, memory[key]))
				}
			}
			for _, way := range []struct {
				what                 string
				workers, kill, ranks int
			}{{"killed", o.workers[len(o.workers)-1], o.steps / 2, 1}, {"2 ranks", 1, 0, 2}} {
				if way.ranks > 1 && (i > 0 || !withMPI()) {
					continue
				}
				got, err := o.child(filepath.Join(dir, container), way.workers, way.kill, way.ranks)
				if err != nil {
					return err
				}
				fmt.Printf("%9d  %-9s  %7s  %10s  %10s  %10s  %.12s\n", n, container, way.what, "", "", "", got.Weights)
				if got.Weights != first.Weights {
					wrong = append(wrong, fmt.Sprintf("%d pictures in %s, %s: other weights", n, container, way.what))
				}
			}
		}
	}
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	if !withMPI() {
		fmt.Println("two processes were not tried: that needs mpirun, and CC=mpicc go run -tags=mpi")
	}
	fmt.Println("memory, order, pixels and weights are as they should be")
	return nil
}

// withMPI says whether mpirun is installed and this program knows MPI.
func withMPI() bool {
	_, err := exec.LookPath("mpirun")
	info, ok := debug.ReadBuildInfo()
	return err == nil && ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "mpi")
	})
}

// child trains on a set in a process of its own, or in several that share the training. It is killed once it has made a
// step, if that is not 0, and started again.
func (o options) child(set string, workers, kill, ranks int) (*trained, error) {
	runs, err := os.MkdirTemp(o.dir, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(runs)
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for {
		args := []string{program, "-train", set, "-runs", runs, "-workers", strconv.Itoa(workers), "-steps",
			strconv.Itoa(o.steps)}
		if ranks > 1 {
			job := []string{"mpirun", "--oversubscribe", "--bind-to", "none", "-np", strconv.Itoa(ranks)}
			if os.Getuid() == 0 {
				job = append(job, "--allow-run-as-root")
			}
			args = append(slices.Concat(job, args), "-mpi")
		}
		command := exec.Command(args[0], args[1:]...)
		var stdout, said bytes.Buffer
		command.Stdout = &stdout
		stderr, err := command.StderrPipe()
		if err != nil {
			return nil, err
		}
		if err := command.Start(); err != nil {
			return nil, err
		}
		killed := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if kill > 0 && lines.Text() == fmt.Sprint("step ", kill) {
				killed = command.Process.Kill() == nil
			}
			if !strings.HasPrefix(lines.Text(), "step ") {
				fmt.Fprintln(&said, lines.Text())
			}
		}
		err = command.Wait()
		if killed {
			kill = 0
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", set, err, said.String())
		}
		out := &trained{}
		return out, json.Unmarshal(stdout.Bytes(), out)
	}
}
