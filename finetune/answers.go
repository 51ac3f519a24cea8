// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
)

// evaluation contains the answers for a dataset, image by image, without the logits. GoMLX's metrics are sums over
// batches in a graph: they would count the padding of the last batch, have no top-5, count a tie of logits by the order
// of the classes, and keep nothing for the confusion matrix, for skipped images or for the processes of a group.
type evaluation struct {
	set     *data.Info
	answers []answer // by row
}

// answer is a model's for an image: the class of the largest logit, its probability, and the loss and the rank of the
// label.
type answer struct {
	loss        float64
	rank        int // see numeric.Rank
	class       int // or one of the constants below
	probability float64
}

// Values of answer.class that are no class.
const (
	damagedImage = -1 - iota // which is skipped
	noAnswer                 // logits that are not finite
)

// answerOf compares the logits [classes] of an image with its label. Of several largest logits the class is the first
// other than the label: ties are incorrect, as in numeric.Rank.
func answerOf(logits []float32, label int32) answer {
	v := answer{loss: logSumExp(logits) - float64(logits[label]), rank: numeric.Rank(logits, label), class: noAnswer}
	if finite(logits) != nil {
		return v
	}
	largest := slices.Max(logits)
	v.class = int(label)
	for class, logit := range logits {
		if logit == largest && class != int(label) {
			v.class = class
			break
		}
	}
	v.probability = math.Exp(float64(largest) - logSumExp(logits))
	return v
}

// metrics returns means over the images that are not skipped. An answer is among the first k if its rank is below k.
func (e *evaluation) metrics() report.Metrics {
	var loss float64
	var top1, top5, images int
	for _, v := range e.answers {
		if v.class == damagedImage {
			continue
		}
		images++
		loss += v.loss
		if v.rank < 1 {
			top1++
		}
		if v.rank < min(5, len(e.set.Classes)) { // NaN is not in the top 5, even of three classes
			top5++
		}
	}
	n := float64(images)
	return report.Metrics{
		Loss: report.JSONFloat(loss / n), Images: images,
		Top1: report.JSONFloat(float64(top1) / n), Top5: report.JSONFloat(float64(top5) / n),
	}
}

// confusion counts the images of each class by their predicted class.
func (e *evaluation) confusion() report.Confusion {
	c := report.NewConfusion(e.set.Classes)
	for i, v := range e.answers {
		if v.class >= 0 {
			c.Counts[e.set.Labels[i]][v.class]++
		}
	}
	return c
}

// mistakes returns the images with wrong predictions, the most probable first.
func (e *evaluation) mistakes() (images []int) {
	for i, v := range e.answers {
		if v.class >= 0 && v.class != int(e.set.Labels[i]) {
			images = append(images, i)
		}
	}
	slices.SortStableFunc(images, func(i, j int) int {
		return cmp.Compare(e.answers[j].probability, e.answers[i].probability)
	})
	return images
}

// answered returns an error if an image has no prediction.
func (e *evaluation) answered() error {
	i := slices.IndexFunc(e.answers, func(v answer) bool { return v.class == noAnswer })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("finetune: image %d of %s: its logits are not finite: the model diverged", i, e.set.Name)
}

// share gives every process of a group the answers of all; each process leaves the answers of the others at zero.
func (e *evaluation) share(g engine.Group) error {
	var own []float64 // five for each
	for i, v := range e.answers {
		if v != (answer{}) {
			own = append(own, float64(i), float64(v.rank), float64(v.class), v.loss, v.probability)
		}
	}
	message, err := binary.Append(nil, binary.LittleEndian, own)
	if err != nil {
		return err
	}
	all, err := g.Gather(message)
	for _, message := range all {
		numbers := make([]float64, len(message)/binary.Size(0.0))
		if _, err := binary.Decode(message, binary.LittleEndian, numbers); err != nil {
			return err
		}
		for v := range slices.Chunk(numbers, 5) {
			e.answers[int(v[0])] = answer{rank: int(v[1]), class: int(v[2]), loss: v[3], probability: v[4]}
		}
	}
	return err
}

// logSumExp is log Σ exp(v), for log-probabilities of logits.
func logSumExp(logits []float32) float64 {
	peak, sum := float64(slices.Max(logits)), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - peak)
	}
	return peak + math.Log(sum)
}

// finite returns an error for logits of a model that diverged.
func finite(logits []float32) error {
	for class, v := range logits {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("logit %d is %v: the model diverged", class, v)
		}
	}
	return nil
}
