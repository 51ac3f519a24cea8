// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The operations on boxes and regions equal torchvision's and detectron2's: fixture "roi".
const roiSet = "roi"

type matcherMeta struct {
	Thresholds []float32
	Labels     []int
	LowQuality bool `json:"allow_low_quality_matches"`
}

// matcher converts to ours; with one threshold nothing is ignored.
func (m matcherMeta) matcher() matcher {
	return matcher{low: m.Thresholds[0], high: m.Thresholds[len(m.Thresholds)-1], allowLow: m.LowQuality}
}

type suppressions map[string]struct {
	Overlap float32 `json:"iou_threshold"`
}

type roiMeta struct {
	Config struct {
		Image   [2]int `json:"image_h_w"`
		Strides []float64
		Output  [2]int `json:"output_size"`
		Odd     [2]int `json:"odd_output_size"`
	}
	Levels map[string]struct {
		First         int     `json:"min_level"`
		Last          int     `json:"max_level"`
		CanonicalSize float64 `json:"canonical_box_size"`
		Canonical     int     `json:"canonical_level"`
	}
	NMS     suppressions
	Batched suppressions `json:"batched_nms"`
	Deltas  struct {
		Clamp   float64 `json:"scale_clamp"`
		Weights map[string]deltas
	}
	Anchors map[string]struct {
		Sizes   [][]float64
		Ratios  json.RawMessage `json:"aspect_ratios_h_over_w"` // one list, or one for each level
		Strides []float64
		Grids   [][2]int `json:"grids_h_w"`
		Offset  float64
	}
	Matcher   map[string]matcherMeta
	Tolerance struct {
		Align    float64 `json:"roi_align_abs"`
		Gradient float64 `json:"roi_align_grad_abs"`
		IoU      float64 `json:"iou_abs"`
		Encoded  float64 `json:"deltas_encoded_abs"`
		Decoded  float64 `json:"decoded_relative"`
		Anchors  float64 `json:"anchors_abs"`
	}
}

func roiFixture(t *testing.T) (meta roiMeta, want reference) {
	fixtures.JSON(t, roiSet, "meta.json", &meta)
	return meta, fixtures.Tensors(t, roiSet, "tensors.safetensors")
}

// boxesOf returns the last four columns of a tensor [n, 4] or [n, 5].
func boxesOf(x fixtures.Tensor) []rect {
	boxes := make([]rect, x.Shape[0])
	for i := range boxes {
		for k := range 4 {
			boxes[i][k] = float32(x.Data[(i+1)*x.Shape[1]-4+k])
		}
	}
	return boxes
}

// perImage returns boxes [n, 5] as [batch, n, 4], the same for all images, and a mask [batch, n] of each image's boxes.
func perImage(x fixtures.Tensor, batch int) (boxes, of *tensors.Tensor) {
	n := x.Shape[0]
	var flat []float32
	own := make([]float32, batch*n)
	for image := range batch {
		for i, b := range boxesOf(x) {
			flat = append(flat, b[:]...)
			if int(x.Data[i*5]) == image {
				own[image*n+i] = 1
			}
		}
	}
	return tensors.FromFlatDataAndDimensions(flat, batch, n, 4), tensors.FromFlatDataAndDimensions(own, batch, n)
}

// overImages adds bins [batch·n, …] of the same boxes in all images: [n, …].
func overImages(bins *Node, batch int) *Node {
	return ReduceSum(Reshape(bins, append([]int{batch, -1}, bins.Shape().Dimensions[1:]...)...), 0)
}

func testROIAlign(t *testing.T, meta roiMeta, want reference) {
	c := meta.Config
	type run struct {
		name, boxes string
		level       int
		size        [2]int
		samples     int
	}
	runs := []run{
		{"roi_align.odd", "boxes", 1, c.Odd, 2}, {"roi_align.sampling3", "boxes", 1, c.Odd, 3},
		{"roi_align.adaptive", "boxes", 0, c.Output, 0}, {"inverted", "inverted.boxes", 1, c.Output, 2},
	}
	for level := range c.Strides {
		runs = append(runs, run{fmt.Sprintf("roi_align.level%d", level), "boxes", level, c.Output, 2})
	}
	for _, run := range runs {
		features := channelsLast(want[fmt.Sprintf("features.level%d", run.level)])
		batch, n := features.Shape[0], want[run.boxes].Shape[0]
		boxes, of := perImage(want[run.boxes], batch)
		longest := float32(0)
		for _, b := range boxesOf(want[run.boxes]) {
			longest = max(longest, b[2]-b[0], b[3]-b[1])
		}
		align := roiAlign{rows: run.size[0], cols: run.size[1], stride: c.Strides[run.level], samples: run.samples,
			most: atMost(float64(longest)/c.Strides[run.level], min(run.size[0], run.size[1]))}
		cotangent := map[[2]int]string{c.Output: "cotangent", c.Odd: "cotangent_odd"}[run.size]
		by := channelsLast(want[cotangent])
		by.Data, by.Shape[0] = by.Data[:n*len(by.Data)/by.Shape[0]], n
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			bins := overImages(align.bins(in[0], in[1], in[2]), batch)
			return []*Node{bins, Gradient(ReduceAllSum(Mul(bins, in[3])), in[0])[0]}
		}, gomlxtest.Input(features), boxes, of, gomlxtest.Input(by))
		gomlxtest.NearAbs(t, run.name, got[0], channelsLast(want[run.name+".out"]).Data, meta.Tolerance.Align)
		if x, ok := want[run.name+".grad_features"]; ok {
			gomlxtest.NearAbs(t, run.name+" gradient", got[1], channelsLast(x).Data, meta.Tolerance.Gradient)
		}
	}
}

func testLevels(t *testing.T, meta roiMeta, want reference) {
	boxes := want["levels.boxes"]
	boxes.Shape = append([]int{1}, boxes.Shape...)
	for name, m := range meta.Levels {
		l := levels{m.CanonicalSize, m.Canonical, m.First, m.Last}
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return l.weights(in[0]) }, gomlxtest.Input(boxes))
		for i, level := range want["levels."+name].Data {
			for k, weights := range got {
				if (weights[i] == 1) != (k == int(level)) || weights[i] != 0 && weights[i] != 1 {
					t.Errorf("%s: box %d has weight %g on level %d, want level %g", name, i, weights[i], k, level)
				}
			}
		}
	}
}

func testPooler(t *testing.T, meta roiMeta, want reference) {
	m, c := meta.Levels["small"], meta.Config
	l := levels{m.CanonicalSize, m.Canonical, m.First, m.Last}
	var inputs []any
	for i := range c.Strides {
		inputs = append(inputs, gomlxtest.Input(channelsLast(want[fmt.Sprintf("features.level%d", i)])))
	}
	batch := want["features.level0"].Shape[0]
	boxes, of := perImage(want["boxes"], batch)
	n := want["boxes"].Shape[0]
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		maps, in := in[:len(c.Strides)], in[len(c.Strides):]
		bins := l.pool(maps, c.Strides, in[0], c.Output[0], 2)
		bins = overImages(Mul(bins, Reshape(in[1], batch*n, 1, 1, 1)), batch)
		return append([]*Node{bins}, Gradient(ReduceAllSum(Mul(bins, in[2])), maps...)...)
	}, append(inputs, boxes, of, gomlxtest.Input(channelsLast(want["cotangent"])))...)
	out := channelsLast(want["pooler.out"])
	size := len(out.Data) / n
	for i, row := range want["pooler.box_index"].Data {
		gomlxtest.NearAbs(t, fmt.Sprintf("box %g", row), got[0][int(row)*size:(int(row)+1)*size],
			out.Data[i*size:(i+1)*size], meta.Tolerance.Align)
	}
	for i := range c.Strides {
		name := fmt.Sprintf("pooler.grad_level%d", i)
		gomlxtest.NearAbs(t, name, got[1+i], channelsLast(want[name]).Data, meta.Tolerance.Gradient)
	}
}

func scored(boxes []rect, scores []float32, classes []int) (all []detection) {
	for i, box := range boxes {
		all = append(all, detection{box, classes[i], scores[i]})
	}
	return all
}

func ints(x fixtures.Tensor) []int {
	out := make([]int, len(x.Data))
	for i, v := range x.Data {
		out[i] = int(v)
	}
	return out
}

// Across classes ours equals keep_per_class, which does not shift coordinates.
func testNMS(t *testing.T, meta roiMeta, want reference) {
	for name, m := range meta.NMS {
		p := "nms." + name
		boxes := boxesOf(want[p+".boxes"])
		got := nms(scored(boxes, want[p+".scores"].Float32(), make([]int, len(boxes))), m.Overlap, math.MaxInt)
		equal(t, p, fmt.Sprint(got), fmt.Sprint(ints(want[p+".keep"])))
	}
	for name, m := range meta.Batched {
		p := "batched_nms." + name
		boxes, scores, classes := boxesOf(want[p+".boxes"]), want[p+".scores"].Float32(), ints(want[p+".classes"])
		all := ints(want[p+".keep_per_class"])
		for _, limit := range []int{math.MaxInt, 2} {
			got := nms(scored(boxes, scores, classes), m.Overlap, limit)
			equal(t, p, fmt.Sprint(got), fmt.Sprint(all[:min(limit, len(all))]))
		}
	}
}

func testOverlaps(t *testing.T, meta roiMeta, want reference) {
	batchOf := func(name string) *tensors.Tensor {
		x := want[name]
		return gomlxtest.Input(fixtures.Tensor{Shape: append([]int{1}, x.Shape...), Data: x.Data})
	}
	host := slices.Concat(overlaps(boxesOf(want["iou.boxes1"]), boxesOf(want["iou.boxes2"]))...)
	var clipped, kept []float32
	for _, b := range boxesOf(want["clip.boxes"]) {
		b = b.clip(meta.Config.Image)
		clipped = append(clipped, b[:]...)
		kept = append(kept, map[bool]float32{false: 1}[b.empty()])
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		inside := clip(in[2], in[3])
		return []*Node{pairwiseIoU(in[0], in[1]), inside, nonEmpty(inside)}
	}, batchOf("iou.boxes1"), batchOf("iou.boxes2"), batchOf("clip.boxes"), sizeTensor([][2]int{meta.Config.Image}))
	gomlxtest.NearAbs(t, "IoU", host, want["iou.pairwise_iou"].Data, meta.Tolerance.IoU)
	gomlxtest.NearAbs(t, "IoU in a graph", got[0], want["iou.pairwise_iou"].Data, meta.Tolerance.IoU)
	gomlxtest.NearAbs(t, "clipped", clipped, want["clip.out"].Data, 0)
	gomlxtest.NearAbs(t, "clipped in a graph", got[1], want["clip.out"].Data, 0)
	gomlxtest.NearAbs(t, "not empty", kept, want["clip.nonempty"].Data, 0)
	gomlxtest.NearAbs(t, "not empty in a graph", got[2], want["clip.nonempty"].Data, 0)
}

func testDeltas(t *testing.T, meta roiMeta, want reference) {
	gomlxtest.NearAbs(t, "clamp", []float64{scaleClamp}, []float64{meta.Deltas.Clamp}, 1e-12)
	// A coordinate is the difference of a centre and half a size: a small coordinate has their rounding error.
	relative := func(name string, got []float64) {
		for i, x := range want[name].Data {
			opposite := want[name].Data[i^2] // boxes are x0, y0, x1, y1
			tolerance := meta.Tolerance.Decoded * max(1, math.Abs(x), math.Abs(opposite))
			gomlxtest.NearAbs(t, name, got[i:i+1], []float64{x}, tolerance)
		}
	}
	src, three := gomlxtest.Input(want["deltas.src"]), want["deltas.in_3_classes"]
	three.Shape = []int{three.Shape[0], three.Shape[1] / 4, 4}
	for name, w := range meta.Deltas.Weights {
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			return []*Node{w.encode(in[0], in[1]), w.decode(in[2], in[0]),
				w.decode(in[3], InsertAxes(in[0], 1))}
		}, src, gomlxtest.Input(want["deltas.target"]), gomlxtest.Input(want["deltas.in"]), gomlxtest.Input(three))
		gomlxtest.NearAbs(t, name, got[0], want["deltas."+name+".encoded"].Data, meta.Tolerance.Encoded)
		relative("deltas."+name+".decoded", got[1])
		relative("deltas."+name+".decoded_3_classes", got[2])
	}
}

func testAnchors(t *testing.T, meta roiMeta, want reference) {
	for name, m := range meta.Anchors {
		for level, sizes := range m.Sizes {
			var ratios []float64
			if err := json.Unmarshal(m.Ratios, &ratios); err != nil {
				var each [][]float64
				gomlxtest.NoError(t, json.Unmarshal(m.Ratios, &each))
				ratios = each[level]
			}
			cell := cellAnchors(sizes, ratios)
			all := gridAnchors(cell, m.Grids[level][0], m.Grids[level][1], m.Strides[level], m.Offset)
			p := "anchors." + name
			gomlxtest.NearAbs(t, p, boxesFlat(cell), want[fmt.Sprintf("%s.cell%d", p, level)].Data, meta.Tolerance.Anchors)
			gomlxtest.NearAbs(t, p, boxesFlat(all), want[fmt.Sprintf("%s.level%d", p, level)].Data, meta.Tolerance.Anchors)
		}
	}
}

func testMatches(t *testing.T, meta roiMeta, want reference) {
	cases := 0
	for name, x := range want {
		set, ok := strings.CutSuffix(name, ".quality")
		if !ok {
			continue
		}
		quality := make([][]float32, x.Shape[0])
		for i := range quality {
			quality[i] = x.Float32()[i*x.Shape[1] : (i+1)*x.Shape[1]]
		}
		for kind, m := range meta.Matcher {
			cases++
			objects, labels := m.matcher().match(quality, x.Shape[1])
			p := set + "." + kind
			equal(t, p, [2][]int{objects, labels}, [2][]int{ints(want[p+".index"]), ints(want[p+".label"])})
		}
	}
	if cases < 15 {
		t.Errorf("%d cases, want at least 15", cases)
	}
}
