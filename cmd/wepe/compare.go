// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit/dhvt"
)

// comparison are the flags of wepe compare.
type comparison struct {
	training
	study, filter, shard string
	positions, aspects   []string
	sizes                [][2]int
	fractions            []float64
	seeds, numShards     int
	table, resample      bool
}

// Encodings to compare by default.
var (
	comparedFromScratch = []string{"none", "learned", fromScratch, "wepe", "wepe-sphere", "wepe-v"}
	// The pretrained table resampled, replaced, blended into and extended.
	comparedFineTuning = []string{"learned", "wepe", "hybrid", "learned+wepe-v"}
)

func compare() *cobra.Command {
	var o comparison
	c := &cobra.Command{Use: "compare [MODEL]", Short: "Train position encodings in pairs by seed, and print one table",
		Args: cobra.MaximumNArgs(1),
		Long: `Train encodings on the same images in the same order, and print one table. The same command resumes an
interrupted comparison. Each training run has its own run directory.

Without --positions: ` + strings.Join(comparedFromScratch, ",") + `, from MODEL ` +
			strings.Join(comparedFineTuning, ",") + `.`,
		Example: "  wepe compare --data cifar100:DIR --positions learned,wepe-sphere --seeds 3"}
	f := cli.FlagsOf(c)
	o.flags(f, "compare-", func() {
		f.Positions(&o.positions, "encodings, separated by commas")
		f.Seeds(&o.seeds, "; 3 or more for a result")
		f.StringVar(&o.study, "study", "", "a comparison by name in place of --positions (wepe list studies)")
		f.StringVar(&o.filter, "filter", "", "with --study: only the variants whose label matches this regular expression")
		f.Sizes(&o.sizes, "image sizes to compare, as `24x24,32x48`; default the recipe's")
		f.StringSliceVar(&o.aspects, "aspects", nil, "crop, squash or keep, several separated by commas")
		f.Float64SliceVar(&o.fractions, "fractions", nil, "shares of the training images, as `0.2,0.6`")
		f.Lookup("fractions").DefValue = ""
		f.BoolVar(&o.resample, "resample-images", false, "with --fractions: draw other training images for each seed")
		f.BoolVar(&o.table, "table", false, "print the table of finished training runs, and train nothing")
	})
	f.StringVar(&o.shard, "shard", "", "run shard `i/n`, from 0; default from the variables of Slurm or Kubernetes")
	f.IntVar(&o.numShards, "num-shards", 0, "number of shards, where Kubernetes sets JOB_COMPLETION_INDEX; default "+
		"JOB_COMPLETIONS")
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, append(args, "")[0]) }
	return c
}

func (o *comparison) run(c *cobra.Command, model string) error {
	ctx := cli.Interruptible(c)
	cli.CheckPositions("positions", o.positions...)
	d, model := o.sources(c, model)
	recipe := o.chosen(d, model)
	own := recipe.Model.Position
	recipe.Model.Position = "" // set for each training run
	s := study.Study{Dir: cmp.Or(o.out, run.Dir("compare-"+recipe.Name, d.Name)), Seeds: o.seeds, FirstSeed: int(o.seed),
		From: model, Import: o.open, Devices: o.devices, Weights: o.checkpoint, Progress: cli.Progress, Logger: cli.Logger(),
		Sizes: o.sizes, Aspects: o.aspects, Fractions: o.fractions}
	o.variants(ctx, &s, recipe, own, d)
	var positions []string
	for _, v := range s.Variants {
		positions = append(positions, v.Position)
	}
	compared := d.WithTest()
	o.unread(compared, recipe, model, positions...)
	for _, key := range setting.Keys(strings.Join(o.set, ";")) {
		if key == "augment.size" && o.sizes != nil || key == "aspect" && s.Aspects != nil || len(s.Variants) > 0 &&
			!slices.ContainsFunc(s.Variants, func(v study.Variant) bool {
				return !slices.Contains(setting.Keys(v.Settings), key)
			}) {
			return cli.Usagef("--set %s has no effect: each run of the comparison has its own: leave it out", key)
		}
	}
	recipe = plainForKeep(recipe, slices.Contains(append(s.Aspects, recipe.Aspect), finetune.AspectKeep))
	s.Tasks = []study.Task{task(recipe, compared, o.resample)}
	o.fits(&s, recipe, compared, model)
	o.startStudy(c, &s)
	defer s.Backend.Finalize()
	compared.DescribeTraining(recipe)
	cli.Field("runs", "%s, %s weights, results in %s", recipe.Name, o.checkpoint, s.Dir)
	description := o.description(d, recipe, model)
	description.Subsets, description.Study = o.resample, true
	if o.table { // rows of other settings are noted, and nothing is written
		if err := run.Check(s.Dir, description); err != nil {
			return fmt.Errorf("%w, or repeat the flags of that comparison with --table", err)
		}
		return o.printTable(cli.Output(c), &s, recipe.Name, d)
	}
	must.M(run.Apart(s.Dir, d.Spec, model))
	must.M(run.Claim(s.Dir, description))
	must.M(run.Write(s.Dir, description))
	failed := s.Run(ctx) // if some runs diverged, there is a table of the others
	if failed != nil && !errors.Is(failed, engine.ErrDiverged) {
		return run.Remedied(failed)
	}
	if s.Group == nil || s.Group.Rank() == 0 {
		failed = cmp.Or(failed, o.printTable(cli.Output(c), &s, recipe.Name, d))
	}
	if s.Group != nil {
		_, err := s.Group.Gather(nil) // a process that ended with an error before would end the first one
		failed = cmp.Or(failed, err)
	}
	return failed
}

// fits refuses what a run would refuse only after other runs: images of parts of a patch, and fewer than a batch.
func (o *comparison) fits(s *study.Study, r finetune.Recipe, d *dataset.Dataset, model string) {
	if model != "" && s.Sizes != nil {
		info := must.M1(o.inspect(model))
		for _, size := range s.Sizes {
			if p := max(info.Config.PatchSize, 1); size[0]%p != 0 || size[1]%p != 0 {
				must.M(cli.Usagef("--sizes %dx%d: MODEL has patches of %d pixels: want multiples of it", size[0], size[1], p))
			}
		}
	}
	r, _ = r.Resolve()
	for _, fraction := range s.Fractions {
		n := fraction * float64(d.Images())
		if !d.HasValidation() {
			n *= 1 - max(r.ValFraction, 0)
		}
		if fraction > 0 && r.BatchSize > 0 && n < float64(r.BatchSize)-1 { // the exact number is known when they are read
			must.M(cli.Usagef("--fractions %g: %.0f training images are fewer than one batch of %d: lower batch_size", fraction,
				n, r.BatchSize))
		}
	}
}

// checkAspects refuses an aspect for CIFAR-100, which is resized as it is, and prints that generated images have other
// shapes with one, see dataset.Load.
func checkAspects(d *dataset.Dataset) {
	if d.CIFAR100() {
		must.M(cli.Usagef("aspects have no effect on CIFAR-100, whose images are resized as they are: leave them out"))
	}
	if d.Generated() {
		cli.Field("data", "with aspects given, the shapes are in images of aspect ratios from 1:4 to 4:1")
	}
}

// startStudy checks a study, and opens its backend.
func (o *comparison) startStudy(c *cobra.Command, s *study.Study) {
	if _, indexed := os.LookupEnv("JOB_COMPLETION_INDEX"); o.shard != "" || !indexed {
		cli.Unread(c, "with --shard, or where Kubernetes sets no JOB_COMPLETION_INDEX", "num-shards")
	}
	if o.resample && o.fractions == nil {
		must.M(cli.Usagef("--resample-images draws other training images for each seed: give --fractions, as 0.2"))
	}
	var err error
	if s.Shard, err = study.ParseShard(o.shard, os.LookupEnv, o.numShards); err != nil {
		must.M(cli.Usagef("--shard, --num-shards: %w", err))
	}
	s.Group = must.M1(cli.Join(o.mpi))
	must.M(cli.Usage(s.Validate()))
	s.Backend = openBackend(o.backend, o.devices)
}

// variants sets the variants of a study: a named study's, or encodings with default settings. own is the encoding of
// the recipe, "" if it is for all.
func (o *comparison) variants(ctx context.Context, s *study.Study, r finetune.Recipe, own string,
	d *dataset.Dataset) {
	var named study.Preset
	var err error
	if o.study != "" {
		named, err = study.ByName(o.study)
		must.M(cli.Usage(err))
	}
	switch {
	case named.Pretrained && s.From == "":
		err = cli.Usagef("--study %s compares ways to fine-tune: name MODEL", o.study)
	case named.Sides != nil && s.Sizes != nil, named.Aspects != nil && s.Aspects != nil:
		err = cli.Usagef("--study %s chooses sizes or aspects: leave --sizes and --aspects out", o.study)
	case named.Variants != nil && o.positions != nil:
		err = cli.Usagef("--study %s chooses the encodings: leave --positions out", o.study)
	case named.Variants == nil && o.filter != "":
		err = cli.Usagef("--filter chooses among the variants of a --study: name encodings by --positions")
	}
	must.M(err)
	positions := comparedFromScratch
	switch {
	case o.positions != nil:
		positions = o.positions
	case r.Architecture == finetune.DHVT:
		positions = dhvt.Encodings()
	case s.From != "":
		positions = comparedFineTuning
	case own != "": // its settings are for this form alone
		positions = []string{"none", "learned", "sincos2d", own}
	}
	s.Spec = named.Spec(r, d.CIFAR100(), s.From != "")
	s.EvalSizes, s.Variants = named.EvalSizes, study.Variants(positions...)
	if named.Aspects != nil {
		s.Aspects = named.Aspects
	}
	if s.Aspects != nil || r.Aspect != "" {
		checkAspects(d)
	}
	if named.Variants != nil {
		if s.Variants, err = study.Matching(named.Variants, o.filter); err != nil {
			must.M(cli.Usagef("--filter: %w", err))
		}
		if !slices.ContainsFunc(s.Variants, func(v study.Variant) bool { return v.Label == s.Spec.Baseline }) {
			s.Spec.Baseline = ""
		}
	}
	if named.Sides != nil {
		s.Sizes = must.M1(study.SizesOf(named.Sides, r, must.M1(d.Load(ctx, r)).Train.Describe()))
	}
}

// task is a recipe with its images, read once for each size, as a run of that size alone would. With resample the seed
// of a run also draws its fraction of the images.
func task(r finetune.Recipe, d *dataset.Dataset, resample bool) study.Task {
	read := map[string]data.Splits{}
	t := study.Task{Recipe: r, Images: func(ctx context.Context, u study.Unit) (p data.Splits, err error) {
		key := fmt.Sprint(u.Recipe.Aspect, u.Recipe.Augment.Size)
		s, ok := read[key]
		if !ok {
			if s, err = d.Load(ctx, u.Recipe); err != nil {
				return p, err
			}
			read[key] = s
		}
		if p, err = study.Sets(s.Train, s.Test)(ctx, u); err == nil && resample {
			p.Train, err = data.Fraction(s.Train, u.Fraction, int64(u.Seed))
		}
		p.Validation = s.Validation
		return p, err
	}}
	t.TestAt = func(ctx context.Context, m *finetune.Model) (data.Dataset, error) {
		if !d.InFiles() && m.Recipe.Aspect == "" {
			return nil, nil
		}
		test, _, err := d.Split(ctx, report.Test, m) // as wepe eval --size reads the images
		return test, err
	}
	return t
}

// printTable prints the table of finished training runs.
func (o *comparison) printTable(out cli.Printer, s *study.Study, recipe string, d *dataset.Dataset) error {
	table, err := s.Table()
	if err != nil {
		return err
	}
	out.Printf("\n%s, recipe %s, chance is %.1f %%\n\n", d.Name, recipe, 100/float64(len(d.Classes)))
	out.Print(table.Text() + "\n")
	if !o.table {
		var images []string
		images, err = s.Curves()
		for _, image := range images {
			out.Field("curves", "%s", image)
		}
	}
	for _, files := range [][2]string{{"fields", "field.png"}, {"report", finetune.PageFile}} {
		if found, _ := fs.Glob(os.DirFS(s.Dir), "*/"+files[1]); len(found) > 0 { // no run may be finished
			out.Field(files[0], "%s", filepath.Join(s.Dir, "*", files[1]))
		}
	}
	return err
}
