// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// adopt returns r with what the pretrained ViT that it starts from determines: its network, the hyperparameters of an
// encoding that is kept, its normalization. A contradiction is an error. A learned position table becomes "grid2d",
// which is resampled; other encodings are unchanged.
func (r Recipe) adopt(m *checkpoints.Imported, path string) (Recipe, error) {
	c, b := &r.Detector, &r.Detector.Backbone
	v, err := m.Config.Resolve()
	if err != nil {
		return r, err
	}
	if c.Mean == [3]float64{} && c.Std == [3]float64{} && len(m.Mean) == 3 && len(m.Std) == 3 {
		c.Mean, c.Std = [3]float64(m.Mean), [3]float64(m.Std)
	}
	b.PositionRows, b.PositionCols = cmp.Or(b.PositionRows, v.Rows()), cmp.Or(b.PositionCols, v.Cols())
	b.Position = resampled(cmp.Or(b.Position, v.Position))
	encoding, err := position.Parse(b.Position)
	if err != nil {
		return r, err
	}
	b.Pool, b.ClassToken, b.Registers, b.RegisterPositions = v.Pool, v.ClassToken, v.Registers, v.RegisterPositions
	if err = finetune.Adopt(&b.Config, v); err == nil {
		kept := encoding.Shared(v.Encoding())
		if len(kept) > 0 && (b.PositionRows != v.Rows() || b.PositionCols != v.Cols()) {
			return r, ofAnotherGrid(v, *b)
		}
		r.Params, err = finetune.AdoptParams(r.Params, kept, m.Params)
	}
	if err != nil {
		return r, fmt.Errorf("%w in checkpoint %s: leave it out of the recipe", err, path)
	}
	return r, nil
}

func ofAnotherGrid(v vit.Config, b Backbone) error {
	return fmt.Errorf("detect: the ViT's positions are of %d×%d patches, the backbone's of %d×%d: omit position_rows and "+
		"position_cols, or set them to 0", v.Rows(), v.Cols(), b.PositionRows, b.PositionCols)
}

// resampled returns an encoding that supports every size.
func resampled(position string) string {
	if rest, found := strings.CutPrefix(position+"+", learned+"+"); found {
		return strings.TrimSuffix(grid2d+"+"+rest, "+")
	}
	return position
}

// The two names of a table of positions: by token, and by row and column.
const (
	learned      = "learned"
	learnedTable = vit.PathTable
	grid2d       = "grid2d"
	grid2dTable  = vit.ScopePosition + "/grid2d/table"
)

// loadBackbone loads the variables of a model at its training size, which the recipe has adopted. Variables that the
// backbone lacks are skipped: class token, registers, final norm, head, and the positions if it has another encoding.
func (d *Detector) loadBackbone(m *checkpoints.Imported) error {
	from := m.Config
	b := d.Recipe.Detector.Backbone
	ours := map[string]*tensors.Tensor{}
	for path, x := range m.Variables {
		variable, positional := strings.CutPrefix(path, vit.ScopePosition+"/")
		switch {
		case strings.HasPrefix(path, vit.ScopePatch+"/") || strings.HasPrefix(path, "block_"):
			ours[path] = x
		case path == learnedTable && b.Encoding()[0].Name == grid2d:
			flat, err := tensors.CopyFlatData[float32](x)
			switch rows, cols := from.Rows(), from.Cols(); {
			case err != nil:
				return fmt.Errorf("detect: table of positions: %w", err)
			case len(flat) != from.Positions()*from.Width:
				return fmt.Errorf("detect: the position table has %d numbers, the ViT's has %d rows of %d", len(flat),
					from.Positions(), from.Width)
			case rows != b.PositionRows || cols != b.PositionCols:
				return ofAnotherGrid(from, b)
			default: // by row and column, without the class token
				flat = flat[from.PrefixPositions()*from.Width:]
				ours[grid2dTable] = tensors.FromFlatDataAndDimensions(flat, rows, cols, from.Width)
			}
		case positional && b.Encoding().Inherits(from.Encoding(), variable) && !strings.HasSuffix(path, "/prefix"):
			ours[path] = x
		}
	}
	for i := range b.Depth {
		if name := fmt.Sprintf(vit.ScopeBlock+"/attention/query/weights", i); ours[name] == nil {
			return fmt.Errorf("detect: the ViT's variables lack %s", name)
		}
	}
	return weight.Create(d.store.Scope(detectorScope).At(backboneScope), ours)
}

// learningRateFactor is ViTDet's layer-wise decay: the factor of a variable's learning rate, rate^(Depth+1) for the
// embedding, rate^(Depth-i) in block i, and 1 for new variables: pyramid, heads, and the bottlenecks within blocks. It
// is also 1 for encodings other than a table of positions, as in package finetune (ViTDet has none), and for rate 0.
func (b Backbone) learningRateFactor(variable string, rate float64) float64 {
	path, in := strings.CutPrefix(variable, detectorScope+"/"+backboneScope+"/")
	encoding := strings.HasPrefix(path, vit.ScopePosition+"/") && path != learnedTable && path != grid2dTable
	if rate == 0 || !in || encoding || strings.Contains(path, "/residual/") {
		return 1
	}
	block := -1 // the embedding
	_, _ = fmt.Sscanf(path, "block_%d/", &block)
	return math.Pow(rate, float64(b.Depth-block))
}
