// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/dataset"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit/position"
)

// machine are the flags for the computation of a training run.
type machine struct {
	backend, mpi, save string
	devices            int
}

func (m *machine) flags(f cli.Flags) {
	f.Section("Machine")
	f.Backend(&m.backend)
	f.Int(&m.devices, "devices", 0, 0, math.MaxInt, "devices of the backend that share each batch; default one on a CPU, "+
		"else as many as divide it")
	f.StringVar(&m.mpi, "mpi", "", "share the training among the processes of mpirun or srun: allreduce or ordered "+
		"(docs/scale.md); needs a build with -tags=mpi")
}

func (m *machine) saving(f cli.Flags) {
	f.StringVar(&m.save, "save-every", "5m", "steps (500) or time (10m) between checkpoints, in addition to one after "+
		"each evaluation")
}

// start sets backend, processes and checkpoints of a run.
func (m *machine) start(r *finetune.Run) {
	if steps, err := strconv.Atoi(m.save); err == nil && steps > 0 {
		r.SaveSteps, r.SaveEvery = steps, math.MaxInt64
	} else if r.SaveEvery, err = time.ParseDuration(m.save); err != nil || r.SaveEvery <= 0 {
		must.M(cli.Usagef("--save-every %q: want steps, as 500, or a time, as 10m", m.save))
	}
	r.Devices, r.Group = m.devices, must.M1(cli.Join(m.mpi))
	r.Backend = openBackend(m.backend, m.devices)
}

// training are the flags of wepe train and wepe compare.
type training struct {
	machine
	data, out, recipe, checkpoint string
	epochs                        int
	size                          [2]int
	seed                          int64
	set, short                    []string // settings of --set; of flags of their own, see setter
	images                        dataset.Options
	open                          checkpoints.Hints
	info                          *checkpoints.Info // of MODEL, see inspect
}

// flags adds the flags, after the first ones own those of the command.
func (o *training) flags(f cli.Flags, prefix string, own func()) {
	f.StringVar(&o.data, "data", "shapes", cli.DataForms)
	f.StringVar(&o.recipe, "recipe", "", "recipe by name (wepe list recipes); default by what is trained")
	f.Completion("recipe", append(finetune.RecipeNames(), fineTuning)...)
	own()
	f.Epochs(&o.epochs, "`epochs`: passes over the training images; default the recipe's")
	o.setter(f, "lr", "learning_rate", "the same as --set learning_rate=`X`")
	o.setter(f, "batch-size", "batch_size", "the same as --set batch_size=`X`")
	f.Settings(&o.set, finetune.Recipe{})
	f.Int64Var(&o.seed, "seed", 0, "seed of weights, order and augmentation; the first of several")
	f.Out(&o.out, "of results; default runs/"+prefix+"<recipe>-<dataset>")
	f.Checkpoint(&o.checkpoint, "weights to test and, where MODEL is a run, to start from")
	o.images.Flags(f)
	f.Import(&o.open)
	o.machine.flags(f)
}

// setter adds a flag for a setting of the recipe.
func (o *training) setter(f cli.Flags, flag, key, about string) {
	f.Func(flag, about, func(text string) error {
		o.short = append(o.short, key+"="+text)
		return nil
	})
}

// fineTuning is the name of the default recipe for MODEL, of finetune.FineTuning.
const fineTuning = "finetune"

// fromScratch is the encoding of models that are trained from scratch: docs/results.md says how it was chosen.
const fromScratch = "rope-mixed-qkv"

// single are the flags of wepe train.
type single struct {
	training
	position, augmentation string
}

func train() *cobra.Command {
	var o single
	c := &cobra.Command{Use: "train [MODEL]", Short: "Train from scratch, or fine-tune MODEL", Args: cobra.MaximumNArgs(1),
		Long: `Train a model from scratch, or fine-tune MODEL. The same command resumes an interrupted run.

Without --recipe the recipe follows from what is trained: shapes for the generated shapes, cifar100-small for CIFAR-100,
photos (a small ViT at 64×64) for fewer than 20,000 other images, scratch (ViT-S/16 at 224×224) for more, and for MODEL
finetune: the model's own size, normalization and position encoding, epochs by the number of images, a learning rate by
its width, layer decay. wepe list recipes prints all.`,
		Example: `  wepe train
  wepe train --data pets --position learned
  wepe train hf://google/vit-base-patch16-224 --data pets`}
	f := cli.FlagsOf(c)
	o.flags(f, "", func() {
		f.StringVar(&o.position, "position", "", "position encoding (wepe list positions); default the model's, from "+
			"scratch "+fromScratch)
		f.Completion("position", position.Names()...)
		f.Size(&o.size)
		o.setter(f, "aspect", "aspect", "`how` images of another aspect ratio than the model's are resized: crop (default), "+
			"squash, or keep: each image keeps its aspect ratio")
		f.Completion("aspect", finetune.Aspects()...)
		o.setter(f, "lora", "lora", "`rank` of low-rank adapters, trained with the head in place of MODEL's weights")
		f.StringVar(&o.augmentation, "show-augmentation", "", "PNG `file` to draw eight augmented images into; nothing is "+
			"trained")
	})
	o.saving(f)
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, append(args, "")[0]) }
	return c
}

func (o *single) run(c *cobra.Command, model string) error {
	ctx := cli.Interruptible(c)
	d, model := o.sources(c, model)
	recipe := o.chosen(d, model)
	switch {
	case o.augmentation != "" && filepath.Ext(o.augmentation) != ".png":
		return cli.Usagef("--show-augmentation %s: want a name that ends in .png", o.augmentation)
	case strings.Contains(o.position, ","):
		return cli.Usagef("--position %s: wepe train takes one, wepe compare several", o.position)
	case o.position != "":
		cli.CheckPositions("position", o.position)
		recipe.Model.Position = o.position
	case model == "" && recipe.Model.Position == "":
		recipe.Model.Position = fromScratch
		cli.Field("position", "%s, the default (docs/encodings.md); it exports to onnx and native: for hf, timm and jax "+
			"train with --position learned", fromScratch)
	}
	o.unread(d, recipe, model, recipe.Model.Position)
	recipe = plainForKeep(recipe, recipe.Aspect == finetune.AspectKeep)
	if recipe.Model.Position != "" { // a recipe that no images suit; else only the run itself will know
		alone := study.Study{Tasks: []study.Task{{Recipe: recipe}}, Variants: study.Variants(recipe.Model.Position), Seeds: 1}
		must.M(cli.Usage(alone.Validate()))
	}
	if recipe.Aspect != "" {
		checkAspects(d)
	}
	r := finetune.Run{Recipe: recipe, Seed: o.seed, From: model, Import: o.open, Weights: o.checkpoint,
		Dir: cmp.Or(o.out, run.Dir(recipe.Name, d.Name, o.position))}
	o.start(&r)
	defer r.Backend.Finalize()
	if o.augmentation != "" {
		return o.draw(ctx, cli.Output(c), d, r)
	}
	if r.Group != nil { // as many micro-batches, whatever the number of processes that resume it
		r.Recipe.GradAccumSteps = cmp.Or(r.Recipe.GradAccumSteps, r.Group.Size())
	}
	description := o.description(d, r.Recipe, model)
	must.M(run.Apart(r.Dir, d.Spec, model))
	must.M(run.Claim(r.Dir, description))
	return finish(ctx, c, d, r, description)
}

// draw writes the images of --show-augmentation.
func (o *single) draw(ctx context.Context, out cli.Printer, d *dataset.Dataset, r finetune.Run) error {
	s := must.M1(d.Load(ctx, r.Recipe))
	must.M(disk.Write(o.augmentation, func(w io.Writer) error {
		return r.Recipe.ShowAugmentation(w, r.Backend, s.Train, o.seed)
	}))
	out.Field("written", "%s", o.augmentation)
	return nil
}

// sources opens the dataset and locates MODEL on disk, of a run the weights of --checkpoint.
func (o *training) sources(c *cobra.Command, model string) (d *dataset.Dataset, local string) {
	return must.M1(dataset.Open(c.Context(), o.data, o.images)), origin(c, model, o.checkpoint)
}

// origin locates MODEL to start from, if there is one, and prints its weights.
func origin(c *cobra.Command, model, checkpoint string) string {
	if model == "" {
		cli.Unread(c, "without MODEL", "grid", "assume-square", "architecture")
		return ""
	}
	local, line := run.Origin(c, model, checkpoint)
	if line != "" {
		cli.Field("from", "%s: %s", model, line)
	}
	return local
}

func (o *training) description(d *dataset.Dataset, r finetune.Recipe, model string) run.Description {
	if whole, err := filepath.Abs(model); model != "" && err == nil { // it may be resumed in another directory
		model = whole
	}
	return run.Description{Data: d.Spec, Dataset: d.Name, Identity: d.Identity(), Recipe: r, Model: model, Seed: o.seed,
		Open: o.open, Weights: o.checkpoint, Stream: d.Streams(r), Auto: d.StreamsCrops(r), Damaged: o.images.Damaged}
}

// named returns the recipe, by name or by what is trained.
func (o *training) named(d *dataset.Dataset, model string) (r finetune.Recipe) {
	if o.recipe == fineTuning && model != "" {
		o.recipe = "" // the default
	}
	switch {
	case o.recipe == finetune.PhotosName:
		r = finetune.Photos(d.Images())
	case o.recipe == fineTuning:
		must.M(cli.Usagef("--recipe %s is for a pretrained model: wepe train MODEL", fineTuning))
	case o.recipe != "":
		var err error
		r, err = finetune.RecipeByName(o.recipe)
		must.M(cli.Usage(err))
	case model != "":
		r = o.fineTuning(d, model)
	case d.Generated():
		r = must.M1(finetune.RecipeByName("shapes"))
	case d.CIFAR100():
		r = must.M1(finetune.RecipeByName("cifar100-small"))
	case d.Images() < finetune.ManyImages:
		r = finetune.Photos(d.Images())
		cli.Field("recipe", "%s, a small network for %d images; from %d images on, or by --recipe, it is scratch: ViT-S/16",
			r.Name, d.Images(), finetune.ManyImages)
	default:
		r = must.M1(finetune.RecipeByName("scratch"))
		cli.Field("recipe", "scratch, ViT-S/16 for %d images: it wants a GPU; --recipe %s is a small network", d.Images(),
			finetune.PhotosName)
	}
	if plain := r.Augment.Eval(); o.recipe == "" && d.Positional() && r.Augment != plain {
		cli.Field("augment", "no crops or flips: the classes of %s depend on where something is in the image", d.Name)
		r.Augment = plain
	}
	return r
}

// chosen returns the recipe with --set and the flags for settings.
func (o *training) chosen(d *dataset.Dataset, model string) finetune.Recipe {
	keys := setting.Keys(strings.Join(o.set, ";"))
	set := func(key string) bool { return slices.Contains(keys, key) }
	if o.size != [2]int{} {
		o.short = append(o.short, fmt.Sprintf("augment.size=[%d,%d]", o.size[0], o.size[1]))
	}
	for _, key := range setting.Keys(strings.Join(o.short, ";")) {
		if set(key) {
			must.M(cli.Usagef("--set %s and the flag for it: leave one of them out", key))
		}
	}
	if o.epochs > 0 && slices.ContainsFunc([]string{"epochs", "steps", "warmup_steps", "eval_every_steps"}, set) {
		must.M(cli.Usagef("--epochs, and --set of epochs or steps: leave one of them out"))
	}
	o.set = append(o.set, o.short...)
	r := must.M1(run.Set(o.named(d, model), o.set, func(r finetune.Recipe) string { return r.Model.Position }))
	if o.epochs > 0 {
		if !set("warmup_epochs") {
			if r.Steps > 0 {
				r.WarmupEpochs = float64(o.epochs) * float64(r.WarmupSteps) / float64(r.Steps)
			}
			if r.Name == finetune.PhotosName { // its warm-up is a part of its epochs
				r.WarmupEpochs *= float64(o.epochs) / float64(r.Epochs)
			}
			r.WarmupEpochs = min(r.WarmupEpochs, float64(o.epochs)/4)
		}
		r.Epochs, r.Steps, r.EvalEverySteps, r.WarmupSteps = o.epochs, 0, 0, 0
	} else if set("steps") && r.Steps > 0 { // in place of the recipe's epochs
		if !set("epochs") {
			r.Epochs = 0
		}
		if !set("warmup_epochs") {
			r.WarmupEpochs = 0
		}
	}
	return r
}

// unread refuses settings of --set that no training run with one of the encodings reads; "" is the encoding of MODEL.
func (o *training) unread(d *dataset.Dataset, r finetune.Recipe, model string, positions ...string) {
	if at := slices.Index(positions, ""); at >= 0 {
		positions = slices.Clone(positions)
		if info, err := o.inspect(model); err == nil && info.Config.Position != "" {
			positions[at] = info.Config.Position
		} else {
			positions = nil // only the run itself will know
		}
	}
	settings := strings.Join(o.set, ";")
	if d.HasValidation() && slices.Contains(setting.Keys(settings), "val_fraction") {
		must.M(cli.Usagef("val_fraction has no effect: %s has validation images", d.Name))
	}
	if model == "" && slices.Contains(setting.Keys(settings), "interpolation") {
		must.M(cli.Usagef("interpolation has no effect without MODEL, whose positions it resamples"))
	}
	must.M(cli.Usage(r.UnusedSetting(settings, positions...)))
}

// inspect describes MODEL; its files are read once.
func (o *training) inspect(model string) (info *checkpoints.Info, err error) {
	if o.info == nil {
		o.info, err = checkpoints.Inspect(model, checkpoints.ImportOptions{Hints: o.open})
	}
	return o.info, err
}

// fineTuning is the recipe for a model.
func (o *training) fineTuning(d *dataset.Dataset, model string) finetune.Recipe {
	info := must.M1(o.inspect(model))
	m := info.Config
	// The number of epochs depends on the size of the training. What is wrong in --set is refused with the recipe.
	set, _ := finetune.Recipe{}.Set(strings.Join(o.set, ";"))
	if size := set.Augment.Size; size[0] > 0 {
		m.ImageRows, m.ImageCols = size[0], size[1]
	}
	if m.Width == 0 || m.ImageRows == 0 {
		must.M(fmt.Errorf("MODEL %s: %s: use --recipe, --size, --grid", model, info.Refused))
	}
	return finetune.FineTuning(m, d.Images())
}

// plainForKeep removes the augmentation from a recipe for images that keep their aspect ratio, which do not support it.
func plainForKeep(r finetune.Recipe, keep bool) finetune.Recipe {
	if plain := r.Augment.Eval(); keep && plain != r.Augment {
		cli.Field("augment", "none: aspect keep disables it, which needs images of one size")
		r.Augment = plain
	}
	return r
}

// finish trains a run to its end and prints its results. Its description is written once no check can refuse the run
// any more: a refused command must not change what the directory says of its own run.
func finish(ctx context.Context, c *cobra.Command, d *dataset.Dataset, r finetune.Run, what run.Description) error {
	r.Description = what
	s := must.M1(d.Load(ctx, r.Recipe))
	d.DescribeTraining(r.Recipe)
	r.Train, r.Validation, r.Test = s.Train, s.Validation, s.Test
	r.Logger, r.Progress = cli.Logger(), cli.Progress("train")
	rows, cols := r.Recipe.Augment.OutputSize(s.Train.Describe().Height, s.Train.Describe().Width)
	size := fmt.Sprintf("%d×%d", rows, cols)
	if r.Recipe.Aspect == finetune.AspectKeep {
		size = "their own aspect ratio"
	}
	length := printable.Count(r.Recipe.Epochs, "epoch")
	if r.Recipe.Steps > 0 {
		length = fmt.Sprintf("%d steps", r.Recipe.Steps)
	}
	cli.Field("run", "%s, %s, images at %s, seed %d, results in %s", r.Recipe.Name, length, size, r.Seed, r.Dir)
	m, row, err := r.Do(ctx)
	if _, unwritten := run.Read(r.Dir); errors.Is(err, engine.ErrInterrupted) && unwritten != nil {
		return fmt.Errorf("%w: repeat the command", err)
	} else if errors.Is(err, engine.ErrInterrupted) {
		return fmt.Errorf("%w: saved; wepe resume %s continues it", err, printable.Shell(r.Dir))
	}
	if err != nil {
		return run.Remedied(err)
	}
	defer m.Finalize()
	if r.Group != nil && r.Group.Rank() > 0 {
		return nil
	}
	must.M(study.WriteReport(r, m, row))
	return printResult(c, d, r, m, row)
}

func printResult(c *cobra.Command, d *dataset.Dataset, r finetune.Run, m *finetune.Model, row report.Result) error {
	out := cli.Output(c)
	out.Field("model", "%s, %d parameters", run.Architecture(m.Recipe), row.Parameters)
	validation, test := "validation: none", "test: none given"
	if v := row.Validation; v.Images > 0 {
		validation = fmt.Sprintf("validation top-1 %.2f %% of %d images", 100*float64(v.Top1), v.Images)
	}
	if t := row.Test; t.Images > 0 {
		test = fmt.Sprintf("test %s of %d images", t.Text(), t.Images)
	}
	out.Field("weights", "%s of %d: %s; %s", row.Weights, row.Steps, validation, test)
	if class, share := guess(r); class != "" {
		out.Field("guessing", "%.2f %% is the share of the largest class, as %s", 100*share, class)
	}
	out.Field("log", "%s, %s", filepath.Join(r.Dir, engine.RowsFile), filepath.Join(r.Dir, engine.LogFile))
	out.Field("report", "%s", filepath.Join(r.Dir, finetune.PageFile))
	dir := printable.Shell(r.Dir)
	out.Field("next", "wepe predict %s IMAGE", dir)
	if m.Recipe.Aspect != finetune.AspectKeep {
		out.Field("", "wepe serve %s", dir)
	}
	if m.Recipe.Architecture == "" {
		out.Field("", "wepe export %s OUT --to onnx", dir) // which takes every model
	}
	if m.Recipe.Steps == 0 && m.Recipe.Patience == 0 { // epochs can be added
		out.Field("", "wepe resume %s --epochs N", dir)
	}
	if d.InFiles() && r.From == "" && r.Recipe.Name == finetune.PhotosName {
		out.Field("better", "with a pretrained model: wepe train hf://timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k "+
			"--data %s; with more images of each class", printable.Shell(d.Spec))
	}
	return nil
}

// guess returns the most frequent class of the images that a run was tested on, validated without a test, and its
// share.
func guess(r finetune.Run) (class string, share float64) {
	set := cmp.Or(r.Test, r.Validation, r.Train) // of the latter a part was held out
	info, counts := set.Describe(), map[int32]int{}
	for _, label := range info.Labels {
		counts[label]++
	}
	for _, row := range info.Damaged() { // which count in no accuracy
		counts[info.Labels[row]]--
	}
	most := 0
	for label, n := range counts {
		if name := info.Classes[label]; n > most || n == most && name < class {
			class, most = name, n
		}
	}
	return class, float64(most) / float64(max(1, info.Len()-len(info.Damaged())))
}

// resuming are the flags of wepe resume.
type resuming struct {
	machine
	images           dataset.Options
	data, checkpoint string
	epochs           int
}

func resume() *cobra.Command {
	var o resuming
	c := &cobra.Command{Use: "resume RUN", Short: "Resume a run, or extend a finished one", Args: cobra.ExactArgs(1),
		Long: `Resume a run where it was interrupted, bit for bit on the pure-Go backend. With more --epochs a finished run is
extended: its learning rate continues with the cosine of that many epochs.`}
	f := cli.FlagsOf(c)
	f.Epochs(&o.epochs, "total number of `epochs`")
	f.StringVar(&o.data, "data", "", "where the dataset is now; default as it was given")
	f.Checkpoint(&o.checkpoint, "weights to test")
	o.images.Flags(f)
	o.machine.flags(f)
	o.saving(f)
	for _, name := range []string{"checkpoint", "stream", "on-damaged"} {
		f.Lookup(name).DefValue = "as it began"
	}
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, args[0]) }
	return c
}

func (o *resuming) run(c *cobra.Command, dir string) error {
	ctx := cli.Interruptible(c)
	if run.OfStudy(dir) {
		return fmt.Errorf("%s is a run of wepe compare: repeat the compare command, which continues it", dir)
	}
	desc, err := run.Read(dir)
	described := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		desc, err = run.Recover(dir)
	}
	if err != nil {
		return err
	}
	if desc.Study {
		return fmt.Errorf("%s holds the runs of wepe compare: repeat the compare command, which continues them", dir)
	}
	switch began := strconv.FormatBool(desc.Stream); {
	case !c.Flags().Changed("stream"):
		o.images.Stream = began
		if desc.Auto && !slices.ContainsFunc([]string{"workers", "on-damaged", "verify-images"}, c.Flags().Changed) {
			o.images.Stream = dataset.StreamAuto
		}
	case described && o.images.Stream != began && (!desc.Auto || o.images.Stream != dataset.StreamAuto):
		return cli.Usagef("--stream=%s: %s began with --stream=%s: leave the flag out", o.images.Stream, dir, began)
	}
	d := must.M1(o.dataset(ctx, dir, desc))
	if !c.Flags().Changed("checkpoint") {
		o.checkpoint = cmp.Or(desc.Weights, o.checkpoint)
	}
	desc.Weights = o.checkpoint
	r := finetune.Run{Recipe: desc.Recipe, Seed: desc.Seed, From: desc.Model, Import: desc.Open,
		Weights: o.checkpoint, Dir: dir, Label: desc.Label, Fraction: desc.Fraction,
		Extend: true} // an extension may have been interrupted before its first checkpoint
	if o.epochs > 0 {
		if r.Recipe.Steps > 0 || o.epochs < r.Recipe.Epochs {
			length := fmt.Sprintf("%d epochs: want more", r.Recipe.Epochs)
			if r.Recipe.Steps > 0 {
				length = fmt.Sprintf("%d steps and no epochs: leave it out", r.Recipe.Steps)
			}
			return cli.Usagef("--epochs %d: the run has %s", o.epochs, length)
		}
		r.Recipe.Epochs = o.epochs
	}
	o.start(&r)
	defer r.Backend.Finalize()
	desc.Recipe, desc.Data, desc.Dataset, desc.Identity = r.Recipe, d.Spec, d.Name, d.Identity()
	desc.Stream, desc.Auto, desc.Damaged = d.Streams(r.Recipe), d.StreamsCrops(r.Recipe), o.images.Damaged
	return finish(ctx, c, d.Fraction(desc.Fraction), r, desc)
}

// dataset opens the dataset of a run, which may have moved, under the name that the run's record has.
func (o *resuming) dataset(ctx context.Context, dir string, desc run.Description) (*dataset.Dataset, error) {
	spec := cmp.Or(o.data, desc.Data)
	if spec == "" {
		return nil, cli.Usagef("%s was written by a version without %s: name its dataset by --data", dir, run.File)
	}
	if o.images.Stream == dataset.Streamed && desc.Damaged == "skip" {
		o.images.Damaged = desc.Damaged
	}
	d, err := dataset.Open(ctx, spec, o.images)
	if errors.Is(err, fs.ErrNotExist) && o.data == "" {
		return nil, fmt.Errorf("the data of %s is no longer in %s: name its directory by --data", dir, spec)
	}
	if err != nil {
		return nil, err
	}
	if !d.Is(desc.Dataset, desc.Identity) {
		return nil, fmt.Errorf("%s was trained on %s, whose files are not those in %s: bring them back, name their "+
			"directory by --data, or train %s on the new ones as MODEL of wepe train", dir, desc.Dataset, d.Spec, dir)
	}
	d.Rename(cmp.Or(desc.Dataset, d.Name))
	return d, nil
}
