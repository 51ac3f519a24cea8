// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/train/loss"
)

// loss is what is trained down, from targets and logits [batch, classes]: the cross-entropy, or LossBCE.
func (r Recipe) loss(targets, logits *Node) *Node {
	if r.Loss == LossBCE {
		targets = ConvertDType(GreaterThan(targets, ZerosLike(targets)), logits.DType())
		return ReduceAllMean(loss.BinaryCrossentropyLogits([]*Node{targets}, []*Node{logits}))
	}
	return ReduceAllMean(loss.CategoricalCrossEntropyLogits([]*Node{targets}, []*Node{logits}))
}
