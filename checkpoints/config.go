// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// modelConfig is a foreign config.json; a field of it is read, and held to its range, when it is asked for.
type modelConfig struct {
	file   string
	fields map[string]json.RawMessage // nil if there is no file
}

// readModelConfig reads a config.json; one that does not exist has no fields.
func readModelConfig(file string) (modelConfig, error) {
	c := modelConfig{file: file}
	raw, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if c.fields, err = jsonObject(raw); err != nil {
		return c, &FormatError{File: file, Reason: err.Error()}
	}
	return c, nil
}

func (c modelConfig) refuse(key, format string, args ...any) error {
	return &FormatError{File: c.file, Reason: key + ": " + fmt.Sprintf(format, args...)}
}

// has tells whether the file gives the field a value.
func (c modelConfig) has(key string) bool {
	raw, ok := c.fields[key]
	return ok && string(raw) != "null"
}

// object returns the object in a field, an empty one if there is none.
func (c modelConfig) object(key string) (modelConfig, error) {
	inner := modelConfig{file: c.file}
	if !c.has(key) {
		return inner, nil
	}
	if err := json.Unmarshal(c.fields[key], &inner.fields); err != nil {
		return inner, c.refuse(key, "%s is no object", short(c.fields[key]))
	}
	return inner, nil
}

// integer returns a field that is there, from 1 to limit and written in plain digits.
func (c modelConfig) integer(key string, limit int) (int, error) {
	n, err := strconv.Atoi(string(c.fields[key]))
	if err != nil || n < 1 || n > limit {
		return 0, c.refuse(key, "%s, want an integer from 1 to %d", short(c.fields[key]), limit)
	}
	return n, nil
}

// text returns a field that is a string, "" if it is not there.
func (c modelConfig) text(key string) (text string, err error) {
	if c.has(key) && json.Unmarshal(c.fields[key], &text) != nil {
		return "", c.refuse(key, "%s is no string", short(c.fields[key]))
	}
	return text, nil
}

// size returns a field that is one number of pixels or [rows, cols]; with channels, [channels, rows, cols].
func (c modelConfig) size(key string, channels int) (Grid, error) {
	if n, err := c.integer(key, maxPixels); err == nil {
		return Grid{n, n}, nil
	}
	var sides []json.Number
	err := json.Unmarshal(c.fields[key], &sides)
	if err == nil && len(sides) == 3 && sides[0].String() == strconv.Itoa(channels) {
		sides = sides[1:]
	}
	if err == nil && len(sides) == 2 {
		rows, rowsErr := strconv.Atoi(sides[0].String())
		cols, colsErr := strconv.Atoi(sides[1].String())
		if rowsErr == nil && colsErr == nil && min(rows, cols) >= 1 && max(rows, cols) <= maxPixels {
			return Grid{rows, cols}, nil
		}
	}
	return Grid{}, c.refuse(key, "%s, want pixels, one number or rows and columns, at most %d", short(c.fields[key]),
		maxPixels)
}

// maxPixels bounds the side of an image.
const maxPixels = 16384

// labels returns the names of n classes in id2label, or as a list in timm's label_names; nil if neither is there.
func (c modelConfig) labels(n int) ([]string, error) {
	const key, timmKey = "id2label", "label_names"
	if c.has(timmKey) {
		var labels []string
		if err := json.Unmarshal(c.fields[timmKey], &labels); err == nil && len(labels) == n {
			return labels, nil
		}
	}
	if !c.has(key) {
		return nil, nil
	}
	var byID map[string]string
	if err := json.Unmarshal(c.fields[key], &byID); err != nil || len(byID) != n {
		return nil, c.refuse(key, "%s, want names of the %d classes of the head", short(c.fields[key]), n)
	}
	labels := make([]string, n)
	for i := range labels {
		name, ok := byID[strconv.Itoa(i)]
		if !ok {
			return nil, c.refuse(key, "class %d has no name", i)
		}
		labels[i] = name
	}
	return labels, nil
}

// short returns a value in one line, cut if it is long.
func short(raw json.RawMessage) string {
	const most = 40
	text := []rune(strings.Join(strings.Fields(string(raw)), " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	if len(text) == 0 {
		return "nothing"
	}
	return string(text)
}

// Limits of a JSON file from strangers.
const (
	maxJSONDepth = 64
	maxJSONKeys  = 1 << 18
)

// jsonObject reads one JSON object of at most 64 levels, UTF-8, in which no key is given twice.
func jsonObject(raw []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, errors.New("not a JSON object")
	}
	return fields, nil
}

// checkJSON holds a text to what encoding/json does not mind, without recursion.
func checkJSON(raw []byte) error {
	type level struct {
		keys    map[string]bool // nil in an array
		wantKey bool
	}
	var stack []level
	keys := 0
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err == io.EOF && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return errors.Errorf("not JSON: %v", err)
		}
		if n := len(stack) - 1; n >= 0 && stack[n].keys != nil {
			top := &stack[n]
			if key, ok := token.(string); ok && top.wantKey {
				if keys++; keys > maxJSONKeys {
					return errors.Errorf("more than %d keys", maxJSONKeys)
				}
				if top.keys[key] {
					return errors.Errorf("key %q given twice", key)
				}
				top.keys[key], top.wantKey = true, false
				continue
			}
			top.wantKey = true
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > maxJSONDepth {
			return errors.Errorf("more than %d levels", maxJSONDepth)
		}
	}
}
