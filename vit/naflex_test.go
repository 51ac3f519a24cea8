// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit/position"
)

// strips cuts images [1, rows·p, cols·p, channels] into patches below one another, and pads them to n patches with
// value fill. It is written pixel by pixel, independently of Config.cut.
func strips(image []float32, rows, cols, p, channels, n int, fill float32) []float32 {
	out := slices.Repeat([]float32{fill}, n*p*p*channels)
	for y := range rows * p {
		for x := range cols * p * channels {
			patch, pixel := y/p*cols+x/(p*channels), y%p*p*channels+x%(p*channels)
			out[patch*p*p*channels+pixel] = image[y*cols*p*channels+x]
		}
	}
	return out
}

// sized is a model on another grid, as after OpenAt.
func sized(c Config, rows, cols int) Config {
	c.ImageRows, c.ImageCols = rows*c.PatchSize, cols*c.PatchSize
	return c
}

// onOther converts a store with the weights of a model on the grid of c to another grid: the table resampled by a naive
// sum, and TrainedGrid for encodings that need it.
func onOther(t *testing.T, store *model.Store, c Config, rows, cols int) *model.Store {
	t.Helper()
	out := gomlxtest.Must(store.Clone())(t)
	for name, value := range c.TrainedGrid() {
		out.SetParam("/"+name, value)
	}
	const path = "/vit/position/embedding"
	table := store.GetVariable(path)
	if table == nil {
		return out
	}
	old, prefix := gomlxtest.Values(t, table.MustValue()), c.PrefixPositions()
	hat := func(n, m, i, k int) float64 { // of the old position k for the new position i
		scale := float64(n) / float64(m)
		return max(0, 1-math.Abs(float64(k)+0.5-(float64(i)+0.5)*scale)/max(1, scale))
	}
	var values []float32
	for _, v := range old[:prefix*c.Width] {
		values = append(values, float32(v))
	}
	for row := range rows {
		for col := range cols {
			for d := range c.Width {
				sum, total := 0.0, 0.0
				for k := range c.Rows() * c.Cols() {
					w := hat(c.Rows(), rows, row, k/c.Cols()) * hat(c.Cols(), cols, col, k%c.Cols())
					sum, total = sum+w*old[(prefix+k)*c.Width+d], total+w
				}
				values = append(values, float32(sum/total))
			}
		}
	}
	gomlxtest.NoError(t, out.DeleteVariable(path))
	resampled := tensors.FromFlatDataAndDimensions(values, prefix+rows*cols, c.Width)
	gomlxtest.Must(out.CreateVariable(path, resampled))(t)
	return out
}

var testGrids = [][2]int{{5, 3}, {2, 7}, {7, 2}, {3, 5}, {1, 1}}

// naflexLogits runs the images of some of testGrids, in strips of 17 patches.
func naflexLogits(t *testing.T, store *model.Store, c Config, fill float32, which ...int) [][]float64 {
	t.Helper()
	const n = 17
	var flat []float32
	var numbers []int64
	for _, i := range which {
		rows, cols := testGrids[i][0], testGrids[i][1]
		image := tensors.MustCopyFlatData[float32](noise(sized(c, rows, cols), 1))
		flat = append(flat, strips(image, rows, cols, c.PatchSize, c.Channels, n, fill)...)
		numbers = append(numbers, int64(i))
	}
	logits := gomlxtest.RunModel(t, store, func(scope *model.Scope, in []*Node) []*Node {
		return []*Node{c.NaFlexLogits(scope.In("vit"), NaFlexImages{Strips: in[0], Grids: testGrids, Grid: in[1]})}
	}, tensors.FromFlatDataAndDimensions(flat, len(which), n*c.PatchSize, c.PatchSize, c.Channels), numbers)[0]
	return slices.Collect(slices.Chunk(logits, c.Classes))
}

// sameOnOwnGrids compares images of some of testGrids, behind loud padding, with a model on the grid of each alone.
func sameOnOwnGrids(t *testing.T, c Config, name string, which ...int) {
	t.Helper()
	store := trained(t, c)
	got := naflexLogits(t, store, c, 1e4, which...)
	for k, i := range which {
		on := sized(c, testGrids[i][0], testGrids[i][1])
		want := logitsOf(t, onOther(t, store, c, on.Rows(), on.Cols()), on, noise(on, 1))
		gomlxtest.Near(t, fmt.Sprint(name, testGrids[i]), got[k], want, 1e-5)
	}
}

func TestImagesHaveTheLogitsOfTheModelOnTheirOwnGrid(t *testing.T) {
	names := slices.DeleteFunc(position.Names(), func(name string) bool { return name == "hybrid" }) // has one grid
	for i, label := range gomlxtest.Encodings(append(names, "learned+rope-mixed+alibi2d")) {
		for _, pool := range gomlxtest.InTurn(i, poolClass, poolMean, poolClassMean) {
			c := small(label, pool) // 5×3 patches
			if pool == poolClassMean {
				c.Registers, c.PatchPositions = 2, true
			}
			which := []int{0, 2, 1, 3, 4}
			if gomlxtest.OnXLA() {
				which = []int{2, 4}
			}
			sameOnOwnGrids(t, c, label+" "+pool, which...)
		}
		if label == "learned" || label == "wepe" || label == "liere" { // registers have rows of a grid's table, or of all
			c := small(label, poolClass)
			c.Registers, c.RegisterPositions = 2, true
			sameOnOwnGrids(t, c, label+" and registers", 1, 2)
		}
	}
}

// A table of 4 × 6 patches, of a checkpoint on a grid that is not the model's, is neither replaced nor resized.
func TestATrainedGridThatIsSetStays(t *testing.T) {
	c := small("factorized", poolClass)
	store := trained(t, c, map[string]any{"factorized_rows": 4, "factorized_cols": 6})
	gomlxtest.Near(t, "logits", naflexLogits(t, store, c, 0.7, 0)[0], logitsOf(t, store, c, noise(c, 1)), 1e-5)
	is.Equal(t, "rows of the table", store.GetVariable("/vit/position/factorized/rows").Shape().Dim(0), 4)
}

// Strips of 6 patches of 2×2 pixels and 3 channels.
func TestNaFlexLogits_RefusesWhatDoesNotFit(t *testing.T) {
	c := Config{ImageRows: 10, ImageCols: 6, PatchSize: 2, Width: 28, Depth: 2, Heads: 7, Classes: 11}
	sound := [][2]int{{2, 3}}
	heads, hybrid := c, c
	heads.Heads, hybrid.Position = 5, "hybrid" // which has a table of one grid
	for _, test := range []struct {
		config Config
		strips []int // dimensions
		grids  [][2]int
		valid  bool
	}{
		{c, []int{1, 12, 2, 3}, sound, true}, // defaults are filled in
		{heads, []int{1, 12, 2, 3}, sound, false}, {hybrid, []int{1, 12, 2, 3}, sound, false},
		{c, []int{1, 12, 6}, sound, false}, {c, []int{1, 13, 2, 3}, sound, false}, {c, []int{1, 12, 3, 3}, sound, false},
		{c, []int{1, 12, 2, 1}, sound, false}, {c, []int{1, 12, 2, 3}, nil, false},
		{c, []int{1, 12, 2, 3}, [][2]int{{2, 3}, {0, 5}}, false}, {c, []int{1, 12, 2, 3}, [][2]int{{2, 3}, {5, 0}}, false},
		{c, []int{1, 12, 2, 3}, [][2]int{{7, 1}}, false},
	} {
		gomlxtest.Build(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			strips := Zeros(g, shapes.Make(dtypes.Float32, test.strips...))
			err := exceptions.TryCatch[error](func() {
				test.config.NaFlexLogits(s, NaFlexImages{Strips: strips, Grids: test.grids, Grid: Const(g, []int64{0})})
			})
			is.Equal(t, fmt.Sprintf("strips %v, grids %v: %v", test.strips, test.grids, err), err == nil, test.valid)
			is.Refused(t, "columns by rows", exceptions.TryCatch[error](func() { c.Logits(s, Transpose(in[0], 1, 2)) }), "")
			return in
		}, gomlxtest.Noise(1, c.ImageRows, c.ImageCols, 3))
	}
}
