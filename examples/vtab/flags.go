// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
)

// options are what the flags say.
type options struct {
	data          string
	tasks         []vtab.Task
	study         study.Study // of the same tasks
	merge         []string
	write         string
	plan, partial bool
}

const (
	defaultPositions = "learned,wepe,hybrid" // the pretrained table resampled, replaced, and blended into
	defaultRecipe    = "dosovitskiy-vtab"
	released         = "release" // stands for the recipes of the WePE release
)

// parse reads the flags and refuses what makes no sense, in one line.
func parse(args []string) (o options, err error) {
	s := &o.study
	flags := flag.NewFlagSet("vtab", flag.ContinueOnError)
	common := program.StudyFlags(flags, s, "runs/vtab", defaultRecipe+"; or "+released+", the WePE release's own for "+
		"each task that it has a script for", defaultPositions)
	flags.StringVar(&o.data, "data", "", "directory with a folder per task in the VTAB-1k layout, see docs/vtab.md")
	tasks := flags.String("tasks", "all", "all, groups ("+strings.Join(vtab.Groups, ", ")+") or names of tasks")
	flags.Func("sweep", "settings to choose from on val200, as \"learning_rate=0.01,0.03;wepe_gate=0.1,0.5\"",
		program.Into(&s.Sweep, study.ParseSweep))
	merge := flags.String("merge", "", "-checkpoint directories of other machines, separated by commas: join their "+
		"rows, print the table")
	flags.BoolVar(&o.plan, "plan", false, "list all trainings, whose they are and which are done, and train nothing")
	flags.StringVar(&o.write, "write", "", "write tasks into -data and end: "+vtab.Shapes+", two of generated shapes to "+
		"try the rest with, or what can be made of a file, dSprites' npz or CIFAR-100's binary version")
	flags.BoolVar(&o.partial, "allow-partial", false, "accept lists of other lengths than VTAB-1k's; no result then")
	flags.BoolVar(&s.Keep, "keep", false, "keep the models of finished trainings on "+vtab.Parts[1])
	if err := program.Parse(flags, "fine-tunes a vision transformer on the 19 tasks of VTAB-1k with different position "+
		"encodings.", args); err != nil {
		return o, err
	}
	o.merge, s.Dir, s.Benchmark = study.Split(*merge), common.Checkpoint, study.VTAB()
	trains := !o.plan && len(o.merge) == 0
	switch {
	case o.data == "" && o.write != "":
		return o, errors.New("-write needs -data, the directory to write to")
	case o.write != "":
		return o, nil
	case s.From == "" && trains:
		return o, errors.New("-from is missing: the pretrained checkpoint, a file or hf://owner/name")
	case o.data == "" && trains:
		return o, errors.New("-data is missing: the directory with a folder per task, see docs/vtab.md")
	}
	asked, err := vtab.Choose(study.Split(*tasks))
	if err != nil {
		return o, fmt.Errorf("-tasks: %w", err)
	}
	if err := o.chooseRecipes(asked, common); err != nil {
		return o, err
	}
	if err := common.Arms(defaultPositions); err != nil {
		return o, err
	}
	if err := common.Finish(); err != nil {
		return o, err
	}
	return o, s.Validate()
}

// chooseRecipes gives every task its recipe; tasks that the release has no script for are left out of it.
func (o *options) chooseRecipes(asked []vtab.Task, common *program.Study) error {
	for _, t := range asked {
		name := cmp.Or(common.Recipe, defaultRecipe)
		if name == released {
			if name += "-" + t.Name; !slices.Contains(finetune.Names(), name) {
				continue
			}
		}
		recipe, err := common.NamedRecipe(name)
		if err != nil {
			return err
		}
		if recipe.Augment.Size == [2]int{} {
			return fmt.Errorf("recipe %s does not say how large pictures are: -set \"augment.size=[224,224]\"", name)
		}
		recipe.ValidationPart = -1 // what is held out is a list of its own
		o.tasks = append(o.tasks, t)
		o.study.Tasks = append(o.study.Tasks, study.Task{Name: t.Name, Recipe: recipe, Parts: vtab.Parts})
	}
	if o.tasks == nil {
		return errors.New("-recipe release: the release has scripts for svhn, resisc45 and dmlab only")
	}
	if left := len(asked) - len(o.tasks); left > 0 {
		program.Line(fmt.Sprintf("recipe release: %d tasks that it has no script for are left out", left))
	}
	return nil
}
