// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/vit"
)

// Source is the pretrained model that a run starts from. The run's checkpoints and rows keep this description, so that
// a resume needs no file but its own.
//
// Its backbone is taken as it is. Its positions are
//
//	learned  resampled to the run's grid, for position "learned" and "hybrid", which blends WePE into them
//	others   taken for the same position, else dropped
//
// and what the run's position has beyond that is drawn anew. Its head is taken if it has the run's classes.
type Source struct {
	Path    string         `json:"path"`
	SHA256  string         `json:"sha256"`           // of its weights' file
	Model   vit.Config     `json:"model"`            // with its own image size
	Params  map[string]any `json:"params,omitempty"` // hyperparameters of its encoding, for a run of ours
	Classes []string       `json:"classes,omitempty"`
	Mean    [3]float64     `json:"mean"` // of its pixels, and Std: both zero where its files do not say
	Std     [3]float64     `json:"std"`

	resample  string                     // the kind that its own code base uses
	variables map[string]*tensors.Tensor // by path below the model's scope
	report    []string                   // one line each
}

// adopt fills in what the source decides, the network and its pixels, and refuses what contradicts it.
func (r Recipe) adopt(s *Source) (Recipe, error) {
	m, c := &r.Model, s.Model.WithDefaults()
	for _, err := range []error{
		agree("patch_size", &m.PatchSize, c.PatchSize), agree("channels", &m.Channels, c.Channels),
		agree("width", &m.Width, c.Width), agree("depth", &m.Depth, c.Depth), agree("heads", &m.Heads, c.Heads),
		agree("mlp_dim", &m.MLPDim, c.MLPDim), agree("pool", &m.Pool, c.Pool),
		agree("patch_norm", &m.PatchNorm, c.PatchNorm), agree("epsilon", &m.Epsilon, c.Epsilon),
		agree("registers", &m.Registers, c.Registers), agree("patch_positions", &m.PatchPositions, c.PatchPositions),
		agree("layer_scale", &m.LayerScale, c.LayerScale), agree("swiglu", &m.SwiGLU, c.SwiGLU),
		agree("qkv_bias", &m.QKVBias, c.QKVBias),
	} {
		if err != nil {
			return r, fmt.Errorf("%w in checkpoint %s: leave it out of the recipe", err, s.Path)
		}
	}
	m.Position = cmp.Or(m.Position, "hybrid")
	if a := &r.Augment; a.Mean == [3]float64{} && a.Std == [3]float64{} {
		a.Mean, a.Std = s.Mean, s.Std
	}
	encoding, err := vit.EncodingNamed(m.Position)
	if err != nil {
		return r, err
	}
	kept := encoding.Shared(c.Encoding())
	r.Params = maps.Clone(r.Params)
	params := c.TrainedGrid() // the run's images may be of another size
	maps.Copy(params, s.Params)
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(kept.Params(), name) {
			continue
		}
		if r.Params == nil {
			r.Params = map[string]any{}
		}
		value := params[name]
		if mine, set := r.Params[name]; set && fmt.Sprint(mine) != fmt.Sprint(value) {
			return r, fmt.Errorf("finetune: %s is %v, but %v in checkpoint %s, whose position %s is kept", name, mine, value,
				s.Path, kept)
		}
		r.Params[name] = value
	}
	return r, nil
}

// keeps says whether a variable of the source becomes one of the run's model.
func (s *Source) keeps(path string, r Recipe) bool {
	switch {
	case strings.HasPrefix(path, headPath):
		return !r.ZeroHead
	case strings.HasPrefix(path, positionPath):
		return r.Model.Encoding().Inherits(s.Model.Encoding(), strings.TrimPrefix(path, positionPath))
	}
	return true
}

// sum is what tells sources apart, "" for none.
func (s *Source) sum() string {
	if s == nil {
		return ""
	}
	return s.SHA256
}
