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
	reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[int8](),
	reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](), reflect.TypeFor[uint](),
	reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[[]bool](), reflect.TypeFor[[]string](),
	reflect.TypeFor[[]int](), reflect.TypeFor[[]int32](), reflect.TypeFor[[]int64](), reflect.TypeFor[[]float32](),
	reflect.TypeFor[[]float64](),
)

func typesByName(types ...reflect.Type) map[string]reflect.Type {
	byName := map[string]reflect.Type{}
	for _, t := range types {
		byName[t.String()] = t
	}
	return byName
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
		_ = json.Unmarshal(p.Value, &text) // a string: it begins with a quotation mark
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
