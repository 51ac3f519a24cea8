// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// initialModel is the pretrained model that a run starts from. The run's checkpoints and rows store this description: a
// resume needs only its own files.
//
// Its backbone is copied. Its positions are
//
//	learned  resampled to the run's grid, for position "learned" and "hybrid", which blends WePE into them
//	others   copied for the same position, otherwise dropped
//
// and other variables of the run's position are new, zero where a position that is added to the model's own can start
// as the identity (position.Spec.Neutral). Its head is copied if it has the run's classes.
type initialModel struct {
	Path    string         `json:"path"`
	SHA256  string         `json:"sha256"`           // of its weights' file
	Model   vit.Config     `json:"model"`            // with its own image size
	Params  map[string]any `json:"params,omitempty"` // hyperparameters of its encoding, for a run of ours
	Classes []string       `json:"classes,omitempty"`
	Mean    [3]float64     `json:"mean"` // of its pixels; Mean and Std are zero if its files do not specify them
	Std     [3]float64     `json:"std"`

	resample string                // the kind of its own code base
	imported *checkpoints.Imported // nil in a resumed run
	head     string                // a line about another head; empty for none
	assumed  bool                  // the head's classes have no names and are taken to be the run's
}

// newSource describes an imported model for a run with the given classes, and drops its head if its classes differ.
func newSource(path string, imported *checkpoints.Imported, classes []string) *initialModel {
	s := &initialModel{
		Path: path, SHA256: imported.SHA256, Model: imported.Config, Params: maps.Clone(imported.Params),
		Classes:  imported.Labels,
		resample: imported.Resample, imported: imported,
	}
	if n := len(imported.Mean); n > 0 && n <= len(s.Mean) {
		copy(s.Mean[:], imported.Mean)
		copy(s.Std[:], imported.Std)
	}
	s.chooseHead(classes)
	return s
}

// ownFields are the fields of vit.Config that a run sets: for its images, position encoding and training. The
// pretrained model sets all others, also fields of later versions.
var ownFields = []string{"ImageRows", "ImageCols", "Classes", "Position", "Dropout", "AttentionDropout", "DropPath",
	"Init", "DType", "Recompute"}

// adopt sets what the source determines, the network and its normalization, and refuses a recipe that contradicts it.
func (r Recipe) adopt(s *initialModel) (Recipe, error) {
	m := &r.Model
	c, _ := s.Model.Resolve() // a row may lack some fields
	if c.PatchSize < 1 {      // in a damaged row
		return r, fmt.Errorf("finetune: checkpoint %s has patches of %d pixels", s.Path, c.PatchSize)
	}
	m.Position = cmp.Or(m.Position, c.Position)
	if a := &r.Augment; a.Mean == [3]float64{} && a.Std == [3]float64{} {
		a.Mean, a.Std = s.Mean, s.Std
	}
	encoding, err := position.Parse(m.Position)
	if err != nil {
		return r, err
	}
	r.Params = maps.Clone(r.Params)
	its, params := maps.Clone(s.Params), c.TrainedGrid() // the run's images may have another size
	// 0 is the model's own grid.
	for name := range params {
		if fmt.Sprint(r.Params[name]) == "0" {
			delete(r.Params, name)
		}
		if fmt.Sprint(its[name]) == "0" && s.imported != nil { // a resumed run keeps what it has
			delete(its, name)
			delete(s.Params, name)
		}
	}
	maps.Copy(params, its)
	if err = Adopt(m, c); err == nil {
		r.Params, err = AdoptParams(r.Params, encoding.Shared(c.Encoding()), params)
	}
	if err != nil {
		return r, fmt.Errorf("%w in checkpoint %s: leave it out of the recipe", err, s.Path)
	}
	return r, nil
}

// Adopt sets the zero fields of a model to those of the pretrained one that it starts from, except what a run sets for
// its images, position encoding and training. Another value is an error that names the field.
func Adopt(m *vit.Config, pretrained vit.Config) error {
	fields, its := reflect.ValueOf(m).Elem(), reflect.ValueOf(pretrained)
	for field := range fields.Type().Fields() {
		if slices.Contains(ownFields, field.Name) {
			continue
		}
		value, want := fields.FieldByIndex(field.Index), its.FieldByIndex(field.Index)
		if value.IsZero() {
			value.Set(want)
		}
		if !value.Equal(want) {
			return fmt.Errorf("finetune: the model's %s is %v, but %v", setting.JSONName(field), value, want)
		}
	}
	return nil
}

// AdoptParams returns params with the hyperparameters of the pretrained model, for the encodings that it shares with
// the run's. Another value is an error that names it.
func AdoptParams(params map[string]any, shared position.Encoding, its map[string]any) (map[string]any, error) {
	params = maps.Clone(params)
	for _, name := range slices.Sorted(maps.Keys(its)) {
		if !slices.Contains(shared.Params(), name) {
			continue
		}
		if params == nil {
			params = map[string]any{}
		}
		if mine, set := params[name]; set && fmt.Sprint(mine) != fmt.Sprint(its[name]) {
			return nil, fmt.Errorf("finetune: %s is %v, but %v", name, mine, its[name])
		}
		params[name] = its[name]
	}
	return params, nil
}

// keeps reports whether a variable of the source is copied to the run's model.
func (s *initialModel) keeps(path string, r Recipe) bool {
	switch {
	case strings.HasPrefix(path, headPath):
		return !r.HeadZeroInit
	case strings.HasPrefix(path, positionPath):
		return r.Model.Encoding().Inherits(s.Model.Encoding(), strings.TrimPrefix(path, positionPath))
	}
	return true
}

// chooseHead drops a head with other classes; their number is the same.
func (s *initialModel) chooseHead(classes []string) {
	if s.imported.Variables[headPath+"weights"] == nil || unnamed(s.Classes) || slices.Equal(s.Classes, classes) {
		return
	}
	delete(s.imported.Variables, headPath+"weights")
	delete(s.imported.Variables, headPath+"biases")
	s.head = fmt.Sprintf("head: a new one for %d classes in place of the checkpoint's for %d others", len(classes),
		s.Model.Classes)
}

// load creates the variables that the source gives to a model, which draws only those that may be new. The report has
// one line for each difference.
func (s *initialModel) load(m *Model, mayBeNew func(path string) bool) (report []string, err error) {
	r := m.Recipe
	how, err := s.imported.Resize(r.Model.ImageRows, r.Model.ImageCols, cmp.Or(r.Interpolation, s.resample))
	if err != nil {
		return nil, err
	}
	for _, line := range s.imported.Report {
		if !strings.HasPrefix(line, "positions: ") { // how reports the positions
			report = append(report, line)
		}
	}
	if s.head != "" {
		report = append(report, s.head)
	}
	if s.assumed && s.keeps(headPath+"weights", r) {
		report = append(report, fmt.Sprintf("head: the checkpoint's; its files do not name its %d classes, which are taken "+
			"to be the dataset's in the same order: head_zeroinit starts a new one", s.Model.Classes))
	}
	report = append(report, fmt.Sprintf("from the checkpoint: epsilon %g, pool %s", r.Model.Epsilon, r.Model.Pool),
		s.pixels(r))
	positions := fmt.Sprintf("positions: %s in place of the checkpoint's %s", r.Model.Position, s.Model.Position)
	kept := map[string]*tensors.Tensor{}
	for path, value := range s.imported.Variables {
		if !s.keeps(path, r) {
			continue
		}
		kept[path] = value
		if path == tablePath && how != "" {
			positions = fmt.Sprintf("positions: %s %s", r.Model.Position, how)
		} else if path == tablePath || strings.HasPrefix(path, positionPath) && s.imported.Variables[tablePath] == nil {
			positions = "positions: the checkpoint's " + s.Model.Position
		}
	}
	scope := m.store.Scope("/" + modelScope)
	if err := weight.Create(scope, kept); err != nil {
		return nil, err
	}
	m.expectNoMore(s.Path, mayBeNew)
	started := checkpoints.Model{Config: r.Model, Scope: scope, Report: append(report, positions)}
	err = started.StartPositions(m.backend, s.Model.Encoding())
	return started.Report, err
}

// pixels describes the normalization of a run.
func (s *initialModel) pixels(r Recipe) string {
	mine, its := [2][3]float64{r.Augment.Mean, r.Augment.Std}, [2][3]float64{s.Mean, s.Std}
	switch i := s.imported; {
	case its == [2][3]float64{} && mine == its && i != nil && (i.Run != nil || i.Format == "native"): // of this library
		return "pixels: scaled to 0…1, as in its training"
	case its == [2][3]float64{} && mine == its:
		return "pixels: warning: the checkpoint does not specify their normalization: scaled to 0…1, not normalized " +
			"(augment.mean, augment.std)"
	case its == [2][3]float64{}:
		return fmt.Sprintf("pixels: the checkpoint does not specify their normalization; mean %v, std %v", mine[0], mine[1])
	case mine != its:
		return fmt.Sprintf("pixels: the recipe's mean %v, std %v in place of the checkpoint's %v, %v", mine[0], mine[1],
			its[0], its[1])
	default:
		return fmt.Sprintf("pixels: the checkpoint's mean %v, std %v", its[0], its[1])
	}
}
