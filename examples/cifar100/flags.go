// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit/dhvt"
)

// options are what the flags say.
type options struct {
	data, folder string
	streaming    program.Streaming // of folder
	download     bool
	task         data.Task // of the generated shapes
	recipe       finetune.Recipe
	study        study.Study
	named        study.Named
	table, eval  bool
	predict      []string
	top          int
	export       string
	show         string
	format       string
}

// Encodings that are compared without -position. What changes attention is left to be asked for, and so is "hybrid",
// which blends into a pretrained table: with -from the table is resampled, replaced, and blended into.
const (
	defaultPositions = "none,learned,sincos2d,wepe,wepe-sphere"
	fromPositions    = "learned,wepe,hybrid"
)

// dhvtPositions are compared with a recipe of DHVT: all that it takes.
var dhvtPositions = strings.Join(dhvt.Positions(), ",")

// parse reads the flags and refuses what makes no sense, in one line.
func parse(args []string) (o options, err error) {
	s := &o.study
	flags := flag.NewFlagSet("cifar100", flag.ContinueOnError)
	common := program.StudyFlags(flags, s, "runs",
		"shapes, or cifar100-small with -data; with -from demo-shapes or demo-cifar100",
		defaultPositions+", with -from "+fromPositions+", with a recipe of DHVT "+dhvtPositions)
	flags.StringVar(&o.data, "data", "", "directory or archive of CIFAR-100's binary version; empty for generated shapes")
	flags.StringVar(&o.folder, "folder", "", "your own pictures in place of -data: a directory with a folder for each "+
		"class, or with tar shards of WebDataset's form, or Parquet files of the hub's; a fifth of them is tested on, "+
		"unless they are in folders train and val, or have that in their names")
	o.streaming.Flags(flags)
	flags.BoolVar(&o.download, "download", false, "fetch CIFAR-100 into -data if it is not there")
	tasks := []data.Task{data.TaskWhere, data.TaskLocation, data.TaskOrientation, data.TaskShape}
	flags.StringVar((*string)(&o.task), "task", string(tasks[0]),
		fmt.Sprintf("what to ask about generated shapes: one of %q", tasks))
	name := flags.String("study", "", "a comparison by name in place of -position: "+study.Names())
	arms := flags.String("arms", "", "with -study: only the arms whose label matches this regular expression")
	flags.Func("fraction", "parts of the training images to use, as 0.2,0.4,0.6,0.9; default 1",
		program.Into(&s.Fractions, study.ParseFractions))
	flags.Func("sizes", "sizes of the pictures that the model sees, height x width, as 24x24,32x48; default the recipe's",
		program.Into(&s.Sizes, study.ParseSizes))
	flags.Func("aspect", "what becomes of -folder's pictures of other aspects than the model's: crop, the default, "+
		"squash, or keep, which gives each a grid of its own; several, as crop,keep, are compared. Generated shapes come in "+
		"pictures of 1:4 to 4:1 with it", program.Into(&s.Aspects, study.ParseAspects))
	flags.BoolVar(&o.table, "table", false, "print the table of what is done, and train nothing")
	flags.BoolVar(&o.eval, "eval", false, "measure the best checkpoints of trained models on the test images")
	predict := flags.String("predict", "", "image files, separated by commas, to classify with a trained model")
	flags.IntVar(&o.top, "top", 5, "classes to name for each image of -predict")
	flags.StringVar(&o.export, "export", "", "directory to write a trained model to, for other software")
	flags.StringVar(&o.show, "show-augmentation", "", "file to draw into, as PNG, what the recipe does to eight training "+
		"images; nothing is trained")
	flags.StringVar(&o.format, "format", checkpoints.FormatHF, "of -export: hf, timm, jax, onnx or unfolded")
	if err := program.Parse(flags, "trains vision transformers with different position encodings and compares them.",
		args); err != nil {
		return o, err
	}
	flags.Visit(func(f *flag.Flag) { // as where a shell's variable is not set: not another job in its place
		if f.Value.String() == "" && slices.Contains([]string{"from", "folder", "study", "predict", "export",
			"show-augmentation"}, f.Name) {
			err = fmt.Errorf("-%s is given, but empty", f.Name)
		}
	})
	if err != nil {
		return o, err
	}
	o.predict = study.Split(*predict)
	switch {
	case o.eval && len(o.predict) > 0 || o.eval && o.export != "" || len(o.predict) > 0 && o.export != "":
		return o, errors.New("-eval, -predict and -export exclude each other")
	case *predict != "" && len(o.predict) == 0:
		return o, errors.New("-predict names no file: want some, as a.png,b.jpg")
	case o.folder != "" && o.data != "":
		return o, errors.New("-data and -folder exclude each other")
	case o.streaming.On && o.folder == "":
		return o, errors.New("-stream is for the pictures of -folder")
	case o.download && o.data == "":
		return o, errors.New("-download needs -data, the directory to fetch into")
	case s.Aspects != nil && o.data != "":
		return o, errors.New("-aspect is for pictures of several sizes, CIFAR-100 has one: leave it out, or use -folder")
	case !slices.Contains(tasks, o.task):
		return o, fmt.Errorf("-task %q: want one of %q", o.task, tasks)
	case o.top < 1:
		return o, fmt.Errorf("-top is %d, want 1 or more", o.top)
	}
	byDefault := map[[2]bool]string{
		{false, false}: "shapes", {true, false}: "cifar100-small",
		{false, true}: "demo-shapes", {true, true}: "demo-cifar100",
	}[[2]bool{o.data != "" || o.folder != "", s.From != ""}]
	recipe := cmp.Or(common.Recipe, byDefault)
	if o.recipe, err = common.NamedRecipe(recipe); err != nil {
		return o, err
	}
	s.Tasks, s.Dir = []study.Task{{Recipe: o.recipe}}, filepath.Join(common.Checkpoint, recipe)
	if err := o.compare(*name, *arms, common); err != nil {
		return o, err
	}
	if err := o.streaming.Finish(); err != nil {
		return o, err
	}
	if err := common.Finish(); err != nil {
		return o, err
	}
	if err := (checkpoints.ExportOptions{Format: o.format}).Validate(); err != nil {
		return o, fmt.Errorf("-format: %w", err)
	}
	return o, s.Validate()
}

// compare says which arms there are: those of a study by name, or encodings as they are.
func (o *options) compare(name, arms string, common *program.Study) (err error) {
	s, positions, published := &o.study, defaultPositions, study.FromScratch
	if name != "" {
		if o.named, err = study.ByName(name); err != nil {
			return fmt.Errorf("-study: %w", err)
		}
		published = o.named.Published
	}
	if o.named.Aspects != nil {
		if s.Aspects != nil || o.data != "" {
			return fmt.Errorf("-study %s compares aspects: leave -aspect and -data out", name)
		}
		s.Aspects = o.named.Aspects
	}
	switch {
	case o.recipe.Architecture == finetune.DHVT:
		positions, published = dhvtPositions, study.DHVT
	case s.From != "":
		positions, published = fromPositions, study.FineTuned
	case o.named.Pretrained:
		return fmt.Errorf("-study %s compares ways to fine-tune: it needs -from, a pretrained model", name)
	}
	if o.data != "" {
		s.Published = published
	}
	switch {
	case s.Aspects != nil && (o.named.Sides != nil || o.named.Elsewhere != nil):
		return fmt.Errorf("-study %s chooses the sizes of square pictures: leave -aspect out", name)
	case o.named.Sides != nil && s.Sizes != nil:
		return fmt.Errorf("-study %s chooses the sizes: leave -sizes out", name)
	case o.named.Arms == nil && arms != "":
		return errors.New("-arms chooses among the arms of a -study that has some: name encodings by -position")
	case o.named.Arms == nil:
		return common.Arms(positions)
	case common.Positions != "":
		return fmt.Errorf("-study %s chooses the encodings: leave -position out", name)
	}
	s.Arms, s.Baseline = o.named.Arms, o.named.Baseline
	if s.Arms, err = study.Matching(s.Arms, arms); err != nil {
		return fmt.Errorf("-arms: %w", err)
	}
	return nil
}
