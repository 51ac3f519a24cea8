// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune"
)

// source are the flags of how a model is read.
type source struct {
	imageSize, grid, fromGrid sides
	options                   checkpoints.ImportOptions
}

func (s *source) add(flags *flag.FlagSet) {
	flags.Var(&s.imageSize, "image-size", "pixels of the images to be, as 384 or 224x384; default the model's")
	flags.Var(&s.grid, "grid", "the same in patches")
	flags.StringVar(&s.options.Resample, "resample", "", "how the table of positions gets there: timm, hf, jax or "+
		"bilinear; default that of the software the file is from")
	flags.IntVar(&s.options.Classes, "classes", 0, "another number of classes: a new head of zeros")
	s.addOpen(flags)
}

// addOpen adds what files of timm and Google leave open.
func (s *source) addOpen(flags *flag.FlagSet) {
	flags.Var(&s.fromGrid, "from-grid", "where the file does not say: patches of its table of positions, as 14 or 14x24")
	flags.BoolVar(&s.options.AssumeSquare, "assume-square", false, "where the file does not say: that grid is square")
	flags.IntVar(&s.options.Heads, "heads", 0, "where the file does not say: attention heads")
}

// read reads the model at a path. A training run is exported first, to a directory that is gone when read returns.
func (s source) read(backend compute.Backend, path string) (*checkpoints.Imported, *preprocess.Settings, error) {
	if isRun(path) {
		trained, err := finetune.Open(backend, path)
		if err != nil {
			return nil, nil, err
		}
		dir, err := os.MkdirTemp("", "wepe-ckpt-")
		if err != nil {
			return nil, nil, err
		}
		defer os.RemoveAll(dir)
		o := checkpoints.ExportOptions{Format: checkpoints.FormatUnfolded}
		if _, err := trained.Export(dir, o); err != nil {
			return nil, nil, err
		}
		path = dir
	}
	o := s.options
	o.Grid = checkpoints.Grid(s.fromGrid)
	size := s.imageSize
	if s.grid != (sides{}) {
		if size != (sides{}) {
			return nil, nil, fmt.Errorf("-image-size and -grid say the same: give one: %w", errUsage)
		}
		info, err := checkpoints.Inspect(path)
		if err != nil {
			return nil, nil, err
		}
		patch := info.Config.PatchSize
		if max(s.grid.Rows, s.grid.Cols) > math.MaxInt32 {
			return nil, nil, fmt.Errorf("-grid %s: %w", s.grid.String(), errUsage)
		}
		size = sides{s.grid.Rows * patch, s.grid.Cols * patch}
	}
	o.ImageRows, o.ImageCols = size.Rows, size.Cols
	m, err := checkpoints.Import(path, o)
	if err != nil {
		return nil, nil, err
	}
	if c := m.Config; m.Variables["head/weights"] == nil { // zero, as the ViT paper starts to fine-tune
		m.Variables["head/weights"] = tensors.FromShape(shapes.Make(dtypes.Float32, c.Width, c.Classes))
		m.Variables["head/biases"] = tensors.FromShape(shapes.Make(dtypes.Float32, c.Classes))
	}
	p, err := preprocessOf(path, m)
	if err != nil {
		m.Report = append(m.Report, fmt.Sprintf("preprocessing: left out: %v", err))
	}
	return m, p, nil
}

// isRun says whether a directory is that of a training run.
func isRun(path string) bool { return len(keptBy(path)) > 0 }

// keptBy returns the directories of checkpoints of a run, none if it is no run.
func keptBy(path string) (kept []string) {
	for _, name := range []string{"best", "last"} {
		if info, err := os.Stat(filepath.Join(path, name)); err == nil && info.IsDir() {
			kept = append(kept, filepath.Join(path, name))
		}
	}
	return kept
}

// preprocessOf returns what the files say of preprocessing, for the size that the model has now; nil if they say
// nothing.
func preprocessOf(path string, m *checkpoints.Imported) (*preprocess.Settings, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		path = filepath.Dir(path)
	}
	rows, cols := m.Config.ImageRows, m.Config.ImageCols
	p, err := preprocess.Read(filepath.Join(path, "preprocessor_config.json"))
	switch {
	case m.Config.Channels != 3:
		return nil, nil
	case errors.Is(err, fs.ErrNotExist) && m.Format == checkpoints.FormatTimm && m.Mean != nil:
		p, err = preprocess.Read(filepath.Join(path, "config.json"))
	case errors.Is(err, fs.ErrNotExist) && m.Mean != nil: // Google's resizes to the whole
		return &preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{rows, cols}, Mean: [3]float64(m.Mean),
			Std: [3]float64(m.Std)}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if p.Fit == preprocess.FitNone && p.Crop == [2]int{} {
		return &p, nil
	}
	old, oldCols, err := p.OutputSize()
	if err != nil {
		return nil, err
	}
	if old == rows && oldCols == cols {
		return &p, nil
	}
	if p.Crop != [2]int{} { // as much of the picture as before
		p.Size = [2]int{scaled(p.Size[0], rows, p.Crop[0]), scaled(p.Size[1], cols, p.Crop[1])}
		p.Crop = [2]int{rows, cols}
		if p.Fit == preprocess.FitShortest && p.Size[0] != p.Size[1] {
			p.Fit = preprocess.FitCover
		}
		return &p, p.Validate()
	}
	p.Size = [2]int{rows, cols}
	return &p, p.Validate()
}

// scaled returns size·to/from, rounded.
func scaled(size, to, from int) int {
	return int(math.Round(float64(size) * float64(to) / float64(from)))
}

// sorted returns the names in a directory.
func sorted(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names, err
}
