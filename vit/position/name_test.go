// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/setting"
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

// trained describes what is trained: the type of the encoder and the scopes of its variables.
func trained(n named, store *model.Store) (identity string, err error) {
	var e Encoder
	err = exceptions.TryCatch[error](func() { e = n.on(store.RootScope()) })
	var scopes []string
	for v := range store.IterVariables() {
		scope, _, _ := strings.Cut(strings.TrimPrefix(v.Path(), "/position/"), "/")
		scopes = append(scopes, scope)
	}
	slices.Sort(scopes)
	return fmt.Sprintf("%T %v", e, slices.Compact(scopes)), err
}

// onSphere reports whether the features of an encoding are points of the unit sphere, three numbers each.
func onSphere(t *testing.T, n named, store *model.Store) bool {
	features := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		e := n.on(s).(interface{ Features(*Graph) *Node })
		f := e.Features(in[0].Graph())
		return []*Node{f, Scalar(in[0].Graph(), f.DType(), f.Shape().Dim(-1))}
	}, float32(0))
	width := int(features[1][0])
	for i := 0; width%3 == 0 && i < len(features[0]); i += 3 {
		f := features[0][i:]
		if math.Abs(f[0]*f[0]+f[1]*f[1]+f[2]*f[2]-1) > 0.01 {
			return false
		}
	}
	return width%3 == 0
}

// What is trained is what its name says, whatever the hyperparameters are: a name alone decides the form of ℘'s
// features, how ℘ is evaluated and which variables there are.
func TestEncoding_NameCannotBeContradicted(t *testing.T) {
	gomlxtest.OnGo(t)
	sphere := map[string]bool{"wepe": false, "wepe-sum": false, "wepe-lut": false, "wepe-sphere": true,
		"wepe-sphere-lut": true, "wepe-qkv": true, "wepe-v": true}
	built := 0
	for _, spec := range All() {
		n := small(spec.Name)
		want := gomlxtest.Must(trained(n, model.NewStore()))(t)
		for _, row := range recorded(n) {
			for _, value := range others(row) {
				if spec.Name == "hybrid" && row.Name == ParamBlend {
					continue // chooses what is blended, and is part of the label
				}
				store := model.NewStore()
				store.SetParam("/"+row.Name, value)
				got, err := trained(n, store)
				if err != nil {
					continue // refused
				}
				if built++; got != want {
					t.Errorf("%s with %s = %v trains %s, want %s", spec.Name, row.Name, value, got, want)
				}
				if of, isWePE := sphere[spec.Name]; isWePE && onSphere(t, n, store) != of {
					t.Errorf("%s with %s = %v: features on the sphere are %v", spec.Name, row.Name, value, !of)
				}
				table := slices.ContainsFunc(slices.Collect(store.IterVariables()), func(v *model.Variable) bool {
					return strings.HasSuffix(v.Path(), "/table/values")
				})
				if isTable := strings.HasSuffix(spec.Name, "-lut"); table != isTable {
					t.Errorf("%s with %s = %v: a look-up table is %v", spec.Name, row.Name, value, table)
				}
			}
		}
	}
	if built < 300 {
		t.Errorf("%d encodings with a changed setting, want hundreds", built)
	}
}
