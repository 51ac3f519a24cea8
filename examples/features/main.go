// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command features writes what a pretrained model sees in pictures, and does with it what people do with features.
//
//	go run ./examples/features -model hf://facebook/dinov2-small -images DIR    features.npy, one vector a picture
//	go run ./examples/features -model MODEL -images DIR -do knn,probe           how well they tell classes
//	go run ./examples/features -model MODEL -images DIR -do nearest,colours     a page, and patches as colours
//
// The same command goes on where an interrupted one stopped, and what is written is not computed again.
// docs/features.md says what each does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
)

func main() {
	program.Main("features", parse, func(options) bool { return true }, run)
}

// Things to do with features.
var things = []string{"knn", "probe", "nearest", "colours"}

// options are what the flags say.
type options struct {
	model, images, list string
	count               int
	job                 features.Job
	do                  []string
	k, queries          int
	temperature         float64
	foreground          bool
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("features", flag.ContinueOnError)
	flags.StringVar(&o.model, "model", "", "a directory of a run, a file or directory of Hugging Face's, timm's or "+
		"Google's, or hf://owner/name")
	flags.StringVar(&o.images, "images", "", "directory of pictures, in a folder for each class or not, in folders train "+
		"and val or not; or directory or archive of CIFAR-100's binary version; default generated shapes")
	flags.StringVar(&o.list, "list", "", "file in -images with a path and the number of a class in each line: those alone")
	flags.IntVar(&o.count, "n", 0, "pictures at most, of each of train and test where there are such; default all")
	flags.StringVar(&o.job.Dir, "out", "runs/features", "directory for all that is written")
	flags.StringVar(&o.job.Of, "of", "", "class, mean or class+mean: the class token, the mean of the patches, or both; "+
		"default class, mean for a model without a class token")
	format := flags.String("format", "npy", "npy, or jsonl: the numbers in the lines of pictures.jsonl")
	do := flags.String("do", "", "some of "+strings.Join(things, ",")+"; default none, the features alone")
	flags.IntVar(&o.k, "k", 20, "of -do knn: neighbours that vote")
	flags.Float64Var(&o.temperature, "temperature", 0.07, "of -do knn: of their votes")
	flags.IntVar(&o.queries, "shown", 16, "of -do nearest,colours: pictures")
	flags.BoolVar(&o.foreground, "foreground", false, "of -do colours: only the patches in front, by the first axis")
	if err := program.Parse(flags, "writes what a model sees in pictures.", args); err != nil {
		return o, err
	}
	o.do, o.job.JSON = study.Split(*do), *format == "jsonl"
	for _, thing := range o.do {
		if !slices.Contains(things, thing) {
			return o, fmt.Errorf("-do %q: want some of %s", thing, strings.Join(things, ","))
		}
	}
	switch {
	case o.model == "":
		return o, errors.New("-model names no model, as hf://facebook/dinov2-small")
	case *format != "npy" && *format != "jsonl":
		return o, fmt.Errorf("-format %q: want npy or jsonl", *format)
	case !slices.Contains([]string{"", features.OfClass, features.OfMean, features.OfBoth}, o.job.Of):
		return o, fmt.Errorf("-of %q: want %s, %s or %s", o.job.Of, features.OfClass, features.OfMean, features.OfBoth)
	case o.list != "" && o.images == "":
		return o, errors.New("-list needs -images, the directory that it lies in")
	case o.k < 1 || o.queries < 1 || o.count < 0 || !(o.temperature > 0):
		return o, fmt.Errorf("-k is %d, -shown %d, -n %d, -temperature %g: want positive numbers", o.k, o.queries, o.count,
			o.temperature)
	}
	return o, nil
}

func run(ctx context.Context, o options) (err error) {
	if o.job.List, err = o.load(); err != nil {
		return err
	}
	if o.count > 0 {
		o.job.List = o.job.List.Thin(o.count)
	}
	backend, err := backend.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	if o.job.Model, err = o.open(ctx, backend); err != nil {
		return err
	}
	defer o.job.Model.Finalize()
	o.job.Progress, o.job.Log = program.Count(o.job.List.Name), program.Line
	table, err := o.job.Run(ctx)
	if err != nil {
		return err
	}
	program.Printf("%d pictures of %s, width %d: %s\n", table.Len(), o.job.List.Name, table.Width, o.job.Dir)
	for _, thing := range o.do {
		if err := o.doing(thing, table); err != nil {
			return err
		}
	}
	return nil
}

func (o options) open(ctx context.Context, backend compute.Backend) (*finetune.Model, error) {
	path, err := program.Fetch(ctx, o.model)
	if err != nil {
		return nil, err
	}
	return finetune.Open(backend, path)
}

// load lists the pictures that the flags name.
func (o options) load() (*features.List, error) {
	var train, test *data.Memory
	var err error
	switch {
	case o.list != "":
		files, err := data.Lists(o.images, o.list, nil)
		if err != nil {
			return nil, err
		}
		l := &features.List{Name: files.Name}
		l.AddFiles("", files)
		return l, nil
	case o.images == "":
		train, test, err = data.Shapes(data.TaskWhere, 3000, 1000, 32, 0)
	default:
		train, test, err = data.CIFAR100(o.images)
		if errors.Is(err, fs.ErrNotExist) {
			return features.Folder(o.images)
		}
	}
	if err != nil {
		return nil, err
	}
	l := &features.List{Name: strings.TrimSuffix(train.Name, "-train")}
	l.AddSet(features.Train, train)
	l.AddSet(features.Test, test)
	return l, nil
}

// doing is one of the things.
func (o options) doing(thing string, table *features.Table) error {
	switch thing {
	case "knn":
		answer, err := table.KNN(o.k, o.temperature)
		if err == nil {
			program.Printf("knn, k %d, temperature %g: %s\n", o.k, o.temperature, answer.Text())
		}
		return err
	case "probe":
		answer, _, err := table.Probe(features.Probe{}, func(t features.Tried) {
			program.Line(fmt.Sprintf("probe, L2 %g: top-1 %.2f %% of pictures held out, %d steps, gradient %.1e", t.L2,
				100*t.Top1, t.Steps, t.Gradient))
		})
		if err == nil {
			program.Printf("linear probe: %s\n", answer.Text())
		}
		return err
	case "nearest":
		page, err := table.Nearest(o.job.List, o.queries, 7)
		if err != nil {
			return err
		}
		path := filepath.Join(o.job.Dir, "nearest.html")
		program.Printf("nearest pictures: %s\n", path)
		return report.Picture(path, page.HTML)
	default:
		return o.colours()
	}
}

// coloursPerRow is how many pictures stand in a row of the sheet, each before its colours.
const coloursPerRow = 4

func (o options) colours() error {
	list := o.job.List
	rows := make([]int, min(o.queries, list.Len()))
	for i := range rows {
		rows[i] = i * list.Len() / len(rows)
	}
	coloured, err := features.Colours(o.job.Model, list, rows, o.foreground)
	if coloured == nil {
		return err
	}
	if err != nil {
		program.Line("skipped " + err.Error())
	}
	var sheet [][]image.Image
	for line := range slices.Chunk(coloured, coloursPerRow) {
		var images []image.Image
		for _, c := range line {
			images = append(images, c.Seen, c.Patches)
		}
		sheet = append(sheet, images)
	}
	path := filepath.Join(o.job.Dir, "colours.png")
	program.Printf("patches in colours: %s\n", path)
	return report.Picture(path, func(w io.Writer) error { return report.Sheet(w, sheet) })
}
