// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/report"
)

// Values of [Weights].
const (
	Best  = checkpoints.BestDir // those with the highest accuracy on the validation split
	Last  = checkpoints.LastDir // those of the newest checkpoint
	Start = "start"             // those before the first step, drawn again from the seed of the run
)

// OpenOption changes what [Open] opens.
type OpenOption func(*openOptions)

type openOptions struct {
	weights string
	size    [2]int
	files   checkpoints.ImportOptions
}

// Weights selects the weights of a run: Best, Last or Start. The default is Best where the run has them, else Last.
func Weights(which string) OpenOption { return func(o *openOptions) { o.weights = which } }

// Size opens the model for images of other height and width in pixels, without training: the position encoding goes to
// the new grid by its own rule, as in a run that starts from the model.
func Size(rows, cols int) OpenOption { return func(o *openOptions) { o.size = [2]int{rows, cols} } }

// Files fills in what the files of timm and Google leave open: Grid, AssumeSquare, Architecture. Runs leave nothing
// open.
func Files(f checkpoints.ImportOptions) OpenOption {
	return func(o *openOptions) {
		o.files = checkpoints.ImportOptions{Grid: f.Grid, AssumeSquare: f.AssumeSquare, Architecture: f.Architecture}
	}
}

// Open opens a model to evaluate it, predict with it or export it. The path is the directory of a run, one of its
// checkpoints, a file or directory of Hugging Face, timm or Google, or hf://owner/name[@revision], which is downloaded
// into the cache of the Hugging Face tools.
//
//	model, err := finetune.Open(backend, "runs/first")
//	model, err := finetune.Open(backend, "hf://google/vit-base-patch16-224", finetune.Size(384, 384))
//
// Model.Opened describes what was opened. A model without a head gets one of a single class, with no meaning; classes
// without names are numbered. A foreign model is opened at the size to which its files resize images: DINOv2 has
// positions for 518×518 pixels, and transformers resamples them to 224×224.
func Open(backend compute.Backend, path string, options ...OpenOption) (*Model, error) {
	var o openOptions
	for _, option := range options {
		option(&o)
	}
	if strings.HasPrefix(path, hub.Scheme) {
		snapshot, err := hub.Download(context.Background(), path, nil) // its waits have limits of their own
		if err != nil {
			return nil, fmt.Errorf("finetune: %w", err)
		}
		path = snapshot.Dir
	}
	if o.weights != Start {
		o.files.Weights = o.weights
	}
	if o.size == [2]int{} || o.weights == Start {
		run, skipped, err := checkpoints.Find(path, o.files.Weights)
		switch {
		case err != nil:
			return nil, err
		case run != nil && o.weights == Start:
			return openStart(backend, run, o.size)
		case run != nil:
			return openRun(backend, run, skipped)
		case o.weights != "":
			return nil, fmt.Errorf("finetune: %s is no run: it has no %s weights", path, o.weights)
		}
	}
	return openImported(backend, path, o)
}

// Opened describes the files that a model came from.
type Opened struct {
	Path    string         // of the checkpoint or the weights
	Format  string         // checkpoints.FormatCheckpoint, FormatHF, …
	Weights report.Weights // of a run: Best, Last or Start, and their step
	SHA256  string         // of the weights; empty for Start
	Notes   []string       // what was skipped, replaced or resampled, a line each
}

// String is one line, as in "runs/first/best/step-00000120: weights best, step 120".
func (o Opened) String() string {
	if o.Format == checkpoints.FormatCheckpoint {
		return fmt.Sprintf("%s: weights %s", o.Path, o.Weights)
	}
	return fmt.Sprintf("%s: format %s", o.Path, o.Format)
}

// openedRun describes a checkpoint of a run.
func openedRun(run *checkpoints.Checkpoint) Opened {
	o := Opened{Path: run.Path, Format: checkpoints.FormatCheckpoint, SHA256: run.SHA256}
	o.Weights = report.Weights{Name: "chosen by path", Step: int(run.Step)}
	if kind := filepath.Base(filepath.Dir(run.Path)); kind == Best || kind == Last {
		o.Weights.Name = kind
	}
	return o
}

// openRun opens a trained model as it was saved, without the state of its optimizer.
func openRun(backend compute.Backend, run *checkpoints.Checkpoint, skipped []checkpoints.Skipped) (*Model, error) {
	s, err := stateOf(run)
	if err != nil {
		return nil, err
	}
	m, err := newModel(backend, s.Recipe, s.Classes, s.Seed)
	if err != nil {
		return nil, err
	}
	m.Opened, m.Preprocess = openedRun(run), s.Preprocess
	for _, one := range skipped {
		m.Opened.Notes = append(m.Opened.Notes, one.String())
	}
	if err := m.load(run, ofOptimizer); err != nil {
		return nil, err
	}
	return m, m.swapAverage()
}

// openStart draws the weights of a run again.
func openStart(backend compute.Backend, run *checkpoints.Checkpoint, size [2]int) (*Model, error) {
	s, err := stateOf(run)
	switch {
	case err != nil:
		return nil, err
	case s.From != nil:
		return nil, fmt.Errorf("finetune: %s started from the weights of %s, which are not drawn: open that", run.Path,
			s.From.Path)
	case size != [2]int{}:
		return nil, fmt.Errorf("finetune: %s: the drawn weights of a run have its own size: leave out the other", run.Path)
	}
	m, err := newModel(backend, s.Recipe, s.Classes, s.Seed)
	if err != nil {
		return nil, err
	}
	m.Opened = Opened{Path: run.Path, Format: checkpoints.FormatCheckpoint, Weights: report.Weights{Name: Start}}
	m.Preprocess = s.Preprocess
	if s.Recipe.ZeroHead {
		err = m.zeroHead()
	}
	return m, err
}

// openImported opens a model of other software, or one of ours at another size.
func openImported(backend compute.Backend, path string, o openOptions) (*Model, error) {
	o.files.HeadOptional = true
	imported, err := checkpoints.Import(path, o.files)
	if err != nil {
		return nil, fmt.Errorf("finetune: no model in %s: %w", path, err)
	}
	origin, err := originOf(path, imported)
	if err != nil {
		return nil, err
	}
	source, r := newSource(path, imported, origin.Classes), origin.Recipe
	r.ZeroHead = false
	if o.size != [2]int{} {
		r.Augment.Size, r.Model.ImageRows, r.Model.ImageCols = o.size, o.size[0], o.size[1] // of AspectKeep the most patches
	}
	if r, err = r.adopt(source); err != nil {
		return nil, err
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	m, err := newModel(backend, r, origin.Classes, origin.Seed)
	if err != nil {
		return nil, err
	}
	headless := imported.Variables[headPath+"weights"] == nil
	notes, err := source.load(m, func(path string) bool { return headless && strings.HasPrefix(path, headPath) })
	if err != nil {
		return nil, err
	}
	m.Opened = Opened{Path: path, Format: imported.Format, SHA256: imported.SHA256, Notes: notes}
	m.Scores = imported.Scores
	size := [2]int{r.Model.ImageRows, r.Model.ImageCols}
	switch {
	case imported.Run != nil:
		m.Opened = openedRun(imported.Run)
		m.Opened.Notes = notes
		if origin.Preprocess != (preprocess.Settings{}) {
			m.Preprocess, err = origin.Preprocess.For(size[0], size[1])
		}
	case imported.Preprocess != nil:
		m.Preprocess = *imported.Preprocess
	default: // where no file specifies it: the default of transformers
		m.Preprocess = preprocess.Settings{Fit: preprocess.FitExact, Size: size, Resample: preprocess.Bilinear}
		m.refused = imported.PreprocessError
	}
	return m, err
}

// originOf is what a model was trained with: the recipe of a run, or what foreign files specify.
func originOf(path string, m *checkpoints.Imported) (s state, err error) {
	if m.Run != nil {
		return stateOf(m.Run)
	}
	c := m.Config
	if to := m.Pixels; to != [2]int{} && to[0]%c.PatchSize+to[1]%c.PatchSize == 0 {
		c.ImageRows, c.ImageCols = to[0], to[1]
	}
	s.Recipe = Recipe{Name: filepath.Base(path), Model: c, Params: m.Params, Epochs: 1, BatchSize: 32,
		LearningRate: 1e-3}.WithDefaults() // never trained with
	s.Classes = m.Labels
	for class := len(s.Classes); class < c.Classes; class++ {
		s.Classes = append(s.Classes, "class "+strconv.Itoa(class))
	}
	return s, nil
}

// ofOptimizer reports whether a variable is needed only to go on training.
func ofOptimizer(variable string) bool {
	return !inNetwork(variable) && !strings.HasPrefix(variable, averageRoot+"/") &&
		variable != model.RootScopePath+model.RNGStateVariableName
}
