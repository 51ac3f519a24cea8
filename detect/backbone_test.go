// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

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
	gomlxtest.NoError(t, err)
	store := gomlxtest.Seeded(t, 5)
	build := func(s *model.Scope, in []*Node) []*Node {
		return []*Node{b.trace(s.At(backboneScope), in[0], false).Output}
	}
	gomlxtest.Build(t, store, build, images)
	return gomlxtest.RunModel(t, gomlxtest.Stirred(t, store), build, images)[0]
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
	for _, position := range []string{"none", "rope-axial", "rope-mixed", "rope-mixed-qkv", "alibi2d", "lookhere"} {
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
				return []*Node{b.hooks(s.In("block"), b, b.encoder(s), i).Bias(in[0])}
			}
			store, q := gomlxtest.Seeded(t, 5), gomlxtest.Noise(dims...)
			gomlxtest.Build(t, store, build, q)
			return gomlxtest.RunModel(t, gomlxtest.Stirred(t, store), build, q)[0]
		}
		var want []float64
		encoding := bias("alibi2d", false)
		for k, x := range bias("none", true) {
			want = append(want, x+encoding[k])
		}
		gomlxtest.Near(t, "scores", bias("alibi2d", true), want, 1e-6)
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

// A box 37 cells long in a map of three rows takes 19 samples along a bin, not the two of three rows.
func TestALongBoxIsReadWithAsManySamplesAsItsCells(t *testing.T) {
	l := levels{canonicalSize: 224, canonicalLevel: 4, first: 2, last: 2}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		align := roiAlign{rows: 2, cols: 2, stride: 4, most: 40}
		return []*Node{l.pool(in[:1], []float64{4}, in[1], 2, 0), align.bins(in[0], in[1], nil)}
	}, gomlxtest.Noise(1, 3, 40, 2), boxTensor([]rect{{3, 1, 151, 11}}, 1, 1))
	gomlxtest.NearAbs(t, "bins", got[0], got[1], 1e-6)
}

// torch's kaiming_uniform_(a=√5), for the pyramid, has the deviation 1/√(3·fan-in); the fan-in of a ConvTranspose2d is
// of its output. fvcore's c2_msra_fill is normal with √(2/fan_out), its c2_xavier_fill uniform with 1/√fan_in.
// StandardRPNHead and FastRCNNOutputLayers of detectron2 have 0.01, deltas of boxes and the predictor of masks 0.001.
func TestInitialWeights_AreThoseOfDetectron2(t *testing.T) {
	r := tiny()
	c := &r.Detector
	c.Backbone.Residual, c.Backbone.Relative, c.Backbone.Width, c.Channels = []int{0}, true, 60, 50
	c.ROI.Convs, c.ROI.Dense, c.ROI.Masks = []int{24}, []int{40}, []int{28, 20}
	run := tinyRun(t)
	run.Recipe = r
	task := begun(t, run)
	gomlxtest.Build(t, task.detector.store, task.Losses, gomlxtest.Must(task.inputs(0))(t).list()...)
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
	offsets := map[string]int{}
	for v := range task.detector.store.IterVariables() {
		path := v.Path()
		if block, table, ok := strings.Cut(path, "/attention/relative/"); ok && strings.HasPrefix(path, detectorScope) {
			offsets[block[len(block)-1:]+table] = v.Shape().Dim(0)
		}
		if strings.HasPrefix(path, detectorScope+"/") && (strings.HasSuffix(path, "/biases") ||
			strings.Contains(path, "/relative/") || strings.HasSuffix(path, "residual/conv_2/norm/gain")) { // identities
			if x := gomlxtest.Values(t, v.MustValue()); slices.Min(x) != 0 || slices.Max(x) != 0 {
				t.Errorf("%s starts from %g to %g", path, slices.Min(x), slices.Max(x))
			}
		}
	}
	// Windows are of 3×3 patches, the image of 4×6.
	equal(t, "offsets of tables", offsets, map[string]int{"0rows": 5, "0cols": 5, "1rows": 7, "1cols": 11})
}
