// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/internal/plugin"
	"github.com/wepe-go/wepe/study"
)

// analyzing are the flags of wepe analyze.
type analyzing struct {
	opening
	data, masks, out string
	analyses         []string
	limit            int
	seed             uint64
	initial          bool
	images           dataset.Options
	cost             costs
}

func analyze() *cobra.Command {
	var o analyzing
	c := &cobra.Command{Use: "analyze [MODEL|NAME=MODEL]...", Short: "Positions, attention, robustness and cost of models",
		Long: `Analyze models side by side: rows, tables and one page. Models with the same NAME, for
example several seeds, form one column.

Without MODEL two small models are trained on generated shapes first. --analyses cost needs no model.`,
		Example: "  wepe analyze runs/a/learned-seed0 runs/a/wepe-seed0 --data pets\n" +
			"  wepe analyze --analyses cost --models Ti/16"}
	f, names := cli.FlagsOf(c), []string{"all"}
	for _, e := range listAnalyses() {
		names = append(names, e.Name)
	}
	f.StringSliceVar(&o.analyses, "analyses", []string{"all"},
		"all, or some separated by commas (wepe list analyses), or cost")
	f.Completion("analyses", names...)
	f.StringVar(&o.data, "data", "shapes", cli.DataForms+"; its test split, or validation split")
	f.StringVar(&o.masks, "masks", "", "object masks of --data: a `directory` of images with the same names, white on "+
		"black; or COCO's instances_….json")
	f.Int(&o.limit, "limit", 1000, 1, math.MaxInt, "largest number of images, spread evenly over a directory")
	f.BoolVar(&o.initial, "include-init", false, "add a column for each model with its initial weights")
	f.Uint64Var(&o.seed, "seed", 0, "seed of noise, pairs, occlusion and shuffles")
	f.Out(&o.out, "of rows and page; default runs/analysis-<dataset>")
	o.opening.flags(f)
	o.images.Flags(f)
	o.images.Unlabelled = true
	f.Section("Of --analyses cost alone")
	o.cost.declare()
	f.AddFlagSet(&o.cost.flags)
	c.RunE = func(c *cobra.Command, args []string) error {
		cost := slices.Equal(o.analyses, []string{"cost"})
		must.M(o.unused(c, cost, args))
		if cost {
			return o.cost.run(c, o.backend, cmp.Or(o.out, "runs/analysis-cost"), o.seed)
		}
		return o.run(c, args)
	}
	return c
}

// unused refuses flags and models that an analysis would ignore.
func (o *analyzing) unused(c *cobra.Command, cost bool, models []string) (err error) {
	if cost && len(models) > 0 {
		return cli.Usagef("--analyses cost builds its own models (--models, --positions): leave out %s", models[0])
	}
	if !cost && slices.Contains(o.analyses, "cost") {
		return cli.Usagef("--analyses cost stands alone: use a command of its own for it")
	}
	forBoth := []string{"analyses", "out", "seed", "backend"}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch of := o.cost.flags.Lookup(f.Name) != nil; {
		case slices.Contains(forBoth, f.Name):
		case cost && !of:
			err = cli.Usagef("--%s has no effect with --analyses cost: leave it out", f.Name)
		case !cost && of:
			err = cli.Usagef("--%s is for --analyses cost: leave it out", f.Name)
		}
	})
	return err
}

func (o *analyzing) run(c *cobra.Command, paths []string) error {
	ctx := cli.Interruptible(c)
	chosen, err := analysis.Choose(o.analyses)
	if err != nil {
		return cli.Usagef("--analyses: %w", err)
	}
	if o.initial && o.size != [2]int{} {
		return cli.Usagef("--include-init: the initial weights of a run have its own image size: leave out --size")
	}
	cli.Unread(c, "in an analysis, which needs every image that it shows", "on-damaged")
	d := must.M1(dataset.Open(ctx, o.data, o.images))
	b := openBackend(o.backend, 0)
	defer b.Finalize()
	comparison := analysis.Comparison{Backend: b, Analyses: chosen, Seed: o.seed, Logger: cli.Logger()}
	dir := cmp.Or(o.out, filepath.Join("runs", "analysis-"+d.Name))
	must.M(run.Apart(dir, d.Spec, ""))
	comparison.Models = o.models(c, b, paths, dir)
	comparison.Images = o.imagesFor(d)
	found, page, failed := comparison.Run(ctx)
	if found == nil {
		return failed
	}
	out := cli.Output(c)
	for _, a := range chosen {
		if !slices.ContainsFunc(found, func(r analysis.Row) bool { return r.Analysis == a.Name }) { // interrupted
			continue
		}
		out.Printf("\n%s\n\n", a.Title)
		out.Print(analysis.Table(found, a.Name).Text())
	}
	rows, html := filepath.Join(dir, "analysis.jsonl"), filepath.Join(dir, "analysis.html")
	must.M(analysis.Write(rows, found))
	must.M(disk.Write(html, page.HTML))
	out.Printf("\n")
	out.Field("rows", "%s", rows)
	out.Field("page", "%s", html)
	return failed
}

// models returns the models with their paths on disk; without arguments it trains two.
func (o *analyzing) models(c *cobra.Command, b compute.Backend, paths []string, dir string) (
	models []analysis.Model) {
	if len(paths) == 0 {
		paths = trainTwo(c.Context(), b, filepath.Join(dir, "models"))
	}
	names, err := distinct(paths)
	must.M(cli.Usage(err))
	for i, name := range names {
		path := strings.TrimPrefix(paths[i], name+"=")
		chosen, line := run.Weights(c, path, o.checkpoint)
		cli.Field("model", "%s: %s %s", name, path, line)
		models = append(models, analysis.Model{Name: name, Path: chosen, Size: o.size, Import: o.files})
	}
	if o.initial {
		for _, m := range models {
			models = append(models, analysis.Model{Name: m.Name + " at start", Path: m.Path, Start: true})
		}
	}
	return models
}

// distinct returns the name of each model: NAME of NAME=MODEL, otherwise, and if there is such a file, the last element
// of its path up to "-seed".
// Models of one name are seeds: it is an error if that is only the name of a file or directory.
func distinct(paths []string) (names []string, err error) {
	seeds := map[string]bool{}
	for _, path := range paths {
		name, _, named := strings.Cut(path, "=")
		if _, err := os.Stat(path); err == nil || !named || name == "" || strings.Contains(name, "/") {
			name, _, named = strings.Cut(filepath.Base(strings.TrimSuffix(path, "/")), "-seed")
		}
		if others, used := seeds[name]; used && (!others || !named) {
			return nil, fmt.Errorf("two models are called %s: use NAME=MODEL; models of one NAME are averaged as seeds", name)
		}
		seeds[name] = named
		names = append(names, name)
	}
	return names, nil
}

// trainTwo trains two small models on the generated shapes, in directories below dir.
func trainTwo(ctx context.Context, b compute.Backend, dir string) (paths []string) {
	recipe := must.M1(finetune.RecipeByName("shapes"))
	train, test := must.M2(data.Shapes("where", 3000, 1000, 32, 0))
	s := study.Study{Dir: dir, Variants: study.Variants("learned", "wepe"), Seeds: 1, Backend: b,
		Tasks: []study.Task{{Recipe: recipe, Images: study.Sets(train, test)}}, Progress: cli.Progress,
		Logger: cli.Logger()}
	must.M(s.Run(ctx))
	for _, v := range s.Variants {
		paths = append(paths, filepath.Join(dir, v.Label+"-seed0"))
	}
	return paths
}

// imagesFor returns a function that reads the images for a model, and masks of the objects, if known. Models with the
// same preprocessing share them.
func (o *analyzing) imagesFor(d *dataset.Dataset) analysis.Images {
	type shown struct {
		images *data.InMemory
		mask   func(int) []bool
	}
	read := map[string]shown{}
	return func(ctx context.Context, m *finetune.Model) (*data.InMemory, func(int) []bool, error) {
		r := m.Recipe
		how := fmt.Sprint(m.Preprocess, r.Model.ImageRows, r.Model.ImageCols, r.Aspect, r.ValFraction)
		s, known := read[how]
		if known {
			return s.images, s.mask, nil
		}
		if len(read) == 0 {
			d.Describe(r.ValFraction)
		}
		images, mask, err := o.load(ctx, d, m)
		if err == nil {
			read[how] = shown{images, mask}
		}
		return images, mask, err
	}
}

// load reads the images with a model's preprocessing.
func (o *analyzing) load(ctx context.Context, d *dataset.Dataset, m *finetune.Model) (
	*data.InMemory, func(int) []bool, error) {
	if o.masks != "" {
		return d.Masked(ctx, o.masks, m, o.limit)
	}
	split, _, err := d.Split(ctx, "", m)
	if err != nil {
		return nil, nil, err
	}
	of := min(o.limit, split.Len())
	if d.InFiles() { // all classes, not the first ones: a directory may be sorted
		of = split.Len()
	}
	images, err := data.Load(ctx, split, numeric.Spread(o.limit, of))
	if err == nil && d.Generated() {
		return images, dataset.Bright(images), nil // white on black
	}
	return images, nil, err
}

// costs are the flags of wepe analyze --analyses cost.
type costs struct {
	flags     pflag.FlagSet
	positions []string
	onCPU     bool
	analysis.Cost
}

func (o *costs) declare() {
	f := cli.Flags{FlagSet: &o.flags}
	f.SortFlags = false
	f.StringSliceVar(&o.positions, "positions", costed, "encodings; ratios are to the first")
	f.StringSliceVar(&o.Sizes, "models", []string{"Ti/16"}, "sizes of models, as Ti/16,B/16")
	f.IntSliceVar(&o.Sides, "sizes", []int{224}, "sides of square images")
	f.StringVar(&o.DType, "dtype", "float32", "float32 or bfloat16")
	f.Int(&o.Rounds, "rounds", 100, 0, math.MaxInt, "rounds of every encoding; 0 for parameters and FLOPs only")
	f.BoolVar(&o.onCPU, "cpu-time", false, "measure CPU time, on a busy machine")
	f.Int(&o.Forward, "batch", 32, 1, math.MaxInt, "images per inference")
	f.Int(&o.Step, "step-batch", 16, 1, math.MaxInt, "images per training step")
}

// costed are the default: the encodings of the paper's table of costs, and their competitors. "folded" is missing,
// because a folded wepe is learned.
var costed = []string{"learned", "none", "wepe", "wepe-sum", "wepe-lut", "wepe-sphere", "hybrid", "rope-axial",
	"rope-mixed", "wepe-bias"}

// memoryOf is the environment variable that makes the command measure its own memory: size and side of the model, and
// label of the encoding.
const memoryOf = "WEPE_MEMORY_OF"

// run prints and writes the cost of encodings.
func (o *costs) run(c *cobra.Command, backend, dir string, seed uint64) error {
	if len(o.Sizes) == 0 || len(o.Sides) == 0 || slices.Min(o.Sides) < 1 {
		return cli.Usagef("--analyses cost: want --models, and --sizes of 1 or more")
	}
	cli.CheckPositions("positions", o.positions...)
	o.Variants = study.Variants(o.positions...)
	o.Backend = openBackend(backend, 0)
	defer o.Backend.Finalize()
	out := cli.Output(c)
	if of := os.Getenv(memoryOf); of != "" {
		return o.printMemory(out, strings.SplitN(of, " ", 3))
	}
	if o.onCPU {
		o.CPUTime = cpuTime
	}
	o.Seed, o.Logger, o.Memory = seed, cli.Logger(), inFreshProcess
	rows, err := o.Cost.Run(c.Context())
	if len(rows) == 0 {
		return err
	}
	out.Printf("\n%s, %s\n\n", o.Backend, o.DType)
	out.Print(analysis.Table(rows, "cost").Text() + "\n")
	path := filepath.Join(dir, "cost.jsonl")
	out.Field("rows", "%s", path)
	return errors.Join(err, analysis.Write(path, rows))
}

// inFreshProcess measures the memory of one model in a new process.
func inFreshProcess(ctx context.Context, size string, side int, v study.Variant) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(ctx, self, os.Args[1:]...)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", memoryOf, size, side, v.Label))
	var complaint strings.Builder
	child.Stderr = &complaint
	printed, err := child.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(printed)), 64)
}

// printMemory runs inference and two steps with one encoding, and prints the peak memory of this process in bytes.
func (o *costs) printMemory(out cli.Printer, of []string) error {
	side := must.M1(strconv.Atoi(of[1]))
	t := must.M1(o.NewTiming(of[0], side, study.Variants(of[2])[0]))
	defer t.Close()
	for _, call := range []func() error{t.Forward, t.Step, t.Step} {
		must.M(call())
	}
	bytes, err := peakMemory(strings.Contains(o.Backend.Description(), "cuda"))
	out.Printf("%.0f\n", bytes)
	return err
}

// peakMemory is the peak memory of this process in bytes: on a GPU what nvidia-smi lists, 0 if there is none or
// processes have other numbers, as in a container; otherwise resident memory.
func peakMemory(onGPU bool) (bytes float64, err error) {
	if onGPU {
		listed, _ := plugin.GPUMemory(context.Background())
		return listed[os.Getpid()], nil
	}
	for line := range strings.Lines(string(must.M1(os.ReadFile("/proc/self/status")))) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			n, err := strconv.ParseFloat(fields[1], 64)
			return n * 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}
