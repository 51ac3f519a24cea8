// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// Evaluate measures the model on a set: mean cross-entropy without smoothing, top-1 and top-5 accuracy.
func (m *Model) Evaluate(set *data.Set) (report.Metrics, error) {
	logits, err := m.logitsOf(set)
	if err != nil {
		return report.Metrics{}, err
	}
	return measure(logits, set.Labels), nil
}

func (m *Model) evaluate(p pixels) (report.Metrics, error) {
	logits, err := m.logits(p)
	if err != nil {
		return report.Metrics{}, err
	}
	return measure(logits, p.set.Labels), nil
}

// Rank is how many of the other logits are as large as the label's own, 0 for a right answer: who cannot tell two
// classes apart is not right about either, or a head that starts at zero would be right about all. NaN is never
// right, and as large as any number where another class has it.
func Rank(logits []float32, label int32) (before int) {
	own := logits[label]
	if math.IsNaN(float64(own)) {
		return len(logits)
	}
	for class, v := range logits {
		if class != int(label) && !(v < own) {
			before++
		}
	}
	return before
}

// measure compares logits [images, classes] with labels: an answer is among the first k where its Rank is below k.
func measure(logits [][]float32, labels []int32) report.Metrics {
	var loss float64
	var top1, top5 int
	for i, row := range logits {
		loss += logSumExp(row) - float64(row[labels[i]])
		rank := Rank(row, labels[i])
		if rank < 1 {
			top1++
		}
		if rank < min(5, len(row)) { // never right is not among the first five of three either
			top5++
		}
	}
	n := float64(len(logits))
	return report.Metrics{
		Loss: report.Number(loss / n), Top1: report.Number(float64(top1) / n), Top5: report.Number(float64(top5) / n),
		Images: len(logits),
	}
}

// logSumExp is log Σ exp(v), by which logits become log-probabilities.
func logSumExp(logits []float32) float64 {
	peak, sum := float64(slices.Max(logits)), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - peak)
	}
	return peak + math.Log(sum)
}

// logitsOf computes [images, classes] for a set, or returns what it computed last where that was the same set: the page
// of a run comes right after its result.
func (m *Model) logitsOf(set *data.Set) ([][]float32, error) {
	if m.answered.set == set {
		return m.answered.logits, nil
	}
	if len(set.Classes) != m.Recipe.Model.Classes {
		return nil, fmt.Errorf("finetune: data set %s has %d classes, the model %d", set.Name, len(set.Classes),
			m.Recipe.Model.Classes)
	}
	p := m.upload(set)
	defer p.finalize()
	logits, err := m.logits(p)
	if err == nil {
		m.answered.set, m.answered.logits = set, logits
	}
	return logits, err
}

// logits computes [images, classes] for the images of a set on the device, batch by batch. Of a group each process
// computes some of the batches, and all get all.
func (m *Model) logits(p pixels) ([][]float32, error) {
	classes := m.Recipe.Model.Classes
	flat := make([]float32, p.set.Len()*classes)
	err := m.batches(p, m.eval, m.Recipe.EvalBatchSize, func(first, n int, outputs []*tensors.Tensor) error {
		values, ok := outputs[0].Value().([][]float32)
		if !ok {
			return fmt.Errorf("finetune: logits are %s, want float32 [batch, classes]", outputs[0].Shape())
		}
		for i, row := range values[:n] {
			copy(flat[(first+i)*classes:], row)
		}
		return nil
	})
	if err == nil && m.group != nil {
		err = m.group.Sum(flat)
	}
	return slices.Collect(slices.Chunk(flat, classes)), err
}

// batches runs a program on all images, so many at a time, and calls see with the number of the first and how many of
// the batch count: the last batch is filled up, so that one program serves all.
func (m *Model) batches(p pixels, program *model.Exec, size int,
	see func(first, n int, outputs []*tensors.Tensor) error) error {
	images := p.set.Len()
	rows := make([]int, m.devices.fill(min(size, images)))
	for begin := 0; begin < images; begin += len(rows) {
		if m.group != nil && begin/len(rows)%m.group.Size() != m.group.Rank() {
			continue
		}
		for k := range rows {
			if rows[k] = begin + k; rows[k] >= images {
				rows[k] = begin
			}
		}
		outputs, err := p.call(program, m.evalAugment().Plan(p.set, 0, 0, 0, rows), nil)
		if err != nil {
			return err
		}
		if err = m.confirm(); err == nil {
			err = see(begin, min(len(rows), images-begin), outputs)
		}
		for _, o := range outputs {
			err = errors.Join(err, o.FinalizeAll())
		}
		if err != nil {
			return err
		}
	}
	return nil
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
