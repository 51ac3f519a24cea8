// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

func TestJudge_IsTheLargestLogitWithItsSoftmax(t *testing.T) {
	ln2, ln3 := float32(math.Log(2)), float32(math.Log(3))
	for _, test := range []struct {
		logits []float32
		label  int32
		want   verdict
	}{
		{[]float32{0, ln3, 0}, 0, verdict{class: 1, probability: 3. / 5}},
		{[]float32{ln2, ln3, 0}, 1, verdict{class: 1, probability: 3. / 6}},
		{[]float32{0, 0, -ln2}, 1, verdict{class: 0, probability: 1 / 2.5}}, // of two equal classes the wrong one
		{[]float32{0, 0, -ln2}, 0, verdict{class: 1, probability: 1 / 2.5}},
		{[]float32{0, 0, -ln2}, 2, verdict{class: 0, probability: 1 / 2.5}}, // of two wrong ones the first
		{[]float32{-1e30, 1e30}, 0, verdict{class: 1, probability: 1}},
	} {
		got := judge(test.logits, test.label)
		if got.class != test.want.class || !(math.Abs(got.probability-test.want.probability) <= 1e-6) {
			t.Errorf("%v, label %d: got %v, want %v", test.logits, test.label, got, test.want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		e := examination{&data.Info{Name: "diverged"}, []verdict{{}, judge([]float32{0, float32(bad), 1}, 1)}}
		if err := e.answered(); err == nil || !strings.Contains(err.Error(), "image 1 of diverged") {
			t.Errorf("a logit of %v: %v", bad, err)
		}
	}
}

func TestExamination_ConfusionAndMistakes(t *testing.T) {
	set := &data.InMemory{Info: data.Info{Classes: []string{"a", "b", "c"}, Labels: []int32{0, 2, 1, 2, 0, 2, 2}}}
	e := examination{set: &set.Info}
	for i, class := range []int{0, 1, 1, 0, 2, 2, 1} {
		e.verdicts = append(e.verdicts, verdict{class: class, probability: []float64{.9, .6, .5, .7, .6, .99, .8}[i]})
	}
	got := e.confusion()
	if want := [][]int{{1, 0, 1}, {0, 1, 0}, {1, 2, 1}}; !reflect.DeepEqual(got.Counts, want) ||
		!reflect.DeepEqual(got.Classes, set.Classes) {
		t.Errorf("got %+v, want %v", got, want)
	}
	if got, want := e.mistakes(), []int{6, 3, 1, 4}; !reflect.DeepEqual(got, want) {
		t.Errorf("mistakes %v, want %v: the surest first, then in the set's order", got, want)
	}
}

func TestExamination_ADamagedImageCountsInNoMean(t *testing.T) {
	e := examination{&data.Info{Classes: make([]string, 7)}, []verdict{{loss: 1}, {loss: 50, class: damagedImage},
		{loss: 4, rank: 2}}}
	want := report.Metrics{Loss: 2.5, Top1: 0.5, Top5: 1, Images: 2}
	if got := e.metrics(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
