// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
)

// The numbers are those of detectron2's configurations: mask_rcnn_vitdet.py, cascade_mask_rcnn_vitdet_b_100ep.py and
// mask_rcnn_fpn.py, with the pixels of coco_loader_lsj and ImageNet's mean and deviation.
func TestDefaultsAreThoseOfDetectron2(t *testing.T) {
	const want = `{"channels":256,"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225],
		"rpn":{"convs":2,"sizes":[32,64,128,256,512],"ratios":[0.5,1,2],"low":0.3,"high":0.7,"samples":256,"positive":0.5,
			"before":{"train":2000,"test":1000},"after":{"train":1000,"test":1000},"overlap":0.7},
		"roi":{"samples":512,"positive":0.25,"stages":[{"iou":0.5,"weights":[10,10,5,5]}],"size":7,
			"convs":[256,256,256,256],"dense":[1024],"mask_size":14,"masks":[256,256,256,256],"canonical_size":224,
			"canonical_level":4,"score":0.05,"overlap":0.5,"top":100}}`
	var c, wanted Config
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	c.Backbone.PatchSize = 16
	c = c.WithDefaults()
	wanted.Backbone = c.Backbone
	if !reflect.DeepEqual(c, wanted) {
		t.Errorf("defaults %+v, want %+v", c, wanted)
	}
	cascade := []Stage{{0.5, [4]float64{10, 10, 5, 5}}, {0.6, [4]float64{20, 20, 10, 10}},
		{0.7, [4]float64{30, 30, 15, 15}}}
	if got := cascadeStages(); !reflect.DeepEqual(got, cascade) {
		t.Errorf("stages %v, want %v", got, cascade)
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

// torch.nn.init.kaiming_uniform_(a=√5) is uniform in ±1/√fan_in; fvcore's c2_msra_fill is normal with √(2/fan_out), its
// c2_xavier_fill uniform in ±√(3/fan_in).
func TestConvolutionsStartAsInTorchAndCaffe2(t *testing.T) {
	for name, c := range map[string]struct {
		fill             weight.Fill
		deviation, bound float64
	}{
		"torch": {torchConv(7), 1 / math.Sqrt(7*3), 1 / math.Sqrt(7)}, "msra": {msra(7), math.Sqrt(2. / 7), math.Inf(1)},
		"xavier": {xavier(7), 1 / math.Sqrt(7), math.Sqrt(3. / 7)},
	} {
		values := gomlxtest.Values(t, weight.Float32(model.NewStore().RootScope(), name, c.fill, 4001).MustValue())
		gomlxtest.Spreads(t, name, values, c.deviation)
		for _, v := range values {
			if !(math.Abs(v) <= c.bound) {
				t.Fatalf("%s draws %g, beyond %g", name, v, c.bound)
			}
		}
	}
}

// In detectron2 StandardRPNHead and FastRCNNOutputLayers initialize with std 0.01 and deltas of boxes with 0.001,
// FastRCNNConvFCHead with c2_msra_fill and c2_xavier_fill, MaskRCNNConvUpsampleHead with c2_msra_fill and 0.001.
func TestHeadsStartAsInDetectron2(t *testing.T) {
	const channels = 32
	c := tiny("none", nil)
	c.ROI.Convs, c.ROI.Dense, c.ROI.Masks = []int{24}, []int{40}, []int{28, 20}
	store := gomlxtest.Seeded(t, 5)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		r, roi := regions{c.ROI, c.Backbone.Classes, in[:1], []float64{4}}, s.In("roi")
		logits, by := c.RPN.head(s.In("rpn"), in[:1])
		j := r.boxHeads(roi, in[1], in[2])[0]
		return []*Node{logits, by, j.Logits, j.Deltas, r.masks(roi.In("mask"), in[1])}
	}, gomlxtest.Noise(1, 3, 5, channels), boxTensor([]Box{{1, 1, 9, 9}}, 1, 1), sizeTensor([][2]int{{12, 20}}))
	msra := func(out int) float64 { return math.Sqrt(2 / float64(9*out)) }
	want := map[string]float64{
		"rpn/conv_0": 0.01, "rpn/objects": 0.01, "rpn/deltas": 0.01,
		"roi/stage_0/conv_0": msra(24), "roi/stage_0/dense_0": 1 / math.Sqrt(5*5*24), "roi/stage_0/classes": 0.01,
		"roi/stage_0/deltas": 0.001,
		"roi/mask/conv_0":    msra(28), "roi/mask/conv_1": msra(20), "roi/mask/double": math.Sqrt(2 / float64(4*20)),
		"roi/mask/classes": 0.001,
	}
	for path, deviation := range want {
		weights := gomlxtest.Must(store.GetVariable("/" + path + "/weights").Value())(t)
		gomlxtest.Spreads(t, path, gomlxtest.Values(t, weights), deviation)
	}
	biases := 0
	for v := range store.IterVariables() {
		if strings.HasSuffix(v.Path(), "/biases") {
			biases++
			if x := gomlxtest.Values(t, v.MustValue()); slices.Min(x) != 0 || slices.Max(x) != 0 {
				t.Errorf("%s starts from %g to %g", v.Path(), slices.Min(x), slices.Max(x))
			}
		}
	}
	if biases != len(want)-3 { // a norm follows the convolutions of box and mask heads
		t.Errorf("%d layers have biases, want %d", biases, len(want)-3)
	}
}

// Targets below 0 belong to an object without a mask.
func TestObjectsWithoutAMaskCountInNoMaskLoss(t *testing.T) {
	logits := []float32{2, -1, 0.5, 3, 7, -7, 5, 1}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		r := regions{classes: 1}
		return []*Node{r.maskLoss(in[0], Inputs[*Node]{Classes: in[1], Masks: in[2]})}
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

// The error contains the range, whose ends are valid.
func TestTheRangesOfAConfigurationAreTheOnesThatErrorsPrint(t *testing.T) {
	var c Config
	for name, of := range map[string]struct {
		field   *int
		highest int
	}{
		"channels": {&c.Channels, 1 << 16}, "rpn.convs": {&c.RPN.Convs, 100}, "rpn.samples": {&c.RPN.Samples, 1 << 20},
		"rpn.before.train": {&c.RPN.Before.Train, 1 << 24}, "rpn.before.test": {&c.RPN.Before.Test, 1 << 24},
		"rpn.after.train": {&c.RPN.After.Train, 1 << 20}, "rpn.after.test": {&c.RPN.After.Test, 1 << 20},
		"roi.samples": {&c.ROI.Samples, 1 << 20}, "roi.size": {&c.ROI.Size, 1000},
		"roi.mask_size": {&c.ROI.MaskSize, 1000}, "roi.canonical_level": {&c.ROI.CanonicalLevel, 100},
		"roi.top": {&c.ROI.Top, 1 << 20},
	} {
		for _, value := range []int{0, 1, of.highest, of.highest + 1} {
			c = tiny("none", nil)
			*of.field = value
			want := fmt.Sprintf("%s is %d, want 1 to %d", name, value, of.highest)
			valid := value >= 1 && value <= of.highest
			if err := c.validateRanges(); (err == nil) != valid || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s %d: %v", name, value, err)
			}
		}
	}
	for name, field := range map[string]*float64{
		"rpn.low": &c.RPN.Low, "rpn.high": &c.RPN.High, "rpn.positive": &c.RPN.Positive, "rpn.overlap": &c.RPN.Overlap,
		"roi.positive": &c.ROI.Positive, "roi.score": &c.ROI.Score, "roi.overlap": &c.ROI.Overlap,
	} {
		for value, want := range map[float64]string{0: name + " is 0", 1e-9: "", 1: "", 1.5: name + " is 1.5"} {
			c = tiny("none", nil)
			*field = value
			if err := c.validateRanges(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s %g: %v", name, value, err)
			}
		}
	}
	c = tiny("none", nil)
	c.RPN.Low = c.RPN.High // no anchor is ignored
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestAQuarterOfTheSamplesButOneAtLeastHaveAMask(t *testing.T) {
	for samples, want := range map[int]int{1: 1, 3: 1, 7: 1, 8: 2, 512: 128} {
		if got := (ROI{Samples: samples, Positive: 0.25}).masked(); got != want {
			t.Errorf("of %d samples %d have a mask, want %d", samples, got, want)
		}
	}
}
