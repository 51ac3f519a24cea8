// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// numbers are the fields of requests for computations other than a model's output.
type numbers struct {
	Recipe  json.RawMessage `json:"recipe"`
	Pixels  []byte          `json:"pixels"` // [n, Side, Side, 3], of train
	Side    int             `json:"side"`
	Height  int             `json:"height"`  // of augment, whose images are not square
	Epochs  int             `json:"epochs"`  // number of orders requested
	Targets []int           `json:"targets"` // the class of each image or point
	Guesses []int           `json:"guesses"`
	Classes int             `json:"classes"`

	Points      []float64 `json:"points"` // [n, Width]
	Queries     []float64 `json:"queries"`
	Width       int       `json:"width"`
	Train       int       `json:"train"` // number of training points
	K           int       `json:"k"`
	Temperature float64   `json:"temperature"`
	L2          float64   `json:"l2"`

	Truth   string `json:"truth"` // COCO files
	Results string `json:"results"`
	Masks   bool   `json:"masks"`

	Rate   float64 `json:"rate"`
	Warmup int     `json:"warmup"`
	Steps  int     `json:"steps"`
}

// compute answers the requests of numbers_.py.
func (r request) compute(b compute.Backend) (answer, error) {
	var values map[string]any
	var err error
	switch r.Op {
	case "augment":
		values, err = r.augment(b)
	case "save":
		err = r.save(b)
	case "probe":
		values, err = r.probe()
	case "train":
		values, err = r.train(b)
	case "rates":
		var rates []float64
		for step := range r.Steps {
			rates = append(rates, engine.Schedule{Peak: r.Rate, Warmup: r.Warmup, Steps: r.Steps}.At(step))
		}
		values = map[string]any{"rates": rates}
	case "coco":
		values, err = r.coco()
	case "neighbours":
		values = r.neighbours()
	case "pca":
		p, failed := numeric.PCA(r.Points, len(r.Points)/r.Width, r.K)
		values, err = map[string]any{"axes": p.Axes, "scores": p.Scores, "variance": p.Variance, "share": p.Share}, failed
	case "logistic":
		fit, failed := numeric.LogisticRegression(r.Points, r.Targets, r.Classes, r.L2, 1e-9, nil)
		if err = failed; err == nil {
			values = map[string]any{"scores": fit.Scores(r.Points), "loss": fit.Loss}
		}
	case "confusion":
		values = r.confusion()
	default:
		err = fmt.Errorf("unknown operation %q", r.Op)
	}
	return answer{Values: values}, err
}

// train fine-tunes the model at Path and returns measurements after each step, and the order of the images.
func (r request) train(b compute.Backend) (map[string]any, error) {
	var recipe finetune.Recipe
	if err := json.Unmarshal(r.Recipe, &recipe); err != nil {
		return nil, err
	}
	set := &data.InMemory{Info: data.Info{Name: "noise", Height: r.Side, Width: r.Side, Channels: 3}, Pixels: r.Pixels}
	for c := range r.Classes {
		set.Classes = append(set.Classes, strconv.Itoa(c))
	}
	for _, label := range r.Targets {
		set.Info.Labels = append(set.Info.Labels, int32(label))
	}
	var losses, held []float64
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
	return map[string]any{"losses": losses, "held": held, "orders": orders}, nil
}

// save trains a tiny model for two steps and writes its checkpoints to Path.
func (r request) save(b compute.Backend) error {
	set, held, err := data.Shapes("location", 24, 8, 12, int64(r.Seed))
	if err != nil {
		return err
	}
	c := vit.Config{ImageRows: 12, ImageCols: 12, PatchSize: 4, Width: 16, Depth: 2, Heads: 2, Classes: len(set.Classes),
		Position: "hybrid"}
	recipe := finetune.Recipe{Name: "peer", Steps: 2, BatchSize: 8, EvalSteps: 1, LearningRate: 1e-3, Model: c}
	run := finetune.Run{Backend: b, Recipe: recipe, Seed: int64(r.Seed), Train: set, Validation: held, Dir: r.Path}
	m, _, err := run.Do(context.Background())
	if err == nil {
		m.Finalize()
	}
	return err
}

func (r request) coco() (map[string]any, error) {
	truth, err := coco.Read(r.Truth)
	if err != nil {
		return nil, err
	}
	results, err := coco.ReadResults(r.Results)
	if err != nil {
		return nil, err
	}
	numbers, err := coco.Evaluate(truth, results, r.Masks, coco.Areas{})
	return map[string]any{"stats": numbers}, err
}

func (r request) neighbours() map[string]any {
	single := func(values []float64) (out []float32) {
		for _, v := range values {
			out = append(out, float32(v))
		}
		return out
	}
	nearest := numeric.Nearest(single(r.Queries), single(r.Points), r.Width, r.K)
	return map[string]any{"neighbours": nearest,
		"votes": numeric.Votes(nearest, r.Targets, r.Classes, r.Temperature)}
}

func (r request) confusion() map[string]any {
	var names []string
	for c := range r.Classes {
		names = append(names, strconv.Itoa(c))
	}
	confusion := report.NewConfusion(names)
	for i, label := range r.Targets {
		confusion.Counts[label][r.Guesses[i]]++
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
	top := []int{0, 0}
	for i, label := range r.Targets {
		before := numeric.Rank(r.Images.Data[i*r.Classes:(i+1)*r.Classes], int32(label))
		for k, n := range []int{1, 5} {
			if before < n {
				top[k]++
			}
		}
	}
	return map[string]any{"scores": scores, "macro": confusion.MacroF1(), "top": top}
}
