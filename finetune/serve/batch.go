// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wepe-go/wepe/data"
)

// batcher computes the images of concurrent requests together. A worker takes the first image that waits, collects
// more until the window has passed or the batch is full, and computes them in the smallest compiled size that holds
// them; what is left of that size repeats the last image.
type batcher struct {
	model  model
	window time.Duration
	queue  chan job
	done   <-chan struct{} // of the server's context

	compiled chan struct{} // closed with the first size, or with failed
	sizes    atomic.Pointer[[]int]
	failed   error
	workers  sync.WaitGroup

	closing  sync.RWMutex // guards closed, and requests against an Add while they are waited for
	closed   bool
	requests sync.WaitGroup // in flight: the queue is closed after the last

	observe func(images, size int, seconds float64)
}

// job is one image and where its output goes.
type job struct {
	image  *data.Image
	answer chan<- result
	ctx    context.Context
}

type result struct {
	output
	err error
}

func newBatcher(ctx context.Context, model model, o Options) *batcher {
	return &batcher{model: model, window: o.Window, queue: make(chan job, o.Images), done: ctx.Done(),
		compiled: make(chan struct{})}
}

// start compiles in the background, and closes the queue after the last request once the context has ended.
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
		b.closing.Lock()
		b.closed = true
		b.closing.Unlock()
		b.requests.Wait()
		close(b.queue)
	})
}

// enter begins a request, which leave ends; the error says why no request is taken at the moment.
func (b *batcher) enter() error {
	b.closing.RLock()
	defer b.closing.RUnlock()
	if b.closed {
		return failure{http.StatusServiceUnavailable, errClosed.Error()}
	}
	if err := b.open(); err != nil {
		return err
	}
	b.requests.Add(1)
	return nil
}

func (b *batcher) leave() { b.requests.Done() }

// compile makes the programs of 1, 2, 4, … images and starts the workers after the first.
func (b *batcher) compile(largest int) {
	var sizes []int
	for size := 1; ; size = min(2*size, largest) {
		select {
		case <-b.done:
			if len(sizes) == 0 {
				b.failed = errClosed
				close(b.compiled)
			}
			return
		default:
		}
		if err := b.model.Compile(size); err != nil {
			if len(sizes) == 0 {
				b.failed = err
				close(b.compiled)
			}
			return // the sizes that compile serve
		}
		sizes = append(sizes, size)
		known := append([]int(nil), sizes...)
		b.sizes.Store(&known)
		if size == 1 {
			for range b.model.Workers() {
				b.workers.Go(b.work)
			}
			close(b.compiled)
		}
		if size >= largest {
			return
		}
	}
}

// open returns why no image is taken at the moment, if none is.
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
		return failure{http.StatusServiceUnavailable, "the model is being compiled: try again in seconds"}
	}
}

// run computes fitted images, within a request, and returns their outputs in order.
func (b *batcher) run(ctx context.Context, images []*data.Image) ([]output, error) {
	channels := make([]chan result, len(images))
	for i, image := range images {
		channels[i] = make(chan result, 1)
		b.queue <- job{image, channels[i], ctx} // has room for all images in flight
	}
	outputs := make([]output, len(images))
	for i, channel := range channels {
		select {
		case r := <-channel:
			if r.err != nil {
				return nil, r.err
			}
			outputs[i] = r.output
		case <-ctx.Done():
			return nil, failure{http.StatusServiceUnavailable, "no answer in time"}
		}
	}
	return outputs, nil
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
		case <-timer.C:
			return jobs
		}
	}
	return jobs
}

func (b *batcher) compute(jobs []job) {
	kept := jobs[:0]
	for _, j := range jobs {
		if j.ctx.Err() == nil { // its client still waits
			kept = append(kept, j)
		}
	}
	if len(kept) == 0 {
		return
	}
	images := make([]*data.Image, 0, len(kept))
	for _, j := range kept {
		images = append(images, j.image)
	}
	for _, size := range *b.sizes.Load() {
		if size >= len(kept) {
			for len(images) < size {
				images = append(images, images[len(kept)-1])
			}
			break
		}
	}
	begin := time.Now()
	outputs, err := b.model.Run(images)
	b.observe(len(kept), len(images), time.Since(begin).Seconds())
	for i, j := range kept {
		if err != nil {
			j.answer <- result{err: err}
		} else {
			j.answer <- result{output: outputs[i]}
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
