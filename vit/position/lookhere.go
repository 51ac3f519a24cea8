// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/setting"
)

// newLookHere is LookHere (https://arxiv.org/abs/2405.13985): every head attends in one direction, and less to far
// patches than to near ones. The bias of a patch in view is
//
//	-slope of the block · slope of the head · distance,
//
// with the Euclidean distance of the centres in patches and the slopes of the blocks on a line from 3/2 to 1/2; a patch
// out of view gets lookHereHidden. The bias is rounded to bfloat16, as in the authors' code, whose models are trained
// with it. Pairs with the class token get 0. A patch always sees itself and the patches on the border of the view.
//
// On another grid distances are still counted in patches, and nothing is rescaled.
func newLookHere(scope *model.Scope, c Config) Encoder {
	views := "halves-none"
	readSettings(scope, setting.Choice(ParamLookHereViews, &views, "how much of the image a head sees: the paper's "+
		"LH-180, LH-90 or LH-45", "halves-none", "corners-none", "eighths1-eighths2-none"))
	heads := lookHereHeads(lookHereGroups[views], c.Heads)
	return &fixedBias{name: "lookhere(" + views + ")", c: c, perBlock: true,
		ofOffset: func(layer, head int, o additive.Offset) float64 {
			h, slope := heads[head], 1.5
			if !h.sees(o) {
				return lookHereHidden
			}
			if layer > 0 {
				slope -= float64(layer) / float64(c.Depth-1)
			}
			bias := slope * (h.slope * math.Hypot(float64(o.Rows), float64(o.Cols)))
			return -float64(bfloat16.FromFloat32(float32(bias)).Float32())
		}}
}

// lookHereHidden hides a patch: the greatest bfloat16, negative. Finite, it leaves the softmax of a row finite.
const lookHereHidden = -0x1.FEp127

// lookHereHead is a head that sees patches at the offsets that all of its conditions allow.
type lookHereHead struct {
	views []string
	slope float64
}

// lookHereGroups are, for each value of ParamLookHereViews, the conditions of groups of four heads.
var lookHereGroups = map[string][][4]string{
	"halves-none":  {{"up", "down", "left", "right"}, {}},
	"corners-none": {{"up left", "up right", "down left", "down right"}, {}},
	"eighths1-eighths2-none": {{"upward left", "downward left", "leftward up", "rightward up"},
		{"upward right", "downward right", "leftward down", "rightward down"}, {}},
}

// sees reports whether a key is in view. Half-planes include their border, and so do the quadrants around an axis,
// whose borders are the diagonals.
func (h lookHereHead) sees(key additive.Offset) bool {
	down, right := key.Rows, key.Cols
	across, along := max(right, -right), max(down, -down)
	in := map[string]bool{
		"up": down <= 0, "down": down >= 0, "left": right <= 0, "right": right >= 0,
		"upward": across <= -down, "downward": across <= down, "leftward": along <= -right, "rightward": along <= right,
	}
	for _, view := range h.views {
		if !in[view] {
			return false
		}
	}
	return true
}

// lookHereHeads returns n heads, group after group of four; if the groups do not divide them, the first get four more,
// and the last four may be incomplete. With fewer than four heads, which the authors do not use, two see up and left,
// three also down.
func lookHereHeads(groups [][4]string, n int) (heads []lookHereHead) {
	fours := (n + 3) / 4
	for i, group := range groups {
		mine := fours / len(groups)
		if i < fours%len(groups) {
			mine++
		}
		for k := range 4 * mine {
			which := k % 4
			if n < 4 { // both axes before both directions
				which = [4]int{0, 2, 1}[k]
			}
			h := lookHereHead{strings.Fields(group[which]), math.Exp2(-float64(1 + k/4))}
			if len(h.views) == 0 { // heads that differ only in their slope
				h.slope = math.Exp2(-2 * float64(1+k/mine))
			}
			heads = append(heads, h)
		}
	}
	return heads[:n]
}
