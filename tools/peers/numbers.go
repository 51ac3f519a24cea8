// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"math"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

func (r request) names() (names []string) {
	for c := range r.Classes {
		names = append(names, strconv.Itoa(c))
	}
	return names
}

// set are the images of a request.
func (r request) set() *data.InMemory {
	set := &data.InMemory{Pixels: r.Pixels, Info: data.Info{Name: "noise", Height: r.Height, Width: r.Width, Channels: 3,
		Classes: r.names()}}
	for _, label := range r.Targets {
		set.Info.Labels = append(set.Info.Labels, int32(label))
	}
	return set
}

// augment applies an augmentation to the images, on the host and as a batch in a graph, and returns the images and the
// draws.
func (r request) augment(b compute.Backend) (values, error) {
	var a data.Augment
	if err := json.Unmarshal(r.Recipe, &a); err != nil {
		return nil, err
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	set, size := r.set(), 3*r.Height*r.Width
	var shown [][]byte
	var indices []int
	for i := range r.Targets {
		p := &data.Image{Height: r.Height, Width: r.Width, Pixels: r.Pixels[size*i:][:size]}
		shown, indices = append(shown, a.Apply(p, int64(r.Seed), 0, i).Pixels), append(indices, i)
	}
	if a.Policy != "" || a.RandomErasingProb > 0 { // only on the host
		return values{"shown": shown}, nil
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
	found, err := flat(out, "images", "labels")
	if err != nil {
		return nil, err
	}
	found["shown"], found["windows"], found["partners"], found["mix"] = shown, plan.Windows, plan.Partners, plan.Mix
	return found, nil
}

// train fine-tunes the model at Path and returns measurements after each step, and the order of the images.
func (r request) train(b compute.Backend) (values, error) {
	var recipe finetune.Recipe
	if err := json.Unmarshal(r.Recipe, &recipe); err != nil {
		return nil, err
	}
	var losses, held []float64
	set := r.set()
	run := finetune.Run{Backend: b, Recipe: recipe, Seed: int64(r.Seed), Train: set, Validation: set, From: r.Path,
		Progress: func(p engine.Progress) {
			losses, held = append(losses, p.Loss), append(held, float64(p.Eval.Loss))
		}}
	m, _, err := run.Do(context.Background())
	if err != nil {
		return nil, err
	}
	m.Finalize()
	var orders [][]int
	for epoch := range r.Epochs {
		orders = append(orders, data.Order(int64(r.Seed), epoch, set.Len(), 1))
	}
	return values{"losses": losses, "held": held, "orders": orders}, nil
}

// save trains a tiny model for two steps and writes its checkpoints to Path.
func (r request) save(b compute.Backend) (values, error) {
	set, held, err := data.Shapes("location", 24, 8, 12, int64(r.Seed))
	if err != nil {
		return nil, err
	}
	c := vit.Config{ImageRows: 12, ImageCols: 12, PatchSize: 4, Width: 16, Depth: 2, Heads: 2, Classes: len(set.Classes),
		Position: "hybrid"}
	recipe := finetune.Recipe{Name: "peer", Steps: 2, BatchSize: 8, EvalEverySteps: 1, LearningRate: 1e-3, Model: c}
	m, _, err := finetune.Run{Backend: b, Recipe: recipe, Seed: int64(r.Seed), Train: set, Validation: held,
		Dir: r.Path}.Do(context.Background())
	if err == nil {
		m.Finalize()
	}
	return values{}, err
}

func (r request) rates(compute.Backend) (values, error) {
	var rates []float64
	for step := range r.Steps {
		rates = append(rates, engine.Schedule{Peak: r.Rate, Warmup: r.Warmup, Steps: r.Steps}.At(step))
	}
	return values{"rates": rates}, nil
}

func (r request) coco(compute.Backend) (values, error) {
	truth, err := coco.Read(r.Truth)
	if err != nil {
		return nil, err
	}
	results, err := coco.ReadResults(r.Results)
	if err != nil {
		return nil, err
	}
	stats, err := coco.Evaluate(truth, results, r.Masks, coco.Areas{})
	return values{"stats": stats}, err
}

func single(values []float64) (out []float32) {
	for _, v := range values {
		out = append(out, float32(v))
	}
	return out
}

func (r request) neighbours(compute.Backend) (values, error) {
	nearest := numeric.Nearest(single(r.Queries), single(r.Points), r.Width, r.K)
	return values{"votes": numeric.Votes(nearest, r.Targets, r.Classes, r.Temperature)}, nil
}

func (r request) pca(compute.Backend) (values, error) {
	p, err := numeric.PCA(r.Points, len(r.Points)/r.Width, r.K)
	return values{"axes": p.Axes, "variance": p.Variance, "share": p.Share}, err
}

func (r request) logistic(compute.Backend) (values, error) {
	fit, err := numeric.LogisticRegression(r.Points, r.Targets, r.Classes, r.L2, 1e-9, nil)
	if err != nil {
		return nil, err
	}
	return values{"scores": fit.Scores(r.Points)}, nil
}

// probe classifies the points from Train on by the points before, with a linear probe and by neighbours.
func (r request) probe(compute.Backend) (values, error) {
	t := &features.Table{Name: "points", Width: r.Width, Values: single(r.Points)}
	for i, label := range r.Targets {
		part := "train"
		if i >= r.Train {
			part = "test"
		}
		t.Images = append(t.Images, features.Image{Class: strconv.Itoa(label), Part: part})
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
	return values{"top1": linear.Top1, "l2": chosen.L2, "neighbours": near.Top1}, nil
}

func (r request) confusion(compute.Backend) (values, error) {
	confusion := report.NewConfusion(r.names())
	top := []int{0, 0}
	for i, label := range r.Targets {
		confusion.Counts[label][r.Guesses[i]]++
		before := numeric.Rank(r.Images.Data[i*r.Classes:(i+1)*r.Classes], int32(label))
		for k, n := range []int{1, 5} {
			if before < n {
				top[k]++
			}
		}
	}
	var scores [][]float64
	for _, s := range confusion.Scores() {
		row := []float64{float64(s.Precision), float64(s.Recall), float64(s.F1)}
		for i := range row { // JSON has no NaN; scikit-learn has 0 with zero_division=0
			if math.IsNaN(row[i]) {
				row[i] = 0
			}
		}
		scores = append(scores, row)
	}
	return values{"scores": scores, "macro": confusion.MacroF1(), "top": top}, nil
}
