// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The same images with their classes in another order have the same accuracy, loss and confusion.
func TestLabelled_MatchesClassesByName(t *testing.T) {
	gomlxtest.OnGo(t)
	m := trained(t)
	set, permuted := dataset(29, 3), dataset(29, 3)
	permuted.Classes = strings.Fields("g c a f b e d")
	for i, label := range set.Labels {
		permuted.Labels[i] = int32(slices.Index(permuted.Classes, set.Classes[label]))
	}
	want, wantConfusion, err := m.Examine(set)
	if err != nil || want.Top1 == 0 {
		t.Fatal(want, err)
	}
	got, confusion, err := m.Examine(permuted)
	if err != nil || got != want || !reflect.DeepEqual(confusion, wantConfusion) {
		t.Errorf("permuted classes: %+v %v, %v, want %+v %v", got, confusion, err, want, wantConfusion)
	}
	permuted.Classes = strings.Fields("g c a f b e x")
	m.examined.source = nil
	_, err = m.Evaluate(permuted)
	refused(t, "one other name", err, "6 of the model's 7 classes", "class 0 is a in the model and g in the data")
}

func TestLabelled_OtherNames(t *testing.T) {
	for _, c := range []struct{ model, set, warning, refused string }{
		{"cat dog eel", "cat dog eel", "", ""},
		{"cat dog eel", "dog_y eel_x zcat", "class 0 is cat in the model and dog_y in the data", ""},
		{"cat dog eel", "cat dog fox", "", "class 2 is eel in the model and fox in the data"},
		{"cat dog eel", "dog cat fox", "", "class 0 is cat in the model and dog in the data"},
		{"cat dog eel", "0 1 2", "class 0 is cat in the model and 0 in the data", ""},
		{"10 20 30", "20 30 40", "", "class 0 is 10 in the model and 20 in the data"}, // degrees are names
		{"class_0 class_1", "cat dog", "class 0 is class_0", ""},                      // names that somebody chose
		{"LABEL_0 LABEL_1 LABEL_2", "cat dog eel", "", ""},
		{"0 1 2", "LABEL_0 LABEL_1 LABEL_2", "", ""},
		{"crane crane eel", "crane eel crane", "", "class 1 is crane in the model and eel in the data"}, // of ImageNet
	} {
		m := Model{Classes: strings.Fields(c.model)}
		m.Recipe.Model.Classes = len(m.Classes)
		set := &data.Info{Name: "B", Classes: strings.Fields(c.set), Labels: []int32{1, 0}}
		labelled, warning, err := m.Labelled(set)
		if c.refused != "" {
			refused(t, c.set, err, c.refused, "dataset B", "same names")
			continue
		}
		if err != nil || labelled != set || !strings.Contains(warning, c.warning) || (warning == "") != (c.warning == "") {
			t.Errorf("%s, %s: %q, %v", c.model, c.set, warning, err)
		}
	}
	for set, want := range map[string][]int32{"eel cat": {0, 2}, "eel fox": nil, "eel eel": nil, "eel": nil, "0 1": nil} {
		m := Model{Classes: strings.Fields("cat dog eel")}
		m.Recipe.Model.Classes = 3
		got, warning, err := m.Labelled(&data.Info{Name: "B", Classes: strings.Fields(set), Labels: []int32{1, 0}})
		if want == nil {
			refused(t, set, err, "classes, the model 3")
		} else if err != nil || !slices.Equal(got.Labels, want) || !slices.Equal(got.Classes, m.Classes) ||
			!strings.Contains(warning, "2 of the model's 3 classes") {
			t.Errorf("%s: labels %v of %v, want %v; %q, %v", set, got.Labels, got.Classes, want, warning, err)
		}
	}
	degrees := Model{Classes: strings.Fields("10 20 30")}
	degrees.Recipe.Model.Classes = 3
	some := &data.Info{Classes: strings.Fields("20 30"), Labels: []int32{1, 0}}
	if got, warning, err := degrees.Labelled(some); err != nil || warning == "" || !slices.Equal(got.Labels, []int32{2,
		1}) {
		t.Errorf("%+v, %q, %v", got, warning, err)
	}
	m := Model{Classes: strings.Fields("crane eel crane dog")} // which crane?
	m.Recipe.Model.Classes = 4
	_, _, err := m.Labelled(&data.Info{Name: "B", Classes: strings.Fields("crane eel")})
	refused(t, "two classes of one name", err, "2 classes, the model 4")
	m = Model{Classes: []string{"class 0", "class 1"}} // of Open
	m.Recipe.Model.Classes = 2
	if _, warning, err := m.Labelled(&data.Info{Classes: []string{"cat", "dog"}}); err != nil || warning != "" {
		t.Errorf("%q, %v", warning, err)
	}
	for model, want := range map[string][]int32{
		"cat dog eel": {2, 0, 1}, "LABEL_0 LABEL_1 LABEL_2": {2, 0, 1}, "LABEL_2 LABEL_10 LABEL_1": {1, 2, 0},
	} {
		m := Model{Classes: strings.Fields(model)}
		m.Recipe.Model.Classes = 3
		set := &data.Info{Name: "B", Classes: []string{"10", "2", "3"}, Labels: []int32{0, 1, 2}} // sorted as folders
		got, warning, err := m.Labelled(set)
		if err != nil || !slices.Equal(got.Labels, want) || !strings.Contains(warning, "numbers in their names") {
			t.Errorf("%s: labels %v, want %v; %q, %v", model, got.Labels, want, warning, err)
		}
	}
	m.Classes = []string{"2", "10"} // as a folder per class sorts them
	labelled := gomlxtest.Must(first(m.Labelled(&data.Info{Classes: []string{"10", "2"}, Labels: []int32{0, 0, 1}})))(t)
	if !slices.Equal(labelled.Labels, []int32{1, 1, 0}) || !slices.Equal(labelled.Classes, m.Classes) {
		t.Errorf("labels %v of %v", labelled.Labels, labelled.Classes)
	}
}

func first[A, B any](a A, _ B, err error) (A, error) { return a, err }
