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
	return Backbone{Config: vit.Config{
		ImageRows: 2 * rows, ImageCols: 2 * cols, PatchSize: 2, Channels: 1, Width: 40, Depth: 2, Heads: 5, MLPDim: 24,
		Classes: 1, Position: position,
	}, Window: window, Global: []int{}}.WithDefaults()
}

// output runs a backbone with random weights, large enough for attention to be far from uniform.
func output(t *testing.T, b Backbone, images *tensors.Tensor) []float64 {
	t.Helper()
	if err := b.Validate(); err != nil {
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

func TestAnInvalidBackboneIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		change func(*Backbone)
		want   string
	}{
		{func(b *Backbone) { b.Window = -3 }, "window is -3"},
		{func(b *Backbone) { b.Global = []int{2} }, "global names block 2, the backbone has 0 to 1"},
		{func(b *Backbone) { b.Residual = []int{-1} }, "residual names block -1"},
		{func(b *Backbone) { b.PositionRows = -5 }, "position_rows is -5"},
		{func(b *Backbone) { b.PositionCols = 1<<14 + 1 }, "position_cols is 16385"},
		{func(b *Backbone) { b.Width = 41 }, "width 41"},
		{func(b *Backbone) { b.PreNorm = true }, "has no norm in front of block 0 (pre_norm)"},
		{func(b *Backbone) { b.Window = -1 }, "window is -1, want 1 to 16384"},
		{func(b *Backbone) { b.Window, b.PositionRows, b.PositionCols = 1, 1, 1 }, ""},
		{func(b *Backbone) { b.Window, b.PositionRows, b.PositionCols = 1<<14, 1<<14, 1<<14 }, ""},
	} {
		b := small("none", 4, 4, 3)
		c.change(&b)
		if err := b.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
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

func TestTheGlobalBlocksOfViTDet(t *testing.T) {
	for name, want := range map[string][]int{"B/16": {2, 5, 8, 11}, "L/16": {5, 11, 17, 23}, "H/16": {7, 15, 23, 31}} {
		c := gomlxtest.Must(vit.Variant(name))(t)
		if got := (Backbone{Config: c}).WithDefaults().Global; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for depth, want := range map[int][]int{1: {0}, 2: {0, 1}, 4: {0, 1, 2, 3}, 6: {0, 2, 3, 5}} { // ⌊i·depth/4⌋ - 1
		c := vit.Config{ImageRows: 8, ImageCols: 8, PatchSize: 2, Width: 8, Depth: depth, Heads: 2, MLPDim: 8, Classes: 1}
		if got := (Backbone{Config: c}).WithDefaults().Global; !slices.Equal(got, want) {
			t.Errorf("of %d blocks: %v, want %v", depth, got, want)
		}
	}
}

func TestWindowsExtendBeyondAGridThatDoesNotDivide(t *testing.T) {
	for grid, want := range map[[2]int]bool{
		{6, 9}: false, {3, 3}: false, {7, 9}: true, {8, 9}: true, {6, 7}: true, {6, 8}: true, {2, 3}: true,
	} {
		if got := (windows{grid[0], grid[1], 3}).padded(); got != want {
			t.Errorf("%v patches in windows of 3: %t, want %t", grid, got, want)
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

func TestABackboneWithoutASizeHasNoGrid(t *testing.T) {
	if b := (Backbone{}).WithDefaults(); b.PositionRows != 0 || b.PositionCols != 0 {
		t.Errorf("a grid of %d×%d", b.PositionRows, b.PositionCols)
	}
	b := Backbone{Config: vit.Config{ImageRows: 5, ImageCols: 7, PatchSize: 1}}.WithDefaults()
	if b.PositionRows != 5 || b.PositionCols != 7 {
		t.Errorf("patches of one pixel have a grid of %d×%d", b.PositionRows, b.PositionCols)
	}
}

func TestABottleneckIsInitiallyTheIdentity(t *testing.T) {
	images := gomlxtest.Noise(2, 3, 5, 8)
	got := gomlxtest.RunModel(t, gomlxtest.Seeded(t, 3), func(s *model.Scope, in []*Node) []*Node {
		return []*Node{bottleneck(s, in[0], 4)}
	}, images)[0]
	gomlxtest.NearAbs(t, "output", got, gomlxtest.Values(t, images), 0)
	store := gomlxtest.Seeded(t, 3)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{bottleneck(s, in[0], 60)}
	}, gomlxtest.Noise(1, 3, 5, 70))
	for path, fanOut := range map[string]float64{"conv_0": 60, "conv_1": 9 * 60, "conv_2": 70} { // c2_msra_fill
		weights := gomlxtest.Values(t, store.GetVariable("/"+path+"/weights").MustValue())
		gomlxtest.Spreads(t, path, weights, math.Sqrt(2/fanOut))
	}
}

// torch's kaiming_uniform_(a=√5) has the deviation 1/√(3·fan-in); the fan-in of a ConvTranspose2d is of its output.
func TestThePyramidStartsAsInTorch(t *testing.T) {
	const width, channels = 60, 50
	store := gomlxtest.Seeded(t, 3)
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node { return pyramid(s, in[0], channels) },
		gomlxtest.Noise(1, 2, 3, width))
	for path, fanIn := range map[string]float64{
		"quadruple/up_0": 4 * width / 2, "quadruple/up_1": 4 * width / 4, "double/up_0": 4 * width / 2,
		"quadruple/lateral": width / 4, "double/lateral": width / 2, "same/lateral": width, "half/lateral": width,
		"quadruple/output": 9 * channels, "half/output": 9 * channels,
	} {
		weights := gomlxtest.Values(t, store.GetVariable("/"+path+"/weights").MustValue())
		gomlxtest.Spreads(t, path, weights, 1/math.Sqrt(3*fanIn))
	}
}

// A box 37 cells long in a map of three rows takes 19 samples along a bin, not the two of three rows.
func TestALongBoxIsReadWithAsManySamplesAsItsCells(t *testing.T) {
	l := levels{canonicalSize: 224, canonicalLevel: 4, first: 2, last: 2}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		align := roiAlign{rows: 2, cols: 2, stride: 4, most: 40}
		return []*Node{l.pool(in[:1], []float64{4}, in[1], 2, 0), align.bins(in[0], in[1], nil)}
	}, gomlxtest.Noise(1, 3, 40, 2), boxTensor([]Box{{3, 1, 151, 11}}, 1, 1))
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
	for _, box := range []Box{{10, 13, 13, 17}, {9, 6, 30, 40}} { // bins of 0.375×0.5 and of 2.625×4.25 cells
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
				tensors.FromFlatDataAndDimensions(flat, 1, side, side, 1), boxTensor([]Box{box}, 1, 1))[0]
			gomlxtest.NearAbs(t, "bins", got, want, 1e-3)
		}
	}
}
