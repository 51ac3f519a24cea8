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
	want, wantConfusion, err := m.EvaluateWithConfusion(set)
	if err != nil || want.Top1 == 0 {
		t.Fatal(want, err)
	}
	got, confusion, err := m.EvaluateWithConfusion(permuted)
	if err != nil || got != want || !reflect.DeepEqual(confusion, wantConfusion) {
		t.Errorf("permuted classes: %+v %v, %v, want %+v %v", got, confusion, err, want, wantConfusion)
	}
	permuted.Classes = strings.Fields("g c a f b e x")
	m.examined.source = nil
	_, err = m.Evaluate(permuted)
	refused(t, "one other name", err, "6 of the model's 7 classes", "class 0 is a in the model and g in the data")
}

// Labels 1 and 0 of a dataset in the model's classes; nil where the classes do not match.
func TestLabelled_OtherNames(t *testing.T) {
	for _, c := range []struct {
		model, set string
		labels     []int32
		warns      bool
	}{
		{"cat dog eel", "cat dog eel", []int32{1, 0}, false},
		{"cat dog eel", "dog_y eel_x zcat", []int32{1, 0}, true},
		{"cat dog eel", "cat dog fox", nil, false}, {"cat dog eel", "dog cat fox", nil, false},
		{"cat dog eel", "0 1 2", []int32{1, 0}, true},
		{"10 20 30", "20 30 40", nil, false},                // degrees are names
		{"class_0 class_1", "cat dog", []int32{1, 0}, true}, // names that somebody chose
		{"LABEL_0 LABEL_1 LABEL_2", "cat dog eel", []int32{1, 0}, false},
		{"0 1 2", "LABEL_0 LABEL_1 LABEL_2", []int32{1, 0}, false},
		{"crane crane eel", "crane eel crane", nil, false}, // of ImageNet
		// A part of the classes.
		{"cat dog eel", "eel cat", []int32{0, 2}, true}, {"cat dog eel", "eel fox", nil, false},
		{"cat dog eel", "eel eel", nil, false}, {"cat dog eel", "eel", nil, false}, {"cat dog eel", "0 1", nil, false},
		{"10 20 30", "20 30", []int32{2, 1}, true}, {"crane eel crane dog", "crane eel", nil, false}, // which crane?
		// By the numbers in names, which folders sort as text.
		{"cat dog eel", "10 2 3", []int32{0, 2}, true}, {"LABEL_0 LABEL_1 LABEL_2", "10 2 3", []int32{0, 2}, true},
		{"LABEL_2 LABEL_10 LABEL_1", "10 2 3", []int32{2, 1}, true}, {"2 10", "10 2", []int32{0, 1}, false},
	} {
		m := Model{Classes: strings.Fields(c.model)}
		m.Recipe.Model.Classes = len(m.Classes)
		set := &data.Info{Name: "B", Classes: strings.Fields(c.set), Labels: []int32{1, 0}}
		labelled, warning, err := m.Labelled(set)
		if c.labels == nil {
			refused(t, c.model+", "+c.set, err, "dataset B", "classes")
		} else if err != nil || !slices.Equal(labelled.Labels, c.labels) || (warning != "") != c.warns {
			t.Errorf("%s, %s: labels %v, want %v; %q, %v", c.model, c.set, labelled, c.labels, warning, err)
		}
	}
	m := Model{Classes: []string{"class 0", "class 1"}} // of Open
	m.Recipe.Model.Classes = 2
	if _, warning, err := m.Labelled(&data.Info{Classes: []string{"cat", "dog"}}); err != nil || warning != "" {
		t.Errorf("%q, %v", warning, err)
	}
}
