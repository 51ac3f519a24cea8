// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"math/rand/v2"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/vit"
)

// Logits runs the model on normalized images, float32 [batch, rows, cols, channels], and returns its class logits, row
// by row. It is for comparing files; an application loads the model once and builds its own graph.
func (m *Imported) Logits(backend compute.Backend, images *tensors.Tensor) ([]float32, error) {
	store := model.NewStore()
	if err := m.Load(store.Scope("/model")); err != nil {
		return nil, err
	}
	return forward(backend, store, "/model", m.Config, images)
}

// forward runs the model below a scope. All of its variables must exist: a graph would initialize missing ones at
// random.
func forward(backend compute.Backend, store *model.Store, scope string, c vit.Config, images *tensors.Tensor) (
	[]float32, error,
) {
	known := store.NumVariables()
	exec, err := model.NewExec(backend, store, func(s *model.Scope, images *Node) *Node {
		return c.Logits(s.Store().Scope(scope), images)
	})
	if err != nil {
		return nil, errors.WithMessage(err, "checkpoints: logits")
	}
	defer exec.Finalize()
	out, err := exec.Call(images)
	if err != nil {
		return nil, errors.WithMessage(err, "checkpoints: logits")
	}
	if created := store.NumVariables() - known; created > 0 {
		return nil, errors.Errorf("checkpoints: the model lacks %d of its variables", created)
	}
	return tensors.CopyFlatData[float32](out[0])
}

// Noise returns images of standard normal noise, float32 [n, rows, cols, channels], the same for equal seeds.
func Noise(c vit.Config, n int, seed uint64) *tensors.Tensor {
	rng := rand.New(rand.NewPCG(seed, 0))
	flat := make([]float32, n*c.ImageRows*c.ImageCols*c.Channels)
	for i := range flat {
		flat[i] = float32(rng.NormFloat64())
	}
	return tensors.FromFlatDataAndDimensions(flat, n, c.ImageRows, c.ImageCols, c.Channels)
}
