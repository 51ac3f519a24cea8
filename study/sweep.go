// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// axis reads one setting of Study.Sweep with its values, as text for Recipe.Set.
func axis(part string) (key string, values []string, err error) {
	key, list, ok := strings.Cut(part, "=")
	if key = strings.TrimSpace(key); !ok || key == "" {
		return "", nil, fmt.Errorf("sweep: %q: want setting=value,value", part)
	}
	depth := 0
	values = strings.FieldsFunc(list, func(c rune) bool {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		return c == ',' && depth == 0
	})
	for i, value := range values {
		values[i] = strings.TrimSpace(value)
	}
	if len(values) == 0 {
		return "", nil, fmt.Errorf("sweep: %s has no values", key)
	}
	return key, values, distinct("sweep: "+key, values)
}

// settingsFor lists the settings of a position's training runs: every combination of the axes' values, the last axis
// running fastest. Hyperparameters that the encoding does not read are skipped.
func (s *Study) settingsFor(name string) ([]string, error) {
	encoding := vit.Config{Position: name}.Encoding()
	settings, keys := []string{""}, []string(nil)
	for part := range strings.FieldsFuncSeq(s.Sweep, func(c rune) bool { return c == ';' }) {
		key, values, err := axis(part)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, key); slices.Contains(position.Params(), key) && !slices.Contains(encoding.Params(), key) {
			continue
		}
		var longer []string
		for _, before := range settings {
			for _, v := range values {
				longer = append(longer, strings.TrimPrefix(before+";"+key+"="+v, ";"))
			}
		}
		settings = longer
	}
	return settings, distinct("sweep: the setting", keys)
}
