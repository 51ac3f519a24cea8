// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/must"
	"github.com/spf13/cobra"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/cmd/wepe/internal/run"
	"github.com/wepe-go/wepe/internal/printable"
)

// verification are the flags of wepe verify.
type verification struct {
	opening
	images    int
	seed      uint64
	tolerance float64
	asJSON    bool
}

func verify() *cobra.Command {
	var o verification
	c := &cobra.Command{Use: "verify A [B]", Short: "Check the files of a model, or compare the logits of two",
		Args: cobra.RangeArgs(1, 2),
		Long: `Check the SHA-256 and the structure of all files of a model or run, or compare the logits of two models on the
same random images. B may be an ONNX file (needs a build with -tags=onnx).`,
		Example: "  wepe verify runs/shapes-shapes\n  wepe verify runs/shapes-shapes-learned out/first"}
	f := cli.FlagsOf(c)
	f.Int(&o.images, "images", 2, 1, 1024, "random images")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the images")
	f.Float64Var(&o.tolerance, "tolerance", 1e-4, "largest accepted difference of logits, "+
		"relative to the largest logit if that exceeds 1")
	o.flags(f)
	f.JSON(&o.asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			cli.Unread(c, "with one model", "images", "seed", "tolerance", "backend")
			return o.files(c, args[0])
		}
		if !(o.tolerance >= 0) {
			return cli.Usagef("--tolerance %g: want 0 or more", o.tolerance)
		}
		return o.print(c, []string{o.logits(c, args[0], args[1])})
	}
	return c
}

func (o *verification) print(c *cobra.Command, lines []string) error {
	return cli.Answer(c, o.asJSON, map[string]any{"ok": true, "checks": lines}, func(out cli.Printer) {
		for _, line := range lines {
			out.Printf("%s\n", line)
		}
	})
}

// logits compares two models.
func (o *verification) logits(c *cobra.Command, a, b string) (line string) {
	backend := openBackend(o.backend, 0)
	defer backend.Finalize()
	first := o.read(c, a, checkpoints.ImportOptions{HeadOptional: true})
	file := b
	info, err := checkpoints.Inspect(b, checkpoints.ImportOptions{HeadOptional: true})
	if is, missing := os.Stat(b); missing == nil && is.IsDir() {
		if file = ""; err == nil && info.Format == "onnx" {
			file = filepath.Join(b, "model.onnx")
		}
	}
	if filepath.Ext(file) == ".onnx" {
		line, err = o.onnx(backend, first, file)
	} else {
		line, err = o.second(c, backend, first, b)
	}
	if err != nil {
		must.M(fmt.Errorf("%s and %s: %w", a, b, err))
	}
	return line
}

func (o *verification) onnx(backend compute.Backend, first *checkpoints.Imported, file string) (string, error) {
	if first.Headless() {
		return "", errors.New("a model without a classifier cannot be compared with an ONNX file, which has one")
	}
	g := must.M1(checkpoints.OpenONNX(file, first.Config))
	defer g.Finalize()
	images := checkpoints.Noise(first.Config, o.images, o.seed)
	return judge(must.M1(g.Logits(images)), must.M1(first.Logits(backend, images)), o.images, o.tolerance)
}

func (o *verification) second(c *cobra.Command, backend compute.Backend, first *checkpoints.Imported, path string) (
	string, error) {
	m := o.read(c, path, checkpoints.ImportOptions{HeadOptional: true})
	if p, q := first.Preprocess, m.Preprocess; p != nil && q != nil && *p != *q {
		if line := checkpoints.PreprocessingDifference(*p, *q); line != "" {
			cli.Line(line)
		}
	}
	switch is, want := m.Config, first.Config; {
	case m.Headless() != first.Headless():
		return "", fmt.Errorf("%s: one of the models has no classifier", path)
	case is.ImageRows != want.ImageRows || is.ImageCols != want.ImageCols || is.Channels != want.Channels:
		return "", fmt.Errorf("%s takes %d×%d images, the other model %d×%d: use --size %[4]dx%[5]d", path, is.ImageRows,
			is.ImageCols, want.ImageRows, want.ImageCols)
	case is.Classes != want.Classes:
		return "", fmt.Errorf("%s has %d classes, the other model %d", path, is.Classes, want.Classes)
	}
	return difference(backend, first, m, first.Headless(), o.images, o.seed, o.tolerance)
}

// files checks one file or directory, or all checkpoints of a run.
func (o *verification) files(c *cobra.Command, path string) error {
	local := run.Local(c, path)
	const where = "with checkpoints, which are checked whole"
	var lines []string
	if all, err := checkpoints.All(local); err == nil && len(all) > 0 {
		cli.Unread(c, where, "checkpoint", "size")
		damaged := 0
		for _, checkpoint := range all {
			line := checkpoint + ": intact"
			switch found, _, err := checkpoints.Find(checkpoint, ""); {
			case err != nil:
				damaged++
				line = fmt.Sprintf("%s: %v", checkpoint, err)
			case found == nil:
				damaged++
				line = checkpoint + ": incomplete"
			}
			lines = append(lines, line)
		}
		if damaged > 0 {
			for _, line := range lines {
				cli.Line(line)
			}
			return fmt.Errorf("%s: %d of %d checkpoints are damaged or incomplete: delete them, unless a training is "+
				"writing them", path, damaged, len(all))
		}
		return o.print(c, lines)
	}
	switch info := must.M1(checkpoints.Inspect(local, checkpoints.ImportOptions{})); info.Format {
	case "onnx":
		return cli.Usagef("%s: an ONNX file is compared with its model: wepe verify MODEL %s", path, path)
	case "checkpoint": // Inspect verified its hash
		cli.Unread(c, where, "checkpoint", "size")
		return o.print(c, []string{fmt.Sprintf("%s: intact, step %d, %d tensors", path, info.Step, len(info.Tensors))})
	}
	m := o.read(c, path, checkpoints.ImportOptions{HeadOptional: true})
	return o.print(c, append(m.Report[1:], "SHA-256 "+m.SHA256))
}

func inspect() *cobra.Command {
	var weights string
	var tensors, asJSON bool
	var options checkpoints.ImportOptions
	c := &cobra.Command{Use: "inspect MODEL", Args: cobra.ExactArgs(1),
		Short: "Print format, architecture, grid, encoding, head and types of a model"}
	f := cli.FlagsOf(c)
	f.BoolVar(&tensors, "tensors", false, "list every tensor with its type and shape")
	f.Checkpoint(&weights, "checkpoint of a run")
	f.Import(&options.Hints)
	f.JSON(&asJSON)
	c.RunE = func(c *cobra.Command, args []string) error {
		chosen, line := run.Weights(c, args[0], weights)
		info := must.M1(checkpoints.Inspect(chosen, options))
		must.M(cli.Answer(c, asJSON, info, func(out cli.Printer) {
			out.Print(info.String())
			if line != "" {
				out.Printf("%-10s %s\n", "weights", line)
			}
			for _, t := range info.Tensors {
				if tensors {
					out.Printf("%s %s %v\n", printable.Name(t.Name), t.DType, t.Shape)
				}
			}
		}))
		switch {
		case info.Refused != "" && info.Format != "onnx":
			return errors.New("other commands cannot open it: refused, see above")
		case info.PreprocessError != "":
			return errors.New("predict, eval, features and serve refuse it: images, see above")
		}
		return nil
	}
	return c
}
