// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// Paths of our variables, below the model's scope. They are a file format: renaming one changes the API. %02d is the
// block.
const (
	classPath     = vit.VarClass
	registersPath = vit.VarRegisters
	positionsPath = vit.ScopePosition + "/" // of all variables of an encoding
	positionPath  = vit.PathTable
	mixedPath     = positionsPath + "rope_mixed/block_%02d/frequencies"
	relativePath  = positionsPath + "relative_table/block_%02d/scores"
	patchPath     = vit.ScopePatch + "/"
	headPath      = vit.ScopeHead + "/"
	poolPath      = vit.ScopePool + "/"
	blockPath     = vit.ScopeBlock + "/"
	queryPath     = blockPath + "attention/query/"
	keyPath       = blockPath + "attention/key/"
	valuePath     = blockPath + "attention/value/"
	projPath      = blockPath + "attention/output/"
	gatePath      = blockPath + "mlp/gate/"
	hiddenPath    = blockPath + "mlp/hidden/"
	outputPath    = blockPath + "mlp/output/"
	scale1Path    = blockPath + "scale1"
	scale2Path    = blockPath + "scale2"
)

// row is one variable of package vit, in all blocks.
type row struct {
	path   string
	layout layout
	dims   func(vit.Config) []int // of our variable; nil if a model has none
}

// rows lists every variable for which another format has a name, including the encodings that other formats have.
var rows = slices.Concat(
	[]row{
		{classPath, tokens, func(c vit.Config) []int { return dims(c.Prefix() > c.Registers, 1, c.Width) }},
		{registersPath, tokens, func(c vit.Config) []int { return dims(c.Registers > 0, c.Registers, c.Width) }},
		{positionPath, tokens, func(c vit.Config) []int { return dims(owns(c, positionPath), c.Positions(), c.Width) }},
		{mixedPath, mixedFrequencies, func(c vit.Config) []int {
			return dims(owns(c, mixedPath), 2, c.Heads, c.Width/c.Heads/2)
		}},
		{relativePath, vector, func(c vit.Config) []int {
			return dims(owns(c, relativePath), (2*c.Rows()-1)*(2*c.Cols()-1)+3, c.Heads)
		}},
		{scale1Path, vector, func(c vit.Config) []int { return dims(c.LayerScale > 0, c.Width) }},
		{scale2Path, vector, func(c vit.Config) []int { return dims(c.LayerScale > 0, c.Width) }},
		{poolPath + "latent", tokens, func(c vit.Config) []int { return dims(c.Pool == "map", 1, c.Width) }},
	},
	dense(patchPath, patchKernel, func(c vit.Config) layer {
		return layer{c.PatchSize * c.PatchSize * c.Channels, c.Width, !c.PreNorm, true}
	}),
	norm(patchPath+"norm/", func(c vit.Config) int { return when(c.PatchNorm, c.Width) }),
	norm("pre_norm/", func(c vit.Config) int { return when(c.PreNorm, c.Width) }),
	norm(blockPath+"norm1/", func(c vit.Config) int { return c.Width }),
	dense(queryPath, intoHeads, func(c vit.Config) layer { return layer{c.Width, c.Width, c.QKVBias != "none", true} }),
	dense(keyPath, intoHeads, func(c vit.Config) layer { return layer{c.Width, c.Width, c.QKVBias == "", true} }),
	dense(valuePath, intoHeads, func(c vit.Config) layer { return layer{c.Width, c.Width, c.QKVBias != "none", true} }),
	norm(blockPath+"attention/query_norm/", func(c vit.Config) int { return when(c.QKNorm, c.Width/c.Heads) }),
	norm(blockPath+"attention/key_norm/", func(c vit.Config) int { return when(c.QKNorm, c.Width/c.Heads) }),
	norm(blockPath+"attention/norm/", func(c vit.Config) int { return when(c.ContextNorm, c.Width) }),
	dense(projPath, outOfHeads, func(c vit.Config) layer { return layer{c.Width, c.Width, !c.NoProjBias, true} }),
	norm(blockPath+"norm2/", func(c vit.Config) int { return c.Width }),
	dense(gatePath, matrix, func(c vit.Config) layer { return layer{c.Width, c.MLPDim, !c.NoMLPBias, c.SwiGLU} }),
	dense(hiddenPath, matrix, func(c vit.Config) layer { return layer{c.Width, c.MLPDim, !c.NoMLPBias, true} }),
	norm(blockPath+"mlp/norm/", func(c vit.Config) int { return when(c.MLPNorm, c.MLPDim) }),
	dense(outputPath, matrix, func(c vit.Config) layer { return layer{c.MLPDim, c.Width, !c.NoMLPBias, true} }),
	norm("norm/", func(c vit.Config) int {
		if c.FinalNorm == "pooled" {
			return c.PooledWidth()
		}
		return when(c.FinalNorm != "none", c.Width)
	}),
	dense(poolPath+"query/", matrix, mapLayer(width, width)),
	dense(poolPath+"key/", matrix, mapLayer(width, width)),
	dense(poolPath+"value/", matrix, mapLayer(width, width)),
	dense(poolPath+"output/", matrix, mapLayer(width, width)),
	norm(poolPath+"norm/", func(c vit.Config) int { return when(c.Pool == "map", c.Width) }),
	dense(poolPath+"mlp_hidden/", matrix, mapLayer(width, poolMLPDim)),
	dense(poolPath+"mlp_output/", matrix, mapLayer(poolMLPDim, width)),
	dense(headPath, matrix, func(c vit.Config) layer { return layer{c.PooledWidth(), c.Classes, true, true} }),
)

// layer is an optional dense layer [in, out], with or without biases.
type layer struct {
	in, out     int
	biased, has bool
}

func dense(path string, kind layout, of func(vit.Config) layer) []row {
	biases := vector
	if kind == intoHeads {
		biases = headsVector
	}
	return []row{
		{path + "weights", kind, func(c vit.Config) []int { l := of(c); return dims(l.has, l.in, l.out) }},
		{path + "biases", biases, func(c vit.Config) []int { l := of(c); return dims(l.has && l.biased, l.out) }},
	}
}

// norm is a norm of a width, 0 if a model has none.
func norm(path string, width func(vit.Config) int) []row {
	return []row{
		{path + "gain", vector, func(c vit.Config) []int { return dims(width(c) > 0, width(c)) }},
		{path + "offset", vector, func(c vit.Config) []int { return dims(width(c) > 0 && !c.RMSNorm, width(c)) }},
	}
}

func mapLayer(in, out func(vit.Config) int) func(vit.Config) layer {
	return func(c vit.Config) layer { return layer{in(c), out(c), true, c.Pool == "map"} }
}

func width(c vit.Config) int      { return c.Width }
func poolMLPDim(c vit.Config) int { return cmp.Or(c.PoolMLPDim, c.MLPDim) }

func dims(has bool, dims ...int) []int {
	if !has {
		return nil
	}
	return dims
}

func when(has bool, width int) int {
	if !has {
		return 0
	}
	return width
}

// owns reports whether a model's encoding has a variable.
func owns(c vit.Config, path string) bool {
	return c.Encoding().Owns(strings.TrimPrefix(path, positionsPath))
}

// named is one variable of a model, and the foreign tensor that contains it.
type named struct {
	row
	path    string // with the block
	foreign string // "" for the head of a class without one
	rank    int    // of the foreign tensor, if the layout does not determine it

	part, parts int // the foreign tensor has equal parts; part is the index, from 0

	// For a head of two tensors, DeiT's: this tensor is the half-th of halves parts of our variable, multiplied by factor
	// on import and divided on export; repeated parts are summed. halves is 0 for the whole variable.
	half, halves int
	factor, back float32

	asIs bool // a variable of the encoding of a native model: its type and bits are kept
}

// variables lists the variables of a model; those of one foreign tensor are adjacent.
func (m *foreign) variables() (all []named) {
	names := m.names()
	for _, r := range rows {
		perBlock := strings.Contains(r.path, "%02d")
		encodings := perBlock && strings.HasPrefix(r.path, positionsPath) // positions of a native model are its own
		if r.dims(m.config) == nil || encodings && m.family.format == formatNative {
			continue
		}
		blocks := 1
		if perBlock {
			blocks = m.config.Depth
		}
		for block := range blocks {
			v := named{row: r, path: r.path, rank: m.family.ranks[r.path]}
			if perBlock {
				v.path = fmt.Sprintf(r.path, block)
			}
			if m.family.heads != nil && strings.HasPrefix(r.path, headPath) {
				all = append(all, m.twoHeads(v)...)
				continue
			}
			v.foreign = m.nameOf(names, r.path, block)
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b named) int { return strings.Compare(a.foreign, b.foreign) })
	for begin := 0; begin < len(all); {
		end := begin + 1
		for end < len(all) && all[end].foreign == all[begin].foreign {
			end++
		}
		for k := begin; k < end; k++ {
			all[k].part, all[k].parts = k-begin, end-begin
		}
		begin = end
	}
	return all
}

// twoHeads are the head's tensors of a distilled model, on the class token and on the distillation token: the mean of
// their logits is one head on both.
func (m *foreign) twoHeads(v named) []named {
	ending, halves, back := ".weight", 2, float32(2)
	if strings.HasSuffix(v.path, "biases") {
		ending, halves, back = ".bias", 1, 1
	}
	var all []named
	for i, head := range m.family.heads {
		h := v
		h.foreign, h.half, h.halves, h.factor, h.back = head+ending, i%halves, halves, 0.5, back
		all = append(all, h)
	}
	return all
}

// layout is the order of a variable's numbers in foreign files. Ours are [in, out], pixels row by row and channels
// last, heads next to each other in a row:
//
//	              ours (native)        torch (hf, timm)        jax
//	patchKernel   [p·p·channels, out]  [out, channels, p, p]   [p, p, channels, out]
//	matrix        [in, out]            [out, in]               [in, out]
//	vector        [n]                  [n]                     [n]
//	tokens        [n, width]           [1, n, width], or less  [1, n, width]
//	intoHeads     [in, width]          [width, in]             [in, heads, headDim]
//	headsVector   [width]              [width]                 [heads, headDim]
//	outOfHeads    [width, out]         [out, width]            [heads, headDim, out]
//	mixedFreq.    [2, heads, d/2]      [2, depth, heads, d/2]  none
//
// So JAX's order in memory is ours, and torch's needs a transpose.
type layout int

const (
	patchKernel layout = iota
	matrix
	vector
	tokens
	intoHeads
	headsVector
	outOfHeads
	mixedFrequencies
)

// ours returns the shape of the foreign tensor's part of our variable.
func (v named) ours(c vit.Config) []int {
	shape := slices.Clone(v.dims(c))
	if v.halves > 1 {
		shape[0] /= v.halves
	}
	return shape
}

// foreignShape returns the shape of the foreign tensor that contains v; c is the model of the file.
func (v named) foreignShape(format string, c vit.Config) []int {
	ours := v.ours(c)
	switch {
	case format == formatNative:
		return ours
	case v.layout == tokens:
		if v.rank == 0 {
			return append([]int{1}, ours...)
		}
		return ours[len(ours)-v.rank:]
	case v.layout == mixedFrequencies:
		return []int{2, v.parts, ours[1], ours[2]}
	case format == formatJAX:
		heads := []int{c.Heads, c.Width / c.Heads}
		switch v.layout {
		case patchKernel:
			return []int{c.PatchSize, c.PatchSize, c.Channels, c.Width}
		case intoHeads:
			return append([]int{ours[0]}, heads...)
		case headsVector:
			return heads
		case outOfHeads:
			return append(heads, ours[1])
		}
		return ours
	case v.layout == patchKernel:
		return []int{c.Width, c.Channels, c.PatchSize, c.PatchSize}
	case v.layout == vector || v.layout == headsVector:
		ours[0] *= v.parts
		return ours
	}
	slices.Reverse(ours)
	ours[0] *= v.parts
	return ours
}

// move copies the numbers of v from its part of the foreign tensor to ours, or back if out is true.
func (v named) move(format string, c vit.Config, foreign, ours []float32, out bool) {
	if v.layout == mixedFrequencies && format != formatNative {
		n := len(ours) / 2
		for k := range 2 {
			at := (k*v.parts + v.part) * n
			copyEither(foreign[at:at+n], ours[k*n:(k+1)*n], out)
		}
		return
	}
	foreign = foreign[v.part*len(ours) : (v.part+1)*len(ours)]
	if format == formatJAX || format == formatNative || v.layout == tokens || v.layout == vector ||
		v.layout == headsVector {
		copyEither(foreign, ours, out)
		return
	}
	first, channels := v.dims(c)[1], 1
	if v.layout == patchKernel {
		channels = c.Channels
	}
	last := len(ours) / first / channels
	if out {
		reverseAxes(ours, foreign, last, channels, first)
		return
	}
	reverseAxes(foreign, ours, first, channels, last)
}

// copyEither copies from foreign to ours, or back if out is true.
func copyEither(foreign, ours []float32, out bool) {
	if out {
		copy(foreign, ours)
		return
	}
	copy(ours, foreign)
}

// reverseAxes transposes from [a, b, c] into to [c, b, a], by squares that fit the cache.
func reverseAxes(from, to []float32, a, b, c int) {
	const side = 32
	for j := range b {
		for i := 0; i < a; i += side {
			for k := 0; k < c; k += side {
				for kk := k; kk < min(k+side, c); kk++ {
					for ii := i; ii < min(i+side, a); ii++ {
						to[(kk*b+j)*a+ii] = from[(ii*b+j)*c+kk]
					}
				}
			}
		}
	}
}
