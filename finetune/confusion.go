// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// Confusion counts what the model calls the images of a set. Its accuracy is Evaluate's top-1: where two classes are
// equally likely, a wrong one counts.
func (m *Model) Confusion(set *data.Set) (report.Confusion, error) {
	answers, err := m.answers(set)
	if err != nil {
		return report.Confusion{}, err
	}
	return confusion(set, answers), nil
}

// answer is what a model says of an image, and how sure it is.
type answer struct {
	class       int
	probability float64
}

func (m *Model) answers(set *data.Set) ([]answer, error) {
	logits, err := m.logitsOf(set)
	if err != nil {
		return nil, err
	}
	answers := make([]answer, len(logits))
	for i, row := range logits {
		if answers[i], err = answerOf(row, int(set.Labels[i])); err != nil {
			return nil, fmt.Errorf("finetune: image %d of %s: %w", i, set.Name, err)
		}
	}
	return answers, nil
}

// answerOf finds the largest of an image's logits [classes] and its part of their softmax. Of several that are equally
// large it is the first that is not the label's, so that a model that cannot tell is not right, as in measure.
func answerOf(logits []float32, label int) (answer, error) {
	if err := finite(logits); err != nil {
		return answer{}, err
	}
	best, class := slices.Max(logits), label
	for c, v := range logits {
		if v == best && c != label {
			class = c
			break
		}
	}
	return answer{class, math.Exp(float64(best) - logSumExp(logits))}, nil
}

// finite refuses logits of a model that diverged.
func finite(logits []float32) error {
	for class, v := range logits {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("logit %d is %v: the model diverged", class, v)
		}
	}
	return nil
}

func confusion(set *data.Set, answers []answer) report.Confusion {
	c := report.NewConfusion(set.Classes)
	for i, a := range answers {
		c.Counts[set.Labels[i]][a.class]++
	}
	return c
}

// mistakes returns the images with wrong answers, the surest first.
func mistakes(set *data.Set, answers []answer) (images []int) {
	for i, a := range answers {
		if a.class != int(set.Labels[i]) {
			images = append(images, i)
		}
	}
	slices.SortStableFunc(images, func(i, j int) int {
		return cmp.Compare(answers[j].probability, answers[i].probability)
	})
	return images
}
