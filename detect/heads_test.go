// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Missing samples, and in later stages boxes that became empty by clipping, change no loss: the losses are the same
// without them.
func TestMissingSamplesCountInNoLoss(t *testing.T) {
	const classes, batch = 3, 2
	boxes := []Box{{1, 2, 9, 12}, {4, 4, 20, 17}, {2, 8, 5, 9}, {7, 1, 8, 19}, {0, 0, 11, 13}}
	labels := []int64{1, 0, 3, 3, 2}
	second := slices.Clone(boxes) // output of the first stage
	for i := range second {
		second[i][2]++
	}
	losses := func(kept []int, extra int) []float64 {
		var of, after, targets []Box
		var label []int64
		var logits, by []float32
		for range batch {
			for _, i := range kept {
				of, after, label = append(of, boxes[i]), append(after, second[i]), append(label, labels[i])
				targets = append(targets, Box{1, 1, 10, 10})
				for k := range classes + 1 {
					logits = append(logits, float32((i*5+k*3)%7))
				}
				by = append(by, float32(i), 0.5, -0.5, 0.1)
			}
			for range extra {
				of, after, label = append(of, Box{}), append(after, Box{5, 0, 5, 9}), append(label, -1)
				targets = append(targets, Box{})
				logits = append(logits, 5, 4, 3, 2)
				by = append(by, 9, 9, 9, 9)
			}
		}
		n := len(kept) + extra
		r := regions{ROI: ROI{Stages: cascadeStages()[:2]}, classes: classes}
		objects := []Box{{1, 2, 10, 12}, {4, 4, 20, 18}, {0, 0, 12, 13}, {}} // the last one is empty
		out := gomlxtest.Run(t, func(in []*Node) []*Node {
			in0 := Inputs[*Node]{Classes: in[0], Targets: in[1], Objects: in[2], ObjectClasses: in[3]}
			stages := []stageOutput{{Boxes: in[4], Logits: in[6], Deltas: in[7]}, {Boxes: in[5], Logits: in[6], Deltas: in[7]}}
			class, box := r.losses(stages, in0)
			return append(class, box...)
		}, tensors.FromFlatDataAndDimensions(label, batch, n), boxTensor(targets, batch, n),
			boxTensor(slices.Repeat(objects, batch), batch, len(objects)),
			tensors.FromFlatDataAndDimensions(slices.Repeat([]int64{1, 0, 2, -1}, batch), batch, len(objects)),
			boxTensor(of, batch, n), boxTensor(after, batch, n),
			tensors.FromFlatDataAndDimensions(logits, batch, n, classes+1),
			tensors.FromFlatDataAndDimensions(by, batch, n, 1, 4))
		var all []float64
		for _, x := range out {
			all = append(all, x...)
		}
		return all
	}
	all := []int{0, 1, 2, 3, 4}
	want := losses(all, 0)
	gomlxtest.NearAbs(t, "with samples that are none", losses(all, 3), want, 1e-6)
	for i, x := range want {
		if !(x > 0.01) {
			t.Errorf("loss %d is %g: the case proves nothing", i, x)
		}
	}

	// An object's box that became empty by clipping counts only in the first stage.
	without := losses([]int{0, 1, 3, 4}, 0)
	second[2] = Box{5, 0, 5, 9}
	with := losses(all, 0)
	gomlxtest.NearAbs(t, "second stage", []float64{with[1], with[3]}, []float64{without[1], without[3]}, 1e-6)
	gomlxtest.NearAbs(t, "first stage", []float64{with[0], with[2]}, []float64{want[0], want[2]}, 1e-6)
}

// XLA rounds the operands of products to 10 bits on CUDA, and pixels have more.
func TestBoxesAreMatchedWithoutAProduct(t *testing.T) {
	objects := []Box{{900.123, 2, 1000.877, 12}, {4, 4.0625, 1020.001, 18}, {0, 0, 1, 1}}
	out := gomlxtest.Run(t, func(in []*Node) []*Node {
		labels, targets := regions{classes: 9}.matched(in[0], Inputs[*Node]{Objects: in[1], ObjectClasses: in[2]}, 0.5)
		for _, node := range labels.Graph().Nodes() {
			if node.Type() == NodeTypeDotGeneral {
				t.Errorf("a product: %s", node)
			}
		}
		return []*Node{labels, targets}
	}, boxTensor([]Box{objects[1], {900, 2, 930, 12}, objects[0], {0, 0, 1, 1}}, 1, 4), boxTensor(objects, 1, 3),
		tensors.FromFlatDataAndDimensions([]int64{7, 3, -1}, 1, 3))
	// The second box overlaps too little, the last only what is no object.
	gomlxtest.NearAbs(t, "labels", out[0], []float64{3, 9, 7, 9}, 0)
	for i, object := range []int{1, 0, 0} {
		for k, x := range objects[object] {
			gomlxtest.NearAbs(t, "box", out[1][4*i+k:4*i+k+1], []float64{float64(x)}, 0)
		}
	}
}

func TestSamplingDrawsBySeedAndNeverWhatIsIgnored(t *testing.T) {
	labels := make([]int, 101)
	for i := range labels {
		labels[i] = []int{matchNone, matchNone, matchObject, matchIgnored}[i%4]
	}
	drawn := func(seed uint64) (objects, background []int) {
		return sampled(labels, 40, 0.25, permuted(rand.New(rand.NewPCG(seed, 1))))
	}
	objects, background := drawn(3)
	if len(objects) != 10 || len(background) != 30 {
		t.Errorf("%d objects and %d of background, want 10 and 30", len(objects), len(background))
	}
	for _, i := range objects {
		if labels[i] != matchObject {
			t.Errorf("%d is no object", i)
		}
	}
	for _, i := range background {
		if labels[i] != matchNone {
			t.Errorf("%d is not background", i)
		}
	}
	again, _ := drawn(3)
	other, _ := drawn(4)
	if !slices.Equal(objects, again) || slices.Equal(objects, other) {
		t.Error("a seed does not decide what is drawn")
	}
	if objects, background = sampled(labels[:6], 40, 0.25, permuted(rand.New(rand.NewPCG(1, 1)))); len(objects) != 1 ||
		len(background) != 4 {
		t.Errorf("of six labels %v and %v are drawn", objects, background)
	}
}

func TestAnInvalidGroundTruthIsRefusedByName(t *testing.T) {
	good := Annotations{Rows: 20, Cols: 30, Boxes: []Box{{1, 2, 3, 4}}, Classes: []int{2}}
	for _, sound := range []Annotations{good, {Rows: 1, Cols: 1}, {Rows: 3, Cols: 30}, {Rows: 20, Cols: 5},
		{Rows: 20, Cols: 30, Boxes: []Box{{-5, 2, 3, 2.5}}, Classes: []int{0}, Masks: []Mask{nil}}} {
		if err := sound.check(20, 30, 3); err != nil {
			t.Errorf("%+v: %v", sound, err)
		}
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		change func(*Annotations)
		want   string
	}{
		{func(x *Annotations) { x.Rows = 21 }, "21×30 pixels"}, {func(x *Annotations) { x.Rows = 0 }, "0×30 pixels"},
		{func(x *Annotations) { x.Cols = 31 }, "20×31 pixels"}, {func(x *Annotations) { x.Cols = 0 }, "20×0 pixels"},
		{func(x *Annotations) { x.Masks = make([]Mask, 2) }, "1 boxes have 1 classes and 2 masks"},
		{func(x *Annotations) { x.Classes = []int{-1} }, "class -1, want 0 to 2"},
		{func(x *Annotations) { x.Boxes = []Box{{-inf, 2, 3, 4}} }, "object 0 has the box [-Inf 2 3 4]"},
		{func(x *Annotations) { x.Boxes = []Box{{1, 2, inf, 4}} }, "the box [1 2 +Inf 4]"},
		{func(x *Annotations) { x.Boxes = []Box{{1, -inf, 3, 4}} }, "the box [1 -Inf 3 4]"},
		{func(x *Annotations) { x.Boxes = []Box{{1, 2, 3, inf}} }, "the box [1 2 3 +Inf]"},
		{func(x *Annotations) { x.Boxes = []Box{{1, nan, 3, 4}} }, "the box [1 NaN 3 4]"},
		{func(x *Annotations) { x.Classes = nil }, "1 boxes have 0 classes"},
		{func(x *Annotations) { x.Masks = []Mask{} }, "and 0 masks"},
		{func(x *Annotations) { x.Classes = []int{3} }, "class 3, want 0 to 2"},
		{func(x *Annotations) { x.Boxes = []Box{{3, 2, 3, 4}} }, "the box [3 2 3 4]"},
		{func(x *Annotations) { x.Boxes = []Box{{1, 4, 3, 4}} }, "the box [1 4 3 4]"},
	} {
		x := good
		c.change(&x)
		if err := x.check(20, 30, 3); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	for _, mask := range []Mask{Bitmap{Rows: 3, Cols: 5, Pixels: make([]bool, 14)}, Polygons{}} {
		if _, err := mask.target(Box{0, 0, 2, 2}, 7); err == nil || !strings.HasPrefix(err.Error(), "detect: ") {
			t.Errorf("%#v: error %v", mask, err)
		}
	}
}

// A program is compiled for each shape of its inputs: images with few objects share one.
func TestTheNumberOfObjectsChangesNoShapeWhileTheyAreFew(t *testing.T) {
	c := Config{RPN: RPN{Samples: 5}, ROI: ROI{Samples: 7, MaskSize: 3}}.WithDefaults()
	c.Backbone.Classes = 2
	anchors := []Box{{0, 0, 11, 13}, {5, 5, 23, 17}}
	for objects, want := range map[int]int{0: 8, 1: 8, 3: 8, 8: 8, 9: 16} {
		truth := Annotations{Rows: 29, Cols: 31, Boxes: slices.Repeat(anchors[:1], objects), Classes: make([]int, objects)}
		in := gomlxtest.Must(c.targets([]Annotations{truth}, anchors, make([][]Box, 1), func(int) draw {
			return permuted(rand.New(rand.NewPCG(1, 2)))
		}))(t)
		if got := in.Objects.Shape().Dim(1); got != want || in.ObjectClasses.Shape().Dim(1) != want {
			t.Errorf("%d objects are filled up to %d, their classes to %d, want %d", objects, got,
				in.ObjectClasses.Shape().Dim(1), want)
		}
	}
}

// Of an object of 1016 pixels the image has 0.05: scaled to its mask of 28 cells, the object is beyond what is drawn.
func TestTheMaskOfASliverIsUnknown(t *testing.T) {
	box, all := Box{1023.95, 0, 1024, 50}, Box{0, 0, 1024, 50}
	c := Config{RPN: RPN{Samples: 1}, ROI: ROI{Samples: 4, Positive: 0.5}}.WithDefaults()
	truth := Annotations{Rows: 1024, Cols: 1024, Boxes: []Box{box, all}, Classes: []int{0, 0}, Masks: []Mask{
		Polygons{{1023.95, 0, 2040, 0, 2040, 50, 1023.95, 50}}, Polygons{{0, 0, 1024, 0, 1024, 50, 0, 50}}}}
	first := func(int) draw { return func(from []int, n int) []int { return from[:n] } }
	in := gomlxtest.Must(c.targets([]Annotations{truth}, truth.Boxes, make([][]Box, 1), first))(t)
	want := slices.Concat(slices.Repeat([]float32{-1}, 28*28), slices.Repeat([]float32{1}, 28*28))
	if got := gomlxtest.Must(tensors.CopyFlatData[float32](in.Masks))(t); !slices.Equal(got, want) {
		t.Errorf("masks %v", got)
	}
	truth.Masks[0] = Polygons{}
	if _, err := c.targets([]Annotations{truth}, truth.Boxes, make([][]Box, 1), first); err == nil {
		t.Error("an object without polygons is no error")
	}
}

// Boxes that touch, or have no area, have an IoU of 0.
func TestBoxesOverlapOnlyWithACommonArea(t *testing.T) {
	for _, c := range []struct {
		a, b Box
		want float32
	}{
		{Box{0, 0, 2, 1}, Box{0, 0, 1, 1}, 0.5}, {Box{0, 0, 0.5, 0.25}, Box{0, 0, 0.5, 0.25}, 1},
		{Box{0, 0, 2, 3}, Box{2, 0, 4, 3}, 0}, {Box{0, 0, 2, 3}, Box{0, 3, 2, 5}, 0}, {Box{0, 0, 2, 3}, Box{5, 7, 9, 9}, 0},
		{Box{1, 2, 1, 2}, Box{1, 2, 1, 2}, 0}, {Box{1, 2, 1, 5}, Box{1, 2, 1, 5}, 0}, {Box{1, 2, 5, 2}, Box{1, 2, 5, 2}, 0},
	} {
		if got := boxIoU(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
	for box, want := range map[Box]bool{{0, 0, 0.5, 0.25}: false, {1, 2, 1, 5}: true, {1, 2, 5, 2}: true,
		{5, 2, 1, 7}: true, {1, 7, 5, 2}: true} {
		if box.Empty() != want {
			t.Errorf("%v: empty %v", box, box.Empty())
		}
	}
}

// As a stable sort of all orders them, NaN last, also where scores rise and where many are equal.
func TestTheHighestScoresAreTheFirstOfAStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for name, score := range map[string]func(i int) float32{
		"drawn": func(int) float32 { return r.Float32() }, "rising": func(i int) float32 { return float32(i) },
		"equal": func(int) float32 { return 7 }, "few values": func(int) float32 { return float32(r.IntN(5)) },
		"some NaN": func(int) float32 { return float32(math.Log(r.Float64() - 0.3)) },
	} {
		scores, want := make([]float32, 1000), make([]int, 1000)
		for i := range scores {
			scores[i], want[i] = score(i), i
		}
		slices.SortStableFunc(want, func(i, j int) int { return cmp.Compare(scores[j], scores[i]) })
		for _, n := range []int{0, 1, 2, 30, 499, 500, 501, 999, 1000, 2000} {
			if got := byScore(scores, n); !slices.Equal(got, want[:min(n, 1000)]) {
				t.Errorf("%s: the highest %d are %v", name, n, got)
			}
		}
	}
}

// The second box overlaps the first by exactly 1/2, the third by 2/3, in another group.
func TestABoxIsSuppressedByAGreaterOverlapInItsGroup(t *testing.T) {
	boxes := []Box{{0, 0, 2, 1}, {0, 0, 1, 1}, {0, 0, 3, 1}}
	scores := []float32{0.9, 0.5, 0.7}
	for _, c := range []struct {
		overlap float32
		groups  []int
		limit   int
		want    []int
	}{
		{0.5, []int{0, 0, 0}, 3, []int{0, 1}}, {0.49, []int{0, 0, 0}, 3, []int{0}}, {0.7, []int{0, 0, 0}, 3, []int{0, 2, 1}},
		{0.5, []int{0, 0, 1}, 3, []int{0, 2, 1}}, {0.7, []int{0, 0, 0}, 2, []int{0, 2}}, {0.7, []int{0, 0, 0}, 1, []int{0}},
	} {
		if got := nms(boxes, scores, c.groups, c.overlap, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%+v: kept %v", c, got)
		}
	}
}

// Exactly at a threshold a box belongs to the upper label. The second object's best box is below the lower one.
func TestMatchesBeginAtTheirThresholds(t *testing.T) {
	quality := [][]float32{{0.7, 0.6875, 0.25, 0.1875, 0}, {0, 0.125, 0, 0.125, 0.0625}}
	for allowLow, want := range map[bool][]int{
		false: {matchObject, matchIgnored, matchIgnored, matchNone, matchNone},
		true:  {matchObject, matchObject, matchIgnored, matchObject, matchNone},
	} {
		objects, labels := matcher{0.25, 0.7, allowLow}.match(quality, 5)
		if !slices.Equal(labels, want) || !slices.Equal(objects, []int{0, 0, 0, 0, 1}) {
			t.Errorf("%v: labels %v of objects %v, want %v", allowLow, labels, objects, want)
		}
	}
	if objects, labels := (matcher{low: 0.5, high: 0.5}).match([][]float32{{0.5, 0.25}}, 2); labels[0] != matchObject ||
		labels[1] != matchNone || objects[0] != 0 {
		t.Errorf("one object: %v, %v", objects, labels)
	}
}

// PolygonMasks.crop_and_resize of detectron2 takes a side of a box as 0.1 if it is shorter.
func TestAPolygonIsScaledToItsBox(t *testing.T) {
	cells := func(right, bottom int) (want []float32) { // of 4 × 4, inside above and left of a cell
		for i := range 16 {
			want = append(want, map[bool]float32{true: 1}[i/4 < bottom && i%4 < right])
		}
		return want
	}
	for _, c := range []struct {
		box  Box
		want []float32
	}{
		{Box{2, 3, 10, 7}, cells(4, 4)}, {Box{2, 3, 2.5, 3.25}, cells(4, 4)}, {Box{2, 3, 2.05, 7}, cells(2, 4)},
		{Box{2, 3, 10, 3.05}, cells(4, 2)},
	} {
		b := c.box
		left, top, right, bottom := float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])
		polygon := Polygons{{left, top, right, top, right, bottom, left, bottom}}
		if got := gomlxtest.Must(polygon.target(b, 4))(t); !slices.Equal(got, c.want) {
			t.Errorf("the mask of %v is %v, want %v", b, got, c.want)
		}
	}
}

// Cells that are pixels have their values, and a cell between a pixel inside and one outside is inside.
func TestABitmapIsReadAtTheCentresOfCells(t *testing.T) {
	b := Bitmap{Rows: 5, Cols: 7, Pixels: make([]bool, 5*7)}
	for i := range b.Pixels {
		b.Pixels[i] = i*i%5 < 2 || i%7 == 3
	}
	target := func(box Box, side int) []float32 { return gomlxtest.Must(b.target(box, side))(t) }
	var want []float32
	for i := range 25 {
		want = append(want, map[bool]float32{true: 1}[b.Pixels[i/5*7+i%5+1]])
	}
	if got := target(Box{1, 0, 6, 5}, 5); !slices.Equal(got, want) {
		t.Errorf("pixels %v, want %v", got, want)
	}
	b = Bitmap{Rows: 1, Cols: 3, Pixels: []bool{true, false, false}}
	for left, want := range map[float32]float32{0.25: 1, 0.5: 1, 0.625: 0} {
		if got := target(Box{left, 0, left + 1, 1}, 1); got[0] != want {
			t.Errorf("a cell from %g is %g, want %g", left, got[0], want)
		}
	}
}

// A point up to one cell outside the centres of the border cells has the border's value, a farther one is 0. A bin of
// 2.5 cells has three samples, at 1/6, 1/2 and 5/6 of it.
func TestWeightsOfABinAreThoseOfItsPoints(t *testing.T) {
	const sixth = 2.5 / 6
	for _, c := range []struct {
		begin, end float32
		bins       int
		want       [][]float64
	}{
		{-1, 0, 1, [][]float64{{1, 0, 0}}}, {-1.25, -0.25, 1, [][]float64{{0, 0, 0}}}, {3, 4, 1, [][]float64{{0, 0, 1}}},
		{3.25, 4.25, 1, [][]float64{{0, 0, 0}}}, {1, 2, 1, [][]float64{{0, 1, 0}}}, {2, 1, 1, [][]float64{{0, 0, 0}}},
		{0.5, 2.5, 2, [][]float64{{0.5, 0.5, 0}, {0, 0.5, 0.5}}},
		{0.5, 3, 1, [][]float64{{(1 - sixth + 0) / 3, (sixth + 0.75) / 3, (0.25 + 1) / 3}}},
	} {
		for i, line := range binWeights(c.begin, c.end, c.bins, 3) {
			gomlxtest.NearAbs(t, "weights", line, c.want[i], 1e-6)
		}
	}
}

func TestProposalsHaveFiniteLogitsAndAnArea(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for x, want := range map[float32]bool{1: true, -1e30: true, inf: false, -inf: false} {
		if finite(x) != want {
			t.Errorf("%g: finite %v", x, finite(x))
		}
	}
	boxes := []Box{{0, 0, 5, 5}, {10, 0, 15, 5}, {20, 0, 25, 5}, {40, 0, 45, 5}, {10, 10, 15, 15}}
	kept, _ := RPN{Overlap: 0.7}.proposals([]float32{nan, inf, 5, 7, -inf}, boxes, []int{5}, 20, 30, 5, 5)
	if !slices.Equal(kept, boxes[2:3]) { // the fourth is beyond the image
		t.Errorf("proposals %v", kept)
	}
}

// Of six samples in two images, four are missing: label -1. The object's box is its anchor, whose deltas are zero.
func TestMissingAnchorsCountInNoLoss(t *testing.T) {
	anchors := []Box{{0, 0, 8, 4}, {2, 2, 6, 12}}
	logits, by := []float32{2, -1, 0.5, 3}, []float32{0.5, -0.25, 1, 2, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		class, box := RPN{Samples: 3}.losses(in[0], in[1], in[2], Inputs[*Node]{Anchors: in[3], AnchorLabels: in[4],
			AnchorBoxes: in[5]})
		return []*Node{class, box}
	}, tensors.FromFlatDataAndDimensions(logits, 2, 2), tensors.FromFlatDataAndDimensions(by, 2, 2, 4),
		boxTensor(anchors, 2), tensors.FromFlatDataAndDimensions([]int64{0, 0, 1, 1, 0, 1}, 2, 3),
		tensors.FromFlatDataAndDimensions([]float32{1, -1, -1, 0, -1, -1}, 2, 3),
		boxTensor([]Box{anchors[0], anchors[1], anchors[1], anchors[1], anchors[0], anchors[0]}, 2, 3))
	object, background := math.Log1p(math.Exp(-2)), math.Log1p(math.Exp(3)) // of logits 2 and 3
	gomlxtest.NearAbs(t, "classes", got[0], []float64{(object + background) / 6}, 1e-6)
	gomlxtest.NearAbs(t, "boxes", got[1], []float64{(0.5 + 0.25 + 1 + 2) / 6}, 1e-6)
}

func TestALossIsAShareOfItsSamplesAndZeroWithoutAny(t *testing.T) {
	for number, want := range map[float32]float64{0: 6, 1: 6, 3: 2} {
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{share(in[0], in[1])} }, []float32{4, -1, 3}, number)
		gomlxtest.NearAbs(t, "share", got[0], []float64{want}, 1e-6)
	}
	if got := (Config{ROI: ROI{NoMasks: true}}).LossNames(); !slices.Equal(got, []string{"rpn_class", "rpn_box", "class_0",
		"box_0"}) {
		t.Errorf("losses %v", got)
	}
}

// Of sizes 5×3 and 2×7 in a canvas of 5×7 none is rescaled; a long one is a single row, and 10×14 is halved.
func TestImagesStandAtTheTopLeftOfTheCanvas(t *testing.T) {
	const rows, cols = 5, 7
	draw := func(height, width int) *image.NRGBA {
		img := image.NewNRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				img.SetNRGBA(x, y, color.NRGBA{uint8(10*y + x + 1), uint8(90 + y), uint8(200 - x), 255})
			}
		}
		return img
	}
	small, wide := draw(5, 3), draw(2, 7)
	pixels, sizes, err := canvas([]image.Image{small, wide, draw(1, 70), draw(10, 14)}, rows, cols)
	if err != nil || !slices.Equal(sizes, [][2]int{{5, 3}, {2, 7}, {1, 7}, {5, 7}}) {
		t.Fatalf("sizes %v, %v", sizes, err)
	}
	var want []float64
	for _, img := range []*image.NRGBA{small, wide} {
		for y := range rows {
			for x := range cols {
				c := img.NRGBAAt(x, y) // zero beyond the image
				want = append(want, float64(c.R), float64(c.G), float64(c.B))
			}
		}
	}
	var got []float64
	for _, x := range tensors.MustCopyFlatData[uint8](pixels)[:len(want)] {
		got = append(got, float64(x))
	}
	gomlxtest.NearAbs(t, "pixels", got, want, 0)
	if _, _, err := canvas([]image.Image{small, nil}, rows, cols); err == nil ||
		!strings.Contains(err.Error(), "image 1 has no pixels") {
		t.Errorf("no image: %v", err)
	}
}

// The probability at a pixel's centre is the sum over the cells of a mask times a hat around each, zero a cell away.
func TestAPastedMaskIsBilinearBetweenItsCells(t *testing.T) {
	const side, rows, cols = 3, 5, 7
	hat := func(pixel int, begin, end float32, cell int) float64 {
		cells := (float64(pixel) + 0.5 - float64(begin)) / float64(end-begin) * side
		return max(0, 1-math.Abs(cells-float64(cell)-0.5))
	}
	for _, mask := range [][]float32{{1, 1, 1, 1, 1, 1, 1, 1, 1}, {0.9, 0.1, 0.8, 0.3, 0.7, 0.2, 0.6, 1, 0}} {
		for _, box := range []Box{{1, 2, 4, 5}, {0, 0, 7, 5}, {0.25, 1.75, 6.5, 4.5}, {2.5, 0.5, 3.5, 1.5}, {2.6, 1, 3.4, 4},
			{0.5, 0.5, 6.5, 4.5}} {
			for i, inside := range paste(mask, side, box, rows, cols).Pixels {
				p := 0.0
				for k, x := range mask {
					p += float64(x) * hat(i/cols, box[1], box[3], k/side) * hat(i%cols, box[0], box[2], k%side)
				}
				if want := p >= 0.5; inside != want && math.Abs(p-0.5) > 1e-9 {
					t.Errorf("%v of %v: row %d, column %d has %g, inside: %v", mask, box, i/cols, i%cols, p, inside)
				}
			}
		}
	}
}

func TestMapsAreNumberedByTheLogarithmOfTheirStride(t *testing.T) {
	for stride, want := range map[float64]int{3.5: 2, 4: 2, 7: 3, 14: 4, 16: 4, 5: 2, 6: 3} {
		if got := levelNumber(stride); got != want {
			t.Errorf("stride %g: %d, want %d", stride, got, want)
		}
	}
	l := levels{canonicalSize: 224, canonicalLevel: 4, first: 2, last: 5}
	for level := 3; level <= 5; level++ {
		if x := l.from(level); l.of(x) != level || l.of(math.Nextafter32(x, 0)) != level-1 {
			t.Errorf("level %d begins at %g, where it is %d, and below it %d", level, x, l.of(x), l.of(math.Nextafter32(x, 0)))
		}
	}
	for size, want := range map[float32]int{0: 2, 0.2: 2, 1: 4, 3.9: 5, 100: 5} {
		if got := l.of(size); got != want {
			t.Errorf("a box of %g times the canonical size: %d, want %d", size, got, want)
		}
	}
}

// Two heads, four tokens: the score of query and key is 100·head + 10·query + key.
func TestPairsOfTokensAreSelectedFromAllScores(t *testing.T) {
	scores := tensors.FromFlatDataAndDimensions(make([]float32, 2*4*4), 2, 4, 4)
	scores.MustMutableFlatData(func(flat any) {
		for i := range flat.([]float32) {
			flat.([]float32)[i] = float32(100*(i/16) + 10*(i/4%4) + i%4)
		}
	})
	for name, c := range map[string]struct {
		sets [][]int64
		want []float64
	}{
		"two windows": {[][]int64{{1, 0}, {3, 2}}, []float64{11, 10, 1, 0, 111, 110, 101, 100, 33, 32, 23, 22, 133, 132, 123,
			122}},
		"the last tokens": {[][]int64{{2, 3}}, []float64{22, 23, 32, 33, 122, 123, 132, 133}},
	} {
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{pairsOf(in[0], c.sets)} }, scores)[0]
		gomlxtest.NearAbs(t, name, got, c.want, 0)
	}
}

// Two levels, of boxes that do not overlap; those of the highest logits begin them.
func TestTheFirstAndTheLastBoxOfALevelAreProposed(t *testing.T) {
	boxes := []Box{{0, 0, 5, 5}, {10, 0, 15, 5}, {20, 0, 25, 5}, {0, 10, 5, 15}, {10, 10, 15, 15}}
	kept, logits := RPN{Overlap: 0.7}.proposals([]float32{7, 1, 5, 3, 6}, boxes, []int{3, 5}, 20, 30, 2, 3)
	if !slices.Equal(kept, []Box{boxes[0], boxes[4], boxes[2]}) || !slices.Equal(logits, []float32{7, 6, 5}) {
		t.Errorf("proposals %v with %v", kept, logits)
	}
}
