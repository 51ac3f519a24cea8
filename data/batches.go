// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"iter"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/gomlx/gomlx/support/xslices"
)

// Sampler determines which images each training step sees: a function of its fields and of the step. An epoch drops an
// incomplete batch, unless it is the only one.
type Sampler struct {
	Images, Batch int
	Repeats       int // see [Order]
	Seed          int64

	epoch int
	order []int // of the epoch, nil before first use
}

// perEpoch returns the number of batches of an epoch, at least 1.
func (s *Sampler) perEpoch() int { return max(1, s.Images/s.Batch) }

// At returns the epoch of a step, its batch in the epoch, and its indices (see [Order]), which the caller must not
// change.
func (s *Sampler) At(step int) (epoch, batch int, indices []int) {
	if epoch = step / s.perEpoch(); s.order == nil || epoch != s.epoch {
		s.epoch, s.order = epoch, Order(s.Seed, epoch, s.Images, s.Repeats)
	}
	batch = step % s.perEpoch()
	from := batch * s.Batch
	return epoch, batch, s.order[from:min(from+s.Batch, s.Images)]
}

// Loader is a [train.Dataset] of GoMLX: batches of a dataset for a train.Loop or for Trainer.Eval. The inputs of a
// batch are images [batch, height, width, channels], uint8, and the plan of their augmentation, from which
// [BatchImages] computes the model's images. The labels are int32 [batch, 1], or if the augmentation mixes images
// float32 [batch, classes], for CategoricalCrossEntropyLogits.
type Loader struct {
	Step   int // the next step; set it to continue a training
	Epochs int // after which Iter ends; 0 for never, as Loop.RunSteps requires; Loop.RunEpochs requires 1

	source  Dataset
	order   Sampler
	augment Augment
	inOrder bool
}

var _ train.Dataset = (*Loader)(nil)

// Batches returns the batches of a training, endlessly: size images each, shuffled as a function of the seed and the
// epoch, augmented as a function of these and the image. They are those of finetune with the same dataset, size,
// augmentation and seed.
func Batches(s Dataset, size int, a Augment, seed int64) *Loader {
	return &Loader{source: s, augment: a,
		order: Sampler{Images: s.Len(), Batch: size, Repeats: a.RepeatedAug, Seed: seed}}
}

// InOrder returns each image once, in order, as evaluation needs them: with size, mean and standard deviation of a, and
// if images are resized its interpolation. The last batch may be smaller. Damaged images that the dataset skips are
// left out.
func InOrder(s Dataset, size int, a Augment) *Loader {
	info := s.Describe()
	d := &Loader{source: s, augment: a.Eval(), inOrder: true, order: Sampler{Images: s.Len(), Batch: size}}
	if h, w := a.OutputSize(info.Height, info.Width); h != info.Height || w != info.Width {
		d.augment.Interpolation = a.Interpolation
	}
	return d
}

// Name implements train.Dataset.
func (d *Loader) Name() string { return d.source.Describe().Name }

// Iter implements train.Dataset. Of Batches it goes on where an earlier iterator ended.
func (d *Loader) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		if err := d.validate(); err != nil {
			yield(train.Batch{}, err)
			return
		}
		host, graph := d.augment.SplitHostGraph(d.source)
		part := d.order.Batch
		if d.inOrder {
			part = 0
		}
		for b, err := range Read(d.source, host, d.order.Seed, part, d.indices(d.Step)) {
			if err != nil {
				yield(train.Batch{}, err)
				return
			}
			if d.inOrder {
				b.drop()
			}
			if b.Len() == 0 {
				continue
			}
			out := d.batch(b, graph)
			d.Step++
			if !yield(out, nil) {
				return
			}
		}
	}
}

func (d *Loader) validate() error {
	info := d.source.Describe()
	if n, size := d.order.Images, d.order.Batch; size < 1 || !d.inOrder && size > n {
		return fmt.Errorf("data: batches of %d images of the %d of %s: want 1 to %d", size, n, d.Name(), n)
	}
	a := d.augment
	kept := Augment{Mean: a.Mean, Std: a.Std, MixupAlpha: a.MixupAlpha, MixProb: a.MixProb, RepeatedAug: a.RepeatedAug}
	if info.Grids != nil && a != kept {
		return fmt.Errorf("data: %s: images in patches support no augmentation except mean, std and mixup: turn off crops, "+
			"flips, size, cutout and cutmix", d.Name())
	}
	if err := info.check(); err != nil {
		return err
	}
	return a.Validate()
}

// indices yields the epoch and the indices of each step, or all rows in order.
func (d *Loader) indices(step int) iter.Seq2[int, []int] {
	s, n := d.order, d.order.Images
	end := step + d.Epochs*s.perEpoch()
	return func(yield func(int, []int) bool) {
		if d.inOrder {
			for from := 0; from < n && yield(0, xslices.Iota(from, min(s.Batch, n-from))); {
				from += s.Batch
			}
			return
		}
		for ; d.Epochs == 0 || step < end; step++ {
			if epoch, _, indices := s.At(step); !yield(epoch, indices) {
				return
			}
		}
	}
}

// batch returns the batch of the current step as tensors.
func (d *Loader) batch(b *Batch, graph Augment) train.Batch {
	plan := graph.Plan(d.source, d.order.Seed, b.epoch, d.Step%d.order.perEpoch(), b.Indices)
	for k := range plan.Indices {
		plan.Indices[k] = int64(k)
	}
	return train.Batch{Spec: graph, Inputs: append([]*tensors.Tensor{b.Tensor()}, plan.Tensors()...),
		Labels: []*tensors.Tensor{d.labels(plan)}}
}

// labels returns the labels of a batch: of mixed images the shares of classes.
func (d *Loader) labels(plan *Plan) *tensors.Tensor {
	n, classes := len(plan.Labels), len(d.source.Describe().Classes)
	if !d.augment.mixes() {
		return tensors.FromFlatDataAndDimensions(plan.Labels, n, 1)
	}
	shares := make([]float32, n*classes)
	for k, label := range plan.Labels {
		shares[k*classes+int(label)] += plan.Mix[5]
		shares[k*classes+int(plan.Labels[plan.Partners[k]])] += 1 - plan.Mix[5]
	}
	return tensors.FromFlatDataAndDimensions(shares, n, classes)
}

// BatchImages returns the images [batch, height, width, channels] of a batch of a [Loader], from its Spec and its
// inputs: what a GoMLX model function begins with.
func BatchImages(spec any, inputs []*Node) *Node {
	augment, ok := spec.(Augment)
	if !ok || len(inputs) != 1+PlanLen {
		exceptions.Panicf("data.BatchImages: spec %T and %d inputs, want those of a data.Loader", spec, len(inputs))
	}
	return augment.Images(inputs[0], inputs[1:])
}
