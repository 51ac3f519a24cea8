// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// small is a model on 5×3 patches of 4×4 pixels.
func small(position string) Config {
	return Config{
		ImageRows: 20, ImageCols: 12, PatchSize: 4, Width: 28, Depth: 2, Heads: 7, MLPDim: 37, Classes: 11,
		Position: position,
	}.WithDefaults()
}

func seeded(t *testing.T, seed int64) *model.Store {
	t.Helper()
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, seed)
	if err := store.SetRNGStateFromSeed(seed); err != nil {
		t.Fatal(err)
	}
	return store
}

// noise is a tensor of numbers in ±1, the same at every call.
func noise(dims ...int) *tensors.Tensor {
	size := 1
	for _, d := range dims {
		size *= d
	}
	flat := make([]float32, size)
	for i := range flat {
		flat[i] = float32(i*7919%1009)/504.5 - 1
	}
	return tensors.FromFlatDataAndDimensions(flat, dims...)
}

func images(c Config, batch int) *tensors.Tensor {
	return noise(batch, c.ImageRows, c.ImageCols, c.Channels)
}

// logits runs a model on its images, in training or not.
func logits(t *testing.T, c Config, store *model.Store, training bool) []float64 {
	t.Helper()
	return run(t, store, func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), training)
		return []*Node{c.Logits(s.In("dhvt"), in[0])}
	}, images(c, 3))[0]
}

func TestParametersCountsTheTrainableNumbersOfAModel(t *testing.T) {
	for _, position := range Positions() {
		for patch, image := range map[int][2]int{2: {10, 6}, 4: {20, 12}, 16: {48, 32}} {
			c := small(position)
			c.PatchSize, c.ImageRows, c.ImageCols, c.Channels = patch, image[0], image[1], 5
			c.Width, c.Heads = 24, 3
			store := seeded(t, 1)
			logits(t, c, store, false)
			if got, want := c.Parameters(), trainable(store); got != want {
				t.Errorf("%s, patch %d: Parameters() = %d, the model has %d", position, patch, got, want)
			}
		}
	}
}

func TestWindowsConvolveEverySecondCellOfANonSquareMap(t *testing.T) {
	const rows, cols, batch, in, out = 6, 10, 2, 3, 5
	x, w := noise(rows*cols, batch, in), noise(9, in, out)
	got := run(t, model.NewStore(), func(_ *model.Scope, inputs []*Node) []*Node {
		return []*Node{Einsum("knbi,kio->nbo", grid{rows, cols}.windows(inputs[0]), inputs[1])}
	}, x, w)[0]
	xs, ws := gomlxtest.Values(t, x), gomlxtest.Values(t, w)
	var want []float64
	for row := 0; row < rows; row += 2 {
		for col := 0; col < cols; col += 2 {
			for b := range batch {
				for o := range out {
					var sum float64
					for k := range 9 {
						r, c := row+k/3-1, col+k%3-1
						if r < 0 || r >= rows || c < 0 || c >= cols {
							continue
						}
						for i := range in {
							sum += xs[((r*cols+c)*batch+b)*in+i] * ws[(k*in+i)*out+o]
						}
					}
					want = append(want, sum)
				}
			}
		}
	}
	gomlxtest.Near(t, "3×3 convolution of stride 2", got, want, 1e-6)
}

func TestDepthwiseConvolvesEachChannelOfANonSquareMap(t *testing.T) {
	c := small("none") // 5×3 patches
	const rows, cols, batch, channels = 5, 3, 2, 7
	x := noise(rows*cols, batch, channels)
	store := seeded(t, 3)
	build := func(s *model.Scope, in []*Node) []*Node {
		y := c.depthwise(s.In("dhvt"), in[0]) // running statistics of a new model: mean 0, variance 1
		return []*Node{MulScalar(y, math.Sqrt(1+batchNormEpsilon))}
	}
	got := run(t, store, build, x)[0]
	xs := gomlxtest.Values(t, x)
	ws := gomlxtest.Values(t, store.GetVariable("/dhvt/weights").MustValue()) // [3, 3, channels]
	bs := gomlxtest.Values(t, store.GetVariable("/dhvt/biases").MustValue())
	var want []float64
	for row := range rows {
		for col := range cols {
			for b := range batch {
				for ch := range channels {
					sum := bs[ch]
					for k := range 9 {
						if r, q := row+k/3-1, col+k%3-1; r >= 0 && r < rows && q >= 0 && q < cols {
							sum += xs[((r*cols+q)*batch+b)*channels+ch] * ws[k*channels+ch]
						}
					}
					want = append(want, sum)
				}
			}
		}
	}
	gomlxtest.Near(t, "depthwise 3×3 convolution", got, want, 1e-6)
}

func TestATransposedImageSeenThroughTransposedKernelsHasTheSameLogits(t *testing.T) {
	c := small("none")
	store := seeded(t, 9)
	want := logits(t, c, store, false)
	for v := range store.IterVariables() {
		d := v.Shape().Dimensions // of convolutions: [3, 3, …]
		if len(d) < 3 {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			w := flat.([]float32)
			size := len(w) / 9
			for i := range 3 {
				for j := range i {
					for k := range size {
						a, b := (3*i+j)*size+k, (3*j+i)*size+k
						w[a], w[b] = w[b], w[a]
					}
				}
			}
		})
	}
	turned := c
	turned.ImageRows, turned.ImageCols = c.ImageCols, c.ImageRows
	got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{turned.Logits(s.In("dhvt"), TransposeAllAxes(in[0], 0, 2, 1, 3))}
	}, images(c, 3))[0]
	gomlxtest.Near(t, "logits", got, want, 1e-5)
	upright := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("dhvt"), in[0])}
	}, images(c, 3))[0]
	var moved float64
	for i := range want {
		moved = max(moved, math.Abs(upright[i]-want[i]))
	}
	if moved < 1e-3 {
		t.Errorf("the transposed kernels move the logits of the upright images by %g: this test would not see much", moved)
	}
}

func TestASeedDecidesEveryDrawnWeightAndPositionsLeaveTheRest(t *testing.T) {
	weights := func(position string, seed int64) map[string][]float64 {
		store := seeded(t, seed)
		logits(t, small(position), store, false)
		all := map[string][]float64{}
		for v := range store.IterVariables() {
			if path := v.Path(); strings.HasPrefix(path, "/dhvt/") && !strings.HasPrefix(path, "/dhvt/position/") {
				all[path] = gomlxtest.Values(t, v.MustValue())
			}
		}
		return all
	}
	plain, encoded, other := weights("none", 7), weights("wepe", 7), weights("none", 8)
	if len(plain) != len(encoded) {
		t.Errorf("%d variables without positions, %d besides those with", len(plain), len(encoded))
	}
	for path, values := range plain {
		if !slices.Equal(values, encoded[path]) {
			t.Errorf("%s differs between models that differ in their positions", path)
		}
		if drawn := slices.Min(values) != slices.Max(values); drawn && slices.Equal(values, other[path]) {
			t.Errorf("%s is equal at different seeds", path)
		}
	}
	if slices.Equal(plain["/dhvt/block_00/attention/query/weights"], plain["/dhvt/block_00/attention/key/weights"]) {
		t.Error("queries and keys start from the same draws")
	}
}

func TestWeightsStartWithTheSpreadOfTheirScheme(t *testing.T) {
	c := small("none")
	c.PatchSize, c.ImageRows, c.ImageCols, c.Width, c.Heads, c.MLPDim = 2, 4, 6, 252, 7, 331
	stores := map[string]*model.Store{}
	for _, c.Init = range []string{vit.InitTimm, vit.InitRelease} {
		stores[c.Init] = seeded(t, 3)
		logits(t, c, stores[c.Init], false)
	}
	uniform := func(bound float64) float64 { return bound / math.Sqrt(3) }
	xavier := func(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) }
	for _, test := range []struct {
		init, path string
		want       float64
	}{
		{vit.InitTimm, "patch/conv_0/weights", uniform(1 / math.Sqrt(9*3))},
		{vit.InitTimm, "block_01/attention/key/weights", 0.02},
		{vit.InitTimm, "block_01/attention/head_tokens/embedding", 0.02},
		{vit.InitTimm, "block_01/mlp/hidden/weights", uniform(1 / math.Sqrt(252))},
		{vit.InitTimm, "block_01/mlp/hidden/biases", uniform(1 / math.Sqrt(252))},
		{vit.InitTimm, "block_01/mlp/depthwise/weights", uniform(1.0 / 3)},
		{vit.InitTimm, "block_01/mlp/squeeze/weights", 0.02},
		{vit.InitTimm, "head/biases", 0},
		{vit.InitRelease, "patch/conv_0/weights", xavier(9*3, 9*252)},
		{vit.InitRelease, "block_01/mlp/output/weights", xavier(331, 252)},
		{vit.InitRelease, "block_01/mlp/output/biases", 0},
		{vit.InitRelease, "block_01/mlp/depthwise/weights", xavier(9, 9*331)},
		{vit.InitRelease, "block_01/attention/output/weights", 0.02},
	} {
		values := gomlxtest.Values(t, stores[test.init].GetVariable("/dhvt/"+test.path).MustValue())
		var sum float64
		for _, v := range values {
			sum += v * v
		}
		if got := math.Sqrt(sum / float64(len(values))); !(math.Abs(got-test.want) <= 0.08*test.want) {
			t.Errorf("init %s: %s spreads by %g, want %g", test.init, test.path, got, test.want)
		}
	}
}

func TestDropPathDropsWholeBranchesOfAnImageAndRescalesTheRest(t *testing.T) {
	const rate, batch = 0.25, 97
	got := run(t, seeded(t, 2), func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), true)
		return []*Node{dropBranch(s, OnesLike(in[0]), rate)}
	}, noise(3, batch, 2))[0]
	kept := 0
	for image := range batch {
		first := got[image*2]
		if first != 0 {
			kept++
			if math.Abs(first-1/(1-rate)) > 1e-6 {
				t.Fatalf("image %d is scaled by %g, want %g", image, first, 1/(1-rate))
			}
		}
		for token := range 3 {
			if got[(token*batch+image)*2] != first || got[(token*batch+image)*2+1] != first {
				t.Fatalf("image %d is dropped in parts", image)
			}
		}
	}
	if kept < 58 || kept > 87 { // 73 ± 3.4 deviations
		t.Errorf("%d of %d branches kept, want about %g", kept, batch, batch*(1-rate))
	}
}

func TestDropPathGrowsLinearlyFromTheFirstBlockToTheLast(t *testing.T) {
	const batch = 89
	c := small("none")
	c.Depth, c.DropPath = 5, 0.4
	got := run(t, seeded(t, 4), func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), true)
		trace := c.Trace(s.In("dhvt"), in[0])
		before, outputs := trace.Tokens, []*Node{trace.Logits}
		for _, b := range trace.Blocks {
			// Where both branches are dropped, a block leaves the tokens of an image as they are.
			outputs, before = append(outputs, ReduceMax(Abs(Sub(b.Output, before)), 1, 2)), b.Output
		}
		return outputs
	}, images(c, batch))
	for i, moved := range got[1:] {
		same := 0
		for _, v := range moved {
			if v == 0 {
				same++
			}
		}
		rate := 0.4 * float64(i) / 4
		mean, deviation := batch*rate*rate, math.Sqrt(batch*rate*rate*(1-rate*rate))
		if math.Abs(float64(same)-mean) > 4*deviation {
			t.Errorf("block %d leaves %d of %d images alone, want %.1f ± %.1f", i, same, batch, mean, deviation)
		}
	}
}

func TestDropoutActsInTrainingOnly(t *testing.T) {
	plain := small("wepe")
	for name, set := range map[string]func(*Config){
		"token dropout": func(c *Config) { c.TokenDropout = 0.5 },
		"dropout":       func(c *Config) { c.Dropout = 0.5 },
		"drop path":     func(c *Config) { c.DropPath = 0.5 },
	} {
		c := plain
		set(&c)
		if !slices.Equal(logits(t, c, seeded(t, 1), false), logits(t, plain, seeded(t, 1), false)) {
			t.Errorf("%s changes an evaluation", name)
		}
		if slices.Equal(logits(t, c, seeded(t, 1), true), logits(t, plain, seeded(t, 1), true)) {
			t.Errorf("%s does not act in training", name)
		}
	}
}

func TestValidateNamesTheFieldThatIsWrong(t *testing.T) {
	for _, test := range []struct {
		want string
		set  func(*Config)
	}{
		{"image_rows", func(c *Config) { c.ImageRows = 0 }},
		{"patch_size is 0", func(c *Config) { c.PatchSize = 0 }},
		{"does not divide into patches", func(c *Config) { c.ImageCols = 13 }},
		{"patch_size is 8, want 2, 4 or 16", func(c *Config) { c.PatchSize, c.ImageRows, c.ImageCols = 8, 16, 24 }},
		{"width 28 does not divide by 4 and, at patch size 16, by 8", func(c *Config) {
			c.PatchSize, c.ImageRows, c.ImageCols = 16, 32, 48
		}},
		{"width 21", func(c *Config) { c.Width = 21 }},
		{"heads", func(c *Config) { c.Heads = 5 }},
		{"dropout is 1", func(c *Config) { c.Dropout = 1 }},
		{"token_dropout is -1", func(c *Config) { c.TokenDropout = -1 }},
		{"want one of none, wepe", func(c *Config) { c.Position = "sincos2d" }},
		{"want timm or release", func(c *Config) { c.Init = vit.InitJAX }},
		{"epsilon", func(c *Config) { c.Epsilon = -1 }},
	} {
		c := small("none")
		test.set(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one with %q", err, test.want)
		}
	}
	for _, name := range Variants() {
		if c, err := Variant(name); err != nil || c.Validate() != nil {
			t.Errorf("%s: %v, %v", name, err, c.Validate())
		}
	}
	if _, err := Variant("B/16"); err == nil || !strings.Contains(err.Error(), "Ti/4") {
		t.Errorf("error %v, want one that lists the models", err)
	}
}

func TestShapesThatDoNotFitAreNamed(t *testing.T) {
	c := small("none")
	for want, build := range map[string]func(*model.Scope, *Node) *Node{
		"images are (Float32)[3, 12, 20, 3], want [batch, 20, 12, 3]": func(s *model.Scope, x *Node) *Node {
			return c.Logits(s, TransposeAllAxes(x, 0, 2, 1, 3))
		},
		"positions are (Float32)[15, 28], want [16, 28]": func(s *model.Scope, x *Node) *Node {
			return c.TraceWith(s, x, Zeros(x.Graph(), shapes.Make(dtypes.Float32, 15, 28))).Logits
		},
		"more than one value per channel": func(s *model.Scope, x *Node) *Node {
			s.Store().SetTraining(x.Graph(), true)
			one := c
			one.ImageRows, one.ImageCols = 4, 4
			return one.Logits(s, Zeros(x.Graph(), shapes.Make(dtypes.Float32, 1, 4, 4, 3)))
		},
	} {
		exec, err := model.NewExec(gomlxtest.Backend(), model.NewStore(), func(s *model.Scope, x *Node) *Node {
			return build(s.In("dhvt"), x)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := exec.Call(images(c, 3)); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
