// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
)

// verify reads files whole, and compares models by their logits.
func verify(flags *flag.FlagSet, out io.Writer) func([]string) error {
	var s source
	s.addOpen(flags)
	onnx := flags.String("onnx", "", "compare the model with this ONNX file; the program needs -tags=onnx")
	images := flags.Int("images", 2, "random images to compare on; for -onnx the file's batch")
	seed := flags.Uint64("seed", 1, "of the images")
	tolerance := flags.Float64("tolerance", 1e-4, "how far logits may differ, in units of the greatest one or of 1")
	return func(args []string) error {
		if *images < 1 || *images > 1024 {
			return fmt.Errorf("-images %d, want 1 to 1024: %w", *images, errUsage)
		}
		if !(*tolerance >= 0) {
			return fmt.Errorf("-tolerance %g, want 0 or more: %w", *tolerance, errUsage)
		}
		if len(args) == 1 && *onnx == "" {
			return s.whole(args[0], out)
		}
		names := []string{"A", "B"}
		if *onnx != "" {
			names = names[:1]
		}
		if err := want(args, names...); err != nil {
			return err
		}
		backend, err := openBackend()
		if err != nil {
			return err
		}
		defer backend.Finalize()
		a, err := s.read(args[0])
		if err != nil {
			return err
		}
		batch := checkpoints.Noise(a.Config, *images, *seed)
		wanted, err := a.Logits(backend, batch)
		if err != nil {
			return err
		}
		other := *onnx
		var got []float32
		if *onnx != "" {
			got, err = checkpoints.ONNXLogits(*onnx, a.Config, batch)
		} else {
			other = args[1]
			got, err = s.logitsOn(backend, other, batch)
		}
		if err != nil {
			return err
		}
		d, scale := checkpoints.Difference(got, wanted)
		line := fmt.Sprintf("logits on %d random images differ by %.3g at most, the greatest is %.3g", *images, d, scale)
		if !(d <= *tolerance*max(1, scale)) {
			return fmt.Errorf("%s and %s: %s", args[0], other, line)
		}
		return printLines(out, line)
	}
}

// logitsOn runs the second model, which has to take the images of the first.
func (s source) logitsOn(backend compute.Backend, path string, images *tensors.Tensor) ([]float32, error) {
	b, err := s.read(path)
	if err != nil {
		return nil, err
	}
	c, size := b.Config, images.Shape().Dimensions
	if !slices.Equal(size[1:], []int{c.ImageRows, c.ImageCols, c.Channels}) {
		return nil, fmt.Errorf("%s takes images of %dx%d, the other model %dx%d: convert one with -image-size first", path,
			c.ImageRows, c.ImageCols, size[1], size[2])
	}
	return b.Logits(backend, images)
}

// whole verifies one file or directory, or all checkpoints of a run.
func (s source) whole(path string, out io.Writer) error {
	path, err := local(path)
	if err != nil {
		return err
	}
	if all, err := checkpoints.All(path); err == nil && len(all) > 0 {
		return wholeRun(all, out)
	}
	info, err := checkpoints.Inspect(path)
	switch {
	case err != nil:
		return err
	case info.Format == checkpoints.FormatONNX:
		return fmt.Errorf("%s: an ONNX file is verified against the model it was made from: -onnx %s MODEL: %w", path, path,
			errUsage)
	case info.Format == checkpoints.FormatCheckpoint: // Inspect has hashed it
		_, err = fmt.Fprintf(out, "%s: whole, step %d, %d tensors\n", path, info.Step, len(info.Tensors))
		return err
	}
	m, err := s.read(path)
	if err != nil {
		return err
	}
	return printLines(out, append(m.Report, "SHA-256 "+m.SHA256)...)
}

// wholeRun verifies checkpoints.
func wholeRun(all []string, out io.Writer) error {
	damaged := 0
	for _, path := range all {
		line := path + ": whole"
		if _, err := checkpoints.Open(path); err != nil {
			damaged++
			line = fmt.Sprintf("%s: %v", path, err)
		}
		if err := printLines(out, line); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d checkpoints are damaged", damaged, len(all))
	}
	return nil
}
