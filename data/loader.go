// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
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
	Indices []int // as requested; a damaged image is replaced by the next intact one, see Read

	epoch   int
	errs    []error
	pending sync.WaitGroup
}

// Read yields the images of batches, each an epoch and its indices, and ends after an error. host is the host's part
// from Augment.SplitHostGraph, applied as a function of (seed, epoch, index). A damaged image that the dataset skips is
// replaced by the next intact one of the same micro-batch, part images of a batch, or if there is none by the next of
// the dataset. If part is 0 it is not replaced: its pixels are zeros.
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
			if err := b.replace(ctx, s, view{host, seed, b.epoch, 0}, part); !yield(b, err) || err != nil {
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
				b := t.batch
				b.errs[t.k] = b.read(ctx, s, view{host, seed, b.epoch, b.Indices[t.k]}, t.k)
				b.pending.Done()
			}
		})
	}
	return ready
}

// replace fills in for the damaged images that the dataset skips, and returns any other error.
func (b *Batch) replace(ctx context.Context, s Dataset, v view, part int) error {
	for k, err := range b.errs {
		if err != nil {
			err = s.Describe().Exclude(b.Indices[k]%s.Len(), err)
		}
		if err != nil {
			return err
		}
	}
	for k := 0; part > 0 && k < len(b.errs); k++ {
		first, other := k-k%part, k
		n := min(part, len(b.errs)-first)
		for b.errs[other] != nil {
			if other = first + (other-first+1)%n; other != k {
				continue
			}
			if err := b.next(ctx, s, v, k); err != nil {
				return err
			}
		}
		copy(b.Row(k), b.Row(other))
		b.Indices[k], b.Labels[k] = b.Indices[other], b.Labels[other]
	}
	return nil
}

// next replaces image k by the next intact one of the dataset.
func (b *Batch) next(ctx context.Context, s Dataset, v view, k int) error {
	for n, tries := s.Len(), 1; b.errs[k] != nil && tries < n; tries++ {
		row := b.Indices[k] % n
		if err := s.Describe().Exclude(row, b.errs[k]); err != nil { // also once too many are damaged
			return err
		}
		b.Indices[k] += (row+1)%n - row
		v.Index = b.Indices[k]
		b.errs[k] = b.read(ctx, s, v, k)
	}
	return b.errs[k]
}

// read reads the image of a view as image k.
func (b *Batch) read(ctx context.Context, s Dataset, v view, k int) error {
	row := v.Index % s.Len()
	img, err := show(ctx, s, row, v)
	if err == nil {
		b.Labels[k] = s.Describe().Labels[row]
		b.put(k, img)
	}
	return err
}

// drop removes the damaged images.
func (b *Batch) drop() {
	var intact []int
	for k, err := range b.errs {
		if err == nil {
			intact = append(intact, k)
		}
	}
	if len(intact) < len(b.errs) {
		b.InMemory, b.Indices = *b.Subset(intact), picked(b.Indices, intact, 1)
	}
}

// Part returns images from to to-1 of the batch: a view, not a copy.
func (b *Batch) Part(from, to int) *InMemory {
	part, size := b.InMemory, b.Height*b.Width*b.Channels
	part.Pixels, part.Labels = b.Pixels[from*size:to*size], b.Labels[from:to]
	if b.Float != nil {
		part.Float = b.Float[from*size : to*size]
	}
	return &part
}
