// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// axis is one setting of a sweep with its values, as text for Recipe.Set.
type axis struct {
	key    string
	values []string
}

// parseSweep reads "learning_rate=0.01,0.03;wepe_gate=0.12,0.5". Commas within brackets belong to a value.
func parseSweep(text string) (axes []axis, err error) {
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ';' }) {
		key, list, ok := strings.Cut(part, "=")
		a := axis{key: strings.TrimSpace(key)}
		if !ok || a.key == "" {
			return nil, fmt.Errorf("-sweep: %q is not of the form setting=value,value", part)
		}
		if slices.ContainsFunc(axes, func(other axis) bool { return other.key == a.key }) {
			return nil, fmt.Errorf("-sweep names %s twice", a.key)
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
			value = strings.TrimSpace(value)
			if slices.Contains(a.values, value) {
				return nil, fmt.Errorf("-sweep: %s=%s is there twice", a.key, value)
			}
			a.values = append(a.values, value)
		}
		if len(a.values) == 0 {
			return nil, fmt.Errorf("-sweep: %s has no values", a.key)
		}
		axes = append(axes, a)
	}
	return axes, nil
}

// settingsFor lists the settings that a position is trained with, every combination of the axes' values, the last axis
// running fastest. A hyperparameter of encodings is no choice for one that does not read it.
func settingsFor(position string, axes []axis) []string {
	encoding := vit.Config{Position: position}.Encoding()
	settings := []string{""}
	for _, a := range axes {
		if slices.Contains(vit.Params(), a.key) && !slices.Contains(encoding.Params(), a.key) {
			continue
		}
		var longer []string
		for _, s := range settings {
			for _, v := range a.values {
				longer = append(longer, strings.TrimPrefix(s+";"+a.key+"="+v, ";"))
			}
		}
		settings = longer
	}
	return settings
}
