// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
)

// batcher computes the images of concurrent requests together. A worker takes all waiting images. While others are
// being decoded it waits for them, until the window has passed or the batch is full. Batches have compiled sizes: 1 to
// 8 images, then powers of two.
//
// If a batch uses all cores, decoding waits for its end: otherwise each of the program's many short parallel sections
// would wait for the core that decodes.
type batcher struct {
	model    model
	window   time.Duration
	queue    chan job
	cores    *semaphore.Weighted // held by a batch that uses all cores; nil if none does
	single   *semaphore.Weighted // held by what is computed outside of batches, one image at a time
	arriving atomic.Int64        // images that are being decoded, or decoded but not in the queue
	none     chan struct{}       // has an element once no image is arriving, for a worker that waits
	done     <-chan struct{}     // of the server's context

	largest  atomic.Int64 // batch size that compiles, as far as known
	log      *slog.Logger
	compiled chan struct{} // closed with the first program, or with failed
	sizes    atomic.Pointer[[]int]
	failed   error
	workers  sync.WaitGroup

	closing  sync.RWMutex   // guards requests against an Add during Wait
	requests sync.WaitGroup // in flight: the queue is closed after the last

	observe func(images int, seconds float64)
}

// job is one image and the channel for its output.
type job struct {
	image  *data.Image
	answer chan<- result
	ctx    context.Context
}

var late = failure{http.StatusServiceUnavailable, "no answer in time"}

type result struct {
	finetune.Output
	err error
}

func newBatcher(ctx context.Context, model model, o Options) *batcher {
	b := &batcher{model: model, window: o.BatchTimeout, queue: make(chan job, o.Images), done: ctx.Done(), log: o.Log,
		compiled: make(chan struct{}), single: semaphore.NewWeighted(1), none: make(chan struct{}, 1)}
	b.largest.Store(int64(o.Batch))
	if _, all := model.Parallel(); all {
		b.cores = semaphore.NewWeighted(1)
	}
	return b
}

// between waits for the end of a batch that uses all cores.
func (b *batcher) between(ctx context.Context) error {
	if b.cores == nil {
		return ctx.Err()
	}
	if err := b.cores.Acquire(ctx, 1); err != nil {
		return err
	}
	b.cores.Release(1)
	return nil
}

// alone computes one image outside of batches: one at a time, and not beside a batch that uses all cores.
func (b *batcher) alone(ctx context.Context, compute func() error) error {
	for _, held := range []*semaphore.Weighted{b.single, b.cores} {
		if held == nil {
			continue
		}
		if held.Acquire(ctx, 1) != nil {
			return late
		}
		defer held.Release(1)
	}
	return compute()
}

// start compiles in the background, and closes the queue after the last request once the context is done.
func (b *batcher) start(largest int) {
	b.workers.Go(func() { b.compile(largest) })
	b.workers.Go(func() {
		select {
		case <-b.done:
		case <-b.compiled:
			if b.failed == nil {
				<-b.done
			}
		}
		b.closing.Lock()   // until no request is between open and Add; later ones are refused by open
		b.closing.Unlock() //nolint:staticcheck // a barrier
		b.requests.Wait()
		close(b.queue)
	})
}

// enter registers a request, which requests.Done ends; it returns an error if the server closes or has failed.
func (b *batcher) enter() error {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if err := b.open(); err != nil && !errors.Is(err, compiling) {
		return err
	}
	b.requests.Add(1)
	return nil
}

// compile compiles the programs of all batch sizes and starts the workers after the first.
func (b *batcher) compile(largest int) {
	var sizes []int
	for size := 1; ; {
		err := errClosed
		select {
		case <-b.done:
		default:
			err = b.model.Compile(size)
		}
		switch {
		case err != nil && size == 1:
			b.failed = err
			close(b.compiled)
			return
		case err != nil:
			if !errors.Is(err, errClosed) {
				b.largest.Store(int64(sizes[len(sizes)-1]))
				b.log.Warn(fmt.Sprintf("batches have at most %d images: one of %d does not compile", b.largest.Load(), size),
					"error", err)
			}
			return
		}
		sizes = append(sizes, size)
		b.sizes.Store(new(slices.Clone(sizes)))
		if size == 1 {
			workers, _ := b.model.Parallel()
			for range workers {
				b.workers.Go(b.work)
			}
			close(b.compiled)
		}
		switch {
		case size >= largest:
			return
		case size < 8:
			size++
		default:
			size = min(2*size, largest)
		}
	}
}

// open returns an error if no image is accepted at the moment.
func (b *batcher) open() error {
	select {
	case <-b.done:
		return failure{http.StatusServiceUnavailable, errClosed.Error()}
	default:
	}
	select {
	case <-b.compiled:
		if b.failed != nil {
			return failure{http.StatusServiceUnavailable, "the model could not be compiled: " + b.failed.Error()}
		}
		return nil
	default:
		return compiling
	}
}

var compiling = failure{http.StatusServiceUnavailable, "the model is being compiled: try again in seconds"}

// ready waits for the first program.
func (b *batcher) ready(ctx context.Context) error {
	select {
	case <-b.compiled:
		if b.failed != nil {
			return b.open()
		}
		return nil
	case <-ctx.Done():
		return late
	}
}

// run computes fitted images, within a request, and returns their outputs in order. It calls queued once all of them
// are in the queue.
func (b *batcher) run(ctx context.Context, images []*data.Image, queued func()) ([]finetune.Output, error) {
	channels := make([]chan result, len(images))
	for i, image := range images {
		channels[i] = make(chan result, 1)
		select { // the queue has room for all images in flight, but not for those whose clients have left, too
		case b.queue <- job{image, channels[i], ctx}:
		case <-ctx.Done():
			return nil, late
		}
	}
	queued()
	outputs := make([]finetune.Output, len(images))
	for i, channel := range channels {
		select {
		case r := <-channel:
			if r.err != nil {
				return nil, r.err
			}
			outputs[i] = r.Output
		case <-ctx.Done():
			return nil, late
		}
	}
	return outputs, nil
}

// settle reports that images arrived, or will not.
func (b *batcher) settle(images int64) {
	if b.arriving.Add(-images) == 0 {
		b.wake()
	}
}

// wake makes one worker that waits look again.
func (b *batcher) wake() {
	select {
	case b.none <- struct{}{}:
	default:
	}
}

// work computes batches until the queue is closed.
func (b *batcher) work() {
	for first := range b.queue {
		b.compute(b.collect(first))
	}
}

// collect returns the jobs of a batch.
func (b *batcher) collect(first job) []job {
	sizes := *b.sizes.Load()
	largest := sizes[len(sizes)-1]
	jobs := []job{first}
	timer := time.NewTimer(b.window)
	defer timer.Stop()
	for len(jobs) < largest {
		select {
		case next, more := <-b.queue:
			if !more {
				return jobs
			}
			jobs = append(jobs, next)
			continue
		default:
		}
		if b.arriving.Load() == 0 {
			b.wake() // the next
			return jobs
		}
		select {
		case next, more := <-b.queue:
			if !more {
				return jobs
			}
			jobs = append(jobs, next)
		case <-b.none:
		case <-timer.C:
			return jobs
		}
	}
	return jobs
}

// compute computes the jobs whose clients still wait, in compiled sizes, the largest first.
func (b *batcher) compute(jobs []job) {
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.ctx.Err() != nil })
	for _, size := range slices.Backward(*b.sizes.Load()) {
		for ; len(jobs) >= size; jobs = jobs[size:] {
			b.computeBatch(jobs[:size])
		}
	}
}

// computeBatch computes jobs of a compiled size and sends their outputs.
func (b *batcher) computeBatch(jobs []job) {
	images := make([]*data.Image, len(jobs))
	for i, j := range jobs {
		images[i] = j.image
	}
	if b.cores != nil {
		_ = b.cores.Acquire(context.Background(), 1) // does not fail
		defer b.cores.Release(1)
	}
	begin := time.Now()
	outputs, err := b.model.Batch(images)
	b.observe(len(jobs), time.Since(begin).Seconds())
	for i, j := range jobs {
		if err != nil {
			j.answer <- result{err: err}
		} else {
			j.answer <- result{Output: outputs[i]}
		}
	}
}

func (b *batcher) wait() error {
	b.workers.Wait()
	if !errors.Is(b.failed, errClosed) {
		return b.failed
	}
	return nil
}
