// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import "github.com/wepe-go/wepe/data"

// Timing runs single training steps for benchmarks. Each call returns when its result is on the host.
type Timing struct {
	c     *classification
	batch pixels // the input of Forward
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
	return &Timing{c, c.model.upload(data.Rows(run.Train, rows))}, nil
}

// Step makes one optimizer step.
func (t *Timing) Step() error {
	if err := t.c.update(); err != nil {
		return err
	}
	return t.c.drain()
}

// Forward computes the logits of one batch.
func (t *Timing) Forward() error {
	_, err := t.c.model.examination(t.batch)
	return err
}

// Close frees the weights and programs.
func (t *Timing) Close() {
	t.batch.finalize()
	t.c.close()
	t.c.model.Finalize()
}

// Noise returns a dataset of patterned pixels with label 0, for benchmarks.
func Noise(images, height, width, classes int) *data.Memory {
	set := &data.Memory{Info: data.Info{Name: "noise", Labels: make([]int32, images), Height: height, Width: width,
		Channels: 3, Classes: make([]string, classes)}, Pixels: make([]uint8, images*height*width*3)}
	for i := range set.Pixels {
		set.Pixels[i] = uint8(i * 7919 >> 3)
	}
	return set
}
