// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"reflect"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestAnswerIsTheLargestLogitAndItsPartOfTheSoftmax(t *testing.T) {
	ln2, ln3 := float32(math.Log(2)), float32(math.Log(3))
	for _, test := range []struct {
		logits []float32
		label  int
		want   answer
	}{
		{[]float32{0, ln3, 0}, 0, answer{1, 3. / 5}},
		{[]float32{ln2, ln3, 0}, 1, answer{1, 3. / 6}},
		{[]float32{0, 0, -ln2}, 1, answer{0, 1 / 2.5}}, // of two that are equal the wrong one
		{[]float32{0, 0, -ln2}, 0, answer{1, 1 / 2.5}},
		{[]float32{0, 0, -ln2}, 2, answer{0, 1 / 2.5}}, // of two wrong ones the first
		{[]float32{-1e30, 1e30}, 0, answer{1, 1}},
	} {
		got, err := answerOf(test.logits, test.label)
		if err != nil || got.class != test.want.class || math.Abs(got.probability-test.want.probability) > 1e-6 {
			t.Errorf("%v, label %d: got %v (%v), want %v", test.logits, test.label, got, err, test.want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := answerOf([]float32{0, float32(bad), 1}, 1); err == nil {
			t.Errorf("no error for a logit of %v", bad)
		}
	}
}

func TestConfusionAndMistakesOfHandMadeAnswers(t *testing.T) {
	set := &data.Memory{Info: data.Info{Classes: []string{"a", "b", "c"}, Labels: []int32{0, 2, 1, 2, 0, 2, 2}}}
	answers := []answer{{0, 0.9}, {1, 0.6}, {1, 0.5}, {0, 0.7}, {2, 0.6}, {2, 0.99}, {1, 0.8}}
	got := confusion(&set.Info, answers)
	if want := [][]int{{1, 0, 1}, {0, 1, 0}, {1, 2, 1}}; !reflect.DeepEqual(got.Counts, want) ||
		!reflect.DeepEqual(got.Classes, set.Classes) {
		t.Errorf("got %+v, want %v", got, want)
	}
	if got, want := mistakes(&set.Info, answers), []int{6, 3, 1, 4}; !reflect.DeepEqual(got, want) {
		t.Errorf("mistakes %v, want %v: the surest first, then in the set's order", got, want)
	}
}

func TestTheAnswersOfAModelAgreeWithEvaluate(t *testing.T) {
	set := pictures(31, 2)
	m := gomlxtest.Must(newModel(gomlxtest.Backend(), gomlxtest.Must(tiny().fit(set.Describe()))(t), set.Classes, 3))(t)
	answers := gomlxtest.Must(m.answers(set))(t)
	metrics := gomlxtest.Must(m.Evaluate(set))(t)
	if right := set.Len() - len(mistakes(&set.Info, answers)); float64(right)/float64(set.Len()) != float64(metrics.Top1) {
		t.Errorf("%d right answers of %d, Evaluate says %v", right, set.Len(), metrics.Top1)
	}
}
