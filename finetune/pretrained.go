// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/wepe"
)

// OpenSource reads whatever checkpoints.Import understands, for a run with the given classes: what Run.From does, for
// programs that want to know the model beforehand.
func OpenSource(path string, open checkpoints.ImportOptions, classes []string) (*Source, error) {
	open.Classes = len(classes)
	imported, err := checkpoints.Import(path, open)
	if err != nil {
		return nil, err
	}
	s := &Source{
		Path: path, SHA256: imported.SHA256, Model: imported.Config, Params: imported.Params, Classes: imported.Labels,
		resample: imported.Resample, variables: imported.Variables,
	}
	if imported.Format == checkpoints.FormatCheckpoint {
		s.resample = checkpoints.ResampleTimm
	}
	if n := len(imported.Mean); n > 0 && n <= len(s.Mean) {
		copy(s.Mean[:], imported.Mean)
		copy(s.Std[:], imported.Std)
	}
	for _, line := range imported.Report {
		if !strings.HasPrefix(line, "positions: ") { // what becomes of them is decided in load
			s.report = append(s.report, line)
		}
	}
	s.chooseHead(classes)
	return s, nil
}

// OpenAt is Open, or OpenAny, for images of another size, height and width in pixels, or with {} of its own: the same
// weights without training, where the position encoding goes to the new grid by its own rule, as in a run that starts
// from the path. Its own is the size that its files bring pictures to: DINOv2 has positions for 518×518 pixels, and
// transformers resamples them to the 224×224 that pictures are cropped to.
func OpenAt(backend compute.Backend, path string, size [2]int) (*Model, error) {
	return openAs(backend, path, checkpoints.ImportOptions{ImageRows: size[0], ImageCols: size[1]})
}

func openAs(backend compute.Backend, path string, open checkpoints.ImportOptions) (*Model, error) {
	size := [2]int{open.ImageRows, open.ImageCols}
	open.ImageRows, open.ImageCols = 0, 0 // resampled in load
	begun, settings, err := originOf(path, open)
	if err != nil {
		return nil, err
	}
	if err := begun.Recipe.plainViT("can be opened at another size"); err != nil {
		return nil, err
	}
	source, err := OpenSource(path, open, begun.Classes)
	if err != nil {
		return nil, err
	}
	r := begun.Recipe
	if r.ZeroHead = false; size != [2]int{} {
		r.Augment.Size, r.Model.ImageRows, r.Model.ImageCols = size, size[0], size[1] // of AspectKeep the most patches
		settings = preprocess.Settings{}                                              // of the size it came with
	}
	if r, err = r.adopt(source); err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	m, err := newModel(backend, r, begun.Classes, begun.Seed)
	if err != nil {
		return nil, err
	}
	m.Preprocess = settings
	m.Report, err = source.load(m)
	headless := source.variables[headPath+"weights"] == nil
	m.check = func() error {
		return source.complete(m, func(path string) bool { return headless && strings.HasPrefix(path, headPath) })
	}
	return m, err
}

// originOf is what a model at a path was trained with: a run's recipe, or what a foreign checkpoint says.
func originOf(path string, open checkpoints.ImportOptions) (s state, settings preprocess.Settings, err error) {
	if own, _, err := checkpoints.Find(path); err != nil || own != nil {
		if err != nil {
			return s, settings, err
		}
		s, err = stateOf(own)
		return s, settings, err
	}
	open.Classes = 0
	imported, err := checkpoints.Import(path, open)
	if err != nil {
		open.Classes = 1
		headless, again := checkpoints.Import(path, open)
		if again != nil {
			return s, settings, fmt.Errorf("finetune: no checkpoint of a run in %s, nor another: %w", path, err)
		}
		imported = headless
	}
	if c, to := imported.Config, imported.Pixels; to != [2]int{} && to != [2]int{c.ImageRows, c.ImageCols} &&
		to[0]%c.PatchSize+to[1]%c.PatchSize == 0 {
		open.ImageRows, open.ImageCols = to[0], to[1]
		if imported, err = checkpoints.Import(path, open); err != nil {
			return s, settings, err
		}
	}
	s.Recipe = Recipe{Name: filepath.Base(path), Model: imported.Config, Params: imported.Params, Epochs: 1, BatchSize: 32,
		LearningRate: 1e-3}.WithDefaults() // never trained with
	s.Classes = imported.Labels
	for c := len(s.Classes); c < imported.Config.Classes; c++ {
		s.Classes = append(s.Classes, "class "+strconv.Itoa(c))
	}
	if imported.Preprocess != nil {
		settings = *imported.Preprocess
	}
	return s, settings, nil
}

// chooseHead drops a head that answers another question; where the names of its classes are not known, as many classes
// are the same ones.
func (s *Source) chooseHead(classes []string) {
	unnamed := len(s.Classes) == 0 || s.Classes[0] == "LABEL_0" // transformers' name where nobody gave one
	if s.variables[headPath+"weights"] == nil || s.Model.Classes == len(classes) &&
		(unnamed || slices.Equal(s.Classes, classes)) {
		return
	}
	delete(s.variables, headPath+"weights")
	delete(s.variables, headPath+"biases")
	which := ""
	if s.Model.Classes == len(classes) {
		which = " others"
	}
	s.report = append(s.report, fmt.Sprintf("head: a new one for %d classes in place of the checkpoint's for %d%s",
		len(classes), s.Model.Classes, which))
}

// load creates the variables that the source gives to a model and says what became of the rest, a line each.
func (s *Source) load(m *Model) (report []string, err error) {
	r := m.Recipe
	report = append(report, fmt.Sprintf("starting from %s (SHA-256 %.12s…)", s.Path, s.SHA256))
	report = append(report, s.report...)
	report = append(report, fmt.Sprintf("from the checkpoint: epsilon %g, pool %s", r.Model.Epsilon, r.Model.Pool),
		s.pixels(r))
	from := checkpoints.Grid{Rows: s.Model.Rows(), Cols: s.Model.Cols()}
	to := checkpoints.Grid{Rows: r.Model.Rows(), Cols: r.Model.Cols()}
	positions := fmt.Sprintf("positions: %s in place of the checkpoint's %s", r.Model.Position, s.Model.Position)
	for _, path := range slices.Sorted(maps.Keys(s.variables)) {
		if !s.keeps(path, r) {
			continue
		}
		value := s.variables[path]
		if path == tablePath {
			table, err := tensors.CopyFlatData[float32](value)
			if err != nil {
				return nil, err
			}
			rows, how, err := checkpoints.Resample(table, r.Model.Width, r.Model.PlacedPrefix(), from, to,
				cmp.Or(r.Resample, s.resample))
			if err != nil {
				return nil, err
			}
			value = tensors.FromFlatDataAndDimensions(rows, r.Model.Places(), r.Model.Width)
			positions = fmt.Sprintf("positions: %s %s", r.Model.Position, how)
		} else if strings.HasPrefix(path, positionPath) && s.variables[tablePath] == nil {
			positions = "positions: the checkpoint's " + s.Model.Position
		}
		if _, err := m.store.CreateVariable("/"+modelScope+"/"+path, value); err != nil {
			return nil, err
		}
	}
	m.check = func() error {
		return s.complete(m, func(path string) bool {
			return strings.HasPrefix(path, headPath) || strings.HasPrefix(path, positionPath)
		})
	}
	if r.Model.Encoding().BeginsWith(s.Model.Encoding()) {
		if hybrid, ok := r.Model.Encoders(m.store.Scope("/" + modelScope)).Additive.(*wepe.Hybrid); ok {
			if err := hybrid.Start(m.backend); err != nil {
				return nil, err
			}
		}
	}
	return append(report, positions), nil
}

// pixels says whose normalisation of the pixels a run takes.
func (s *Source) pixels(r Recipe) string {
	mine, its := [2][3]float64{r.Augment.Mean, r.Augment.Std}, [2][3]float64{s.Mean, s.Std}
	switch {
	case its == [2][3]float64{}:
		return fmt.Sprintf("pixels: the checkpoint does not say how they were normalised; mean %v, std %v", mine[0], mine[1])
	case mine != its:
		return fmt.Sprintf("pixels: the recipe's mean %v, std %v in place of the checkpoint's %v, %v", mine[0], mine[1],
			its[0], its[1])
	default:
		return fmt.Sprintf("pixels: the checkpoint's mean %v, std %v", its[0], its[1])
	}
}

// complete says, once the first program has run, whether the source had all variables but those that may be new.
func (s *Source) complete(m *Model, mayBeNew func(path string) bool) error {
	mismatch := &checkpoints.MismatchError{Path: s.Path}
	for v := range m.variables() {
		path := below(v.Path())
		if s.variables[path] == nil && !mayBeNew(path) {
			mismatch.Missing = append(mismatch.Missing, path+" "+v.Shape().String())
		}
	}
	if len(mismatch.Missing) > 0 {
		slices.Sort(mismatch.Missing)
		return mismatch
	}
	return nil
}
