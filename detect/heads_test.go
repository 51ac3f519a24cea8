// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Missing samples, and in later stages boxes that became empty by clipping, change no loss: the losses are the same
// without them.
func TestMissingSamplesCountInNoLoss(t *testing.T) {
	const classes, batch = 3, 2
	boxes := []rect{{1, 2, 9, 12}, {4, 4, 20, 17}, {2, 8, 5, 9}, {7, 1, 8, 19}, {0, 0, 11, 13}}
	labels := []int64{1, 0, 3, 3, 2}
	second := slices.Clone(boxes) // output of the first stage
	for i := range second {
		second[i][2]++
	}
	losses := func(kept []int, extra int) []float64 {
		var of, after, targets []rect
		var label []int64
		var logits, by []float32
		for range batch {
			for _, i := range kept {
				of, after, label = append(of, boxes[i]), append(after, second[i]), append(label, labels[i])
				targets = append(targets, rect{1, 1, 10, 10})
				for k := range classes + 1 {
					logits = append(logits, float32((i*5+k*3)%7))
				}
				by = append(by, float32(i), 0.5, -0.5, 0.1)
			}
			for range extra {
				of, after, label = append(of, rect{}), append(after, rect{5, 0, 5, 9}), append(label, -1)
				targets = append(targets, rect{})
				logits = append(logits, 5, 4, 3, 2)
				by = append(by, 9, 9, 9, 9)
			}
		}
		n := len(kept) + extra
		r := regions{ROI: ROI{Stages: cascadeStages()[:2]}, classes: classes}
		objects := []rect{{1, 2, 10, 12}, {4, 4, 20, 18}, {0, 0, 12, 13}, {}} // the last one is empty
		out := gomlxtest.Run(t, func(in []*Node) []*Node {
			in0 := inputs[*Node]{Classes: in[0], Targets: in[1], Objects: in[2], ObjectClasses: in[3]}
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
	second[2] = rect{5, 0, 5, 9}
	with := losses(all, 0)
	gomlxtest.NearAbs(t, "second stage", []float64{with[1], with[3]}, []float64{without[1], without[3]}, 1e-6)
	gomlxtest.NearAbs(t, "first stage", []float64{with[0], with[2]}, []float64{want[0], want[2]}, 1e-6)
}

// XLA rounds the operands of products to 10 bits on CUDA, and pixels have more.
func TestBoxesAreMatchedWithoutAProduct(t *testing.T) {
	objects := []rect{{900.123, 2, 1000.877, 12}, {4, 4.0625, 1020.001, 18}, {0, 0, 1, 1}}
	out := gomlxtest.Run(t, func(in []*Node) []*Node {
		labels, targets := regions{classes: 9}.matched(in[0], inputs[*Node]{Objects: in[1], ObjectClasses: in[2]}, 0.5)
		for _, node := range labels.Graph().Nodes() {
			if node.Type() == NodeTypeDotGeneral {
				t.Errorf("a product: %s", node)
			}
		}
		return []*Node{labels, targets}
	}, boxTensor([]rect{objects[1], {900, 2, 930, 12}, objects[0], {0, 0, 1, 1}}, 1, 4), boxTensor(objects, 1, 3),
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

// A program is compiled for each shape of its inputs: images with few objects share one.
func TestTargets_FewObjectsChangeNoShape(t *testing.T) {
	c, _ := Config{RPN: RPN{Samples: 5}, ROI: ROI{Samples: 7, MaskSize: 3}}.resolve()
	anchors := []rect{{0, 0, 11, 13}, {5, 5, 23, 17}}
	for n, want := range map[int]int{0: 8, 1: 8, 3: 8, 8: 8, 9: 16} {
		own := truth{size: [2]int{29, 31}, boxes: slices.Repeat(anchors[:1], n), classes: make([]int, n),
			masks: make([]maskTarget, n)}
		in := gomlxtest.Must(c.targets([]truth{own}, anchors, make([][]rect, 1), func(int) drawer {
			return permuted(rand.New(rand.NewPCG(1, 2)))
		}))(t)
		if got := in.Objects.Shape().Dim(1); got != want || in.ObjectClasses.Shape().Dim(1) != want {
			t.Errorf("%d objects are filled up to %d, their classes to %d, want %d", n, got,
				in.ObjectClasses.Shape().Dim(1), want)
		}
	}
}

// Of an object of 1016 pixels the image has 0.05: scaled to its mask of 28 cells, the object is beyond what is drawn.
func TestTargets_TheMaskOfASliverIsUnknown(t *testing.T) {
	box, all := rect{1023.95, 0, 1024, 50}, rect{0, 0, 1024, 50}
	c, _ := Config{RPN: RPN{Samples: 1}, ROI: ROI{Samples: 4, Positive: 0.5}}.resolve()
	polygon := func(xy ...float64) maskTarget { return maskOf(scenes.Object{Polygons: [][]float64{xy}}) }
	own := truth{size: [2]int{1024, 1024}, boxes: []rect{box, all}, classes: []int{0, 0}, masks: []maskTarget{
		polygon(1023.95, 0, 2040, 0, 2040, 50, 1023.95, 50), polygon(0, 0, 1024, 0, 1024, 50, 0, 50)}}
	first := func(int) drawer { return func(from []int, n int) []int { return from[:n] } }
	in := gomlxtest.Must(c.targets([]truth{own}, own.boxes, make([][]rect, 1), first))(t)
	want := slices.Concat(slices.Repeat([]float32{-1}, 28*28), slices.Repeat([]float32{1}, 28*28))
	if got := gomlxtest.Must(tensors.CopyFlatData[float32](in.Masks))(t); !slices.Equal(got, want) {
		t.Errorf("masks %v", got)
	}
	own.masks[0] = polygon()
	if _, err := c.targets([]truth{own}, own.boxes, make([][]rect, 1), first); err == nil {
		t.Error("an object without corners is no error")
	}
}

// Boxes that touch, or have no area, have an IoU of 0.
func TestBoxesOverlapOnlyWithACommonArea(t *testing.T) {
	for _, c := range []struct {
		a, b rect
		want float32
	}{
		{rect{0, 0, 2, 1}, rect{0, 0, 1, 1}, 0.5}, {rect{0, 0, 0.5, 0.25}, rect{0, 0, 0.5, 0.25}, 1},
		{rect{0, 0, 2, 3}, rect{2, 0, 4, 3}, 0}, {rect{0, 0, 2, 3}, rect{0, 3, 2, 5}, 0},
		{rect{0, 0, 2, 3}, rect{5, 7, 9, 9}, 0},
		{rect{1, 2, 1, 2}, rect{1, 2, 1, 2}, 0}, {rect{1, 2, 1, 5}, rect{1, 2, 1, 5}, 0},
		{rect{1, 2, 5, 2}, rect{1, 2, 5, 2}, 0},
	} {
		if got := boxIoU(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
	for box, want := range map[rect]bool{{0, 0, 0.5, 0.25}: false, {1, 2, 1, 5}: true, {1, 2, 5, 2}: true,
		{5, 2, 1, 7}: true, {1, 7, 5, 2}: true} {
		if box.empty() != want {
			t.Errorf("%v: empty %v", box, box.empty())
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
	boxes := []rect{{0, 0, 2, 1}, {0, 0, 1, 1}, {0, 0, 3, 1}}
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
		if got := nms(scored(boxes, scores, c.groups), c.overlap, c.limit); !slices.Equal(got, c.want) {
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
		box  rect
		want []float32
	}{
		{rect{2, 3, 10, 7}, cells(4, 4)}, {rect{2, 3, 2.5, 3.25}, cells(4, 4)}, {rect{2, 3, 2.05, 7}, cells(2, 4)},
		{rect{2, 3, 10, 3.05}, cells(4, 2)},
	} {
		b := c.box
		left, top, right, bottom := float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])
		polygon := [][]float64{{left, top, right, top, right, bottom, left, bottom}}
		if got := gomlxtest.Must(polygonTarget(polygon, b, 4))(t); !slices.Equal(got, c.want) {
			t.Errorf("the mask of %v is %v, want %v", b, got, c.want)
		}
	}
}

// Cells that are pixels have their values, and a cell between a pixel inside and one outside is inside.
func TestBitmapTarget_ReadsTheCentresOfCells(t *testing.T) {
	pixels := make([]bool, 5*7)
	for i := range pixels {
		pixels[i] = i*i%5 < 2 || i%7 == 3
	}
	var want []float32
	for i := range 25 {
		want = append(want, map[bool]float32{true: 1}[pixels[i/5*7+i%5+1]])
	}
	if got := bitmapTarget(pixels, 5, 7, rect{1, 0, 6, 5}, 5); !slices.Equal(got, want) {
		t.Errorf("pixels %v, want %v", got, want)
	}
	for left, want := range map[float32]float32{0.25: 1, 0.5: 1, 0.625: 0} {
		if got := bitmapTarget([]bool{true, false, false}, 1, 3, rect{left, 0, left + 1, 1}, 1); got[0] != want {
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

// Per level the boxes of the highest logits are proposed, the first and the last of a level too; none without a finite
// logit or beyond the image.
func TestRPN_Proposals(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	boxes := []rect{{0, 0, 5, 5}, {10, 0, 15, 5}, {20, 0, 25, 5}, {40, 0, 45, 5}, {10, 10, 15, 15}}
	for _, c := range []struct {
		logits        []float32
		ends          []int
		before, after int
		want          []int
	}{
		{[]float32{nan, inf, 5, 7, -inf}, []int{5}, 5, 5, []int{2}},
		{[]float32{7, 1, 5, 8, 6}, []int{3, 5}, 2, 3, []int{0, 4, 2}},
	} {
		kept, logits := RPN{Overlap: 0.7}.proposals(c.logits, boxes, c.ends, [2]int{20, 30}, c.before, c.after)
		for k, i := range c.want {
			if len(kept) != len(c.want) || kept[k] != boxes[i] || logits[k] != c.logits[i] {
				t.Fatalf("proposals %v with %v, want %v", kept, logits, c.want)
			}
		}
	}
}

// Of six samples in two images, four are missing: label -1. The object's box is its anchor, whose deltas are zero.
func TestMissingAnchorsCountInNoLoss(t *testing.T) {
	anchors := []rect{{0, 0, 8, 4}, {2, 2, 6, 12}}
	logits, by := []float32{2, -1, 0.5, 3}, []float32{0.5, -0.25, 1, 2, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		class, box := RPN{Samples: 3}.losses(in[0], in[1], in[2], inputs[*Node]{Anchors: in[3], AnchorLabels: in[4],
			AnchorBoxes: in[5]})
		return []*Node{class, box}
	}, tensors.FromFlatDataAndDimensions(logits, 2, 2), tensors.FromFlatDataAndDimensions(by, 2, 2, 4),
		boxTensor(anchors, 2), tensors.FromFlatDataAndDimensions([]int64{0, 0, 1, 1, 0, 1}, 2, 3),
		tensors.FromFlatDataAndDimensions([]float32{1, -1, -1, 0, -1, -1}, 2, 3),
		boxTensor([]rect{anchors[0], anchors[1], anchors[1], anchors[1], anchors[0], anchors[0]}, 2, 3))
	object, background := math.Log1p(math.Exp(-2)), math.Log1p(math.Exp(3)) // of logits 2 and 3
	gomlxtest.NearAbs(t, "classes", got[0], []float64{(object + background) / 6}, 1e-6)
	gomlxtest.NearAbs(t, "boxes", got[1], []float64{(0.5 + 0.25 + 1 + 2) / 6}, 1e-6)
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
	if _, _, err := canvas([]image.Image{small, nil}, rows, cols); err == nil {
		t.Error("no image is accepted")
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
		for _, box := range []rect{{1, 2, 4, 5}, {0, 0, 7, 5}, {0.25, 1.75, 6.5, 4.5}, {2.5, 0.5, 3.5, 1.5}, {2.6, 1, 3.4, 4},
			{0.5, 0.5, 6.5, 4.5}} {
			for i, inside := range paste(mask, side, box, [2]int{rows, cols}) {
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

func TestPixelsAreNormalizedWithinTheImageAndZeroBeyond(t *testing.T) {
	const rows, cols = 3, 5
	c := Config{Mean: [3]float64{0.5, 0.25, 0.75}, Std: [3]float64{0.5, 2, 0.1}}
	pixels, want := make([]uint8, rows*cols*3), make([]float64, rows*cols*3)
	for i := range pixels {
		row, col := i/3/cols, i/3%cols
		if pixels[i] = uint8(17*i%256 + 1); row < 2 && col < 4 {
			want[i] = (float64(pixels[i])/255 - c.Mean[i%3]) / c.Std[i%3]
		}
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{c.normalized(in[0], in[1])} },
		tensors.FromFlatDataAndDimensions(pixels, 1, rows, cols, 3),
		tensors.FromFlatDataAndDimensions([]float32{2, 4}, 1, 2))[0]
	gomlxtest.NearAbs(t, "pixels", got, want, 1e-5)
}

// Targets below 0 belong to an object without a mask.
func TestObjectsWithoutAMaskCountInNoMaskLoss(t *testing.T) {
	logits := []float32{2, -1, 0.5, 3, 7, -7, 5, 1}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		r := regions{classes: 1}
		return []*Node{r.maskLoss(in[0], inputs[*Node]{Classes: in[1], Masks: in[2]})}
	}, tensors.FromFlatDataAndDimensions(logits, 2, 2, 2, 1), tensors.FromFlatDataAndDimensions([]int64{0, 0}, 1, 2),
		tensors.FromFlatDataAndDimensions([]float32{1, 0, 0, 1, -1, -1, -1, -1}, 1, 2, 2, 2))[0][0]
	want := 0.0
	for i, target := range []float64{1, 0, 0, 1} {
		want += (math.Log1p(math.Exp(float64(logits[i]))) - target*float64(logits[i])) / 4
	}
	if !(math.Abs(got-want) <= 1e-6) {
		t.Errorf("loss %g, want %g", got, want)
	}
}
