// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import "github.com/wepe-go/wepe/data"

// Timing has the calls of a benchmark. Each returns when its result is on the host.
type Timing struct {
	Step    func() error // makes one optimizer step
	Forward func() error // computes the logits of one batch
	Close   func()       // frees the weights and programs
}

// NewTiming prepares a run without a directory; Forward takes the recipe's EvalBatchSize of its training images.
func NewTiming(run Run) (*Timing, error) {
	run, err := run.prepared()
	if err != nil {
		return nil, err
	}
	c, err := run.begin()
	if err != nil {
		return nil, err
	}
	rows := make([]int, run.Recipe.EvalBatchSize)
	for i := range rows {
		rows[i] = i % run.Train.Len()
	}
	batch := c.model.upload(data.Subset(run.Train, rows))
	return &Timing{
		Step: func() error {
			if err := c.Update(); err != nil {
				return err
			}
			_, err := c.Loss()
			return err
		},
		Forward: func() error {
			_, err := c.model.evaluateOn(batch)
			return err
		},
		Close: func() {
			batch.finalize()
			c.close()
			c.model.Finalize()
		},
	}, nil
}

// Noise returns a dataset of patterned pixels with label 0, for benchmarks.
func Noise(images, height, width, classes int) *data.InMemory {
	set := &data.InMemory{Info: data.Info{Name: "noise", Labels: make([]int32, images), Height: height, Width: width,
		Channels: 3, Classes: make([]string, classes)}, Pixels: make([]uint8, images*height*width*3)}
	for i := range set.Pixels {
		set.Pixels[i] = uint8(i * 7919 >> 3)
	}
	return set
}
