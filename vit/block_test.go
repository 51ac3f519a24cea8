// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/cmplx"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit/position"
)

func TestPoolingTakesItsTokensOrTheirMean(t *testing.T) {
	gomlxtest.OnGo(t)
	for name, p := range map[string]struct {
		set  func(*Config)
		from [][2]int // the tokens of each pooled vector, the class token first, then registers and 5×3 patches
	}{
		"class":          {func(c *Config) { c.Pool = poolClass }, [][2]int{{0, 1}}},
		"one patch":      {func(c *Config) { *c = sized(small("wepe", poolMean), 1, 1) }, [][2]int{{0, 1}}},
		"mean":           {func(c *Config) { c.Pool = poolMean }, [][2]int{{0, 15}}},
		"mean, class":    {func(c *Config) { c.Pool, c.ClassToken, c.Registers = poolMean, true, 2 }, [][2]int{{3, 18}}},
		"mean of all":    {func(c *Config) { c.Pool, c.ClassToken, c.PoolPrefix = poolMean, true, true }, [][2]int{{0, 16}}},
		"class+mean":     {func(c *Config) { c.Pool, c.Registers = poolClassMean, 2 }, [][2]int{{0, 1}, {3, 18}}},
		"class+register": {func(c *Config) { c.Pool, c.Registers = poolClassRegister, 2 }, [][2]int{{0, 1}, {1, 2}}},
	} {
		c := small("wepe", poolClass)
		p.set(&c)
		got := run(t, gomlxtest.Seeded(t, 2), func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.In("vit"), in[0], false)
			return []*Node{trace.Encoded, trace.Pooled, trace.Logits}
		}, noise(c, 3))
		var want []float64
		for tokens := range slices.Chunk(got[0], c.Tokens()*c.Width) {
			for _, from := range p.from {
				mean := make([]float64, c.Width)
				for token := range slices.Chunk(tokens[from[0]*c.Width:from[1]*c.Width], c.Width) {
					floats.AddScaled(mean, 1/float64(from[1]-from[0]), token)
				}
				want = append(want, mean...)
			}
		}
		gomlxtest.Near(t, name, got[1], want, 1e-6)
	}
}

// The formulas of Config.Activation: x·Φ(x), its approximation by tanh, and x·σ(1.702x).
func TestActivationsAreTheirFormulas(t *testing.T) {
	for name, f := range map[string]func(x float64) float64{
		"":           func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) / 2 },
		"gelu_tanh":  func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
		"quick_gelu": func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) },
	} {
		x := []float32{-3, -1, -0.3, 0, 0.7, 2, 5}
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{Config{Activation: name}.activate(in[0])} }, x)[0]
		for i, v := range x {
			gomlxtest.NearAbs(t, "activation "+name, got[i:i+1], []float64{f(float64(v))}, 1e-6)
		}
	}
}

// SigLIP's head, in numbers: y is the output of the attention of one learned query, pooled is y + mlp(norm(y)).
func TestTheMapPoolIsTheAttentionOfALearnedQuery(t *testing.T) {
	for _, prefix := range []bool{false, true} { // whether class token and registers are pooled too
		c := small("none", poolMap)
		c.ClassToken, c.Registers, c.PoolPrefix, c.PoolHeads, c.PoolMLPDim = true, 2, prefix, 4, 19
		store := trained(t, c)
		got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
			trace := c.Trace(s.In("vit"), in[0], false)
			return []*Node{trace.Encoded, trace.Pooled, trace.Logits}
		}, noise(c, 3))
		of := func(name string) []float64 { return valueOf(t, store, "pool/"+name) }
		dense := func(name string, x []float64) []float64 {
			biases := of(name + "/biases")
			return floats.AddTo(biases, biases, times(x, of(name+"/weights"), len(biases)))
		}
		var want []float64
		first, size := map[bool]int{false: c.Prefix()}[prefix], c.Width/c.PoolHeads
		for image := range slices.Chunk(got[0], c.Tokens()*c.Width) {
			query, mixed := dense("query", of("latent")), make([]float64, c.Width)
			total := make([]float64, c.PoolHeads)
			for token := first; token < c.Tokens(); token++ {
				x := image[token*c.Width : (token+1)*c.Width]
				key, value := dense("key", x), dense("value", x)
				for head := range c.PoolHeads {
					from, to := head*size, (head+1)*size
					weight := math.Exp(floats.Dot(query[from:to], key[from:to]) / math.Sqrt(float64(size)))
					total[head] += weight
					floats.AddScaled(mixed[from:to], weight, value[from:to])
				}
			}
			for i := range mixed {
				mixed[i] /= total[i/size]
			}
			y := dense("output", mixed)
			hidden := dense("mlp_hidden", normalized(y, of("norm/gain"), of("norm/offset"), c.Epsilon))
			for i, v := range hidden {
				hidden[i] = v * (1 + math.Erf(v/math.Sqrt2)) / 2
			}
			want = append(want, floats.AddTo(y, y, dense("mlp_output", hidden))...)
		}
		gomlxtest.Near(t, "pooled", got[1], want, 1e-5)
	}
}

// normalized is the LayerNorm of one token.
func normalized(x, gain, offset []float64, epsilon float64) (y []float64) {
	mean, variance := stat.PopMeanVariance(x, nil)
	for i, v := range x {
		y = append(y, (v-mean)/math.Sqrt(variance+epsilon)*gain[i]+offset[i])
	}
	return y
}

// withFused is a backend that says whether it has fused attention, as CUDA has. Without a kernel for it GoMLX computes
// the same in steps.
type withFused struct {
	compute.Backend
	has bool
}

func (b withFused) Capabilities() compute.Capabilities {
	c := b.Backend.Capabilities()
	c.Operations = maps.Clone(c.Operations)
	c.Operations[compute.OpTypeFusedScaledDotProductAttention] = b.has
	return c
}

func testFusedAttention(t *testing.T) {
	c := small("none", poolClass)
	for name, of := range map[string]struct {
		plain, float32, biased, keeps, drops, training, off bool
		channels                                            int // of a head; 16
		want                                                bool
	}{
		"bfloat16": {want: true}, "a rate in evaluation": {drops: true, want: true}, "training": {training: true, want: true},
		"a backend without it": {plain: true}, "float32": {float32: true}, "a bias": {biased: true},
		"weights for the caller": {keeps: true}, "dropout": {drops: true, training: true}, "12 channels": {channels: 12},
		"128 channels": {channels: 128, want: true}, "136 channels": {channels: 136}, "GOMLX_FUSION=0": {off: true},
	} {
		t.Setenv(FusionEnv, strconv.FormatBool(!of.off))
		c.Width = cmp.Or(of.channels, 16) * c.Heads
		backend := withFused{gomlxtest.Backend(), !of.plain}
		c.AttentionDropout = map[bool]float64{true: 0.5}[of.drops]
		out := gomlxtest.Must(model.CallOnceN(backend, gomlxtest.Seeded(t, 5), func(s *model.Scope, in []*Node) []*Node {
			g, q := in[0].Graph(), in[0]
			s.Store().SetTraining(g, of.training)
			if !of.float32 {
				q = ConvertDType(q, dtypes.BFloat16)
			}
			var bias *Node
			if of.biased {
				bias = Const(g, [][][][]float32{{{{0}}}})
			}
			k, v := MulScalar(q, 2), MulScalar(q, 3)
			flash(q, k, v) // makes the constants
			begin := len(g.Nodes())
			added := func() (lines []string) { // the nodes from begin on
				for _, node := range g.Nodes()[begin:] {
					line := fmt.Sprint(node.Type(), node.Shape())
					for _, input := range node.Inputs() {
						if id := int(input.Id()); id < begin {
							line += fmt.Sprint(" of ", id)
						} else {
							line += fmt.Sprint(" back ", int(node.Id())-id)
						}
					}
					lines = append(lines, line)
				}
				begin = len(g.Nodes())
				return lines
			}
			mixed, weights := c.attend(s, q, k, v, bias, of.keeps)
			if is.Equal(t, name+": fused", weights == nil, of.want); weights == nil {
				fused := added()
				flash(q, k, v)
				is.Equal(t, name+": nodes", fused, added())
				t.Setenv(FusionEnv, "0") // the go backend has no fused softmax of bfloat16
				mixed = flash(q, k, v)
			}
			in32 := ConvertDType(q, dtypes.Float32)
			exact, _ := c.attend(s, in32, MulScalar(in32, 2), MulScalar(in32, 3), nil, true)
			return []*Node{ConvertDType(mixed, dtypes.Float32), exact}
		}, gomlxtest.Noise(2, 5, c.Heads, c.headDim())))(t)
		if !of.drops || !of.training {
			gomlxtest.Near(t, name, gomlxtest.Values(t, out[0]), gomlxtest.Values(t, out[1]), 0.03)
		}
	}
}

func TestDropoutActsInTrainingOnly(t *testing.T) {
	gomlxtest.OnGo(t)
	logits := func(c Config, training bool) []float64 {
		return run(t, gomlxtest.Seeded(t, 9), func(s *model.Scope, in []*Node) []*Node {
			s.Store().SetTraining(in[0].Graph(), training)
			return []*Node{c.Logits(s.In("vit"), in[0])}
		}, noise(c, 2))[0]
	}
	quiet := logits(small("none", poolClass), true)
	for name, rate := range map[string]float64{"dropout": 0.4, "attention_dropout": 0.4, "drop_path": 0.9} {
		c := small("none", poolClass)
		field(&c, name).SetFloat(rate)
		gomlxtest.NearAbs(t, name+" in evaluation", logits(c, false), quiet, 0)
		draws := 0
		gomlxtest.Build(t, gomlxtest.Seeded(t, 9), func(s *model.Scope, in []*Node) []*Node {
			s.Store().SetTraining(in[0].Graph(), true)
			out := c.Logits(s.In("vit"), in[0])
			for _, node := range in[0].Graph().Nodes() {
				if node.Type() == NodeTypeRNGBitGenerator {
					draws++
				}
			}
			return []*Node{out}
		}, noise(c, 2))
		is.Equal(t, name+": draws", draws, map[string]int{"dropout": 1 + 2*c.Depth, "attention_dropout": c.Depth,
			"drop_path": 2 * (c.Depth - 1)}[name])
		is.Equal(t, name+" changes nothing in training", slices.Equal(logits(c, true), quiet), false)
	}
}

func TestDropPathGrowsLinearlyFromBlockToBlock(t *testing.T) {
	const batch = 600
	c := small("none", poolMean)
	c.Depth, c.DropPath = 3, 0.6
	got := run(t, gomlxtest.Seeded(t, 6), func(s *model.Scope, in []*Node) []*Node {
		s.Store().SetTraining(in[0].Graph(), true)
		trace := c.Trace(s.In("vit"), in[0], false)
		outputs := []*Node{trace.Tokens}
		for _, b := range trace.Blocks {
			outputs = append(outputs, b.Output)
		}
		return append(outputs, trace.Logits)
	}, noise(c, batch))
	size := c.Tokens() * c.Width
	for block, rate := range []float64{0, 0.3, 0.6} {
		through := 0 // images that pass unchanged: both branches are dropped
		for image := range batch {
			if slices.Equal(got[block][image*size:(image+1)*size], got[block+1][image*size:(image+1)*size]) {
				through++
			}
		}
		want := rate * rate
		gomlxtest.NearAbs(t, fmt.Sprint("share of the images that block leaves as they are: ", block),
			[]float64{float64(through) / batch}, []float64{want}, 4*math.Sqrt(want*(1-want)/batch))
	}
}

// These tests run in a process without the fused kernels of the go backend, which do not support bfloat16. The kernels
// are selected when a process starts.
func TestIn16Bits(t *testing.T) {
	const child = "WEPE_TEST_BFLOAT16"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), child+"=1", "GOMLX_FUSION=0")
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("with GOMLX_FUSION=0: %v\n%s", err, out)
		}
		return
	}
	t.Run("FusedAttentionIsForBfloat16WithoutABiasWeightsAndDropout", testFusedAttention)
	t.Run("GradientsOfFactorsAreTheSame", testGradientsOfFactors)
	t.Run("Bfloat16IsCloseToFloat32", testBfloat16)
	t.Run("EncodingsAreComputedInFloat32InsideABfloat16Model", testEncodingsInFloat32)
}

// Inputs and gradients are multiples of 1/64 in ±1: they are exact in bfloat16, their products and sums in float32. So
// the gradients of weights that multiply tokens are the same in both types, if they are summed in float32.
func testGradientsOfFactors(t *testing.T) {
	const batch, rows, cols, width = 13, 7, 5, 3
	c := Config{Width: width, Depth: 1, LayerScale: 0.5}
	for name, layer := range map[string]func(scope *model.Scope, x *Node) *Node{
		"LayerScale": func(scope *model.Scope, x *Node) *Node {
			x = Reshape(x, batch, rows*cols, width)
			return Reshape(c.branch(scope, "scale1", x, 0), batch, rows, cols, width)
		},
		"cpe": func(scope *model.Scope, x *Node) *Node {
			cpe := position.New("cpe", scope, position.Config{Grid: position.Grid{Rows: rows, Cols: cols}, Width: width,
				Heads: 1})
			y := cpe.(position.Follower).After(Reshape(x, batch, rows*cols, width), 0)
			return Reshape(y, batch, rows, cols, width)
		},
		"rows": func(scope *model.Scope, x *Node) *Node {
			t := weight.Float32(scope, "rows", weight.Constant(0.5), 1, rows*cols, width).NodeValue(x.Graph())
			return Reshape(kernel.AddRows(Reshape(x, batch, rows*cols, width), t), batch, rows, cols, width)
		},
		"modulation": func(scope *model.Scope, x *Node) *Node {
			m := weight.Float32(scope, "factors", weight.Constant(0.5), 1, rows, cols, width).NodeValue(x.Graph())
			return kernel.Rescale(x, m)
		},
	} {
		gradients := map[dtypes.DType][][]float64{}
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
			gradients[dtype] = run(t, gomlxtest.Seeded(t, 3), func(scope *model.Scope, in []*Node) []*Node {
				for i := range in {
					in[i] = ConvertDType(DivScalar(Round(MulScalar(in[i], 64)), 64), dtype)
				}
				loss := ReduceAllSum(ConvertDType(Mul(layer(scope, in[0]), in[1]), dtypes.Float32))
				return scope.BuildTrainableVariablesGradientsGraph(loss)
			}, gomlxtest.Noise(batch, rows, cols, width), gomlxtest.Noise(batch, rows, cols, width))
		}
		for i, want := range gradients[dtypes.Float32] {
			gomlxtest.NearAbs(t, fmt.Sprint(name, " gradient ", i), gradients[dtypes.BFloat16][i], want, 0)
		}
	}
}

func testBfloat16(t *testing.T) {
	for i, label := range gomlxtest.InTurn(0, gomlxtest.Encodings(position.Names())...) {
		for _, pool := range gomlxtest.InTurn(i, poolClass, poolMean) {
			c := small(label, pool)
			want := logitsOf(t, gomlxtest.Seeded(t, 4), c, noise(c, 2))
			c.DType = "bfloat16"
			got := logitsOf(t, gomlxtest.Seeded(t, 4), c, noise(c, 2))
			is.Equal(t, label+" "+pool+" in every bit", slices.Equal(got, want), false)
			// 8 bits of mantissa round by 2^-9; a dozen roundings follow each other in two blocks.
			gomlxtest.Near(t, label+" "+pool, got, want, 0.03)
		}
	}
	c, store := small("learned+rope-mixed", poolClass), gomlxtest.Seeded(t, 3)
	variables(t, store, c)
	want := slices.Concat(naflexLogits(t, store, c, 0, 1, 4)...)
	c.DType = "bfloat16"
	gomlxtest.Near(t, "several grids", slices.Concat(naflexLogits(t, store, c, 0, 1, 4)...), want, 0.03)
}

// An encoding's values are rounded to bfloat16 once, when they are added to the tokens: with patches of zeros, the
// tokens of a bfloat16 model equal the float32 model's within one conversion, in which the go backend truncates bits:
// 2^-8 of each number. An encoding computed in bfloat16 has several such errors. Biases stay float32.
func testEncodingsInFloat32(t *testing.T) {
	for _, name := range gomlxtest.InTurn(3, gomlxtest.Encodings(position.Names())...) {
		c := small(name, poolClass)
		store := trained(t, c)
		for _, path := range []string{"patch/weights", "patch/biases", "class"} {
			v := store.GetVariable("/vit/" + path)
			gomlxtest.NoError(t, v.SetValue(tensors.FromScalarAndDimensions(float32(0), v.Shape().Dimensions...)))
		}
		half := c
		half.DType = "bfloat16"
		got := run(t, store, func(_ *model.Scope, in []*Node) []*Node {
			trace := half.Trace(store.Scope("/vit"), in[0], false)
			is.Equal(t, name+": type of tokens", trace.Tokens.DType(), dtypes.BFloat16)
			of := c.Trace(store.Scope("/vit"), in[0], false)
			if relative, ok := position.As[position.Biaser](trace.Encoder); ok {
				is.Equal(t, name+": type of the bias", relative.Bias(in[0].Graph(), 0).DType(), dtypes.Float32)
			}
			return []*Node{ConvertDType(trace.Tokens, dtypes.Float32), of.Tokens}
		}, noise(c, 1))
		for i, exact := range got[1] {
			if !(math.Abs(got[0][i]-exact) <= math.Ldexp(1, -8)*math.Abs(exact)+1e-9) {
				t.Fatalf("%s: %g at %d, want %g rounded to bfloat16", name, got[0][i], i, exact)
			}
		}
	}
}

func TestRecomputeChangesNoGraphOfEvaluation(t *testing.T) {
	c := small("wepe", poolClass)
	want := graphOf(t, gomlxtest.Seeded(t, 3), c)
	c.Recompute = true
	is.Equal(t, "graph", graphOf(t, gomlxtest.Seeded(t, 3), c), want)
}

// Memory stores the values of the forward pass that the gradient reads: with Recompute only the tokens that enter a
// block.
func TestRecomputeKeepsTheTokensBetweenBlocksAlone(t *testing.T) {
	if gomlxtest.Backend().Name() == "onnxruntime" {
		t.Skip("ONNX Runtime has no barrier to compute behind")
	}
	for _, label := range gomlxtest.InTurn(0,
		"wepe", "learned", "rope-mixed", "rope1d", "liere", "wepe-bias", "alibi2d", "hybrid",
	) {
		var grads [2][][]float64
		var kept [2]int // numbers
		for k, recompute := range []bool{false, true} {
			c := small(label, poolClass)
			c.LayerScale, c.Depth, c.Recompute = 0.5, 3, recompute
			grads[k] = run(t, gomlxtest.Seeded(t, 3), func(scope *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				scope.Store().SetTraining(g, true)
				trace := c.Trace(scope, in[0], false)
				loss := ReduceAllSum(Square(trace.Logits))
				out := scope.BuildTrainableVariablesGradientsGraph(loss)
				first, last := trace.Tokens.Id(), trace.Encoded.Id()
				of := map[NodeId]bool{in[0].Id(): true} // the images: these nodes grow with the batch
				seen := map[NodeId]bool{}
				for _, node := range g.Nodes() {
					for _, input := range node.Inputs() {
						of[node.Id()] = of[node.Id()] || of[input.Id()]
						if at := input.Id(); node.Id() > loss.Id() && at > first && at < last && of[at] && !seen[at] {
							seen[at] = true
							kept[k] += input.Shape().Size()
						}
					}
				}
				return out
			}, noise(c, 2))
		}
		gomlxtest.Near(t, label+": gradient", slices.Concat(grads[1]...), slices.Concat(grads[0]...), 1e-6)
		// The tokens that enter three blocks, and those that leave the last, twice: before and after their barrier.
		config := small(label, poolClass)
		if limit := 8 * 2 * config.Tokens() * config.Width; kept[1] > limit || kept[0] < 4*limit {
			t.Errorf("%s: the gradient keeps %d numbers, %d without recomputing, want at most %d of many more", label,
				kept[1], kept[0], limit)
		}
	}
}

// loud makes attention far from uniform, and the bias of relative positions, if there is one, as large as the scores of
// a trained model.
func loud(store *model.Store) {
	for v := range store.IterVariables() {
		path := v.Path()
		ofBias := strings.HasPrefix(path, "/vit/position/wepe_bias/") && v.Shape().Rank() > 0
		ofScores := strings.Contains(path, "/attention/query") || strings.Contains(path, "/attention/key")
		if !ofBias && !ofScores {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			for i, x := range flat.([]float32) {
				if flat.([]float32)[i] = 20 * x; ofBias {
					flat.([]float32)[i] = float32(math.Sin(float64(3*i + len(v.Name()))))
				}
			}
		})
	}
}

// The timm fixture checks the values of the attention, but its weights are nearly uniform, and nothing is added to the
// scores. Nothing else of the position enters the attention.
func TestAttentionIsTheSoftmaxOfScaledScoresAndBiasInEveryBlock(t *testing.T) {
	for _, label := range []string{"wepe", "wepe-bias", "wepe-qkv", "wepe-v"} {
		c := small(label, poolClass)
		store := gomlxtest.Seeded(t, 11)
		build := func(s *model.Scope, in []*Node) (nodes []*Node) {
			trace := c.Trace(s.In("vit"), in[0], true)
			encoder := c.Encoder(s.Shared("vit"))
			for block, b := range trace.Blocks {
				q, k, v := b.Query, b.Key, b.Value
				if scaler, ok := position.As[position.Scaler](encoder); ok {
					scales := scaler.Scale(in[0].Graph(), block)
					for i, x := range []**Node{&q, &k, &v} {
						if scales[i] != nil {
							*x = Mul(*x, Reshape(scales[i], 1, c.Tokens(), c.Heads, c.headDim()))
						}
					}
				}
				scores := MulScalar(Einsum("bqhd,bkhd->bhqk", q, k), 1/math.Sqrt(float64(c.headDim())))
				if biaser, ok := position.As[position.Biaser](encoder); ok {
					scores = Add(scores, InsertAxes(biaser.Bias(in[0].Graph(), block), 0))
				}
				weights := Softmax(scores, -1) // [batch, heads, query, key]
				mixed := Reshape(Einsum("bhqk,bkhd->bqhd", weights, v), -1, c.Tokens(), c.Width)
				output := s.Store().Scope(fmt.Sprintf("/vit/block_%02d/attention/output", block))
				of := func(name string) *Node { return output.GetVariable(name).NodeValue(in[0].Graph()) }
				attention := Add(Einsum("btd,de->bte", mixed, of("weights")), Reshape(of("biases"), 1, 1, -1))
				nodes = append(nodes, weights, MulScalar(b.Weights, 1), attention, MulScalar(b.Attention, 1))
			}
			return append(nodes, trace.Logits)
		}
		gomlxtest.Build(t, store, build, noise(c, 2))
		loud(store)
		got := run(t, store, build, noise(c, 2))
		for i := 0; i+1 < len(got); i += 2 {
			what := fmt.Sprintf("%s, block %d: %s", label, i/4, []string{"weights", "attention"}[i/2%2])
			gomlxtest.Near(t, what, got[i+1], got[i], 1e-5)
			if peak := slices.Max(got[i]); i%4 == 0 && peak < 0.3 {
				t.Errorf("%s: the largest attention weight is %g: too uniform for this test", label, peak)
			}
		}
	}
}

// A head's output at i is Σ_j a_ij·R(θ_j-θ_i)·v_j, equation 6 of GTA: the values in the frame of the query. The patches
// are at their places in the grid of training.
// The weights a and values v are those of the trace, everything else is computed on the host.
func TestValuesAreSeenInTheFrameOfTheQuery(t *testing.T) {
	c := small("rope-mixed-qkv", poolClass) // 5×3 patches and a class token, 7 heads of 4 channels
	store := gomlxtest.Seeded(t, 5)
	const batch, heads, pairs, width, trainedRows, trainedCols = 3, 7, 2, 28, 7, 11
	store.SetParams(map[string]any{"rope_mixed_qkv_rows": trainedRows, "rope_mixed_qkv_cols": trainedCols})
	images := noise(c, batch)
	got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		block := c.Trace(s.In("vit"), in[0], true).Blocks[1]
		return []*Node{MulScalar(block.Weights, 1), MulScalar(block.Value, 1), MulScalar(block.Attention, 1)}
	}, images)
	f := valueOf(t, store, "position/rope_mixed_qkv/block_01/frequencies") // [2, heads, pairs]
	n := c.Tokens()
	angle := func(token, head, pair int) float64 {
		if token == 0 {
			return 0 // class token
		}
		col := (float64((token-1)%c.Cols())+0.5)*trainedCols/float64(c.Cols()) - 0.5
		row := (float64((token-1)/c.Cols())+0.5)*trainedRows/float64(c.Rows()) - 0.5
		return col*f[head*pairs+pair] + row*f[(heads+head)*pairs+pair]
	}
	const output = "block_01/attention/output/"
	dense, bias := valueOf(t, store, output+"weights"), valueOf(t, store, output+"biases")
	var want []float64
	for b := range batch {
		for i := range n {
			mixed := make([]float64, 0, width)
			for at := range heads * pairs {
				var sum complex128
				head, pair := at/pairs, at%pairs
				for j := range n {
					v := got[1][((b*n+j)*heads*pairs+at)*2:]
					turn := cmplx.Exp(complex(0, angle(j, head, pair)-angle(i, head, pair)))
					sum += complex(got[0][((b*heads+head)*n+i)*n+j], 0) * turn * complex(v[0], v[1])
				}
				mixed = append(mixed, real(sum), imag(sum))
			}
			want = append(want, floats.AddTo(mixed, times(mixed, dense, width), bias)...)
		}
	}
	gomlxtest.Near(t, "attention", got[2], want, 1e-5)
}

// The queries of a block are (LayerNorm(x) + T_l)·W + b, T_l = LayerNorm_l(T_{l-1}), as in the authors' code
// (github.com/Ingrid725/LaPE). LayerNorm(x) is that of the trace, everything else is computed on the host.
func TestLaPEPassesATableFromBlockToBlock(t *testing.T) {
	c := small("lape", poolClass)
	c.Registers = 2 // without positions
	store := gomlxtest.Seeded(t, 5)
	const batch, width = 3, 28
	forward := func() [][]float64 {
		return run(t, store, func(s *model.Scope, in []*Node) []*Node {
			block := c.Trace(s.In("vit"), in[0], false).Blocks[1]
			return []*Node{MulScalar(block.Norm1, 1), MulScalar(block.Query, 1)}
		}, noise(c, batch))
	}
	forward() // makes the variables
	table := slices.Concat(valuesOf(t, store, "lape/prefix", 0.25), valuesOf(t, store, "lape/table", 2))
	for _, block := range []string{"block_00", "block_01"} {
		gain := valuesOf(t, store, "lape/"+block+"/gain", 1)
		offset := valuesOf(t, store, "lape/"+block+"/offset", 0.5)
		for row := range slices.Chunk(table, width) {
			copy(row, normalized(row, gain, offset, 1e-6))
		}
	}
	table = slices.Insert(table, width, make([]float64, c.Registers*width)...)
	got := forward()
	const query = "block_01/attention/query/"
	weights, biases := valueOf(t, store, query+"weights"), valueOf(t, store, query+"biases")
	var want []float64
	for i := range batch * c.Tokens() {
		seen := floats.AddTo(make([]float64, width), got[0][i*width:][:width], table[i%c.Tokens()*width:][:width])
		want = append(want, floats.AddTo(seen, times(seen, weights, width), biases)...)
	}
	gomlxtest.Near(t, "queries", got[1], want, 1e-5)
}
