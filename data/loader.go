// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
)

// prefetched is the number of batches that are read in advance.
const prefetched = 2

// Batch holds the images of some indices (see [Order]) after augmentation on the host, for the plan of the same
// indices.
type Batch struct {
	InMemory
	Indices []int // as requested; a damaged image is replaced by the next intact one of the batch

	epoch   int
	errs    []error
	pending sync.WaitGroup
}

// Read yields the images of batches, each an epoch and its indices, and ends after an error. host is the host's part
// from Augment.SplitHostGraph, applied as a function of (seed, epoch, index). A damaged image that the dataset skips is
// replaced by another image of the same micro-batch, part images of a batch.
//
// Batches are independent of the number of workers, in order and with the same pixels; at most three are read ahead.
// The workers end with the iteration.
func Read(s Dataset, host Augment, seed int64, part int, batches iter.Seq2[int, []int]) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for b := range prefetch(ctx, &running, s, host, seed, batches) {
			b.pending.Wait()
			if err := b.replace(s, part); !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// prefetch starts the workers. Receivers wait for each batch.
func prefetch(ctx context.Context, running *sync.WaitGroup, s Dataset, host Augment, seed int64,
	batches iter.Seq2[int, []int]) <-chan *Batch {
	info := *s.Describe()
	info.Labels, info.Grids = nil, nil
	info.Height, info.Width = host.OutputSize(info.Height, info.Width)
	held, _ := s.(*InMemory)
	unrounded := held != nil && held.Float != nil && host == Augment{}
	type task struct {
		batch *Batch
		k     int
	}
	ready, tasks := make(chan *Batch, prefetched), make(chan task)
	running.Go(func() {
		defer close(ready)
		defer close(tasks)
		for epoch, indices := range batches {
			b := &Batch{InMemory: InMemory{Info: info}, Indices: slices.Clone(indices), epoch: epoch,
				errs: make([]error, len(indices))}
			b.Labels = make([]int32, len(indices))
			b.pending.Add(len(indices))
			select {
			case ready <- b:
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
		running.Go(func() {
			for t := range tasks {
				b, index := t.batch, t.batch.Indices[t.k]
				img, err := show(ctx, s, index%s.Len(), view{host, seed, b.epoch, index})
				if b.errs[t.k] = err; err == nil {
					b.Labels[t.k] = s.Describe().Labels[index%s.Len()]
					b.put(t.k, img)
				}
				b.pending.Done()
			}
		})
	}
	return ready
}

// replace fills in for the damaged images that the dataset skips, and returns any other error.
func (b *Batch) replace(s Dataset, part int) error {
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
		first, other := k-k%part, k
		n := min(part, len(b.errs)-first)
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

// Part returns images from to to-1 of the batch: a view, not a copy.
func (b *Batch) Part(from, to int) *InMemory {
	part, size := b.InMemory, b.Height*b.Width*b.Channels
	part.Pixels, part.Labels = b.Pixels[from*size:to*size], b.Labels[from:to]
	return &part
}
