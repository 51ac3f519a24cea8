// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/scenes"
	detection "github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/report"
)

func detect() *cobra.Command {
	return cli.Group("detect", "Boxes and masks: train, measure and use detectors", detectTrain(), detectEval(),
		detectPredict())
}

// objects are the flags of the images with objects.
type objects struct {
	data, sizes         string
	train, test, shapes int
}

func (o *objects) flags(f cli.Flags) {
	flags := f.Command.Flags()
	f.Data(
		&o.data,
		"scenes",
		"scenes, generated; or coco:DIR, annotations/instances_{train,val}2017.json beside train2017 "+
			"and val2017",
	)
	flags.StringVar(&o.sizes, "sizes", "", "sizes of the test images, as 96x96,60x156; default the training's")
	flags.IntVar(&o.train, "train-scenes", 8000, "generated scenes to train on")
	flags.IntVar(&o.test, "test-scenes", 200, "generated scenes to test on, of each size")
	flags.IntVar(&o.shapes, "objects", mostObjects, "objects of a generated scene at most")
}

const mostObjects = 6 // of a generated scene

// Seeds of generated scenes.
const forTraining, forTests, forValidation = 1, 2, 3

func (o *objects) generated(count int, seed int64, size [2]int) scenes.Generated {
	g := scenes.Generated{Count: count, Height: size[0], Width: size[1], Seed: seed}
	if o.shapes != mostObjects {
		g.Most = o.shapes
	}
	return g
}

// load finds or generates the images for a recipe. No generated scene is in two splits: their seeds differ.
func (o *objects) load(r detection.Recipe) (d detection.Run, err error) {
	d.Recipe = r
	if o.shapes < 1 || o.shapes > mostObjects || min(o.train, o.test) < 1 || max(o.train, o.test) > 1e6 {
		return d, cli.Usagef("--objects: want 1 to %d, --train-scenes and --test-scenes: 1 to 1e6", mostObjects)
	}
	own := [2]int{r.Detector.Backbone.ImageRows, r.Detector.Backbone.ImageCols}
	sizes := [][2]int{own}
	if o.sizes != "" {
		if sizes, err = parseSizes(o.sizes); err != nil {
			return d, cli.Usage(fmt.Errorf("--sizes: %w", err))
		}
	}
	if dir, ok := strings.CutPrefix(o.data, "coco:"); ok {
		return o.coco(d, dir, sizes)
	}
	if o.data != "scenes" {
		return d, cli.Usagef("--data %s: want scenes or coco:DIR", o.data)
	}
	train := o.generated(o.train, forTraining, own)
	if d.Dataset, d.Train = "scenes", train; o.shapes != mostObjects {
		d.Dataset = fmt.Sprintf("scenes-%d", o.shapes)
	}
	if err := train.Validate(); err != nil {
		return d, err
	}
	validation, err := detection.Generated(o.generated(min(50, o.test), forValidation, own))
	if err != nil {
		return d, err
	}
	d.Validation = &validation
	for _, size := range sizes {
		test, err := detection.Generated(o.generated(o.test, forTests, size))
		if err != nil {
			return d, err
		}
		d.Tests = append(d.Tests, test)
	}
	return d, nil
}

// coco reads COCO's training and validation images; the latter are the test.
func (o *objects) coco(d detection.Run, dir string, sizes [][2]int) (detection.Run, error) {
	part := func(name string) (images, instances string) {
		return filepath.Join(dir, name), filepath.Join(dir, "annotations", "instances_"+name+".json")
	}
	train, err := scenes.Open(part("train2017"))
	if err != nil {
		return d, fmt.Errorf("--data %s: %w", o.data, err)
	}
	test, err := scenes.Open(part("val2017"))
	if err != nil {
		return d, fmt.Errorf("--data %s: %w", o.data, err)
	}
	d.Dataset, d.Train = train.Dataset.Name, train.Training()
	for _, size := range sizes {
		one := detection.Folder(test)
		if o.sizes != "" {
			one.Rows, one.Cols = size[0], size[1]
		}
		d.Tests = append(d.Tests, one)
	}
	return d, nil
}

// write writes the generated scenes of the training and the test split.
func (o *objects) write(out *cli.Printer, d detection.Run, dir string) error {
	train, generated := d.Train.(scenes.Generated)
	test, same := d.Tests[0].Scenes.(scenes.Generated)
	if !generated || !same {
		return cli.Usagef("--write writes generated scenes: leave --data out")
	}
	for _, part := range []struct {
		name string
		scenes.Generated
	}{{"train2017", train}, {"val2017", test}} {
		images, instances := filepath.Join(dir, part.name), filepath.Join(dir, "annotations", "instances_"+part.name+".json")
		if err := scenes.Write(images, instances, part.Generated); err != nil {
			return err
		}
		out.Printf("%d images in %s, their objects in %s\n", part.Count, images, instances)
	}
	return out.Err()
}

func describeObjects(d detection.Run) {
	text := fmt.Sprintf("%s: %d categories, %d train", d.Dataset, len(d.Train.Categories()), d.Train.Len())
	if d.Validation != nil {
		text += fmt.Sprintf(", %d validation", d.Validation.Scenes.Len())
	}
	cli.Field("data", "%s, %d test", text, d.Tests[0].Scenes.Len())
}

func detectTrain() *cobra.Command {
	var o objects
	var recipe, position, out, backend, write string
	var set []string
	var seed int64
	var seeds int
	c := &cobra.Command{Use: "train [MODEL]", Short: "Train ViTDet with Mask R-CNN, from scratch or on MODEL's backbone",
		Args: cobra.MaximumNArgs(1)}
	f := cli.Flags{Command: c}
	o.flags(f)
	c.Flags().StringVar(&recipe, "recipe", "scenes", "one of "+strings.Join(detection.Names(), ", "))
	f.Position(&position, "encodings, separated by commas; default the recipe's")
	f.Set(&set, "recipe setting, as --set steps=300; repeatable")
	f.Out(&out, "directory of the runs; default runs/<recipe>-<dataset>")
	c.Flags().Int64Var(&seed, "seed", 0, "the first seed")
	c.Flags().IntVar(&seeds, "seeds", 1, "trainings of each encoding, paired by seed")
	c.Flags().StringVar(&write, "write", "", "directory to write the generated scenes to, as --data coco:DIR reads them; "+
		"nothing is trained")
	f.Backend(&backend)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := cli.Interruptible(c)
		r, positions, err := detectionRecipe(recipe, position, set)
		if err != nil {
			return err
		}
		if seeds < 1 || seeds > 1000 {
			return cli.Usagef("--seeds %d: want 1 to 1000", seeds)
		}
		all, err := o.load(r)
		if err != nil {
			return err
		}
		if write != "" {
			return o.write(cli.Output(c), all, write)
		}
		if len(args) > 0 {
			if all.From, err = run.Local(ctx, args[0]); err != nil {
				return err
			}
		}
		if all.Backend, err = openBackend(backend, 0); err != nil {
			return err
		}
		defer all.Backend.Finalize()
		describeObjects(all)
		root := cmp.Or(out, run.Dir(r.Name, all.Dataset))
		var rows []report.Result
		for _, position := range positions {
			for s := seed; s < seed+int64(seeds); s++ {
				one := all
				one.Recipe.Detector.Backbone.Position, one.Seed = position, s
				one.Dir = filepath.Join(root, fmt.Sprintf("%s-seed%d", position, s))
				title := fmt.Sprintf("%s seed %d", position, s)
				one.Progress, one.Logger = cli.Progress(title), cli.Logger().With("run", title)
				model, own, err := one.Do(ctx)
				if err != nil {
					return err
				}
				err = one.Page(model, own)
				model.Finalize()
				if err != nil {
					return err
				}
				rows = append(rows, own...)
			}
		}
		p := cli.Output(c)
		p.Printf("\n%s, recipe %s, percent\n\n%s\n", all.Dataset, r.Name, detection.Table(rows).Text())
		p.Field("report", "%s", filepath.Join(root, "*", "report.html"))
		p.Field("next", "wepe detect predict %s IMAGE", filepath.Join(root, fmt.Sprintf("%s-seed%d", positions[0], seed)))
		return p.Err()
	}
	return c
}

func detectionRecipe(name, position string, set []string) (r detection.Recipe, positions []string, err error) {
	if err := cli.One("recipe", name, detection.Names()); err != nil {
		return r, nil, err
	}
	if r, err = detection.Named(name); err != nil {
		return r, nil, err
	}
	own := r.Detector.Backbone.Position
	if r, err = r.Set(strings.Join(set, ";")); err != nil {
		return r, nil, cli.Usage(fmt.Errorf("--set %w", err))
	}
	if r.Detector.Backbone.Position != own {
		return r, nil, cli.Usagef("--set detector.backbone.position: use --position")
	}
	positions = []string{own}
	if position != "" {
		positions, err = parsePositions(position)
	}
	return r, positions, err
}

func detectEval() *cobra.Command {
	var o objects
	var weights, backend string
	var asJSON bool
	c := &cobra.Command{Use: "eval RUN", Short: "Measure a detector: COCO's average precision", Args: cobra.ExactArgs(1)}
	f := cli.Flags{Command: c}
	o.flags(f)
	f.Weights(&weights)
	f.Backend(&backend)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		m, err := openDetector(args[0], weights, backend)
		if err != nil {
			return err
		}
		defer m.Finalize()
		d, err := o.load(m.Recipe)
		if err != nil {
			return err
		}
		describeObjects(d)
		found := map[string]report.Found{}
		out := cli.Output(c)
		for _, test := range d.Tests {
			name := fmt.Sprintf("%dx%d", test.Rows, test.Cols)
			measured, err := m.Evaluate(test)
			if err != nil {
				return err
			}
			one := measured.Numbers()
			found[name] = one
			if !asJSON {
				out.Field(name, "box AP %.2f, AP50 %.2f; mask AP %.2f, of %d images", 100*float64(one.Boxes["AP"]),
					100*float64(one.Boxes["AP50"]), 100*float64(one.Masks["AP"]), test.Scenes.Len())
			}
		}
		if asJSON {
			return cli.JSON(c.OutOrStdout(), found)
		}
		return out.Err()
	}
	return c
}

func openDetector(path, weights, config string) (*detection.Model, error) {
	b, err := openBackend(config, 0)
	if err != nil {
		return nil, err
	}
	chosen, line, err := run.Weights(path, weights)
	if err != nil {
		return nil, err
	}
	m, err := detection.Open(b, chosen)
	if err != nil {
		return nil, err
	}
	c := m.Recipe.Detector.Backbone
	cli.Field("model", "%s: ViTDet of width %d, depth %d at %d×%d, position %s, %d categories", path, c.Width, c.Depth,
		c.ImageRows, c.ImageCols, c.Position, len(m.Categories))
	cli.Field("weights", "%s", line)
	return m, nil
}

func detectPredict() *cobra.Command {
	var weights, out, backend string
	var score float64
	var asJSON bool
	c := &cobra.Command{Use: "predict RUN IMAGE...", Short: "Print and draw the objects of images",
		Args: cobra.MinimumNArgs(2)}
	f := cli.Flags{Command: c}
	c.Flags().Float64Var(&score, "score", 0.5, "smallest score of an object")
	f.Out(&out, "directory of the drawn images; default RUN/found")
	f.Weights(&weights)
	f.Backend(&backend)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		if !(score >= 0 && score <= 1) {
			return cli.Usagef("--score %g: want 0 to 1", score)
		}
		m, err := openDetector(args[0], weights, backend)
		if err != nil {
			return err
		}
		defer m.Finalize()
		found := map[string][]object{}
		for _, file := range args[1:] {
			path := filepath.Join(cmp.Or(out, filepath.Join(args[0], "found")),
				strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".png")
			if found[file], err = findObjects(m, file, path, score); err != nil {
				return err
			}
			if asJSON {
				continue
			}
			p := cli.Output(c)
			p.Printf("%s: %s\n", file, path)
			for _, o := range found[file] {
				p.Printf("  %.2f  %-12s  box %.1f\n", o.Score, o.Label, o.Box)
			}
			if p.Err() != nil {
				return p.Err()
			}
		}
		if asJSON {
			return cli.JSON(c.OutOrStdout(), found)
		}
		return nil
	}
	return c
}

// object is the JSON of an object that was found.
type object struct {
	Label string     `json:"label"`
	Score float32    `json:"score"`
	Box   [4]float32 `json:"box"` // as the detector has it: x0, y0, x1, y1 in pixels
}

// findObjects finds and draws the objects of an image file.
func findObjects(m *detection.Model, file, path string, score float64) (found []object, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	decoded, err := data.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	all, err := m.Detect(decoded.RGBA())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range all[0] {
		if float64(d.Score) >= score {
			found = append(found, object{m.Categories[d.Class].Name, d.Score, d.Box})
		}
	}
	shown := scenes.Show(decoded.RGBA(), detection.Shown(all[0], score), m.Categories)
	return found, report.WriteFile(path, func(w io.Writer) error { return png.Encode(w, shown) })
}
