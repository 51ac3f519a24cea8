// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// axis is one setting of a sweep with its values, as text for Recipe.Set.
type axis struct {
	key    string
	values []string
}

// axes reads Study.Sweep.
func axes(sweep string) (all []axis, err error) {
	for _, part := range strings.FieldsFunc(sweep, func(c rune) bool { return c == ';' }) {
		key, list, ok := strings.Cut(part, "=")
		a := axis{key: strings.TrimSpace(key)}
		if !ok || a.key == "" {
			return nil, fmt.Errorf("sweep: %q: want setting=value,value", part)
		}
		depth := 0
		values := strings.FieldsFunc(list, func(c rune) bool {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth--
			}
			return c == ',' && depth == 0
		})
		for _, value := range values {
			a.values = append(a.values, strings.TrimSpace(value))
		}
		if len(a.values) == 0 {
			return nil, fmt.Errorf("sweep: %s has no values", a.key)
		}
		if err := distinct("sweep: "+a.key, a.values); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other axis) bool { return other.key == a.key }) {
			return nil, fmt.Errorf("sweep: %s appears twice", a.key)
		}
		all = append(all, a)
	}
	return all, nil
}

// settingsFor lists the settings of a position's training runs: every combination of the axes' values, the last axis
// running fastest. Hyperparameters that the encoding does not read are skipped.
func (s *Study) settingsFor(name string) ([]string, error) {
	all, err := axes(s.Sweep)
	if err != nil {
		return nil, err
	}
	encoding := vit.Config{Position: name}.Encoding()
	settings := []string{""}
	for _, a := range all {
		if slices.Contains(position.Params(), a.key) && !slices.Contains(encoding.Params(), a.key) {
			continue
		}
		var longer []string
		for _, before := range settings {
			for _, v := range a.values {
				longer = append(longer, strings.TrimPrefix(before+";"+a.key+"="+v, ";"))
			}
		}
		settings = longer
	}
	return settings, nil
}
