// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/vit"
)

// options are what the flags say.
type options struct {
	data, from, checkpoint, recipe, settings string
	task                                     data.Task // of the generated shapes
	assumeSquare                             bool
	positions                                []string
	seeds                                    int
	fraction                                 float64
	download, eval                           bool
	predict                                  []string
	top                                      int
}

// defaultPositions are compared without -position. What changes attention is left to be asked for, and so is "hybrid",
// which blends into a pretrained table and has none here.
const defaultPositions = "none,learned,sincos2d,wepe"

// fromPositions are compared with -from: the pretrained table resampled, replaced, and blended into.
const fromPositions = "learned,wepe,hybrid"

// parse reads the flags and refuses what makes no sense, in one line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("cifar100", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is one line; -help prints the flags
	var positions, predict, task string
	flags.StringVar(&o.data, "data", "", "directory or archive of CIFAR-100's binary version; empty for generated shapes")
	flags.BoolVar(&o.download, "download", false, "fetch CIFAR-100 into -data if it is not there")
	flags.StringVar(&o.from, "from", "", "pretrained model to fine-tune: a directory of a run, or a file or directory of "+
		"Hugging Face's, timm's or Google's")
	flags.BoolVar(&o.assumeSquare, "assume-square", false, "the grid of -from's positions is square where no file says it")
	flags.StringVar(&task, "task", string(data.TaskWhere), fmt.Sprintf("what to ask about generated shapes: %s, %s or %s",
		data.TaskWhere, data.TaskLocation, data.TaskOrientation))
	flags.StringVar(&o.checkpoint, "checkpoint", "runs", "directory for checkpoints, rows and pictures")
	flags.StringVar(&o.recipe, "recipe", "", "one of "+strings.Join(finetune.Names(), ", ")+
		"; default shapes, or cifar100-small with -data; with -from demo-shapes or demo-cifar100")
	flags.StringVar(&positions, "position", "", "encodings, of "+strings.Join(vit.PositionNames(), ",")+
		"; default "+defaultPositions+", with -from "+fromPositions)
	flags.IntVar(&o.seeds, "seeds", 1, "trainings of each encoding, paired by seed")
	flags.Float64Var(&o.fraction, "fraction", 1, "part of the training images to use")
	flags.StringVar(&o.settings, "set", "", `changes to the recipe, as "epochs=3;model.width=64;wepe_mode=release"`)
	flags.BoolVar(&o.eval, "eval", false, "measure the best checkpoints of trained models on the test images")
	flags.StringVar(&predict, "predict", "", "image files, separated by commas, to classify with a trained model")
	flags.IntVar(&o.top, "top", 5, "classes to name for each image of -predict")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("cifar100 trains vision transformers with different position encodings and compares them. Flags:")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w (cifar100 -help lists the flags)", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: every option starts with -", flags.Arg(0))
	}
	o.task = data.Task(task)
	defaultRecipe := map[[2]bool]string{
		{false, false}: "shapes", {true, false}: "cifar100-small",
		{false, true}: "demo-shapes", {true, true}: "demo-cifar100",
	}[[2]bool{o.data != "", o.from != ""}]
	o.recipe = cmp.Or(o.recipe, defaultRecipe)
	if o.from != "" {
		positions = cmp.Or(positions, fromPositions)
	}
	positions = cmp.Or(positions, defaultPositions)
	o.positions = split(positions)
	for i, p := range o.positions {
		switch {
		case !slices.Contains(vit.PositionNames(), p):
			return o, fmt.Errorf("-position: unknown encoding %q: want some of %s", p, strings.Join(vit.PositionNames(), ","))
		case slices.Contains(o.positions[:i], p):
			return o, fmt.Errorf("-position names %s twice", p)
		}
	}
	o.predict = split(predict)
	switch {
	case len(o.positions) == 0:
		return o, fmt.Errorf("-position names no encoding: want some of %s", strings.Join(vit.PositionNames(), ","))
	case o.eval && len(o.predict) > 0:
		return o, errors.New("-eval and -predict exclude each other")
	case o.seeds < 1:
		return o, fmt.Errorf("-seeds is %d, want 1 or more", o.seeds)
	case !(o.fraction > 0 && o.fraction <= 1):
		return o, fmt.Errorf("-fraction is %g, want 0 < fraction <= 1", o.fraction)
	case o.download && o.data == "":
		return o, errors.New("-download needs -data, the directory to fetch into")
	case o.top < 1:
		return o, fmt.Errorf("-top is %d, want 1 or more", o.top)
	}
	return o, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
}
