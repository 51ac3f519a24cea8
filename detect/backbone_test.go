// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// small is a backbone of two window blocks, on rows × cols patches of 2×2 pixels.
func small(position string, rows, cols, window int) Backbone {
	b, _ := Backbone{Config: vit.Config{
		ImageRows: 2 * rows, ImageCols: 2 * cols, PatchSize: 2, Channels: 1, Width: 40, Depth: 2, Heads: 5, MLPDim: 24,
		Classes: 1, Position: position,
	}, Window: window, Global: []int{}}.resolve()
	return b
}

// output runs a backbone with random weights, large enough for attention to be far from uniform.
func output(t *testing.T, b Backbone, images *tensors.Tensor) []float64 {
	t.Helper()
	b, err := b.resolve()
	gomlxtest.NoError(t, err)
	store := gomlxtest.Seeded(t, 5)
	build := func(s *model.Scope, in []*Node) []*Node {
		return []*Node{b.trace(s.At(backboneScope), in[0], false).Output}
	}
	gomlxtest.Build(t, store, build, images)
	return gomlxtest.RunModel(t, gomlxtest.Stirred(t, store), build, images)[0]
}

func TestAWindowOverTheWholeImageIsGlobalAttentionInEveryEncoding(t *testing.T) {
	images := gomlxtest.Noise(3, 8, 8, 1)
	for _, name := range gomlxtest.Encodings(append(position.Names(), "grid2d+rope-axial")) {
		windowed, global := small(name, 4, 4, 4), small(name, 4, 4, 4)
		global.Global = []int{0, 1}
		for _, relative := range gomlxtest.InTurn(1, false, true) {
			windowed.Relative, global.Relative = relative, relative
			gomlxtest.Near(t, name, output(t, windowed, images), output(t, global, images), 1e-5)
		}
	}
}

// These encodings depend only on differences of positions in patches, so a window is like a separate image.
func TestAWindowDoesNotDependOnOtherWindows(t *testing.T) {
	const rows, cols, side = 6, 9, 3
	whole := gomlxtest.Noise(1, 2*rows, 2*cols, 1)
	pixels := gomlxtest.Values(t, whole)
	for _, position := range []string{"none", "rope-axial", "rope-mixed", "rope-mixed-qkv", "alibi2d", "lookhere"} {
		got := output(t, small(position, rows, cols, side), whole)
		var crops []float32
		var want []float64
		for top := 0; top < rows; top += side {
			for left := 0; left < cols; left += side {
				for row := range 2 * side {
					for col := range 2 * side {
						crops = append(crops, float32(pixels[(2*top+row)*2*cols+2*left+col]))
					}
				}
				for row := range side {
					at := ((top+row)*cols + left) * 40
					want = append(want, got[at:at+side*40]...)
				}
			}
		}
		alone := tensors.FromFlatDataAndDimensions(crops, rows*cols/side/side, 2*side, 2*side, 1)
		gomlxtest.Near(t, position, output(t, small(position, side, side, side), alone), want, 1e-5)
	}
}

// On a grid of 5×7 in windows of 3 every encoding must handle tokens without a position.
func TestEveryEncodingTakesWindowsBeyondTheImageAndOtherSizes(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, name := range gomlxtest.Encodings(position.Names()) {
		b := small(name, 5, 7, 3)
		b.Global, b.Relative = []int{1}, true
		for _, size := range [][2]int{{5, 7}, {6, 4}, {2, 3}} { // the last is within one window
			if name == "hybrid" && size != [2]int{5, 7} {
				continue // its table has one grid
			}
			values := output(t, b, gomlxtest.Noise(2, 2*size[0], 2*size[1], 1))
			for _, x := range values {
				if !(x > -1e6 && x < 1e6) {
					t.Fatalf("%s: %g among the outputs", name, x)
				}
			}
		}
	}
}

// Block 0 has four windows of 9 patches, block 1 the whole image of 16.
func TestTheScoresOfRelativeTablesAndOfAnEncodingAreAdded(t *testing.T) {
	for i, dims := range [][]int{{4, 9, 5, 8}, {1, 16, 5, 8}} {
		bias := func(position string, tables bool) []float64 {
			b := small(position, 4, 4, 3)
			b.Global, b.Relative = []int{1}, tables
			build := func(s *model.Scope, in []*Node) []*Node {
				return []*Node{b.hooks(s.In("block"), b, b.encoder(s), i).Bias(in[0])}
			}
			store, q := gomlxtest.Seeded(t, 5), gomlxtest.Noise(dims...)
			gomlxtest.Build(t, store, build, q)
			return gomlxtest.RunModel(t, gomlxtest.Stirred(t, store), build, q)[0]
		}
		var want []float64
		encoding := bias("alibi2d", false)
		for k, x := range bias("none", true) {
			want = append(want, x+encoding[k])
		}
		gomlxtest.Near(t, "scores", bias("alibi2d", true), want, 1e-6)
	}
}

// Of depths 12, 24 and 32 in ViTDet; of other depths the last of each quarter, ⌊i·depth/4⌋ - 1.
func TestBackbone_GlobalBlocks(t *testing.T) {
	for depth, want := range map[int][]int{32: {7, 15, 23, 31}, 1: {0}, 2: {0, 1}, 4: {0, 1, 2, 3}, 6: {0, 2, 3, 5}} {
		c := vit.Config{ImageRows: 8, ImageCols: 8, PatchSize: 2, Width: 8, Depth: depth, Heads: 2, MLPDim: 8, Classes: 1}
		if got, err := (Backbone{Config: c}).resolve(); err != nil || !slices.Equal(got.Global, want) {
			t.Errorf("of %d blocks: %v, %v, want %v", depth, got.Global, err, want)
		}
	}
}

// A box 37 cells long in a map of three rows takes 19 samples along a bin, not the two of three rows.
func TestALongBoxIsReadWithAsManySamplesAsItsCells(t *testing.T) {
	l := levels{canonicalSize: 224, canonicalLevel: 4, first: 2, last: 2}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		align := roiAlign{rows: 2, cols: 2, stride: 4, most: 40}
		return []*Node{l.pool(in[:1], []float64{4}, in[1], 2, 0), align.bins(in[0], in[1], nil)}
	}, gomlxtest.Noise(1, 3, 40, 2), boxTensor([]rect{{3, 1, 151, 11}}, 1, 1))
	gomlxtest.NearAbs(t, "bins", got[0], got[1], 1e-6)
}

// torch's kaiming_uniform_(a=√5), for the pyramid, has the deviation 1/√(3·fan-in); the fan-in of a ConvTranspose2d is
// of its output. fvcore's c2_msra_fill is normal with √(2/fan_out), its c2_xavier_fill uniform with 1/√fan_in.
// StandardRPNHead and FastRCNNOutputLayers of detectron2 have 0.01, deltas of boxes and the predictor of masks 0.001.
func TestInitialWeights_AreThoseOfDetectron2(t *testing.T) {
	r := tiny()
	c := &r.Detector
	c.Backbone.Residual, c.Backbone.Relative, c.Backbone.Width, c.Channels = []int{0}, true, 60, 50
	c.ROI.Convs, c.ROI.Dense, c.ROI.Masks = []int{24}, []int{40}, []int{28, 20}
	run := tinyRun(t)
	run.Recipe = r
	task := begun(t, run)
	gomlxtest.Build(t, task.detector.store, task.Losses, gomlxtest.Must(task.inputs(0))(t).list()...)
	torch := func(fanIn float64) float64 { return 1 / math.Sqrt(3*fanIn) }
	msra := func(fanOut float64) float64 { return math.Sqrt(2 / fanOut) }
	for path, deviation := range map[string]float64{
		"backbone/block_00/residual/conv_0": msra(30), "backbone/block_00/residual/conv_1": msra(9 * 30),
		"backbone/block_00/residual/conv_2": msra(60),
		"pyramid/quadruple/up_0":            torch(4 * 30), "pyramid/quadruple/up_1": torch(4 * 15),
		"pyramid/double/up_0":       torch(4 * 30),
		"pyramid/quadruple/lateral": torch(15), "pyramid/double/lateral": torch(30), "pyramid/same/lateral": torch(60),
		"pyramid/half/lateral": torch(60), "pyramid/quadruple/output": torch(9 * 50), "pyramid/half/output": torch(9 * 50),
		"rpn/conv_0": 0.01, "rpn/objects": 0.01, "rpn/deltas": 0.01, "roi/stage_0/conv_0": msra(9 * 24),
		"roi/stage_0/dense_0": 1 / math.Sqrt(3*3*24), "roi/stage_0/classes": 0.01, "roi/stage_0/deltas": 0.001,
		"roi/mask/conv_0": msra(9 * 28), "roi/mask/conv_1": msra(9 * 20), "roi/mask/double": msra(4 * 20),
		"roi/mask/classes": 0.001,
	} {
		weights := gomlxtest.Values(t, task.detector.store.GetVariable(detectorScope+"/"+path+"/weights").MustValue())
		gomlxtest.Spreads(t, path, weights, deviation)
	}
	offsets := map[string]int{}
	for v := range task.detector.store.IterVariables() {
		path := v.Path()
		if block, table, ok := strings.Cut(path, "/attention/relative/"); ok && strings.HasPrefix(path, detectorScope) {
			offsets[block[len(block)-1:]+table] = v.Shape().Dim(0)
		}
		if strings.HasPrefix(path, detectorScope+"/") && (strings.HasSuffix(path, "/biases") ||
			strings.Contains(path, "/relative/") || strings.HasSuffix(path, "residual/conv_2/norm/gain")) { // identities
			if x := gomlxtest.Values(t, v.MustValue()); slices.Min(x) != 0 || slices.Max(x) != 0 {
				t.Errorf("%s starts from %g to %g", path, slices.Min(x), slices.Max(x))
			}
		}
	}
	// Windows are of 3×3 patches, the image of 4×6.
	is.Equal(t, "offsets of tables", offsets, map[string]int{"0rows": 5, "0cols": 5, "1rows": 7, "1cols": 11})
}

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
	is.Equal(t, name+": rows among ours", len(found), some)
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
	is.Equal(t, "factor of an encoding that pretraining has not seen", unseen, 1)
	for theirs, want := range meta.Decay.Factor {
		ours := strings.NewReplacer("backbone.net.pos_embed", "backbone.position.grid2d.table", "backbone.net.patch_embed",
			"backbone.patch", "backbone.net.blocks.", "backbone.block_", "backbone.simfp_", "pyramid.").Replace(theirs)
		got := b.learningRateFactor("/detector/"+strings.ReplaceAll(ours, ".", "/"), meta.Decay.Rate)
		is.Near(t, theirs, got, want, 1e-12)
	}
}
