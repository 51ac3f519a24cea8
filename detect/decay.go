// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"
	"strconv"
	"strings"
)

// LearningRateFactor is ViTDet's layer-wise decay: what the learning rate of a variable is multiplied with, by its path
// below the detector's scope. It is rate^(Depth+1) for what makes the tokens, rate^(Depth-i) in block i, and 1 in all
// that pretraining has not seen: pyramid, heads, the bottlenecks within blocks. So it is for encodings but a table of
// positions, as in package finetune: ViTDet has no other.
func (b Backbone) LearningRateFactor(path string, rate float64) float64 {
	layer := b.Depth + 1
	switch path, in := strings.CutPrefix(path, backboneScope+"/"); {
	case !in || strings.Contains(path, "/residual/"):
	case strings.HasPrefix(path, "position/") && path != learnedTable && path != grid2dTable:
	case strings.HasPrefix(path, "block_"):
		number, _, _ := strings.Cut(strings.TrimPrefix(path, "block_"), "/")
		if i, err := strconv.Atoi(number); err == nil {
			layer = i + 1
		}
	default:
		layer = 0
	}
	return math.Pow(rate, float64(b.Depth+1-layer))
}
