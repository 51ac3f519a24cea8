// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"
	"sync"
)

// prefetched is the number of batches that are read in advance.
const prefetched = 2

// Loader prefetches the batches of a source. Batches are independent of the number of workers, in order and with the
// same pixels, and at most three are read ahead. It is not safe for concurrent use.
type Loader struct {
	source  Source
	part    int         // images
	ready   chan *Batch // in order; receivers wait for each
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Batch holds the images of some indices (see [Order]) after augmentation on the host, for the plan of the same
// indices.
type Batch struct {
	Memory
	Indices []int // as requested; a damaged image is replaced by the next intact one of the batch

	epoch   int
	errs    []error
	pending sync.WaitGroup
}

// NewLoader starts to read batches, each an epoch and its indices. host is the host's part from Augment.Divide, applied
// as a function of (seed, epoch, index). A damaged image that the source skips is replaced by another image of the same
// micro-batch, part images of a batch. Close stops the reading.
func NewLoader(s Source, host Augment, seed int64, part int, batches iter.Seq2[int, []int]) *Loader {
	info := *s.Describe()
	info.Labels, info.Grids = nil, nil
	info.Height, info.Width = host.OutputSize(info.Height, info.Width)
	held, _ := s.(*Memory)
	unrounded := held != nil && held.Float != nil && host == Augment{}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Loader{source: s, part: part, ready: make(chan *Batch, prefetched), cancel: cancel}
	type task struct {
		batch *Batch
		k     int
	}
	tasks := make(chan task)
	l.running.Go(func() {
		defer close(l.ready)
		defer close(tasks)
		for epoch, indices := range batches {
			b := &Batch{Memory: Memory{Info: info}, Indices: slices.Clone(indices), epoch: epoch,
				errs: make([]error, len(indices))}
			b.Labels = make([]int32, len(indices))
			b.pending.Add(len(indices))
			select {
			case l.ready <- b:
			case <-ctx.Done():
				return
			}
			b.Pixels = make([]uint8, len(indices)*b.Height*b.Width*b.Channels) // allocated once the batch may be read
			if unrounded {
				b.Float = make([]float32, len(b.Pixels))
			}
			for k := range indices {
				select {
				case tasks <- task{b, k}:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	for range cmp.Or(info.Workers, runtime.GOMAXPROCS(0)) {
		l.running.Go(func() {
			for t := range tasks {
				t.batch.errs[t.k] = t.batch.fill(ctx, s, view{host, seed, t.batch.epoch, t.batch.Indices[t.k]}, t.k)
				t.batch.pending.Done()
			}
		})
	}
	return l
}

// fill reads image k of the batch.
func (b *Batch) fill(ctx context.Context, s Source, v view, k int) error {
	row := v.Index % s.Len()
	img, err := show(ctx, s, row, v)
	if err != nil {
		return err
	}
	b.Labels[k] = s.Describe().Labels[row]
	b.put(k, img)
	return nil
}

// Next returns the next batch, or io.EOF.
func (l *Loader) Next() (*Batch, error) {
	b, more := <-l.ready
	if !more {
		return nil, io.EOF
	}
	b.pending.Wait()
	return b, l.replace(b)
}

// replace fills in for the damaged images that the source skips, and returns any other error.
func (l *Loader) replace(b *Batch) error {
	s := l.source
	for k, err := range b.errs {
		if err != nil {
			err = s.Describe().LeaveOut(b.Indices[k]%s.Len(), err)
		}
		if err != nil {
			return err
		}
	}
	for k, err := range b.errs {
		if err == nil {
			continue
		}
		first, other := k-k%l.part, k
		n := min(l.part, len(b.errs)-first)
		for b.errs[other] != nil {
			if other = first + (other-first+1)%n; other == k {
				return fmt.Errorf("data: %s: all %d images of a batch, or of a micro-batch, are damaged: %w", b.Name, n, err)
			}
		}
		copy(b.Row(k), b.Row(other))
		if size := len(b.Row(0)); b.Float != nil {
			copy(b.Float[k*size:(k+1)*size], b.Float[other*size:])
		}
		b.Indices[k], b.Labels[k] = b.Indices[other], b.Labels[other]
	}
	return nil
}

// intact returns the positions of the images that are not replaced.
func (b *Batch) intact() (rows []int) {
	for k, err := range b.errs {
		if err == nil {
			rows = append(rows, k)
		}
	}
	return rows
}

// Part returns images from to to-1 of the batch: a view, not a copy.
func (b *Batch) Part(from, to int) *Memory {
	part, size := b.Memory, b.Height*b.Width*b.Channels
	part.Pixels, part.Labels = b.Pixels[from*size:to*size], b.Labels[from:to]
	return &part
}

// Close stops the reading and waits for the workers.
func (l *Loader) Close() {
	l.cancel()
	l.running.Wait()
}
