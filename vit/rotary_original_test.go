// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
)

// attended is the attention of one block, without the norm before it: what the originals test as a module.
func attended(c Config, scope *model.Scope, x *Node, rotary Rotary, block int) *Node {
	layers := scope.At("block_%02d", block).At("attention")
	project := func(name string) *Node {
		return c.heads(weight.Dense(layers.At("%s", name), x, c.Width, weight.Constant(0), weight.Constant(0)))
	}
	q, k := rotary.Block(block).EncodeQK(project("query"), project("key"), nil, 1)
	mixed, _ := c.attend(scope, q, k, project("value"), nil, false)
	mixed = Reshape(mixed, x.Shape().Dimensions...)
	return weight.Dense(layers.At("output"), mixed, c.Width, weight.Constant(0), weight.Constant(0))
}

// ropeViTMeta is meta.json of the fixtures made by rope-vit.
type ropeViTMeta struct {
	Config struct {
		Image    [2]int  `json:"img_size"`
		Patch    int     `json:"patch_size"`
		Width    int     `json:"embed_dim"`
		Depth    int     `json:"depth"`
		Heads    int     `json:"num_heads"`
		MLPRatio float64 `json:"mlp_ratio"`
		Classes  int     `json:"num_classes"`
		Epsilon  float64 `json:"layer_norm_eps"`
		Theta    float64 `json:"rope_theta"`
	} `json:"config"`
	Grids     [][2]int `json:"grids_h_w"`
	Block     int      `json:"rotated_layer"`
	Tolerance struct {
		Abs    float64 `json:"abs"`
		Angles float64 `json:"angles_abs"`
	} `json:"tolerance"`
}

// ropeViT returns a store with the weights of a rope-vit fixture and their configuration. scaled folds LayerScale,
// which this library has not, into the last layer of each branch: γ∘(xW + b) = x(W·diag γ) + γ∘b.
func ropeViT(t *testing.T, set, position string, meta ropeViTMeta, scaled bool) (*foreign, Config) {
	m := meta.Config
	c := Config{
		ImageRows: m.Image[0], ImageCols: m.Image[1], PatchSize: m.Patch, Width: m.Width, Depth: m.Depth, Heads: m.Heads,
		MLPDim: int(m.MLPRatio * float64(m.Width)), Classes: m.Classes, Epsilon: m.Epsilon, Position: position,
	}.WithDefaults()
	f := load(t, set)
	f.Store.SetParam("/"+ParamRopeTheta, m.Theta)
	for block := range c.Depth {
		for scale, layer := range map[string]string{"gamma_1": "attn.proj", "gamma_2": "mlp.fc2"} {
			gamma := f.Get(fmt.Sprintf("blocks.%d.%s", block, scale))
			weights := f.Tensors[fmt.Sprintf("blocks.%d.%s.weight", block, layer)]
			biases := f.Tensors[fmt.Sprintf("blocks.%d.%s.bias", block, layer)]
			in := weights.Shape[1]
			for i := range weights.Data {
				if scaled {
					weights.Data[i] *= gamma.Data[i/in]
				}
			}
			for i := range biases.Data {
				if scaled {
					biases.Data[i] *= gamma.Data[i]
				}
			}
		}
	}
	f.conv("patch", "patch_embed.proj")
	f.Set("class", f.Get("cls_token").Data, c.Prefix(), c.Width)
	f.blocks(c, "", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "mlp.fc1", "mlp.fc2")
	f.Norm("norm", "norm")
	f.Linear("head", "head.weight", "head.bias", 0, c.Classes)
	if position == "rope-mixed" {
		freqs := f.Get("freqs") // [x|y, block, heads·headDim/2]
		n := c.Width / 2
		for block := range c.Depth {
			x, y := freqs.Data[block*n:(block+1)*n], freqs.Data[(c.Depth+block)*n:(c.Depth+block+1)*n]
			f.Set(fmt.Sprintf("position/rope_mixed/block_%02d/frequencies", block), append(append([]float64{}, x...), y...),
				2, c.Heads, c.headDim()/2)
		}
	}
	f.AllUsed("")
	return f, c
}

func TestEveryStageEqualsRopeViT(t *testing.T) {
	for position, set := range map[string]string{"rope-axial": "rope_axial", "rope-mixed": "rope_mixed"} {
		t.Run(position, func(t *testing.T) {
			var meta ropeViTMeta
			fixtures.JSON(t, set, "meta.json", &meta)
			want := fixtures.Tensors(t, set, "tensors.safetensors")
			plain, c := ropeViT(t, set, position, meta, false)
			scaled, _ := ropeViT(t, set, position, meta, true)
			for _, grid := range meta.Grids {
				p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
				c.ImageRows, c.ImageCols = grid[0]*c.PatchSize, grid[1]*c.PatchSize
				near := func(name string, got []float64, tol float64) {
					t.Helper()
					gomlxtest.NearAbs(t, p+name, got, want[p+name].Data, tol)
				}
				var x, y []float64
				for k := range c.Rows() * c.Cols() {
					col, row := c.place(k)
					x, y = append(x, col), append(y, row)
				}
				near("t_x", x, 0)
				near("t_y", y, 0)

				got := run(t, plain.Store, func(s *model.Scope, in []*Node) []*Node {
					rotary := c.Encoders(s.In("vit")).Rotary
					q, k := rotary.Block(meta.Block).EncodeQK(TransposeAllAxes(in[0], 0, 2, 1, 3),
						TransposeAllAxes(in[1], 0, 2, 1, 3), nil, 1)
					nodes := []*Node{TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3),
						attended(c, s.Shared("vit"), in[2], rotary, meta.Block)}
					for block := range c.Depth {
						cos, sin := rotary.(*rotation).pairs(in[0].Graph(), block)
						nodes = append(nodes, TransposeAllAxes(cos, 1, 0, 2), TransposeAllAxes(sin, 1, 0, 2))
					}
					return nodes
				}, gomlxtest.Input(want[p+"q"]), gomlxtest.Input(want[p+"k"]), gomlxtest.Input(want[p+"attn_in"]))
				near("q_rot", got[0], meta.Tolerance.Angles)
				near("k_rot", got[1], meta.Tolerance.Angles)
				near("attn_out", got[2], meta.Tolerance.Abs)
				var cos, sin []float64 // [blocks and heads where they differ, patches, headDim/2]
				n := c.headDim() / 2
				for i := 3; i < len(got); i += 2 {
					for at := 0; at < len(got[i]); at += c.Tokens() * n { // one head
						cos = append(cos, got[i][at+c.Prefix()*n:at+c.Tokens()*n]...)
						sin = append(sin, got[i+1][at+c.Prefix()*n:at+c.Tokens()*n]...)
					}
					if position == "rope-axial" {
						break // all blocks alike
					}
				}
				near("angle_cos", cos, meta.Tolerance.Angles)
				near("angle_sin", sin, meta.Tolerance.Angles)

				got = run(t, scaled.Store, func(s *model.Scope, in []*Node) []*Node {
					scope := s.In("vit")
					encoders := c.Encoders(scope)
					block := c.block(scope.At("block_%02d", meta.Block), in[1], encoders, meta.Block, false)
					trace := c.Trace(scope, in[0], false)
					nodes := []*Node{block.Output, trace.Logits}
					for _, b := range trace.Blocks {
						nodes = append(nodes, b.Output)
					}
					return nodes
				}, gomlxtest.Input(want[p+"images_nhwc"]), gomlxtest.Input(want[p+"attn_in"]))
				near("block_out", got[0], meta.Tolerance.Abs)
				near("model.logits", got[1], meta.Tolerance.Abs)
				for block := range c.Depth {
					near(fmt.Sprintf("model.block_%d", block), got[2+block], meta.Tolerance.Abs)
				}
			}
		})
	}
}

func TestMixedFrequenciesBeginAsRopeViTs(t *testing.T) {
	var meta ropeViTMeta
	fixtures.JSON(t, "rope_mixed", "meta.json", &meta)
	want := fixtures.Tensors(t, "rope_mixed", "tensors.safetensors")
	directions := want["init.angles"].Data
	headDim := meta.Config.Width / meta.Config.Heads
	gomlxtest.NearAbs(t, "init.freqs", mixedFrequencies(directions, headDim, meta.Config.Theta), want["init.freqs"].Data,
		meta.Tolerance.Angles)
	gomlxtest.NearAbs(t, "init.freqs_norotate", mixedFrequencies(make([]float64, len(directions)), headDim,
		meta.Config.Theta),
		want["init.freqs_norotate"].Data, meta.Tolerance.Angles)
}

func TestEveryCaseEqualsVisionLLaMA(t *testing.T) {
	var meta struct {
		Config struct {
			Width int     `json:"dim"`
			Heads int     `json:"num_heads"`
			Theta float64 `json:"theta"`
			Base  int     `json:"base_grid"`
		} `json:"config"`
		Cases []struct {
			Name       string  `json:"name"`
			Grid       [2]int  `json:"grid_h_w"`
			ClassToken bool    `json:"class_token"`
			Scale      float64 `json:"scale"`
		} `json:"cases"`
		Tolerance struct {
			Abs float64 `json:"abs"`
		} `json:"tolerance"`
	}
	fixtures.JSON(t, "as2drope", "meta.json", &meta)
	want := fixtures.Tensors(t, "as2drope", "tensors.safetensors")
	m := meta.Config
	for _, test := range meta.Cases {
		p := test.Name + "."
		c := Config{ImageRows: test.Grid[0], ImageCols: test.Grid[1], PatchSize: 1, Width: m.Width, Depth: 1,
			Heads: m.Heads, Classes: 1, Position: "as2drope", Pool: PoolMean}
		if test.ClassToken {
			c.Pool = PoolClass
		}
		c = c.WithDefaults()
		f := load(t, "as2drope")
		f.Store.SetParam("/"+ParamRopeTheta, m.Theta)
		f.Store.SetParam("/"+ParamAS2DRoPEBaseRows, m.Base)
		for i, name := range []string{"query", "key", "value"} {
			f.Linear("block_00/attention/"+name, "qkv.weight", "qkv.bias", i*c.Width, (i+1)*c.Width)
		}
		f.Linear("block_00/attention/output", "proj.weight", "proj.bias", 0, c.Width)
		got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			rotary := c.Encoders(s.In("vit")).Rotary
			q, k := rotary.Block(0).EncodeQK(in[0], in[1], nil, 1)
			cos, sin := rotary.(*rotation).pairs(in[0].Graph(), 0)
			return []*Node{q, k, attended(c, s.Shared("vit"), in[2], rotary, 0), MulScalar(cos, 1), MulScalar(sin, 1)}
		}, gomlxtest.Input(want[p+"q"]), gomlxtest.Input(want[p+"k"]), gomlxtest.Input(want[p+"attn_in"]))
		for i, name := range []string{"q_rot", "k_rot", "attn_out", "cos", "sin"} {
			gomlxtest.NearAbs(t, p+name, got[i], want[p+name].Data, meta.Tolerance.Abs)
		}
		var places []float64
		for token := range c.Tokens() {
			x, y := c.place(token - c.Prefix())
			places = append(places, x*test.Scale, y*test.Scale)
		}
		gomlxtest.NearAbs(t, p+"positions_xy", places, want[p+"positions_xy"].Data, meta.Tolerance.Abs)
	}
}

// fopeMeta is meta.json of the fixture made by FoPE.
type fopeMeta struct {
	Heads    int `json:"heads"`
	HeadDim  int `json:"head_dim"`
	Variants map[string]struct {
		Dim           int     `json:"fourier_dim"`
		IgnoreZero    bool    `json:"fourier_ignore_zero"`
		SeparateBasis bool    `json:"fourier_separate_basis"`
		SeparateHead  bool    `json:"fourier_separate_head"`
		Init          string  `json:"fourier_init"`
		Gain          float64 `json:"fourier_init_norm_gain"`
		Norm          bool    `json:"fourier_norm"`
		Theta         float64 `json:"rope_theta"`
		Length        int     `json:"max_sequence_length"`
		In            int     `json:"input_dim"`
		Out           int     `json:"output_dim"`
	} `json:"variants"`
	Lengths   []int `json:"lengths"`
	Tolerance struct {
		Abs float64 `json:"abs"`
	} `json:"tolerance"`
}

func TestEveryVariantEqualsFoPE(t *testing.T) {
	var meta fopeMeta
	fixtures.JSON(t, "fope", "meta.json", &meta)
	want := fixtures.Tensors(t, "fope", "tensors.safetensors")
	for name, v := range meta.Variants {
		if v.Init != "eye_xavier_norm" || v.Norm {
			t.Fatalf("%s: a form of FoPE that this library has not: init %s, norm %v", name, v.Init, v.Norm)
		}
		for _, length := range meta.Lengths {
			p := fmt.Sprintf("%s.T%d.", name, length)
			c := Config{ImageRows: 1, ImageCols: length, PatchSize: 1, Width: meta.Heads * meta.HeadDim, Depth: 1,
				Heads: meta.Heads, Classes: 1, Position: "fope", Pool: PoolMean}.WithDefaults()
			f := gomlxtest.LoadTorch(t, "fope", "tensors.safetensors", "/vit/")
			store := f.Store
			store.SetParams(map[string]any{
				ParamRopeTheta: v.Theta, ParamFoPELength: v.Length, ParamFoPEDim: v.Dim, ParamFoPEIgnoreZero: v.IgnoreZero,
				ParamFoPESeparateBasis: v.SeparateBasis, ParamFoPESeparateHead: v.SeparateHead, ParamFoPEGain: v.Gain,
			})
			used, mixed := fopeFrequencies(store.RootScope(), c)
			if len(used) != v.In || mixed != v.Out {
				t.Errorf("%s: %d frequencies for %d pairs, want %d for %d", name, len(used), mixed, v.In, v.Out)
			}
			gomlxtest.NearAbs(t, name+".inv_freq", used, want[name+".inv_freq"].Data, meta.Tolerance.Abs)
			coefficients := map[string]string{"cos_coefficients": name + ".cos_coef", "sin_coefficients": name + ".sin_coef"}
			if !v.SeparateBasis {
				coefficients = map[string]string{"cos_coefficients": name + ".fourier_coef"}
			}
			for variable, tensor := range coefficients {
				x := want[tensor]
				heads := len(x.Data) / (v.In * v.Out)
				f.Set("position/fope/block_00/"+variable, x.Data, heads, v.In, v.Out)
			}
			known := store.NumVariables()
			q, k := want[fmt.Sprintf("T%d.q", length)], want[fmt.Sprintf("T%d.k", length)] // [batch, head, position, channel]
			got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
				rotary := c.Encoders(s.In("vit")).Rotary
				q, k := rotary.Block(0).EncodeQK(TransposeAllAxes(in[0], 0, 2, 1, 3), TransposeAllAxes(in[1], 0, 2, 1, 3),
					nil, 1)
				cos, sin := rotary.(*rotation).pairs(in[0].Graph(), 0)
				return []*Node{TransposeAllAxes(q, 0, 2, 1, 3), TransposeAllAxes(k, 0, 2, 1, 3),
					TransposeAllAxes(cos, 1, 0, 2), TransposeAllAxes(sin, 1, 0, 2)}
			}, gomlxtest.Input(q), gomlxtest.Input(k))
			if store.NumVariables() != known {
				t.Errorf("%s: variables beside those of the fixture", name)
			}
			for i, tensor := range []string{"q_rot", "k_rot", "cos", "sin"} {
				if x, ok := want[p+tensor]; ok { // cos and sin are there for some lengths
					gomlxtest.NearAbs(t, p+tensor, got[i], x.Data, meta.Tolerance.Abs)
				}
			}
		}
	}
}

// The draws are not torch's: their mean and their spread are held to the formulas of the fixture's README.
func TestFoPECoefficientsBeginSpreadAsTheAuthors(t *testing.T) {
	for _, test := range []struct {
		rows, cols, heads, headDim int
		params                     map[string]any
		in, out                    int
		std                        float64
	}{
		// 14·14 patches, θ = 10000: frequencies 10000^(-i/32) >= 2π/196 are those with i <= 11.
		{14, 14, 3, 64, nil, 12, 12, 0.3 * math.Sqrt(2/float64((12+3)*12))},
		{14, 14, 3, 64, map[string]any{ParamFoPESeparateHead: false, ParamFoPEGain: 0.6}, 12, 12,
			0.6 * math.Sqrt(2.0/(12+12))},
		{14, 14, 1, 64, nil, 12, 12, 0.3 * math.Sqrt(2/float64((12+1)*12))},
		// Spaced for 128 channels, 10000^(-i/64) with i <= 23, for at most 16 pairs: every second, while there are.
		{14, 14, 3, 64, map[string]any{ParamFoPEDim: 128}, 24, 16, 0.3 * math.Sqrt(2/float64((24+3)*16))},
	} {
		c := Config{ImageRows: test.rows, ImageCols: test.cols, PatchSize: 1, Width: test.heads * test.headDim,
			Depth: 10, Heads: test.heads, Classes: 1, Position: "fope"}.WithDefaults()
		store := gomlxtest.Seeded(t, 3)
		for key, value := range test.params {
			store.SetParam("/"+key, value)
		}
		run(t, store, func(s *model.Scope, in []*Node) []*Node {
			rotary := c.Encoders(s.In("vit")).Rotary.(*rotation)
			var nodes []*Node
			for block := range c.Depth {
				cos, sin := rotary.pairs(in[0].Graph(), block)
				nodes = append(nodes, cos, sin)
			}
			return nodes
		}, float32(0))
		var squares, count float64
		for v := range store.IterVariables() {
			if v.Name() != "cos_coefficients" && v.Name() != "sin_coefficients" {
				continue
			}
			if d := v.Shape().Dimensions; d[1] != test.in || d[2] != test.out {
				t.Fatalf("%v: coefficients %v, want %d frequencies for %d pairs", test.params, d, test.in, test.out)
			}
			for i, x := range gomlxtest.Values(t, v.MustValue()) {
				in, out := i/test.out%test.in, i%test.out
				if in == out*((test.in+test.out-1)/test.out) {
					x--
				}
				squares, count = squares+x*x, count+1
			}
		}
		// Four deviations of the estimate of a normal's spread from so many numbers.
		if got := math.Sqrt(squares / count); !(math.Abs(got-test.std) <= 4*test.std/math.Sqrt(2*count)) {
			t.Errorf("%v: %g numbers spread %g around the step, want %g", test.params, count, got, test.std)
		}
	}
}
