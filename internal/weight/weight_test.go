// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

func TestFirstValuesArePureFunctionsOfSeedAndPath(t *testing.T) {
	draw := func(seed int64, scope, name string) []float64 {
		store := model.NewStore()
		store.SetParam("/"+model.ParamInitialSeed, seed)
		Float32(store.Scope("/first"), name, Normal(1), 11) // what is drawn before does not matter
		v := Float32(store.Scope(scope), name, Normal(1), 7, 3)
		return gomlxtest.Values(t, v.MustValue())
	}
	want := draw(5, "/a/b", "weights")
	gomlxtest.NearAbs(t, "drawn again", draw(5, "/a/b", "weights"), want, 0)
	for _, other := range [][]float64{draw(6, "/a/b", "weights"), draw(5, "/a", "weights"), draw(5, "/a/b", "gain")} {
		if slices.Equal(other, want) {
			t.Error("another seed or path has the same values")
		}
	}
}

// The fans are the dimensions of a matrix, else the size. Values drawn at once keep their order.
func TestFloat32_Fills(t *testing.T) {
	fans := func(_ *rand.Rand, fanIn, fanOut int) float64 { return float64(100*fanIn + fanOut) }
	scope := model.NewStore().Scope("/")
	for want, dims := range map[float64][]int{703: {7, 3}, 303: {3}, 4242: {7, 3, 2}, 101: {}} {
		v := Float32(scope, fmt.Sprint("of ", len(dims)), fans, dims...)
		if got := gomlxtest.Values(t, v.MustValue()); got[0] != want || v.Shape().Rank() != len(dims) {
			t.Errorf("%v: fans %g, shape %s, want %g", dims, got[0], v.Shape(), want)
		}
	}
	want := []float64{2, 3, 5, 7, 11, 13}
	list := Float32(scope, "list", AtOnce(func(*rand.Rand) []float64 { return want }), 2, 3)
	gomlxtest.NearAbs(t, "list", gomlxtest.Values(t, list.MustValue()), want, 0)
}

// Averages of matrices get no adapters, nor do convolutions, as those of DHVT, the pooling and the head.
func TestAdaptersAreOfTheMatricesOfABlock(t *testing.T) {
	for _, root := range []string{"", "/some/vit"} {
		store := model.NewStore()
		for scope, dims := range map[string][]int{"block_00/attention/key": {5, 3}, "block_11/mlp/hidden": {5, 7},
			"block_11/mlp/depthwise": {3, 3, 5}, "pool/key": {5, 3}, "head": {5, 2}} {
			Float32(store.Scope(root+"/"+scope), "weights", Constant(1), dims...)
			Float32(store.Scope("/ema"+root+"/"+scope), "weights", Constant(1), dims...)
		}
		gomlxtest.NoError(t, Adapt(store.Scope(root+"/"), 2, true))
		got := map[string]string{}
		for v := range store.Scope(LowRankRoot).IterVariables() {
			got[strings.TrimPrefix(v.Path(), "/lora"+root)] = fmt.Sprint(v.Shape().Dimensions)
		}
		if want := map[string]string{"/block_00/attention/key/weights/a": "[5 2]", "/block_11/mlp/hidden/weights/a": "[5 2]",
			"/block_00/attention/key/weights/b": "[2 3]", "/block_11/mlp/hidden/weights/b": "[2 7]"}; !maps.Equal(got, want) {
			t.Errorf("below %s/: %v, want %v", root, got, want)
		}
	}
	store := gomlxtest.Seeded(t, 3)
	Float32(store.Scope("/vit/block_00/attention/key"), "weights", Constant(1), 500, 3)
	gomlxtest.NoError(t, Adapt(store.Scope("/vit"), 7, false))
	a := gomlxtest.Values(t, store.GetVariable(LowRankRoot+"/vit/block_00/attention/key/weights/a").MustValue())
	gomlxtest.Uniform(t, "A, as peft's", a, 1/math.Sqrt(500))
	if err := Adapt(model.NewStore().Scope("/some/vit"), 2, true); err == nil {
		t.Error("a model without attention is adapted")
	}
}

func TestAVariableOfAnotherModelIsRefusedInOneLine(t *testing.T) {
	scope := model.NewStore().Scope("/a")
	first := Float32(scope, "gain", Constant(1), 3)
	is.Equal(t, "asked again", Float32(scope, "gain", Constant(2), 3), first)
	err := exceptions.TryCatch[error](func() { Float32(scope, "gain", Constant(1), 5) })
	if err == nil || !strings.Contains(err.Error(), "/a/gain") {
		t.Errorf("error %v", err)
	}
}

func TestBranchesAreDroppedForWholeImagesAndRescaled(t *testing.T) {
	const images, a, b = 4001, 2, 3
	for axis, dims := range [][]int{{images, a, b}, {a, images, b}} {
		for _, c := range []struct {
			block, depth int
			training     bool
			rate         float64 // 0.4 of the last block
		}{{1, 2, true, 0.4}, {1, 5, true, 0.1}, {3, 5, true, 0.3}, {0, 5, true, 0}, {0, 1, true, 0}, {4, 5, false, 0}} {
			store := model.NewStore()
			gomlxtest.NoError(t, store.SetRNGStateFromSeed(3))
			got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*graph.Node) []*graph.Node {
				s.Store().SetTraining(in[0].Graph(), c.training)
				return []*graph.Node{graph.MulScalar(DropBranch(s, in[0], axis, 0.4, c.block, c.depth), 1)}
			}, tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{1}, images*a*b), dims...))[0]
			image := func(i int) int { // of element i
				if axis == 0 {
					return i / (a * b)
				}
				return i / b % images
			}
			scale := make([]float64, images) // of the first element of each
			for i := len(got) - 1; i >= 0; i-- {
				scale[image(i)] = got[i]
			}
			kept := 0.0
			for i, v := range got {
				if v != scale[image(i)] || v != 0 && !(math.Abs(v-1/(1-c.rate)) <= 1e-6) {
					t.Fatalf("axis %d, %+v: element %d is %g", axis, c, i, v)
				}
				if v != 0 {
					kept += 1.0 / (a * b)
				}
			}
			// Binomial: four deviations.
			if deviation := math.Sqrt(images * c.rate * (1 - c.rate)); !(math.Abs(kept-images*(1-c.rate)) <= 4*deviation+1e-6) {
				t.Errorf("axis %d, %+v: %g of %d images keep their branch", axis, c, kept, images)
			}
		}
	}
}

// In bfloat16 the kept branches are x/(1-rate), rounded once, or not at all where a compiler widens them again.
func TestBranchesOfHalfPrecisionAreRescaledInFullPrecision(t *testing.T) {
	const images, rate = 251, 0.3
	values := make([]float32, images)
	for i := range values {
		values[i] = bfloat16.FromFloat32(1 + float32(i)/256).Float32()
	}
	got := gomlxtest.RunModel(t, gomlxtest.Seeded(t, 7), func(s *model.Scope, in []*graph.Node) []*graph.Node {
		s.Store().SetTraining(in[0].Graph(), true)
		x := graph.ConvertDType(in[0], dtypes.BFloat16)
		return []*graph.Node{graph.ConvertDType(DropBranch(s, x, 0, rate, 1, 2), dtypes.Float32)}
	}, tensors.FromFlatDataAndDimensions(values, images, 1))[0]
	kept := 0
	for i, v := range got {
		if v == 0 {
			continue
		}
		kept++
		exact := values[i] * float32(1/(1-rate))
		if want := bfloat16.FromFloat32(exact).Float32(); float32(v) != want && math.Abs(v/float64(exact)-1) > 1e-6 {
			t.Errorf("image %d: %g of %g, want %g", i, v, values[i], want)
		}
	}
	if kept == 0 || kept == images {
		t.Errorf("%d of %d images are kept", kept, images)
	}
}
