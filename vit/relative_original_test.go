// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// biases returns the bias of every block, one after the other, [depth, heads, tokens, tokens].
func biases(t *testing.T, c Config, params map[string]any) (all []float64) {
	t.Helper()
	store := model.NewStore()
	store.SetParams(params)
	for _, bias := range run(t, store, func(s *model.Scope, in []*Node) (nodes []*Node) {
		relative := acting[position.Biaser](c, s)
		for block := range c.Depth {
			nodes = append(nodes, MulScalar(relative.Bias(in[0].Graph(), block), 1))
		}
		return nodes
	}, float32(0)) {
		all = append(all, bias...)
	}
	return all
}

// onGrid is a model of one pixel a patch without a class token.
func onGrid(position string, rows, cols, depth, heads int) Config {
	return gomlxtest.Resolved(Config{ImageRows: rows, ImageCols: cols, PatchSize: 1, Width: 4 * heads, Depth: depth, Heads: heads, Classes: 1,
		Position: position, Pool: poolMean})
}

func TestALiBi2DEqualsCROMA(t *testing.T) { fixtures.Each(t, testALiBi2DEqualsCROMA) }

func testALiBi2DEqualsCROMA(t *testing.T) {
	var meta struct {
		Bias struct {
			Listed      []int    `json:"heads_listed"`
			Heads       int      `json:"grid_heads"`
			Square      [2]int   `json:"square_grid"`
			SquareHeads int      `json:"square_heads"`
			Grids       [][2]int `json:"grids_h_w"`
		}
		Tolerance struct {
			Slopes float64 `json:"slopes_abs"`
			Bias   float64 `json:"bias_abs"`
		}
	}
	fixtures.JSON(t, "alibi2d", "meta.json", &meta)
	want := fixtures.Tensors(t, "alibi2d", "tensors.safetensors")
	for _, heads := range meta.Bias.Listed { // the bias of two neighbours is minus the slope
		name, bias := fmt.Sprintf("slopes%d_out", heads), biases(t, onGrid("alibi2d", 1, 2, 1, heads), nil)
		var slopes []float64
		for head := range heads {
			slopes = append(slopes, -bias[4*head+1])
		}
		gomlxtest.NearAbs(t, name, slopes, want[name].Data, meta.Tolerance.Slopes)
	}
	near := func(form string, grid [2]int, heads int) {
		name := fmt.Sprintf("%s%dx%d.heads%d.bias_out", form, grid[0], grid[1], heads)
		c := onGrid("alibi2d", grid[0], grid[1], 1, heads)
		gomlxtest.NearAbs(t, name, biases(t, c, nil), want[name].Data, meta.Tolerance.Bias)
	}
	near("square", meta.Bias.Square, meta.Bias.SquareHeads)
	for _, grid := range meta.Bias.Grids {
		near("grid", grid, meta.Bias.Heads)
	}
}

func TestEveryBiasEqualsLookHere(t *testing.T) { fixtures.Each(t, testEveryBiasEqualsLookHere) }

func testEveryBiasEqualsLookHere(t *testing.T) {
	var meta struct {
		Config struct {
			Slope  float64    `json:"global_slope"`
			Layers [2]float64 `json:"layer_slopes"`
		} `json:"bias_config"`
		Cases []struct {
			Name      string          `json:"name"`
			Grid      [2]int          `json:"grid_h_w"`
			Views     json.RawMessage `json:"head_directions"`
			Heads     int             `json:"num_heads"`
			Depth     int             `json:"depth"`
			Distance  string          `json:"distance"`
			Fill      string          `json:"fill_with"`
			QueryRows []int           `json:"query_rows"`
		} `json:"bias_cases"`
		Tolerance struct {
			Bias float64 `json:"bias_exact"`
		}
	}
	fixtures.JSON(t, "lookhere", "meta.json", &meta)
	want := fixtures.Tensors(t, "lookhere", "tensors.safetensors")
	fills := map[string]string{"": "hidden", "inf": "hidden", "zero": "zero", "max": "farthest"}
	for _, test := range meta.Cases {
		name := fmt.Sprintf("%s.grid%dx%d.bias_out", test.Name, test.Grid[0], test.Grid[1])
		var views string
		if json.Unmarshal(test.Views, &views) != nil {
			var list []string // one word for each layer
			if err := json.Unmarshal(test.Views, &list); err != nil {
				t.Fatal(err)
			}
			views = strings.Join(list, ",")
		}
		c := onGrid("lookhere", test.Grid[0], test.Grid[1], test.Depth, test.Heads)
		params := map[string]any{
			"lookhere_words": views, "lookhere_slope": meta.Config.Slope, "lookhere_first": meta.Config.Layers[0],
			"lookhere_last": meta.Config.Layers[1], "lookhere_fill": fills[test.Fill],
		}
		for name, byDefault := range map[string]float64{"lookhere_slope": 1, "lookhere_first": 1.5, "lookhere_last": 0.5} {
			if params[name] == byDefault {
				delete(params, name)
			}
		}
		if test.Distance != "" {
			params["lookhere_distance"] = test.Distance
		}
		got := biases(t, c, params)
		if test.QueryRows != nil {
			var rows []float64
			n := c.Tokens()
			for at := 0; at < len(got); at += n {
				if slices.Contains(test.QueryRows, at/n%n) {
					rows = append(rows, got[at:at+n]...)
				}
			}
			got = rows
		}
		gomlxtest.NearAbs(t, name, got, want[name].Data, meta.Tolerance.Bias)
	}
}

// The names none1zero3, none2zero2 and none3zero1 of create_lh_layer_tensor (lookhere.py of GreenCUBIC/lookhere at
// 889d2e65): the first heads are those of none, the others have a distance of zero.
func TestSomeHeadsOfLookHereHaveNoDistance(t *testing.T) {
	c := onGrid("lookhere", 3, 5, 2, 4)
	want := biases(t, c, map[string]any{"lookhere_words": "none"}) // [blocks, heads, tokens, tokens]
	ofHead := c.Tokens() * c.Tokens()
	for plain, views := range map[int]string{1: "none1zero3", 2: "none2zero2", 3: "none3zero1"} {
		for i, x := range biases(t, c, map[string]any{"lookhere_words": views}) {
			if head := i / ofHead % c.Heads; head < plain && x != want[i] || head >= plain && x != 0 {
				t.Fatalf("%s: head %d has %g at %d, none has %g", views, head, x, i%ofHead, want[i])
			}
		}
	}
}

// A bias that is equal in all blocks is one node of the graph; LookHere's has one for each.
func TestAFixedBiasIsBuiltOnceForEqualBlocks(t *testing.T) {
	for label, want := range map[string]bool{"alibi2d": true, "lookhere": false} {
		c := onGrid(label, 2, 3, 2, 4)
		run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			relative, g := acting[position.Biaser](c, s), in[0].Graph()
			first, second := relative.Bias(g, 0), relative.Bias(g, 1)
			if first != relative.Bias(g, 0) || second != relative.Bias(g, 1) || (first == second) != want {
				t.Errorf("%s: one node for both blocks: %v", label, first == second)
			}
			return in
		}, float32(0))
	}
}

// With any number of heads, patches see themselves, and the class token sees all and is seen by all.
func TestABiasIsZeroForTheClassTokenAndFiniteForAll(t *testing.T) {
	for _, label := range []string{"alibi2d", "lookhere"} {
		for heads := 1; heads < 18; heads++ {
			c := onGrid(label, 3, 2, 2, heads)
			c.Pool = poolClass
			n := c.Tokens()
			for i, x := range biases(t, c, nil) {
				query, key := i/n%n, i%n
				if (query == 0 || key == 0 || query == key) && x != 0 || math.IsNaN(x) || math.IsInf(x, 0) || x > 0 {
					t.Fatalf("%s, %d heads: bias of head %d from %d to %d is %g", label, heads, i/n/n%heads, query, key, x)
				}
			}
		}
	}
}

// CROMA's model is ours, except that its norms are inside the branches, ours before them.
func TestEveryStageAndGradientEqualsCROMA(t *testing.T) {
	fixtures.Each(t, testEveryStageAndGradientEqualsCROMA)
}

func testEveryStageAndGradientEqualsCROMA(t *testing.T) {
	var meta struct {
		Model struct {
			Width   int     `json:"dim"`
			Depth   int     `json:"depth"`
			Heads   int     `json:"num_heads"`
			Patch   int     `json:"patch_size"`
			Mult    int     `json:"ff_mult"`
			Epsilon float64 `json:"layer_norm_eps"`
		}
		Tolerance struct {
			Abs  float64 `json:"model_abs"`
			Grad float64 `json:"grad_abs"`
		}
	}
	fixtures.JSON(t, "alibi2d", "meta.json", &meta)
	want := fixtures.Tensors(t, "alibi2d", "tensors.safetensors")
	m := meta.Model
	f := load(t, "alibi2d")
	patch := f.Get("linear_input.weight") // [width, (channel, row, column)], as a convolution has it
	patch.Shape = []int{m.Width, len(patch.Data) / (m.Width * m.Patch * m.Patch), m.Patch, m.Patch}
	f.Tensors["conv.weight"], f.Tensors["conv.bias"] = patch, f.Get("linear_input.bias")
	f.conv("patch", "conv")
	for block := range m.Depth {
		from, to := fmt.Sprintf("transformer.layers.%d.", block), fmt.Sprintf("block_%02d/", block)
		f.Norm(to+"norm1", from+"0.input_norm")
		f.Norm(to+"norm2", from+"1.input_norm")
		qkv := f.Get(from + "0.to_qkv.weight")
		for i, part := range []string{"query", "key", "value"} {
			n := m.Width * m.Width
			weights := gomlxtest.Reversed(qkv.Data[i*n:(i+1)*n], m.Width, 1, m.Width)
			f.Set(to+"attention/"+part+"/weights", weights, m.Width, m.Width)
		}
		f.Layer(to+"attention/output", from+"0.to_out")
		f.Layer(to+"mlp/hidden", from+"1.net.0")
		f.Layer(to+"mlp/output", from+"1.net.3")
	}
	f.Norm("norm", "transformer.norm_out")
	f.AllUsed("")
	for form, images := range want {
		p, ok := strings.CutSuffix(form, "images_nhwc")
		if !ok {
			continue
		}
		c := gomlxtest.Resolved(Config{ImageRows: images.Shape[1], ImageCols: images.Shape[2], PatchSize: m.Patch, Width: m.Width,
			Depth: m.Depth, Heads: m.Heads, MLPDim: m.Mult * m.Width, Classes: 1, Pool: poolMean, Position: "alibi2d",
			QKVBias: "none",
			Epsilon: m.Epsilon})
		weight, trains := want[p+"grad_in.final"]
		if !trains {
			weight = want[p+"output"]
		}
		var names []string
		got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			tr := c.Trace(s.In("vit"), in[0], false)
			bias := acting[position.Biaser](c, s.Shared("vit")).Bias(in[0].Graph(), 0)
			nodes := []*Node{MulScalar(bias, 1), tr.Patches, tr.Encoded}
			names = []string{"bias_out", "patch_embed", "output"}
			for i, b := range tr.Blocks {
				nodes = append(nodes, b.Attention, b.MLP)
				names = append(names, fmt.Sprintf("layer_%d.attn_out", i), fmt.Sprintf("layer_%d.ffn_out", i))
			}
			var of []*Node
			for _, part := range []string{"query", "key", "value"} {
				of = append(of, f.Store.GetVariable("/vit/block_00/attention/"+part+"/weights").NodeValue(in[0].Graph()))
			}
			gradients := Gradient(ReduceAllSum(Mul(tr.Encoded, in[1])), of...)
			for i := range gradients {
				gradients[i] = TransposeAllAxes(gradients[i], 1, 0) // [out, in]
			}
			return append(nodes, Concatenate(gradients, 0), tr.Logits)
		}, gomlxtest.Input(images), gomlxtest.Input(weight))
		for i, name := range names {
			if x, ok := want[p+name]; ok {
				gomlxtest.NearAbs(t, p+name, got[i], x.Data, meta.Tolerance.Abs)
			}
		}
		if trains {
			gomlxtest.NearAbs(t, p+"to_qkv", got[len(names)], want[p+"grad_out.to_qkv"].Data, meta.Tolerance.Grad)
		}
	}
}

// LookHere's model is ours except for its head, which has a hidden layer of tanh before the logits.
func TestEveryStageAndGradientEqualsLookHere(t *testing.T) {
	fixtures.Each(t, testEveryStageAndGradientEqualsLookHere)
}

func testEveryStageAndGradientEqualsLookHere(t *testing.T) {
	var meta struct {
		Bias struct {
			Slope  float64    `json:"global_slope"`
			Layers [2]float64 `json:"layer_slopes"`
		} `json:"bias_config"`
		Model struct {
			Image    [2]int  `json:"img_size"`
			Patch    int     `json:"patch_size"`
			Width    int     `json:"embed_dim"`
			Depth    int     `json:"depth"`
			Heads    int     `json:"num_heads"`
			Ratio    float64 `json:"mlp_ratio"`
			Classes  int     `json:"num_classes"`
			Views    string  `json:"head_directions"`
			Epsilon  float64 `json:"layer_norm_eps"`
			Larger   [2]int  `json:"extrapolated_img_size"`
			Shallows float64 `json:"extrapolated_global_slope"`
		}
		Tolerance struct {
			Abs  float64 `json:"model_abs"`
			Grad float64 `json:"grad_abs"`
		}
	}
	fixtures.JSON(t, "lookhere", "meta.json", &meta)
	want := fixtures.Tensors(t, "lookhere", "tensors.safetensors")
	m := meta.Model
	for _, test := range []struct {
		p, images string
		size      [2]int
		slope     float64
	}{
		{"model.", "model.images_nhwc", m.Image, meta.Bias.Slope},
		{"model_extrapolated.", "model_extrapolated.images_nhwc", m.Larger, meta.Bias.Slope},
		{"model_extrapolated_slope.", "model_extrapolated.images_nhwc", m.Larger, m.Shallows},
	} {
		c := gomlxtest.Resolved(Config{ImageRows: test.size[0], ImageCols: test.size[1], PatchSize: m.Patch, Width: m.Width, Depth: m.Depth,
			Heads: m.Heads, MLPDim: int(m.Ratio * float64(m.Width)), Classes: m.Classes, Position: "lookhere",
			Epsilon: m.Epsilon, LayerScale: 1})
		f := load(t, "lookhere")
		f.Store.SetParams(map[string]any{"lookhere_words": m.Views, "lookhere_slope": test.slope,
			"lookhere_first": meta.Bias.Layers[0], "lookhere_last": meta.Bias.Layers[1]})
		f.conv("patch", "patch_embed.proj")
		f.Set("class", f.Get("cls_token").Data, 1, c.Width)
		f.blocks(c, "", "attn.qkv.weight", "attn.qkv.bias", "attn.proj", "mlp.fc1", "mlp.fc2")
		for block := range c.Depth {
			for i, scale := range []string{"scale1", "scale2"} {
				f.Vector(fmt.Sprintf("block_%02d/%s", block, scale), fmt.Sprintf("blocks.%d.ls%d.gamma", block, i+1))
			}
		}
		f.Norm("norm", "norm")
		f.Layer("fc1", "head.fc1")
		f.Layer("fc2", "head.fc2")
		f.AllUsed("")
		names := []string{"bias_map_features", "patch_embed", "final_norm_output", "logits"}
		got := run(t, f.Store, func(s *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			tr := c.Trace(s.In("vit"), in[0], false)
			value := func(path string) *Node { return f.Store.GetVariable("/vit/" + path).NodeValue(g) }
			dense := func(name string, x *Node) *Node {
				return Add(MatMul(x, value(name+"/weights")), InsertAxes(value(name+"/biases"), 0))
			}
			logits := dense("fc2", Tanh(dense("fc1", tr.Pooled)))
			bias := acting[position.Biaser](c, s.Shared("vit")).Bias(g, 0)
			nodes := []*Node{MulScalar(bias, 1), tr.Patches, tr.Encoded, logits}
			for i, b := range tr.Blocks {
				nodes = append(nodes, b.Attention, b.Output)
				names = append(names[:4+2*i], fmt.Sprintf("block_%d.attn_out", i), fmt.Sprintf("block_%d_output", i))
			}
			if test.p == "model." {
				block := "block_00/attention/"
				gradients := Gradient(ReduceAllSum(Mul(logits, in[1])), value("class"), value("patch/weights"),
					value(block+"query/biases"), value(block+"key/biases"), value(block+"value/biases"),
					value(block+"output/weights"), value("block_01/scale1"))
				gradients[5] = TransposeAllAxes(gradients[5], 1, 0)
				nodes = append(nodes, gradients[0], gradients[1], Concatenate(gradients[2:5], 0), gradients[5], gradients[6])
			}
			return append(nodes, tr.Logits)
		}, gomlxtest.Input(want[test.images]), gomlxtest.Input(want["model.grad_in.logits"]))
		for i, name := range names {
			if x, ok := want[test.p+name]; ok {
				gomlxtest.NearAbs(t, test.p+name, got[i], x.Data, meta.Tolerance.Abs)
			}
		}
		if test.p == "model." {
			for i, name := range []string{"cls_token", "patch_embed.proj.weight", "blocks.0.attn.qkv.bias",
				"blocks.0.attn.proj.weight", "blocks.1.ls1.gamma"} {
				x := want["model.grad_out."+name].Data
				if i == 1 { // ours is the weight of the same convolution, [p·p·channels, width]
					shape := want["model.grad_out."+name].Shape
					x = gomlxtest.Reversed(x, shape[0], shape[1], shape[2]*shape[3])
				}
				gomlxtest.NearAbs(t, name, got[len(names)+i], x, meta.Tolerance.Grad)
			}
		}
	}
}
