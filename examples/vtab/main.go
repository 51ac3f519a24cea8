// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command vtab fine-tunes a pretrained Vision Transformer on the 19 tasks of VTAB-1k (Zhai et al. 2019,
// https://arxiv.org/abs/1910.04867) with several position encodings, and compares them with each other and with
// published results.
//
//	go run ./examples/vtab -data DIR -from MODEL -seeds 3
//	go run ./examples/vtab -data DIR -from MODEL -sweep "learning_rate=0.003,0.01,0.03" -shard 2/8
//	go run ./examples/vtab -sweep … -merge dir1,dir2                       one table of all machines
//	go run ./examples/vtab -data DIR -sweep … -plan                        list the training runs
//
// A setting is chosen on val200 after training on train800; with the chosen one the model is trained on train800val200
// and tested once. The same command resumes an interrupted one. docs/vtab.md has the layout of the data, the protocol,
// and commands for Slurm and Kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wepe-go/wepe/backend"
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/study"
)

// release selects the recipes of the WePE release, one for each task that has a released script.
const release = "release"

var (
	dir        = flag.String("data", "", "directory with a folder per task, see docs/vtab.md")
	from       = flag.String("from", "", "pretrained model, whatever finetune.Open opens")
	out        = flag.String("out", "runs/vtab", "directory of rows and models")
	recipeName = flag.String("recipe", "dosovitskiy-vtab", "recipe, or "+release+": the WePE release's own for each task")
	settings   = flag.String("set", "", `changes to the recipe, as "steps=300;augment.size=[224,224]"`)
	positions  = flag.String("positions", "learned,wepe,hybrid", "encodings, separated by commas")
	taskNames  = flag.String("tasks", "all", "all, groups or names of tasks, separated by commas")
	sweep      = flag.String("sweep", "", `settings to choose on val200, as "learning_rate=0.01,0.03"`)
	seeds      = flag.Int("seeds", 1, "training runs of each, paired by seed")
	shard      = flag.String("shard", "", "i/n: run shard i of n; default from the variables of Slurm or Kubernetes")
	numShards  = flag.Int("num-shards", 0, "number of shards, where Kubernetes sets JOB_COMPLETION_INDEX; default "+
		"JOB_COMPLETIONS")
	devices = flag.Int("devices", 0, "devices of the backend that share each batch; default one on a CPU, else "+
		"as many as divide it")
	merge   = flag.String("merge", "", "-out directories of other machines, to join their rows")
	plan    = flag.Bool("plan", false, "list all training runs, and train nothing")
	partial = flag.Bool("allow-partial", false, "accept lists of other lengths than VTAB-1k's; no result then")
	keep    = flag.Bool("keep", false, "keep the models of finished training runs")
	write   = flag.String("write", "", "write tasks into -data and end: shapes, or what can be made of a file, dSprites' "+
		"npz or CIFAR-100's binary version")
)

func main() {
	backend.Tune()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	switch {
	case errors.Is(err, study.ErrPending): // other shards: the scheduler retries
		log.Print(err)
		os.Exit(75)
	case errors.Is(err, engine.ErrInterrupted), errors.Is(err, context.Canceled): // as after SIGTERM
		log.Print(err)
		os.Exit(143)
	case err != nil:
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("argument %q: want flags only", flag.Arg(0))
	case *write != "" && *dir == "":
		return errors.New("-data is missing: give the directory to write into")
	case *write != "":
		return writeTasks(ctx, *dir, *write, vtabSizes, slog.Default())
	}
	s, tasks, err := describe()
	if err != nil {
		return err
	}
	if *merge != "" {
		if err := s.Merge(strings.Split(*merge, ",")); err != nil {
			return fmt.Errorf("-merge: %w", err)
		}
		return table(s)
	}
	if *dir != "" {
		lists, err := vtab.Open(*dir, tasks, *partial, slog.Default())
		if err != nil {
			return err
		}
		if len(lists) == 0 {
			return fmt.Errorf("-data %s: no task of -tasks has a folder there", *dir)
		}
		for i := range s.Tasks {
			if t := &s.Tasks[i]; lists[t.Name] != nil {
				t.Origin = lists[t.Name].Origin
				t.FromFiles(lists[t.Name].Train, lists[t.Name].Test, slog.Default())
			}
		}
	}
	if *plan {
		listing, err := s.Listing()
		fmt.Print(listing.Text())
		return err
	}
	if *dir == "" || *from == "" {
		return errors.New("-data or -from is missing: give the directory with a folder per task, and the pretrained model")
	}
	if strings.HasPrefix(s.From, hub.Scheme) {
		snapshot, err := hub.Download(ctx, s.From, nil)
		if err != nil {
			return err
		}
		s.From = snapshot.Dir
	}
	if s.Backend, err = backend.Open(backend.Devices(*devices)); err != nil {
		return err
	}
	defer s.Backend.Finalize()
	if err := s.Run(ctx); err != nil {
		return err
	}
	return table(s)
}

// describe converts the flags to a study of the tasks.
func describe() (s *study.Study, tasks []vtab.Task, err error) {
	s = &study.Study{Dir: *out, From: *from, Seeds: *seeds, Devices: *devices, Keep: *keep, Sweep: *sweep,
		Import:   checkpoints.Hints{AssumeSquare: true},   // Google's files do not state their grid
		Parts:    [2]string{"train800", "train800val200"}, // for hyperparameter search, for the final result
		Progress: progress, Logger: slog.Default()}
	s.Variants = study.Variants(strings.Split(*positions, ",")...)
	if s.Shard, err = study.ParseShard(*shard, os.LookupEnv, *numShards); err != nil {
		return nil, nil, fmt.Errorf("-shard, -num-shards: %w", err)
	}
	all, err := vtab.Choose(strings.Split(*taskNames, ","))
	if err != nil {
		return nil, nil, fmt.Errorf("-tasks: %w", err)
	}
	for _, task := range all {
		name := *recipeName
		if name == release {
			if name += "-" + task.Name; !slices.Contains(finetune.RecipeNames(), name) {
				fmt.Fprintf(os.Stderr, "-recipe release: no script for %s, left out\n", task.Name)
				continue
			}
		}
		recipe, err := finetune.RecipeByName(name)
		part := recipe.ValFraction
		if err == nil {
			recipe, err = recipe.Set(*settings)
		}
		if err != nil {
			return nil, nil, err
		}
		if recipe.ValFraction != part {
			return nil, nil, errors.New("-set val_fraction: VTAB-1k has its own split, val200")
		}
		if recipe.Aspect != "" { // which FromFiles would not read
			return nil, nil, fmt.Errorf("-set aspect=%s: leave it out: the images are resized without keeping their aspect "+
				"ratio", recipe.Aspect)
		}
		if recipe.Augment.Size == [2]int{} {
			return nil, nil, fmt.Errorf("recipe %s has no image size: -set \"augment.size=[224,224]\"", name)
		}
		recipe.ValFraction = -1 // val200 is a separate list
		tasks = append(tasks, task)
		s.Tasks = append(s.Tasks, study.Task{Name: task.Name, Recipe: recipe})
	}
	if tasks == nil {
		return nil, nil, errors.New("-tasks: no task has data")
	}
	return s, tasks, s.Validate()
}

// table prints the table of all finished training runs, of this machine and others, and writes it as Markdown.
func table(s *study.Study) error {
	t, err := s.Table()
	if err != nil {
		return err
	}
	path := filepath.Join(s.Dir, "table.md")
	fmt.Printf("\n%s\nas Markdown: %s\n", t.Text(), path)
	return disk.Write(path, func(w io.Writer) error { // also for a shard that trained nothing
		_, err := io.WriteString(w, t.Markdown())
		return err
	})
}

// progress prints a line for each evaluation.
func progress(title string) func(engine.Progress) {
	return func(p engine.Progress) {
		if p.Eval != nil {
			fmt.Fprintf(os.Stderr, "%s  %s\n", title, p)
		}
	}
}
