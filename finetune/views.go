// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// AverageFlips makes Evaluate and Predict average the scores, see Model.Scores, of each image and its mirror
// image (test-time augmentation), in twice the time.
func (m *Model) AverageFlips() error {
	if err := m.Recipe.oneSize("test-time augmentation"); err != nil {
		return err
	}
	program, err := m.forward(func(scope *model.Scope, images *Node, plan []*Node) []*Node {
		logits := m.logits(scope, Concatenate([]*Node{images, Reverse(images, 2)}, 0), plan) // [2·batch, classes]
		batch, classes := images.Shape().Dim(0), m.Recipe.Model.Classes
		return []*Node{averageOf(Reshape(logits, 2, batch, classes), m.Scores)} // [batch, classes]
	})
	if err != nil {
		return err
	}
	m.eval.Finalize()
	m.eval, m.examined.source = program, nil
	return nil
}

// averageOf returns the logits [batch, classes] whose scores are the mean scores of views with logits [views, batch,
// classes]; scores is Model.Scores.
func averageOf(logits *Node, scores string) *Node {
	switch scores {
	case "sigmoid": // log(p/(1−p)), with 1−p from the opposite logits: near 1 the difference would lose its digits
		return Sub(logOfMean(logSigmoid(logits)), logOfMean(logSigmoid(Neg(logits))))
	case "none":
		return ReduceMean(logits, 0)
	default:
		return logOfMean(LogSoftmax(logits))
	}
}

// logSigmoid is log σ(x) = min(x, 0) − log(1 + exp(−|x|)).
func logSigmoid(x *Node) *Node { return Sub(MinScalar(x, 0), Log1P(Exp(Neg(Abs(x))))) }

// logOfMean is log of the mean of exp(logs) over the first axis.
func logOfMean(logs *Node) *Node {
	peak := ReduceAndKeep(logs, ReduceMax, 0)
	return Add(Squeeze(peak, 0), Log(ReduceMean(Exp(Sub(logs, peak)), 0)))
}
