// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/vit"
)

// The unfolded format keeps a model as it was trained, position encoding and all: model.safetensors holds every
// variable below the model's scope by its path there, in our layout, and config.json what the model is.
//
//	patch/weights [p·p·channels, width]   patch/biases [width]   patch/norm/{gain,offset} [width], with patch_norm
//	class [1, width]                      with pool "class"
//	position/…                            the encoding's own; position/embedding [1+rows·cols, width] is the table of
//	                                      learned positions
//	block_00/norm1/{gain,offset}          [width], and norm2 the same; blocks are numbered from 00
//	block_00/attention/{query,key,value,output}/{weights [width, width], biases [width]}
//	block_00/mlp/hidden/{weights [width, mlp_dim], biases [mlp_dim]}
//	block_00/mlp/output/{weights [mlp_dim, width], biases [width]}
//	norm/{gain,offset} [width]            head/weights [width, classes]   head/biases [classes]

// unfoldedType is the model_type in the config.json of the unfolded format, jaxType in the one beside an exported .npz.
const (
	unfoldedType = "wepe"
	jaxType      = "vit-jax"
)

// unfoldedConfig is the config.json of the unfolded format.
type unfoldedConfig struct {
	ModelType string            `json:"model_type"` // unfoldedType
	Model     vit.Config        `json:"model"`
	Params    []param           `json:"params"`             // hyperparameters of the encoding, by name
	ID2Label  map[string]string `json:"id2label,omitempty"` // class names by "0", "1", …
}

// readUnfolded reads the config.json of an unfolded model. It says all: nothing is inferred.
func (f *foreign) readUnfolded() (inferred, error) {
	config, err := readModelConfig(f.config)
	if err != nil {
		return inferred{}, err
	}
	return config.unfolded()
}

func (c modelConfig) unfolded() (found inferred, err error) {
	found = inferred{naming: naming{format: FormatUnfolded}, foreign: c, params: map[string]any{}}
	kind, err := c.text("model_type")
	if err != nil {
		return found, err
	}
	if kind != unfoldedType {
		return found, c.refuse("model_type", "%q, these variables want %q", kind, unfoldedType)
	}
	// A field that this version does not know could change the model: it is refused, like everything unknown.
	decoder := json.NewDecoder(bytes.NewReader(c.fields["model"]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&found.config); err != nil {
		return found, c.refuse("model", "%v", err)
	}
	found.config = found.config.WithDefaults()
	if err := found.config.Validate(); err != nil {
		return found, c.refuse("model", "%v", err)
	}
	var params []param
	if c.has("params") {
		if err := json.Unmarshal(c.fields["params"], &params); err != nil {
			return found, c.refuse("params", "%v", err)
		}
	}
	for _, p := range params {
		if !slices.Contains(vit.Params(), p.Path) {
			return found, c.refuse("params", "%q is no hyperparameter of an encoding", p.Path)
		}
		if found.params[p.Path], err = decodeParam(p); err != nil {
			return found, c.refuse("params", "%s: %v", p.Path, err)
		}
	}
	return found, nil
}

// ownsEncoding says whether a tensor that no row of the table names is one of the model's position encoding. Such a
// tensor is kept as it is, whatever type the others have: it may be the key of a table, and has to compare equal.
func ownsEncoding(format string, c vit.Config, name string) bool {
	variable, ok := strings.CutPrefix(name, positionsPath)
	return ok && format == FormatUnfolded && c.Encoding().Owns(variable)
}

// paramsOf collects the hyperparameters that the encoding of a model would find from its scope.
func paramsOf(scope *model.Scope) ([]param, error) {
	params := []param{}
	for _, name := range vit.Params() {
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
