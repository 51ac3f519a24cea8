// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/wepe"
)

// Source is the pretrained model that a run starts from. The run's checkpoints and rows keep this description, so that
// a resume needs no file but its own.
//
// Its backbone is taken as it is. Its positions are
//
//	learned  resampled to the run's grid, for position "learned" and "hybrid", which blends WePE into them
//	others   taken for the same position, else dropped
//
// and what the run's position has beyond that is drawn anew. Its head is taken if it has the run's classes.
type Source struct {
	Path    string         `json:"path"`
	SHA256  string         `json:"sha256"`           // of its weights' file
	Model   vit.Config     `json:"model"`            // with its own image size
	Params  map[string]any `json:"params,omitempty"` // hyperparameters of its encoding, for a run of ours
	Classes []string       `json:"classes,omitempty"`
	Mean    [3]float64     `json:"mean"` // of its pixels, and Std: both zero where its files do not say
	Std     [3]float64     `json:"std"`

	resample  string                     // the kind that its own code base uses
	variables map[string]*tensors.Tensor // by path below the model's scope
	report    []string                   // one line each
}

// findSource opens what the run starts from, nil if it starts from scratch. A run that has begun knows its source: the
// file may be gone since, but not be another one.
func (run Run) findSource() (*Source, error) {
	if run.From == "" {
		return nil, nil
	}
	source, err := OpenSource(run.From, run.Import, run.Train.Classes) // nil with an error
	if begun := run.begunFrom(); begun != nil && (source == nil || source.SHA256 == begun.SHA256) {
		return begun, nil
	}
	return source, err
}

// begunFrom returns the source that the run directory's last checkpoint tells of, nil without one.
func (run Run) begunFrom() *Source {
	if run.Dir == "" {
		return nil
	}
	last, _, err := checkpoints.Latest(filepath.Join(run.Dir, lastDir))
	if err != nil || last == nil {
		return nil // resume says what is wrong
	}
	begun, err := stateOf(last)
	if err != nil {
		return nil
	}
	return begun.From
}

// OpenSource reads a run directory of ours, one of its checkpoints, or whatever checkpoints.Import understands, for a
// run with the given classes: what Run.From does, for programs that want to know the model beforehand.
func OpenSource(path string, open checkpoints.ImportOptions, classes []string) (*Source, error) {
	var checkpoint *checkpoints.Checkpoint
	var err error
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		checkpoint, err = newest(path)
		if _, statErr := os.Stat(filepath.Join(path, "MANIFEST.json")); statErr == nil { // of one checkpoint
			checkpoint, err = checkpoints.Open(path)
		}
	}
	var s *Source
	switch {
	case err != nil:
		return nil, err
	case checkpoint != nil:
		s, err = ownSource(checkpoint)
	default:
		open.Classes = len(classes)
		s, err = importedSource(path, open)
	}
	if err != nil {
		return nil, err
	}
	s.Path = path
	s.chooseHead(classes)
	return s, nil
}

// ownSource reads a checkpoint of this package: the averages of the weights, where it has them.
func ownSource(checkpoint *checkpoints.Checkpoint) (*Source, error) {
	begun, err := stateOf(checkpoint)
	if err != nil {
		return nil, err
	}
	if err := begun.Recipe.plainViT("can be started from"); err != nil {
		return nil, err
	}
	const scope = "/" + modelScope + "/"
	store := model.NewStore()
	if err := checkpoint.Load(store, func(variable string) bool {
		return !strings.HasPrefix(strings.TrimPrefix(variable, averageRoot), scope)
	}); err != nil {
		return nil, err
	}
	r := begun.Recipe
	s := &Source{
		SHA256: checkpoint.SHA256, Model: r.Model, Params: r.Params, Classes: begun.Classes, Mean: r.Augment.Mean,
		Std: r.Augment.Std, resample: checkpoints.ResampleTimm, variables: map[string]*tensors.Tensor{},
	}
	for v := range store.IterVariables() {
		path, ok := strings.CutPrefix(v.Path(), scope)
		if !ok {
			continue
		}
		if average := store.GetVariable(averageRoot + v.Path()); average != nil {
			v = average
		}
		if s.variables[path], err = v.Value(); err != nil {
			return nil, err
		}
	}
	c := s.Model
	s.report = append(s.report, fmt.Sprintf("a run of recipe %s: ViT of width %d, depth %d, %d heads, patches of %d, "+
		"grid %s", r.Name, c.Width, c.Depth, c.Heads, c.PatchSize, checkpoints.Grid{Rows: c.Rows(), Cols: c.Cols()}))
	return s, nil
}

// importedSource reads a checkpoint of other software.
func importedSource(path string, open checkpoints.ImportOptions) (*Source, error) {
	imported, err := checkpoints.Import(path, open)
	if err != nil {
		return nil, err
	}
	s := &Source{
		SHA256: imported.SHA256, Model: imported.Config, Params: imported.Params, Classes: imported.Labels,
		resample:  imported.Resample,
		variables: imported.Variables,
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
	return s, nil
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

// adopt fills in what the source decides, the network and its pixels, and refuses what contradicts it.
func (r Recipe) adopt(s *Source) (Recipe, error) {
	m, c := &r.Model, s.Model.WithDefaults()
	for _, f := range []error{
		agree("patch_size", &m.PatchSize, c.PatchSize), agree("channels", &m.Channels, c.Channels),
		agree("width", &m.Width, c.Width), agree("depth", &m.Depth, c.Depth), agree("heads", &m.Heads, c.Heads),
		agree("mlp_dim", &m.MLPDim, c.MLPDim), agree("pool", &m.Pool, c.Pool),
		agree("patch_norm", &m.PatchNorm, c.PatchNorm), agree("epsilon", &m.Epsilon, c.Epsilon),
	} {
		if f != nil {
			return r, fmt.Errorf("%w in checkpoint %s: leave it out of the recipe", f, s.Path)
		}
	}
	setDefault(&m.Position, "hybrid")
	if a := &r.Augment; a.Mean == [3]float64{} && a.Std == [3]float64{} {
		a.Mean, a.Std = s.Mean, s.Std
	}
	if m.Position != c.Position {
		return r, nil
	}
	r.Params = maps.Clone(r.Params)
	params := c.TrainedGrid() // the run's images may be of another size
	maps.Copy(params, s.Params)
	for name, value := range params {
		if r.Params == nil {
			r.Params = map[string]any{}
		}
		if mine, set := r.Params[name]; set && fmt.Sprint(mine) != fmt.Sprint(value) {
			return r, fmt.Errorf("finetune: %s is %v, but %v in checkpoint %s, whose position %s is kept", name, mine, value,
				s.Path, m.Position)
		}
		r.Params[name] = value
	}
	return r, nil
}

// agree sets a field that is zero and refuses one that is something else.
func agree[T comparable](name string, field *T, value T) error {
	if setDefault(field, value); *field != value {
		return fmt.Errorf("finetune: the model's %s is %v, but %v", name, *field, value)
	}
	return nil
}

// keeps says whether a variable of the source becomes one of the run's model.
func (s *Source) keeps(path string, r Recipe) bool {
	switch {
	case strings.HasPrefix(path, headPath):
		return !r.ZeroHead
	case path == tablePath && s.Model.Position == "learned" && r.Model.Position == "hybrid":
		return true
	case strings.HasPrefix(path, positionPath):
		return s.Model.Position == r.Model.Position
	}
	return true
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
			rows, how, err := checkpoints.Resample(table, r.Model.Width, r.Model.Prefix(), from, to,
				cmp.Or(r.Resample, s.resample))
			if err != nil {
				return nil, err
			}
			value = tensors.FromFlatDataAndDimensions(rows, r.Model.Tokens(), r.Model.Width)
			positions = fmt.Sprintf("positions: %s %s", r.Model.Position, how)
		} else if strings.HasPrefix(path, positionPath) && s.variables[tablePath] == nil {
			positions = "positions: the checkpoint's " + s.Model.Position
		}
		if _, err := m.store.CreateVariable("/"+modelScope+"/"+path, value); err != nil {
			return nil, err
		}
	}
	m.check = func() error { return s.complete(m) }
	if s.Model.Position == "learned" && r.Model.Position == "hybrid" {
		hybrid := r.Model.Encoder(m.store.Scope("/" + modelScope)).(*wepe.Hybrid)
		if err := hybrid.Start(m.backend); err != nil {
			return nil, err
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

// complete says, once the first program has run, whether the source had all that a backbone has.
func (s *Source) complete(m *Model) error {
	mismatch := &checkpoints.MismatchError{Path: s.Path}
	for v := range m.store.IterVariables() {
		path, ok := strings.CutPrefix(v.Path(), "/"+modelScope+"/")
		isNew := strings.HasPrefix(path, headPath) || strings.HasPrefix(path, positionPath)
		if ok && !isNew && s.variables[path] == nil {
			mismatch.Missing = append(mismatch.Missing, path+" "+v.Shape().String())
		}
	}
	if len(mismatch.Missing) > 0 {
		slices.Sort(mismatch.Missing)
		return mismatch
	}
	return nil
}

// sum is what tells sources apart, "" for none.
func (s *Source) sum() string {
	if s == nil {
		return ""
	}
	return s.SHA256
}

// stateOf reads what this package wrote into a checkpoint.
func stateOf(c *checkpoints.Checkpoint) (s state, err error) {
	if err := json.Unmarshal(c.Meta, &s); err != nil {
		return s, fmt.Errorf("finetune: %s: %w", c.Path, err)
	}
	s.Recipe = s.Recipe.WithDefaults() // one of an older version may lack some
	if err := s.Recipe.Validate(); err != nil {
		return s, fmt.Errorf("finetune: %s: %w", c.Path, err)
	}
	if len(s.Classes) != s.Recipe.Model.Classes {
		return s, fmt.Errorf("finetune: %s: %d names for %d classes", c.Path, len(s.Classes), s.Recipe.Model.Classes)
	}
	return s, nil
}

// newest returns the best checkpoint of a run directory, else its last, nil if there is none.
func newest(dir string) (*checkpoints.Checkpoint, error) {
	for _, kept := range []string{bestDir, lastDir} {
		checkpoint, skipped, err := checkpoints.Latest(filepath.Join(dir, kept))
		switch {
		case err != nil, checkpoint != nil:
			return checkpoint, err
		case len(skipped) > 0:
			return nil, fmt.Errorf("finetune: no whole checkpoint in %s: %s", filepath.Join(dir, kept), skipped[0])
		}
	}
	return nil, nil
}
