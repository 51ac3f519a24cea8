// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// Set changes fields from settings in GoMLX's form, "epochs=3;optimizer.weight_decay=0.1;wepe_alpha_scale=0.2": the
// JSON names of Recipe, joined by dots, or a hyperparameter of the encoding. Values are JSON; a bare word is a string.
func (r Recipe) Set(settings string) (Recipe, error) {
	for _, setting := range strings.FieldsFunc(settings, func(c rune) bool { return c == ';' }) {
		key, value, ok := strings.Cut(setting, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" {
			return r, fmt.Errorf("finetune: setting %q is not of the form key=value", setting)
		}
		if isHyperparameter(key) {
			key = "params." + key
		}
		if value == "null" || !json.Valid([]byte(value)) { // decoding null would change nothing
			quoted, err := json.Marshal(value)
			if err != nil {
				return r, err
			}
			value = string(quoted)
		}
		var err error
		if r, err = r.set(strings.Split(key, "."), json.RawMessage(value)); err != nil {
			return r, fmt.Errorf("finetune: setting %q: %w", strings.TrimSpace(setting), err)
		}
	}
	return r, nil
}

// isHyperparameter says whether a name begins as one of an encoding: a wrong one is answered with those there are.
func isHyperparameter(name string) bool {
	family, _, ok := strings.Cut(name, "_")
	return ok && slices.ContainsFunc(vit.Params(), func(known string) bool {
		return strings.HasPrefix(known, family+"_")
	})
}

// set returns r with one field replaced: decoding {"a": {"b": value}} leaves all other fields of a struct alone.
func (r Recipe) set(path []string, value json.RawMessage) (Recipe, error) {
	r.Params = maps.Clone(r.Params) // decoding adds to maps in place
	r.Optimizer.LearningRates = maps.Clone(r.Optimizer.LearningRates)
	for _, name := range slices.Backward(path) {
		encoded, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err != nil {
			return r, err
		}
		value = encoded
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&r)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return r, fmt.Errorf("a %s, want %s", wrong.Value, wrong.Type)
	case err != nil: // an unknown field
		parent, ok := map[string]any{"model": r.Model, "optimizer": r.Optimizer, "augment": r.Augment}[path[0]]
		if !ok || len(path) == 1 {
			parent = r
		}
		return r, fmt.Errorf("no such field, want one of %s", strings.Join(fieldNames(parent), ", "))
	}
	return r, nil
}

// fieldNames lists the JSON names of a struct's fields.
func fieldNames(of any) (names []string) {
	for field := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// settings returns every field that is set as JSON, by its name for Set.
func (r Recipe) settings() (map[string]string, error) {
	encoded, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	return all, flatten(all, "", encoded)
}

func flatten(into map[string]string, name string, value json.RawMessage) error {
	if value[0] != '{' {
		into[name] = string(value)
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return err
	}
	for key, field := range fields {
		if err := flatten(into, strings.TrimPrefix(name+"."+key, "."), field); err != nil {
			return err
		}
	}
	return nil
}
