// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import "math"

// proposals are the best of the boxes that the RPN moved its anchors to, in one image of rows × cols pixels: of each
// level, whose boxes end at ends, before of the highest logits; clipped to the image, without empty ones; of those of
// one level that overlap the best; and of all levels after of the highest logits, in falling order.
//
// It runs on the host, between two programs: not all backends can sort.
func (r RPN) proposals(logits []float32, boxes []Box, ends []int, rows, cols, before, after int) ([]Box, []float32) {
	var candidates []Box
	var scores []float32
	var level []int
	begin := 0
	for l, end := range ends {
		order := byScore(logits[begin:end])
		for _, i := range order[:min(before, len(order))] {
			box := boxes[begin+i].Clip(rows, cols)
			if box.Empty() || !finite(logits[begin+i]) {
				continue
			}
			candidates, scores, level = append(candidates, box), append(scores, logits[begin+i]), append(level, l)
		}
		begin = end
	}
	keep := NMS(candidates, scores, level, float32(r.Overlap), after)
	kept, logit := make([]Box, len(keep)), make([]float32, len(keep))
	for k, i := range keep {
		kept[k], logit[k] = candidates[i], scores[i]
	}
	return kept, logit
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
