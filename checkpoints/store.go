// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
)

// storeFile is store.json: the contents of a store besides its tensors.
type storeFile struct {
	Params []param  `json:"params"`
	Frozen []string `json:"frozen"` // variables that are not trainable, such as the random generator's state
}

// param is one hyperparameter. JSON has a single type of number and GoMLX depends on the Go type, so the type is stored
// too.
type param struct {
	Path  string          `json:"path"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// paramTypes are the possible types of a hyperparameter, by their names in the file.
var paramTypes = typesByName(
	false, "", 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0),
	float32(0), float64(0), []bool{}, []string{}, []int{}, []int32{}, []int64{}, []float32{}, []float64{},
)

func typesByName(values ...any) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, value := range values {
		types[reflect.TypeOf(value).String()] = reflect.TypeOf(value)
	}
	return types
}

// encodeStore writes store.json; the order of the parameters is the store's, by scope and key.
func encodeStore(store *model.Store, frozen []string) ([]byte, error) {
	contents := storeFile{Params: []param{}, Frozen: frozen}
	for path, value := range store.IterParams() {
		p, err := newParam(path, value)
		if err != nil {
			return nil, err
		}
		contents.Params = append(contents.Params, p)
	}
	raw, err := json.MarshalIndent(contents, "", "  ")
	if raw = append(raw, '\n'); err == nil && len(raw) > maxSmall {
		err = errors.Errorf("the hyperparameters take %d bytes, more than %d", len(raw), maxSmall)
	}
	return raw, errors.WithMessage(err, "checkpoints")
}

// newParam encodes one hyperparameter.
func newParam(path string, value any) (param, error) {
	t := reflect.TypeOf(value)
	if t == nil || paramTypes[t.String()] != t {
		return param{}, errors.Errorf("checkpoints: hyperparameter %q: type %T cannot be saved", path, value)
	}
	raw, err := encodeParam(value)
	return param{path, t.String(), raw}, errors.WithMessagef(err, "checkpoints: hyperparameter %q", path)
}

// decodeStore reads store.json.
func decodeStore(file string, raw []byte) (params map[string]any, frozen map[string]bool, err error) {
	var contents storeFile
	if err := strictjson.Decode(raw, &contents); err != nil {
		return nil, nil, &formatError{File: file, Reason: err.Error()}
	}
	params = map[string]any{}
	for _, p := range contents.Params {
		value, err := decodeParam(p)
		if err != nil {
			return nil, nil, &formatError{File: file, Reason: fmt.Sprintf("hyperparameter %q: %v", p.Path, err)}
		}
		params[p.Path] = value
	}
	frozen = map[string]bool{}
	for _, path := range contents.Frozen {
		frozen[path] = true
	}
	return params, frozen, nil
}

// encodeParam encodes a value as JSON; values without a JSON number are strings that strconv reads.
func encodeParam(value any) (json.RawMessage, error) {
	if v := reflect.ValueOf(value); v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		value = strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	raw, err := json.Marshal(value)
	if err == nil && bytes.Contains(raw, []byte(`\ufffd`)) { // the replacement for invalid UTF-8 in encoding/json
		err = errors.New("the string is not UTF-8")
	}
	return raw, err
}

func decodeParam(p param) (any, error) {
	t, ok := paramTypes[p.Type]
	if !ok {
		return nil, errors.Errorf("unknown type %q", p.Type)
	}
	value := reflect.New(t)
	if kind := t.Kind(); (kind == reflect.Float32 || kind == reflect.Float64) && bytes.HasPrefix(p.Value, []byte{'"'}) {
		var text string
		if err := json.Unmarshal(p.Value, &text); err != nil {
			return nil, err
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		value.Elem().SetFloat(f)
		return value.Elem().Interface(), nil
	}
	if err := json.Unmarshal(p.Value, value.Interface()); err != nil {
		return nil, err
	}
	return value.Elem().Interface(), nil
}
