// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

const vitdetSet = "vitdet"

type vitdetMeta struct {
	Config struct {
		Side      int     `json:"img_size"`
		Patch     int     `json:"patch_size"`
		Channels  int     `json:"in_chans"`
		Width     int     `json:"embed_dim"`
		Depth     int     `json:"depth"`
		Heads     int     `json:"num_heads"`
		MLPRatio  float64 `json:"mlp_ratio"`
		Epsilon   float64 `json:"layer_norm_eps_blocks"`
		QKVBias   bool    `json:"qkv_bias"`
		Absolute  bool    `json:"use_abs_pos"`
		Relative  bool    `json:"use_rel_pos"`
		Window    int     `json:"window_size"`
		Windowed  []int   `json:"window_block_indexes"`
		Residual  []int   `json:"residual_block_indexes"`
		Trained   int     `json:"pretrain_img_size"`
		ClassRow  bool    `json:"pretrain_use_cls_token"`
		OutLevels struct {
			Channels int `json:"out_channels"`
			Levels   []string
		} `json:"pyramid"`
		Resblock struct{ Channels, Bottleneck int }
	}
	Decay struct {
		Rate   float64 `json:"lr_decay_rate"`
		Layers int     `json:"num_layers"`
		Factor map[string]float64
	} `json:"lr_decay"`
	ProbeScale float64 `json:"eps_probe_scale"`
	Tolerance  struct {
		Abs      float64
		Resized  float64 `json:"relpos_and_pos_resize_abs"`
		Gradient float64 `json:"gradient_relative_to_max_abs_of_tensor"`
		Floor    float64 `json:"gradient_abs_floor"`
	}
}

func vitdet(t testing.TB) (meta vitdetMeta, b Backbone, want reference) {
	fixtures.JSON(t, vitdetSet, "meta.json", &meta)
	m := meta.Config
	b = Backbone{Config: vit.Config{
		ImageRows: m.Side, ImageCols: m.Side, PatchSize: m.Patch, Channels: m.Channels, Width: m.Width, Depth: m.Depth,
		Heads: m.Heads, MLPDim: int(m.MLPRatio * float64(m.Width)), Classes: 1, Epsilon: m.Epsilon,
	}, Window: m.Window, Global: []int{}, Residual: m.Residual, Relative: m.Relative,
		PositionRows: m.Trained / m.Patch, PositionCols: m.Trained / m.Patch}
	if !m.QKVBias {
		b.QKVBias = "none"
	}
	if !m.Absolute {
		b.Position = "none"
	}
	for i := range m.Depth {
		if !slices.Contains(m.Windowed, i) {
			b.Global = append(b.Global, i)
		}
	}
	b, err := b.resolve()
	gomlxtest.NoError(t, err)
	return meta, b, fixtures.Tensors(t, vitdetSet, "tensors.safetensors")
}

// branch is the prefix of the variables of a level's branch, the finest first: "simfp_2." for level "p2".
func (m vitdetMeta) branch(level int) string {
	return "simfp_" + strings.TrimPrefix(m.Config.OutLevels.Levels[level], "p") + "."
}

// backbone maps detectron2's ViT and its pyramid.
func (f *foreign) backbone(b Backbone, meta vitdetMeta) {
	w := f.Get("net.patch_embed.proj.weight")
	p := b.PatchSize * b.PatchSize
	f.Set("backbone/patch/weights", gomlxtest.Reversed(w.Data, b.Width, b.Channels, p), p*b.Channels, b.Width)
	f.Vector("backbone/patch/biases", "net.patch_embed.proj.bias")
	if meta.Config.Absolute {
		positions := f.Get("net.pos_embed").Data
		if meta.Config.ClassRow {
			positions = positions[b.Width:]
		}
		f.Set("backbone/position/grid2d/table", positions, b.PositionRows, b.PositionCols, b.Width)
	}
	for i := range b.Depth {
		from, to := fmt.Sprintf("net.blocks.%d.", i), fmt.Sprintf("backbone/block_%02d/", i)
		f.Norm(to+"norm1", from+"norm1")
		f.Norm(to+"norm2", from+"norm2")
		for j, part := range []string{"query", "key", "value"} {
			bias := ""
			if meta.Config.QKVBias {
				bias = from + "attn.qkv.bias"
			}
			f.Linear(to+"attention/"+part, from+"attn.qkv.weight", bias, j*b.Width, (j+1)*b.Width)
		}
		f.Layer(to+"attention/output", from+"attn.proj")
		for ours, theirs := range map[string]string{"rows": "h", "cols": "w"} {
			if b.Relative {
				x := f.Get(from + "attn.rel_pos_" + theirs)
				f.Set(to+"attention/relative/"+ours, x.Data, x.Shape...)
			}
		}
		f.Layer(to+"mlp/hidden", from+"mlp.fc1")
		f.Layer(to+"mlp/output", from+"mlp.fc2")
		if slices.Contains(b.Residual, i) {
			f.bottleneck(to+"residual", from+"residual.")
		}
	}
	for i, level := range []struct {
		name    string
		lateral int // its number within the branch
	}{{"quadruple", 4}, {"double", 1}, {"same", 0}, {"half", 1}} {
		from, to := meta.branch(i), "pyramid/"+level.name
		f.conv(to+"/lateral", fmt.Sprint(from, level.lateral))
		f.conv(to+"/output", fmt.Sprint(from, level.lateral+1))
		if level.name == "quadruple" || level.name == "double" {
			f.doubling(to+"/up_0", from+"0")
		}
		if level.name == "quadruple" {
			f.Norm(to+"/up_norm", from+"1")
			f.doubling(to+"/up_1", from+"3")
		}
	}
}

// bottleneck maps a ResBottleneckBlock.
func (f *foreign) bottleneck(path, name string) {
	for i := range 3 {
		f.conv(fmt.Sprintf("%s/conv_%d", path, i), fmt.Sprintf("%sconv%d", name, i+1))
		f.Norm(fmt.Sprintf("%s/conv_%d/norm", path, i), fmt.Sprintf("%snorm%d", name, i+1))
	}
}

func testBackbone(t *testing.T, meta vitdetMeta, b Backbone, want reference) {
	f := load(t, vitdetSet, "model.safetensors", "")
	f.backbone(b, meta)
	f.AllUsed("", "resblock.")
	images := channelsLast(want["images_nchw"])
	size := b.at(images.Shape[1], images.Shape[2])
	w := size.windows()

	got := runNamed(t, f.Store, func(scope *model.Scope, in []*Node, out *named) {
		g := in[0].Graph()
		trace := b.trace(scope.In(backboneScope), in[0], true)
		out.add("patch_embed", trace.Patches)
		if meta.Config.Absolute {
			adder, _ := position.As[position.Adder](size.encoder(scope.At(backboneScope)))
			out.add("pos_resized", adder.Encode(g))
		}
		out.add("tokens_after_pos", trace.Tokens)
		x := trace.Tokens
		for i, block := range trace.Blocks {
			add := func(name string, x *Node) { out.addf(x, "block_%d.%s", i, name) }
			add("norm1", block.Norm1)
			add("attn_out", block.Attention)
			add("after_attn", Add(x, block.Attention))
			add("norm2", block.Norm2)
			add("mlp", block.MLP)
			out.addf(block.Output, "block_%d", i)
			x = block.Output

			rows, cols := size.Rows(), size.Cols()
			if !slices.Contains(b.Global, i) {
				rows, cols = w.side, w.side
				add("windows", w.cut(block.Norm1))
				add("last_window_probs", block.Weights)
			}
			logits := Einsum("bqhd,bkhd->bhqk", block.Query, block.Key)
			logits = MulScalar(logits, 1/math.Sqrt(float64(b.Width/b.Heads)))
			add("last_window_logits_qk", logits)
			if b.Relative {
				relative := func(name string) *model.Variable {
					return scope.Store().GetVariable(fmt.Sprintf("%sbackbone/block_%02d/attention/relative/%s", foreignScope, i, name))
				}
				r := relativePositions{rows: rows, cols: cols, rowTable: relative("rows"), colTable: relative("cols")}
				add("rel_h", relativeVectors(r.rowTable.NodeValue(g), rows, rows))
				add("rel_w", relativeVectors(r.colTable.NodeValue(g), cols, cols))
				logits = Add(logits, r.scores(block.Query))
			}
			add("last_window_logits", logits)
			add("logits_rows", logits)
		}
		out.add("last_feat", trace.Output)
		out.add(meta.branch(3)+"0", halve(trace.Output))
		loss := Const(g, float32(0))
		for i, level := range pyramid(scope.In("pyramid"), trace.Output, meta.Config.OutLevels.Channels) {
			out.add("pyramid."+meta.Config.OutLevels.Levels[i], level)
			loss = Add(loss, ReduceAllMean(Mul(level, Square(level))))
		}
		out.add("loss", loss)
		out.add("grad.images_nchw", Gradient(loss, in[0])[0])
		out.gradients(scope.Store(), loss)
	}, gomlxtest.Input(images))

	seen := 0
	for name, x := range want {
		values, ours := got[name]
		if !ours || strings.HasPrefix(name, "grad.") {
			continue
		}
		seen++
		tolerance := meta.Tolerance.Abs
		switch {
		case name == "last_feat" || strings.HasPrefix(name, "pyramid.") || strings.HasPrefix(name, "simfp_"):
			x = channelsLast(x)
		case strings.HasSuffix(name, ".logits_rows"):
			rowsAmong(t, name, values, x, tolerance)
			continue
		case strings.Contains(name, ".last_window_"): // of image 0
			n := len(x.Data)
			last := w.down()*w.across() - 1
			values = values[last*n : (last+1)*n]
		case name == "pos_resized" || strings.Contains(name, ".rel_"):
			tolerance = meta.Tolerance.Resized
		}
		gomlxtest.NearAbs(t, name, values, x.Data, tolerance)
	}
	if least := 20 + b.Depth; seen < least {
		t.Errorf("only %d stages compared, want at least %d", seen, least)
	}
	nearFloor(t, "gradient of the images", got["grad.images_nchw"], channelsLast(want["grad.images_nchw"]).Data,
		meta.Tolerance.Gradient, meta.Tolerance.Floor)
	wanted := load(t, vitdetSet, "tensors.safetensors", "grad.")
	wanted.backbone(b, meta)
	checkGradients(t, got, wanted.Store, meta.Tolerance.Gradient, meta.Tolerance.Floor)
}

// rowsAmong searches for rows [heads, some, keys] among all queries of the first image, got [batch, heads, queries,
// keys].
func rowsAmong(t *testing.T, name string, got []float64, want fixtures.Tensor, tolerance float64) {
	heads, some, keys := want.Shape[0], want.Shape[1], want.Shape[2]
	found := map[int]bool{}
	for row := range some {
		for q := range keys {
			worst := 0.0
			for h := range heads {
				for k := range keys {
					worst = max(worst, math.Abs(got[(h*keys+q)*keys+k]-want.Data[(h*some+row)*keys+k]))
				}
			}
			if worst <= tolerance {
				found[q] = true
				break
			}
		}
	}
	equal(t, name+": rows among ours", len(found), some)
}

// Other sizes of images with the same weights: relative tables that fit, and ones that shrink; positions that need no
// resampling; scales at which a LayerNorm reveals its epsilon.
func testOtherSizes(t *testing.T, meta vitdetMeta, b Backbone, want reference) {
	levels := meta.Config.OutLevels
	for _, run := range []struct {
		prefix, images string
		first          int // images
		scale          float64
	}{
		{"square.", "square.images_nchw", 0, 1},
		{"native.", "native.images_nchw", 0, 1},
		{"eps_probe.", "images_nchw", 1, meta.ProbeScale},
	} {
		f := load(t, vitdetSet, "model.safetensors", "")
		for _, name := range []string{"net.pos_embed", "net.patch_embed.proj.weight", "net.patch_embed.proj.bias",
			meta.branch(2) + "0.weight"} {
			for i := range f.Tensors[name].Data {
				f.Tensors[name].Data[i] *= run.scale
			}
		}
		f.backbone(b, meta)
		images := channelsLast(want[run.images])
		if run.first > 0 {
			images.Data = images.Data[:run.first*len(images.Data)/images.Shape[0]]
			images.Shape[0] = run.first
		}
		got := runNamed(t, f.Store, func(scope *model.Scope, in []*Node, out *named) {
			trace := b.trace(scope.In(backboneScope), in[0], false)
			out.add("last_feat", trace.Output)
			for i, block := range trace.Blocks {
				out.addf(block.Norm1, "block_%d.norm1", i)
			}
			for i, level := range pyramid(scope.In("pyramid"), trace.Output, levels.Channels) {
				out.add("pyramid."+levels.Levels[i], level)
			}
		}, gomlxtest.Input(images))
		for name, x := range want {
			if name, ok := strings.CutPrefix(name, run.prefix); ok && name != "images_nchw" {
				if !strings.HasPrefix(name, "block_") {
					x = channelsLast(x)
				}
				gomlxtest.NearAbs(t, run.prefix+name, got[name], x.Data, meta.Tolerance.Abs)
			}
		}
	}
}

func testRelativeVectors(t *testing.T, meta vitdetMeta, _ Backbone, want reference) {
	cases := 0
	for name, x := range want {
		table, ok := strings.CutSuffix(name, ".out")
		if !ok || !strings.HasPrefix(name, "relpos.") {
			continue
		}
		cases++
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			return []*Node{relativeVectors(in[0], x.Shape[0], x.Shape[1])}
		}, gomlxtest.Input(want[table+".table"]))
		gomlxtest.NearAbs(t, name, got[0], x.Data, meta.Tolerance.Resized)
	}
	if cases < 5 {
		t.Errorf("%d cases, want 5", cases)
	}
}

func testBottleneck(t *testing.T, meta vitdetMeta, _ Backbone, want reference) {
	mapped := func(file, prefix string) *foreign {
		f := load(t, vitdetSet, file, prefix)
		f.bottleneck("residual", "")
		return f
	}
	input := channelsLast(want["resblock.input"])
	f := mapped("model.safetensors", "resblock.")
	got := runNamed(t, f.Store, func(scope *model.Scope, in []*Node, out *named) {
		y := bottleneck(scope.In("residual"), in[0], meta.Config.Resblock.Bottleneck)
		out.add("output", y)
		loss := ReduceAllMean(Mul(y, Square(y)))
		out.add("input", Gradient(loss, in[0])[0])
		out.gradients(scope.Store(), loss)
	}, gomlxtest.Input(input))
	gomlxtest.NearAbs(t, "output", got["output"], channelsLast(want["resblock.output"]).Data, meta.Tolerance.Abs)
	nearFloor(t, "gradient of the input", got["input"], channelsLast(want["resblock.grad.input"]).Data,
		meta.Tolerance.Gradient, meta.Tolerance.Floor)
	checkGradients(t, got, mapped("tensors.safetensors", "resblock.grad.").Store, meta.Tolerance.Gradient,
		meta.Tolerance.Floor)
}

func testLearningRates(t *testing.T, meta vitdetMeta, b Backbone, _ reference) {
	b.Depth = meta.Decay.Layers
	unseen := b.learningRateFactor("/detector/backbone/position/wepe/alpha_scale", meta.Decay.Rate)
	equal(t, "factor of an encoding that pretraining has not seen", unseen, 1)
	for theirs, want := range meta.Decay.Factor {
		ours := strings.NewReplacer("backbone.net.pos_embed", "backbone.position.grid2d.table", "backbone.net.patch_embed",
			"backbone.patch", "backbone.net.blocks.", "backbone.block_", "backbone.simfp_", "pyramid.").Replace(theirs)
		got := b.learningRateFactor("/detector/"+strings.ReplaceAll(ours, ".", "/"), meta.Decay.Rate)
		gomlxtest.NearAbs(t, theirs, []float64{got}, []float64{want}, 1e-12)
	}
}
