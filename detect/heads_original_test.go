// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// The heads equal detectron2's: fixture "mask_rcnn". Its feature maps are the inputs.
const headsSet = "mask_rcnn"

type headsMeta struct {
	Config struct {
		Canvas   [2]int   `json:"padded_h_w"`
		Sizes    [][2]int `json:"image_sizes_h_w"`
		Levels   []string
		Strides  []float64
		Channels int
		Classes  int `json:"num_classes"`
		RPN      struct {
			Convs    []int       `json:"head_conv_dims"`
			Sizes    [][]float64 `json:"anchor_sizes"`
			Ratios   []float64   `json:"aspect_ratios"`
			Matcher  matcherMeta
			Samples  int     `json:"batch_size_per_image"`
			Positive float64 `json:"positive_fraction"`
			Before   Counts  `json:"pre_nms_topk"`
			After    Counts  `json:"post_nms_topk"`
			Overlap  float64 `json:"nms_thresh"`
		}
		ROI struct {
			Samples  int     `json:"batch_size_per_image"`
			Positive float64 `json:"positive_fraction"`
			Pooler   struct {
				CanonicalSize float64 `json:"canonical_box_size"`
				Canonical     int     `json:"canonical_level"`
				Box           int     `json:"box_output"`
				Mask          int     `json:"mask_output"`
			}
		}
		BoxHead struct {
			Convs []int `json:"conv_dims"`
			Dense []int `json:"fc_dims"`
		} `json:"box_head"`
		Predictor struct {
			Std struct {
				Weights [4]float64 `json:"box_weights"`
			}
			Cas struct {
				Weights [][4]float64 `json:"box_weights"`
				IoU     []float64    `json:"matcher_thresholds"`
			}
			Score   float64 `json:"test_score_thresh"`
			Overlap float64 `json:"test_nms_thresh"`
			Top     int     `json:"test_topk_per_image"`
		} `json:"box_predictor"`
		MaskHead struct {
			Convs  []int `json:"conv_dims"` // the last one is the transposed one's
			Output int
		} `json:"mask_head"`
	}
	Polygons []struct {
		Instances [][][]float64
	} `json:"gt_polygons"`
	Post      [2]int `json:"post_h_w"`
	Tolerance struct {
		Chain    float64 `json:"abs"`
		Module   float64 `json:"abs_single_module_fed_stored_inputs"`
		Boxes    float64 `json:"boxes_abs_pixels"`
		Loss     float64 `json:"loss_abs"`
		Pasted   int     `json:"pasted_mask_pixels_that_may_differ"`
		Gradient float64 `json:"gradient_relative_to_max_abs_of_tensor"`
		Floor    float64 `json:"gradient_abs_floor"`
	}
}

// heads is the fixture.
type heads struct {
	*testing.T
	headsMeta
	want reference
}

func headsFixture(t *testing.T) heads {
	h := heads{T: t, want: fixtures.Tensors(t, headsSet, "tensors.safetensors")}
	fixtures.JSON(t, headsSet, "meta.json", &h.headsMeta)
	return h
}

// config returns the configuration of the fixture's model "std" or "cas".
func (h heads) config(kind string) Config {
	m := h.headsMeta.Config
	c := Config{Channels: m.Channels}
	c.Backbone.Config = vit.Config{Classes: m.Classes}
	c.RPN = RPN{Convs: len(m.RPN.Convs), Ratios: m.RPN.Ratios, NegIoU: float64(m.RPN.Matcher.matcher().low),
		PosIoU: float64(m.RPN.Matcher.matcher().high), Samples: m.RPN.Samples, Positive: m.RPN.Positive,
		Before: m.RPN.Before, After: m.RPN.After, NMSIoU: m.RPN.Overlap}
	for _, sizes := range m.RPN.Sizes {
		c.RPN.Sizes = append(c.RPN.Sizes, sizes...)
	}
	c.ROI = ROI{Samples: m.ROI.Samples, Positive: m.ROI.Positive, Size: m.ROI.Pooler.Box, MaskSize: m.ROI.Pooler.Mask,
		Convs: m.BoxHead.Convs, Dense: m.BoxHead.Dense, Masks: m.MaskHead.Convs[:len(m.MaskHead.Convs)-1],
		CanonicalSize: m.ROI.Pooler.CanonicalSize, CanonicalLevel: m.ROI.Pooler.Canonical, ScoreThreshold: m.Predictor.Score,
		NMSIoU: m.Predictor.Overlap, MaxDetections: m.Predictor.Top}
	c.ROI.Stages = []Stage{{m.Predictor.Cas.IoU[0], m.Predictor.Std.Weights}}
	if kind == "cas" {
		c.ROI.Stages = nil
		for i, iou := range m.Predictor.Cas.IoU {
			c.ROI.Stages = append(c.ROI.Stages, Stage{iou, m.Predictor.Cas.Weights[i]})
		}
	}
	return c
}

// maps are the feature maps, as inputs of a graph.
func (h heads) maps() (maps []any) {
	for _, level := range h.headsMeta.Config.Levels {
		maps = append(maps, gomlxtest.Input(channelsLast(h.want["features."+level])))
	}
	return maps
}

// anchors returns the anchors of all levels.
func (h heads) anchors() ([]rect, []int) {
	var sizes [][2]int
	for _, level := range h.headsMeta.Config.Levels {
		d := h.want["features."+level].Shape
		sizes = append(sizes, [2]int{d[2], d[3]})
	}
	return h.config("std").RPN.anchors(sizes, h.headsMeta.Config.Strides)
}

func (h heads) batch() int { return len(h.headsMeta.Config.Sizes) }

// truths are the objects, with polygons for "std" and bitmaps for "cas".
func (h heads) truths(kind string) (truths []truth) {
	for i, size := range h.headsMeta.Config.Sizes {
		p := fmt.Sprintf("gt.%d.", i)
		t := truth{size: size, boxes: boxesOf(h.want[p+"boxes"]), classes: ints(h.want[p+"classes"])}
		for k := range t.boxes {
			o := scenes.Object{Polygons: h.headsMeta.Polygons[i].Instances[k]}
			if kind == "cas" {
				masks := h.want[p+"bitmasks"] // [objects, rows, cols]
				rows, cols := masks.Shape[1], masks.Shape[2]
				pixels := make([]bool, rows*cols)
				for at, x := range masks.Data[k*rows*cols : (k+1)*rows*cols] {
					pixels[at] = x == 1
				}
				o = scenes.Object{Mask: coco.Encode(pixels, rows, cols)}
			}
			t.masks = append(t.masks, maskOf(o))
		}
		truths = append(truths, t)
	}
	return truths
}

// given returns the fixture's draws.
func (h heads) given(image int) drawer {
	lists := []string{"rpn.given.%d.pos", "rpn.given.%d.neg", "roi.given.%d.fg", "roi.given.%d.bg"}
	return func(from []int, n int) []int {
		list := ints(h.want[fmt.Sprintf(lists[0], image)])
		lists = lists[1:]
		equal(h, fmt.Sprintf("drawn of image %d", image), n, len(list))
		for _, i := range list {
			if !slices.Contains(from, i) {
				h.Errorf("image %d: %d is not among those to draw from", image, i)
			}
		}
		return list
	}
}

// proposals returns the fixture's proposals, for "train" or "test".
func (h heads) proposals(mode string) (of [][]rect) {
	for i := range h.batch() {
		of = append(of, boxesOf(h.want[fmt.Sprintf("rpn.%s_proposals.%d.boxes", mode, i)]))
	}
	return of
}

// inputs returns the inputs of a step, without images.
func (h heads) inputs(kind string) inputs[*tensors.Tensor] {
	anchors, _ := h.anchors()
	in, err := h.config(kind).targets(h.truths(kind), anchors, h.proposals("train"), h.given)
	gomlxtest.NoError(h, err)
	in.Images = tensors.FromScalar(float32(0))
	return in
}

// run runs a graph on the feature maps and the inputs of a step.
func (h heads) run(f *foreign, kind string, build func(scope *model.Scope, maps []*Node, in inputs[*Node], out *named),
) map[string][]float64 {
	inputs := h.maps()
	n := len(inputs)
	for _, x := range h.inputs(kind).list() {
		inputs = append(inputs, x)
	}
	return runNamed(h.T, f.Store, func(scope *model.Scope, in []*Node, out *named) {
		build(scope, in[:n], inputsOf(in[n:]), out)
	}, inputs...)
}

// near compares with a tensor of the fixture.
func (h heads) near(got map[string][]float64, name string, tolerance float64) {
	h.Helper()
	gomlxtest.NearAbs(h.T, name, got[name], h.want[name].Data, tolerance)
}

// gradients adds the gradients of loss by the maps and by all variables to the outputs of a graph.
func (h heads) gradients(scope *model.Scope, maps []*Node, loss *Node, out *named) {
	for i, x := range Gradient(loss, maps...) {
		out.addf(x, "gradient by features.%s", h.headsMeta.Config.Levels[i])
	}
	out.gradients(scope.Store(), loss)
}

func (h heads) checkGradients(got map[string][]float64, prefix string, mapped func(*foreign)) {
	h.Helper()
	for _, level := range h.headsMeta.Config.Levels {
		nearFloor(h.T, prefix+" features."+level, got["gradient by features."+level],
			channelsLast(h.want[prefix+".grad.features."+level]).Data, h.Tolerance.Gradient, h.Tolerance.Floor)
	}
	wanted := load(h.T, headsSet, "tensors.safetensors", prefix+".grad.")
	mapped(wanted)
	checkGradients(h.T, got, wanted.Store, h.Tolerance.Gradient, h.Tolerance.Floor)
}

func (f *foreign) rpn(c RPN) {
	for i := range c.Convs {
		f.conv(fmt.Sprintf("rpn/conv_%d", i), fmt.Sprintf("rpn_head.conv.conv%d", i))
	}
	f.conv("rpn/objects", "rpn_head.objectness_logits")
	f.conv("rpn/deltas", "rpn_head.anchor_deltas")
}

// roi maps box and mask heads; a cascade's are numbered.
func (f *foreign) roi(c Config) {
	for stage := range c.ROI.Stages {
		from, predictor, to := "box_head.", "box_predictor.", fmt.Sprintf("roi/stage_%d/", stage)
		if c.ROI.agnostic() {
			from, predictor = fmt.Sprintf("%s%d.", from, stage), fmt.Sprintf("%s%d.", predictor, stage)
		}
		channels := c.Channels
		for i, n := range c.ROI.Convs {
			f.conv(fmt.Sprintf("%sconv_%d", to, i), fmt.Sprintf("%sconv%d", from, i+1))
			channels = n
		}
		for i, units := range c.ROI.Dense {
			name, path := fmt.Sprintf("%sfc%d", from, i+1), fmt.Sprintf("%sdense_%d", to, i)
			w := f.Get(name + ".weight") // [units, channels·size²], channels outermost
			if i > 0 {
				channels = w.Shape[1]
			}
			f.Set(path+"/weights", gomlxtest.Reversed(w.Data, units, channels, w.Shape[1]/channels), w.Shape[1], units)
			f.Vector(path+"/biases", name+".bias")
		}
		f.Layer(to+"classes", predictor+"cls_score")
		f.Layer(to+"deltas", predictor+"bbox_pred")
	}
	for i := range c.ROI.Masks {
		f.conv(fmt.Sprintf("roi/mask/conv_%d", i), fmt.Sprintf("mask_head.mask_fcn%d", i+1))
	}
	f.doubling("roi/mask/double", "mask_head.deconv")
	f.conv("roi/mask/classes", "mask_head.predictor")
}

func testProposals(t *testing.T, h heads) {
	c := h.config("std").RPN
	anchors, ends := h.anchors()
	f := load(t, headsSet, "model.safetensors", "rpn.")
	f.rpn(c)
	f.AllUsed("")
	got := h.run(f, "std", func(scope *model.Scope, maps []*Node, in inputs[*Node], out *named) {
		logits, by := c.head(scope.In("rpn"), maps)
		of := constant(logits.Graph(), anchors)
		out.add("logits", logits)
		out.add("deltas", by)
		out.add("decoded", rpnDeltas.decode(by, InsertAxes(of, 0)))
		class, box := c.losses(logits, by, of, in)
		out.add("rpn.loss_rpn_cls", class)
		out.add("rpn.loss_rpn_loc", box)
		h.gradients(scope, maps, Add(class, box), out)
	})
	h.near(got, "rpn.loss_rpn_cls", h.Tolerance.Loss)
	h.near(got, "rpn.loss_rpn_loc", h.Tolerance.Loss)
	h.checkGradients(got, "rpn", func(f *foreign) { f.rpn(c) })

	begin := 0
	for i, level := range h.headsMeta.Config.Levels {
		gomlxtest.NearAbs(t, "anchors", boxesFlat(anchors[begin:ends[i]]), h.want["rpn.anchors."+level].Data, 1e-4)
		for image := range h.batch() {
			for _, x := range []struct {
				got, want string
				each      int
				tolerance float64
			}{
				{"logits", "rpn.head_logits.", 1, h.Tolerance.Module}, {"deltas", "rpn.head_deltas.", 4, h.Tolerance.Module},
				{"decoded", "rpn.decoded.", 4, h.Tolerance.Boxes},
			} {
				want := h.want[x.want+level]
				if x.got != "decoded" {
					want = channelsLast(want)
				}
				n := len(want.Data) / h.batch()
				at := (image*len(anchors) + begin) * x.each
				gomlxtest.NearAbs(t, x.want+level, got[x.got][at:at+n], want.Data[image*n:(image+1)*n], x.tolerance)
			}
		}
		begin = ends[i]
	}

	for image, size := range h.headsMeta.Config.Sizes {
		n := len(anchors)
		logits, boxes := make([]float32, n), make([]rect, n)
		for i := range n {
			logits[i] = float32(got["logits"][image*n+i])
			for k := range 4 {
				boxes[i][k] = float32(got["decoded"][(image*n+i)*4+k])
			}
		}
		for mode, counts := range map[string][2]int{
			"train": {c.Before.Train, c.After.Train}, "test": {c.Before.Test, c.After.Test},
		} {
			proposals, scores := c.proposals(logits, boxes, ends, size, counts[0], counts[1])
			p := fmt.Sprintf("rpn.%s_proposals.%d.", mode, image)
			gomlxtest.NearAbs(t, p, boxesFlat(proposals), h.want[p+"boxes"].Data, h.Tolerance.Boxes)
			gomlxtest.NearAbs(t, p, scores, h.want[p+"logits"].Data, h.Tolerance.Module)
		}
		_, labels := c.matcher().match(overlaps(h.truths("std")[image].boxes, anchors), len(anchors))
		equal(t, "labels of anchors", labels, ints(h.want["rpn.match_labels"])[image*n:(image+1)*n])
	}
}

func boxesFlat(boxes []rect) (flat []float32) {
	for _, b := range boxes {
		flat = append(flat, b[:]...)
	}
	return flat
}

func testTargets(t *testing.T, h heads) {
	for kind, name := range map[string]string{"std": "mask_targets.polygon", "cas": "mask_targets.bitmask"} {
		c, in := h.config(kind), h.inputs(kind)
		boxes, classes := gomlxtest.Values(t, in.Boxes), gomlxtest.Values(t, in.Classes)
		targets, masks := gomlxtest.Values(t, in.Targets), gomlxtest.Values(t, in.Masks)
		n, most := c.ROI.Samples, in.Masks.Shape().Dim(1)
		area := 4 * c.ROI.MaskSize * c.ROI.MaskSize
		var known []float64
		for image := range h.batch() {
			p := fmt.Sprintf("sampled.%d.", image)
			own := h.truths(kind)[image]
			all := slices.Concat(h.proposals("train")[image], own.boxes)
			of, labels := c.ROI.matcher().match(overlaps(own.boxes, all), len(all))
			matched := slices.Repeat([]int{c.Backbone.Classes}, len(all))
			for i, label := range labels {
				if label == matchObject {
					matched[i] = own.classes[of[i]]
				}
			}
			equal(t, "classes of proposals", matched, ints(h.want[fmt.Sprintf("roi.match_classes.%d", image)]))
			rows := len(h.want[p+"gt_classes"].Data)
			gomlxtest.NearAbs(t, p+"boxes", boxes[image*n*4:(image*n+rows)*4], h.want[p+"boxes"].Data, h.Tolerance.Boxes)
			gomlxtest.NearAbs(t, p+"gt_classes", classes[image*n:image*n+rows], h.want[p+"gt_classes"].Data, 0)
			if x, ok := h.want[p+"gt_boxes"]; ok {
				gomlxtest.NearAbs(t, p+"gt_boxes", targets[image*n*4:(image*n+rows)*4], x.Data, 1e-4)
			}
			objects := len(h.want[fmt.Sprintf("roi.given.%d.fg", image)].Data)
			known = append(known, masks[image*most*area:(image*most+objects)*area]...)
			behind := masks[(image*most+objects)*area : (image+1)*most*area]
			gomlxtest.NearAbs(t, "masks behind the last object", behind, slices.Repeat([]float64{-1}, len(behind)), 0)
		}
		gomlxtest.NearAbs(t, name, known, h.want[name].Data, 0)
	}
}

func testHeads(t *testing.T, h heads) {
	bitmaps := h.inputs("cas").Masks
	for _, kind := range []string{"std", "cas"} {
		c := h.config(kind)
		f := load(t, headsSet, "model.safetensors", kind+".")
		f.roi(c)
		f.AllUsed("")
		stage := func(i int, name string) string {
			if kind == "std" {
				return "std." + name
			}
			return fmt.Sprintf("cas.stage%d.%s", i, name)
		}
		loss := func(i int, name string) string {
			if kind == "std" {
				return "std.loss_" + name
			}
			return fmt.Sprintf("cas.loss_%s_stage%d", name, i)
		}
		got := h.run(f, kind, func(scope *model.Scope, maps []*Node, in inputs[*Node], out *named) {
			roi := scope.In("roi")
			r := regions{c.ROI, c.Backbone.Classes, maps, h.headsMeta.Config.Strides}
			all := r.boxHeads(roi, in.Boxes, in.Sizes)
			class, box := r.losses(all, in)
			n := in.Masks.Shape().Dim(1)
			objects := SliceAxis(in.Boxes, 1, AxisRange(0, n))
			masks := r.masks(roi.In("mask"), objects)
			mask := r.maskLoss(masks, in)

			out.add("box_pooled", r.pool(in.Boxes, c.ROI.Size))
			out.add("mask_pooled", r.pool(objects, c.ROI.MaskSize))
			out.add(kind+".mask_logits", masks)
			out.add(kind+".loss_mask", mask)
			in.Masks = Const(mask.Graph(), bitmaps)
			out.add(kind+".loss_mask_with_bitmask_targets", r.maskLoss(masks, in))
			total := mask
			labels, targets := in.Classes, in.Targets
			for i, j := range all {
				out.add(stage(i, "box_features"), j.Features)
				out.add(stage(i, "cls_logits"), j.Logits)
				out.add(stage(i, "box_deltas"), j.Deltas)
				out.add(loss(i, "cls"), class[i])
				out.add(loss(i, "box_reg"), box[i])
				if i > 0 {
					labels, targets = r.matched(j.Boxes, in, c.ROI.Stages[i].IoU)
				}
				out.addf(j.Boxes, "boxes %d", i)
				out.addf(labels, "labels %d", i)
				out.addf(targets, "targets %d", i)
				total = Add(total, Add(class[i], box[i]))
			}
			h.gradients(scope, maps, total, out)
		})
		n := c.ROI.Samples
		rows := h.rows("sampled.%d.boxes") // the existing samples
		h.nearRows("box_pooled", got["box_pooled"], rows)
		for i := range c.ROI.Stages {
			if i > 0 { // detectron2 drops boxes that were clipped to nothing
				for image := range rows {
					rows[image] = slices.DeleteFunc(rows[image], func(row int) bool {
						b := got[fmt.Sprintf("boxes %d", i)][(image*n+row)*4:]
						return !(b[2] > b[0]) || !(b[3] > b[1])
					})
				}
			}
			for _, name := range []string{"box_features", "cls_logits", "box_deltas"} {
				h.nearRows(stage(i, name), got[stage(i, name)], rows)
			}
			h.near(got, loss(i, "cls"), h.Tolerance.Loss)
			h.near(got, loss(i, "box_reg"), h.Tolerance.Loss)
			for image := range rows {
				p := fmt.Sprintf("cas.stage%d.%d.", i, image)
				if _, ok := h.want[p+"gt_classes"]; ok {
					part := func(name string, each int) (values []float64) {
						for _, row := range rows[image] {
							at := (image*n + row) * each
							values = append(values, got[fmt.Sprintf("%s %d", name, i)][at:at+each]...)
						}
						return values
					}
					gomlxtest.NearAbs(t, p+"boxes", part("boxes", 4), h.want[p+"boxes"].Data, h.Tolerance.Boxes)
					gomlxtest.NearAbs(t, p+"gt_classes", part("labels", 1), h.want[p+"gt_classes"].Data, 0)
					gomlxtest.NearAbs(t, p+"gt_boxes", part("targets", 4), h.want[p+"gt_boxes"].Data, h.Tolerance.Boxes)
				}
			}
		}
		h.near(got, kind+".loss_mask", h.Tolerance.Loss)
		if kind == "std" { // whose own targets are polygons
			h.near(got, kind+".loss_mask_with_bitmask_targets", h.Tolerance.Loss)
		}
		objects := h.rows("roi.given.%d.fg")
		h.nearRows("mask_pooled", got["mask_pooled"], objects)
		h.nearRows(kind+".mask_logits", got[kind+".mask_logits"], objects)
		h.checkGradients(got, kind, func(f *foreign) { f.roi(c) })
	}
}

// rows numbers the rows of a tensor of each image.
func (h heads) rows(format string) [][]int {
	rows := make([][]int, h.batch())
	for image := range rows {
		for i := range h.want[fmt.Sprintf(format, image)].Shape[0] {
			rows[image] = append(rows[image], i)
		}
	}
	return rows
}

// nearRows compares some rows of each image's part of got, parts concatenated and of equal length, with a tensor of
// these rows of all images.
func (h heads) nearRows(name string, got []float64, rows [][]int) {
	h.Helper()
	want := h.want[name]
	if len(want.Shape) == 4 {
		want = channelsLast(want)
	}
	each, part := len(want.Data)/max(1, want.Shape[0]), len(got)/h.batch()
	var values []float64
	for image := range rows {
		for _, row := range rows[image] {
			values = append(values, got[image*part+row*each:image*part+(row+1)*each]...)
		}
	}
	gomlxtest.NearAbs(h.T, name, values, want.Data, h.Tolerance.Chain)
}

func testDetections(t *testing.T, h heads) {
	proposals := h.proposals("test")
	n, rows := 0, h.rows("rpn.test_proposals.%d.boxes")
	for _, boxes := range proposals {
		n = max(n, len(boxes))
	}
	for image, boxes := range proposals {
		proposals[image] = append(boxes, make([]rect, n-len(boxes))...)
	}
	for _, kind := range []string{"std", "cas"} {
		c := h.config(kind)
		f := load(t, headsSet, "model.safetensors", kind+".")
		f.roi(c)
		inputs := append(h.maps(), boxTensor(slices.Concat(proposals...), h.batch(), n),
			sizeTensor(h.headsMeta.Config.Sizes))
		each := regions{ROI: c.ROI, classes: c.Backbone.Classes, strides: h.headsMeta.Config.Strides}
		got := runNamed(t, f.Store, func(scope *model.Scope, in []*Node, out *named) {
			r := each
			r.maps = in[:len(in)-2]
			all := r.boxHeads(scope.In("roi"), in[len(in)-2], in[len(in)-1])
			for i, j := range all {
				p := "std.test."
				if kind == "cas" {
					p = fmt.Sprintf("cas.test.stage%d.", i)
				}
				out.add(p+"cls_logits", j.Logits)
				out.add(p+"box_deltas", j.Deltas)
			}
			scores, boxes := r.results(all, in[len(in)-1])
			out.add("scores", scores)
			out.add("boxes", boxes)
		}, inputs...)
		for name := range got {
			if strings.HasPrefix(name, kind) {
				h.nearRows(name, got[name], rows)
			}
		}
		for image, size := range h.headsMeta.Config.Sizes {
			part := func(name string) []float32 {
				k := len(got[name]) / h.batch()
				own := got[name][image*k : image*k+k/n*len(rows[image])]
				return fixtures.Tensor{Data: own}.Float32()
			}
			found := c.ROI.detections(part("scores"), boxesIn(part("boxes")), c.Backbone.Classes)
			h.checkDetections(c, f, kind, image, size, found)
		}
	}
}

// checkDetections compares the detections of one image, their masks, and their rescaling to an image of another size.
func (h heads) checkDetections(c Config, f *foreign, kind string, image int, size [2]int, found []detection) {
	h.Helper()
	p := fmt.Sprintf("%s.test.%d.", kind, image)
	var boxes []rect
	var scores []float32
	var classes []int64
	for _, d := range found {
		boxes, scores, classes = append(boxes, d.box), append(scores, d.score), append(classes, int64(d.class))
	}
	gomlxtest.NearAbs(h.T, p+"boxes", boxesFlat(boxes), h.want[p+"boxes"].Data, h.Tolerance.Boxes)
	gomlxtest.NearAbs(h.T, p+"scores", scores, h.want[p+"scores"].Data, h.Tolerance.Chain)
	equal(h, p+"classes", fmt.Sprint(classes), fmt.Sprint(h.want[p+"classes"].Data))
	if len(found) == 0 {
		return
	}
	inputs := h.maps()
	repeated := slices.Repeat(boxes, h.batch()) // the graph is for all images
	inputs = append(inputs, boxTensor(repeated, h.batch(), len(boxes)),
		tensors.FromFlatDataAndDimensions(slices.Repeat(classes, h.batch()), h.batch(), len(classes)))
	got := runNamed(h.T, f.Store, func(scope *model.Scope, in []*Node, out *named) {
		r := regions{c.ROI, c.Backbone.Classes, in[:len(in)-2], h.headsMeta.Config.Strides}
		masks := r.masks(scope.In("roi").In("mask"), in[len(in)-2])
		out.add("masks", Sigmoid(r.ofClass(masks, in[len(in)-1])))
	}, inputs...)["masks"]
	k := len(got) / h.batch()
	got = got[image*k : (image+1)*k]
	gomlxtest.NearAbs(h.T, p+"masks", got, h.want[p+"masks"].Data, h.Tolerance.Chain)

	post, ok := h.want[p+"post_boxes"]
	if !ok {
		return
	}
	final := objects(found, fixtures.Tensor{Data: got}.Float32(), 2*c.ROI.MaskSize, size, h.Post)
	if len(final) != post.Shape[0] {
		h.Fatalf("%s: %d objects, want %d", p, len(final), post.Shape[0])
	}
	differing, pixels := 0, h.Post[0]*h.Post[1]
	for i, o := range final {
		corners := o.Box.Corners()
		gomlxtest.NearAbs(h.T, p+"post_boxes", corners[:], post.Data[4*i:4*i+4], h.Tolerance.Boxes)
		equal(h, p+"post_classes", o.Class, int(h.want[p+"post_classes"].Data[i]))
		for pixel, in := range o.Mask.Decode() {
			if in != (h.want[p+"post_masks"].Data[i*pixels+pixel] == 1) {
				differing++
			}
		}
	}
	if differing > h.Tolerance.Pasted {
		h.Errorf("%s: %d pixels of the pasted masks differ, want at most %d", p, differing, h.Tolerance.Pasted)
	}
}
