// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
)

// options are what the flags say.
type options struct {
	models  []analysis.Model
	open    checkpoints.ImportOptions // what the files of models leave open
	start   bool
	images  string
	masks   string
	count   int
	figures []analysis.Figure
	out     string
	seed    uint64

	costs    bool // of encodings, in place of looking at models
	cost     analysis.Cost
	memoryOf string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("analysis", flag.ContinueOnError)
	models := flags.String("model", "",
		"models, separated by commas: directories of runs, files or directories of Hugging "+
			"Face's, timm's or Google's, or hf://owner/name; as NAME=PATH to name a column, of which there may be several "+
			"(seeds); default learned and wepe, trained on generated shapes in runs/shapes")
	flags.Var(&o.open.Grid, "from-grid", "where the files of a model do not say: patches of its table of positions, as "+
		"14 or 14x24")
	flags.BoolVar(&o.open.AssumeSquare, "assume-square", false, "where the files of a model do not say: that grid is "+
		"square")
	flags.IntVar(&o.open.Heads, "heads", 0, "where the files of a model do not say: attention heads")
	flags.BoolVar(&o.start, "start", false, "a column more for each model, as it was before training")
	flags.StringVar(&o.images, "images", "",
		"directory or archive of CIFAR-100's binary version, or a directory of pictures, "+
			"in a folder for each class or without classes; default generated shapes")
	flags.StringVar(&o.masks, "masks", "",
		"directory with a picture of the object, white on black, for each of -images, of the "+
			"same name but for its ending; or COCO's instances_….json of -images")
	flags.IntVar(&o.count, "n", 1000, "images at most")
	what := flags.String("what", "all", "all, or some of "+analysis.Names()+"; or cost: of encodings, without models")
	flags.StringVar(&o.out, "out", "runs/analysis", "directory for rows and the page")
	flags.Uint64Var(&o.seed, "seed", 0, "of noise, pairs, occlusion and shuffles, the same for all models")
	encodings := flags.String("encodings", "", "of -what cost: some of "+labels(analysis.CostArms)+", the first the one "+
		"that others are compared with; default all")
	variants := flags.String("variant", "Ti/16", "of -what cost: sizes of models, as Ti/16,B/16,L/16")
	sides := flags.String("sizes", "224", "of -what cost: sides of square pictures, as 224,384")
	flags.StringVar(&o.cost.DType, "dtype", "float32", "of -what cost: float32 or bfloat16")
	flags.IntVar(&o.cost.Rounds, "rounds", 100, "of -what cost: of every encoding; 0 for parameters and "+
		"FLOPs alone, without a model")
	flags.BoolFunc("processor-time", "of -what cost: measure processor time, on a busy CPU", func(string) error {
		o.cost.Processor = program.ProcessorTime
		return nil
	})
	flags.IntVar(&o.cost.Forward, "batch", 32, "of -what cost: images of an inference")
	flags.IntVar(&o.cost.Step, "step-batch", 16, "of -what cost: images of a training step")
	flags.StringVar(&o.memoryOf, "memory-of", "", "of -what cost: print the memory of one encoding")
	if err := program.Parse(flags, "looks at models side by side.", args); err != nil {
		return o, err
	}
	if o.count < 1 {
		return o, fmt.Errorf("-n is %d, want 1 or more", o.count)
	}
	if o.masks != "" && o.images == "" {
		return o, errors.New("-masks needs -images: generated shapes know theirs")
	}
	if o.costs = *what == "cost"; o.costs {
		o.cost.Variants, o.cost.Seed = study.Split(*variants), o.seed
		if o.cost.Arms, err = armsOf(study.Split(*encodings)); err != nil {
			return o, fmt.Errorf("-encodings: %w", err)
		}
		for _, side := range study.Split(*sides) {
			n, err := strconv.Atoi(side)
			if err != nil || n < 1 {
				return o, fmt.Errorf("-sizes: %q is no side of a picture in pixels", side)
			}
			o.cost.Sides = append(o.cost.Sides, n)
		}
		if len(o.cost.Variants) == 0 || len(o.cost.Sides) == 0 || o.cost.Rounds < 0 || min(o.cost.Forward, o.cost.Step) < 1 {
			return o, errors.New("-what cost wants -variant, -sizes, -rounds of 0 or more, -batch and -step-batch of 1 or more")
		}
		if o.cost.Rounds == 0 {
			o.cost.Rounds = -1
		}
		return o, nil
	}
	if o.figures, err = analysis.Choose(study.Split(*what)); err != nil {
		return o, fmt.Errorf("-what: %w", err)
	}
	if len(o.figures) == 0 {
		return o, errors.New("-what names no figure")
	}
	for _, model := range study.Split(*models) {
		o.models = append(o.models, named(model))
	}
	if *models != "" && len(o.models) == 0 {
		return o, errors.New("-model is given, but empty")
	}
	return o, nil
}

// named reads NAME=PATH, or names a path: seeds of one encoding share a column.
func named(model string) analysis.Model {
	if name, path, ok := strings.Cut(model, "="); ok && !strings.Contains(name, "/") && name != "" && path != "" {
		return analysis.Model{Name: name, Path: path}
	}
	name, _, _ := strings.Cut(filepath.Base(model), "-seed")
	return analysis.Model{Name: name, Path: model}
}

// armsOf returns the encodings of labels, all for none.
func armsOf(names []string) (arms []study.Arm, err error) {
	if len(names) == 0 {
		return analysis.CostArms, nil
	}
	for _, name := range names {
		at := slices.IndexFunc(analysis.CostArms, func(a study.Arm) bool { return a.Label == name })
		if at < 0 {
			return nil, fmt.Errorf("unknown encoding %q: want some of %s", name, labels(analysis.CostArms))
		}
		arms = append(arms, analysis.CostArms[at])
	}
	return arms, nil
}

func labels(arms []study.Arm) string {
	names := make([]string, len(arms))
	for i, a := range arms {
		names[i] = a.Label
	}
	return strings.Join(names, ", ")
}
