// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// OpenAny is Open for whatever checkpoints.Import understands too: files and directories of Hugging Face's, timm's and
// Google's, and hf://owner/name[@revision], which hub.Download fetches into the cache that it has. A model without a
// head gets one of a single class, which answers nothing; classes without names are numbers.
func OpenAny(backend compute.Backend, path string) (*Model, error) {
	return OpenWith(backend, path, checkpoints.ImportOptions{})
}

// OpenWith is OpenAny with what the files of timm and Google leave open: Grid, AssumeSquare, Heads. Runs leave nothing
// open.
func OpenWith(backend compute.Backend, path string, open checkpoints.ImportOptions) (*Model, error) {
	if strings.HasPrefix(path, hub.Scheme) {
		snapshot, err := hub.Download(context.Background(), path, nil) // its waits have limits of their own
		if err != nil {
			return nil, fmt.Errorf("finetune: %w", err)
		}
		path = snapshot.Dir
	}
	own, _, err := checkpoints.Find(path)
	switch {
	case err != nil:
		return nil, err
	case own != nil && open.ImageRows == 0 && open.ImageCols == 0:
		return Open(backend, path)
	}
	return openAs(backend, path, open)
}

// OpenStart is a run's model as it was before the first step: drawn again, from the run's seed.
func OpenStart(backend compute.Backend, dir string) (*Model, error) {
	_, s, err := saved(dir)
	if err != nil {
		return nil, err
	}
	if s.From != nil {
		return nil, fmt.Errorf("finetune: %s began with the weights of %s, which are not drawn: open that", dir, s.From.Path)
	}
	m, err := newModel(backend, s.Recipe, s.Classes, s.Seed)
	if err != nil || !s.Recipe.ZeroHead {
		return m, err
	}
	return m, m.zeroHead()
}

// With returns a model of the same recipe with changes, as of Recipe.Set, drawn from the same seed.
func (m *Model) With(settings string) (*Model, error) {
	r, err := m.Recipe.Set(settings)
	if err != nil {
		return nil, err
	}
	return newModel(m.backend, r, m.Classes, m.seed)
}

// Seed is the seed of the run that trained the model.
func (m *Model) Seed() int64 { return m.seed }

// Look runs the model on a set, so many images at a time, and shows what happens inside: see is called with the number
// of the first image and the values, flat float32 [images, …], of the nodes that choose picks from the trace, the
// logits [images, classes] after them. Nothing is kept between calls. Attention is computed with its weights in
// memory, not by the fused operation of backends that have one: slower and, in 16-bit types, rounded elsewhere.
func (m *Model) Look(set data.Source, images int, choose func(*vit.Trace) []*Node,
	see func(first int, values [][]float32) error) error {
	if err := m.Recipe.plainViT("shows what happens inside"); err != nil {
		return err
	}
	if err := m.Recipe.oneSize("a look inside"); err != nil {
		return err
	}
	augment := m.evalAugment()
	program, err := model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		scope.Store().SetTraining(inputs[0].Graph(), false)
		trace := m.Recipe.Model.Trace(scope.In(modelScope), augment.Images(inputs[0], inputs[1:1+data.PlanLen]), true)
		var outputs []*Node
		for _, node := range choose(trace) {
			outputs = append(outputs, ConvertDType(node, dtypes.Float32))
		}
		return append(outputs, trace.Logits)
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	p := m.upload(set)
	defer p.finalize()
	return m.batches(p, program, images, func(first, n int, outputs []*tensors.Tensor) error {
		values := make([][]float32, len(outputs))
		for k, output := range outputs {
			flat, err := tensors.CopyFlatData[float32](output)
			if err != nil {
				return err
			}
			values[k] = flat[:len(flat)/output.Shape().Dim(0)*n]
		}
		return see(first, values)
	})
}
