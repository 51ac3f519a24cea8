// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// Missing samples change no loss, and a box that became empty by clipping counts only in the first stage: the box heads
// move untrained boxes little.
func TestLosses_MissingSamplesCountInNone(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t)
	run.Recipe.Detector.ROI.Stages = cascadeStages()[:2]
	own := begun(t, run)
	losses := func(in inputs[*tensors.Tensor]) []float64 {
		inputs := xslices.Map(in.list(), func(x *tensors.Tensor) any { return x })
		return slices.Concat(gomlxtest.RunModel(t, own.detector.store, own.Losses, inputs...)...)
	}
	in := stepInputs(t, run, 0, func(t *task) { t.truths[0] = truth{size: t.truths[0].size} }) // one image has no objects
	want := losses(in)
	for i, x := range want {
		if !(x > 1e-4) || len(want) != len(own.Recipe.Detector.lossNames()) {
			t.Fatalf("loss %d of %v is %g: the case proves nothing", i, own.Recipe.Detector.lossNames(), x)
		}
	}
	in.Anchors, in.AnchorLabels = longer(in.Anchors, int64(3)), longer(in.AnchorLabels, float32(-1))
	in.AnchorBoxes, in.Targets = longer(in.AnchorBoxes, 1, 1, 9, float32(9)), longer(in.Targets, 1, 1, 9, float32(9))
	boxes, classes := in.Boxes, in.Classes
	in.Boxes, in.Classes = longer(boxes, 5, 0, 9, float32(9)), longer(classes, int64(-1))
	gomlxtest.NearAbs(t, "with a missing sample", losses(in), want, 2e-6)
	in.Boxes, in.Classes = longer(boxes, 900, 0, 990, float32(9)), longer(classes, int64(3)) // background
	got := losses(in)
	gomlxtest.NearAbs(t, "with a box beyond the image", got[4:], want[4:], 2e-6)
	is.Equal(t, "the same in the first stage", got[2] == want[2], false)
}

// longer adds elements along axis 1 to x [batch, n, …].
func longer[T float32 | int64](x *tensors.Tensor, more ...T) *tensors.Tensor {
	d, flat := slices.Clone(x.Shape().Dimensions), tensors.MustCopyFlatData[T](x)
	var all []T
	for own := range slices.Chunk(flat, len(flat)/d[0]) {
		all = append(append(all, own...), more...)
	}
	d[1]++
	return tensors.FromFlatDataAndDimensions(all, d...)
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

func TestSampled_DrawsBySeedAndNeverWhatIsIgnored(t *testing.T) {
	labels := slices.Repeat([]int{matchNone, matchNone, matchObject, matchIgnored}, 25)
	drawn := func(n int, seed uint64) (objects, background []int) {
		return sampled(labels[:n], 40, 0.25, permuted(rand.New(rand.NewPCG(seed, 1))))
	}
	objects, background := drawn(100, 3)
	for label, drawn := range map[int][]int{matchObject: objects, matchNone: background} {
		if slices.ContainsFunc(drawn, func(i int) bool { return labels[i] != label }) {
			t.Errorf("%v are not all of label %d", drawn, label)
		}
	}
	again, _ := drawn(100, 3)
	other, _ := drawn(100, 4)
	few, rest := drawn(6, 1)
	is.Equal(t, "numbers", [4]int{len(objects), len(background), len(few), len(rest)}, [4]int{10, 30, 1, 4})
	is.Equal(t, "drawn again", again, objects)
	is.Equal(t, "the same of another seed", slices.Equal(objects, other), false)
}

// A program is compiled for each shape of its inputs: images with few objects share one.
func TestFilledTo_FewObjectsChangeNoShape(t *testing.T) {
	for n, want := range map[int]int{0: 8, 1: 8, 3: 8, 8: 8, 9: 16, 16: 16, 17: 32} {
		is.Equal(t, fmt.Sprint(n, " objects"), filledTo(n), want)
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
	is.Equal(t, "masks", gomlxtest.Must(tensors.CopyFlatData[float32](in.Masks))(t), want)
	own.masks[0] = polygon()
	is.Refused(t, "a refusal", is.ErrorOf(c.targets([]truth{own}, own.boxes, make([][]rect, 1), first)), "")
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
		is.Equal(t, fmt.Sprint("mask of ", b), gomlxtest.Must(polygonTarget(polygon, b, 4))(t), c.want)
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
		kept, logits := RPN{NMSIoU: 0.7}.proposals(c.logits, boxes, c.ends, [2]int{20, 30}, c.before, c.after)
		for k, i := range c.want {
			if len(kept) != len(c.want) || kept[k] != boxes[i] || logits[k] != c.logits[i] {
				t.Fatalf("proposals %v with %v, want %v", kept, logits, c.want)
			}
		}
	}
}

// Of sizes 5×3 and 2×7 in a canvas of 5×7 none is rescaled; a long one is a single row, and 10×14 is halved.
func TestCanvas_ImagesAreAtTheTopLeft(t *testing.T) {
	const rows, cols = 5, 7
	draw := func(height, width int) *image.NRGBA {
		img := image.NewNRGBA(image.Rect(0, 0, width, height))
		for i := range height * width {
			img.SetNRGBA(i%width, i/width, color.NRGBA{uint8(i + 1), uint8(90 + i), uint8(200 - i), 255})
		}
		return img
	}
	small, wide := draw(5, 3), draw(2, 7)
	pixels, sizes, err := canvas([]image.Image{small, wide, draw(1, 70), draw(10, 14)}, rows, cols)
	gomlxtest.NoError(t, err)
	is.Equal(t, "sizes", sizes, [][2]int{{5, 3}, {2, 7}, {1, 7}, {5, 7}})
	var want []uint8
	for _, img := range []*image.NRGBA{small, wide} {
		for i := range rows * cols {
			c := img.NRGBAAt(i%cols, i/cols) // zero beyond the image
			want = append(want, c.R, c.G, c.B)
		}
	}
	is.Equal(t, "pixels", tensors.MustCopyFlatData[uint8](pixels)[:len(want)], want)
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
		tensors.FromFlatDataAndDimensions([]float32{1, 0, 0, 1, -1, -1, -1, -1}, 1, 2, 2, 2))[0]
	want := 0.0
	for i, target := range []float64{1, 0, 0, 1} {
		want += (math.Log1p(math.Exp(float64(logits[i]))) - target*float64(logits[i])) / 4
	}
	gomlxtest.NearAbs(t, "loss", got, []float64{want}, 1e-6)
}
