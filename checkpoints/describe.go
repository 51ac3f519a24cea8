// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// described is what the tensors of a checkpoint and the files beside it say of its model.
type described struct {
	naming
	format    string            // one of Format…
	config    vit.Config        // of the model in the file; 0 classes if it has no head
	json      strictjson.Object // its config.json, nil if there is none that counts
	params    map[string]any    // hyperparameters of its encoding, for models of ours
	run       trainedModel      // for FormatCheckpoint
	headsFrom string            // where the number of heads comes from, if neither from files nor user
}

func (d described) grid() Grid { return Grid{d.config.Rows(), d.config.Cols()} }

// labels returns the names of the classes of the head, nil if the files do not have them.
func (d described) labels() ([]string, error) {
	if d.format == FormatCheckpoint {
		return d.run.Classes, nil
	}
	return labelsIn(d.json, d.config.Classes)
}

// nameOf returns what the format calls our variable of that path in block 0, where the MLP is as described so far.
func (d described) nameOf(path string) string {
	return d.name(table[slices.IndexFunc(table, func(r row) bool {
		return r.path == path && (!strings.HasPrefix(path, blockPath+"mlp/") || r.has(d.config))
	})], 0)
}

// dims returns the dimensions of the tensor that holds our variable of that path in block 0, nil if it is not there or
// its rank is another.
func (w *weights) dims(d described, path string, rank int) []int {
	if t, ok := w.tensors[d.nameOf(path)]; ok && len(t.dims) == rank {
		return t.dims
	}
	return nil
}

// describe finds out what model the checkpoint holds, from as few tensors as decide it; match then checks them all.
func (w *weights) describe(options ImportOptions) (d described, err error) {
	if w.run != nil {
		return w.describeRun()
	}
	config, err := w.readConfig()
	if _, ours := w.tensors[patchPath+"weights"]; ours && !w.packed {
		if err == nil {
			d, err = describeUnfolded(config)
			if depth, n := d.config.Depth, len(w.tensors); err == nil && depth > n { // whose names would be made first
				err = errors.Errorf("model: depth %d, beside %d tensors", depth, n)
			}
			err = w.badConfig(err)
		}
		return d, err
	}
	at := slices.IndexFunc(namings, func(n naming) bool { return w.speaks(n, true) })
	if at < 0 { // some tensors are missing, as match will say
		at = slices.IndexFunc(namings, func(n naming) bool { return w.speaks(n, false) })
	}
	if at < 0 {
		names := slices.Sorted(maps.Keys(w.tensors))
		return d, errors.Errorf("checkpoints: %s holds no patch projection by the name of Hugging Face, timm, Google's "+
			"JAX release or this library: is it a ViT? Its %d tensors begin with %q", w.path, len(names),
			names[:min(5, len(names))])
	}
	d.naming, d.format, d.params = namings[at], namings[at].format, map[string]any{}
	if err := w.sizes(&d); err != nil {
		return d, err
	}
	var s said
	switch kind, _ := config.Text("model_type"); {
	case err != nil:
		return d, err
	case d.format == FormatJAX && kind != jaxType: // a config.json beside an .npz may be another model's
	case d.format == FormatJAX:
		d.json = config
		s, err = readJAX(config, d.config, d.family)
	case d.format == FormatTimm:
		d.json = config
		s, err = readTimm(config, d.config, d.family)
	case config == nil:
		return d, errors.Errorf("checkpoints: %s: Hugging Face's format wants its config.json beside the weights", w.path)
	default:
		d.json = config
		s, err = readHF(config, d.config, d.family)
	}
	if err != nil {
		return d, w.badConfig(err)
	}
	if query := w.dims(d, "block_%02d/attention/query/weights", 3); query != nil { // of Google's
		s.heads = query[1]
	}
	d.config.Epsilon = s.epsilon
	if d.config.LayerScale > 0 { // of the tensors: where training started is not known but from here
		d.config.LayerScale = cmp.Or(s.layerScale, d.config.LayerScale)
	}
	maps.Copy(d.params, s.params)
	if err := w.settleHeads(&d, s, options); err != nil {
		return d, err
	}
	if err := w.settleGrid(&d, s, options); err != nil {
		return d, err
	}
	checked := d.config.WithDefaults()
	checked.Classes = max(checked.Classes, 1) // no head is no fault yet
	if err := checked.Validate(); err != nil {
		return d, &FormatError{File: w.path, Reason: err.Error()}
	}
	checked.Classes = d.config.Classes
	d.config = checked
	return d, nil
}

// sizes takes what the tensors show.
func (w *weights) sizes(d *described) error {
	c := &d.config
	*c = vit.Config{Position: "learned", Pool: vit.PoolMean}
	if d.family == familyDINOv3 {
		c.Position = dinoPosition
	}
	patch := w.dims(*d, patchPath+"weights", 4)
	switch {
	case d.format == FormatJAX && patch[0] == patch[1]:
		c.PatchSize, c.Channels, c.Width = patch[0], patch[2], patch[3]
	case d.format != FormatJAX && patch[2] == patch[3]:
		c.Width, c.Channels, c.PatchSize = patch[0], patch[1], patch[2]
	}
	if min(c.PatchSize, c.Channels, c.Width) < 1 {
		return &FormatError{File: w.path, Tensor: d.nameOf(patchPath + "weights"),
			Reason: fmt.Sprintf("shape %v is no projection of square patches", patch)}
	}
	gain := table[slices.IndexFunc(table, func(r row) bool { return r.path == blockPath+"norm1/gain" })]
	for w.has(d.name(gain, c.Depth)) {
		c.Depth++
	}
	w.sizesOfBlock(d)
	if head := w.dims(*d, headPath+"biases", 1); head != nil {
		c.Classes = head[0]
	}
	if w.dims(*d, classPath, 3) != nil {
		c.Pool = vit.PoolClass
		if head := w.dims(*d, headPath+"weights", 2); head != nil && d.format == FormatHF && head[1] == 2*c.Width {
			c.Pool = vit.PoolClassMean
		}
	}
	if registers := w.dims(*d, registersPath, 3); registers != nil {
		c.Registers = registers[1]
	}
	return nil
}

// sizesOfBlock takes what the tensors of the first block show.
func (w *weights) sizesOfBlock(d *described) {
	c := &d.config
	c.SwiGLU = true // and look for one
	gate, hidden := d.nameOf(gatePath+"biases"), d.nameOf(hiddenPath+"biases")
	stacked, out := w.tensors[hidden].dims, w.dims(*d, outputPath+"weights", 2)
	// Stacked, both have twice the units that the output takes.
	c.SwiGLU = w.has(gate) && (gate != hidden || len(stacked) == 1 && out != nil && stacked[0] == 2*out[1])
	if units := w.dims(*d, hiddenPath+"biases", 1); units != nil {
		c.MLPDim = units[0]
		if c.SwiGLU && gate == hidden {
			c.MLPDim /= 2
		}
	}
	if w.has(d.nameOf(scale1Path)) {
		c.LayerScale = 1e-5 // DINOv2's at first, where no file says
	}
	switch {
	case !w.has(d.nameOf(queryPath + "biases")):
		c.QKVBias = vit.QKVBiasNone
	case !w.has(d.nameOf(keyPath + "biases")):
		c.QKVBias = vit.QKVBiasNoKey
	}
}

// namings are those of files, the most special first.
var namings = []naming{
	{FormatHF, familyViT, "vit."}, {FormatHF, familyViT, ""}, {FormatHF, familyDINOv2, "dinov2."},
	{FormatHF, familyDINOv2, "dinov2_with_registers."}, {FormatHF, familyDINOv2, ""}, {FormatHF, familyDINOv3, ""},
	{FormatTimm, familyDINOv3, ""}, {FormatTimm, familyViT, ""}, {FormatJAX, familyViT, ""},
}

// speaks says whether the tensors are named so: the patch projection, and with its first block, no more than that.
func (w *weights) speaks(n naming, withBlock bool) bool {
	d := described{naming: n}
	if w.dims(d, patchPath+"weights", 4) == nil {
		return false
	}
	if n.family == familyDINOv3 && n.format == FormatTimm && !w.has(d.nameOf(scale1Path)) {
		return false // all else is as in a VisionTransformer
	}
	return !withBlock || w.has(d.nameOf(blockPath+"norm1/gain"))
}

func (w *weights) has(name string) bool {
	_, ok := w.tensors[name]
	return ok
}

// settleHeads finds the number of heads, which no torch tensor shows.
func (w *weights) settleHeads(d *described, s said, options ImportOptions) error {
	c := &d.config
	if options.Heads != 0 && s.heads != 0 && options.Heads != s.heads {
		return errors.Errorf("checkpoints: %s has %d heads, not %d", w.path, s.heads, options.Heads)
	}
	c.Heads = cmp.Or(s.heads, options.Heads)
	for _, size := range vit.Variants() {
		published, err := vit.Variant(size + "/1")
		if err == nil && c.Heads == 0 && published.Width == c.Width && published.Depth == c.Depth &&
			published.MLPDim == c.MLPDim {
			c.Heads = published.Heads
			if d.family == familyDINOv3 {
				c.Heads = c.Width / 64 // H has more than that of ViT
			}
			d.headsFrom = fmt.Sprintf(" (the heads are those of ViT-%s, whose sizes these are)", size)
		}
	}
	if c.Heads == 0 {
		return errors.Errorf("checkpoints: %s does not say how many attention heads its model has: give their number",
			w.path)
	}
	return nil
}

// settleGrid finds the grid of the position table, or where there is none, that of the images. A number of rows alone
// never decides it, unless the user says that it is square.
func (w *weights) settleGrid(d *described, s said, options ImportOptions) error {
	c := &d.config
	grid, stated := options.Grid, s.image != Grid{}
	if stated {
		inFile := Grid{s.image.Rows / c.PatchSize, s.image.Cols / c.PatchSize}
		if grid != (Grid{}) && grid != inFile {
			return errors.Errorf("checkpoints: %s has a grid of %s, not %s", w.path, inFile, grid)
		}
		grid = inFile
	}
	if d.family == familyDINOv3 {
		if grid == (Grid{}) { // the images to be have one as good
			grid = Grid{options.ImageRows / c.PatchSize, options.ImageCols / c.PatchSize}
		}
		if min(grid.Rows, grid.Cols) < 1 || max(grid.Rows, grid.Cols) > maxPixels {
			return errors.Errorf("checkpoints: %s does not say for what images it is: give their size", w.path)
		}
		c.ImageRows, c.ImageCols = grid.Rows*c.PatchSize, grid.Cols*c.PatchSize
		return nil
	}
	position := w.dims(*d, positionPath, 3)
	if position == nil {
		return &FormatError{File: w.path, Tensor: d.nameOf(positionPath),
			Reason: "no table of learned positions, [1, tokens, width]: only models with one are read"}
	}
	rows := position[1]
	side := int(math.Sqrt(float64(max(rows, 0))))
	// DeiT-III, and timm's models with registers: no square number is one more than another.
	c.PatchPositions = d.format == FormatTimm && c.Pool != vit.PoolMean &&
		(rows == grid.Rows*grid.Cols || grid == Grid{} && options.AssumeSquare && side*side == rows)
	rows -= c.PrefixPositions()
	if grid == (Grid{}) && !stated {
		side = int(math.Sqrt(float64(max(rows, 0))))
		if !options.AssumeSquare || side*side != rows {
			return errors.Errorf("checkpoints: %s does not say what grid of patches its %d+%d positions have: "+
				"give it, or say that it is square if it is", w.path, c.PrefixPositions(), rows)
		}
		grid = Grid{side, side}
	}
	if min(grid.Rows, grid.Cols) < 1 || max(grid.Rows, grid.Cols) > maxPixels || rows != grid.Rows*grid.Cols {
		return &FormatError{File: w.path, Tensor: d.nameOf(positionPath),
			Reason: fmt.Sprintf("%d positions, not the %d+%s of class token and grid", position[1], c.PrefixPositions(), grid)}
	}
	c.ImageRows, c.ImageCols = grid.Rows*c.PatchSize, grid.Cols*c.PatchSize
	return nil
}
