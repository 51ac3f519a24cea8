// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/data"
)

// augment applies an augmentation to the images, on the host and as a batch in a graph, and returns the images and the
// draws.
func (r request) augment(b compute.Backend) (map[string]any, error) {
	var a data.Augment
	if err := json.Unmarshal(r.Recipe, &a); err != nil {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	set := &data.InMemory{Info: data.Info{Name: "noise", Height: r.Height, Width: r.Width, Channels: 3}, Pixels: r.Pixels}
	var shown [][]byte
	var indices []int
	for i, label := range r.Targets {
		set.Info.Labels, indices = append(set.Info.Labels, int32(label)), append(indices, i)
		p := &data.Image{Height: r.Height, Width: r.Width, Pixels: r.Pixels[3*r.Height*r.Width*i:][:3*r.Height*r.Width]}
		shown = append(shown, a.Apply(p, int64(r.Seed), 0, i).Pixels)
	}
	for c := range r.Classes {
		set.Classes = append(set.Classes, strconv.Itoa(c))
	}
	values := map[string]any{"shown": shown}
	if a.Policy != "" || a.EraseProb > 0 { // only on the host
		return values, nil
	}
	plan := a.Plan(set, int64(r.Seed), 0, 0, indices)
	exec, err := NewExec(b, func(in []*Node) []*Node {
		return []*Node{ConvertDType(a.Images(in[0], in[1:]), dtypes.Float32), data.SoftLabels(in[1:], r.Classes, r.L2)}
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	inputs := []any{tensors.FromFlatDataAndDimensions(r.Pixels, len(indices), r.Height, r.Width, 3)}
	for _, t := range plan.Tensors() {
		inputs = append(inputs, t)
	}
	out, err := exec.Call(inputs...)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"images", "labels"} {
		if values[name], err = tensors.CopyFlatData[float32](out[i]); err != nil {
			return nil, err
		}
	}
	values["windows"], values["partners"], values["mix"] = plan.Windows, plan.Partners, plan.Mix
	return values, nil
}

// probe classifies the points from Train on by the points before, with a linear probe and by neighbours.
func (r request) probe() (map[string]any, error) {
	t := &features.Table{Name: "points", Width: r.Width}
	for i, label := range r.Targets {
		part := "train"
		if i >= r.Train {
			part = "test"
		}
		t.Images = append(t.Images, features.Image{Class: strconv.Itoa(label), Part: part})
	}
	for _, v := range r.Points {
		t.Values = append(t.Values, float32(v))
	}
	var chosen features.Tried
	linear, err := t.Probe(r.Seed, func(tried features.Tried) {
		if chosen.L2 == 0 || tried.Top1 > chosen.Top1 {
			chosen = tried
		}
	})
	if err != nil {
		return nil, err
	}
	near, err := t.KNN(r.K, r.Temperature)
	if err != nil {
		return nil, err
	}
	return map[string]any{"top1": linear.Top1, "l2": chosen.L2, "neighbours": near.Top1}, nil
}
