// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"maps"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// ReadErrors maps the index of each image that cannot be read to its error.
type ReadErrors map[int]error

// Error describes the first of them.
func (u ReadErrors) Error() string {
	first := u[slices.Min(slices.Collect(maps.Keys(u)))].Error()
	if len(u) > 1 {
		return fmt.Sprintf("%s; %d more images cannot be read", first, len(u)-1)
	}
	return first
}

// readable are images to read.
type readable struct {
	n    int
	read func(i int) (*data.Image, error)
	name func(i int) string
}

func ofFiles(files []string) readable {
	return readable{len(files), func(i int) (*data.Image, error) { return decode(files[i]) },
		func(i int) string { return files[i] }}
}

// batch is images first, first+1, …: their errors, and those without one, of the model's size.
type batch struct {
	first  int
	failed []error
	whole  []*data.Image
}

// each runs a program on images and calls see with its first output or the read error of each, in order. A batch is
// read on all cores while the previous one is computed.
func (m *Model) each(p readable, program *model.Exec, see func(i int, output []float32, unread error) error) error {
	if _, err := m.Preprocessing(); err != nil { // the model's, not an image's
		return fmt.Errorf("finetune: %w", err)
	}
	ready, stop := make(chan batch), make(chan struct{})
	var warned sync.Once
	var reading sync.WaitGroup
	defer reading.Wait()
	defer close(stop)
	reading.Go(func() {
		defer close(ready)
		for first := 0; first < p.n; first += m.EvalBatch() {
			select {
			case ready <- m.readBatch(p, first, &warned):
			case <-stop:
				return
			}
		}
	})
	for b := range ready {
		outputs, err := m.outputs(b.whole, program)
		if err != nil {
			return err
		}
		for k, failed := range b.failed {
			var output []float32
			if failed == nil {
				output, outputs = outputs[0], outputs[1:]
			}
			if err := see(b.first+k, output, failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect applies a function to the first output of a program for each image, and returns the results, with an error of
// type ReadErrors if some images cannot be read.
func collect[T any](m *Model, p readable, program *model.Exec,
	of func(i int, output []float32) (T, error)) ([]T, error) {
	all, unread := make([]T, p.n), ReadErrors{}
	err := m.each(p, program, func(i int, output []float32, failed error) (err error) {
		if failed == nil {
			all[i], err = of(i, output)
		} else {
			unread[i] = failed
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(unread) > 0:
		return all, unread
	}
	return all, nil
}

// readBatch reads a batch of images starting at first, resizes them to the model's size, and logs [data.ClippedGrey]
// once.
func (m *Model) readBatch(p readable, first int, warned *sync.Once) batch {
	n := min(p.n-first, m.EvalBatch())
	images, failed := make([]*data.Image, n), make([]error, n)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for k := range n {
		group.Go(func() error {
			img, err := p.read(first + k)
			if err == nil {
				if img, err = m.PreprocessImage(img); err != nil {
					err = fmt.Errorf("finetune: %s: %w", p.name(first+k), err)
				}
			}
			if failed[k] = err; err == nil {
				images[k] = img
				if img.Clipped && m.Logger != nil {
					warned.Do(func() { m.Logger.Warn(data.ClippedGrey, "image", p.name(first+k)) })
				}
			}
			return nil
		})
	}
	_ = group.Wait() // each image has its own error
	return batch{first, failed, slices.DeleteFunc(images, func(img *data.Image) bool { return img == nil })}
}

// outputs runs a program on a batch of images of the model's size and returns its first output for each. The batch is
// padded to a power of two, so that few programs suffice for all lengths: GoMLX caches at most 32.
func (m *Model) outputs(batch []*data.Image, program *model.Exec) (rows [][]float32, err error) {
	n := len(batch)
	if n == 0 {
		return nil, nil
	}
	for full := min(m.EvalBatch(), 1<<bits.Len(uint(n-1))); len(batch) < full; {
		batch = append(batch, batch[0])
	}
	outputs, err := m.computed(batch, program)
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(outputs[0], len(outputs[0])/len(batch)))[:n], nil
}

// computed runs a program on images of the model's size, a batch of their own, and returns its outputs, flat.
func (m *Model) computed(images []*data.Image, program *model.Exec) (flat [][]float32, err error) {
	p := m.upload(m.setOf("images", images...))
	defer p.finalize()
	return flat, m.batches(p, program, len(images), func(_ int, outputs [][]float32) error {
		flat = outputs
		return nil
	})
}

// PreprocessSet is PreprocessImage for the images of a dataset in memory, so that an evaluation preprocesses them as
// Predict would. If Preprocess equals that of the dataset, as after training on it, the result is the dataset itself.
func (m *Model) PreprocessSet(set *data.InMemory) (*data.InMemory, error) {
	if m.refused != nil {
		return nil, m.refused
	}
	if m.Preprocess == (preprocess.Settings{}) || m.Preprocess == set.Preprocessing() {
		return set, nil
	}
	images := make([]*data.Image, set.Len())
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range images {
		group.Go(func() (err error) {
			if images[i], err = m.PreprocessImage(data.FromImage(set.RGBA(i))); err != nil {
				err = fmt.Errorf("finetune: image %d of %s: %w", i, set.Name, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil || len(images) == 0 {
		return set, err
	}
	fitted := m.setOf(set.Name, images...)
	fitted.Labels, fitted.Classes, fitted.Preprocess = set.Labels, set.Classes, m.Preprocess
	return fitted, nil
}

// decode reads an image file.
func decode(file string) (*data.Image, error) {
	img, err := data.DecodeFile(file)
	if err == nil {
		return img, nil
	}
	if info, gone := os.Stat(file); gone == nil && info.IsDir() {
		return nil, fmt.Errorf("finetune: %s is a directory: name its images, as %s/*.jpg", file, file)
	}
	return nil, fmt.Errorf("finetune: %w", err)
}

// setOf returns a dataset of images of one size.
func (m *Model) setOf(name string, images ...*data.Image) *data.InMemory {
	set := &data.InMemory{Info: data.Info{Name: name, Labels: make([]int32, len(images)), Height: images[0].Height,
		Width: images[0].Width, Channels: 3, Classes: m.Classes}}
	for _, p := range images {
		set.Pixels = append(set.Pixels, p.Pixels...)
		if p.Grid != [2]int{} {
			set.Grids = append(set.Grids, p.Grid)
		}
		set.Float = append(set.Float, p.Float...)
	}
	return set
}
