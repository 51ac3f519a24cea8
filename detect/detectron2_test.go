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
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit"
)

// reference contains the tensors of a set by name.
type reference map[string]fixtures.Tensor

// Operations on boxes and regions, the backbone, and the heads, in training and inference: their values, losses and
// gradients equal those of torchvision and detectron2, in the sets roi, vitdet and mask_rcnn.
func TestDetectron2(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		roi, boxes := roiFixture(t)
		for name, test := range map[string]func(*testing.T, roiMeta, reference){"ROIAlign": testROIAlign,
			"levels": testLevels, "pooler": testPooler, "NMS": testNMS, "overlaps": testOverlaps, "deltas": testDeltas,
			"anchors": testAnchors, "matches": testMatches} {
			t.Run(name, func(t *testing.T) { test(t, roi, boxes) })
		}
		meta, b, want := vitdet(t)
		for name, test := range map[string]func(*testing.T, vitdetMeta, Backbone, reference){"backbone": testBackbone,
			"other sizes": testOtherSizes, "relative vectors": testRelativeVectors, "bottleneck": testBottleneck,
			"learning rates": testLearningRates} {
			t.Run(name, func(t *testing.T) { test(t, meta, b, want) })
		}
		for name, test := range map[string]func(*testing.T, heads){"proposals": testProposals, "targets": testTargets,
			"heads": testHeads, "detections": testDetections} {
			t.Run(name, func(t *testing.T) { test(t, headsFixture(t)) })
		}
	})
}

// foreign maps the tensors of detectron2 into a store, below /detector.
type foreign struct{ *gomlxtest.Torch }

const foreignScope = detectorScope + "/"

// load reads the tensors of a file whose names begin with prefix, and removes the prefix.
func load(t testing.TB, set, file, prefix string) *foreign {
	f := &foreign{gomlxtest.LoadTorch(t, set, file, foreignScope)}
	own := map[string]fixtures.Tensor{}
	for name, x := range f.Tensors {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			own[rest] = x
		}
	}
	f.Tensors = own
	return f
}

// conv sets a convolution [out, in, k, k] at path as [k, k, in, out], with its bias or norm if it has one.
func (f *foreign) conv(path, name string) {
	w := f.Get(name + ".weight")
	out, in, k := w.Shape[0], w.Shape[1], w.Shape[2]
	data := gomlxtest.Reversed(w.Data, out, in, k*k)
	if k == 1 {
		f.Set(path+"/weights", data, in, out)
	} else {
		f.Set(path+"/weights", data, k, k, in, out)
	}
	f.biasAndNorm(path, name)
}

func (f *foreign) biasAndNorm(path, name string) {
	if _, ok := f.Tensors[name+".bias"]; ok {
		f.Vector(path+"/biases", name+".bias")
	}
	if _, ok := f.Tensors[name+".norm.weight"]; ok {
		f.Norm(path+"/norm", name+".norm")
	}
}

// doubling sets a transposed convolution [in, out, 2, 2] at path as [in, 2, 2, out].
func (f *foreign) doubling(path, name string) {
	w := f.Get(name + ".weight")
	in, out := w.Shape[0], w.Shape[1]
	var data []float64
	for i := range in {
		data = append(data, gomlxtest.Reversed(w.Data[i*out*4:(i+1)*out*4], out, 1, 4)...)
	}
	f.Set(path+"/weights", data, in, 2, 2, out)
	f.biasAndNorm(path, name)
}

// channelsLast is a tensor [batch, channels, rows, cols] as [batch, rows, cols, channels].
func channelsLast(x fixtures.Tensor) fixtures.Tensor {
	n, c, h, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	out := fixtures.Tensor{Shape: []int{n, h, w, c}}
	for i := range n {
		out.Data = append(out.Data, gomlxtest.Reversed(x.Data[i*c*h*w:(i+1)*c*h*w], c, 1, h*w)...)
	}
	return out
}

// gradients adds the gradients of loss by the variables of a store, by their paths below the scope.
func (n *named) gradients(store *model.Store, loss *Node) {
	var by []*Node
	for v := range store.IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), foreignScope); ok && v.InUseByGraph(loss.Graph()) {
			n.names, by = append(n.names, "gradient of "+path), append(by, v.NodeValue(loss.Graph()))
		}
	}
	n.nodes = append(n.nodes, Gradient(loss, by...)...)
}

// checkGradients compares the results of named.gradients with the variables of wanted, which contains the gradients:
// all of them, and nothing else, within tolerance of the largest entry plus a floor.
func checkGradients(t *testing.T, got map[string][]float64, wanted *model.Store, tolerance, floor float64) {
	t.Helper()
	for v := range wanted.IterVariables() {
		name := "gradient of " + strings.TrimPrefix(v.Path(), foreignScope)
		nearFloor(t, name, got[name], gomlxtest.Values(t, v.MustValue()), tolerance, floor)
		delete(got, name)
	}
	for name := range got {
		if strings.HasPrefix(name, "gradient of ") {
			t.Errorf("the fixture has no %s", name)
		}
	}
}

// nearFloor fails the test unless got and want are equal within tolerance times the largest entry, plus a floor.
func nearFloor(t *testing.T, name string, got, want []float64, tolerance, floor float64) {
	t.Helper()
	largest := 0.0
	for _, x := range want {
		largest = max(largest, math.Abs(x))
	}
	gomlxtest.NearAbs(t, name, got, want, tolerance*largest+floor)
}

// named pairs the outputs of a graph with names.
type named struct {
	names []string
	nodes []*Node
}

func (n *named) add(name string, x *Node) {
	n.names, n.nodes = append(n.names, name), append(n.nodes, x)
}

// addf is add for a formatted name.
func (n *named) addf(x *Node, format string, args ...any) { n.add(fmt.Sprintf(format, args...), x) }

// runNamed runs a graph with the variables of a store and returns its outputs by name; the graph creates no variables.
func runNamed(t *testing.T, store *model.Store, build func(scope *model.Scope, in []*Node, out *named),
	inputs ...any) map[string][]float64 {
	t.Helper()
	before := 0
	for range store.IterVariables() {
		before++
	}
	var out named
	values := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
		out = named{}
		build(s.In("detector"), in, &out)
		return out.nodes
	}, inputs...)
	for v := range store.IterVariables() {
		if before--; before < 0 && strings.HasPrefix(v.Path(), foreignScope) {
			t.Errorf("the fixture has no values of variable %s", v.Path())
		}
	}
	by := map[string][]float64{}
	for i, name := range out.names {
		by[name] = values[i]
	}
	return by
}

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
		is.Equal(t, p, fmt.Sprint(got), fmt.Sprint(ints(want[p+".keep"])))
	}
	for name, m := range meta.Batched {
		p := "batched_nms." + name
		boxes, scores, classes := boxesOf(want[p+".boxes"]), want[p+".scores"].Float32(), ints(want[p+".classes"])
		all := ints(want[p+".keep_per_class"])
		for _, limit := range []int{math.MaxInt, 2} {
			got := nms(scored(boxes, scores, classes), m.Overlap, limit)
			is.Equal(t, p, fmt.Sprint(got), fmt.Sprint(all[:min(limit, len(all))]))
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
	is.Near(t, "clamp", scaleClamp, meta.Deltas.Clamp, 1e-12)
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
			is.Equal(t, p, [2][]int{objects, labels}, [2][]int{ints(want[p+".index"]), ints(want[p+".label"])})
		}
	}
	if cases < 15 {
		t.Errorf("%d cases, want at least 15", cases)
	}
}

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
		is.Equal(h, fmt.Sprintf("drawn of image %d", image), n, len(list))
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
		is.Equal(t, "labels of anchors", labels, ints(h.want["rpn.match_labels"])[image*n:(image+1)*n])
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
			is.Equal(t, "classes of proposals", matched, ints(h.want[fmt.Sprintf("roi.match_classes.%d", image)]))
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
	is.Equal(h, p+"classes", fmt.Sprint(classes), fmt.Sprint(h.want[p+"classes"].Data))
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
		is.Equal(h, p+"post_classes", o.Class, int(h.want[p+"post_classes"].Data[i]))
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
