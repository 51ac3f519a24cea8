// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
)

// source are the flags of how a model is read.
type source struct {
	imageSize, grid, fromGrid checkpoints.Grid
	options                   checkpoints.ImportOptions
}

func (s *source) add(flags *flag.FlagSet) {
	flags.Var(&s.imageSize, "image-size", "pixels of the images to be, as 384 or 224x384; default the model's")
	flags.Var(&s.grid, "grid", "the same in patches")
	flags.StringVar(&s.options.Resample, "resample", "", "how the table of positions gets there: "+
		strings.Join(checkpoints.Resamplings(), ", ")+"; default that of the software the file is from")
	flags.IntVar(&s.options.Classes, "classes", 0, "another number of classes: a new head of zeros")
	s.addOpen(flags)
}

// addOpen adds what files of timm and Google leave open.
func (s *source) addOpen(flags *flag.FlagSet) {
	flags.Var(&s.fromGrid, "from-grid", "where the file does not say: patches of its table of positions, as 14 or 14x24")
	flags.BoolVar(&s.options.AssumeSquare, "assume-square", false, "where the file does not say: that grid is square")
	flags.IntVar(&s.options.Heads, "heads", 0, "where the file does not say: attention heads")
}

// local returns where the files of a path are: of a model of the Hugging Face hub, in its cache.
func local(path string) (string, error) {
	if !strings.HasPrefix(path, hub.Scheme) {
		return path, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	snapshot, err := hub.Download(ctx, path, nil)
	if err != nil {
		return "", err
	}
	return snapshot.Dir, nil
}

// read reads the model at a path.
func (s source) read(path string) (*checkpoints.Imported, error) {
	path, err := local(path)
	if err != nil {
		return nil, err
	}
	o := s.options
	if kinds := checkpoints.Resamplings(); o.Resample != "" && !slices.Contains(kinds, o.Resample) {
		return nil, fmt.Errorf("-resample %q: want one of %s: %w", o.Resample, strings.Join(kinds, ", "), errUsage)
	}
	o.Grid = s.fromGrid
	size := s.imageSize
	if s.grid != (checkpoints.Grid{}) {
		if size != (checkpoints.Grid{}) {
			return nil, fmt.Errorf("-image-size and -grid say the same: give one: %w", errUsage)
		}
		info, err := checkpoints.Inspect(path)
		if err != nil {
			return nil, err
		}
		patch := info.Config.PatchSize
		if max(s.grid.Rows, s.grid.Cols) > math.MaxInt32 {
			return nil, fmt.Errorf("-grid %s: %w", s.grid.String(), errUsage)
		}
		size = checkpoints.Grid{Rows: s.grid.Rows * patch, Cols: s.grid.Cols * patch}
	}
	o.ImageRows, o.ImageCols = size.Rows, size.Cols
	m, err := checkpoints.Import(path, o)
	if err != nil {
		return nil, err
	}
	if c := m.Config; m.Variables["head/weights"] == nil { // zero, as the ViT paper starts to fine-tune
		m.Variables["head/weights"] = tensors.FromShape(shapes.Make(dtypes.Float32, c.Width, c.Classes))
		m.Variables["head/biases"] = tensors.FromShape(shapes.Make(dtypes.Float32, c.Classes))
	}
	return m, nil
}
