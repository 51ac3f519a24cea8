// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package vittest tests position encodings for the properties that this library relies on: finite values and gradients,
// folding, other grids. The encodings of package position pass them, and an encoding added by [position.Register]
// should:
//
//	func TestMyEncoding(t *testing.T) { vittest.Laws(t, "my-encoding") }
package vittest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// Laws checks an encoding, or several joined by "+", in models of different sizes and poolings. The backend is that of
// GOMLX_BACKEND, by default pure Go.
//
//	backbone     the other variables start as in a model without positions
//	seed         one seed gives the same variables
//	variables    Spec.Variables names every variable, Spec.Params every hyperparameter of TrainedGrid
//	grid         on another grid, with TrainedGrid, it has the same variables, unless it has the table of "learned"
//	gradient     every trainable variable has a finite gradient
//	additive     Encode returns [Positions, width], and PreEncode adds the row of each token
//	fold         folded into a table, the model keeps its logits
//	repeated     Repeat returns finite [tokens, width] in every block
//	modulation   factors are [tokens, width], 1 for registers, which do not change the other tokens
//	rotary       registers do not change the other tokens; positions are gathered by index; the type stays
//	bias         Bias returns finite [heads, tokens, tokens] in every block
//	conditional  some block is followed by a finite addition to the patches, of their type; registers get none
//	images       on a grid of its own among others, an image has the logits of the model on that grid
func Laws(t *testing.T, name string) {
	t.Helper()
	encoding := gomlxtest.Must(position.Parse(name))(t)
	l := laws{Encoding: encoding, name: name}
	encoder := l.config().Encoder(gomlxtest.Seeded(t, 3).Scope("/vit"))
	for _, law := range []struct {
		name  string
		holds bool // for this encoding
		check func(*testing.T)
	}{
		{"backbone", true, l.backbone}, {"variables", true, l.variables}, {"grid", !l.Owns(position.TableName), l.grid},
		{"gradient", true, l.gradient}, {"additive", acts[position.Adder](encoder), l.additive}, {"fold", true, l.fold},
		{"repeated", acts[position.Repeater](encoder), l.repeated},
		{"modulation", acts[position.Scaler](encoder), l.modulation}, {"rotary", acts[position.Rotator](encoder), l.rotary},
		{"bias", acts[position.Biaser](encoder), l.bias}, {"conditional", acts[position.Follower](encoder), l.conditional},
		{"images", l.ValidateGrids() == nil, l.images},
	} {
		if law.holds {
			t.Run(law.name, law.check)
		}
	}
}

func acts[T any](e position.Encoder) bool { _, ok := position.As[T](e); return ok }

type laws struct {
	position.Encoding
	name string
}

// config is a small model whose sizes are all different, on 5×3 patches of 2×2 pixels, as wide as the encoding needs.
func (l laws) config() vit.Config {
	c := vit.Config{ImageRows: 10, ImageCols: 6, PatchSize: 2, Depth: 2, Heads: 3, MLPDim: 37, Classes: 11,
		Position: l.name}
	for c.Width = 60; c.Width < 6000; c.Width += c.Heads {
		if fits, err := c.Resolve(); err == nil {
			return fits
		}
	}
	return c
}

// build runs a graph on the model scope of a store.
func build(t *testing.T, store *model.Store, of func(*model.Scope, []*Node) []*Node, inputs ...any) [][]float64 {
	t.Helper()
	return gomlxtest.RunModel(t, store, func(scope *model.Scope, in []*Node) []*Node {
		return of(scope.In("vit"), in)
	}, inputs...)
}

// part is what an encoder of a model does in one place.
func part[T any](c vit.Config, scope *model.Scope) T {
	e, _ := position.As[T](c.Encoder(scope))
	return e
}

func finite(values []float64) bool {
	return !slices.ContainsFunc(values, func(x float64) bool { return math.IsNaN(x - x) })
}

func noise(c vit.Config) *tensors.Tensor {
	return gomlxtest.Noise(2, c.ImageRows, c.ImageCols, c.Channels)
}

func logits(t *testing.T, store *model.Store, c vit.Config) []float64 {
	t.Helper()
	return build(t, store, func(scope *model.Scope, in []*Node) []*Node { return []*Node{c.Logits(scope, in[0])} },
		noise(c))[0]
}

// drawn is a store with the variables of a model, drawn from a seed.
func drawn(t *testing.T, c vit.Config, seed int64) *model.Store {
	t.Helper()
	store := gomlxtest.Seeded(t, seed)
	gomlxtest.Build(t, store, func(scope *model.Scope, in []*Node) []*Node {
		return []*Node{c.Logits(scope.In("vit"), in[0])}
	}, noise(c))
	return store
}

// variables returns the variables of a model drawn from a seed, by path below its scope.
func variables(t *testing.T, c vit.Config, seed int64) map[string][]float64 {
	t.Helper()
	store, out := drawn(t, c, seed), map[string][]float64{}
	for v := range store.IterVariables() {
		if path, ok := strings.CutPrefix(v.Path(), "/vit/"); ok {
			out[path] = gomlxtest.Values(t, v.MustValue())
		}
	}
	return out
}

// stirred is a store with the variables of a model, none of which has its initial value.
func stirred(t *testing.T, c vit.Config) *model.Store {
	t.Helper()
	return gomlxtest.Stirred(t, drawn(t, c, 7))
}

func (l laws) backbone(t *testing.T) {
	c := l.config()
	own, same := variables(t, c, 7), variables(t, c, 7)
	c.Position = "none"
	want := variables(t, c, 7)
	for path, values := range own {
		if !slices.Equal(values, same[path]) {
			t.Errorf("%s differs at equal seeds", path)
		}
		if !strings.HasPrefix(path, "position/") && !slices.Equal(values, want[path]) {
			t.Errorf("%s differs from that of a model without positions", path)
		}
		delete(want, path)
	}
	for path := range want {
		t.Errorf("the model lacks %s", path)
	}
}

func (l laws) variables(t *testing.T) {
	c := l.config()
	for path := range variables(t, c, 7) {
		if own, ok := strings.CutPrefix(path, "position/"); ok && !l.Owns(own) {
			t.Errorf("Spec.Variables does not name %s", own)
		}
	}
	for name := range c.TrainedGrid() {
		if !slices.Contains(l.Params(), name) {
			t.Errorf("Spec.Params does not name %s", name)
		}
	}
}

func (l laws) grid(t *testing.T) {
	c := l.config()
	store := drawn(t, c, 5)
	known := store.NumVariables()
	for name, value := range c.TrainedGrid() {
		store.SetParam("/"+name, value)
	}
	c.ImageRows, c.ImageCols = 7*c.PatchSize, 11*c.PatchSize
	logits(t, store, c) // panics on a variable of another shape
	if store.NumVariables() != known {
		t.Errorf("%d variables on another grid, %d before", store.NumVariables(), known)
	}
}

func (l laws) gradient(t *testing.T) {
	c, names := l.config(), []string{}
	c.Pool = "class+mean" // with a class token alone the last block does not use the queries of patches
	store := stirred(t, c)
	gradients := build(t, store, func(scope *model.Scope, in []*Node) []*Node {
		var of []*Node
		loss := ReduceAllSum(Square(c.Logits(scope, in[0])))
		for v := range store.IterVariables() {
			if v.Trainable {
				names, of = append(names, v.Path()), append(of, v.NodeValue(loss.Graph()))
			}
		}
		return Gradient(loss, of...)
	}, noise(c))
	for i, gradient := range gradients {
		if !finite(gradient) {
			t.Errorf("the gradient of %s is not finite", names[i])
		}
		if !slices.ContainsFunc(gradient, func(x float64) bool { return x != 0 }) {
			t.Errorf("the gradient of %s is zero everywhere", names[i])
		}
	}
}

func (l laws) additive(t *testing.T) {
	c := l.config()
	const batch = 2
	indices := []int64{15, 0, 3, 3, 7}
	zeros := tensors.FromFlatDataAndDimensions(make([]float32, batch*len(indices)*c.Width), batch, len(indices), c.Width)
	got := build(t, stirred(t, c), func(scope *model.Scope, in []*Node) []*Node {
		encoder := part[position.Adder](c, scope)
		// Times one: a variable that is itself an output comes back wrong from the onnx backend.
		return []*Node{MulScalar(encoder.Encode(in[0].Graph()), 1), encoder.PreEncode(in[0], in[1], 1)}
	}, zeros, indices)
	if len(got[0]) != c.Positions()*c.Width {
		t.Fatalf("Encode returns %d numbers, want [%d, %d]", len(got[0]), c.Positions(), c.Width)
	}
	for k := range batch * len(indices) {
		row := int(indices[k%len(indices)]) * c.Width
		if !slices.Equal(got[1][k*c.Width:(k+1)*c.Width], got[0][row:row+c.Width]) {
			t.Errorf("token %d does not get row %d", k, indices[k%len(indices)])
		}
	}
}

func (l laws) fold(t *testing.T) {
	c := l.config()
	store := stirred(t, c)
	folded, after, err := c.Fold(gomlxtest.Backend(), store.Scope("/vit"))
	if !l.Folds() && l.Folded() == "" {
		if err == nil {
			t.Error("an encoding that acts inside the blocks is folded")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	gomlxtest.Near(t, "logits", logits(t, folded, after), logits(t, store, c), 1e-6)
}

func (l laws) rotary(t *testing.T) {
	c := l.config()
	alike := func(batch, tokens int) *tensors.Tensor { // equal tokens with unequal channels
		flat := make([]float32, batch*tokens*c.Width)
		for i := range flat {
			flat[i] = float32(math.Sin(float64(5*(i%c.Width)+2))) + 0.3
		}
		return tensors.FromFlatDataAndDimensions(flat, batch, tokens, c.Heads, c.Width/c.Heads)
	}
	turned := func(c vit.Config, tokens *tensors.Tensor, indices ...any) (q, k []float64) {
		out := build(t, gomlxtest.Seeded(t, 5), func(scope *model.Scope, in []*Node) []*Node {
			block, at := part[position.Rotator](c, scope).Block(1), append(in, nil)[1]
			half := ConvertDType(in[0], dtypes.BFloat16)
			halfQ, halfK := block.EncodeQK(half, half, at, 1)
			if halfQ.DType() != dtypes.BFloat16 || halfK.DType() != dtypes.BFloat16 {
				t.Errorf("bfloat16 comes out as %s and %s", halfQ.DType(), halfK.DType())
			}
			exact, _ := block.EncodeQK(ConvertDType(half, dtypes.Float32), in[0], at, -3)
			q, k := block.EncodeQK(in[0], MulScalar(in[0], 0.5), at, 1)
			return []*Node{q, k, ConvertDType(halfQ, dtypes.Float32), exact}
		}, append([]any{tokens}, indices...)...)
		gomlxtest.Near(t, "bfloat16", out[2], out[3], 1.0/256) // half a unit of the last of 8 bits
		return out[0], out[1]
	}
	q, k := turned(c, alike(1, c.Tokens()))
	for _, indices := range [][][]int64{{{15, 0, 3, 3, 7}}, {{15, 0, 3, 3, 7}, {1, 2, 14, 0, 9}}} { // for each image
		var at any = indices
		if len(indices) == 1 {
			at = indices[0]
		}
		someQ, someK := turned(c, alike(len(indices), 5), at)
		for i, index := range slices.Concat(indices...) {
			to, from := i*c.Width, int(index)*c.Width
			gomlxtest.Near(t, "queries by index", someQ[to:to+c.Width], q[from:from+c.Width], 1e-6)
			gomlxtest.Near(t, "keys by index", someK[to:to+c.Width], k[from:from+c.Width], 1e-6)
		}
	}
	c.Registers = 2
	with, _ := turned(c, alike(1, c.Tokens()))
	still := gomlxtest.Values(t, alike(1, 1))
	for register := range c.Registers {
		if at := (1 + register) * c.Width; !slices.Equal(with[at:at+c.Width], still) {
			t.Errorf("register %d turns", register)
		}
	}
	gomlxtest.NearAbs(t, "tokens beside registers",
		slices.Concat(with[:c.Width], with[(1+c.Registers)*c.Width:]), q, 0)
}

func (l laws) repeated(t *testing.T) {
	c := l.config()
	for block := range c.Depth {
		rows := build(t, gomlxtest.Seeded(t, 5), func(scope *model.Scope, in []*Node) []*Node {
			return []*Node{part[position.Repeater](c, scope).Repeat(in[0].Graph(), block)}
		}, float32(0))[0]
		if len(rows) != c.Tokens()*c.Width || !finite(rows) {
			t.Errorf("block %d: %d numbers, want [%d, %d], all finite", block, len(rows), c.Tokens(), c.Width)
		}
	}
}

func (l laws) modulation(t *testing.T) {
	c := l.config()
	scales := func(c vit.Config) [][]float64 { // of queries, keys or values, [tokens, width]
		return build(t, gomlxtest.Seeded(t, 5), func(scope *model.Scope, in []*Node) []*Node {
			scales := part[position.Scaler](c, scope).Scale(in[0].Graph(), 1)
			return slices.DeleteFunc(scales[:], func(x *Node) bool { return x == nil })
		}, float32(0))
	}
	all := scales(c)
	c.Registers = 2
	with := scales(c)
	if len(all) == 0 || len(with) != len(all) {
		t.Fatalf("%d and %d parts of a block are scaled", len(all), len(with))
	}
	for k := range all {
		if len(all[k]) != (c.Tokens()-c.Registers)*c.Width || slices.ContainsFunc(all[k], math.IsNaN) {
			t.Fatalf("%d factors of part %d, want [%d, %d], all finite", len(all[k]), k, c.Tokens()-c.Registers, c.Width)
		}
		for i, x := range with[k][c.Width : (1+c.Registers)*c.Width] {
			if x != 1 {
				t.Errorf("channel %d of register %d of part %d is scaled by %g", i%c.Width, i/c.Width, k, x)
			}
		}
		gomlxtest.NearAbs(t, "tokens beside registers",
			slices.Concat(with[k][:c.Width], with[k][(1+c.Registers)*c.Width:]), all[k], 0)
	}
}

func (l laws) bias(t *testing.T) {
	c := l.config()
	store := stirred(t, c)
	for block := range c.Depth {
		bias := build(t, store, func(scope *model.Scope, in []*Node) []*Node {
			return []*Node{part[position.Biaser](c, scope).Bias(in[0].Graph(), block)}
		}, float32(0))[0]
		if len(bias) != c.Heads*c.Tokens()*c.Tokens() {
			t.Errorf("block %d: %d numbers, want [%d, %d, %d]", block, len(bias), c.Heads, c.Tokens(), c.Tokens())
		}
		if !finite(bias) {
			t.Errorf("block %d: the bias is not finite", block)
		}
	}
}

func (l laws) conditional(t *testing.T) {
	c := l.config()
	added := 0
	gomlxtest.Build(t, gomlxtest.Seeded(t, 5), func(scope *model.Scope, in []*Node) []*Node {
		encoder := part[position.Follower](c, scope)
		for block := range c.Depth {
			for _, x := range []*Node{in[0], ConvertDType(in[0], dtypes.BFloat16)} {
				if y := encoder.After(x, block); y != nil {
					added++
					if !y.Shape().Equal(x.Shape()) {
						t.Errorf("block %d adds %s to patches %s", block, y.Shape(), x.Shape())
					}
				}
			}
		}
		return in
	}, gomlxtest.Noise(2, c.Rows()*c.Cols(), c.Width))
	if added == 0 {
		t.Error("no block is followed by anything")
	}
	encoded := func(c vit.Config, name string) [][]float64 { // after the first block
		c.Position = name
		return build(t, gomlxtest.Seeded(t, 5), func(scope *model.Scope, in []*Node) []*Node {
			c.Depth = 1
			trace := c.Trace(scope, in[0], false)
			return []*Node{ConvertDType(trace.Blocks[0].Output, dtypes.Float32), trace.Logits}
		}, noise(c))
	}
	c.Registers = 2
	with, without := encoded(c, l.name)[0], encoded(c, "none")[0]
	for i := range with {
		token := i / c.Width % c.Tokens()
		changed := len(l.Encoding) == 1 && token < c.Prefix() && with[i] != without[i]
		if math.IsNaN(with[i]) || math.IsInf(with[i], 0) || changed {
			t.Fatalf("channel %d of token %d is %g, without positions %g", i%c.Width, token, with[i], without[i])
		}
	}
}

func (l laws) images(t *testing.T) {
	c := l.config()
	store := stirred(t, c)
	want, rows, cols := logits(t, store, c), c.Rows(), c.Cols()
	got := build(t, store, func(scope *model.Scope, in []*Node) []*Node {
		patches := Reshape(in[0], 2, rows, c.PatchSize, cols, c.PatchSize*c.Channels)
		strips := Reshape(TransposeAllAxes(patches, 0, 1, 3, 2, 4), 2, -1, c.PatchSize, c.Channels)
		return []*Node{c.NaFlexLogits(scope, vit.NaFlexImages{Strips: strips, Grids: [][2]int{{2, 7}, {rows, cols}},
			Grid: Const(in[0].Graph(), []int64{1, 1})})}
	}, noise(c))[0]
	gomlxtest.Near(t, "logits", got, want, 1e-5)
}
