// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// onManyGrids are the encodings that support images of several grids, and a combination of three.
func onManyGrids() (names []string) {
	for _, p := range position.All() {
		if !p.Pretrained {
			names = append(names, p.Name)
		}
	}
	return gomlxtest.Encodings(append(names, "learned+rope-mixed+alibi2d"))
}

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

// image is an image of a grid, the same numbers at every call.
func image(c Config, rows, cols int) []float32 {
	return tensors.MustCopyFlatData[float32](gomlxtest.Noise(1, rows*c.PatchSize, cols*c.PatchSize, c.Channels))
}

// onOther converts a store with the weights of a model on the grid of c to another grid: the table resampled by a naive
// sum, and TrainedGrid for encodings that need it.
func onOther(t *testing.T, store *model.Store, c Config, rows, cols int) *model.Store {
	t.Helper()
	out, err := part(store, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
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
	if err := out.DeleteVariable(path); err != nil {
		t.Fatal(err)
	}
	resampled := tensors.FromFlatDataAndDimensions(values, prefix+rows*cols, c.Width)
	if _, err := out.CreateVariable(path, resampled); err != nil {
		t.Fatal(err)
	}
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
		flat = append(flat, strips(image(c, rows, cols), rows, cols, c.PatchSize, c.Channels, n, fill)...)
		numbers = append(numbers, int64(i))
	}
	logits := gomlxtest.RunModel(t, store, func(scope *model.Scope, in []*Node) []*Node {
		return []*Node{c.NaFlexLogits(scope.In("vit"), NaFlexImages{Strips: in[0], Grids: testGrids, Grid: in[1]})}
	}, tensors.FromFlatDataAndDimensions(flat, len(which), n*c.PatchSize, c.PatchSize, c.Channels), numbers)[0]
	return slices.Collect(slices.Chunk(logits, c.Classes))
}

// sameOnOwnGrids compares images of some of testGrids with a model on the grid of each alone.
func sameOnOwnGrids(t *testing.T, store *model.Store, c Config, name string, which ...int) {
	t.Helper()
	got := naflexLogits(t, store, c, 0.7, which...)
	for k, i := range which {
		on := sized(c, testGrids[i][0], testGrids[i][1])
		image := tensors.FromFlatDataAndDimensions(image(c, on.Rows(), on.Cols()), 1, on.ImageRows, on.ImageCols,
			on.Channels)
		want := logitsOf(t, onOther(t, store, c, on.Rows(), on.Cols()), on, image)
		gomlxtest.Near(t, name+" "+on.gridName(), got[k], want, 1e-5)
	}
}

func TestImagesHaveTheLogitsOfTheModelOnTheirOwnGrid(t *testing.T) {
	for i, label := range onManyGrids() {
		for _, pool := range gomlxtest.InTurn(i, poolClass, poolMean, poolClassMean) {
			c := small(label, pool) // 5×3 patches
			if pool == poolClassMean {
				c.Registers, c.PatchPositions = 2, true
			}
			store := gomlxtest.Seeded(t, 3)
			variables(t, store, c)
			stirred(t, store)
			which := []int{0, 2, 1, 3, 4}
			if gomlxtest.OnXLA() {
				which = []int{2, 4}
			}
			sameOnOwnGrids(t, store, c, label+" "+pool, which...)
		}
	}
}

// Vectors of the class token and two registers are rows of each grid's table, or shared by all grids.
func TestRegistersKeepTheirVectorsOnSeveralGrids(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, label := range []string{"learned", "wepe", "liere"} {
		c := small(label, poolClass)
		c.Registers, c.RegisterPositions = 2, true
		store := gomlxtest.Seeded(t, 3)
		variables(t, store, c)
		stirred(t, store)
		sameOnOwnGrids(t, store, c, label, 1, 2)
	}
}

// registered hides the type of a rotary encoding, as that of another package is.
type registered struct{ position.Rotator }

func TestARegisteredRotaryEncodingServesSeveralGrids(t *testing.T) {
	position.Register(position.Spec{Name: "registered", HeadDim: 4, Kind: position.Rotary,
		New: func(s *model.Scope, c position.Config) position.Encoder {
			return registered{position.New("rope-axial", s, c).(position.Rotator)}
		}})
	store, c := gomlxtest.Seeded(t, 3), small("rope-axial", poolClass)
	variables(t, store, c)
	stirred(t, store)
	got := naflexLogits(t, store, small("registered", poolClass), 0.7, 0, 2, 1, 4)
	want := naflexLogits(t, store, c, 0.7, 0, 2, 1, 4)
	for k := range want {
		gomlxtest.Near(t, "image "+string(rune('0'+k)), got[k], want[k], 1e-5)
	}
}

func (c Config) gridName() string {
	return string(rune('0'+c.Rows())) + "x" + string(rune('0'+c.Cols()))
}

func TestPaddingHasNoPartInLogits(t *testing.T) {
	c := small("learned+rope-mixed+alibi2d", poolClassMean)
	store := gomlxtest.Seeded(t, 3)
	variables(t, store, c)
	stirred(t, store)
	zero, loud := naflexLogits(t, store, c, 0, 1, 4), naflexLogits(t, store, c, 1e4, 1, 4)
	for k := range zero {
		if !slices.Equal(zero[k], loud[k]) {
			t.Errorf("image %d: %v with padding of zeros, %v of 1e4", k, zero[k], loud[k])
		}
	}
}

func TestBfloat16ImagesOfSeveralGridsAreCloseToFloat32(t *testing.T) {
	if !inBfloat16(t) {
		return
	}
	c, store := small("learned+rope-mixed", poolClass), gomlxtest.Seeded(t, 3)
	variables(t, store, c)
	want := slices.Concat(naflexLogits(t, store, c, 0, 1, 4)...)
	c.DType = "bfloat16"
	got := slices.Concat(naflexLogits(t, store, c, 0, 1, 4)...)
	if slices.Equal(got, want) {
		t.Error("bfloat16 equals float32 in every bit")
	}
	gomlxtest.Near(t, "logits", got, want, 0.03) // as in TestBfloat16IsCloseToFloat32
}

// A table of 4 × 6 patches, of a checkpoint on a grid that is not the model's, is neither replaced nor resized.
func TestATrainedGridThatIsSetStays(t *testing.T) {
	c, store := small("factorized", poolClass), gomlxtest.Seeded(t, 3)
	store.SetParams(map[string]any{"factorized_rows": 4, "factorized_cols": 6})
	variables(t, store, c)
	stirred(t, store)
	pixels := tensors.FromFlatDataAndDimensions(image(c, 5, 3), 1, c.ImageRows, c.ImageCols, c.Channels)
	want := logitsOf(t, store, c, pixels)
	gomlxtest.Near(t, "logits", naflexLogits(t, store, c, 0.7, 0)[0], want, 1e-5)
	if d := store.GetVariable("/vit/position/factorized/rows").Shape().Dimensions; d[0] != 4 {
		t.Errorf("the table has become %v", d)
	}
}

func TestImagesOfSeveralGridsTakeDefaultsAndRefuseInvalidModels(t *testing.T) {
	c := Config{ImageRows: 10, ImageCols: 6, PatchSize: 2, Width: 28, Depth: 2, Heads: 7, Classes: 11}
	store := gomlxtest.Seeded(t, 3)
	variables(t, store, gomlxtest.Resolved(c))
	bare, full := naflexBare(t, store, c), naflexBare(t, store, gomlxtest.Resolved(c))
	gomlxtest.NearAbs(t, "logits", bare, full, 0)
	for want, change := range map[string]func(*Config){
		"vit: width 28 does not divide into 5 heads": func(c *Config) { c.Heads = 5 },
		"vit: position hybrid blends a table":        func(c *Config) { c.Position = "hybrid" },
	} {
		changed := c
		change(&changed)
		err := exceptions.TryCatch[error](func() { naflexBare(t, model.NewStore(), changed) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// naflexBare are the logits of a strip of 6 patches on a grid of 2 × 3.
func naflexBare(t *testing.T, store *model.Store, c Config) (logits []float64) {
	t.Helper()
	var err error
	out := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		err = exceptions.TryCatch[error](func() {
			in[0] = c.NaFlexLogits(s.In("vit"), NaFlexImages{Strips: in[0], Grids: [][2]int{{2, 3}},
				Grid: Const(in[0].Graph(), []int64{0})})
		})
		return in
	}, gomlxtest.Noise(1, 12, 2, 3))
	if err != nil {
		panic(err)
	}
	return out[0]
}

func TestAnEncodingOfOneGridIsRefusedForSeveral(t *testing.T) {
	encoding, err := position.Parse("hybrid")
	if err != nil {
		t.Fatal(err)
	}
	if err := encoding.ValidateGrids(); err == nil || !strings.Contains(err.Error(), "hybrid") {
		t.Errorf("hybrid: %v", err)
	}
}

func TestStripsAndGridsThatDoNotFitAreRefused(t *testing.T) {
	c := small("none", poolMean) // patches of 2×2 pixels, 3 channels
	sound := [][2]int{{2, 3}}
	for _, test := range []struct {
		strips []int // dimensions
		grids  [][2]int
		want   string // "" if it is valid
	}{
		{[]int{1, 12, 2, 3}, sound, ""},
		{[]int{1, 12, 6}, sound, "strips are"}, {[]int{1, 13, 2, 3}, sound, "strips are"},
		{[]int{1, 12, 3, 3}, sound, "strips are"}, {[]int{1, 12, 2, 1}, sound, "strips are"},
		{[]int{1, 12, 2, 3}, nil, "have no grids"}, {[]int{1, 12, 2, 3}, [][2]int{{2, 3}, {0, 5}}, "a grid of 0×5"},
		{[]int{1, 12, 2, 3}, [][2]int{{2, 3}, {5, 0}}, "a grid of 5×0"},
		{[]int{1, 12, 2, 3}, [][2]int{{7, 1}}, "a grid of 7×1 patches does not fit strips of 6"},
	} {
		gomlxtest.Build(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			strips := Zeros(g, shapes.Make(dtypes.Float32, test.strips...))
			err := exceptions.TryCatch[error](func() {
				c.NaFlexLogits(s, NaFlexImages{Strips: strips, Grids: test.grids, Grid: Const(g, []int64{0})})
			})
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("strips %v, grids %v: %v, want %q", test.strips, test.grids, err, test.want)
			}
			if err := exceptions.TryCatch[error](func() { c.Logits(s, TransposeAllAxes(in[0], 0, 2, 1, 3)) }); err == nil ||
				!strings.Contains(err.Error(), "images are (Float32)[1, 6, 10, 3], the model wants [batch, 10, 6, 3]") {
				t.Errorf("columns by rows: %v", err)
			}
			return in
		}, noise(c, 1))
	}
}
