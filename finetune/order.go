// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"iter"

	"github.com/wepe-go/wepe/data"
)

// order says which images each step takes: a function of the seed, the number of images and the batch size.
type order struct {
	augment       data.Augment // which may repeat them
	seed          int64
	images, batch int
	from, to      int // of each batch, what this process computes

	epoch int
	rows  []int // indices of the epoch, nil before the first is asked for
}

// of returns the epoch of a step and its indices, which are the order's.
func (o *order) of(step int) (epoch int, rows []int) {
	perPass := o.images / o.batch // an epoch drops what does not fill a batch
	if epoch = step / perPass; o.rows == nil || epoch != o.epoch {
		o.epoch, o.rows = epoch, o.augment.Order(o.seed, epoch, o.images)
	}
	at := step % perPass * o.batch
	return epoch, o.rows[at+o.from : at+o.to]
}

// between yields what of returns for the steps from one on and before another, for another goroutine.
func (o order) between(step, end int) iter.Seq2[int, []int] {
	o.rows = nil
	return func(yield func(int, []int) bool) {
		for ; step < end; step++ {
			if !yield(o.of(step)) {
				return
			}
		}
	}
}
