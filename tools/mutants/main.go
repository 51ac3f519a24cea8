// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command mutants measures whether the tests of a package notice changes of its code.
//
//	go run ./tools/mutants --seed 1 --n 40 ./vit
//
// It draws --n places of the package's code and changes each in one way: another operator, a number one higher, a
// condition that never holds, a statement removed, a call replaced by its first argument. All changes are compiled into
// one test binary, where the environment selects one. Each test runs once without a change to learn which changes it
// reaches; each change then runs the tests that reach it, the fastest first, until one fails.
//
// Surviving changes are printed for a person to judge: some do not change what the program does. Constants and messages
// are not changed. Exit status 1: tests missed some.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of the sample")
	n := flag.Int("n", 40, "number of mutants; 0 for all")
	parallel := flag.Int("p", 2, "tests that run at the same time")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "mutants: name one package, as ./vit")
		os.Exit(2)
	}
	missed, err := measure(os.Stdout, flag.Arg(0), *seed, *n, *parallel)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

func measure(out io.Writer, path string, seed uint64, n, parallel int) (missed int, err error) {
	pkg, err := load(path)
	if err != nil {
		return 0, err
	}
	all := pkg.mutants()
	sample := draw(all, n, rand.New(rand.NewPCG(seed, 0)))
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	b, sample, err := pkg.build(dir, sample)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%s: %d of %d mutants, seed %d\n", path, len(sample), len(all), seed)
	tests, err := b.learn(out, parallel)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	counts := map[string]int{}
	each(sample, parallel, func(m *mutant) {
		start := time.Now()
		verdict, by := b.run(m, tests)
		mu.Lock()
		defer mu.Unlock()
		counts[verdict]++
		fmt.Fprintf(out, "%-9s %s: %s  %s (%.0f s)\n", verdict, m.position, m.what, by, time.Since(start).Seconds())
	})
	missed = counts["survived"] + counts["unreached"]
	fmt.Fprintf(out, "%s: %d of %d caught (%.1f %%), %d survived, %d not reached by a test\n", path, counts["caught"],
		len(sample), 100*float64(counts["caught"])/float64(max(1, len(sample))), counts["survived"], counts["unreached"])
	return missed, nil
}

// draw returns n mutants of which none is inside another, by position.
func draw(all []*mutant, n int, rng *rand.Rand) []*mutant {
	if n == 0 {
		n = len(all)
	}
	var drawn []*mutant
	for _, i := range rng.Perm(len(all)) {
		m := all[i]
		if len(drawn) < n && !slices.ContainsFunc(drawn, func(o *mutant) bool {
			return o.file == m.file && o.from < m.to && m.from < o.to
		}) {
			drawn = append(drawn, m)
		}
	}
	slices.SortFunc(drawn, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.from, b.from))
	})
	for i, m := range drawn {
		m.id = i + 1
	}
	return drawn
}

// each calls do for all items, at most parallel at the same time.
func each[T any](items []T, parallel int, do func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, parallel))
	for _, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	wg.Wait()
}
