// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
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
	if err := good.check(20, 30, 3); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*Annotations)
		want   string
	}{
		{func(x *Annotations) { x.Rows = 21 }, "21×30 pixels"},
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

// Two levels, of boxes that do not overlap; those of the highest logits begin them.
func TestTheFirstAndTheLastBoxOfALevelAreProposed(t *testing.T) {
	boxes := []Box{{0, 0, 5, 5}, {10, 0, 15, 5}, {20, 0, 25, 5}, {0, 10, 5, 15}, {10, 10, 15, 15}}
	kept, logits := RPN{Overlap: 0.7}.proposals([]float32{7, 1, 5, 3, 6}, boxes, []int{3, 5}, 20, 30, 2, 3)
	if !slices.Equal(kept, []Box{boxes[0], boxes[4], boxes[2]}) || !slices.Equal(logits, []float32{7, 6, 5}) {
		t.Errorf("proposals %v with %v", kept, logits)
	}
}
