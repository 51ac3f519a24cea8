// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	_ "embed" // the comments of settings
	"fmt"
	"slices"

	"github.com/wepe-go/wepe/internal/setting"
)

//go:embed config.go
var configCode string

var _ = setting.Describe(configCode)

// Config describes a detector. It is saved with every checkpoint; a zero field means the default named beside it, from
// ViTDet with Mask R-CNN. Backbone.Classes is the number of classes of objects.
type Config struct {
	Backbone Backbone `json:"backbone"`
	Channels int      `json:"channels"` // channels of the maps of the pyramid, default 256
	RPN      RPN      `json:"rpn"`
	ROI      ROI      `json:"roi"`

	Mean [3]float64 `json:"mean"` // mean of the pixels 0…1 per channel, for normalization; default ImageNet's
	Std  [3]float64 `json:"std"`  // standard deviation of the pixels, in the same way; default ImageNet's
}

// Counts are numbers of boxes in training and inference.
type Counts struct {
	Train int `json:"train"` // boxes in training
	Test  int `json:"test"`  // boxes in inference
}

// RPN is the region proposal network (Ren et al., https://arxiv.org/abs/1506.01497): a small head on every map of the
// pyramid that predicts for each anchor the probability of an object and the object's box.
type RPN struct {
	Convs  int       `json:"convs"`  // 3×3 convolutions of the head, default 2
	Sizes  []float64 `json:"sizes"`  // pixels, the root of the area of a level's anchors; default 8 cells of its map
	Ratios []float64 `json:"ratios"` // height over width, default ½, 1, 2

	NegIoU   float64 `json:"neg_iou"`  // IoU below which an anchor is background, default 0.3
	PosIoU   float64 `json:"pos_iou"`  // IoU from which it is an object, default 0.7
	Samples  int     `json:"samples"`  // anchors of an image in the loss, default 256
	Positive float64 `json:"positive"` // maximum share of objects among them, default ½

	Before Counts  `json:"before"`  // boxes per level before suppression, default 2000 and 1000
	After  Counts  `json:"after"`   // proposals per image, default 1000
	NMSIoU float64 `json:"nms_iou"` // IoU above which a box is suppressed, default 0.7
}

// ROI configures the heads on proposals: classes and boxes, in several stages for Cascade R-CNN, and masks.
type ROI struct {
	Samples  int     `json:"samples"`  // proposals of an image in the losses, default 512
	Positive float64 `json:"positive"` // maximum share of objects among them, default ¼
	Stages   []Stage `json:"stages"`   // as {"iou": 0.5, "weights": [10, 10, 5, 5]}, the default

	Size     int   `json:"size"`               // a box is pooled to Size² cells, default 7
	Convs    []int `json:"convs"`              // channels of the 3×3 convolutions of the box head, default 4 of 256
	Dense    []int `json:"dense"`              // units of the dense layers after them, default 1024
	MaskSize int   `json:"mask_size"`          // the same for masks, which are twice as large; default 14
	Masks    []int `json:"masks"`              // channels of the 3×3 convolutions of the mask head, default 4 of 256
	NoMasks  bool  `json:"no_masks,omitempty"` // boxes only

	CanonicalSize  float64 `json:"canonical_size"`  // pixels, default 224: a box of this size is pooled from the map
	CanonicalLevel int     `json:"canonical_level"` // level of a box of CanonicalSize, default 4: stride 16

	ScoreThreshold float64 `json:"score_threshold"` // minimum of a detection, exclusive, default 0.05
	NMSIoU         float64 `json:"nms_iou"`         // IoU above which one of the same class is suppressed, default ½
	MaxDetections  int     `json:"max_detections"`  // maximum number of detections per image, default 100
}

// Stage is one classifier and one regression of boxes. With several stages (Cai & Vasconcelos,
// https://arxiv.org/abs/1712.00726) each starts from the boxes of the previous one, and predicts one box for all
// classes instead of one for each.
type Stage struct {
	IoU     float64    `json:"iou"`     // minimum for an object
	Weights [4]float64 `json:"weights"` // of dx, dy, dw, dh
}

// cascadeStages returns the three stages of Cascade R-CNN. Mask R-CNN has only the first.
func cascadeStages() []Stage {
	return []Stage{{0.5, [4]float64{10, 10, 5, 5}}, {0.6, [4]float64{20, 20, 10, 10}}, {0.7, [4]float64{30, 30, 15, 15}}}
}

// agnostic reports whether all classes share one box.
func (r ROI) agnostic() bool { return len(r.Stages) > 1 }

// resolve returns c with every zero field that has a default filled in, and an error that names the first field that is
// wrong.
func (c Config) resolve() (_ Config, err error) {
	c.Backbone, err = c.Backbone.resolve()
	if c.Mean == [3]float64{} && c.Std == [3]float64{} { // validate refuses a mean alone
		c.Mean, c.Std = [3]float64{0.485, 0.456, 0.406}, [3]float64{0.229, 0.224, 0.225}
	}
	r, i, four := &c.RPN, &c.ROI, slices.Repeat([]int{256}, 4)
	if r.Sizes == nil {
		for _, stride := range c.strides() {
			r.Sizes = append(r.Sizes, 8*stride)
		}
	}
	if r.Ratios == nil {
		r.Ratios = []float64{0.5, 1, 2}
	}
	if i.Stages == nil {
		i.Stages = cascadeStages()[:1]
	}
	for _, f := range []struct{ list, otherwise *[]int }{{&i.Convs, &four}, {&i.Dense, &[]int{1024}}, {&i.Masks, &four}} {
		if *f.list == nil {
			*f.list = *f.otherwise
		}
	}
	for _, f := range []struct {
		name               string
		value              *int
		otherwise, highest int
	}{
		{"channels", &c.Channels, 256, 1 << 16}, {"rpn.convs", &r.Convs, 2, 100}, {"rpn.samples", &r.Samples, 256, 1 << 20},
		{"rpn.before.train", &r.Before.Train, 2000, 1 << 24}, {"rpn.before.test", &r.Before.Test, 1000, 1 << 24},
		{"rpn.after.train", &r.After.Train, 1000, 1 << 20}, {"rpn.after.test", &r.After.Test, 1000, 1 << 20},
		{"roi.samples", &i.Samples, 512, 1 << 20}, {"roi.size", &i.Size, 7, 1000},
		{"roi.mask_size", &i.MaskSize, 14, 1000}, {"roi.canonical_level", &i.CanonicalLevel, 4, 25},
		{"roi.max_detections", &i.MaxDetections, 100, 1 << 20},
	} {
		if *f.value = cmp.Or(*f.value, f.otherwise); err == nil && (*f.value < 1 || *f.value > f.highest) {
			err = fmt.Errorf("detect: %s is %d, want 1 to %d", f.name, *f.value, f.highest)
		}
	}
	for _, f := range []struct {
		name               string
		value              *float64
		otherwise, highest float64
	}{
		{"rpn.neg_iou", &r.NegIoU, 0.3, 1}, {"rpn.pos_iou", &r.PosIoU, 0.7, 1}, {"rpn.positive", &r.Positive, 0.5, 1},
		{"rpn.nms_iou", &r.NMSIoU, 0.7, 1}, {"roi.positive", &i.Positive, 0.25, 1},
		{"roi.score_threshold", &i.ScoreThreshold, 0.05, 1},
		{"roi.nms_iou", &i.NMSIoU, 0.5, 1}, {"roi.canonical_size", &i.CanonicalSize, 224, 1e9},
	} {
		if *f.value = cmp.Or(*f.value, f.otherwise); err == nil && !(*f.value > 0 && *f.value <= f.highest) {
			err = fmt.Errorf("detect: %s is %g, want it above 0 and at most %g", f.name, *f.value, f.highest)
		}
	}
	if err != nil {
		return c, err
	}
	return c, c.validate()
}

// pyramidLevels is the number of maps of pyramid, pooledLevels the number of maps for pooling boxes.
const (
	pyramidLevels = 5
	pooledLevels  = 4
)

// strides are the sizes in pixels of a cell of each map of the pyramid, the finest a quarter of a patch.
func (c Config) strides() []float64 {
	strides := make([]float64, pyramidLevels)
	for i := range strides {
		strides[i] = float64(c.Backbone.PatchSize) / 4 * float64(int(1)<<i)
	}
	return strides
}

// checkCanvas returns an error for an invalid canvas of rows × cols pixels.
func (c Config) checkCanvas(rows, cols int) error {
	p := c.Backbone.PatchSize
	if rows%p != 0 || cols%p != 0 || min(rows, cols) < 2*p {
		return fmt.Errorf("detect: a canvas of %d×%d pixels: want at least two patches of %d along each side, and whole ones",
			rows, cols, p)
	}
	return nil
}

func (c Config) validate() error {
	if err := c.checkCanvas(c.Backbone.ImageRows, c.Backbone.ImageCols); err != nil {
		return err
	}
	r, i := c.RPN, c.ROI
	positive := func(values ...float64) bool {
		return !slices.ContainsFunc(values, func(x float64) bool { return !(x > 0 && x < 1e9) })
	}
	widths := func(values ...int) bool {
		return !slices.ContainsFunc(values, func(n int) bool { return n < 1 || n > 1<<20 })
	}
	switch {
	case c.Backbone.Channels != 3:
		return fmt.Errorf("detect: backbone.channels is %d, images give 3", c.Backbone.Channels)
	case c.Backbone.Width%4 != 0:
		return fmt.Errorf("detect: backbone.width is %d, the pyramid wants a multiple of 4", c.Backbone.Width)
	case c.Backbone.DType != "float32":
		return fmt.Errorf("detect: backbone.dtype is %q, detectors are float32", c.Backbone.DType)
	case !(r.NegIoU <= r.PosIoU):
		return fmt.Errorf("detect: rpn.neg_iou is %g, above rpn.pos_iou, %g", r.NegIoU, r.PosIoU)
	case len(r.Sizes) != pyramidLevels || !positive(r.Sizes...):
		return fmt.Errorf("detect: rpn.sizes are %v, want %d, one for each map, above 0", r.Sizes, pyramidLevels)
	case len(r.Ratios) == 0 || !positive(r.Ratios...):
		return fmt.Errorf("detect: rpn.ratios are %v, want some above 0", r.Ratios)
	case !positive(c.Std[:]...):
		return fmt.Errorf("detect: std is %v, want it above 0", c.Std)
	case !widths(i.Convs...) || !widths(i.Dense...) || !widths(i.Masks...) || len(i.Masks) == 0:
		return fmt.Errorf("detect: roi.convs are %v, dense %v, masks %v: want numbers of channels and units", i.Convs,
			i.Dense, i.Masks)
	case len(i.Stages) == 0:
		return fmt.Errorf("detect: roi.stages is empty: want one stage or more")
	}
	for k, s := range i.Stages {
		if !(s.IoU > 0 && s.IoU <= 1) || !positive(s.Weights[:]...) {
			return fmt.Errorf("detect: stage %d has iou %g and weights %v, want them above 0", k, s.IoU, s.Weights)
		}
	}
	return nil
}
