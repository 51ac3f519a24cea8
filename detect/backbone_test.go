// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// small is a backbone of two window blocks, on rows × cols patches of 2×2 pixels.
func small(position string, rows, cols, window int) Backbone {
	b, _ := Backbone{Config: vit.Config{
		ImageRows: 2 * rows, ImageCols: 2 * cols, PatchSize: 2, Channels: 1, Width: 40, Depth: 2, Heads: 5, MLPDim: 24,
		Classes: 1, Position: position,
	}, Window: window, Global: []int{}}.resolve()
	return b
}

// output runs a backbone with random weights, large enough for attention to be far from uniform.
func output(t *testing.T, b Backbone, images *tensors.Tensor) []float64 {
	t.Helper()
	b, err := b.resolve()
	if err != nil {
		t.Fatal(err)
	}
	store := gomlxtest.Seeded(t, 5)
	build := func(s *model.Scope, in []*Node) []*Node {
		return []*Node{b.trace(s.At(backboneScope), in[0], false).Output}
	}
	gomlxtest.Build(t, store, build, images)
	for v := range store.IterVariables() {
		v.MustValue().MustMutableFlatData(func(flat any) {
			if x, ok := flat.([]float32); ok && strings.Contains(v.Path(), "/attention/") {
				for i := range x {
					x[i] *= 10
				}
			}
		})
	}
	return gomlxtest.RunModel(t, store, build, images)[0]
}

func TestAWindowOverTheWholeImageIsGlobalAttentionInEveryEncoding(t *testing.T) {
	images := gomlxtest.Noise(3, 8, 8, 1)
	for _, name := range gomlxtest.Encodings(append(position.Names(), "grid2d+rope-axial")) {
		windowed, global := small(name, 4, 4, 4), small(name, 4, 4, 4)
		global.Global = []int{0, 1}
		for _, relative := range gomlxtest.InTurn(1, false, true) {
			windowed.Relative, global.Relative = relative, relative
			gomlxtest.Near(t, name, output(t, windowed, images), output(t, global, images), 1e-5)
		}
	}
}

// These encodings depend only on differences of positions in patches, so a window is like a separate image.
func TestAWindowDoesNotDependOnOtherWindows(t *testing.T) {
	const rows, cols, side = 6, 9, 3
	whole := gomlxtest.Noise(1, 2*rows, 2*cols, 1)
	pixels := gomlxtest.Values(t, whole)
	for _, position := range []string{"none", "rope-axial", "rope-mixed", "alibi2d", "lookhere"} {
		got := output(t, small(position, rows, cols, side), whole)
		var crops []float32
		var want []float64
		for top := 0; top < rows; top += side {
			for left := 0; left < cols; left += side {
				for row := range 2 * side {
					for col := range 2 * side {
						crops = append(crops, float32(pixels[(2*top+row)*2*cols+2*left+col]))
					}
				}
				for row := range side {
					at := ((top+row)*cols + left) * 40
					want = append(want, got[at:at+side*40]...)
				}
			}
		}
		alone := tensors.FromFlatDataAndDimensions(crops, rows*cols/side/side, 2*side, 2*side, 1)
		gomlxtest.Near(t, position, output(t, small(position, side, side, side), alone), want, 1e-5)
	}
}

// On a grid of 5×7 in windows of 3 every encoding must handle tokens without a position.
func TestEveryEncodingTakesWindowsBeyondTheImageAndOtherSizes(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, name := range gomlxtest.Encodings(position.Names()) {
		b := small(name, 5, 7, 3)
		b.Global, b.Relative = []int{1}, true
		for _, size := range [][2]int{{5, 7}, {6, 4}} {
			if name == "hybrid" && size != [2]int{5, 7} {
				continue // its table has one grid
			}
			values := output(t, b, gomlxtest.Noise(2, 2*size[0], 2*size[1], 1))
			for _, x := range values {
				if !(x > -1e6 && x < 1e6) {
					t.Fatalf("%s: %g among the outputs", name, x)
				}
			}
		}
	}
}

// Block 0 has four windows of 9 patches, block 1 the whole image of 16.
func TestTheScoresOfRelativeTablesAndOfAnEncodingAreAdded(t *testing.T) {
	for i, dims := range [][]int{{4, 9, 5, 8}, {1, 16, 5, 8}} {
		bias := func(position string, tables bool) []float64 {
			b := small(position, 4, 4, 3)
			b.Global, b.Relative = []int{1}, tables
			build := func(s *model.Scope, in []*Node) []*Node {
				return []*Node{b.around(s.In("block"), b, b.encoder(s), i).Bias(in[0])}
			}
			store, q := gomlxtest.Seeded(t, 5), gomlxtest.Noise(dims...)
			gomlxtest.Build(t, store, build, q)
			for v := range store.IterVariables() {
				if strings.Contains(v.Path(), "/relative/") {
					v.MustValue().MustMutableFlatData(func(flat any) {
						for k := range flat.([]float32) {
							flat.([]float32)[k] = float32(math.Sin(float64(3*k + len(v.Path()))))
						}
					})
				}
			}
			return gomlxtest.RunModel(t, store, build, q)[0]
		}
		var want []float64
		encoding := bias("alibi2d", false)
		for k, x := range bias("none", true) {
			want = append(want, x+encoding[k])
		}
		gomlxtest.Near(t, "scores", bias("alibi2d", true), want, 1e-6)
	}
}

func TestRelativeTablesHaveZerosForEachOffsetOfTheTrainedGridOrAWindow(t *testing.T) {
	b := small("none", 5, 7, 3)
	b.Global, b.Relative = []int{1}, true
	store := gomlxtest.Seeded(t, 5)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{b.trace(s.At(backboneScope), in[0], false).Output}
	}, gomlxtest.Noise(1, 2*6, 2*4, 1)) // of another size
	offsets := map[string]int{}
	for v := range store.IterVariables() {
		if _, table, ok := strings.Cut(v.Path(), "/block_"); ok && strings.Contains(table, "/relative/") {
			offsets[table] = v.Shape().Dim(0)
			if x := gomlxtest.Values(t, v.MustValue()); v.Shape().Dim(1) != 40/5 || slices.Min(x) != 0 || slices.Max(x) != 0 {
				t.Errorf("%s is %s from %g to %g", table, v.Shape(), slices.Min(x), slices.Max(x))
			}
		}
	}
	if want := map[string]int{"00/attention/relative/rows": 5, "00/attention/relative/cols": 5,
		"01/attention/relative/rows": 9, "01/attention/relative/cols": 13}; !maps.Equal(offsets, want) {
		t.Errorf("tables %v, want %v", offsets, want)
	}
}

func TestImagesThatDoNotDivideIntoPatchesAreRefused(t *testing.T) {
	b := small("none", 4, 4, 3)
	for _, dims := range [][]int{{1, 3*b.PatchSize - 1, 2 * b.PatchSize, 1}, {1, 2 * b.PatchSize, 3*b.PatchSize - 1, 1},
		{1, 2 * b.PatchSize, 3 * b.PatchSize}} {
		var err error
		gomlxtest.RunModel(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			err = exceptions.TryCatch[error](func() { b.trace(s, in[0], false) })
			return in
		}, gomlxtest.Noise(dims...))
		if err == nil || !strings.Contains(err.Error(), "that divide into patches") {
			t.Errorf("%v: %v", dims, err)
		}
	}
}

// Of depths 12, 24 and 32 in ViTDet; of other depths the last of each quarter, ⌊i·depth/4⌋ - 1.
func TestBackbone_GlobalBlocks(t *testing.T) {
	for depth, want := range map[int][]int{32: {7, 15, 23, 31}, 1: {0}, 2: {0, 1}, 4: {0, 1, 2, 3}, 6: {0, 2, 3, 5}} {
		c := vit.Config{ImageRows: 8, ImageCols: 8, PatchSize: 2, Width: 8, Depth: depth, Heads: 2, MLPDim: 8, Classes: 1}
		if got, err := (Backbone{Config: c}).resolve(); err != nil || !slices.Equal(got.Global, want) {
			t.Errorf("of %d blocks: %v, %v, want %v", depth, got.Global, err, want)
		}
	}
}

func TestOneTokenWithoutAPositionStandsForPatchesBeyondTheImage(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		global     []int
		want       int
	}{{7, 9, []int{}, 1}, {7, 9, []int{1}, 1}, {7, 9, []int{0, 1}, 0}, {6, 9, []int{}, 0}, {6, 9, []int{0, 1}, 0}} {
		b := small("none", c.rows, c.cols, 3)
		if b.Global = c.global; b.unplaced() != c.want {
			t.Errorf("%+v: %d", c, b.unplaced())
		}
	}
}

// A box 37 cells long in a map of three rows takes 19 samples along a bin, not the two of three rows.
func TestALongBoxIsReadWithAsManySamplesAsItsCells(t *testing.T) {
	l := levels{canonicalSize: 224, canonicalLevel: 4, first: 2, last: 2}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		align := roiAlign{rows: 2, cols: 2, stride: 4, most: 40}
		return []*Node{l.pool(in[:1], []float64{4}, in[1], 2, 0), align.bins(in[0], in[1], nil)}
	}, gomlxtest.Noise(1, 3, 40, 2), boxTensor([]rect{{3, 1, 151, 11}}, 1, 1))
	gomlxtest.NearAbs(t, "bins", got[0], got[1], 1e-6)
}

// Bilinear sampling reproduces a map that is linear in its coordinates, so a bin is the value at its centre, with any
// number of samples: also with the single one of a bin shorter than a cell.
func TestABinOfALinearMapIsTheValueAtItsCentre(t *testing.T) {
	const side, stride, bins = 12, 4, 2
	var flat []float32
	for row := range side {
		for col := range side {
			flat = append(flat, float32(100*row+col))
		}
	}
	for _, box := range []rect{{10, 13, 13, 17}, {9, 6, 30, 40}} { // bins of 0.375×0.5 and of 2.625×4.25 cells
		var want []float64
		centre := func(begin, end float32, i int) float64 {
			return (float64(begin)+(float64(i)+0.5)*float64(end-begin)/bins)/stride - 0.5
		}
		for row := range bins {
			for col := range bins {
				want = append(want, 100*centre(box[1], box[3], row)+centre(box[0], box[2], col))
			}
		}
		for _, samples := range []int{0, 1, 2, 3} {
			align := roiAlign{rows: bins, cols: bins, stride: stride, samples: samples, most: 5}
			got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{align.bins(in[0], in[1], nil)} },
				tensors.FromFlatDataAndDimensions(flat, 1, side, side, 1), boxTensor([]rect{box}, 1, 1))[0]
			gomlxtest.NearAbs(t, "bins", got, want, 1e-3)
		}
	}
}

// torch's kaiming_uniform_(a=√5), for the pyramid, has the deviation 1/√(3·fan-in); the fan-in of a ConvTranspose2d is
// of its output. fvcore's c2_msra_fill is normal with √(2/fan_out), its c2_xavier_fill uniform with 1/√fan_in.
// StandardRPNHead and FastRCNNOutputLayers of detectron2 have 0.01, deltas of boxes and the predictor of masks 0.001.
func TestInitialWeights_AreThoseOfDetectron2(t *testing.T) {
	r := tiny()
	c := &r.Detector
	c.Backbone.Residual, c.Backbone.Width, c.Channels = []int{0}, 60, 50
	c.ROI.Convs, c.ROI.Dense, c.ROI.Masks = []int{24}, []int{40}, []int{28, 20}
	run := tinyRun(t)
	run.Recipe = r
	task := gomlxtest.Must(newTask(gomlxtest.Must(run.prepared())(t)))(t)
	defer task.detector.Finalize()
	if err := task.Fetch(0); err != nil {
		t.Fatal(err)
	}
	var shapes []*tensors.Tensor
	shapes = append(shapes, gomlxtest.Must(task.inputs(0))(t).list()...)
	gomlxtest.Build(t, task.detector.store, task.Losses, shapes...)
	torch := func(fanIn float64) float64 { return 1 / math.Sqrt(3*fanIn) }
	msra := func(fanOut float64) float64 { return math.Sqrt(2 / fanOut) }
	for path, deviation := range map[string]float64{
		"backbone/block_00/residual/conv_0": msra(30), "backbone/block_00/residual/conv_1": msra(9 * 30),
		"backbone/block_00/residual/conv_2": msra(60),
		"pyramid/quadruple/up_0":            torch(4 * 30), "pyramid/quadruple/up_1": torch(4 * 15),
		"pyramid/double/up_0":       torch(4 * 30),
		"pyramid/quadruple/lateral": torch(15), "pyramid/double/lateral": torch(30), "pyramid/same/lateral": torch(60),
		"pyramid/half/lateral": torch(60), "pyramid/quadruple/output": torch(9 * 50), "pyramid/half/output": torch(9 * 50),
		"rpn/conv_0": 0.01, "rpn/objects": 0.01, "rpn/deltas": 0.01, "roi/stage_0/conv_0": msra(9 * 24),
		"roi/stage_0/dense_0": 1 / math.Sqrt(3*3*24), "roi/stage_0/classes": 0.01, "roi/stage_0/deltas": 0.001,
		"roi/mask/conv_0": msra(9 * 28), "roi/mask/conv_1": msra(9 * 20), "roi/mask/double": msra(4 * 20),
		"roi/mask/classes": 0.001,
	} {
		weights := gomlxtest.Values(t, task.detector.store.GetVariable(detectorScope+"/"+path+"/weights").MustValue())
		gomlxtest.Spreads(t, path, weights, deviation)
	}
	for v := range task.detector.store.IterVariables() {
		if path := v.Path(); strings.HasPrefix(path, detectorScope+"/") && (strings.HasSuffix(path, "/biases") ||
			strings.HasSuffix(path, "residual/conv_2/norm/gain")) { // a bottleneck is initially the identity
			if x := gomlxtest.Values(t, v.MustValue()); slices.Min(x) != 0 || slices.Max(x) != 0 {
				t.Errorf("%s starts from %g to %g", path, slices.Min(x), slices.Max(x))
			}
		}
	}
}
