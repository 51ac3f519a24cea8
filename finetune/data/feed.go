// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// ahead is how many batches are read before they are asked for.
const ahead = 2

// Feed reads the batches of a streamed set ahead of their use. However many workers there are, batches come in order
// with the same pixels, and there are never more than three of them in memory. One goroutine may use it.
type Feed struct {
	set     *Set
	part    int          // pictures
	ready   chan *Batch  // in order; each is waited for
	free    chan []uint8 // pixels of batches that were used
	last    *Batch
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Batch is the pictures of some indices, see Augment.Order, for the plan of the same indices.
type Batch struct {
	Indices []int   // as asked for, but that a damaged one is replaced by the next of the batch that is not
	Pixels  []uint8 // [indices, height, width, 3]

	epoch   int
	errs    []error
	pending sync.WaitGroup
}

// task is one picture of a batch.
type task struct {
	batch *Batch
	k     int
}

// Feed begins to read batches, each an epoch and its indices. What is shown of a picture is a function of
// (seed, epoch, index); InGraph says what of the augmentation is left for the graph. A damaged picture is replaced by
// another of the same part of so many of a batch. Close ends it.
func (s *Set) Feed(a Augment, seed int64, part int, batches iter.Seq2[int, []int]) (*Feed, error) {
	from, err := s.stream.files.open()
	if err != nil {
		return nil, err
	}
	a.Size = [2]int{s.Height, s.Width}
	ctx, stop := context.WithCancel(context.Background())
	f := &Feed{set: s, part: part, ready: make(chan *Batch, ahead), free: make(chan []uint8, ahead+1), stop: stop}
	tasks := make(chan task)
	f.running.Go(func() {
		defer close(f.ready)
		defer close(tasks)
		for epoch, indices := range batches {
			b := &Batch{Indices: slices.Clone(indices), epoch: epoch, errs: make([]error, len(indices))}
			b.pending.Add(len(indices))
			select {
			case f.ready <- b:
			case <-ctx.Done():
				return
			}
			b.Pixels = f.room(len(indices)) // once there is a place for the batch
			for k := range indices {
				select {
				case tasks <- task{b, k}:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	memory := semaphore.NewWeighted(maxPixels) // bounds how many pixels are decoded at the same time
	var workers sync.WaitGroup
	for range cmp.Or(s.stream.Workers, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for t := range tasks {
				t.batch.errs[t.k] = s.show(ctx, from, memory, a, seed, t)
				t.batch.pending.Done()
			}
		})
	}
	f.running.Go(func() {
		workers.Wait()
		from.close()
	})
	return f, nil
}

// show reads a picture into its place.
func (s *Set) show(ctx context.Context, from *contents, memory *semaphore.Weighted, a Augment, seed int64,
	t task) error {
	index := t.batch.Indices[t.k]
	picture, err := s.stream.picture(ctx, from, memory, index%s.Len(), a, seed, t.batch.epoch, index)
	if err == nil {
		copy(t.batch.Part(s, t.k, t.k+1), picture.Pixels)
	}
	return err
}

// room returns pixels for so many pictures.
func (f *Feed) room(pictures int) []uint8 {
	size := pictures * 3 * f.set.Height * f.set.Width
	select {
	case pixels := <-f.free:
		if cap(pixels) >= size {
			return pixels[:size]
		}
	default:
	}
	return make([]uint8, size)
}

// Next returns the next batch, which is the caller's until it asks for another, or io.EOF.
func (f *Feed) Next() (*Batch, error) {
	if f.last != nil {
		f.free <- f.last.Pixels // has room for all there are
		f.last = nil
	}
	b, more := <-f.ready
	if !more {
		return nil, io.EOF
	}
	b.pending.Wait()
	if err := f.mend(b); err != nil {
		return nil, err
	}
	f.last = b
	return b, nil
}

// mend replaces damaged pictures where they are to be left out, and returns what else went wrong, the first by place.
func (f *Feed) mend(b *Batch) error {
	s, damaged := f.set, 0
	for k, err := range b.errs {
		var picture *PictureError
		switch {
		case err == nil:
			continue
		case !errors.As(err, &picture) || !picture.Damaged || !s.stream.Skip:
			return err
		}
		damaged++
		if row := b.Indices[k] % s.Len(); !s.Left(row) {
			s.LeaveOut(row)
			if s.stream.Log != nil {
				s.stream.Log(fmt.Sprintf("skipped %s: %v", picture.Where, picture.Err))
			}
		}
	}
	if damaged == 0 {
		return nil
	}
	if all := len(s.stream.damaged); all*100 > s.Len() {
		return fmt.Errorf("data: %s: %d of %d pictures are damaged, more than 1 %%, one of them: %w",
			s.Name, all, s.Len(), b.errs[slices.IndexFunc(b.errs, func(err error) bool { return err != nil })])
	}
	for k := range b.errs {
		if b.errs[k] == nil {
			continue
		}
		first, whole := k-k%f.part, k
		n := min(f.part, len(b.errs)-first)
		for b.errs[whole] != nil {
			if whole = first + (whole-first+1)%n; whole == k {
				return fmt.Errorf("data: %s: all %d pictures of a batch, or of a part of it, are damaged: %w", s.Name, n, b.errs[k])
			}
		}
		copy(b.Part(s, k, k+1), b.Part(s, whole, whole+1))
		b.Indices[k] = b.Indices[whole]
	}
	return nil
}

// Part is the pixels of places from to to-1 of the batch, of a set.
func (b *Batch) Part(s *Set, from, to int) []uint8 {
	size := 3 * s.Height * s.Width
	return b.Pixels[from*size : to*size]
}

// Close ends the reading, and returns once nothing is read any more.
func (f *Feed) Close() {
	f.stop()
	f.running.Wait()
}
