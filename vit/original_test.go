// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/vit/position"
)

var run = gomlxtest.RunModel

// original is a set of reference data: a torch ViT, whose tensors it maps into a store, under /vit, and values.
type original struct {
	*gomlxtest.Torch
	originalMeta
	sizes map[string]any // of the model, under the names of several code bases
	t     *testing.T
	want  map[string]fixtures.Tensor
}

// originalMeta is meta.json of a set, which has some of these.
type originalMeta struct {
	Config, Model any        // sizes, in one of them
	Grids         [][2]int   `json:"grids_h_w"`
	Tolerance     tolerances // by what is compared
	Rotated       int        `json:"rotated_layer"`
	Cases         []struct {
		Name       string
		Grid       [2]int `json:"grid_h_w"`
		ClassToken bool   `json:"class_token"`
	}
	Variants []struct {
		Name    string
		Block   int  `json:"generator_dim"`
		PerHead bool `json:"rotary_embedding_per_head"`
	}
	Bias struct {
		Slope  float64    `json:"global_slope"`
		Layers [2]float64 `json:"layer_slopes"`
	} `json:"bias_config"`
	FullSize map[string]struct{ Total, Position int } `json:"full_size_parameters"`
}

type tolerances map[string]float64

// UnmarshalJSON skips notes beside the numbers.
func (n *tolerances) UnmarshalJSON(raw []byte) error {
	all := map[string]any{}
	err := json.Unmarshal(raw, &all)
	*n = tolerances{}
	for name, value := range all {
		if x, ok := value.(float64); ok {
			(*n)[name] = x
		}
	}
	return err
}

func load(t *testing.T, set string) *original {
	f := &original{Torch: gomlxtest.LoadTorch(t, set, "model.safetensors", "/vit/"), t: t,
		want: fixtures.Tensors(t, set, "tensors.safetensors")}
	fixtures.JSON(t, set, "meta.json", &f.originalMeta)
	for _, of := range []any{f.Config, f.Model} {
		if sizes, ok := of.(map[string]any); ok {
			f.sizes = sizes
		}
	}
	return f
}

// size is the sum of some sizes, of which the set has one or none.
func (f *original) size(names ...string) (sum float64) {
	for _, name := range names {
		size, _ := f.sizes[name].(float64)
		sum += size
	}
	return sum
}

// sides are rows and columns, for which the set may have one number.
func (f *original) sides(name string) (rows, cols int) {
	if both, ok := f.sizes[name].([]any); ok {
		return int(both[0].(float64)), int(both[1].(float64))
	}
	return int(f.size(name)), int(f.size(name))
}

// config is the model's configuration, with the options that set makes.
func (f *original) config(position string, set func(*Config)) Config {
	of := func(names ...string) int { return int(f.size(names...)) }
	width := of("embed_dim", "dim")
	c := Config{PatchSize: of("patch_size"), Width: width, Depth: of("depth"), Heads: of("num_heads", "heads"),
		Classes: max(of("num_classes"), 1), Registers: of("reg_tokens"), Epsilon: f.size("layer_norm_eps"),
		MLPDim: int(f.size("mlp_ratio")*float64(width)) + of("ff_mult")*width + of("mlp_dim"), Position: position}
	c.ImageRows, c.ImageCols = f.sides("img_size")
	if set != nil {
		set(&c)
	}
	return gomlxtest.Resolved(c)
}

// conv puts a torch patch convolution [out, channels, p, p] at path as [p·p·channels, out].
func (f *original) conv(path, name string) {
	w := f.Get(name + ".weight")
	out, ch, p := w.Shape[0], w.Shape[1], w.Shape[2]
	f.Set(path+"/weights", gomlxtest.Reversed(w.Data, out, ch, p*p), p*p*ch, out)
	f.Vector(path+"/biases", name+".bias")
}

// blocks maps the blocks "PREFIX.0", …; the other arguments are the names of layers in them. A linear layer without
// biases has none.
func (f *original) blocks(c Config, prefix, norm1, qkv, proj, norm2, fc1, fc2 string) {
	for i := range c.Depth {
		from, to := fmt.Sprintf("%s.%d.", prefix, i), fmt.Sprintf("block_%02d/", i)
		f.Norm(to+"norm1", from+norm1)
		f.Norm(to+"norm2", from+norm2)
		bias := ""
		if name := from + qkv + "bias"; f.Tensors[name].Data != nil {
			bias = name
		}
		for j, part := range []string{"query", "key", "value"} {
			f.Linear(to+"attention/"+part, from+qkv+"weight", bias, j*c.Width, (j+1)*c.Width)
		}
		f.Layer(to+"attention/output", from+proj)
		f.Layer(to+"mlp/hidden", from+fc1)
		f.Layer(to+"mlp/output", from+fc2)
	}
}

// timm maps a model with timm's names, and a head if it has one.
func (f *original) timm(c Config) {
	f.conv("patch", "patch_embed.proj")
	f.Set("class", f.Get("cls_token").Data, 1, c.Width)
	f.blocks(c, "blocks", "norm1", "attn.qkv.", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
	f.Norm("norm", "norm")
	if f.Tensors["head.weight"].Data != nil {
		f.Layer("head", "head")
	}
}

// layerScale maps the factors of the branches.
func (f *original) layerScale(c Config, name string) {
	for block := range c.Depth {
		for i := 1; i <= 2; i++ {
			f.Vector(fmt.Sprintf("block_%02d/scale%d", block, i), fmt.Sprintf(name, block, i))
		}
	}
}

// adds names a node and how exactly it has to equal the tensor of that name.
type adds func(name string, near nearness, x *Node)

type nearness func(t testing.TB, name string, got, want []float64)

func within(tol float64) nearness {
	return func(t testing.TB, name string, got, want []float64) { gomlxtest.NearAbs(t, name, got, want, tol) }
}

func relative(tol float64) nearness {
	return func(t testing.TB, name string, got, want []float64) { gomlxtest.Near(t, name, got, want, tol) }
}

// compare runs a graph and compares what it adds with the set's tensors whose names have the prefix, except for outputs
// without a nearness. Names that begin with "?" need not be in the set.
func (f *original) compare(prefix string, build func(s *model.Scope, in []*Node, add adds), inputs ...string) {
	f.t.Helper()
	var names []string
	var nears []nearness
	var values []any
	for _, name := range inputs {
		values = append(values, gomlxtest.Input(f.want[name]))
	}
	for i, out := range run(f.t, f.Store, func(s *model.Scope, in []*Node) (nodes []*Node) {
		build(s, in, func(name string, near nearness, x *Node) {
			optional, isOptional := strings.CutPrefix(name, "?")
			if _, has := f.want[prefix+optional]; isOptional && !has {
				return
			}
			names, nears, nodes = append(names, optional), append(nears, near), append(nodes, MulScalar(x, 1))
		})
		return nodes
	}, values...) {
		if nears[i] != nil {
			nears[i](f.t, prefix+names[i], out, f.want[prefix+names[i]].Data)
		}
	}
	if names == nil {
		f.t.Errorf("%s: nothing is compared", prefix)
	}
}

// variables returns the variables of the model in a graph.
func (f *original) variables(g *Graph, paths ...string) (nodes []*Node) {
	for _, path := range paths {
		nodes = append(nodes, f.Store.GetVariable("/vit/"+path).NodeValue(g))
	}
	return nodes
}

// gradients returns those of the sum of y times weights.
func gradients(y, weights *Node, of []*Node) []*Node {
	return Gradient(ReduceAllSum(Mul(y, weights)), of...)
}

func TestEveryStageEqualsTimm(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		f := load(t, "timm_vit")
		c := f.config("learned", nil)
		f.timm(c)
		f.Set("position/embedding", f.Get("pos_embed").Data, c.Tokens(), c.Width)
		f.AllUsed("")
		f.compare("", func(s *model.Scope, in []*Node, add adds) {
			trace, near := c.Trace(s.In("vit"), in[0], true), within(5e-5)
			add("patch_embed", near, trace.Patches)
			add("tokens_after_pos", near, trace.Tokens)
			for i, b := range trace.Blocks {
				add(fmt.Sprintf("block_%d", i), near, b.Output)
			}
			b := trace.Blocks[0]
			flat := func(x *Node) *Node { return Reshape(x, b.Norm1.Shape().Dimensions...) }
			for name, x := range map[string]*Node{"norm1": b.Norm1, "attn": b.Attention, "norm2": b.Norm2,
				"qkv":     Concatenate([]*Node{flat(b.Query), flat(b.Key), flat(b.Value)}, -1),
				"mlp_fc1": b.Hidden, "mlp_act": b.Activated, "mlp": b.MLP} {
				add("block_0."+name, near, x)
			}
			add("final_norm", near, trace.Encoded)
			add("pre_logits", near, trace.Pooled)
			add("logits", near, trace.Logits)
		}, "images_nhwc")
	})
}

// releasedPaths are the variables of the WePE release's ViT whose gradients the set may have.
var releasedPaths = map[string]string{
	"cls_token": "class", "patch_embed.bias": "patch/biases", "head.bias": "head/biases",
	"pos_embedding":                    "position/embedding",
	"pos_encoding.alpha_learn":         "position/wepe/omega3_raw",
	"pos_encoding.log_alpha_scale":     "position/wepe/alpha_scale_raw",
	"pos_encoding.pos_scale":           "position/wepe/beta_pos",
	"pos_encoding.cls_pos_embedding":   "position/wepe/prefix",
	"pos_encoding.projection.0.weight": "position/wepe/projection/dense/weights",
	"pos_encoding.projection.0.bias":   "position/wepe/projection/dense/biases",
	"pos_encoding.projection.1.weight": "position/wepe/projection/layer_normalization/gain",
	"pos_encoding.projection.1.bias":   "position/wepe/projection/layer_normalization/offset",
}

func TestEveryStageGradientAndCountEqualsTheReleasedViT(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		testReleasedViT(t, "wepe", "wepe")
		testReleasedViT(t, "ape", "learned")
	})
}

func testReleasedViT(t *testing.T, variant, label string) {
	f, p := load(t, "official_vit_ti"), variant+"."
	c := f.config(label, func(c *Config) { c.PatchNorm, c.Epsilon = true, 1e-5 })
	f.conv("patch", p+"patch_embed")
	f.Norm("patch/norm", p+"patch_norm")
	f.Set("class", f.Get(p+"cls_token").Data, 1, c.Width)
	f.blocks(c, p+"blocks", "norm1", "attn.in_proj_", "attn.out_proj", "norm2", "mlp.0", "mlp.3")
	f.Norm("norm", p+"norm")
	f.Layer("head", p+"head")
	if variant == "ape" {
		f.Set("position/embedding", f.Get(p+"pos_embedding").Data, c.Tokens(), c.Width)
	} else {
		f.Store.SetParam("/wepe_mode", "release")
		for _, scalar := range []string{"alpha_learn", "log_alpha_scale", "pos_scale"} {
			name := "pos_encoding." + scalar
			f.Set(releasedPaths[name], f.Get(p+name).Data)
		}
		f.Set("position/wepe/prefix", f.Get(p+"pos_encoding.cls_pos_embedding").Data, 1, c.Width)
		f.Layer("position/wepe/projection/dense", p+"pos_encoding.projection.0")
		f.Norm("position/wepe/projection/layer_normalization", p+"pos_encoding.projection.1")
	}
	f.AllUsed(p)
	f.compare(p, func(s *model.Scope, in []*Node, add adds) {
		trace, near := c.Trace(s.In("vit"), in[0], false), relative(1e-5)
		add("patch_norm", near, trace.Patches)
		add("tokens_in", near, trace.Tokens)
		for i, b := range trace.Blocks {
			add(fmt.Sprintf("blocks.%d.attn", i), near, b.Attention)
			add(fmt.Sprintf("blocks.%d", i), near, b.Output)
		}
		add("norm", near, trace.Encoded)
		add("logits", near, trace.Logits)
		for name := range f.want {
			if grad, ok := strings.CutPrefix(name, p+"grad."); ok {
				x := gradients(trace.Logits, in[1], f.variables(in[0].Graph(), releasedPaths[grad]))[0]
				if strings.HasSuffix(grad, ".0.weight") { // torch's Linear is [out, in], ours [in, out]
					x = Transpose(x, 0, 1)
				}
				add("grad."+grad, relative(1e-4), x)
			}
		}
	}, "images_nhwc", "upstream")

	// The README's full size: images of 224, patches of 16, width 192, depth 12, 3 heads, 100 classes.
	full := gomlxtest.Resolved(Config{ImageRows: 224, ImageCols: 224, PatchSize: 16, Width: 192, Depth: 12, Heads: 3,
		Classes: 100, PatchNorm: true, Position: label})
	without := full
	without.Position = "none"
	want := f.FullSize[variant]
	is.Equal(t, "parameters", full.Parameters(), want.Total)
	is.Equal(t, "parameters of the positions", full.Parameters()-without.Parameters(), want.Position)
}

// attended is the attention of one block without the norm before it, as in the originals' module.
func attended(c Config, scope *model.Scope, x *Node, rotary position.Rotator, block int) *Node {
	t, hooks := BlockTrace{Norm1: x}, placement{Encoder: rotary}.hooks(c, block)
	c.attention(scope.At("block_%02d", block), hooks, false, &t)
	return t.Attention
}

// angles returns cosine and sine of the rotation of neighbouring channels in a block, [heads, patches or tokens,
// headDim/2]: those of what becomes of the vectors (1, 0).
func angles(c Config, r position.Rotator, g *Graph, block, heads, first int) (cos, sin *Node) {
	n := c.headDim() / 2
	ones := make([]float32, c.Tokens()*c.Width)
	for i := range ones {
		ones[i] = float32((i + 1) % 2)
	}
	q := Reshape(Const(g, ones), 1, c.Tokens(), c.Heads, 2*n)
	q, _ = r.Block(block).EncodeQK(q, q, nil, 1)
	q = kernel.Crop(kernel.Crop(Reshape(q, c.Tokens(), c.Heads, n, 2), 1, 0, heads), 0, first, c.Tokens())
	of := func(i int) *Node { return Transpose(Reshape(kernel.Crop(q, 3, i, i+1), -1, heads, n), 0, 1) }
	return of(0), of(1)
}

// turned rotates q and k [batch, heads, tokens, headDim].
func turned(r position.Rotator, block int, q, k *Node) (*Node, *Node) {
	q, k = r.Block(block).EncodeQK(Transpose(q, 1, 2), Transpose(k, 1, 2), nil, 1)
	return Transpose(q, 1, 2), Transpose(k, 1, 2)
}

func TestEveryStageEqualsRopeViT(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		testRopeViT(t, "rope_axial", "rope-axial")
		testRopeViT(t, "rope_mixed", "rope-mixed")
	})
}

func testRopeViT(t *testing.T, set, label string) {
	f := load(t, set)
	c := f.config(label, func(c *Config) { c.LayerScale = 1 })
	f.Store.SetParam("/"+position.ParamRopeTheta, f.size("rope_theta"))
	f.timm(c)
	f.layerScale(c, "blocks.%d.gamma_%d")
	heads := 1 // all heads and blocks alike
	if label == "rope-mixed" {
		freqs, n := f.Get("freqs"), c.Width/2 // [x|y, block, heads·headDim/2]
		for block := range c.Depth {
			both := slices.Concat(freqs.Data[block*n:(block+1)*n], freqs.Data[(c.Depth+block)*n:(c.Depth+block+1)*n])
			f.Set(fmt.Sprintf("position/rope_mixed/block_%02d/frequencies", block), both, 2, c.Heads, c.headDim()/2)
		}
		heads = c.Heads
	}
	f.AllUsed("")
	near, turning := within(f.Tolerance["abs"]), within(f.Tolerance["angles_abs"])
	for _, grid := range f.Grids {
		c := sized(c, grid[0], grid[1])
		p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
		f.compare(p, func(s *model.Scope, in []*Node, add adds) {
			scope := s.In("vit")
			rotary := acting[position.Rotator](c, scope)
			q, k := turned(rotary, f.Rotated, in[0], in[1])
			add("q_rot", turning, q)
			add("k_rot", turning, k)
			add("attn_out", near, attended(c, s.Shared("vit"), in[2], rotary, f.Rotated))
			var coss, sins []*Node // [blocks and heads where they differ, patches, headDim/2]
			for block := range c.Depth {
				cos, sin := angles(c, rotary, in[0].Graph(), block, heads, c.Prefix())
				if coss, sins = append(coss, cos), append(sins, sin); heads == 1 {
					break
				}
			}
			add("angle_cos", turning, Concatenate(coss, 0))
			add("angle_sin", turning, Concatenate(sins, 0))
			scope = s.Shared("vit")
			hooks := placement{Encoder: rotary}.hooks(c, f.Rotated)
			add("block_out", near, c.Block(scope.At("block_%02d", f.Rotated), in[2], hooks, f.Rotated, false).Output)
			trace := c.Trace(scope, in[3], false)
			for i, b := range trace.Blocks {
				add(fmt.Sprintf("model.block_%d", i), near, b.Output)
			}
			add("model.logits", near, trace.Logits)
		}, p+"q", p+"k", p+"attn_in", p+"images_nhwc")
	}
}

func TestEveryCaseEqualsVisionLLaMA(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		f := load(t, "as2drope")
		f.Store.SetParams(map[string]any{"rope_theta": f.size("theta"), "as2drope_base_rows": int(f.size("base_grid"))})
		width := int(f.size("dim"))
		for i, name := range []string{"query", "key", "value"} {
			f.Linear("block_00/attention/"+name, "qkv.weight", "qkv.bias", i*width, (i+1)*width)
		}
		f.Layer("block_00/attention/output", "proj")
		near := within(f.Tolerance["abs"])
		for _, test := range f.Cases {
			c := f.config("as2drope", func(c *Config) {
				c.ImageRows, c.ImageCols, c.PatchSize, c.Depth = test.Grid[0], test.Grid[1], 1, 1
				c.Pool, c.ClassToken = poolMean, test.ClassToken
			})
			p := test.Name + "."
			f.compare(p, func(s *model.Scope, in []*Node, add adds) {
				rotary := acting[position.Rotator](c, s.In("vit"))
				q, k := rotary.Block(0).EncodeQK(in[0], in[1], nil, 1)
				cos, sin := angles(c, rotary, in[0].Graph(), 0, 1, 0)
				add("q_rot", near, q)
				add("k_rot", near, k)
				add("cos", near, cos)
				add("sin", near, sin)
				add("attn_out", near, attended(c, s.Shared("vit"), in[2], rotary, 0))
			}, p+"q", p+"k", p+"attn_in")
		}
	})
}

// triangles returns the numbers above the diagonals of a layer of [axes, layers, blocks, g, g], as
// [g(g-1)/2, axes, blocks], and their dimensions.
func triangles(raw fixtures.Tensor, layer int) (flat []float64, dims []int) {
	axes, layers, blocks, g := raw.Shape[0], raw.Shape[1], raw.Shape[2], raw.Shape[3]
	for i := range g {
		for j := i + 1; j < g; j++ {
			for axis := range axes {
				for block := range blocks {
					flat = append(flat, raw.Data[((axis*layers+layer)*blocks+block)*g*g+i*g+j])
				}
			}
		}
	}
	return flat, []int{g * (g - 1) / 2, axes, blocks}
}

// matrices returns the matrices that rotate each block of size channels of a token, [tokens, blocks, size, size]: what
// becomes of the unit vectors is their columns.
func matrices(c Config, r position.Rotator, g *Graph, layer, size int) *Node {
	var columns []*Node
	for channel := range size {
		ones := make([]float32, c.Tokens()*c.Width)
		for at := channel; at < len(ones); at += size {
			ones[at] = 1
		}
		q := Reshape(Const(g, ones), 1, c.Tokens(), c.Heads, c.headDim())
		q, _ = r.Block(layer).EncodeQK(q, q, nil, 1)
		columns = append(columns, Reshape(q, c.Tokens(), -1, size))
	}
	return Stack(columns, -1)
}

func TestLieREEqualsTheOriginal(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		meta := load(t, "liere")
		c, trained := meta.config("liere", func(c *Config) { c.QKVBias = "none" }), meta.Grids[0]
		near, turning := within(meta.Tolerance["others_abs"]), within(meta.Tolerance["q_rot_abs"])
		for _, variant := range meta.Variants {
			if !variant.PerHead {
				continue // not in this library
			}
			f := load(t, "liere")
			f.Linear("patch", "to_patch_embedding.1.weight", "to_patch_embedding.1.bias", 0, c.Width)
			f.Set("class", f.Get("cls_token").Data, 1, c.Width)
			f.blocks(c, "transformer.layers", "0.norm", "0.fn.to_qkv.", "0.fn.to_out.0", "1.norm", "1.fn.net.0", "1.fn.net.3")
			f.Norm("norm", "mlp_head.0")
			f.Layer("head", "mlp_head.1")
			for i := range c.Depth {
				flat, dims := triangles(f.want[variant.Name+".generator_raw_params"], i)
				f.Set(fmt.Sprintf("position/liere/block_%02d/generators", i), flat, dims...)
			}
			f.Store.SetParams(map[string]any{position.ParamLiereBlock: variant.Block, "liere_trained_rows": trained[0],
				"liere_trained_cols": trained[1]})
			for _, grid := range meta.Grids {
				c, last := sized(c, grid[0], grid[1]), c.Depth-1
				p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
				f.compare(variant.Name+"."+p, func(s *model.Scope, in []*Node, add adds) {
					rotary := acting[position.Rotator](c, s.In("vit"))
					q, k := turned(rotary, last, in[0], in[1])
					add("q_rot", turning, q)
					add("k_rot", turning, k)
					add("attn_out", near, attended(c, s.Shared("vit"), in[2], rotary, last))
					held := f.want[variant.Name+"."+p+"rotations"].Shape[1] // the last layers
					var layers []*Node
					for layer := c.Depth - held; layer < c.Depth; layer++ {
						layers = append(layers, matrices(c, rotary, in[0].Graph(), layer, variant.Block))
					}
					add("rotations", within(f.Tolerance["rotations_abs"]), Stack(layers, 1))
				}, p+"q", p+"k", p+"attn_in")
			}
			f.want[variant.Name+".model.patch_embed"] = f.want["model.patch_embed"]
			f.compare(variant.Name+".model.", func(s *model.Scope, in []*Node, add adds) {
				trace := c.Trace(s.In("vit"), in[0], false)
				add("patch_embed", near, trace.Patches)
				add("logits_per_layer", near, trace.Logits)
			}, "model.images_nhwc")
		}
	})
}

func TestFactorizedEqualsNaFlexViT(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		f := load(t, "factorized_pos")
		rows, cols := f.sides("pos_embed_grid_size")
		width, tolerance := int(f.size("embed_dim")), f.Tolerance
		f.Set("position/factorized/rows", f.Get("pos_embed_y").Data, rows, width)
		f.Set("position/factorized/cols", f.Get("pos_embed_x").Data, cols, width)
		f.Set("class", f.Get("cls_token").Data, 1, width)
		f.Set("registers", f.Get("reg_token").Data, int(f.size("reg_tokens")), width)
		f.Layer("patch", "proj") // of pixels row by row, channels last
		f.AllUsed("")
		f.Store.SetParams(map[string]any{"factorized_rows": rows, "factorized_cols": cols})
		for _, grid := range f.Grids {
			c := sized(f.config("factorized", func(c *Config) { c.Depth, c.Heads, c.PatchPositions = 1, 1, true }),
				grid[0], grid[1])
			p := fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
			f.compare(p+"stretch.", func(s *model.Scope, in []*Node, add adds) {
				rows := acting[position.Adder](c, s.In("vit")).Encode(in[0].Graph())
				trace := c.Trace(s.Shared("vit"), in[1], false)
				add("pos_out", within(tolerance["pos_abs"]), rows)
				add("tokens_out", within(tolerance["tokens_abs"]), trace.Tokens)
				of := gradients(rows, in[0], f.variables(in[0].Graph(), "position/factorized/rows", "position/factorized/cols"))
				add("grad_out.pos_embed_y", within(tolerance["grad_abs"]), of[0])
				add("grad_out.pos_embed_x", within(tolerance["grad_abs"]), of[1])
				add("", nil, trace.Logits)
			}, p+"grad_in.tokens", p+"images_nhwc")
		}
	})
}

// On every grid: the tokens after the first block and its convolution, the logits, and the convolution's gradients.
func TestCPEEqualsTimm(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		f := load(t, "cpe")
		if f.size("cpe_blocks") != 1 {
			t.Skip("a form that is not in this library")
		}
		c := f.config("cpe", nil)
		f.timm(c)
		f.Set("registers", f.Get("reg_token").Data, c.Registers, c.Width)
		f.Set("position/cpe/block_00/kernel", gomlxtest.Reversed(f.Get("blocks.0.cpe.weight").Data, c.Width, 1, 9), 3, 3,
			c.Width)
		f.Vector("position/cpe/block_00/bias", "blocks.0.cpe.bias")
		f.AllUsed("")
		for _, grid := range f.Grids {
			c, p := sized(c, grid[0], grid[1]), fmt.Sprintf("grid%dx%d.", grid[0], grid[1])
			f.compare(p, func(s *model.Scope, in []*Node, add adds) {
				trace := c.Trace(s.In("vit"), in[0], false)
				add("block_0", within(f.Tolerance["abs"]), trace.Blocks[0].Output)
				add("logits", within(f.Tolerance["abs"]), trace.Logits)
				of := Gradient(ReduceAllSum(Square(trace.Logits)),
					f.variables(in[0].Graph(), "position/cpe/block_00/kernel", "position/cpe/block_00/bias")...)
				add("grad.weight", relative(f.Tolerance["grad_rel"]), TransposeAllAxes(of[0], 2, 0, 1))
				add("grad.bias", relative(f.Tolerance["grad_rel"]), of[1])
			}, p+"images_nhwc")
		}
	})
}

// CROMA's model is ours, except that its norms are inside the branches, ours before them.
func TestEveryStageAndGradientEqualsCROMA(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		f := load(t, "alibi2d")
		c := f.config("alibi2d", func(c *Config) { c.Pool, c.QKVBias = poolMean, "none" })
		patch, p := f.Get("linear_input.weight"), c.PatchSize // [width, (channel, row, column)], as a convolution has it
		patch.Shape = []int{c.Width, len(patch.Data) / (c.Width * p * p), p, p}
		f.Tensors["conv.weight"], f.Tensors["conv.bias"] = patch, f.Get("linear_input.bias")
		f.conv("patch", "conv")
		f.blocks(c, "transformer.layers", "0.input_norm", "0.to_qkv.", "0.to_out", "1.input_norm", "1.net.0", "1.net.3")
		f.Norm("norm", "transformer.norm_out")
		f.AllUsed("")
		near := within(f.Tolerance["model_abs"])
		for form, images := range f.want {
			p, ok := strings.CutSuffix(form, "images_nhwc")
			if !ok {
				continue
			}
			c, upstream := c, p+"grad_in.final"
			c.ImageRows, c.ImageCols = images.Shape[1], images.Shape[2]
			if _, trains := f.want[upstream]; !trains {
				upstream = p + "output"
			}
			f.compare(p, func(s *model.Scope, in []*Node, add adds) {
				trace, g := c.Trace(s.In("vit"), in[0], false), in[0].Graph()
				add("?bias_out", near, acting[position.Biaser](c, s.Shared("vit")).Bias(g, 0))
				add("?patch_embed", near, trace.Patches)
				add("output", near, trace.Encoded)
				for i, b := range trace.Blocks {
					add(fmt.Sprintf("?layer_%d.attn_out", i), near, b.Attention)
					add(fmt.Sprintf("?layer_%d.ffn_out", i), near, b.MLP)
				}
				const attention = "block_00/attention/"
				of := gradients(trace.Encoded, in[1],
					f.variables(g, attention+"query/weights", attention+"key/weights", attention+"value/weights"))
				add("?grad_out.to_qkv", within(f.Tolerance["grad_abs"]), Transpose(Concatenate(of, 1), 0, 1)) // [out, in]
				add("", nil, trace.Logits)
			}, form, upstream)
		}
	})
}

// LookHere's model is ours except for its head, which has a hidden layer of tanh before the logits.
func TestEveryStageAndGradientEqualsLookHere(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		f := load(t, "lookhere")
		if f.Bias.Slope != 1 || f.Bias.Layers != [2]float64{1.5, 0.5} {
			t.Skip("a form that is not in this library")
		}
		f.Store.SetParam("/"+position.ParamLookHereViews, f.sizes["head_directions"])
		c := f.config("lookhere", func(c *Config) { c.LayerScale = 1 })
		f.timm(c)
		f.layerScale(c, "blocks.%d.ls%d.gamma")
		f.Layer("fc1", "head.fc1")
		f.Layer("fc2", "head.fc2")
		f.AllUsed("")
		near := within(f.Tolerance["model_abs"])
		for p, size := range map[string]string{"model.": "img_size", "model_extrapolated.": "extrapolated_img_size"} {
			c.ImageRows, c.ImageCols = f.sides(size)
			f.compare(p, func(s *model.Scope, in []*Node, add adds) {
				g, trace := in[0].Graph(), c.Trace(s.In("vit"), in[0], false)
				dense := func(name string, x *Node) *Node {
					of := f.variables(g, name+"/weights", name+"/biases")
					return Add(MatMul(x, of[0]), InsertAxes(of[1], 0))
				}
				logits := dense("fc2", Tanh(dense("fc1", trace.Pooled)))
				add("?bias_map_features", near, acting[position.Biaser](c, s.Shared("vit")).Bias(g, 0))
				add("?patch_embed", near, trace.Patches)
				add("final_norm_output", near, trace.Encoded)
				add("logits", near, logits)
				for i, b := range trace.Blocks {
					add(fmt.Sprintf("?block_%d.attn_out", i), near, b.Attention)
					add(fmt.Sprintf("?block_%d_output", i), near, b.Output)
				}
				const attention = "block_00/attention/"
				of := gradients(logits, Reshape(kernel.Crop(in[1], 0, 0, logits.Shape().Dim(0)), logits.Shape().Dimensions...),
					f.variables(g, "class", "patch/weights", attention+"query/biases", attention+"key/biases",
						attention+"value/biases", attention+"output/weights", "block_01/scale1"))
				p := c.PatchSize
				for name, x := range map[string]*Node{"cls_token": of[0], "blocks.0.attn.qkv.bias": Concatenate(of[2:5], 0),
					"patch_embed.proj.weight":   TransposeAllAxes(Reshape(of[1], p, p, c.Channels, c.Width), 3, 2, 0, 1),
					"blocks.0.attn.proj.weight": Transpose(of[5], 0, 1), "blocks.1.ls1.gamma": of[6]} {
					add("?grad_out."+name, within(f.Tolerance["grad_abs"]), x)
				}
				add("", nil, trace.Logits)
			}, p+"images_nhwc", "model.grad_in.logits")
		}
	})
}
