// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// Axis is one setting of a sweep with its values, as text for Recipe.Set.
type Axis struct {
	Key    string
	Values []string
}

// ParseSweep reads "learning_rate=0.01,0.03;wepe_gate=0.12,0.5". Commas within brackets belong to a value.
func ParseSweep(text string) (axes []Axis, err error) {
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ';' }) {
		key, list, ok := strings.Cut(part, "=")
		a := Axis{Key: strings.TrimSpace(key)}
		if !ok || a.Key == "" {
			return nil, fmt.Errorf("sweep: %q is not of the form setting=value,value", part)
		}
		if slices.ContainsFunc(axes, func(other Axis) bool { return other.Key == a.Key }) {
			return nil, fmt.Errorf("the sweep names %s twice", a.Key)
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
			if slices.Contains(a.Values, value) {
				return nil, fmt.Errorf("sweep: %s=%s is there twice", a.Key, value)
			}
			a.Values = append(a.Values, value)
		}
		if len(a.Values) == 0 {
			return nil, fmt.Errorf("sweep: %s has no values", a.Key)
		}
		axes = append(axes, a)
	}
	return axes, nil
}

// settingsFor lists the settings that a position is trained with, every combination of the axes' values, the last axis
// running fastest. A hyperparameter of encodings is no choice for one that does not read it.
func settingsFor(position string, axes []Axis) []string {
	encoding := vit.Config{Position: position}.Encoding()
	settings := []string{""}
	for _, a := range axes {
		if slices.Contains(vit.Params(), a.Key) && !slices.Contains(encoding.Params(), a.Key) {
			continue
		}
		var longer []string
		for _, s := range settings {
			for _, v := range a.Values {
				longer = append(longer, strings.TrimPrefix(s+";"+a.Key+"="+v, ";"))
			}
		}
		settings = longer
	}
	return settings
}
