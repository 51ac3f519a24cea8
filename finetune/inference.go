// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// Inference computes batches of images that Model.PreprocessImage has resized to the model's size. Programs are
// compiled once per batch size, by the first call with that many images. Methods are safe for concurrent use.
type Inference struct {
	Backend compute.Backend // of the model

	m         *Model
	program   *model.Exec // pixels, plan → logits, and features of a plain ViT
	attention *model.Exec // pixels, plan → attention of the last block; only for a plain ViT
}

// Output is what a model computes for one image. Mean and Class are nil except for a ViT of one input size.
type Output struct {
	Logits []float32 // [classes]; nil if the model is headless
	Mean   []float32 // [width] mean-pooled patch tokens after the last norm
	Class  []float32 // [width] the class token; nil for a model without one
}

// Inference returns the model's Inference for batches of decoded images.
func (m *Model) Inference() (*Inference, error) {
	in := &Inference{Backend: m.backend, m: m}
	if m.Headless { // else the first programs, perhaps several at once, would create it
		if err := m.zeroHead(); err != nil {
			return nil, err
		}
	}
	var err error
	if m.Recipe.plainViT("gives features") != nil || m.Recipe.oneSize("Inference") != nil {
		in.program, err = m.logitsProgram()
		return in, err
	}
	in.program, err = m.traced(false, func(trace *vit.Trace) []*Node {
		c, tokens := m.Recipe.Model, trace.Encoded // [batch, prefix+patches, width]
		outputs := []*Node{trace.Logits, ReduceMean(Slice(tokens, AxisRange(), AxisRange(c.Prefix())), 1)}
		if c.Prefix() > c.Registers {
			outputs = append(outputs, Squeeze(Slice(tokens, AxisRange(), AxisRange(0, 1)), 1))
		}
		return outputs
	})
	if err != nil {
		return nil, err
	}
	in.attention, err = m.traced(true, func(trace *vit.Trace) []*Node {
		return []*Node{lastAttention(m.Recipe.Model, trace.Blocks[len(trace.Blocks)-1].Weights)}
	})
	return in, err
}

// lastAttention is the mean over heads of attention weights [batch, heads, queries, keys] from the class token to the
// patches or, in a model without one, from the mean-pooled patch tokens: [batch, patches].
func lastAttention(c vit.Config, weights *Node) *Node {
	weights = ReduceMean(ConvertDType(weights, dtypes.Float32), 1)             // [batch, queries, keys]
	patches := Slice(weights, AxisRange(), AxisRange(), AxisRange(c.Prefix())) // [batch, queries, patches]
	if c.Prefix() > c.Registers {
		return Squeeze(Slice(patches, AxisRange(), AxisRange(0, 1)), 1)
	}
	return ReduceMean(Slice(patches, AxisRange(), AxisRange(c.Prefix())), 1)
}

// Batch computes images of the model's size in one call.
func (in *Inference) Batch(images []*data.Image) ([]Output, error) {
	if len(images) == 0 {
		return nil, nil
	}
	flat, err := in.call(in.program, images)
	if err != nil {
		return nil, err
	}
	results := make([]Output, len(images))
	for i := range results {
		for k, to := range []*[]float32{&results[i].Logits, &results[i].Mean, &results[i].Class}[:len(flat)] {
			n := len(flat[k]) / len(images)
			*to = flat[k][i*n : (i+1)*n]
		}
		if in.m.Headless {
			results[i].Logits = nil
		}
	}
	return results, nil
}

// Attention returns the attention of the last block to each patch [Rows·Cols] of one image, averaged over heads: from
// the class token, or from the mean-pooled patch tokens in a model without one. It is [errors.ErrUnsupported] for an
// architecture without attention maps.
func (in *Inference) Attention(image *data.Image) ([]float32, error) {
	if in.attention == nil {
		return nil, fmt.Errorf("finetune: a model of architecture %q has no attention map: %w", in.m.Recipe.Architecture,
			errors.ErrUnsupported)
	}
	flat, err := in.call(in.attention, []*data.Image{image})
	if err != nil {
		return nil, err
	}
	return flat[0], nil
}

// call runs a program on images and returns its outputs, flat.
func (in *Inference) call(program *model.Exec, images []*data.Image) ([][]float32, error) {
	flat, err := in.m.computed(images, program)
	if err == nil && slices.ContainsFunc(flat[0], func(v float32) bool { return v != v }) {
		err = errors.New("finetune: the outputs of the model are not finite: it diverged")
	}
	return flat, err
}
