// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	detection "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

func detect() *cobra.Command {
	return cli.Group("detect", "Boxes and masks: train, measure and use detectors", detectTrain(), detectEval(),
		detectPredict())
}

// objects are the flags of datasets with objects.
type objects struct {
	data                string
	sizes               [][2]int
	train, test, shapes int
}

const mostObjects = 6 // of a generated scene

func (o *objects) flags(f cli.Flags) {
	f.StringVar(&o.data, "data", "scenes",
		"scenes, generated; or coco:DIR, annotations/instances_{train,val}2017.json beside train2017 and val2017")
	f.Sizes(&o.sizes, "sizes of the test images, as `96x96,60x156`; default the training's")
	f.Int(&o.test, "test-scenes", 200, 1, 1e6, "generated scenes to test on, of each size")
	f.Int(&o.shapes, "objects", mostObjects, 1, mostObjects, "largest number of objects in a generated scene")
}

// generated returns scenes whose seed is that of their split: no scene is in two.
func (o *objects) generated(count int, split int64, size [2]int) *scenes.Set {
	g := scenes.Generated{Count: count, Height: size[0], Width: size[1], Seed: split}
	if o.shapes != mostObjects {
		g.Most = o.shapes
	}
	return must.M1(g.Set())
}

// load finds or generates the images for a recipe, and prints a description.
func (o *objects) load(r detection.Recipe, training bool) (d detection.Run) {
	d.Recipe = r
	dir, files := strings.CutPrefix(o.data, "coco:")
	switch {
	case files:
		o.coco(&d, dir, training)
	case o.data == "scenes":
		o.scenes(&d, [2]int{r.Detector.Backbone.ImageRows, r.Detector.Backbone.ImageCols}, training)
	default:
		must.M(cli.Usagef("--data %s: want scenes or coco:DIR", o.data))
	}
	text := fmt.Sprintf("%s: ", d.Dataset)
	if training {
		text += fmt.Sprintf("%d categories, %d train, ", len(d.Train.Categories), d.Train.Len)
		if d.Validation != nil {
			text += fmt.Sprintf("%d validation, ", d.Validation.Scenes.Len)
		}
	}
	cli.Field("data", "%s%d test", text, d.Tests[0].Scenes.Len)
	return d
}

// unread refuses flags of generated scenes with other data.
func (o *objects) unread(c *cobra.Command) {
	if o.data != "scenes" {
		cli.Unread(c, "with --data "+o.data, "train-scenes", "test-scenes", "objects")
	}
}

func (o *objects) scenes(d *detection.Run, own [2]int, training bool) {
	const forTraining, forTests, forValidation = 1, 2, 3
	if d.Dataset = "scenes"; o.shapes != mostObjects {
		d.Dataset = fmt.Sprintf("scenes-%d", o.shapes)
	}
	if training {
		d.Train = o.generated(o.train, forTraining, own)
		d.Validation = &detection.Test{Scenes: o.generated(min(50, o.test), forValidation, own)}
	}
	if o.sizes == nil {
		o.sizes = [][2]int{own}
	}
	for _, size := range o.sizes {
		d.Tests = append(d.Tests, detection.Test{Scenes: o.generated(o.test, forTests, size)})
	}
}

// coco reads COCO's training and validation images; the latter are the test split.
func (o *objects) coco(d *detection.Run, dir string, training bool) {
	open := func(split string) *scenes.Set {
		images, instances := cocoPaths(dir, split)
		s, err := scenes.Open(images, instances, cli.Logger())
		if err != nil {
			must.M(fmt.Errorf("--data %s: %w", o.data, err))
		}
		return s
	}
	test := open("val2017")
	if slices.ContainsFunc(must.M1(test.Annotated()).Annotations, func(a coco.Annotation) bool { return a.ID == 0 }) {
		cli.Line("warning: an annotation has the id 0: cocoapi, and wepe as it, counts a detection of that object as " +
			"wrong; number annotations from 1")
	}
	d.Dataset = test.Name
	if training {
		train := open("train2017")
		d.Dataset, d.Train = train.Name, train.Training()
	}
	if o.sizes == nil {
		o.sizes = [][2]int{{}} // the training size
	}
	for _, size := range o.sizes {
		d.Tests = append(d.Tests, detection.Test{Scenes: test, Rows: size[0], Cols: size[1]})
	}
}

func cocoPaths(dir, split string) (images, instances string) {
	return filepath.Join(dir, split), filepath.Join(dir, "annotations", "instances_"+split+".json")
}

// write writes the generated scenes of the training and the test split.
func (o *objects) write(out cli.Printer, d detection.Run, dir string) error {
	if o.data != "scenes" {
		return cli.Usagef("--export-coco writes generated scenes: leave --data out")
	}
	splits := []string{"train2017", "val2017"}
	for _, split := range splits {
		images, instances := cocoPaths(dir, split)
		for _, path := range []string{images, instances} {
			if _, err := os.Lstat(path); err == nil {
				return cli.Usagef("--export-coco %s: %s exists: name another directory", dir, path)
			}
		}
	}
	for i, split := range splits {
		set := []*scenes.Set{d.Train, d.Tests[0].Scenes}[i]
		images, instances := cocoPaths(dir, split)
		must.M(scenes.Write(images, instances, set))
		out.Printf("%d images in %s, their objects in %s\n", set.Len, images, instances)
	}
	return nil
}

// detecting are the flags of wepe detect train.
type detecting struct {
	objects
	open                           checkpoints.Hints
	recipe, out, backend, exportTo string
	positions, set                 []string
	seed                           int64
	seeds                          int
}

func detectTrain() *cobra.Command {
	var o detecting
	c := &cobra.Command{Use: "train [MODEL]", Short: "Train ViTDet with Mask R-CNN, from scratch or on MODEL's backbone",
		Args: cobra.MaximumNArgs(1)}
	f := cli.FlagsOf(c)
	f.StringVar(&o.recipe, "recipe", "", "one of "+strings.Join(detection.RecipeNames(), ", ")+
		"; default scenes, with MODEL "+detection.Photographs)
	f.Completion("recipe", detection.RecipeNames()...)
	f.Positions(&o.positions, "encodings, separated by commas; default the recipe's or MODEL's")
	f.Seeds(&o.seeds, "")
	f.Settings(&o.set, detection.Recipe{})
	o.objects.flags(f)
	f.Int(&o.train, "train-scenes", 8000, 1, 1e6, "generated scenes to train on")
	f.Int64Var(&o.seed, "seed", 0, "seed of weights and order; the first of --seeds")
	f.Out(&o.out, "of the runs; default runs/<recipe>-<dataset>")
	f.StringVar(&o.exportTo, "export-coco", "", "directory to write the generated scenes to, as --data "+
		"coco:DIR reads them; nothing is trained")
	f.Backend(&o.backend)
	f.Import(&o.open)
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, append(args, "")[0]) }
	return c
}

func (o *detecting) run(c *cobra.Command, model string) error {
	ctx := cli.Interruptible(c)
	r := o.chosen(model)
	o.unread(c)
	if o.exportTo != "" {
		const where = "with --export-coco, which trains nothing"
		cli.Unread(c, where, "positions", "seeds", "seed", "out", "backend", "grid", "assume-square", "architecture")
		if model != "" {
			return cli.Usagef("MODEL %s has no effect %s: leave it out", model, where)
		}
		if len(o.sizes) > 1 {
			return cli.Usagef("--export-coco writes test images of one size: leave the others of --sizes out")
		}
	}
	if alone := r; model == "" { // else the backbone is not known yet
		alone.Detector.Backbone.Classes = 1
		_, err := alone.Resolve()
		must.M(cli.Usage(err))
	}
	d := o.load(r, true)
	if slices.Contains(setting.Keys(strings.Join(o.set, ";")), "val_fraction") && o.data == "scenes" {
		return cli.Usagef("--set val_fraction: the generated scenes have their own validation split: leave it out")
	}
	out := cli.Output(c)
	if o.exportTo != "" {
		return o.write(out, d, o.exportTo)
	}
	d.Import = o.open
	if d.From = origin(c, model, checkpoints.BestDir); o.positions == nil {
		info := must.M1(checkpoints.Inspect(d.From, checkpoints.ImportOptions{HeadOptional: true, Hints: o.open}))
		o.positions = []string{info.Config.Position}
	}
	names := must.M1(o.trained(r))
	must.M(cli.Usage(finetune.Recipe{Optimizer: r.Optimizer}.UnusedSetting(strings.Join(o.set, ";"), names...)))
	d.Backend = openBackend(o.backend, 0)
	defer d.Backend.Finalize()
	root := cmp.Or(o.out, run.Dir(r.Name, d.Dataset))
	var rows []report.Result
	for _, position := range o.positions {
		for d.Seed = o.seed; d.Seed < o.seed+int64(o.seeds); d.Seed++ {
			d.Recipe.Detector.Backbone.Position = position
			d.Dir = filepath.Join(root, fmt.Sprintf("%s-seed%d", position, d.Seed))
			own, err := trainDetector(ctx, d)
			if errors.Is(err, engine.ErrInterrupted) {
				return fmt.Errorf("%w: the same command continues it", err)
			}
			must.M(run.Remedied(err))
			rows = append(rows, own...)
		}
	}
	out.Printf("\n%s, recipe %s, percent\n\n", d.Dataset, r.Name)
	out.Print(detection.Table(rows).Text() + "\n")
	out.Field("report", "%s", filepath.Join(root, "*", finetune.PageFile))
	out.Field("next", "wepe detect predict %s IMAGE", printable.Shell(d.Dir))
	return nil
}

// trained returns the encodings of --positions by their names in a detector.
func (o *detecting) trained(r detection.Recipe) ([]string, error) {
	same := map[string]string{}
	for _, position := range o.positions {
		r.Detector.Backbone.Position = position
		resolved, _ := r.Resolve()
		name := resolved.Detector.Backbone.Position
		if other, named := same[name]; named {
			return nil, cli.Usagef("--positions: %s and %s are both %s in a detector: leave one out", other, position, name)
		}
		same[name] = position
	}
	return slices.Sorted(maps.Keys(same)), nil
}

func trainDetector(ctx context.Context, d detection.Run) ([]report.Result, error) {
	title := fmt.Sprintf("%s seed %d", d.Recipe.Detector.Backbone.Position, d.Seed)
	d.Progress, d.Logger = cli.Progress(title), cli.Logger().With("run", title)
	model, rows, err := d.Do(ctx)
	if err != nil {
		return nil, err
	}
	defer model.Finalize()
	return rows, d.Page(model, rows)
}

// chosen returns the recipe with --set; its encoding, if it has one, is the default of --positions.
func (o *detecting) chosen(model string) detection.Recipe {
	cli.CheckPositions("positions", o.positions...)
	if model != "" {
		o.recipe = cmp.Or(o.recipe, detection.Photographs)
	}
	r, err := detection.RecipeByName(cmp.Or(o.recipe, "scenes"))
	must.M(cli.Usage(err))
	own := r.Detector.Backbone.Position
	if own == "" && model == "" {
		must.M(cli.Usagef("--recipe %s takes its network from MODEL: name one", r.Name))
	}
	r = must.M1(run.Set(r, o.set, func(r detection.Recipe) string { return r.Detector.Backbone.Position }))
	if o.positions == nil && own != "" {
		o.positions = []string{own}
	}
	return r
}

// detector are the flags for opening a detector.
type detector struct {
	checkpoint, backend string
	asJSON              bool
}

func (o *detector) flags(f cli.Flags) {
	f.Checkpoint(&o.checkpoint, "checkpoint of a run")
	f.Backend(&o.backend)
	f.JSON(&o.asJSON)
}

// open opens a detector, and prints a description.
func (o *detector) open(c *cobra.Command, path string) *detection.Detector {
	b := openBackend(o.backend, 0)
	chosen, line := run.Weights(c, path, o.checkpoint)
	m := must.M1(detection.Open(b, chosen))
	v := m.Recipe.Detector.Backbone
	cli.Field("model", "%s: ViTDet of width %d, depth %d at %d×%d, position %s, %d categories", path, v.Width, v.Depth,
		v.ImageRows, v.ImageCols, v.Position, len(m.Categories))
	cli.Field("weights", "%s", line)
	return m
}

func detectEval() *cobra.Command {
	var o objects
	var open detector
	c := &cobra.Command{Use: "eval RUN", Short: "Measure a detector: COCO's average precision", Args: cobra.ExactArgs(1)}
	f := cli.FlagsOf(c)
	o.flags(f)
	open.flags(f)
	c.RunE = func(c *cobra.Command, args []string) error {
		o.unread(c)
		m := open.open(c, args[0])
		defer m.Finalize()
		d := o.load(m.Recipe, false)
		found, v := map[string]report.DetectionMetrics{}, m.Recipe.Detector.Backbone
		size := func(t detection.Test) string {
			return fmt.Sprintf("%dx%d", cmp.Or(t.Rows, t.Scenes.Rows, v.ImageRows), cmp.Or(t.Cols, t.Scenes.Cols, v.ImageCols))
		}
		for _, test := range d.Tests {
			must.M(m.Check(test))
		}
		for _, test := range d.Tests {
			found[size(test)], _ = must.M2(m.Evaluate(test))
		}
		return cli.Answer(c, open.asJSON, found, func(out cli.Printer) {
			for _, test := range d.Tests {
				one := found[size(test)]
				out.Field(size(test), "box AP %s, AP50 %s; mask AP %s, of %d images", report.Percent(2, "AP", one.Boxes),
					report.Percent(2, "AP50", one.Boxes), report.Percent(2, "AP", one.Masks), test.Scenes.Len)
			}
		})
	}
	return c
}

func detectPredict() *cobra.Command {
	var open detector
	var dir string
	var threshold float64
	c := &cobra.Command{Use: "predict RUN IMAGE...", Short: "Print and draw the objects of images",
		Args: cobra.MinimumNArgs(2)}
	f := cli.FlagsOf(c)
	f.Float64Var(&threshold, "score-threshold", 0.5, "smallest score of an object")
	f.Out(&dir, "of the drawn images; default RUN/found")
	open.flags(f)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !(threshold >= 0 && threshold <= 1) {
			return cli.Usagef("--score-threshold %g: want 0 to 1", threshold)
		}
		dir = cmp.Or(dir, filepath.Join(args[0], "found"))
		from := map[string]string{}
		for _, file := range args[1:] {
			path := drawn(dir, file)
			if slices.ContainsFunc(args[1:], func(image string) bool {
				return sameFile(path, image) || sameFile(dir, filepath.Dir(image))
			}) {
				return cli.Usagef("the drawing of %s would be among the images or replace one: use another --out", file)
			}
			if other, taken := from[path]; taken {
				return cli.Usagef("%s and %s would be drawn to one file: use two commands, with --out", other, file)
			}
			from[path] = file
		}
		m := open.open(c, args[0])
		defer m.Finalize()
		m.Recipe.Detector.ROI.ScoreThreshold = min(m.Recipe.Detector.ROI.ScoreThreshold, threshold) // Detect drops others
		found := map[string][]object{}
		for _, file := range args[1:] {
			decoded, err := data.DecodeFile(file)
			if err != nil {
				cli.Skipped(err)
				continue
			}
			if decoded.Clipped {
				cli.Logger().Warn(data.ClippedGrey, "image", file)
			}
			if found[file], err = findObjects(m, decoded, drawn(dir, file), threshold); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		must.M(cli.Answer(c, open.asJSON, found, func(out cli.Printer) {
			for _, file := range args[1:] {
				if found[file] == nil {
					continue
				}
				out.Printf("%s: %s\n", file, drawn(dir, file))
				for _, o := range found[file] {
					out.Printf("  %.2f  %-12s  box %.1f\n", o.Score, o.Label, o.Box)
				}
			}
		}))
		return cli.Unreadable(len(from)-len(found), len(from))
	}
	return c
}

// drawn is the file in dir that the objects of an image are drawn to.
func drawn(dir, file string) string {
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".png")
}

func sameFile(a, b string) bool {
	x, missing := os.Stat(a)
	y, err := os.Stat(b)
	return cmp.Or(missing, err) == nil && os.SameFile(x, y)
}

// object is the JSON of a detected object.
type object struct {
	Label string     `json:"label"`
	Score float32    `json:"score"`
	Box   [4]float32 `json:"box"` // x0, y0, x1, y1 in pixels
}

// findObjects detects and draws the objects of an image, none or more.
func findObjects(m *detection.Detector, decoded *data.Image, path string, score float64) ([]object, error) {
	all, err := m.Detect(decoded.RGBA())
	if err != nil {
		return nil, err
	}
	found := []object{}
	shown := slices.DeleteFunc(all[0], func(o scenes.Object) bool { return o.Score < score })
	for _, o := range shown {
		c := o.Box.Corners()
		found = append(found, object{m.Categories[o.Class].Name, float32(o.Score),
			[4]float32{float32(c[0]), float32(c[1]), float32(c[2]), float32(c[3])}})
	}
	drawing := scenes.Show(decoded.RGBA(), shown, m.Categories)
	return found, disk.Write(path, func(w io.Writer) error { return png.Encode(w, drawing) })
}
