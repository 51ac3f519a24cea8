// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
)

// others are values of a setting beside its default; the setting may refuse some.
func others(row setting.Row) (values []any) {
	switch value := row.Value().(type) {
	case bool:
		return []any{!value}
	case int:
		return []any{value + 1, 2, 3}
	case float64:
		return []any{value + 0.3, 0.9*value + 0.02, 2.0}
	}
	for _, word := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(row.Want(), -1) {
		values = append(values, word[1])
	}
	return values
}

// trainedBy describes what is trained: the type of the encoder, its first feature, and the scopes of its variables.
func trainedBy(n named, name string, value any) (identity string, err error) {
	store := stored(map[string]any{name: value})
	var e Encoder
	err = exceptions.TryCatch[error](func() { e = n.on(store.RootScope()) })
	scopes := map[string]bool{}
	for v := range store.IterVariables() {
		scope, _, _ := strings.Cut(strings.TrimPrefix(v.Path(), "/position/"), "/")
		scopes[scope] = true
		if strings.HasSuffix(v.Path(), "/table/values") {
			scopes["a look-up table"] = true
		}
	}
	first := ""
	if field, ok := e.(wepe.Field); ok {
		first = field.FeatureNames()[0]
	}
	return fmt.Sprintf("%T %s %v", e, first, slices.Sorted(maps.Keys(scopes))), err
}

// What is trained is what its name says, whatever the hyperparameters are: a name alone decides the form of ℘'s
// features, how ℘ is evaluated and which variables there are.
func TestEncoding_NameCannotBeContradicted(t *testing.T) {
	published := map[string]string{
		"wepe":            "WePE(paper, exact, linear, 5×3+1) *wepe.encoder Re P(z) [wepe]",
		"wepe-sum":        "WePE(paper, sum, linear, 5×3+1) *wepe.encoder Re P(z) [wepe]",
		"wepe-sphere":     "WePE(sphere, exact, linear, 5×3+1) *wepe.encoder S(P(z)) 1 [wepe_sphere]",
		"wepe-lut":        "WePE(paper, table, linear, 5×3+1) *wepe.encoder Re P(z) [a look-up table wepe]",
		"wepe-sphere-lut": "WePE(sphere, table, linear, 5×3+1) *wepe.encoder S(P(z)) 1 [a look-up table wepe_sphere]",
		"wepe-qkv":        "wepe-qkv *position.modulation S(P(z)) 1 [wepe_qkv]",
		"wepe-v":          "wepe-v *position.modulation S(P(z)) 1 [wepe_v]",
	}
	built := 0
	for _, spec := range All() {
		n := small(spec.Name)
		want := gomlxtest.Must(trainedBy(n, "nothing", 0))(t)
		if row, isWePE := published[n.name]; isWePE {
			is.Equal(t, n.name+" trains", n.on(model.NewStore().RootScope()).Name()+" "+want, row)
		}
		for _, row := range recorded(n) {
			for _, value := range others(row) {
				if n.name == "hybrid" && row.Name == ParamBlend {
					continue // chooses what is blended, and is part of the label
				}
				got, err := trainedBy(n, row.Name, value)
				if err != nil {
					continue // refused
				}
				built++
				is.Equal(t, fmt.Sprintf("%s with %s = %v trains", n.name, row.Name, value), got, want)
			}
		}
	}
	if built < 300 {
		t.Errorf("%d encodings with a changed setting, want hundreds", built)
	}
}
