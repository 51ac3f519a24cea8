// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/analysis/features"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
)

// extraction are the flags of wepe features.
type extraction struct {
	opening
	data, out, list, pool, format   string
	count, k, numImages             int
	temperature                     float64
	knn, probe, nearest, pca, front bool
}

func extract() *cobra.Command {
	var o extraction
	c := &cobra.Command{Use: "features MODEL --data D", Args: cobra.ExactArgs(1),
		Short: "Write embeddings of images, and kNN, probe, neighbours or PCA",
		Long: `Write the features of images, one vector per image, as features.npy or JSON lines. The same command resumes an
interrupted job.`,
		Example: "  wepe features hf://facebook/dinov2-small --data DIR --knn --probe"}
	f := cli.FlagsOf(c)
	f.StringVar(&o.data, "data", "", featuresData)
	f.Out(&o.out, "of the vectors; default runs/features-<dataset>")
	f.StringVar(&o.list, "list", "", "file in --data with a path and a class number in each line: only those images")
	f.Int(&o.count, "limit", 0, 0, math.MaxInt, "largest number of images of each split; default all")
	f.Choice(&o.pool, "pool", "class token (default where there is one), mean of the patch tokens, or both", "",
		"class", "mean", "class+mean")
	f.Choice(&o.format, "format", "format of the vectors", "npy", "jsonl")
	f.BoolVar(&o.knn, "knn", false, "classify by the nearest neighbours")
	f.BoolVar(&o.probe, "probe", false, "fit a linear probe")
	f.BoolVar(&o.nearest, "nearest", false, "write a page of nearest neighbours")
	f.BoolVar(&o.pca, "pca", false, "draw the first three principal components of the patches")
	f.Int(&o.k, "k", 20, 1, math.MaxInt, "with --knn: neighbours")
	f.Float64Var(&o.temperature, "temperature", 0.07, "with --knn: temperature of the votes")
	f.Int(&o.numImages, "num-images", 16, 1, math.MaxInt, "with --nearest and --pca: images to draw")
	f.BoolVar(&o.front, "foreground", false, "with --pca: only patches of the foreground, by the first component")
	o.flags(f)
	c.RunE = func(c *cobra.Command, args []string) error { return o.run(c, args[0]) }
	return c
}

// featuresData are the forms of --data.
const featuresData = "shapes[:TASK], cifar100:PATH, or a directory of images, with or without a folder per class"

func (o *extraction) run(c *cobra.Command, model string) error {
	if !o.knn {
		cli.Unread(c, "without --knn", "k", "temperature")
	}
	if !o.nearest && !o.pca {
		cli.Unread(c, "without --nearest or --pca", "num-images")
	}
	if !o.pca {
		cli.Unread(c, "without --pca", "foreground")
	}
	if o.data == "" {
		return cli.Usagef("name the images: --data DIR, or --data shapes for generated ones")
	}
	if !(o.temperature > 0) {
		return cli.Usagef("--temperature %g: want more than 0", o.temperature)
	}
	ctx := cli.Interruptible(c)
	list, err := o.images()
	if err != nil {
		return fmt.Errorf("--data %s: %w", o.data, err)
	}
	ignored := disk.Extensions(list.Ignored...)
	if o.count > 0 {
		list = list.Sample(o.count)
	}
	cli.Field("data", "%s: %d images", list.Name, len(list.Images))
	if ignored != "" {
		cli.Field("data", "warning: files that are not read: %s", ignored)
	}
	dir := cmp.Or(o.out, filepath.Join("runs", "features-"+list.Name))
	if o.list == "" {
		must.M(run.Apart(dir, o.data, ""))
	}
	m, done := o.open(c, model)
	defer done()
	job := features.Job{Model: m, List: list, Of: o.pool, JSON: o.format == "jsonl", Logger: cli.Logger(),
		Dir: dir, Progress: cli.Count(list.Name, "images")}
	table := must.M1(job.Run(ctx))
	out := cli.Output(c)
	out.Field("features", "%d images of %s, width %d: %s", len(table.Images), list.Name, table.Width, job.Dir)
	must.M(context.Cause(ctx))
	o.classify(out, table)
	must.M(context.Cause(ctx))
	o.draw(out, job, table)
	return context.Cause(ctx)
}

// images lists the images of --data.
func (o *extraction) images() (*features.List, error) {
	var train, test *data.InMemory
	kind, rest, _ := strings.Cut(o.data, ":")
	info, missing := os.Stat(o.data)
	var err error
	switch {
	case o.list != "":
		files, err := data.Lists(o.data, o.list, nil)
		if err != nil {
			return nil, err
		}
		l := &features.List{Name: files.Name}
		l.AddFiles("", files)
		return l, nil
	case kind == "shapes" && missing != nil:
		train, test, err = data.Shapes(cmp.Or(rest, "where"), 3000, 1000, 32, 0)
	case kind == "cifar100" && rest != "":
		train, test, err = data.CIFAR100(rest)
	case missing != nil:
		return nil, fmt.Errorf("%w: want %s", fs.ErrNotExist, featuresData)
	case !info.IsDir():
		return nil, fmt.Errorf("a file: want %s", featuresData)
	default:
		return features.Folder(o.data)
	}
	if err != nil {
		return nil, err
	}
	l := &features.List{Name: strings.TrimSuffix(train.Name, "-train")}
	l.AddSet("train", train)
	l.AddSet("test", test)
	return l, nil
}

// classify measures the accuracy of classifiers on the features.
func (o *extraction) classify(out cli.Printer, table *features.Table) {
	if o.knn {
		out.Field("knn", "k %d, temperature %g: %s", o.k, o.temperature, must.M1(table.KNN(o.k, o.temperature)))
	}
	if o.probe {
		answer := must.M1(table.Probe(0, func(t features.Tried) {
			cli.Line(fmt.Sprintf("probe, L2 %g: top-1 %.2f %% on its validation split, %d steps, gradient %.1e", t.L2,
				100*t.Top1, t.Steps, t.Gradient))
		}))
		out.Field("probe", "%s", answer)
	}
}

// shownPerRow is the number of images per row of the image grid, each followed by its components.
const shownPerRow = 4

// draw writes images of the nearest neighbours and of the principal components.
func (o *extraction) draw(out cli.Printer, job features.Job, table *features.Table) {
	if o.nearest {
		path := filepath.Join(job.Dir, "nearest.html")
		must.M(disk.Write(path, must.M1(table.Nearest(job.List, o.numImages, 7)).HTML))
		out.Field("nearest", "%s", path)
	}
	if !o.pca {
		return
	}
	found, err := features.PCA(job.Model, job.List, numeric.Spread(o.numImages, len(job.List.Images)), o.front)
	if found == nil {
		must.M(err)
	}
	if err != nil {
		cli.Line("skipped " + err.Error())
	}
	var grid [][]image.Image
	for line := range slices.Chunk(found, shownPerRow) {
		var images []image.Image
		for _, c := range line {
			images = append(images, c.Seen, c.Patches)
		}
		grid = append(grid, images)
	}
	path := filepath.Join(job.Dir, "pca.png")
	must.M(disk.Write(path, func(w io.Writer) error { return figure.ImageGrid(w, grid, 2) }))
	out.Field("pca", "%s", path)
}
