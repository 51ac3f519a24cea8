// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// A model of this library is stored as its variables: each by its path, in our layout, with the position encoding as
// trained. Two forms exist, an export of the format "native" and a checkpoint of a training run:
//
//	           file                    paths              what the model is
//	export     model.safetensors       below the model    config.json: model, params, id2label, problem_type, preprocess
//	training   variables.safetensors   of the store       MANIFEST.json: recipe, classes; store.json: params
//
// docs/models.md lists the paths and shapes.

// nativeType is the model_type in the config.json of the native format.
const nativeType = "wepe"

// native uses our own names.
var native = family{format: formatNative, resample: resampleTimm}

// nativeConfig is that config.json.
type nativeConfig struct {
	ModelType string            `json:"model_type"` // nativeType
	Model     vit.Config        `json:"model"`
	Params    []param           `json:"params"`                 // hyperparameters of the encoding, by name
	ID2Label  map[string]string `json:"id2label,omitempty"`     // class names by "0", "1", …
	Problem   string            `json:"problem_type,omitempty"` // as in transformers; softmax without it

	// Preprocess is this library's own form: other forms lack some fits. Older exports have preprocessor_config.json.
	Preprocess *preprocess.Settings `json:"preprocess,omitempty"`
}

// describeNative reads the config.json of a native model, which is complete: nothing is inferred.
func describeNative(o strictjson.Object) (d described, err error) {
	d = described{foreign: &foreign{family: &native, params: map[string]any{}}, format: formatNative, json: o}
	if kind, err := o.Text("model_type"); err != nil || kind != nativeType {
		return d, o.Refuse("model_type", "%q for these variables", nativeType)
	}
	// A field unknown to this version could change the model, so it is refused.
	current := setting.Current(fmt.Appendf(nil, `{"model":%s}`, cmp.Or(string(o["model"]), "null")))
	if err := strictjson.Decode(current, &struct {
		Model *vit.Config `json:"model"`
	}{&d.config}); err != nil {
		return d, err
	}
	if d.config, err = d.config.Resolve(); err != nil {
		return d, errors.WithMessage(err, "model")
	}
	var params []param
	if o.Has("params") {
		if err := strictjson.Decode(o["params"], &params); err != nil {
			return d, errors.WithMessage(err, "params")
		}
	}
	if o.Has("preprocess") {
		d.preprocess = &preprocess.Settings{}
		if err := strictjson.Decode(o["preprocess"], d.preprocess); err != nil {
			return d, errors.WithMessage(err, "preprocess")
		}
		if err := d.preprocess.Validate(); err != nil {
			return d, err
		}
		if d.preprocess.Resize == preprocess.ResizePatches || d.config.Channels != 3 {
			return d, errors.Errorf("preprocess: fit %q for %d channels: want another fit than %q, and 3", d.preprocess.Resize,
				d.config.Channels, preprocess.ResizePatches)
		}
	}
	for _, p := range params {
		p.Path = setting.CurrentParam(p.Path)
		value, bad := decodeParam(p)
		switch retired, err := position.Retired(d.config.Position, p.Path, value); {
		case !retired && !slices.Contains(position.Params(), p.Path):
			return d, errors.Errorf("params: %q is not a hyperparameter of an encoding", p.Path)
		case cmp.Or(bad, err) != nil:
			return d, errors.WithMessagef(cmp.Or(bad, err), "params: %s", p.Path)
		case !retired:
			d.params[p.Path] = value
		}
	}
	return d, nil
}

// trainedModel is the part of a checkpoint's meta, written by package finetune, that describes the model.
type trainedModel struct {
	Recipe struct {
		Name         string      `json:"name"`
		Architecture string      `json:"architecture"` // unless it is a plain ViT
		Model        strictModel `json:"model"`
		Augment      struct {
			Mean [3]float64 `json:"mean"`
			Std  [3]float64 `json:"std"`
		} `json:"augment"`
		Detector map[string]json.RawMessage `json:"detector"` // of package detect
	} `json:"recipe"`
	Classes    []string            `json:"classes"`
	Preprocess preprocess.Settings `json:"preprocess"`
}

// describeRun finds the model in a checkpoint of a training run and reduces w to its tensors: the averages of the
// weights, if the training stored them.
func (w *weights) describeRun() (d described, err error) {
	d = described{foreign: &foreign{family: &native, params: map[string]any{}}, format: formatCheckpoint}
	refuse := func(format string, args ...any) (described, error) {
		return d, errors.WithMessagef(errors.Errorf(format, args...), "checkpoints: %s", w.run.Path)
	}
	switch err := json.Unmarshal(setting.Current(w.run.Meta), &d.run); {
	case err != nil:
		return refuse("its meta does not say what model it is of: %v", err)
	case d.run.Recipe.Detector != nil:
		return refuse("a checkpoint of a detector: use wepe detect")
	case d.run.Recipe.Model.Width == 0:
		return refuse("its meta does not say what model it is of")
	}
	config, wrong := d.run.Recipe.Model.Resolve()
	d.config = config
	for path, value := range w.run.Params {
		name := strings.TrimPrefix(path, model.RootScopePath)
		if _, err := position.Retired(d.config.Position, name, value); err != nil {
			return refuse("%v", err)
		}
		if slices.Contains(position.Params(), name) {
			d.params[name] = value
		}
	}
	switch kind, n := d.run.Recipe.Architecture, len(d.run.Classes); {
	case kind != "":
		return refuse("its model is no ViT but a %s of these sizes", kind)
	case wrong != nil:
		return refuse("%v", wrong)
	case d.run.Preprocess.Validate() != nil:
		return refuse("%v", d.run.Preprocess.Validate())
	case n != d.config.Classes:
		return refuse("%d names for %d classes", n, d.config.Classes)
	}
	const ofModel, averages = "/" + weight.ModelScope + "/", "/" + weight.AverageScope
	ours := map[string]storedTensor{}
	for _, scope := range []string{ofModel, averages + ofModel} {
		for name, t := range w.tensors {
			if path, ok := strings.CutPrefix(name, scope); ok {
				ours[path] = t
			}
		}
	}
	w.adapters = map[string][2]storedTensor{}
	for path := range ours {
		for _, root := range []string{"", averages} { // of both the averages
			factors := root + weight.LowRankRoot + ofModel + path
			if a, ok := w.tensors[factors+"/a"]; ok && !w.has(averages+ofModel+path) { // summed by an earlier version
				b, ok := w.tensors[factors+"/b"]
				if !ok {
					return refuse("it has only one of the factors of %s", path)
				}
				w.adapters[path] = [2]storedTensor{a, b}
			}
		}
	}
	w.tensors = ours
	return d, nil
}

// adapt adds the adapters of a run to their matrices.
func (m *Imported) adapt(w *weights) error {
	for path, factors := range w.adapters {
		a, err := factors[0].readAsIs(path)
		if err != nil {
			return err
		}
		b, err := factors[1].readAsIs(path)
		if err != nil {
			return err
		}
		if m.Variables[path], err = weight.Sum(m.Variables[path], a, b); err != nil {
			return err
		}
	}
	return nil
}

// strictModel refuses a field that is unknown to this version: it could change the model.
type strictModel struct{ vit.Config }

func (m *strictModel) UnmarshalJSON(raw []byte) error { return strictjson.Decode(raw, &m.Config) }

// ownsEncoding reports whether a tensor that no row of the table names belongs to the model's position encoding. It is
// stored in its own type: it may be the key of a table, which must compare equal.
func ownsEncoding(format string, c vit.Config, name string) bool {
	variable, ok := strings.CutPrefix(name, positionsPath)
	return ok && format == formatNative && c.Encoding().Owns(variable)
}

// paramsOf collects the hyperparameters that a model's encoding would read from its scope.
func paramsOf(scope *model.Scope) ([]param, error) {
	params := []param{}
	for _, name := range position.Params() {
		value, ok := scope.GetParam(name)
		if !ok {
			continue
		}
		p, err := newParam(name, value)
		if err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	return params, nil
}
