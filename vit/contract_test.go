// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit/position"
)

// variables creates the variables of a model in a store.
func variables(t *testing.T, store *model.Store, c Config) {
	t.Helper()
	gomlxtest.Build(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(s.In("vit"), in[0])}
	}, noise(c, 1))
}

// drawn is a store with the variables of a model.
func drawn(t *testing.T, c Config) *model.Store {
	t.Helper()
	store := gomlxtest.Seeded(t, 5)
	variables(t, store, c)
	return store
}

// valueOf returns a variable of a model at /vit.
func valueOf(t *testing.T, store *model.Store, path string) []float64 {
	t.Helper()
	return gomlxtest.Values(t, store.GetVariable("/vit/"+path).MustValue())
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
		{initTimm, "patch/biases", 0}, {initTimm, "block_01/attention/query/weights", 0.02},
		{initTimm, "block_01/mlp/hidden/weights", 0.02}, {initTimm, "head/weights", 0.02}, {initTimm, "class", 1e-6},
		{initJAX, "patch/weights", 1 / math.Sqrt(fanIn)}, {initJAX, "head/weights", 0}, {initJAX, "class", 0},
		{initJAX, "block_01/attention/value/weights", xavier(width, width)},
		{initJAX, "block_00/mlp/output/weights", xavier(mlp, width)}, {initJAX, "block_00/mlp/hidden/biases", 1e-6},
		{initRelease, "patch/weights", xavier(fanIn, width)}, {initRelease, "class", 0.02},
		{initRelease, "block_00/attention/key/weights", xavier(width, 3*width)}, // 0.051 at width 192, as measured
		{initRelease, "block_00/attention/output/weights", 0.02}, {initRelease, "block_00/mlp/hidden/biases", 0},
	} {
		c.Init = test.init
		gomlxtest.Spreads(t, test.init+": "+test.path, valueOf(t, drawn(t, c), test.path), test.want)
	}
	c.Pool = poolMap // timm's AttentionPoolLatent: std embed_dim ** -0.5
	store := drawn(t, c)
	gomlxtest.Spreads(t, "latent", valueOf(t, store, "pool/latent"), 1/math.Sqrt(width))
	for _, dense := range []string{"query", "key", "value", "output", "mlp_hidden", "mlp_output"} { // its init: zeros_
		gomlxtest.Spreads(t, dense, valueOf(t, store, "pool/"+dense+"/biases"), 0)
	}
}

func wrong(c Config) error {
	_, err := c.Resolve()
	return err
}

// field is a field of a configuration by its name in JSON.
func field(c *Config, name string) reflect.Value {
	fields := reflect.ValueOf(c).Elem()
	for f, value := range fields.Fields() {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key == name {
			return value
		}
	}
	panic(name)
}

// Each field is valid to its ends, and beyond them the error names it, whatever other fields then lack.
func TestResolve_NamesTheFieldThatIsWrong(t *testing.T) {
	for name, of := range map[string]struct{ valid, wrong []any }{
		"image_rows": {[]any{1, 16_384}, []any{-1, 0, 16_385}}, "image_cols": {[]any{1, 16_384}, []any{-1, 0, 16_385}},
		"channels": {[]any{1, 1024}, []any{-1, 1025}}, "patch_size": {[]any{1, 16_384}, []any{-1, 0, 16_385}},
		"width": {[]any{1, 65_536}, []any{-1, 0, 65_537}}, "depth": {[]any{1, 1000}, []any{-1, 0, 1001}},
		"num_heads": {[]any{1, 65_536}, []any{-1, 0, 65_537}}, "mlp_dim": {[]any{1, 1 << 20}, []any{-1, 1<<20 + 1}},
		"classes": {[]any{1, 1_000_000}, []any{-1, 0, 1_000_001}}, "registers": {[]any{0, 1024}, []any{-1, 1025}},
		"pool_num_heads": {[]any{0, 4, 28}, []any{-4, 3}}, "pool_mlp_dim": {[]any{0, 1 << 20}, []any{-1, 1<<20 + 1}},
		"epsilon":     {[]any{1e-300, 7.0}, []any{-1e-300, math.NaN()}},
		"layer_scale": {[]any{0.0, 1e-6, 1000.0}, []any{-1e-6, 1000.1, math.NaN()}},
		"dropout":     {[]any{0.0, 0.999}, []any{-1e-6, 1.0, math.NaN()}}, "drop_path": {[]any{0.999}, []any{-1e-6, 1.0}},
		"attention_dropout": {[]any{0.999}, []any{-1e-6, 1.0}},
		"pool":              {[]any{"", "mean", "map", "class+mean"}, []any{"sum", "class+register"}}, // without a register
		"position":          {[]any{"", "learned+rope-axial"}, []any{"rope", "rope-axial+learned"}},
		"qkv_bias":          {[]any{"", "qv", "none"}, []any{"k"}}, "activation": {[]any{"gelu_tanh"}, []any{"relu"}},
		"final_norm": {[]any{"pooled", "none"}, []any{"first"}}, "init": {[]any{"jax", "release"}, []any{"he"}},
		"dtype": {[]any{"bfloat16"}, []any{"float16"}}, "patch_positions": {[]any{true}, nil},
	} {
		for i, value := range slices.Concat(of.valid, of.wrong) {
			c := small("wepe", poolClass)
			field(&c, name).Set(reflect.ValueOf(value))
			err := wrong(c)
			text := fmt.Sprint(err)
			named := strings.HasPrefix(text, "vit: ") && !strings.Contains(text, "\n") &&
				strings.Contains(strings.ReplaceAll(text, "position: ", "position "), name+" ")
			if name == "position" {
				named = err != nil
			}
			// A valid size may be wrong with the others: 28 channels in as many heads, whole patches.
			refused := named && !strings.Contains(text, "divide into")
			is.Equal(t, fmt.Sprintf("%s = %v is refused: %v", name, value, err), refused, i >= len(of.valid))
		}
	}
}

// What fields lack together.
func TestResolve_RefusesSizesThatDoNotFit(t *testing.T) {
	multiples := map[string]int{ // of the channels of a head, which are four at least
		"rope1d": 2, "fope": 2, "rope-axial": 4, "rope-mixed": 4, "rope-dinov3": 4, "as2drope": 4, "sincos2d": 4,
		"rope-mixed-qkv": 4, "hybrid": 2,
	}
	for _, label := range position.Names() {
		c := small(label, poolClass)
		c.Heads = 1
		for c.Width = 4; c.Width < 14; c.Width++ {
			fits := c.Width%max(multiples[label], 1) == 0
			is.Equal(t, fmt.Sprintf("%s: one head of %d channels", label, c.Width), wrong(c) == nil, fits)
		}
	}
	most := Config{ImageRows: 1, ImageCols: 1, PatchSize: 1, Channels: 1, Width: 10_000, Depth: 1, Heads: 1, MLPDim: 11,
		Classes: 900_000, Pool: poolMean, Position: "none"} // 9.4e9 numbers, most in the head
	many := small("none", poolMean)
	many.ImageRows, many.ImageCols = 1024*many.PatchSize, 1024*many.PatchSize
	is.Equal(t, "tokens", many.Tokens(), 1<<20)
	free := small("free-v", poolMean) // factors of 1000² patches, 40 channels and 300 blocks: 1.2e10 numbers
	free.ImageRows, free.ImageCols, free.PatchSize, free.Width, free.Heads, free.MLPDim = 1000, 1000, 1, 40, 1, 1
	free.Depth = 200
	both := small("learned", poolClass)
	both.Registers, both.PatchPositions = 2, true
	pooled, biased := most, small("alibi2d", poolMean) // a pool of 3.5e10 numbers, a table of all pairs of 2^16 patches
	pooled.Pool, pooled.Width, pooled.Classes = poolMap, 16_384, 1
	biased.ImageRows, biased.ImageCols, biased.PatchSize = 256, 128, 1
	for _, c := range []Config{most, many, free, both, pooled, biased} {
		gomlxtest.NoError(t, wrong(c))
	}
	pooled.PoolMLPDim, biased.ImageCols = 1<<20, 256
	both.RegisterPositions, free.Depth = true, 300
	most.Depth, many.ImageCols = 3, many.ImageCols+many.PatchSize
	rows, cols, heads := small("wepe", poolClass), small("wepe", poolClass), small("wepe", poolClass)
	rows.PatchSize, cols.PatchSize, heads.Heads = 3, 5, 5 // rows divide by 5, columns do not
	for _, c := range []Config{most, many, rows, cols, heads, free, both, pooled, biased} {
		built := exceptions.TryCatch[error](func() { c.Logits(model.NewStore().RootScope(), nil) })
		is.Equal(t, fmt.Sprintf("%+v is valid, or built", c), [2]bool{wrong(c) == nil, built == nil}, [2]bool{})
	}
}

func TestVariant(t *testing.T) {
	for _, name := range []string{"", "Ti", "Ti/", "Ti/0", "Ti/x", "XL/16", "/16"} {
		_, err := Variant(name)
		is.Refused(t, name, err, "")
	}
	is.Equal(t, "the next multiple of 15", gomlxtest.Must(Variant("S/15"))(t).ImageCols, 225)
	tiny := gomlxtest.Must(Variant("Ti/1"))(t)
	is.Equal(t, "patches of one pixel", [2]int{tiny.PatchSize, tiny.Tokens()}, [2]int{1, 1 + 224*224})
	for size, of := range map[string][4]int{ // width, depth, heads and hidden units: the papers' tables; N and M are ours
		"N": {64, 4, 4, 256}, "M": {128, 6, 4, 512}, "Ti": {192, 12, 3, 768}, "S": {384, 12, 6, 1536},
		"B": {768, 12, 12, 3072}, "L": {1024, 24, 16, 4096}, "H": {1280, 32, 16, 5120},
	} {
		c := gomlxtest.Must(Variant(size + "/14"))(t)
		is.Equal(t, size, [4]int{c.Width, c.Depth, c.Heads, c.MLPDim}, of)
		is.Equal(t, size+"/14", [4]int{c.Rows(), c.Cols(), c.Tokens(), c.Classes}, [4]int{16, 16, 257, 1000})
	}
}

func TestParameterCountsEqualThePublishedOnes(t *testing.T) {
	// timm 1.0, vit_{tiny,small,base,large}_patch16_224 and vit_huge_patch14_224 with 1000 classes.
	for name, want := range map[string]int{
		"Ti/16": 5_717_416, "S/16": 22_050_664, "B/16": 86_567_656, "L/16": 304_326_632, "H/14": 632_045_800,
	} {
		c := gomlxtest.Must(Variant(name))(t)
		c.Position = "learned"
		is.Equal(t, name, c.Parameters(), want)
	}
}

// Two for each multiply-add of the products of a model of two blocks on 16 tokens, 15 of them patches of 12 values.
func TestFLOPsAreOfEveryMatrixProduct(t *testing.T) {
	plain, gated, mapped := small("learned", poolClass), small("learned", poolClass), small("learned", poolMap)
	gated.SwiGLU, mapped.ClassToken, mapped.PoolMLPDim = true, true, 19
	product := func(rows, inner, cols float64) float64 { return 2 * rows * inner * cols }
	attention := 4*product(16, 28, 28) + product(16, 28, 16) + product(16, 16, 28)
	mlp := product(16, 28, 37) + product(16, 37, 28)
	ends := product(15, 12, 28) + product(1, 28, 11)
	pool := 2*product(1, 28, 28) + 2*product(15, 28, 28) + product(1, 28, 15) + product(1, 15, 28) +
		product(1, 28, 19) + product(1, 19, 28) // of the patches alone
	gomlxtest.NearAbs(t, "FLOPs", []float64{plain.FLOPs(), gated.FLOPs(), mapped.FLOPs()}, []float64{
		ends + 2*(attention+mlp), ends + 2*(attention+mlp+product(16, 28, 37)), ends + 2*(attention+mlp) + pool}, 0)
	plain.Classes = 0
	gomlxtest.NearAbs(t, "without a head", []float64{plain.FLOPs()}, []float64{ends - product(1, 28, 11) +
		2*(attention+mlp)}, 0)
	plain.PatchSize = 0
	is.Refused(t, "without patches", exceptions.TryCatch[error](func() { plain.FLOPs() }), "patch_size")
}

func TestPaddingChangesNoLogitsOfAnyOption(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, set := range map[string]func(*Config){
		"patch norm, qv biases": func(c *Config) {
			c.PatchNorm, c.Registers, c.LayerScale, c.SwiGLU, c.PatchPositions, c.QKVBias = true, 3, 0.1, true, true, "qv"
		},
		"mean, no biases":        func(c *Config) { c.Pool, c.PatchNorm, c.QKVBias = poolMean, true, "none" },
		"clip":                   func(c *Config) { c.PreNorm, c.Activation = true, "quick_gelu" },
		"siglip":                 func(c *Config) { c.Pool, c.PoolMLPDim, c.Activation = poolMap, 19, "gelu_tanh" },
		"map without its prefix": func(c *Config) { c.Pool, c.ClassToken, c.Registers = poolMap, true, 2 },
		"eva02": func(c *Config) {
			c.SwiGLU, c.MLPNorm, c.ContextNorm, c.QKNorm, c.FinalNorm = true, true, true, true, "pooled"
		},
		"pooled norm of two vectors": func(c *Config) { c.Pool, c.FinalNorm = poolClassMean, "pooled" },
		"pooled RMSNorm of two vectors": func(c *Config) {
			c.Pool, c.Registers, c.FinalNorm, c.RMSNorm = poolClassRegister, 1, "pooled", true
		},
		"aimv2": func(c *Config) {
			c.Pool, c.RMSNorm, c.NoProjBias, c.NoMLPBias, c.SwiGLU, c.PatchNorm = poolMean, true, true, true, true, true
		},
		"pe":    func(c *Config) { c.Pool, c.ClassToken, c.PoolPrefix, c.PoolHeads = poolMap, true, true, 4 },
		"deit":  func(c *Config) { c.Pool, c.Registers, c.RegisterPositions = poolClassRegister, 1, true },
		"radio": func(c *Config) { c.Registers, c.FinalNorm, c.ClassToken = 3, "none", true },
		"gap":   func(c *Config) { c.Pool, c.ClassToken, c.PoolPrefix = poolMean, true, true },
	} {
		t.Run(name, func(t *testing.T) {
			c := small("learned", poolClass)
			set(&c)
			store := trained(t, c)
			got := naflexLogits(t, store, c, 0.7, 0)[0]
			gomlxtest.Near(t, "logits with padding", got, logitsOf(t, store, c, noise(c, 1)), 1e-5)
		})
	}
}
