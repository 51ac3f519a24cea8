// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// table connects members of a group in one process.
type table struct {
	sync.Mutex
	n, count int // of the members, and of those that have given something in this round
	*round
}

// round is one exchange.
type round struct {
	given []any // by rank
	done  chan struct{}
}

func (t *table) begin() { t.count, t.round = 0, &round{make([]any, t.n), make(chan struct{})} }

type member struct {
	rank int
	*table
}

func (m member) Rank() int { return m.rank }
func (m member) Size() int { return m.n }

// exchange returns what all members give, by rank.
func (m member) exchange(given any) []any {
	m.Lock()
	now := m.round
	now.given[m.rank] = given
	if m.count++; m.count == m.n {
		m.begin()
		close(now.done)
	}
	m.Unlock()
	<-now.done
	return now.given
}

func (m member) Gather(message []byte) (all [][]byte, err error) {
	for _, other := range m.exchange(bytes.Clone(message)) {
		all = append(all, other.([]byte))
	}
	return all, nil
}

// SumFloat32 adds in the order of ranks.
func (m member) SumFloat32(values []float32) error {
	for rank, other := range m.exchange(slices.Clone(values)) {
		if other := other.([]float32); len(other) != len(values) {
			panic(fmt.Sprintf("members give %d and %d values", len(values), len(other)))
		} else if rank == 0 {
			copy(values, other)
		} else {
			for i, v := range other {
				values[i] += v
			}
		}
	}
	return nil
}

// together runs n processes concurrently, and returns their errors by rank.
func together(n int, do func(engine.Group) error) []error {
	t := &table{n: n}
	t.begin()
	errs := make([]error, n)
	var wait sync.WaitGroup
	for rank := range n {
		wait.Go(func() { errs[rank] = do(member{rank, t}) })
	}
	wait.Wait()
	return errs
}

// Three epochs with all random and stateful features: the processes of a group write the same checkpoint and rows as
// one process with the same micro-batches, bit for bit.
func TestGroup_TrainsTheWeightsOfOneProcessWithAsManyParts(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, n := range gomlxtest.InTurn(0, 2, 3) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			run := saved(t, everything(), 31)
			run.Test, run.Recipe.GradAccumSteps = dataset(11, 2), n
			want := finished(t, run)
			run.Dir = t.TempDir()
			run.Recipe.GradAccumSteps = 0 // the default, one per process
			errs := together(n, func(g engine.Group) error {
				run := run
				run.Group = g
				m, _, err := run.Do(t.Context())
				if err != nil {
					return err
				}
				defer m.Finalize()
				if g.Rank() == 0 { // after the run a model is on its own
					_, err = m.Evaluate(run.Train)
				}
				return err
			})
			gomlxtest.NoError(t, errors.Join(errs...))
			run.Recipe.GradAccumSteps = n
			endsAs(t, "one process that finds from the group's files that the run is finished", run, want)
		})
	}
}

// late returns from each exchange when the other process waits in the next one, or has ended.
type late struct {
	member
	ended <-chan struct{} // the other
}

func (l late) SumFloat32(values []float32) error {
	err := l.member.SumFloat32(values)
	for waiting := false; !waiting; {
		select {
		case <-l.ended:
			return err
		case <-time.After(time.Millisecond):
			l.Lock()
			waiting = l.count > 0
			l.Unlock()
		}
	}
	return err
}

// The only evaluation is after the last step: a process that does not wait for the first finds no best weights.
func TestGroup_AllProcessesEndWithTheWeightsOfTheFirst(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t, "grad_accum_steps=2;epochs=0;warmup_epochs=0;steps=3;eval_every_steps=3", 31)
	run.Dir, run.Validation = t.TempDir(), dataset(13, 3)
	ended := make(chan struct{})
	errs := together(2, func(g engine.Group) error {
		run := run
		if run.Group = g; g.Rank() == 0 {
			run.Group = late{g.(member), ended}
		} else {
			defer close(ended)
		}
		m, _, err := run.Do(t.Context())
		if err != nil {
			return err
		}
		defer m.Finalize()
		equal(t, fmt.Sprintf("process %d ends with the weights", g.Rank()), m.Source.Weights.Name, checkpoints.BestDir)
		return nil
	})
	gomlxtest.NoError(t, errors.Join(errs...))
}

func TestGroup_ASignalToOneEndsAllAndOneResumes(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, everything(), 31)
	run.Recipe.GradAccumSteps = 3
	want := finished(t, run)
	run.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := together(3, func(g engine.Group) error {
		run, ctx := run, ctx
		if run.Group = g; g.Rank() != 0 {
			ctx = t.Context() // only the first gets the signal
		}
		run.Progress = func(p engine.Progress) { // of the first process
			if p.Step == 7 {
				cancel()
			}
		}
		_, _, err := run.Do(ctx)
		return err
	})
	for rank, err := range errs {
		if !errors.Is(err, engine.ErrInterrupted) || err.Error() != "interrupted at step 7 of 12" {
			t.Errorf("process %d: %v", rank, err)
		}
	}
	equal(t, "saved at step", latest(t, run.Dir, checkpoints.LastDir).Step, 7)
	endsAs(t, "one process that goes on with a group's run", run, want)
}

func TestGroup_RefusesWhatItCannotShare(t *testing.T) {
	begun := tinyRun(t, "grad_accum_steps=2", 31)
	begun.Dir = t.TempDir()
	stopped(t, begun, 5)
	dhvt := tiny()
	dhvt.Architecture = DHVT
	for _, c := range []struct {
		name   string
		n      int
		change func(run *Run, rank int)
		words  []string
	}{
		{"parts", 2, func(run *Run, _ int) { run.Recipe.GradAccumSteps = 3 },
			[]string{"2 processes", "3 micro-batches", "multiple of 2"}},
		{"batch", 5, func(*Run, int) {}, []string{"grad_accum_steps is 5", "divisor of batch_size"}},
		{"batch normalization", 2, func(run *Run, _ int) { run.Recipe = dhvt }, []string{"running statistics"}},
		{"seeds", 3, func(run *Run, rank int) { run.Seed = int64(rank / 2) }, []string{"process 2 has another run"}},
		{"images", 3, func(run *Run, rank int) { run.Train = dataset(31, uint64(min(rank, 1))) },
			[]string{"process 1 has another run"}},
		{"directories", 2, func(run *Run, rank int) {
			if run.Recipe.GradAccumSteps, run.Dir = 2, begun.Dir; rank == 1 {
				run.Dir = t.TempDir()
			}
		}, []string{"process 1 begins at step 0, process 0 at step 5"}},
	} {
		for rank, err := range together(c.n, func(g engine.Group) error {
			run := tinyRun(t, "", 31)
			c.change(&run, g.Rank())
			run.Group = g
			return run.fails(t)
		}) {
			refused(t, fmt.Sprintf("%s, process %d", c.name, rank), err, c.words...)
		}
	}
}
