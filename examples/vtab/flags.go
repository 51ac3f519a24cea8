// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/examples/internal/progress"
	"github.com/wepe-go/wepe/examples/internal/shard"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/vit"
)

// options are what the flags say.
type options struct {
	data, from, checkpoint string
	assumeSquare           bool
	tasks                  []task
	recipes                map[string]finetune.Recipe // by task
	positions              []string
	seeds                  int
	sweep                  []axis
	shard                  shard.Shard
	merge                  []string
	write                  string
	plan, partial, keep    bool
}

// parse reads the flags, and from the scheduler's variables which shard this is; it refuses what makes no sense, in one
// line.
func parse(args []string, lookup func(string) (string, bool)) (o options, err error) {
	flags := flag.NewFlagSet("vtab", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is one line; -help prints the flags
	var names, positions, recipe, settings, sweep, part, merge string
	var completions int
	flags.StringVar(&o.data, "data", "", "directory with a folder per task in the VTAB-1k layout, see docs/vtab.md")
	flags.StringVar(&o.from, "from", "", "pretrained checkpoint: a file or directory, or hf://owner/name[@revision]")
	flags.StringVar(&o.checkpoint, "checkpoint", "runs/vtab", "directory for results, checkpoints and the table")
	flags.StringVar(&names, "tasks", "all", "all, groups ("+strings.Join(groups, ", ")+") or names of tasks")
	flags.StringVar(&positions, "position", "learned,wepe,hybrid", "encodings, of "+
		strings.Join(vit.PositionNames(), ",")+", or A+B of two that act in different places")
	flags.IntVar(&o.seeds, "seeds", 1, "trainings of each encoding, paired by seed; 3 or more for a result")
	flags.BoolVar(&o.assumeSquare, "assume-square", false, "the grid of -from's positions is square, where no file "+
		"says it")
	flags.StringVar(&recipe, "recipe", "dosovitskiy-vtab", "one of "+strings.Join(finetune.Names(), ", ")+"; or "+
		released+", the WePE release's own for each task that it has a script for")
	flags.StringVar(&settings, "set", "", `changes to the recipe, as "steps=500;batch_size=64"`)
	flags.StringVar(&sweep, "sweep", "", "settings to choose from on val200, as "+
		`"learning_rate=0.01,0.03;wepe_gate=0.1,0.5"`)
	flags.StringVar(&part, "shard", "", "i/n: do part i of n, counted from 0; default from the variables of Slurm or "+
		"Kubernetes")
	flags.IntVar(&completions, "completions", 0, "pods of the indexed job of Kubernetes that this is one of; default "+
		"JOB_COMPLETIONS")
	flags.StringVar(&merge, "merge", "", "-checkpoint directories of other machines, separated by commas: join "+
		"their rows, print the table")
	flags.BoolVar(&o.plan, "plan", false, "list all trainings, whose they are and which are done, and train nothing")
	flags.StringVar(&o.write, "write", "", "write tasks into -data and end: "+shapesOrigin+", two of generated shapes to "+
		"try the rest with, or what can be made of a file, dSprites' npz or CIFAR-100's binary version")
	flags.BoolVar(&o.partial, "allow-partial", false, "accept lists of other lengths than VTAB-1k's; no result then")
	flags.BoolVar(&o.keep, "keep", false, "keep the models of finished trainings on "+train1000)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("vtab fine-tunes a vision transformer on the 19 tasks of VTAB-1k with different position encodings. " +
			"Flags:")
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w (vtab -help lists the flags)", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: every option starts with -", flags.Arg(0))
	}
	if o.positions, err = choosePositions(positions); err != nil {
		return o, err
	}
	if o.tasks, err = chooseTasks(names); err != nil {
		return o, err
	}
	if err = o.chooseRecipes(recipe, settings); err != nil {
		return o, err
	}
	if o.sweep, err = parseSweep(sweep); err != nil {
		return o, err
	}
	o.merge = split(merge)
	switch {
	case o.seeds < 1:
		return o, fmt.Errorf("-seeds is %d, want 1 or more", o.seeds)
	case o.data == "" && o.write != "":
		return o, errors.New("-write needs -data, the directory to write to")
	case o.write != "":
		return o, nil
	case o.from == "" && !o.plan && len(o.merge) == 0:
		return o, errors.New("-from is missing: the pretrained checkpoint, a file or hf://owner/name")
	case o.data == "" && !o.plan && len(o.merge) == 0:
		return o, errors.New("-data is missing: the directory with a folder per task, see docs/vtab.md")
	}
	if part != "" {
		o.shard, err = shard.Parse(part)
	} else {
		o.shard, err = shard.Scheduled(lookup, completions)
	}
	if err != nil {
		return o, err
	}
	return o, o.validate()
}

// released stands for the recipes of the WePE release.
const released = "release"

// chooseRecipes gives every task its recipe; tasks that the release has no script for are left out of it.
func (o *options) chooseRecipes(name, settings string) error {
	if name == released {
		asked := len(o.tasks)
		o.tasks = slices.DeleteFunc(o.tasks, func(t task) bool { return t.release == "" })
		if len(o.tasks) == 0 {
			return errors.New("-recipe release: the release has scripts for svhn, resisc45 and dmlab only")
		}
		if left := asked - len(o.tasks); left > 0 {
			progress.Line(fmt.Sprintf("recipe release: %d tasks that it has no script for are left out", left))
		}
	}
	o.recipes = map[string]finetune.Recipe{}
	for _, t := range o.tasks {
		own := name
		if name == released {
			own = t.release
		}
		original, err := finetune.Named(own)
		if err != nil {
			return err
		}
		recipe, err := original.Set(settings)
		if err != nil {
			return err
		}
		switch {
		case recipe.Model.Position != original.Model.Position:
			return errors.New("-set model.position: -position names the encodings")
		case recipe.Augment.Size == [2]int{}:
			return fmt.Errorf("recipe %s does not say how large pictures are: -set \"augment.size=[224,224]\"", own)
		}
		recipe.ValidationPart = -1 // what is held out is a list of its own
		o.recipes[t.name] = recipe
	}
	return nil
}

func choosePositions(list string) ([]string, error) {
	positions := split(list)
	if len(positions) == 0 {
		return nil, fmt.Errorf("-position names no encoding: want some of %s", strings.Join(vit.PositionNames(), ","))
	}
	for i, p := range positions {
		if _, err := vit.EncodingNamed(p); err != nil {
			return nil, fmt.Errorf("-position: %w", err)
		}
		if slices.Contains(positions[:i], p) {
			return nil, fmt.Errorf("-position names %s twice", p)
		}
	}
	return positions, nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
}
