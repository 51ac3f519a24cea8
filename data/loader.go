// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
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
// Batches are independent of the number of workers, in order and with the same pixels; two are read ahead. Nothing is
// read after the iteration.
func Read(s Dataset, host Augment, seed int64, part int, batches iter.Seq2[int, []int]) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		var ahead []*Batch
		defer func() {
			cancel()
			for _, b := range ahead {
				b.pending.Wait()
			}
		}()
		workers := semaphore.NewWeighted(int64(cmp.Or(s.Describe().Workers, runtime.GOMAXPROCS(0))))
		next, stop := iter.Pull2(batches)
		defer stop()
		for more := true; ; {
			for more && len(ahead) <= prefetched {
				var b Batch
				if b.epoch, b.Indices, more = next(); more {
					b.begin(ctx, s, view{host, seed, b.epoch, 0}, workers)
					ahead = append(ahead, &b)
				}
			}
			if len(ahead) == 0 {
				return
			}
			b := ahead[0]
			b.pending.Wait()
			ahead = ahead[1:]
			if err := b.replace(ctx, s, view{host, seed, b.epoch, 0}, part); !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// begin reads the images of b.Indices, each by a worker.
func (b *Batch) begin(ctx context.Context, s Dataset, v view, workers *semaphore.Weighted) {
	b.Info, b.Indices = *s.Describe(), slices.Clone(b.Indices)
	b.Height, b.Width = v.OutputSize(b.Height, b.Width)
	n := len(b.Indices)
	b.Grids, b.Labels, b.errs = nil, make([]int32, n), make([]error, n)
	b.Pixels = make([]uint8, n*b.Height*b.Width*b.Channels)
	if held, _ := s.(*InMemory); held != nil && held.Float != nil && v.Augment == (Augment{}) {
		b.Float = make([]float32, len(b.Pixels))
	}
	for k, index := range b.Indices {
		b.pending.Go(func() {
			if b.errs[k] = workers.Acquire(ctx, 1); b.errs[k] == nil {
				own := v
				own.Index = index
				b.errs[k] = b.read(ctx, s, own, k)
				workers.Release(1)
			}
		})
	}
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
