// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"image"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/vit"
)

// Features are what a model sees in one picture, after its last norm.
type Features struct {
	Class   []float32 // [Width] the class token; nil for a model without one
	Mean    []float32 // [Width] the mean of the patches
	Patches []float32 // [Rows, Cols, Width] the patches, row by row
}

// Embed returns the features of picture files. From the files of a pretrained model to vectors:
//
//	model, err := finetune.OpenAny(backend, "dinov2-small") // a directory of Hugging Face's
//	features, err := model.Embed("cat.jpg", "dog.png")
//	fmt.Println(features[0].Class)
//
// Pictures are brought to the model's size and normalised as its files say, see Predict.
func (m *Model) Embed(files ...string) ([]Features, error) {
	return m.embed(len(files), func(i int) (*data.Picture, error) { return m.read(files[i]) })
}

// EmbedImages is Embed for decoded pictures, whose transparency is dropped.
func (m *Model) EmbedImages(images ...image.Image) ([]Features, error) {
	return m.embed(len(images), func(i int) (*data.Picture, error) { return m.drawn(images[i]) })
}

// embed reads n pictures, a batch of the model's size after the other.
func (m *Model) embed(n int, read func(i int) (*data.Picture, error)) (all []Features, err error) {
	if err := m.Recipe.plainViT("gives features"); err != nil {
		return nil, err
	}
	if m.features == nil {
		if m.features, err = featuresProgram(m); err != nil {
			return nil, err
		}
	}
	var batch []*data.Picture // of one size
	flush := func() error {
		p := m.upload(m.setOf("pictures", batch...))
		defer p.finalize()
		batch = nil
		return m.batches(p, m.features, m.Recipe.EvalBatchSize, func(_, n int, outputs []*tensors.Tensor) error {
			flat, err := tensors.CopyFlatData[float32](outputs[0])
			for i := range n {
				size := len(flat) / outputs[0].Shape().Dim(0)
				all = append(all, featuresOf(m.Recipe.Model, flat[i*size:(i+1)*size]))
			}
			return err
		})
	}
	for i := range n {
		picture, err := read(i)
		if err != nil {
			return nil, err
		}
		if len(batch) > 0 && (len(batch) == m.Recipe.EvalBatchSize || batch[0].Height != picture.Height ||
			batch[0].Width != picture.Width) {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		batch = append(batch, picture)
	}
	if len(batch) > 0 {
		err = flush()
	}
	return all, err
}

// featuresProgram is the forward pass to the last norm. Inputs: pixels, plan. Output: tokens [batch, tokens, width].
func featuresProgram(m *Model) (*model.Exec, error) {
	augment := m.evalAugment()
	return model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		scope.Store().SetTraining(inputs[0].Graph(), false)
		trace := m.Recipe.Model.Trace(scope.In(modelScope), augment.Images(inputs[0], inputs[1:1+data.PlanLen]), false)
		return []*Node{trace.Encoded, trace.Logits} // the last keeps the head among what the model asks for
	})
}

// featuresOf takes the tokens [prefix+Rows·Cols, width] of a picture apart.
func featuresOf(c vit.Config, tokens []float32) Features {
	c = c.WithDefaults()
	f := Features{Mean: make([]float32, c.Width), Patches: tokens[c.Prefix()*c.Width:]}
	if c.Prefix() > c.Registers {
		f.Class = tokens[:c.Width]
	}
	n := float64(c.Rows() * c.Cols())
	for i := range f.Mean {
		sum := 0.0
		for k := i; k < len(f.Patches); k += c.Width {
			sum += float64(f.Patches[k])
		}
		f.Mean[i] = float32(sum / n)
	}
	return f
}
