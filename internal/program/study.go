// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// Study are the flags of a program that compares encodings: what goes into a study.Study, and those below.
type Study struct {
	Checkpoint, Recipe, Settings, Positions string

	study       *study.Study
	shard, mpi  string
	completions int
}

// StudyFlags adds the flags that such programs have in common. Recipe and positions are their defaults, in words where
// they depend on other flags.
func StudyFlags(flags *flag.FlagSet, s *study.Study, checkpoint, recipe, positions string) *Study {
	f := &Study{study: s}
	flags.StringVar(&s.From, "from", "", "pretrained model to fine-tune: a directory of a run, a file or directory of "+
		"Hugging Face's, timm's or Google's, or hf://owner/name[@revision]")
	flags.BoolVar(&s.Import.AssumeSquare, "assume-square", false, "the grid of -from's positions is square where no file "+
		"says it")
	flags.StringVar(&f.Checkpoint, "checkpoint", checkpoint, "directory for checkpoints, rows, tables and pictures")
	flags.StringVar(&f.Recipe, "recipe", "", "one of "+strings.Join(finetune.Names(), ", ")+"; default "+recipe)
	flags.StringVar(&f.Settings, "set", "", `changes to the recipe, as "epochs=3;model.width=64;wepe_mode=release"`)
	flags.StringVar(&f.Positions, "position", "", "encodings, of "+strings.Join(vit.PositionNames(), ",")+", or A+B of "+
		"two that act in different places; default "+positions)
	flags.IntVar(&s.Seeds, "seeds", 1, "trainings of each encoding, paired by seed; 3 or more for a result")
	flags.IntVar(&s.FirstSeed, "first-seed", 0, "of -seeds; others than chose a setting have the last word on it")
	flags.StringVar(&f.shard, "shard", "", "i/n: do part i of n, counted from 0; default from the variables of Slurm or "+
		"Kubernetes")
	flags.IntVar(&f.completions, "completions", 0, "pods of the indexed job of Kubernetes that this is one of; default "+
		"JOB_COMPLETIONS")
	flags.IntVar(&s.Devices, "devices", 0, "devices of the backend, as GPUs, that share each batch; default all, "+
		"or as many as can share it equally")
	flags.StringVar(&f.mpi, "mpi", "", "the processes of mpirun or srun share each training, and sum gradients by "+
		"allreduce, or ordered as one process would; needs -tags=mpi, docs/scale.md")
	return f
}

// Arms reads the encodings into the study, byDefault without -position.
func (f *Study) Arms(byDefault string) error {
	positions, err := study.ParsePositions(cmp.Or(f.Positions, byDefault))
	if err != nil {
		return fmt.Errorf("-position: %w", err)
	}
	f.study.Arms = study.Each(positions...)
	return nil
}

// Finish reads the rest into the study, once the flags are parsed.
func (f *Study) Finish() (err error) {
	if f.study.Seeds < 1 || f.study.Seeds > 1000 {
		return fmt.Errorf("-seeds is %d, want 1 to 1000", f.study.Seeds)
	}
	if f.study.FirstSeed < 0 || f.study.FirstSeed > 1e9 {
		return fmt.Errorf("-first-seed is %d, want 0 to 1e9", f.study.FirstSeed)
	}
	if f.study.Devices < 0 {
		return fmt.Errorf("-devices is %d, want 1 or more, or 0 for all", f.study.Devices)
	}
	if f.study.Shard, err = study.ParseShard(f.shard, os.LookupEnv, f.completions); err != nil {
		return fmt.Errorf("-shard, -completions: %w", err)
	}
	if f.mpi != "" {
		if err := join(f.mpi); err != nil {
			return fmt.Errorf("-mpi: %w", err)
		}
		f.study.Group = world
	}
	f.study.Progress, f.study.Logger = Progress, Logger()
	return nil
}

// NamedRecipe returns a recipe with the changes of -set.
func (f *Study) NamedRecipe(name string) (finetune.Recipe, error) {
	original, err := finetune.Named(name)
	if err != nil {
		return original, err
	}
	recipe, err := original.Set(f.Settings)
	if err == nil && recipe.Model.Position != original.Model.Position {
		err = errors.New("-set model.position: -position names the encodings")
	}
	return recipe, err
}
