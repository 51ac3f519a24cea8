// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package setting

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Set changes fields of the struct that recipe points to, from settings in GoMLX's form, "epochs=3;optimizer.beta=0.9":
// JSON names joined by dots. Values are JSON; a bare word is a string. The JSON field "params" takes hyperparameters,
// whose names are params. Other copies of the recipe do not change: maps and slices become its own.
func Set(recipe any, settings string, params []string) error {
	unshare(reflect.ValueOf(recipe).Elem())
	for _, setting := range strings.FieldsFunc(settings, func(c rune) bool { return c == ';' }) {
		key, value, ok := strings.Cut(setting, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" {
			return fmt.Errorf("setting %q: want key=value, as learning_rate=0.001", setting)
		}
		// A name with the prefix of an encoding's hyperparameters is one of them, known or not.
		if family, _, ok := strings.Cut(key, "_"); ok && slices.ContainsFunc(params, func(known string) bool {
			return strings.HasPrefix(known, family+"_")
		}) {
			key = "params." + key
		}
		if value == "null" || !json.Valid([]byte(value)) { // decoding null would change nothing
			quoted, err := json.Marshal(value)
			if err != nil {
				return err
			}
			value = string(quoted)
		}
		if err := set(recipe, strings.Split(key, "."), json.RawMessage(value), params); err != nil {
			return fmt.Errorf("setting %q: %w", strings.TrimSpace(setting), err)
		}
	}
	return nil
}

// unshare replaces the maps and slices in v, in which decoding writes, by copies.
func unshare(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			unshare(field)
		}
	case v.Kind() == reflect.Slice && !v.IsNil():
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
	case v.Kind() == reflect.Map && !v.IsNil():
		copied := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			copied.SetMapIndex(key, value)
		}
		v.Set(copied)
	}
}

// Keys returns the names that settings, in the form of Set, change: each name in an object, in lower case, because JSON
// ignores the case of a name.
func Keys(settings string) (keys []string) {
	for setting := range strings.SplitSeq(settings, ";") {
		key, value, ok := strings.Cut(setting, "=")
		if key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value); !ok {
			continue
		}
		within := map[string]string{}
		if !strings.HasPrefix(value, "{") || flatten(within, key, json.RawMessage(value)) != nil {
			within = map[string]string{key: value}
		}
		for _, name := range slices.Sorted(maps.Keys(within)) {
			keys = append(keys, strings.TrimPrefix(strings.ToLower(name), "params."))
		}
	}
	return keys
}

// set sets one field of a recipe: decoding {"a": {"b": value}} changes no other field of a struct.
func set(recipe any, path []string, value json.RawMessage, params []string) error {
	text := value
	for _, name := range slices.Backward(path) {
		encoded, err := json.Marshal(map[string]json.RawMessage{name: value})
		if err != nil {
			return err
		}
		value = encoded
	}
	if _, former := rename(value, renamed); former != nil {
		return former
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(recipe)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is not %s", text, describeType(wrong.Type))
	case err != nil: // an unknown field
		return Unknown("setting", strings.Join(path, "."), append(FieldNames(reflect.TypeOf(recipe).Elem()), params...))
	}
	return lengths(reflect.TypeOf(recipe).Elem(), value)
}

// lengths refuses lists of another length than their array, which JSON fills with zeros or cuts.
func lengths(of reflect.Type, settings json.RawMessage) (err error) {
	values := map[string]string{}
	if err := flatten(values, "", settings); err != nil {
		return err
	}
	eachField(of, "", func(name string, value, _ reflect.Type, _ reflect.StructField) {
		for key, text := range values {
			var list []json.RawMessage
			if value.Kind() == reflect.Array && strings.EqualFold(key, name) && json.Unmarshal([]byte(text), &list) == nil &&
				len(list) != value.Len() {
				err = fmt.Errorf("%s is not %s", text, describeType(value))
			}
		}
	})
	return err
}

// FieldNames lists the settings of a struct by their names in Set, except hyperparameters.
func FieldNames(of reflect.Type) (names []string) {
	eachField(of, "", func(name string, _, _ reflect.Type, _ reflect.StructField) { names = append(names, name) })
	return names
}

// Fields lists the settings of FieldNames with the meaning of each and what it takes.
func Fields(of reflect.Type) (names, about []string) {
	eachField(of, "", func(name string, value, in reflect.Type, field reflect.StructField) {
		names, about = append(names, name), append(about, meaning(in, field)+"; "+describeType(value))
	})
	return names, about
}

// eachField calls see with the name of each setting, the type of its value, and its field in a struct.
func eachField(of reflect.Type, prefix string,
	see func(name string, value, in reflect.Type, field reflect.StructField)) {
	for field := range of.Fields() {
		name, value := JSONName(field), field.Type
		switch {
		case name == "-": // no setting: JSON leaves it out
		case value.Kind() == reflect.Struct && field.Anonymous:
			eachField(value, prefix, see)
		case value.Kind() == reflect.Struct:
			eachField(value, prefix+name+".", see)
		case value.Kind() == reflect.Map && name != "params":
			see(prefix+name+".GROUP", value.Elem(), of, field)
		case value.Kind() != reflect.Map:
			see(prefix+name, value, of, field)
		}
	}
}

// describeType describes the type of a setting for a user.
func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a finite number"
	case reflect.Bool:
		return "true or false"
	case reflect.Array:
		return fmt.Sprintf("a list of %d as [a,b], each element %s", t.Len(), describeType(t.Elem()))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "a list in JSON"
		}
		return "a list as [a,b], each element " + describeType(t.Elem())
	case reflect.String:
		return "a string"
	}
	return "a group of settings: set each by NAME.KEY=VALUE"
}

// JSONName returns the name of a field in JSON.
func JSONName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// First returns the first setting by name in which two recipes differ, with both values; "" if there is none.
func First(earlier, now any) (name, its, mine string, err error) {
	was, err := Values(earlier)
	if err != nil {
		return "", "", "", err
	}
	is, err := Values(now)
	if err != nil {
		return "", "", "", err
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
	slices.Sort(names)
	for _, name := range names {
		if was[name] != is[name] {
			return name, cmp.Or(was[name], "unset"), cmp.Or(is[name], "unset"), nil
		}
	}
	return "", "", "", nil
}

// Values returns every field of a recipe that is set as JSON, by its name in Set.
func Values(recipe any) (map[string]string, error) {
	encoded, err := json.Marshal(recipe)
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
