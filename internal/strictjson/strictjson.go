// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package strictjson reads untrusted JSON by stricter rules than encoding/json: UTF-8, at most MaxBytes, 64 levels and
// 2^19 keys, no duplicate keys, nothing after the value, no unknown fields.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxBytes bounds a file of JSON.
const MaxBytes = 16 << 20

// The other limits are far above any settings file and keep allocations proportional to the text.
const (
	maxDepth = 64
	maxKeys  = 1 << 19
)

// Decode reads a text into value. A field that the type of value does not have, letter by letter, is an error.
func Decode(raw []byte, value any) error {
	if err := check(raw); err != nil {
		return err
	}
	if err := exact(raw, reflect.TypeOf(value)); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(value)
}

// exact refuses keys that are fields of a type but for the case of letters, which encoding/json ignores.
func exact(raw json.RawMessage, t reflect.Type) error {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() { // encoding/json refuses what has another type
	case reflect.Pointer:
		return exact(raw, t.Elem())
	case reflect.Slice, reflect.Array:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items)
		for _, item := range items {
			if err := exact(item, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var entries map[string]json.RawMessage
		_ = json.Unmarshal(raw, &entries)
		fields := reflect.VisibleFields(t)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			at := slices.IndexFunc(fields, func(f reflect.StructField) bool {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				return cmp.Or(name, f.Name) == key
			})
			if at < 0 {
				return fmt.Errorf("unknown field %q", key)
			}
			if err := exact(entries[key], fields[at].Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// Object is a JSON object whose fields are decoded and validated on access. A field that is null counts as missing.
// Errors are one line that names the field.
type Object map[string]json.RawMessage

// ParseObject reads one object.
func ParseObject(raw []byte) (o Object, err error) {
	if err := check(raw); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, errors.New("not a JSON object")
	}
	return o, nil
}

// Has reports whether a field exists.
func (o Object) Has(key string) bool { return o[key] != nil && string(o[key]) != "null" }

// Refuse returns the error for a field with an invalid value.
func (o Object) Refuse(key, want string, args ...any) error {
	want = fmt.Sprintf(want, args...)
	if !o.Has(key) {
		return fmt.Errorf("%s is missing, want %s", key, want)
	}
	return fmt.Errorf("%s is %s, want %s", key, Short(o[key]), want)
}

// Read decodes a required field; want describes its type in errors.
func (o Object) Read(key string, value any, want string) error {
	if !o.Has(key) || json.Unmarshal(o[key], value) != nil {
		return o.Refuse(key, "%s", want)
	}
	return nil
}

// Object returns the object in a field, nil if there is none.
func (o Object) Object(key string) (inner Object, err error) {
	if o.Has(key) {
		err = o.Read(key, &inner, "an object")
	}
	return inner, err
}

// Text returns the string in a field, "" if there is none.
func (o Object) Text(key string) (text string, err error) {
	if o.Has(key) {
		err = o.Read(key, &text, "a string")
	}
	return text, err
}

// Bool returns a boolean field, or its default.
func (o Object) Bool(key string, byDefault bool) (value bool, err error) {
	if !o.Has(key) {
		return byDefault, nil
	}
	return value, o.Read(key, &value, "true or false")
}

// Int returns a required field, an integer in plain digits from lo to hi.
func (o Object) Int(key string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(string(o[key]))
	if err != nil || n < lo || n > hi {
		return 0, o.Refuse(key, "an integer from %d to %d", lo, hi)
	}
	return n, nil
}

// Number returns a required field, a number from lo to hi.
func (o Object) Number(key string, lo, hi float64) (float64, error) {
	var x float64
	if !o.Has(key) || json.Unmarshal(o[key], &x) != nil || x < lo || x > hi {
		if lo == math.SmallestNonzeroFloat64 {
			return 0, o.Refuse(key, "a number above 0, at most %g", hi)
		}
		return 0, o.Refuse(key, "a number from %g to %g", lo, hi)
	}
	return x, nil
}

// Numbers returns a required field, n numbers from lo to hi.
func (o Object) Numbers(key string, n int, lo, hi float64) ([]float64, error) {
	var values []float64
	ok := json.Unmarshal(o[key], &values) == nil && len(values) == n
	for _, x := range values {
		ok = ok && x >= lo && x <= hi
	}
	if !ok {
		return nil, o.Refuse(key, "%d numbers from %g to %g", n, lo, hi)
	}
	return values, nil
}

// Short returns a value in one line, truncated if it is long.
func Short(raw json.RawMessage) string {
	const most = 40
	text := []rune(strings.Join(strings.Fields(string(raw)), " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// check refuses text that encoding/json accepts, without recursion.
func check(raw []byte) error {
	type level struct {
		keys    map[string]bool // nil in an array
		wantKey bool
	}
	if len(raw) > MaxBytes {
		return fmt.Errorf("the JSON value has %d bytes, more than %d", len(raw), MaxBytes)
	}
	if !utf8.Valid(raw) {
		return errors.New("not UTF-8")
	}
	var stack []level
	keys, values := 0, 0 // values: those outside of any object or array
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF && len(stack) == 0 && values == 1 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		if n := len(stack) - 1; n >= 0 && stack[n].keys != nil {
			top := &stack[n]
			if key, ok := token.(string); ok && top.wantKey {
				if keys++; keys > maxKeys {
					return fmt.Errorf("more than %d keys", maxKeys)
				}
				if top.keys[key] {
					return fmt.Errorf("key %q appears twice", key)
				}
				top.keys[key], top.wantKey = true, false
				continue
			}
			top.wantKey = true
		} else if n < 0 {
			if values++; values > 1 {
				return errors.New("not JSON: text after the value")
			}
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > maxDepth {
			return fmt.Errorf("more than %d levels", maxDepth)
		}
	}
}
