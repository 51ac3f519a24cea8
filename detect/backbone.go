// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	_ "embed" // the comments of settings
	"errors"
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

//go:embed backbone.go
var backboneCode string

var _ = setting.Describe(backboneCode)

// Backbone is the plain ViT of ViTDet: the blocks of package vit without class token and final norm, most of which
// attend within windows. Its variables have the paths of a vit.Config's, so that pretrained ones fit.
//
// ImageRows and ImageCols are the training size in pixels; a graph accepts any size that divides into patches. For
// other sizes tables are resampled, as with vit.Config.TrainedGrid, and so are the relative positions. Position
// "grid2d", the default, with the bicubic kernel is ViTDet's own absolute table. "learned", the same table for one
// size, is converted to it.
type Backbone struct {
	vit.Config

	Window   int   `json:"window"`             // patches along the side of a window; default 14
	Global   []int `json:"global"`             // blocks with attention over the whole image; default four, evenly spaced
	Residual []int `json:"residual,omitempty"` // blocks followed by a convolutional bottleneck; default none
	Relative bool  `json:"relative,omitempty"` // decomposed relative positions in every block, as in ViTDet

	// rows of the encoding's pretraining grid; default those of ImageRows
	PositionRows int `json:"position_rows,omitempty"`
	PositionCols int `json:"position_cols,omitempty"` // columns of that grid; default those of ImageCols
}

// resolve returns b with every zero field that has a default filled in, and an error that names the first field that is
// wrong.
func (b Backbone) resolve() (_ Backbone, err error) {
	b.Position = resampled(cmp.Or(b.Position, grid2d))
	b.Pool, b.ClassToken, b.Registers, b.RegisterPositions = "mean", false, 0, false // only patch tokens
	b.Config, err = b.Config.Resolve()
	b.Window = cmp.Or(b.Window, 14)
	if b.Global == nil {
		for i := 1; i <= 4; i++ {
			if last := i*b.Depth/4 - 1; last >= 0 && !slices.Contains(b.Global, last) {
				b.Global = append(b.Global, last)
			}
		}
	}
	if b.PatchSize > 0 {
		b.PositionRows, b.PositionCols = cmp.Or(b.PositionRows, b.Rows()), cmp.Or(b.PositionCols, b.Cols())
	}
	if err != nil {
		return b, err
	}
	if b.PreNorm {
		return b, errors.New("detect: the backbone has no norm in front of block 0 (pre_norm)")
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"window", b.Window}, {"position_rows", b.PositionRows}, {"position_cols", b.PositionCols}} {
		if f.value < 1 || f.value > 1<<14 {
			return b, fmt.Errorf("detect: %s is %d, want 1 to %d", f.name, f.value, 1<<14)
		}
	}
	for _, list := range []struct {
		name   string
		blocks []int
	}{{"global", b.Global}, {"residual", b.Residual}} {
		for _, i := range list.blocks {
			if i < 0 || i >= b.Depth {
				return b, fmt.Errorf("detect: %s names block %d, the backbone has 0 to %d", list.name, i, b.Depth-1)
			}
		}
	}
	return b, nil
}

// backboneTrace contains the intermediate values of one forward pass, [batch, rows·cols, width] unless noted.
type backboneTrace struct {
	Patches *Node            // after the patch projection
	Tokens  *Node            // with positions
	Blocks  []vit.BlockTrace // queries, keys and values of window blocks are [batch·windows, side², heads, headDim]
	Output  *Node            // [batch, rows, cols, width] after the last block, without a norm
}

// at returns the backbone for images of another size.
func (b Backbone) at(rows, cols int) Backbone {
	b.ImageRows, b.ImageCols = rows, cols
	return b
}

// trace builds the backbone in scope on normalized images [batch, rows, cols, channels] and returns its intermediate
// values. b is resolved.
func (b Backbone) trace(scope *model.Scope, images *Node, attentionWeights bool) *backboneTrace {
	d := images.Shape().Dimensions
	trained := b
	b = b.at(d[1], d[2])
	t := &backboneTrace{Blocks: make([]vit.BlockTrace, b.Depth)}
	x := b.Patches(scope.In(vit.ScopePatch), images) // [batch, N, width]
	t.Patches = x
	encoder := b.encoder(scope)
	if adder, ok := position.As[position.Adder](encoder); ok {
		x = adder.PreEncode(x, nil, 1)
	}
	t.Tokens = x
	x = layers.DropoutStatic(scope, x, b.Dropout)
	for i := range b.Depth {
		block := scope.In(vit.ScopeBlock, i)
		t.Blocks[i] = b.Block(block, x, b.hooks(block, trained, encoder, i), i, attentionWeights)
		x = t.Blocks[i].Output
		if follower, ok := position.As[position.Follower](encoder); ok {
			if added := follower.After(x, i); added != nil {
				x = Add(x, added)
			}
		}
		if slices.Contains(b.Residual, i) {
			whole := Reshape(x, -1, b.Rows(), b.Cols(), b.Width)
			x = Reshape(bottleneck(block.In("residual"), whole, b.Width/2), x.Shape().Dimensions...)
		}
		t.Blocks[i].Output = x
	}
	t.Output = Reshape(x, d[0], b.Rows(), b.Cols(), b.Width)
	return t
}

// windows returns the windows of a window block.
func (b Backbone) windows() windows { return windows{b.Rows(), b.Cols(), b.Window} }

// ownParams are the hyperparameters of a backbone's encoding that are not those of the recipe.
func (b Backbone) ownParams() map[string]any {
	grid := b.Config
	grid.ImageRows, grid.ImageCols = b.PositionRows*b.PatchSize, b.PositionCols*b.PatchSize
	params := grid.TrainedGrid()
	params[position.ParamGrid2DKernel] = "bicubic"
	return params
}

// encoder returns the encoder for the whole image: a patch has the same position in blocks with and without windows.
// So a learned function of distance, and a block's variables, apply to both, and an encoding that measures positions by
// the side of the grid, as rope-dinov3 and wepe-bias, keeps its unit. Encodings of position differences would be the
// same if positions were counted within the window.
//
// If windows extend beyond the image, an additional token in front, like a register, stands for tokens without a
// position.
func (b Backbone) encoder(scope *model.Scope) position.Encoder {
	for name, value := range b.ownParams() {
		if _, known := scope.GetParam(name); !known {
			scope.SetParam(name, value)
		}
	}
	c := b.Config
	c.Registers = b.unplaced()
	return c.Encoder(scope)
}

// unplaced is the encoders' number of tokens without a position.
func (b Backbone) unplaced() int {
	w := b.windows()
	if padded := w.rows%w.side != 0 || w.cols%w.side != 0; padded && len(b.Global) < b.Depth {
		return 1
	}
	return 0
}

// hooks returns the functions in the attention of block i.
func (b Backbone) hooks(block *model.Scope, trained Backbone, encoder position.Encoder, i int) (a vit.AttentionHooks) {
	global := slices.Contains(b.Global, i)
	rows, cols, tableRows, tableCols := b.Rows(), b.Cols(), trained.Rows(), trained.Cols()
	w, tokens := b.windows(), [][]int64{nil}
	if global {
		for token := range rows * cols {
			tokens[0] = append(tokens[0], int64(token+b.unplaced()))
		}
	} else {
		a.Before, a.After = w.cut, w.join
		rows, cols, tableRows, tableCols = w.side, w.side, w.side, w.side
		tokens = w.tokens(b.unplaced())
	}
	rowsFor := func(like, rows *Node) *Node { // [tokens, width] -> those of like: [batch·windows, tokens of one, width]
		d := like.Shape().Dimensions
		rows = additive.Rows(rows, Const(like.Graph(), slices.Concat(tokens...)))
		return Reshape(BroadcastPrefix(rows, d[0]/len(tokens)), d[0], d[1], b.Width)
	}
	if repeater, ok := position.As[position.Repeater](encoder); ok {
		a.Add = func(x *Node) *Node { return rowsFor(x, repeater.Repeat(x.Graph(), i)) }
	}
	if scaler, ok := position.As[position.Scaler](encoder); ok {
		a.Scale = func(q *Node) (scales [3]*Node) {
			for k, x := range scaler.Scale(q.Graph(), i) {
				if x != nil {
					scales[k] = rowsFor(q, x)
				}
			}
			return scales
		}
	}
	if rotator, ok := position.As[position.Rotator](encoder); ok {
		rotate := func(by position.Rotator, q, k *Node) (*Node, *Node) {
			d := q.Shape().Dimensions
			positions := Const(q.Graph(), slices.Concat(tokens...))
			side := func(x *Node) *Node { return Reshape(x, -1, len(tokens)*d[1], d[2], d[3]) } // windows of an image in a row
			q, k = by.Block(i).EncodeQK(side(q), side(k), positions, 1)
			return Reshape(q, d...), Reshape(k, d...)
		}
		a.Rotate = func(q, k *Node) (*Node, *Node) { return rotate(rotator, q, k) }
		if v, ok := rotator.(position.ValueRotator); ok {
			a.RotateValues = func(x *Node) *Node { x, _ = rotate(v, x, x); return x }
			a.Back = func(x *Node) *Node { x, _ = rotate(v.Back(), x, x); return x }
		}
	}
	if biaser, ok := position.As[position.Biaser](encoder); ok {
		a.Bias = func(q *Node) *Node { // [batch′ or 1, heads, tokens, tokens]
			pairs := pairsOf(biaser.Bias(q.Graph(), i), tokens) // [windows, heads, tokens, tokens]
			d := pairs.Shape().Dimensions
			if images := q.Shape().Dim(0) / d[0]; d[0] > 1 {
				pairs = Reshape(BroadcastPrefix(pairs, images), append([]int{-1}, d[1:]...)...)
			}
			return pairs
		}
	}
	if b.Relative {
		table := func(name string, n int) *model.Variable {
			return weight.Float32(block.At("attention").At("relative"), name, weight.Constant(0), 2*n-1, b.Width/b.Heads)
		}
		relative := relativePositions{rows, cols, table("rows", tableRows), table("cols", tableCols)}
		ofEncoding := a.Bias
		a.Bias = func(q *Node) *Node {
			scores := relative.scores(q)
			if ofEncoding == nil {
				return scores
			}
			return Add(scores, ofEncoding(q))
		}
	}
	return a
}

// pairsOf selects from scores of all tokens [heads, all, all] the pairs within each of some sets of tokens: [sets,
// heads, n, n].
func pairsOf(scores *Node, sets [][]int64) *Node {
	heads, all := scores.Shape().Dim(0), scores.Shape().Dim(1)
	if n := len(sets[0]); len(sets) == 1 && n <= all { // the last n tokens
		return InsertAxes(kernel.Crop(kernel.Crop(scores, 1, all-n, all), 2, all-n, all), 0)
	}
	var pairs []int64
	for _, tokens := range sets {
		for _, query := range tokens {
			for _, key := range tokens {
				pairs = append(pairs, query*int64(all)+key)
			}
		}
	}
	n := len(sets[0])
	table := Reshape(TransposeAllAxes(scores, 1, 2, 0), all*all, heads)
	x := additive.Rows(table, Const(scores.Graph(), pairs)) // [sets·n·n, heads]
	return TransposeAllAxes(Reshape(x, len(sets), n, n, heads), 0, 3, 1, 2)
}

// bottleneck is ViTDet's other way to exchange information between windows, after a block on the map x [batch, rows,
// cols, width]: x + norm(1×1(gelu(norm(3×3(gelu(norm(1×1(x)))))))) with inner channels between the 1×1 convolutions,
// all without biases. The gain of the last norm is initially zero, and so is the branch.
func bottleneck(scope *model.Scope, x *Node, inner int) *Node {
	width := x.Shape().Dim(-1)
	narrow, middle, wide := scope.In("conv_0"), scope.In("conv_1"), scope.In("conv_2")
	y := weight.Dense(narrow, x, inner, msra(inner), nil)
	y = kernel.Gelu(norm(narrow.In("norm"), y))
	y = conv3x3(middle, y, inner, msra(9*inner), nil)
	y = kernel.Gelu(norm(middle.In("norm"), y))
	y = weight.Dense(wide, y, width, msra(width), nil)
	last := wide.In("norm")
	weight.Float32(last, "gain", weight.Constant(0), width)
	return Add(x, norm(last, y))
}

// windows cut a grid of patches into squares, from the top left. If the grid does not divide, zeros pad it at the
// bottom and at the right. They are tokens like others: with the biases of the projections for key and value, they take
// part in the softmax, as in ViTDet, which does not mask them.
type windows struct{ rows, cols, side int }

// down and across return the number of windows.
func (w windows) down() int   { return (w.rows + w.side - 1) / w.side }
func (w windows) across() int { return (w.cols + w.side - 1) / w.side }

// cut is [batch, rows·cols, width] -> [batch·windows, side², width], the windows of an image row by row.
func (w windows) cut(x *Node) *Node {
	width := x.Shape().Dim(-1)
	x = Reshape(x, -1, w.rows, w.cols, width)
	x = kernel.ZeroPad(x, 1, 0, w.down()*w.side-w.rows)
	x = kernel.ZeroPad(x, 2, 0, w.across()*w.side-w.cols)
	x = Reshape(x, -1, w.down(), w.side, w.across(), w.side, width)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5) // [batch, down, across, side, side, width]
	return Reshape(x, -1, w.side*w.side, width)
}

// join is the inverse of cut; padding is dropped.
func (w windows) join(x *Node) *Node {
	width := x.Shape().Dim(-1)
	x = Reshape(x, -1, w.down(), w.across(), w.side, w.side, width)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5) // [batch, down, side, across, side, width]
	x = Reshape(x, -1, w.down()*w.side, w.across()*w.side, width)
	x = kernel.Crop(kernel.Crop(x, 1, 0, w.rows), 2, 0, w.cols)
	return Reshape(x, -1, w.rows*w.cols, width)
}

// tokens numbers the patches of each window, row by row from first on; padding is 0.
func (w windows) tokens(first int) [][]int64 {
	sets := make([][]int64, w.down()*w.across())
	for i := range sets {
		top, left := i/w.across()*w.side, i%w.across()*w.side
		for row := top; row < top+w.side; row++ {
			for col := left; col < left+w.side; col++ {
				token := 0
				if row < w.rows && col < w.cols {
					token = first + row*w.cols + col
				}
				sets[i] = append(sets[i], int64(token))
			}
		}
	}
	return sets
}

// relativePositions are MViTv2's decomposed ones (https://arxiv.org/abs/2112.01526), in every block of ViTDet: they add
// to the score of a key
//
//	q·R[row of q - row of k] + q·C[column of q - column of k]
//
// with tables R and C of one vector for each offset, initially zero. The query is not divided by √headDim here.
type relativePositions struct {
	rows, cols         int // of the tokens in one attention
	rowTable, colTable *model.Variable
}

// scores returns the scores of queries [batch, rows·cols, heads, headDim], float32 [batch, heads, rows·cols,
// rows·cols].
func (r relativePositions) scores(q *Node) *Node {
	g, d := q.Graph(), q.Shape().Dimensions
	q = Reshape(ConvertDType(q, r.rowTable.DType()), d[0], r.rows, r.cols, d[2], d[3])
	// All queries of a row, or of a column, use the same vectors: one product each. [n, batch, heads, ·, headDim] -> [n,
	// batch, heads, ·, n]
	along := func(q *Node, table *model.Variable, n int) *Node {
		dims := q.Shape().Dimensions
		vectors := relativeVectors(table.NodeValue(g), n, n) // [query, key, headDim]
		scores := kernel.Product(Reshape(q, n, -1, d[3]), Transpose(vectors, 1, 2))
		return Reshape(scores, n, dims[1], dims[2], dims[3], n)
	}
	ofRow := along(TransposeAllAxes(q, 1, 0, 3, 2, 4), r.rowTable, r.rows) // [rows, batch, heads, cols, rows]
	ofCol := along(TransposeAllAxes(q, 2, 0, 3, 1, 4), r.colTable, r.cols) // [cols, batch, heads, rows, cols]
	ofRow = InsertAxes(TransposeAllAxes(ofRow, 1, 2, 0, 3, 4), -1)         // [batch, heads, rows, cols, rows, 1]
	ofCol = InsertAxes(TransposeAllAxes(ofCol, 1, 2, 3, 0, 4), -2)         // [batch, heads, rows, cols, 1, cols]
	return Reshape(Add(ofRow, ofCol), d[0], d[2], d[1], d[1])
}

// relativeVectors selects the vector of each key's offset from each query along one side from a table [length,
// headDim]: [queries, keys, headDim]. Row 0 is the key farthest behind. If the numbers of queries and keys differ, the
// smaller side is spread over the larger; a table of another length is resampled linearly.
func relativeVectors(table *Node, queries, keys int) *Node {
	most := 2*max(queries, keys) - 1
	table = resample.Axis(table, resample.Bilinear, most)
	index := make([]int64, 0, queries*keys)
	spreadQ, spreadK := max(float64(keys)/float64(queries), 1), max(float64(queries)/float64(keys), 1)
	for q := range queries {
		for k := range keys {
			index = append(index, int64(float64(q)*spreadQ-float64(k)*spreadK+float64(keys-1)*spreadK))
		}
	}
	return Reshape(additive.Rows(table, Const(table.Graph(), index)), queries, keys, -1)
}
