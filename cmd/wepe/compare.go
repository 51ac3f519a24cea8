// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/suggest"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/dhvt"
)

// comparison are the flags of wepe compare.
type comparison struct {
	training
	study, only, sizes, aspects, fractions string
	seeds, completions                     int
	shard                                  string
	table                                  bool
}

// Encodings that are compared where none is named.
const (
	comparedFromScratch = "none,learned,sincos2d,wepe,wepe-sphere"
	comparedFineTuning  = "learned,wepe,hybrid" // the pretrained table resampled, replaced, and blended into
)

func compare() *cobra.Command {
	var o comparison
	c := &cobra.Command{Use: "compare [MODEL]", Short: "Train position encodings in pairs by seed, and print one table",
		Args: cobra.MaximumNArgs(1), Long: `Train several position encodings, from scratch or from MODEL, on the same images
in the same order, and print one table of differences paired by seed. The same command resumes an interrupted one.
Without --position: ` + comparedFromScratch + `, from MODEL ` + comparedFineTuning + `.`,
		Example: "  wepe compare --data cifar100:DIR --position learned,wepe-sphere --seeds 3"}
	f, flags := cli.Flags{Command: c}, c.Flags()
	f.Data(&o.data, "shapes", cli.DataForms)
	f.Out(&o.out, "directory of the trainings; default runs/<recipe>-<dataset>")
	flags.StringVar(&o.recipe, "recipe", "", "recipe by name (wepe list recipes); default by what is trained")
	f.Position(&o.position, "encodings, separated by commas")
	flags.StringVar(&o.study, "study", "", "a comparison by name in place of --position (wepe list studies)")
	flags.StringVar(&o.only, "variants", "", "with --study: only the variants whose label matches this regular expression")
	flags.StringVar(&o.sizes, "sizes", "", "image sizes to compare, as 24x24,32x48; default the recipe's")
	flags.StringVar(&o.aspects, "aspects", "", "crop, squash or keep, several separated by commas")
	flags.StringVar(&o.fractions, "fractions", "", "shares of the training images, as 0.2,0.6")
	flags.IntVar(&o.seeds, "seeds", 1, "trainings of each encoding, paired by seed; 3 or more for a result")
	flags.Int64Var(&o.seed, "seed", 0, "the first seed")
	flags.IntVar(&o.epochs, "epochs", 0, "passes over the training images; default the recipe's")
	f.Set(&o.set, "recipe setting, as --set learning_rate=0.001; repeatable")
	f.Weights(&o.weights)
	flags.StringVar(&o.shard, "shard", "", "i/n: part i of n; default from the variables of Slurm or Kubernetes")
	flags.IntVar(&o.completions, "completions", 0, "pods of the indexed job of Kubernetes; default JOB_COMPLETIONS")
	flags.BoolVar(&o.table, "table", false, "print the table of what is done, and train nothing")
	o.images.Flags(f)
	f.Backend(&o.backend)
	flags.IntVar(&o.devices, "devices", 0, "devices of the backend that share each batch; default all")
	flags.StringVar(&o.mpi, "mpi", "", "the processes of mpirun or srun share each training: allreduce or ordered")
	f.Import(&o.open)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{""}
		}
		return o.run(c, args[0])
	}
	return c
}

// parsePositions reads encodings, with a suggestion for an unknown one.
func parsePositions(list string) ([]string, error) {
	for _, name := range names(list) {
		for _, part := range strings.Split(name, "+") {
			if err := cli.One("position", part, vit.PositionNames()); err != nil {
				return nil, fmt.Errorf("--position: %w", err)
			}
		}
	}
	return names(list), nil
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
}

func parseSizes(list string) (sizes [][2]int, err error) {
	for _, text := range names(list) {
		size, err := study.ParseSize(text)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

func (o *comparison) run(c *cobra.Command, model string) (err error) {
	ctx := cli.Interruptible(c)
	d, err := dataset.Open(ctx, o.data, o.images)
	if err != nil {
		return err
	}
	if model != "" {
		if model, err = run.Local(ctx, model); err != nil {
			return err
		}
	}
	positions := o.position
	o.position = ""
	recipe, err := o.chosen(d, model)
	if err != nil {
		return err
	}
	recipe.Model.Position = "" // of each training
	s := study.Study{Dir: cmp.Or(o.out, run.Dir(recipe.Name, d.Name)), Seeds: o.seeds, FirstSeed: int(o.seed),
		From: model, Import: o.open, Devices: o.devices, Weights: o.weights, Progress: cli.Progress,
		Logger: cli.Logger()}
	if err := o.variants(&s, recipe, positions, d); err != nil {
		return err
	}
	recipe = plainForKeep(recipe, slices.Contains(s.Aspects, finetune.AspectKeep))
	images := loader{d: d, sizes: s.Sizes, read: map[string]dataset.Splits{}}
	s.Tasks = []study.Task{{Recipe: recipe, Images: images.of}}
	if err := cmp.Or(o.finish(&s), cli.Usage(s.Validate())); err != nil {
		return err
	}
	if s.Backend, err = openBackend(o.backend, o.devices); err != nil {
		return err
	}
	defer s.Backend.Finalize()
	d.Describe(recipe.WithDefaults().ValidationPart)
	cli.Field("recipe", "%s, %s weights, results in %s", recipe.Name, o.weights, s.Dir)
	if err := run.Claim(s.Dir, run.Description{Data: d.Spec, Dataset: d.Name, Recipe: recipe, Model: model,
		Seed: o.seed, Stream: o.images.Stream}); err != nil {
		return err
	}
	if !o.table {
		if err := s.Run(ctx); err != nil || s.Follows() {
			return err
		}
	}
	return printTable(cli.Output(c), &s, recipe.Name, d)
}

// finish reads the flags that a study parses.
func (o *comparison) finish(s *study.Study) (err error) {
	if o.seeds < 1 || o.seeds > 1000 {
		return cli.Usagef("--seeds %d: want 1 to 1000", o.seeds)
	}
	if s.Shard, err = study.ParseShard(o.shard, os.LookupEnv, o.completions); err != nil {
		return cli.Usage(fmt.Errorf("--shard, --completions: %w", err))
	}
	group, err := cli.Join(o.mpi)
	if group != nil {
		s.Group = group
	}
	return err
}

// variants are what is compared: those of a study by name, or encodings as they are; with sizes, aspects and fractions.
func (o *comparison) variants(s *study.Study, r finetune.Recipe, positions string, d *dataset.Dataset) (err error) {
	var named study.Named
	published := study.FromScratch
	if o.study != "" {
		if named, err = study.ByName(o.study); err != nil {
			var names []string
			for _, n := range study.All {
				names = append(names, n.Name)
			}
			return cli.Usage(suggest.Unknown("--study", o.study, names))
		}
		published = named.Published
	}
	for _, list := range []struct {
		flag, text string
		read       func(string) error
	}{
		{"sizes", o.sizes, func(text string) (err error) { s.Sizes, err = parseSizes(text); return err }},
		{"aspects", o.aspects, func(text string) (err error) { s.Aspects = names(text); return nil }},
		{"fractions", o.fractions, func(text string) (err error) {
			for _, f := range names(text) {
				n, err := strconv.ParseFloat(f, 64)
				if err != nil {
					return err
				}
				s.Fractions = append(s.Fractions, n)
			}
			return nil
		}},
	} {
		if list.text != "" {
			if err := list.read(list.text); err != nil {
				return cli.Usage(fmt.Errorf("--%s: %w", list.flag, err))
			}
		}
	}
	byDefault := comparedFromScratch
	switch {
	case r.Architecture == finetune.DHVT:
		byDefault, published = strings.Join(dhvt.Positions(), ","), study.DHVT
	case s.From != "":
		byDefault, published = comparedFineTuning, study.FineTuned
	case named.Pretrained:
		return cli.Usagef("--study %s compares ways to fine-tune: name MODEL", o.study)
	}
	if d.Name == "cifar100" {
		s.Published = published
	}
	switch {
	case named.Sides != nil && s.Sizes != nil, named.Aspects != nil && s.Aspects != nil:
		return cli.Usagef("--study %s chooses sizes or aspects: leave --sizes and --aspects out", o.study)
	case named.Variants != nil && positions != "":
		return cli.Usagef("--study %s chooses the encodings: leave --position out", o.study)
	case named.Variants == nil && o.only != "":
		return cli.Usagef("--variants chooses among the variants of a --study: name encodings by --position")
	}
	s.EvalSizes, s.Baseline = named.EvalSizes, named.Baseline
	if named.Aspects != nil {
		s.Aspects = named.Aspects
	}
	if named.Sides != nil {
		splits, err := d.Load(context.Background(), r)
		if err != nil {
			return err
		}
		if s.Sizes, err = study.SizesOf(named.Sides, r, splits.Train.Describe()); err != nil {
			return err
		}
	}
	if named.Variants == nil {
		names, err := parsePositions(cmp.Or(positions, byDefault))
		s.Variants = study.Each(names...)
		return err
	}
	if s.Variants, err = study.Matching(named.Variants, o.only); err != nil {
		return cli.Usage(fmt.Errorf("--variants: %w", err))
	}
	return nil
}

// loader reads the images of trainings: one reading serves all sizes, which the graph makes of the largest of each
// side, but with aspects, or streamed, each size is read on its own.
type loader struct {
	d     *dataset.Dataset
	sizes [][2]int
	read  map[string]dataset.Splits
}

func (l *loader) of(ctx context.Context, u study.Unit) (train, test data.Source, err error) {
	r := u.Recipe
	if r.Aspect == "" && !l.d.Streams() {
		for _, s := range l.sizes {
			r.Augment.Size = [2]int{max(r.Augment.Size[0], s[0]), max(r.Augment.Size[1], s[1])}
		}
	}
	key := fmt.Sprint(r.Aspect, r.Augment.Size)
	splits, ok := l.read[key]
	if !ok {
		if splits, err = l.d.Load(ctx, r); err != nil {
			return nil, nil, err
		}
		l.read[key] = splits
	}
	train, test = splits.Slice()
	return study.Sets(train, test)(ctx, u)
}

// printTable prints what is done.
func printTable(out *cli.Printer, s *study.Study, recipe string, d *dataset.Dataset) error {
	table, err := s.Table()
	if err != nil {
		return err
	}
	out.Printf("\n%s, recipe %s, chance is %.1f %%\n\n%s\n", d.Name, recipe, 100/float64(len(d.Classes)), table.Text())
	images, err := s.Curves()
	for _, image := range images {
		out.Field("curves", "%s", image)
	}
	out.Field("fields", "%s", filepath.Join(s.Dir, "*", "field.png"))
	out.Field("report", "%s", filepath.Join(s.Dir, "*", finetune.PageFile))
	return cmp.Or(err, out.Err())
}
