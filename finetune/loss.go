// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/train/loss"
)

// LossBCE is the Recipe.Loss of DeiT-III: every class is a question of its own, answered yes for the classes that a
// picture has a part of, however small mixing made it. The mean is that over pictures and classes of
//
//	−t·log σ(x) − (1−t)·log(1−σ(x)),   t = 1 where the target is above 0
const LossBCE = "bce"

// loss is what is trained down, from targets and logits [batch, classes]: the cross-entropy, or LossBCE.
func (r Recipe) loss(targets, logits *Node) *Node {
	if r.Loss == LossBCE {
		targets = ConvertDType(GreaterThan(targets, ZerosLike(targets)), logits.DType())
		return ReduceAllMean(loss.BinaryCrossentropyLogits([]*Node{targets}, []*Node{logits}))
	}
	return ReduceAllMean(loss.CategoricalCrossEntropyLogits([]*Node{targets}, []*Node{logits}))
}
