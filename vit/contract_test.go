// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// variables creates the variables of a model in a store.
func variables(t *testing.T, store *model.Store, c Config) {
	t.Helper()
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, noise(c, 1))
}

// weights returns, by path, all variables of a model that is drawn from a seed.
func weights(t *testing.T, c Config, seed int64) map[string][]float64 {
	t.Helper()
	store, weights := gomlxtest.Seeded(t, seed), map[string][]float64{}
	variables(t, store, c)
	for v := range store.IterVariables() {
		if strings.HasPrefix(v.Path(), "/vit/") {
			weights[v.Path()] = gomlxtest.Values(t, v.MustValue())
		}
	}
	return weights
}

func TestWeightsStartWithTheSpreadOfTheirScheme(t *testing.T) {
	c := small("none", poolClass)
	c.Width, c.MLPDim = 252, 331 // enough numbers for a spread within 3 %
	fanIn := float64(c.PatchSize * c.PatchSize * c.Channels)
	width, mlp := float64(c.Width), float64(c.MLPDim)
	xavier := func(in, out float64) float64 { return math.Sqrt(2 / (in + out)) } // a uniform's bound is √3 deviations
	for _, test := range []struct {
		init, path string
		want       float64
	}{
		{initTimm, "patch/weights", 1 / math.Sqrt(3*fanIn)}, // torch's Conv2d: uniform in ±1/√fan-in
		{initTimm, "patch/biases", 0},
		{initTimm, "block_01/attention/query/weights", 0.02},
		{initTimm, "block_01/mlp/hidden/weights", 0.02},
		{initTimm, "head/weights", 0.02},
		{initTimm, "class", 1e-6},
		{initJAX, "patch/weights", 1 / math.Sqrt(fanIn)},
		{initJAX, "block_01/attention/value/weights", xavier(width, width)},
		{initJAX, "block_00/mlp/output/weights", xavier(mlp, width)},
		{initJAX, "block_00/mlp/hidden/biases", 1e-6},
		{initJAX, "head/weights", 0},
		{initJAX, "class", 0},
		{initRelease, "patch/weights", xavier(fanIn, width)},
		{initRelease, "block_00/attention/key/weights", xavier(width, 3*width)}, // 0.051 at width 192, as measured
		{initRelease, "block_00/attention/output/weights", 0.02},
		{initRelease, "class", 0.02},
		{initRelease, "block_00/mlp/hidden/biases", 0},
	} {
		c.Init = test.init
		gomlxtest.Spreads(t, test.init+": "+test.path, weights(t, c, 5)["/vit/"+test.path], test.want)
	}
	c.Pool = poolMap // timm's AttentionPoolLatent: std embed_dim ** -0.5
	pool := weights(t, c, 5)
	gomlxtest.Spreads(t, "latent", pool["/vit/pool/latent"], 1/math.Sqrt(width))
	for _, dense := range []string{"query", "key", "value", "output", "mlp_hidden", "mlp_output"} { // its init: zeros_
		gomlxtest.Spreads(t, dense, pool["/vit/pool/"+dense+"/biases"], 0)
	}
}

func wrong(c Config) error {
	_, err := c.Resolve()
	return err
}

func TestResolveNamesTheFieldThatIsWrong(t *testing.T) {
	if err := wrong(small("wepe", poolClass)); err != nil {
		t.Fatal(err)
	}
	widest := small("wepe", poolMap)
	if widest.PoolMLPDim = 1 << 20; wrong(widest) != nil {
		t.Errorf("the largest pool_mlp_dim: %v", wrong(widest))
	}
	multiples := map[string]int{ // of the channels of a head
		"rope1d": 2, "fope": 2, "rope-axial": 4, "rope-mixed": 4, "rope-dinov3": 4, "as2drope": 4, "sincos2d": 4,
		"hybrid": 2,
	}
	for _, label := range position.Names() {
		c := small(label, poolClass)
		c.Heads = 1
		for c.Width = 4; c.Width < 14; c.Width++ {
			err := wrong(c)
			if fits := c.Width%max(multiples[label], 1) == 0; fits != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), "position "+label+" wants") {
				t.Errorf("%s: one head of %d channels: %v", label, c.Width, err)
			}
		}
	}
	for want, change := range map[string]func(*Config){
		"image_rows":                  func(c *Config) { c.ImageRows = 0 },
		"image_cols":                  func(c *Config) { c.ImageCols = 1 << 20 },
		"channels":                    func(c *Config) { c.Channels = -1 },
		"patch_size":                  func(c *Config) { c.PatchSize = 0 },
		"10×6 pixels does not divide": func(c *Config) { c.PatchSize = 3 },
		"does not divide into pat":    func(c *Config) { c.PatchSize = 5 }, // rows divide, columns do not
		"width":                       func(c *Config) { c.Width, c.MLPDim = 0, 8 },
		"depth":                       func(c *Config) { c.Depth = 1001 },
		"heads":                       func(c *Config) { c.Heads = 0 },
		"28 does not divide into 5":   func(c *Config) { c.Heads = 5 },
		"mlp_dim":                     func(c *Config) { c.MLPDim = -37 },
		"classes":                     func(c *Config) { c.Classes = 0 },
		`pool "sum"`:                  func(c *Config) { c.Pool = "sum" },
		`encoding "rope"`:             func(c *Config) { c.Position = "rope" },
		"registers + 1 is 0":          func(c *Config) { c.Registers = -1 },
		"layer_scale is -1":           func(c *Config) { c.LayerScale = -1 },
		"layer_scale is 1001":         func(c *Config) { c.LayerScale = 1001 },
		`"class+register" needs a`:    func(c *Config) { c.Pool = poolClassRegister },
		"pool_heads is 3, which":      func(c *Config) { c.PoolHeads = 3 },
		"pool_heads is -4":            func(c *Config) { c.PoolHeads = -4 },
		"4194305 patches are more":    func(c *Config) { c.ImageRows, c.ImageCols, c.PatchSize = 2048, 2048, 1 },
		"numbers is more than":        func(c *Config) { c.Width, c.Heads = 1<<16, 1 },
		"pool_mlp_dim is -1, want 0, for that of the blocks, to 1048576": func(c *Config) { c.PoolMLPDim = -1 },
		"pool_mlp_dim is 1048577": func(c *Config) { c.PoolMLPDim = 1<<20 + 1 },
		`qkv_bias "k"`:            func(c *Config) { c.QKVBias = "k" },
		"epsilon":                 func(c *Config) { c.Epsilon = math.NaN() },
		"dropout is 1":            func(c *Config) { c.Dropout = 1 },
		"attention_dropout":       func(c *Config) { c.AttentionDropout = -0.1 },
		"drop_path":               func(c *Config) { c.DropPath = math.NaN() },
		`init "he"`:               func(c *Config) { c.Init = "he" },
		`dtype "float16"`:         func(c *Config) { c.DType = "float16" },
		"position sincos2d wants a multiple of 4": func(c *Config) { c.Position, c.Width, c.Heads = "sincos2d", 30, 5 },
		"position hybrid wants a multiple of 2":   func(c *Config) { c.Position, c.Width, c.Heads = "hybrid", 35, 7 },
		"position rope-axial wants heads":         func(c *Config) { c.Position, c.Width = "wepe+rope-axial", 42 },
	} {
		c := small("wepe", poolClass)
		change(&c)
		if err := wrong(c); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "vit: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("want one line with %q, got %v", want, err)
		}
	}
}

func TestSizesAreValidFromOneToTheirLimits(t *testing.T) {
	for name, f := range map[string]struct {
		limit int
		at    func(*Config) *int
	}{
		"image_rows": {16_384, func(c *Config) *int { return &c.ImageRows }},
		"image_cols": {16_384, func(c *Config) *int { return &c.ImageCols }},
		"channels":   {1024, func(c *Config) *int { return &c.Channels }},
		"patch_size": {16_384, func(c *Config) *int { return &c.PatchSize }},
		"width":      {65_536, func(c *Config) *int { return &c.Width }},
		"depth":      {1000, func(c *Config) *int { return &c.Depth }},
		"heads":      {65_536, func(c *Config) *int { return &c.Heads }},
		"mlp_dim":    {1_048_576, func(c *Config) *int { return &c.MLPDim }},
		"classes":    {1_000_000, func(c *Config) *int { return &c.Classes }},
		"registers":  {1024, func(c *Config) *int { return &c.Registers }},
	} {
		for _, v := range []int{-1, 1, f.limit, f.limit + 1} {
			c := small("wepe", poolClass)
			*f.at(&c) = v
			err := wrong(c) // of other fields, where sizes do not divide
			refused := err != nil && strings.HasPrefix(err.Error(), "vit: "+name) && strings.Contains(err.Error(), "want 1 to")
			if refused != (v < 1 || v > f.limit) {
				t.Errorf("%s %d: %v", name, v, err)
			}
		}
	}
}

func TestNumbersOfAConfigurationAreValidUpToTheirEnds(t *testing.T) {
	for name, f := range map[string]struct {
		at            func(*Config) *float64
		valid, beyond []float64
	}{
		"layer_scale": {func(c *Config) *float64 { return &c.LayerScale }, []float64{0, 1e-6, 1000},
			[]float64{-1e-6, 1000.1}},
		"dropout": {func(c *Config) *float64 { return &c.Dropout }, []float64{0, 0.999}, []float64{-1e-6, 1}},
		"attention_dropout": {func(c *Config) *float64 { return &c.AttentionDropout }, []float64{0, 0.999},
			[]float64{-1e-6, 1}},
		"drop_path": {func(c *Config) *float64 { return &c.DropPath }, []float64{0, 0.999}, []float64{-1e-6, 1}},
		"epsilon":   {func(c *Config) *float64 { return &c.Epsilon }, []float64{1e-300, 7}, []float64{-1e-300, math.NaN()}},
	} {
		for i, value := range append(slices.Clone(f.valid), f.beyond...) {
			c := small("wepe", poolClass)
			*f.at(&c) = value
			err := wrong(c)
			if (err == nil) != (i < len(f.valid)) || err != nil && !strings.HasPrefix(err.Error(), "vit: "+name+" is ") {
				t.Errorf("%s %g: %v", name, value, err)
			}
		}
	}
	most := Config{ImageRows: 1, ImageCols: 1, PatchSize: 1, Channels: 1, Width: 10_000, Depth: 1, Heads: 1, MLPDim: 11,
		Classes: 900_000, Pool: poolMean, Position: "none"}
	if err := wrong(most); err != nil { // 9.4e9 numbers, most in the head
		t.Error(err)
	}
	if most.Depth = 3; wrong(most) == nil {
		t.Error("a model of more than 1e10 numbers is valid")
	}
}

func TestAnInvalidModelIsRefusedBeforeItIsBuilt(t *testing.T) {
	c := small("wepe", poolClass)
	images := noise(c, 1)
	c.Heads = 5
	gomlxtest.Build(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		err := exceptions.TryCatch[error](func() { c.Logits(s, in[0]) })
		if err == nil || !strings.Contains(err.Error(), "vit: width 28 does not divide into 5 heads") {
			t.Errorf("five heads: %v", err)
		}
		return in
	}, images)
}

func TestVariantRefusesUnknownNames(t *testing.T) {
	for _, name := range []string{"", "Ti", "Ti/", "Ti/0", "Ti/x", "XL/16", "/16"} {
		if _, err := Variant(name); err == nil || !strings.Contains(err.Error(), "Ti, S, B") {
			t.Errorf("Variant(%q): %v", name, err)
		}
	}
	if c, err := Variant("Ti/1"); err != nil || c.PatchSize != 1 || c.Tokens() != 1+224*224 {
		t.Errorf("patches of one pixel: %+v, %v", c, err)
	}
	most := small("none", poolMean)
	most.ImageRows, most.ImageCols = 1024*most.PatchSize, 1024*most.PatchSize
	if err := wrong(most); err != nil || most.Tokens() != 1<<20 {
		t.Errorf("2^20 patches: %v", err)
	}
	if most.ImageCols += most.PatchSize; wrong(most) == nil {
		t.Error("more than 2^20 patches are valid")
	}
	for size, of := range map[string][4]int{ // width, depth, heads and hidden units: the papers' tables; N and M are ours
		"N": {64, 4, 4, 256}, "M": {128, 6, 4, 512}, "Ti": {192, 12, 3, 768}, "S": {384, 12, 6, 1536},
		"B": {768, 12, 12, 3072}, "L": {1024, 24, 16, 4096}, "H": {1280, 32, 16, 5120},
	} {
		c, err := Variant(size + "/14")
		if got := [4]int{c.Width, c.Depth, c.Heads, c.MLPDim}; got != of || c.ImageRows != 224 || c.ImageCols != 224 ||
			c.Classes != 1000 {
			t.Errorf("%s/14: %+v, want %v", size, c, of)
		}
		if err == nil {
			err = wrong(c)
		}
		if err != nil || c.Rows() != 16 || c.Tokens() != 257 {
			t.Errorf("%s/14: %v, %d rows of patches, %d tokens", size, err, c.Rows(), c.Tokens())
		}
	}
}
