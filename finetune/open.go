// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/hub"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/vit"
)

// Open opens a model to evaluate it, predict with it or export it. The path is the directory of a run, one of its
// checkpoints, a file or directory of Hugging Face, timm or Google, hf://owner/name[@revision], which is downloaded
// into the cache of the Hugging Face tools, or an export to ONNX, which needs the build tag onnx and has only logits.
//
//	model, err := finetune.Open(backend, "runs/first")
//	model, err := finetune.OpenOptions{Size: [2]int{384, 384}}.Open(backend, "hf://google/vit-base-patch16-224")
//
// Model.Source describes the files. A model without a head is Headless; classes without names are numbered. A foreign
// model is opened at the size to which its files resize images: DINOv2 has positions for 518×518 pixels, and
// transformers resamples them to 224×224.
func Open(backend compute.Backend, path string) (*Model, error) {
	return OpenOptions{}.Open(backend, path)
}

// OpenOptions holds the options of opening a model; [Open] uses the zero value.
type OpenOptions struct {
	Weights string // of a run: checkpoints.BestDir, LastDir or Start; empty for the default of checkpoints.Find
	// Size is the height and width of images in pixels; zero is the model's own. The position encoding is adapted to
	// another grid by its own rule, without training; a table as the software of its file does (checkpoints.Resample).
	Size  [2]int
	Files checkpoints.Hints // what the files of timm and Google do not specify
}

// Open is the function Open with these options.
func (o OpenOptions) Open(backend compute.Backend, path string) (*Model, error) {
	if strings.HasPrefix(path, hub.Scheme) {
		snapshot, err := hub.Download(context.Background(), path, nil) // it has its own timeouts
		if err != nil {
			return nil, fmt.Errorf("finetune: %w", err)
		}
		path = snapshot.Dir
	}
	run, skipped, err := checkpoints.Find(path, o.Weights)
	switch {
	case err != nil:
		return nil, err
	case run == nil && o.Weights != "":
		return nil, fmt.Errorf("finetune: %s is not a run: it has no %s weights", path, o.Weights)
	case run != nil && (o.Weights == checkpoints.Start || o.Size == [2]int{}):
		return openRun(backend, run, skipped, o)
	}
	return openImported(backend, path, o)
}

// Source describes the files that a model came from.
type Source struct {
	Path    string         // of the checkpoint or the weights
	Format  string         // as checkpoints.Imported
	Weights report.Weights // for a run: best, last or start, and their step
	SHA256  string         // of the weights; empty for start
	Data    string         // for a run at its own size: the fingerprint of its training images
	Notes   []string       // what was skipped, replaced or resampled, one line each
}

// String returns one line, as in "runs/first/best/step-00000120 (best, step 120)".
func (o Source) String() string {
	switch o.Format {
	case "checkpoint":
		return fmt.Sprintf("%s (%s)", o.Path, o.Weights)
	case ONNX:
		return o.Path + " (ONNX, computed by ONNX Runtime)"
	}
	return fmt.Sprintf("%s (format %s)", o.Path, o.Format)
}

// Run returns the directory of a run whose checkpoint is at Path, RUN/best/step-…, and otherwise Path.
func (o Source) Run() string {
	kind := filepath.Dir(o.Path)
	if slices.Contains([]string{checkpoints.BestDir, checkpoints.LastDir}, filepath.Base(kind)) {
		return filepath.Dir(kind)
	}
	return o.Path
}

// ModelName returns the name of the model at a path: a run's, not that of its checkpoint, and NAME of the hub's
// models--owner--NAME/snapshots/COMMIT.
func ModelName(path string) string {
	if whole, err := filepath.Abs(path); err == nil { // "." has a name, too
		path = whole
	}
	path = Source{Path: path}.Run()
	kinds := []string{checkpoints.BestDir, checkpoints.LastDir}
	own := func(kind string) bool { _, err := os.Stat(filepath.Join(path, kind)); return err == nil } // a run's name
	if slices.Contains(kinds, filepath.Base(path)) && !slices.ContainsFunc(kinds, own) {
		path = filepath.Dir(path)
	}
	name := filepath.Base(path)
	if of := filepath.Dir(path); filepath.Base(of) == "snapshots" {
		parts := strings.Split(filepath.Base(filepath.Dir(of)), "--")
		name = parts[len(parts)-1]
	}
	return name
}

// openedRun describes a checkpoint of a run.
func openedRun(run *checkpoints.Checkpoint) Source {
	o := Source{Path: run.Path, Format: "checkpoint", SHA256: run.SHA256}
	o.Weights = report.Weights{Name: cmp.Or(run.Kind, "chosen by path"), Step: int(run.Step)}
	return o
}

// openRun opens a trained model as it was saved, without its optimizer, or draws its initial weights again.
func openRun(backend compute.Backend, run *checkpoints.Checkpoint, skipped []error, o OpenOptions) (*Model, error) {
	s, err := stateOf(run)
	start := o.Weights == checkpoints.Start
	switch {
	case err != nil:
		return nil, err
	case start && s.From != nil:
		return nil, fmt.Errorf("finetune: %s started from the weights of %s, not from random ones: open that model", run.Path,
			s.From.Path)
	case start && o.Size != [2]int{}:
		return nil, fmt.Errorf("finetune: %s: the initial weights of a run have its own image size: omit the other size",
			run.Path)
	}
	m, err := newModel(backend, s.Recipe, s.Classes, s.Seed)
	if err != nil {
		return nil, err
	}
	m.Source, m.Preprocess = openedRun(run), s.Preprocess
	m.Source.Data = s.Data
	if start {
		m.Source.SHA256, m.Source.Weights = "", report.Weights{Name: checkpoints.Start}
		if s.Recipe.HeadZeroInit {
			err = m.zeroHead()
		}
		return m, err
	}
	for _, one := range skipped {
		m.Source.Notes = append(m.Source.Notes, one.Error())
	}
	if err := m.load(run, ofOptimizer); err != nil {
		return nil, err
	}
	if err := m.settle(); err != nil {
		return nil, err
	}
	return m, m.store.Scope(weight.LowRankRoot).DeleteVariablesInScope()
}

// openImported opens a model of other software, or one of ours at another size.
func openImported(backend compute.Backend, path string, o OpenOptions) (*Model, error) {
	imported, err := checkpoints.Import(path, checkpoints.ImportOptions{Weights: o.Weights, HeadOptional: true,
		ONNX: true, Hints: o.Files})
	if err != nil {
		return nil, fmt.Errorf("finetune: %s cannot be opened: %w", path, err)
	}
	if c := imported.Config; imported.ONNX != nil && o.Size != [2]int{} && o.Size != [2]int{c.ImageRows, c.ImageCols} {
		imported.ONNX.Finalize()
		return nil, fmt.Errorf("finetune: %s is an ONNX file for images of %d×%d: leave out the other size, or export the "+
			"model at that size", path, c.ImageRows, c.ImageCols)
	}
	origin, err := originOf(path, imported)
	if err != nil {
		return nil, err
	}
	source, r := newSource(path, imported, origin.Classes), origin.Recipe
	r.HeadZeroInit = false
	if o.Size != [2]int{} {
		r.Augment.Size, r.Model.ImageRows, r.Model.ImageCols = o.Size, o.Size[0], o.Size[1] // of AspectKeep the maximum
	}
	if r, err = r.adopt(source); err != nil {
		return nil, err
	}
	if r, err = r.Resolve(); err != nil {
		return nil, err
	}
	m, err := newModel(backend, r, origin.Classes, origin.Seed)
	if err != nil {
		return nil, err
	}
	m.Headless = imported.Headless()
	var notes []string
	if m.onnx = imported.ONNX; m.onnx != nil {
		m.Recipe.Architecture = ONNX
	} else if notes, err = source.load(m, func(path string) bool {
		return m.Headless && strings.HasPrefix(path, headPath)
	}); err != nil {
		return nil, err
	}
	m.Source = Source{Path: path, Format: imported.Format, SHA256: imported.SHA256, Notes: notes}
	m.Activation = imported.Activation
	size := [2]int{r.Model.ImageRows, r.Model.ImageCols}
	switch {
	case imported.Run != nil:
		m.Source = openedRun(imported.Run)
		m.Source.Notes = notes
		if origin.Preprocess != (preprocess.Settings{}) {
			m.Preprocess, err = origin.Preprocess.For(size[0], size[1])
		}
	case imported.Preprocess != nil:
		m.Preprocess = *imported.Preprocess
	default:
		m.Preprocess = preprocess.Settings{Resize: preprocess.ResizeExact, Size: size, Resample: preprocess.Bilinear}
		m.refused = imported.PreprocessError
	}
	return m, err
}

// originOf returns the recipe of a run, or what foreign files specify.
func originOf(path string, m *checkpoints.Imported) (s state, err error) {
	if m.Run != nil {
		return stateOf(m.Run)
	}
	c := m.Config
	c.ImageRows, c.ImageCols = m.Usual[0], m.Usual[1]
	s.Recipe = Recipe{Name: filepath.Base(path), Model: c, Params: m.Params, Epochs: 1, BatchSize: 32,
		LearningRate: 1e-3} // not used
	s.Classes = slices.Clone(m.Names)
	for class := len(s.Classes); class < c.Classes; class++ {
		s.Classes = append(s.Classes, "class "+strconv.Itoa(class))
	}
	return s, nil
}

// ofOptimizer reports whether a variable is needed only to continue training.
func ofOptimizer(variable string) bool {
	adapters := strings.HasPrefix(variable, weight.LowRankRoot+"/")
	return !inNetwork(variable) && !adapters && !strings.HasPrefix(variable, engine.AverageRoot+"/") &&
		variable != model.RootScopePath+model.RNGStateVariableName
}

// state is what a checkpoint stores besides the variables.
type state struct {
	Recipe  Recipe        `json:"recipe"`
	Classes []string      `json:"classes"`
	Seed    int64         `json:"seed"`
	From    *initialModel `json:"from,omitempty"`    // nil for a run from scratch
	Data    string        `json:"data"`              // fingerprint of the training images
	Held    string        `json:"held,omitempty"`    // labelling of Run.Validation
	Damaged []int         `json:"damaged,omitempty"` // training images of a stream that were skipped
	// Preprocess is how the images were resized; zero in runs from before it was stored.
	Preprocess preprocess.Settings `json:"preprocess,omitzero"`
	engine.TrainState
}

// identity is what must be the same to continue the run.
func (s state) identity() engine.RunIdentity {
	from := engine.Scratch
	if s.From != nil {
		from = s.From.SHA256
	}
	return engine.RunIdentity{Recipe: s.Recipe, Seed: s.Seed, From: from, Data: s.Data,
		Other: map[string]string{"validation data": s.Held}}
}

// stateOf reads what this package wrote into a checkpoint.
func stateOf(c *checkpoints.Checkpoint) (s state, err error) {
	var stored struct {
		Recipe struct{ Model, Detector json.RawMessage }
	}
	meta := setting.Current(c.Meta)
	switch err = json.Unmarshal(meta, &stored); {
	case err == nil && stored.Recipe.Detector != nil:
		err = errors.New("it is of a detector, which package detect opens")
	case err == nil:
		err = json.Unmarshal(meta, &s)
	}
	if model := stored.Recipe.Model; err == nil && model != nil { // an unknown field could change the model
		err = strictjson.Decode(model, &vit.Config{})
	}
	if err != nil {
		return s, fmt.Errorf("finetune: %s: %w", c.Path, err)
	}
	if s.Recipe, err = s.Recipe.Resolve(); err != nil { // an older version may lack some fields
		return s, fmt.Errorf("finetune: %s: %w", c.Path, err)
	}
	if len(s.Classes) != s.Recipe.Model.Classes {
		return s, fmt.Errorf("finetune: %s: %d names for %d classes", c.Path, len(s.Classes), s.Recipe.Model.Classes)
	}
	return s, nil
}
