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

// Feed shows the batches of a set ahead of their use: of a stream, and where the host does it. However many workers
// there are, batches come in order with the same pixels, and there are never more than three of them in memory. One
// goroutine may use it.
type Feed struct {
	set     *Set
	part    int          // pictures
	ready   chan *Batch  // in order; each is waited for
	free    chan []uint8 // pixels of batches that were used
	last    *Batch
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Batch is the pictures of some indices as they are shown, see Augment.Order, for the plan of the same indices.
type Batch struct {
	Set
	Indices []int // as asked for, but that a damaged one is replaced by the next of the batch that is not

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
	shown := *s
	shown.stream, shown.Float, shown.Pixels, shown.Labels = nil, nil, nil, nil
	var from *contents
	workers := 0
	if s.stream == nil {
		shown.Height, shown.Width = a.OutputSize(s.Height, s.Width)
	} else {
		var err error
		if from, err = s.stream.files.open(); err != nil {
			return nil, err
		}
		a.Size, workers = [2]int{s.Height, s.Width}, s.stream.Workers
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &Feed{set: s, part: part, ready: make(chan *Batch, ahead), free: make(chan []uint8, ahead+1), stop: stop}
	tasks := make(chan task)
	f.running.Go(func() {
		defer close(f.ready)
		defer close(tasks)
		for epoch, indices := range batches {
			b := &Batch{Set: shown, Indices: slices.Clone(indices), epoch: epoch, errs: make([]error, len(indices))}
			b.Labels = make([]int32, len(indices))
			b.pending.Add(len(indices))
			select {
			case f.ready <- b:
			case <-ctx.Done():
				return
			}
			b.Pixels = f.room(len(indices) * shown.Height * shown.Width * shown.Channels) // once there is a place for it
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
	var working sync.WaitGroup
	for range cmp.Or(workers, runtime.GOMAXPROCS(0)) {
		working.Go(func() {
			for t := range tasks {
				t.batch.errs[t.k] = s.show(ctx, from, memory, a, seed, t)
				t.batch.pending.Done()
			}
		})
	}
	f.running.Go(func() {
		working.Wait()
		if from != nil {
			from.close()
		}
	})
	return f, nil
}

// show puts a picture into its place.
func (s *Set) show(ctx context.Context, from *contents, memory *semaphore.Weighted, a Augment, seed int64,
	t task) (err error) {
	var picture *Picture
	index, row := t.batch.Indices[t.k], t.batch.Indices[t.k]%s.Len()
	if s.stream == nil {
		picture = a.Picture(s.coloured(row), seed, t.batch.epoch, index)
	} else if picture, err = s.stream.picture(ctx, from, memory, row, a, seed, t.batch.epoch, index); err != nil {
		return err
	}
	t.batch.Labels[t.k] = s.Labels[row]
	image := t.batch.Image(t.k)
	if s.Channels == 3 {
		copy(image, picture.Pixels)
		return nil
	}
	for i := range image {
		image[i] = picture.Pixels[3*i]
	}
	return nil
}

// coloured is a row as a picture, a grey one with three equal channels.
func (s *Set) coloured(row int) *Picture {
	picture := &Picture{Height: s.Height, Width: s.Width, Pixels: s.Image(row)}
	if s.Channels == 1 {
		picture.Pixels = make([]uint8, 0, 3*s.Height*s.Width)
		for _, v := range s.Image(row) {
			picture.Pixels = append(picture.Pixels, v, v, v)
		}
	}
	return picture
}

// room returns so many pixels.
func (f *Feed) room(size int) []uint8 {
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
		copy(b.Image(k), b.Image(whole))
		b.Indices[k], b.Labels[k] = b.Indices[whole], b.Labels[whole]
	}
	return nil
}

// Part is places from to to-1 of the batch: a view, not a copy.
func (b *Batch) Part(from, to int) *Set {
	part, size := b.Set, b.Height*b.Width*b.Channels
	part.Pixels, part.Labels = b.Pixels[from*size:to*size], b.Labels[from:to]
	return &part
}

// Shown is what an augmentation that is for the host (Fed) shows of some indices in an epoch.
func (s *Set) Shown(a Augment, seed int64, epoch int, indices []int) (*Set, error) {
	feed, err := s.Feed(a, seed, len(indices), func(yield func(int, []int) bool) { yield(epoch, indices) })
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	batch, err := feed.Next()
	if err != nil {
		return nil, err
	}
	return &batch.Set, nil
}

// Close ends the reading, and returns once nothing is read any more.
func (f *Feed) Close() {
	f.stop()
	f.running.Wait()
}
