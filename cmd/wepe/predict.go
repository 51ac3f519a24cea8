// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/janpfeifer/must"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/printable"
)

// opening are the flags for opening MODEL.
type opening struct {
	backend, checkpoint string
	size                [2]int
	files               checkpoints.Hints
}

func (o *opening) flags(f cli.Flags) {
	f.Checkpoint(&o.checkpoint, "checkpoint of a run")
	f.Size(&o.size)
	f.Backend(&o.backend)
	f.Import(&o.files)
}

// open opens the backend and MODEL until done, and prints a description: architecture, size, position, weights with
// their step, preprocessing.
func (o *opening) open(c *cobra.Command, path string) (m *finetune.Model, done func()) {
	chosen, _ := run.Weights(c, path, o.checkpoint)
	b := openBackend(o.backend, 0)
	m = must.M1(finetune.OpenOptions{Size: o.size, Files: o.files}.Open(b, chosen))
	cli.Field("model", "%s: %s, %d classes", path, run.Architecture(m.Recipe), len(m.Classes))
	cli.Field("weights", "%s", m.Source)
	cli.Field("images", "%s", run.Preprocessing(m))
	for _, note := range m.Source.Notes {
		cli.Field("", "%s", note)
	}
	m.Logger = cli.Logger()
	return m, func() { m.Finalize(); b.Finalize() }
}

func predict() *cobra.Command {
	var o opening
	var p predictions
	var tta string
	c := &cobra.Command{Use: "predict MODEL IMAGE|DIR...", Short: "Print labels and probabilities of images",
		Args: cobra.MinimumNArgs(2), Example: "  wepe predict runs/finetune-pets cat.jpg dog.png --top 3\n" +
			"  wepe predict runs/finetune-pets photos --csv > labels.csv"}
	f := cli.FlagsOf(c)
	f.Int(&p.top, "top", 0, 1, math.MaxInt, "classes per image; default 5, with --csv 1")
	f.BoolVar(&p.csv, "csv", false, "print a table with the columns image, rank, label, probability")
	o.flags(f)
	f.TestTime(&tta)
	f.JSON(&p.json)
	c.RunE = func(c *cobra.Command, args []string) error {
		if p.csv && p.json {
			return cli.Usagef("--csv and --json: leave one of them out")
		}
		p.raw = !isatty.IsTerminal(os.Stdout.Fd())
		if p.top == 0 {
			p.top = map[bool]int{false: 5, true: 1}[p.csv]
		}
		images := imagesOf(args[1:])
		m, done := o.open(c, args[0])
		defer done()
		must.M(mirrored(m, tta))
		return p.print(c, m, images)
	}
	return c
}

// imagesOf replaces directories by the images below them, sorted by path.
func imagesOf(args []string) (images []string) {
	for _, arg := range args {
		if info, err := os.Stat(arg); err != nil || !info.IsDir() {
			images = append(images, arg) // Predict says what is wrong with it
			continue
		}
		files := must.M1(data.ImageFiles(arg))
		if len(files.Ignored) > 0 {
			cli.Field("images", "warning: files that are not read in %s: %s", arg, disk.Extensions(files.Ignored))
		}
		for row := range files.Len() {
			images = append(images, filepath.Join(arg, filepath.FromSlash(files.Where(row))))
		}
	}
	return images
}

// predictions prints what a model predicts.
type predictions struct {
	top       int
	csv, json bool
	raw       bool // a table has names as they are, which a terminal would obey
}

// print predicts images in parts, so that lines appear, and memory is free again, before all are read.
func (p predictions) print(c *cobra.Command, m *finetune.Model, images []string) error {
	const part = 256
	out, list := cli.Output(c), []finetune.Prediction{}
	table, header := csv.NewWriter(c.OutOrStdout()), []string{"image", "rank", "label", "probability"}
	all, failures := len(images), 0
	for images := range slices.Chunk(images, part) {
		answers, failed := m.Predict(images, p.top)
		var unread finetune.ReadErrors
		if failed != nil && !errors.As(failed, &unread) {
			return failed
		}
		failures += len(unread)
		for i, image := range images {
			answer := finetune.Prediction{Name: image, Labels: answers[i]}
			if err := unread[i]; err != nil {
				answer.Error = cli.Skipped(err)
			}
			switch {
			case p.json:
				list = append(list, answer)
			case p.csv:
				for rank, a := range answer.Labels {
					row := []string{image, strconv.Itoa(rank + 1), a.Name, strconv.FormatFloat(a.Probability, 'g', 6, 64)}
					if !p.raw {
						row[0], row[2] = printable.Line(image), printable.Line(a.Name)
					}
					if header != nil {
						_ = table.Write(header) // Flush keeps the error
					}
					header, _ = nil, table.Write(row)
				}
			case answer.Labels != nil:
				printClasses(out, m, answer)
			}
		}
		if table.Flush(); table.Error() != nil {
			return table.Error()
		}
	}
	if p.json {
		must.M(cli.JSON(c.OutOrStdout(), map[string]any{"images": list}))
	}
	return cli.Unreadable(failures, all)
}

func printClasses(out cli.Printer, m *finetune.Model, p finetune.Prediction) {
	out.Printf("%s\n", p.Name)
	for _, a := range p.Labels {
		if m.Activation == "none" { // outputs of a regression
			out.Printf("  %9.5g  %s\n", a.Probability, a.Name)
		} else {
			out.Printf("  %5.1f %%  %s\n", 100*a.Probability, a.Name)
		}
	}
}
