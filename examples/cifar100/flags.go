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
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/examples/internal/shard"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/dhvt"
)

// options are what the flags say.
type options struct {
	data, folder, from, checkpoint, recipe, settings string
	task                                             data.Task // of the generated shapes
	assumeSquare                                     bool
	study                                            named
	variants                                         []variant
	sizes                                            [][2]int // of the pictures, one zero size for the recipe's own
	fractions                                        []float64
	seeds                                            int
	shard                                            shard.Shard
	download, table, eval                            bool
	predict                                          []string
	top                                              int
	export, format                                   string
}

// defaultPositions are compared without -position. What changes attention is left to be asked for, and so is "hybrid",
// which blends into a pretrained table and has none here.
const defaultPositions = "none,learned,sincos2d,wepe"

// fromPositions are compared with -from: the pretrained table resampled, replaced, and blended into.
const fromPositions = "learned,wepe,hybrid"

// dhvtPositions are compared with a recipe of DHVT: all that it takes.
var dhvtPositions = strings.Join(dhvt.Positions(), ",")

// parse reads the flags and refuses what makes no sense, in one line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("cifar100", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is one line; -help prints the flags
	var positions, study, sizes, fractions, part, predict, task string
	var completions int
	flags.StringVar(&o.data, "data", "", "directory or archive of CIFAR-100's binary version; empty for generated shapes")
	flags.StringVar(&o.folder, "folder", "", "your own pictures in place of -data: a directory with a folder for each "+
		"class; a fifth of them is tested on, unless they are in folders train and val")
	flags.BoolVar(&o.download, "download", false, "fetch CIFAR-100 into -data if it is not there")
	flags.StringVar(&o.from, "from", "", "pretrained model to fine-tune: a directory of a run, a file or directory of "+
		"Hugging Face's, timm's or Google's, or hf://owner/name")
	flags.BoolVar(&o.assumeSquare, "assume-square", false, "the grid of -from's positions is square where no file says it")
	flags.StringVar(&task, "task", string(data.TaskWhere), fmt.Sprintf("what to ask about generated shapes: %s, %s or %s",
		data.TaskWhere, data.TaskLocation, data.TaskOrientation))
	flags.StringVar(&o.checkpoint, "checkpoint", "runs", "directory for checkpoints, rows and pictures")
	flags.StringVar(&o.recipe, "recipe", "", "one of "+strings.Join(finetune.Names(), ", ")+
		"; default shapes, or cifar100-small with -data; with -from demo-shapes or demo-cifar100")
	for _, name := range []string{"position", "compare"} {
		flags.StringVar(&positions, name, "", "encodings, of "+strings.Join(vit.PositionNames(), ",")+
			", or A+B of two that act in different places; default "+defaultPositions+", with -from "+fromPositions+", with a recipe of DHVT "+dhvtPositions)
	}
	flags.StringVar(&study, "study", "", "a comparison of the paper in place of -position: "+studyList())
	flags.IntVar(&o.seeds, "seeds", 1, "trainings of each encoding, paired by seed")
	for _, name := range []string{"fraction", "fractions"} {
		flags.StringVar(&fractions, name, "1", "parts of the training images to use, as 0.2,0.4,0.6,0.9")
	}
	flags.StringVar(&sizes, "sizes", "", "sizes of the pictures that the model sees, height x width, as 24x24,32x48")
	flags.StringVar(&part, "shard", "", "i/n: do part i of n, counted from 0; default from the variables of Slurm or "+
		"Kubernetes")
	flags.IntVar(&completions, "completions", 0, "pods of the indexed job of Kubernetes that this is one of; default "+
		"JOB_COMPLETIONS")
	flags.BoolVar(&o.table, "table", false, "print the table of what is done, and train nothing")
	flags.StringVar(&o.settings, "set", "", `changes to the recipe, as "epochs=3;model.width=64;wepe_mode=release"`)
	flags.BoolVar(&o.eval, "eval", false, "measure the best checkpoints of trained models on the test images")
	flags.StringVar(&predict, "predict", "", "image files, separated by commas, to classify with a trained model")
	flags.StringVar(&o.export, "export", "", "directory to write a trained model to, for other software")
	flags.StringVar(&o.format, "format", checkpoints.FormatHF, "of -export: hf, timm, jax, onnx or unfolded")
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
	flags.Visit(func(f *flag.Flag) { // as where a shell's variable is not set: not another job in its place
		if f.Value.String() == "" && slices.Contains([]string{"from", "folder", "study", "predict", "export"}, f.Name) {
			err = fmt.Errorf("-%s is given, but empty", f.Name)
		}
	})
	if err != nil {
		return o, err
	}
	o.task = data.Task(task)
	defaultRecipe := map[[2]bool]string{
		{false, false}: "shapes", {true, false}: "cifar100-small",
		{false, true}: "demo-shapes", {true, true}: "demo-cifar100",
	}[[2]bool{o.data != "" || o.folder != "", o.from != ""}]
	o.recipe = cmp.Or(o.recipe, defaultRecipe)
	if err := o.compare(study, positions); err != nil {
		return o, err
	}
	if o.sizes, err = parseSizes(sizes); err != nil {
		return o, err
	}
	if o.fractions, err = parseFractions(fractions); err != nil {
		return o, err
	}
	if part != "" {
		o.shard, err = shard.Parse(part)
	} else {
		o.shard, err = shard.Scheduled(os.LookupEnv, completions)
	}
	if err != nil {
		return o, err
	}
	o.predict = split(predict)
	switch {
	case o.eval && len(o.predict) > 0 || o.eval && o.export != "" || len(o.predict) > 0 && o.export != "":
		return o, errors.New("-eval, -predict and -export exclude each other")
	case predict != "" && len(o.predict) == 0:
		return o, errors.New("-predict names no file: want some, as a.png,b.jpg")
	case o.seeds < 1:
		return o, fmt.Errorf("-seeds is %d, want 1 or more", o.seeds)
	case len(o.study.aspects) > 0 && sizes != "":
		return o, fmt.Errorf("-study %s chooses the sizes: leave -sizes out", o.study.name)
	case o.folder != "" && o.data != "":
		return o, errors.New("-data and -folder exclude each other")
	case o.download && o.data == "":
		return o, errors.New("-download needs -data, the directory to fetch into")
	case o.top < 1:
		return o, fmt.Errorf("-top is %d, want 1 or more", o.top)
	}
	return o, nil
}

// compare says which variants there are to compare: those of a study, or encodings as they are.
func (o *options) compare(study, positions string) (err error) {
	if study != "" {
		if o.study, err = studyNamed(study); err != nil {
			return err
		}
		if o.study.pretrained && o.from == "" {
			return fmt.Errorf("-study %s compares ways to fine-tune: it needs -from, a pretrained model", study)
		}
		if o.study.variants != nil && positions != "" {
			return fmt.Errorf("-study %s chooses the encodings: leave -position out", study)
		}
		if o.variants = o.study.variants; o.variants != nil {
			return nil
		}
	}
	byDefault := defaultPositions
	if recipe, err := finetune.Named(o.recipe); err == nil && recipe.Architecture == finetune.DHVT {
		byDefault = dhvtPositions
	} else if o.from != "" {
		byDefault = fromPositions
	}
	chosen := split(cmp.Or(positions, byDefault))
	for i, p := range chosen {
		if _, err := vit.EncodingNamed(p); err != nil {
			return fmt.Errorf("-position: %w", err)
		}
		if slices.Contains(chosen[:i], p) {
			return fmt.Errorf("-position names %s twice", p)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("-position names no encoding: want some of %s", strings.Join(vit.PositionNames(), ","))
	}
	o.variants = each(chosen)
	return nil
}

// studyList describes the studies for -help.
func studyList() string {
	var list []string
	for _, s := range studies {
		list = append(list, s.name+" ("+s.about+")")
	}
	return strings.Join(list, ", ")
}

// parseSizes reads "24x24,32x48"; nothing means one size, the recipe's.
func parseSizes(list string) (sizes [][2]int, err error) {
	for _, text := range split(list) {
		rows, cols, _ := strings.Cut(text, "x")
		height, errHeight := strconv.Atoi(rows)
		width, errWidth := strconv.Atoi(cols)
		size := [2]int{height, width}
		if errHeight != nil || errWidth != nil || height < 1 || width < 1 || slices.Contains(sizes, size) {
			return nil, fmt.Errorf("-sizes: %q, want different sizes of the form HEIGHTxWIDTH, as 24x24,32x48", text)
		}
		sizes = append(sizes, size)
	}
	switch {
	case list == "":
		return make([][2]int, 1), nil
	case sizes == nil:
		return nil, errors.New("-sizes names none: want some, as 24x24,32x48")
	}
	return sizes, nil
}

// parseFractions reads "0.2,0.4".
func parseFractions(list string) (fractions []float64, err error) {
	for _, text := range split(list) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f > 0 && f <= 1) || slices.Contains(fractions, f) {
			return nil, fmt.Errorf("-fractions: %q, want different numbers with 0 < fraction <= 1", text)
		}
		fractions = append(fractions, f)
	}
	if fractions == nil {
		return nil, errors.New("-fractions names none: want some, as 0.2,0.4")
	}
	return fractions, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
}
