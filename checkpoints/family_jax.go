// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// jaxType is the model_type in the config.json of an exported .npz. Google's own files have none: the shapes determine
// all sizes.
const jaxType = "vit-jax"

// Google's vision_transformer, with the names and layouts of its .npz files.
var jaxViT = family{
	format: formatJAX, class: "vision_transformer", types: []string{jaxType},
	fields: slices.Concat(hfSizes(768, 12, 12, 3072, 16, 1e-6, only("hidden_act", "gelu", "gelu")), []field{
		only("layer_norm_eps", 1e-6, 1e-6),
		choice("classifier", "token", func(c *vit.Config) *string { return &c.Pool },
			words{"token", "class"}, words{"gap", "mean"}),
	}),
	bases: []string{""}, block: "Transformer/encoderblock_%d/",
	names: names{
		classPath: "cls", positionPath: "Transformer/posembed_input/pos_embedding", patchPath: "embedding",
		blockPath + "norm1/": "LayerNorm_0", queryPath: "MultiHeadDotProductAttention_1/query",
		keyPath: "MultiHeadDotProductAttention_1/key", valuePath: "MultiHeadDotProductAttention_1/value",
		projPath: "MultiHeadDotProductAttention_1/out", blockPath + "norm2/": "LayerNorm_2",
		hiddenPath: "MlpBlock_3/Dense_0", outputPath: "MlpBlock_3/Dense_1", "norm/": "Transformer/encoder_norm",
		headPath: "head",
	},
	extra: []string{"pre_logits/"}, resample: resampleJAX,
}

// describeJAX infers the sizes from the shapes, which determine all but the grid.
func (w *weights) describeJAX(config strictjson.Object, options ImportOptions) (described, error) {
	m := &foreign{family: &jaxViT, params: map[string]any{}, entries: map[string]any{},
		config: vit.Config{Position: "learned", Pool: "mean"}}
	d, c := described{foreign: m, format: formatJAX}, &m.config
	n := m.names()
	dims := func(path string, rank int) []int {
		if t := w.tensors[m.nameOf(n, path, 0)]; len(t.dims) == rank {
			return t.dims
		}
		return make([]int, rank)
	}
	patch, query := dims(patchPath+"weights", 4), dims(queryPath+"weights", 3)
	if patch[0] != patch[1] || min(patch[0], patch[2], patch[3]) < 1 {
		return d, errors.Errorf("checkpoints: %s has no projection of square patches with the name of Google's JAX release, "+
			"%s: its %d tensors begin with %q", w.path, m.nameOf(n, patchPath+"weights", 0), len(w.tensors), w.firstNames())
	}
	c.PatchSize, c.Channels, c.Width, c.Heads = patch[0], patch[2], patch[3], query[1]
	for w.has(m.nameOf(n, blockPath+"norm1/gain", c.Depth)) {
		c.Depth++
	}
	c.MLPDim, c.Classes = dims(hiddenPath+"biases", 1)[0], dims(headPath+"weights", 2)[1]
	if w.has(m.nameOf(n, classPath, 0)) {
		c.Pool = "class"
	}
	var grid gridSize
	if kind, _ := config.Text("model_type"); kind == jaxType { // ignore the config.json of another model
		d.json = config
		var size any
		if err := config.Read("image_size", &size, "pixels"); err != nil {
			return d, w.badConfig(err)
		}
		image, err := imageSize(size)
		if err != nil {
			return d, w.badConfig(about("image_size", err))
		}
		grid = gridSize{image[0] / c.PatchSize, image[1] / c.PatchSize}
	}
	if err := w.gridOfTable(&d, dims(positionPath, 3)[1], grid, options); err != nil {
		return d, err
	}
	classes := c.Classes
	c.Classes = max(classes, 1) // of a model without a head
	var err error
	if *c, err = c.Resolve(); err != nil {
		return d, &formatError{File: w.path, Reason: err.Error()}
	}
	c.Classes = classes
	return d, nil
}

// gridOfTable returns the grid of a position table. The number of rows does not determine it, unless the options assume
// a square.
func (w *weights) gridOfTable(d *described, rows int, stated gridSize, options ImportOptions) error {
	c, grid := &d.config, gridSize(options.Grid)
	if stated != (gridSize{}) {
		grid = stated
	}
	prefix := c.PrefixPositions()
	if side := int(math.Sqrt(float64(rows - prefix))); grid == (gridSize{}) && options.AssumeSquare &&
		side*side == rows-prefix {
		grid = gridSize{side, side}
	}
	switch {
	case grid == gridSize{} && options.AssumeSquare:
		return &OptionError{fmt.Sprintf("checkpoints: the %d positions of %s are no square", rows-prefix, w.path), "Grid"}
	case grid == gridSize{}:
		return &OptionError{fmt.Sprintf("checkpoints: %s does not state the grid of its %d+%d positions", w.path, prefix,
			rows-prefix), "Grid or AssumeSquare"}
	case min(grid[0], grid[1]) < 1 || max(grid[0], grid[1]) > maxPixels || rows-prefix != grid[0]*grid[1]:
		return &formatError{File: w.path, Tensor: d.nameOf(d.names(), positionPath, 0),
			Reason: fmt.Sprintf("%d positions, not the %d+%s of class token and grid", rows, prefix, grid)}
	}
	c.ImageRows, c.ImageCols = grid[0]*c.PatchSize, grid[1]*c.PatchSize
	return nil
}
