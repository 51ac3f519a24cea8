// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/study"
	"github.com/wepe-go/wepe/internal/program"
)

// options are what the flags say.
type options struct {
	data          string
	tasks         []task
	pictures      []*pictures // of the tasks
	study         study.Study // of the same tasks
	merge         []string
	write         string
	plan, partial bool
}

// defaultPositions are compared without -position: the pretrained table resampled, replaced, and blended into.
const defaultPositions = "learned,wepe,hybrid"

// released stands for the recipes of the WePE release.
const released = "release"

// parse reads the flags and refuses what makes no sense, in one line.
func parse(args []string) (o options, err error) {
	s := &o.study
	flags := flag.NewFlagSet("vtab", flag.ContinueOnError)
	common := program.StudyFlags(flags, s, "runs/vtab", "dosovitskiy-vtab; or "+released+", the WePE release's own for "+
		"each task that it has a script for", defaultPositions)
	flags.StringVar(&o.data, "data", "", "directory with a folder per task in the VTAB-1k layout, see docs/vtab.md")
	names := flags.String("tasks", "all", "all, groups ("+strings.Join(groups, ", ")+") or names of tasks")
	flags.Func("sweep", "settings to choose from on val200, as \"learning_rate=0.01,0.03;wepe_gate=0.1,0.5\"",
		program.Into(&s.Sweep, study.ParseSweep))
	merge := flags.String("merge", "", "-checkpoint directories of other machines, separated by commas: join their "+
		"rows, print the table")
	flags.BoolVar(&o.plan, "plan", false, "list all trainings, whose they are and which are done, and train nothing")
	flags.StringVar(&o.write, "write", "", "write tasks into -data and end: "+shapesOrigin+", two of generated shapes to "+
		"try the rest with, or what can be made of a file, dSprites' npz or CIFAR-100's binary version")
	flags.BoolVar(&o.partial, "allow-partial", false, "accept lists of other lengths than VTAB-1k's; no result then")
	flags.BoolVar(&s.Keep, "keep", false, "keep the models of finished trainings on "+train1000)
	if err := program.Parse(flags, "fine-tunes a vision transformer on the 19 tasks of VTAB-1k with different position "+
		"encodings.", args); err != nil {
		return o, err
	}
	o.merge, s.Dir = study.Split(*merge), common.Checkpoint
	if o.tasks, err = chooseTasks(*names); err != nil {
		return o, err
	}
	if err := common.Arms(defaultPositions); err != nil {
		return o, err
	}
	if err = o.chooseRecipes(cmp.Or(common.Recipe, "dosovitskiy-vtab"), common); err != nil {
		return o, err
	}
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
	if err := common.Finish(); err != nil {
		return o, err
	}
	said := map[string]bool{} // where a model comes from is the same for hundreds of trainings
	s.Log = func(who, line string) {
		if !said[line] {
			said[line] = true
			program.Line(who + ": " + line)
		}
	}
	return o, o.validate()
}

// chooseRecipes gives every task its recipe; tasks that the release has no script for are left out of it.
func (o *options) chooseRecipes(name string, common *program.Study) error {
	if name == released {
		asked := len(o.tasks)
		o.tasks = slices.DeleteFunc(o.tasks, func(t task) bool {
			return !slices.Contains(finetune.Names(), released+"-"+t.name)
		})
		if len(o.tasks) == 0 {
			return errors.New("-recipe release: the release has scripts for svhn, resisc45 and dmlab only")
		}
		if left := asked - len(o.tasks); left > 0 {
			program.Line(fmt.Sprintf("recipe release: %d tasks that it has no script for are left out", left))
		}
	}
	for _, t := range o.tasks {
		own := name
		if name == released {
			own += "-" + t.name
		}
		recipe, err := common.NamedRecipe(own)
		if err != nil {
			return err
		}
		if recipe.Augment.Size == [2]int{} {
			return fmt.Errorf("recipe %s does not say how large pictures are: -set \"augment.size=[224,224]\"", own)
		}
		recipe.ValidationPart = -1 // what is held out is a list of its own
		p := &pictures{task: t}
		o.pictures = append(o.pictures, p)
		o.study.Tasks = append(o.study.Tasks, study.Task{Name: t.name, Recipe: recipe, Measure: p.measure,
			Parts: [2]string{train800, train1000}})
	}
	return nil
}

// validate refuses settings that no training could have, before the first one begins. The network is the checkpoint's,
// which is not open yet: what it decides is made up.
func (o options) validate() error {
	units, err := o.study.Units(nil)
	if err != nil {
		return err
	}
	seen := map[string]bool{} // of two tasks with one recipe the first is enough
	for _, u := range units {
		r, key := u.Recipe, u.Recipe.Name+u.Label+u.Setting
		if seen[key] || u.Waits > 0 {
			continue
		}
		seen[key] = true
		m := &r.Model
		m.ImageRows, m.ImageCols, m.Classes = r.Augment.Size[0], r.Augment.Size[1], 2
		if m.PatchSize == 0 {
			m.PatchSize, m.ImageRows, m.ImageCols = 1, 5, 7
		}
		m.Width, m.Depth, m.Heads = cmp.Or(m.Width, 64*max(1, m.Heads)), cmp.Or(m.Depth, 1), cmp.Or(m.Heads, 1)
		if err := r.WithDefaults().Validate(); err != nil {
			return err
		}
	}
	return nil
}
