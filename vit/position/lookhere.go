// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/setting"
)

// ParamLookHereViews is the published model: "halves-none" (default), LH-180 of the paper, where a head sees one half
// of the image or all of it, "corners-none", LH-90, a quarter, or "eighths1-eighths2-none", LH-45, an eighth.
const ParamLookHereViews = "lookhere_views"

// lookHere is the encoding's settings. All but the views have the published values, and are for comparisons with the
// authors' code.
type lookHere struct {
	views              string // a word of lookHereHeads, or one for each block, separated by commas
	distance, fill     string // what the bias grows with, and what a patch out of view gets
	slope, first, last float64
}

func (l *lookHere) settings(published *string) []setting.Row {
	return append(setting.Internal(
		setting.Text("lookhere_words", &l.views, "any views, in place of lookhere_views"),
		setting.Number("lookhere_slope", &l.slope, 0, 1000, "a factor of the whole bias"),
		setting.Number("lookhere_first", &l.first, 0, 1000, "the factor of the first block; the others lie on a line"),
		setting.Number("lookhere_last", &l.last, 0, 1000, "the factor of the last block"),
		setting.Choice("lookhere_distance", &l.distance, "what the bias grows with", "linear", "sqrt", "square"),
		setting.Choice("lookhere_fill", &l.fill, "what a patch out of view gets: nothing, or the bias of "+
			"distance zero or of the greatest distance of the grid", "hidden", "zero", "farthest")),
		setting.Choice(ParamLookHereViews, published, "how much of the image a head sees: the paper's LH-180, LH-90 or LH-45",
			"halves-none", "corners-none", "eighths1-eighths2-none"))
}

// newLookHere is LookHere (https://arxiv.org/abs/2405.13985): every head attends in one direction, and less to far
// patches than to near ones. The bias of a patch in view is
//
//	-slope · slope of the block · slope of the head · distance,
//
// with the Euclidean distance of the centres in patches; a patch out of view gets lookHereHidden. The bias is rounded
// to bfloat16, as in the authors' code, whose models are trained with it. Pairs with the class token get 0. A patch
// always sees itself and the patches on the border of the view.
//
// On another grid distances are still counted in patches, and nothing is rescaled.
func newLookHere(scope *model.Scope, c Config) Encoder {
	l, published := lookHere{distance: "linear", fill: "hidden", slope: 1, first: 1.5, last: 0.5}, "halves-none"
	readSettings(scope, l.settings(&published))
	l.views = cmp.Or(l.views, published)
	words := strings.Split(l.views, ",")
	if len(words) != 1 && len(words) != c.Depth {
		exceptions.Panicf("position: %s names the views of %d blocks, this model has %d: give one for all, or one for each",
			ParamLookHereViews, len(words), c.Depth)
	}
	heads := make([][]lookHereHead, len(words))
	for i, word := range words {
		heads[i] = lookHereHeads(word, c.Heads)
	}
	rows, cols := float64(c.Rows), float64(c.Cols)
	farthest := l.distanceTerm(math.Hypot(rows-1, cols-1))
	bias := func(layer int, h lookHereHead, distance float64) float64 {
		factor := l.first
		if layer > 0 {
			factor += float64(layer) * (l.last - l.first) / float64(c.Depth-1)
		}
		return -float64(bfloat16.FromFloat32(float32(l.slope * factor * (h.slope * distance))).Float32())
	}
	out := &fixedBias{name: "lookhere(" + l.views + ")", c: c, layers: c.Depth}
	out.ofOffset = func(layer, head int, o additive.Offset) float64 {
		h := heads[layer%len(heads)][head]
		distance := l.distanceTerm(math.Hypot(float64(o.Rows), float64(o.Cols)))
		switch visible := h.sees(o); {
		case !visible && l.fill == "hidden":
			return lookHereHidden
		case h.from != fromQuery || !visible && l.fill == "zero":
			distance = 0
		case !visible:
			distance = farthest
		}
		return bias(layer, h, distance)
	}
	if slices.ContainsFunc(heads, func(block []lookHereHead) bool {
		return slices.ContainsFunc(block, func(h lookHereHead) bool { return h.from == fromCenter })
	}) {
		out.toKey = func(layer, head, patch int) float64 {
			x, y := c.patch(patch)
			if h := heads[layer%len(heads)][head]; h.from == fromCenter {
				return bias(layer, h, math.Hypot(y-(rows-1)/2, x-(cols-1)/2))
			}
			return 0
		}
	}
	return out
}

// distanceTerm returns the distance function of the bias.
func (l *lookHere) distanceTerm(distance float64) float64 {
	switch l.distance {
	case "sqrt":
		return math.Sqrt(distance)
	case "square":
		return distance * distance
	}
	return distance
}

// lookHereHidden hides a patch: the greatest bfloat16, negative. Finite, it leaves the softmax of a row finite.
const lookHereHidden = -0x1.FEp127

// lookHereHead is the view of one head: it sees patches at the offsets that all of its conditions allow.
type lookHereHead struct {
	views []string
	from  string // origin of distances: fromQuery, fromCenter or fromNowhere
	slope float64
}

const (
	fromQuery   = ""
	fromCenter  = "center" // of the grid, to the key
	fromNowhere = "zero"   // all are 0
)

// lookHereViews are the views of the four heads of a name: conditions that must all hold, and the origin of distances
// if it is not the query.
var lookHereViews = []struct {
	name  string
	heads [4]string
}{
	{"halves", [4]string{"up", "down", "left", "right"}},
	{"corners", [4]string{"up, left", "up, right", "down, left", "down, right"}},
	{"triangles", [4]string{"upward", "downward", "leftward", "rightward"}},
	{"diagonals", [4]string{"upward or rightward", "upward or leftward", "downward or rightward",
		"downward or leftward"}},
	{"eighths1", [4]string{"upward, left", "downward, left", "leftward, up", "rightward, up"}},
	{"eighths2", [4]string{"upward, right", "downward, right", "leftward, down", "rightward, down"}},
	{"none", [4]string{}},
	{"none1zero3", [4]string{"", fromNowhere, fromNowhere, fromNowhere}},
	{"none2zero2", [4]string{"", "", fromNowhere, fromNowhere}},
	{"none3zero1", [4]string{"", "", "", fromNowhere}},
	{"center", [4]string{fromCenter, fromCenter, fromCenter, fromCenter}},
	{"zero", [4]string{fromNowhere, fromNowhere, fromNowhere, fromNowhere}},
	{"zerohalves", [4]string{"zero, up", "zero, down", "zero, left", "zero, right"}},
	{"zerocorners", [4]string{"zero, up, left", "zero, up, right", "zero, down, left", "zero, down, right"}},
	{"zerotriangles", [4]string{"zero, upward", "zero, downward", "zero, leftward", "zero, rightward"}},
}

// viewNames lists the names in values of ParamLookHereViews.
func viewNames() []string {
	names := make([]string, len(lookHereViews))
	for i, v := range lookHereViews {
		names[i] = v.name
	}
	return names
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
		if !slices.ContainsFunc(strings.Split(view, " or "), func(one string) bool { return in[one] }) {
			return false
		}
	}
	return true
}

// lookHereHeads returns the n heads of a block for a word of ParamLookHereViews: names of lookHereViews joined by "-",
// as in "halves-none", the default (the paper's LH-180; LH-90 is "corners-none", LH-45 "eighths1-eighths2-none"). A
// name stands for four heads with four directions. Heads are assigned in groups of four; if the names do not divide
// them, the first names get one more group, and the last group may be incomplete. With fewer than four heads, which the
// authors do not use, two see up and left, three also down. Words joined by "," apply to successive blocks.
func lookHereHeads(word string, n int) (heads []lookHereHead) {
	names, fours := strings.Split(word, "-"), (n+3)/4
	for i, name := range names {
		row := slices.Index(viewNames(), name)
		if row < 0 {
			exceptions.Panicf("position: %s = %q: unknown view %q: want one of %s, or several joined by -", ParamLookHereViews,
				word, name, strings.Join(viewNames(), ", "))
		}
		mine := fours / len(names)
		if i < fours%len(names) {
			mine++
		}
		mine *= 4
		for k := range mine {
			which := k % 4
			if n < 4 { // both axes before both directions
				which = [4]int{0, 2, 1}[k]
			}
			h := lookHereHead{slope: math.Exp2(-float64(1 + k/4))}
			for word := range strings.SplitSeq(lookHereViews[row].heads[which], ", ") {
				switch word {
				case fromQuery, fromCenter, fromNowhere:
					h.from = word
				default:
					h.views = append(h.views, word)
				}
			}
			if h.from != fromQuery || h.views == nil { // views that differ only in their slope
				h.slope = math.Exp2(-2 * float64(1+k*4/max(mine, 4)))
			}
			heads = append(heads, h)
		}
	}
	return heads[:n]
}
