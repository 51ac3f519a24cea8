// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

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

// examination is what became of the images of a set, one by one: their logits, which are many, are not kept.
type examination struct {
	classes  int
	verdicts []verdict // by row of the set
}

// verdict is what a model says of an image, and how right it is.
type verdict struct {
	loss float64
	rank int // of the label, see Rank
	answer
}

// Answers that are none.
const (
	damagedImage = -1 - iota // which is left out
	noAnswer                 // of logits that are not finite
)

var leftOut = verdict{answer: answer{class: damagedImage}}

// judge compares the logits [classes] of an image with its label.
func judge(logits []float32, label int32) verdict {
	v := verdict{loss: logSumExp(logits) - float64(logits[label]), rank: Rank(logits, label)}
	var err error
	if v.answer, err = answerOf(logits, int(label)); err != nil {
		v.class = noAnswer
	}
	return v
}

// metrics are means over the images: an answer is among the first k where its rank is below k.
func (e *examination) metrics() report.Metrics {
	var loss float64
	var top1, top5, images int
	for _, v := range e.verdicts {
		if v.class == damagedImage {
			continue
		}
		images++
		loss += v.loss
		if v.rank < 1 {
			top1++
		}
		if v.rank < min(5, e.classes) { // never right is not among the first five of three either
			top5++
		}
	}
	n := float64(images)
	return report.Metrics{
		Loss: report.Number(loss / n), Top1: report.Number(float64(top1) / n), Top5: report.Number(float64(top5) / n),
		Images: images,
	}
}

// share gives every process of a group the verdicts of all: each has left those of others at zero. A sum of float32
// keeps the bits of a float64 in three whole numbers.
func (e *examination) share(g Group) error {
	const numbers, mask = 8, 1<<22 - 1
	said := make([]float32, 0, numbers*len(e.verdicts))
	for _, v := range e.verdicts {
		if v == (verdict{}) {
			said = append(said, make([]float32, numbers)...)
			continue
		}
		for _, x := range []float64{v.loss, v.probability} {
			bits := math.Float64bits(x)
			said = append(said, float32(bits&mask), float32(bits>>22&mask), float32(bits>>44))
		}
		said = append(said, float32(v.rank), float32(v.class))
	}
	if err := g.Sum(said); err != nil {
		return err
	}
	for i := range e.verdicts {
		s := said[numbers*i:]
		number := func(at int) float64 {
			return math.Float64frombits(uint64(s[at]) | uint64(s[at+1])<<22 | uint64(s[at+2])<<44)
		}
		e.verdicts[i] = verdict{number(0), int(s[6]), answer{int(s[7]), number(3)}}
	}
	return nil
}

// logSumExp is log Σ exp(v), by which logits become log-probabilities.
func logSumExp(logits []float32) float64 {
	peak, sum := float64(slices.Max(logits)), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - peak)
	}
	return peak + math.Log(sum)
}

// answer is what a model says of an image, and how sure it is.
type answer struct {
	class       int // below 0 where the image is left out
	probability float64
}

// answerOf finds the largest of an image's logits [classes] and its part of their softmax. Of several that are equally
// large it is the first that is not the label's, so that a model that cannot tell is not right, as by Rank.
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

func confusion(set *data.Info, answers []answer) report.Confusion {
	c := report.NewConfusion(set.Classes)
	for i, a := range answers {
		if a.class >= 0 {
			c.Counts[set.Labels[i]][a.class]++
		}
	}
	return c
}

// mistakes returns the images with wrong answers, the surest first.
func mistakes(set *data.Info, answers []answer) (images []int) {
	for i, a := range answers {
		if a.class >= 0 && a.class != int(set.Labels[i]) {
			images = append(images, i)
		}
	}
	slices.SortStableFunc(images, func(i, j int) int {
		return cmp.Compare(answers[j].probability, answers[i].probability)
	})
	return images
}
