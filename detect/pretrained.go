// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/vit"
)

// FromViT returns a backbone with a ViT's configuration for images of rows × cols pixels. A learned position table
// becomes "grid2d", which is resampled; other encodings are unchanged. Set Classes afterwards: it is the ViT's.
func FromViT(v vit.Config, rows, cols int) Backbone {
	b := Backbone{Config: v, PositionRows: v.Rows(), PositionCols: v.Cols()}
	b.ImageRows, b.ImageCols = rows, cols
	return b.WithDefaults()
}

// resampled returns an encoding that supports every size.
func resampled(position string) string {
	first, rest, found := strings.Cut(position, "+")
	if first != learned {
		return position
	}
	if found {
		return grid2d + "+" + rest
	}
	return grid2d
}

// The two names of a table of positions: by token, and by row and column.
const (
	learned      = "learned"
	learnedTable = vit.PathTable
	grid2d       = "grid2d"
	grid2dTable  = vit.ScopePosition + "/grid2d/table"
)

// LoadBackbone loads the variables of a trained ViT, by their paths below its scope, and the hyperparameters of its
// encoding: Config, Params and Variables of a checkpoints.Imported at its training size. Call it before the detector is
// used. Variables that the backbone lacks are skipped: class token, registers, final norm and head, and the positions
// if it has another encoding.
func (d *Detector) LoadBackbone(from vit.Config, params map[string]any, variables map[string]*tensors.Tensor) error {
	from, err := from.Resolve()
	if err != nil {
		return err
	}
	b := d.Config.Backbone
	for _, f := range []struct {
		name        string
		have, wants any
	}{
		{"width", from.Width, b.Width}, {"depth", from.Depth, b.Depth}, {"heads", from.Heads, b.Heads},
		{"mlp_dim", from.MLPDim, b.MLPDim}, {"patch_size", from.PatchSize, b.PatchSize},
		{"channels", from.Channels, b.Channels}, {"epsilon", from.Epsilon, b.Epsilon}, {"swiglu", from.SwiGLU, b.SwiGLU},
		{"qkv_bias", from.QKVBias, b.QKVBias}, {"patch_norm", from.PatchNorm, b.PatchNorm},
		{"layer_scale", from.LayerScale > 0, b.LayerScale > 0}, {"pre_norm", from.PreNorm, b.PreNorm},
		{"rms_norm", from.RMSNorm, b.RMSNorm}, {"qk_norm", from.QKNorm, b.QKNorm}, {"mlp_norm", from.MLPNorm, b.MLPNorm},
		{"context_norm", from.ContextNorm, b.ContextNorm}, {"no_proj_bias", from.NoProjBias, b.NoProjBias},
		{"no_mlp_bias", from.NoMLPBias, b.NoMLPBias}, {"activation", from.Activation, b.Activation},
	} {
		if f.have != f.wants {
			return fmt.Errorf("detect: the ViT has %s %v, the backbone %v: use the backbone of FromViT, or set "+
				"detector.backbone.%s", f.name, f.have, f.wants, f.name)
		}
	}
	ours := map[string]*tensors.Tensor{}
	for path, x := range variables {
		variable, positional := strings.CutPrefix(path, vit.ScopePosition+"/")
		switch {
		case strings.HasPrefix(path, vit.ScopePatch+"/") || strings.HasPrefix(path, "block_"):
			ours[path] = x
		case path == learnedTable && b.Encoding()[0].Name == grid2d:
			table, err := byRowAndColumn(x, from)
			if err != nil {
				return err
			}
			if grid := [2]int{from.Rows(), from.Cols()}; grid != [2]int{b.PositionRows, b.PositionCols} {
				return fmt.Errorf("detect: the ViT's positions are of %d×%d patches, the backbone's of %d×%d: set "+
					"position_rows and position_cols", grid[0], grid[1], b.PositionRows, b.PositionCols)
			}
			ours[grid2dTable] = table
		case positional && b.Encoding().Inherits(from.Encoding(), variable) && !strings.HasSuffix(path, "/prefix"):
			ours[path] = x
		}
	}
	for i := range b.Depth {
		if name := fmt.Sprintf(vit.ScopeBlock+"/attention/query/weights", i); ours[name] == nil {
			return fmt.Errorf("detect: the ViT's variables lack %s", name)
		}
	}
	scope := d.scope.At(backboneScope)
	scope.SetParams(params)
	return checkpoints.CreateVariables(scope, ours)
}

// byRowAndColumn converts a table of one row per token to [rows, cols, width], without the class token's row.
func byRowAndColumn(table *tensors.Tensor, c vit.Config) (*tensors.Tensor, error) {
	flat, err := tensors.CopyFlatData[float32](table)
	if err != nil {
		return nil, fmt.Errorf("detect: table of positions: %w", err)
	}
	if len(flat) != c.Positions()*c.Width {
		return nil, fmt.Errorf("detect: the position table has %d numbers, the ViT's has %d rows of %d", len(flat),
			c.Positions(), c.Width)
	}
	return tensors.FromFlatDataAndDimensions(flat[c.PrefixPositions()*c.Width:], c.Rows(), c.Cols(), c.Width), nil
}

// LearningRateFactor is ViTDet's layer-wise decay: the factor of a variable's learning rate, by its path below the
// detector's scope: rate^(Depth+1) for the embedding, rate^(Depth-i) in block i, and 1 for new variables: pyramid,
// heads, and the bottlenecks within blocks. Encodings other than a table of positions also have 1, as in package
// finetune; ViTDet has none.
func (b Backbone) LearningRateFactor(path string, rate float64) float64 {
	layer := b.Depth + 1
	switch path, in := strings.CutPrefix(path, backboneScope+"/"); {
	case !in || strings.Contains(path, "/residual/"):
	case strings.HasPrefix(path, vit.ScopePosition+"/") && path != learnedTable && path != grid2dTable:
	case strings.HasPrefix(path, "block_"):
		number, _, _ := strings.Cut(strings.TrimPrefix(path, "block_"), "/")
		i, _ := strconv.Atoi(number)
		layer = i + 1
	default:
		layer = 0
	}
	return math.Pow(rate, float64(b.Depth+1-layer))
}
