// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/vit"
)

// inferred is what the tensors and config.json of a checkpoint say about its model.
type inferred struct {
	naming
	config    vit.Config // of the model in the file; 0 classes if it has no head
	foreign   modelConfig
	params    map[string]any // hyperparameters of an unfolded model
	headsFrom string         // where the number of heads comes from, if neither from files nor user
}

func (i inferred) grid() Grid { return Grid{i.config.Rows(), i.config.Cols()} }

func (i inferred) positionName() string {
	return i.name(table[slices.IndexFunc(table, func(r row) bool { return r.path == positionPath })], 0)
}

// dims returns the dimensions of the tensor that holds our variable of that path in block 0, nil if it is not there or
// its rank is another.
func (f *foreign) dims(n naming, path string, rank int) []int {
	for _, r := range table {
		if r.path == path {
			if t, ok := f.tensors[n.name(r, 0)]; ok && len(t.dims) == rank {
				return t.dims
			}
		}
	}
	return nil
}

// depth counts the blocks, as long as they go on without a gap.
func (f *foreign) depth(n naming) int {
	gain := table[slices.IndexFunc(table, func(r row) bool { return strings.HasPrefix(r.path, blockPath) })]
	for block := 0; ; block++ {
		if _, ok := f.tensors[n.name(gain, block)]; !ok {
			return block
		}
	}
}

// infer finds out what model the checkpoint holds. Only what decides it is looked at here; that every tensor fits is
// for account to see.
func (f *foreign) infer(options ImportOptions) (found inferred, err error) {
	if _, ok := f.tensors[table[0].path]; ok && !f.packed {
		return f.readUnfolded()
	}
	namings := []naming{{FormatHF, "vit."}, {FormatHF, ""}, {FormatTimm, ""}, {FormatJAX, ""}}
	k := slices.IndexFunc(namings, func(n naming) bool { return f.dims(n, "patch/weights", 4) != nil })
	if k < 0 {
		var names []string
		for name := range f.tensors {
			names = append(names, name)
		}
		slices.Sort(names)
		return found, errors.Errorf("checkpoints: %s holds no patch projection by the name of Hugging Face, timm, Google's "+
			"JAX release or this library: is it a ViT? Its %d tensors begin with %q", f.path, len(names),
			names[:min(5, len(names))])
	}
	found.naming = namings[k]
	c := &found.config
	*c = vit.Config{Position: "learned", Depth: f.depth(found.naming)}

	patch := f.dims(found.naming, "patch/weights", 4)
	switch {
	case found.format == FormatJAX && patch[0] == patch[1]:
		c.PatchSize, c.Channels, c.Width = patch[0], patch[2], patch[3]
	case found.format != FormatJAX && patch[2] == patch[3]:
		c.Width, c.Channels, c.PatchSize = patch[0], patch[1], patch[2]
	default:
		patch = nil
	}
	if patch == nil || min(c.PatchSize, c.Channels, c.Width) < 1 {
		name := found.name(table[0], 0)
		return found, &FormatError{File: f.path, Tensor: name,
			Reason: fmt.Sprintf("shape %v is no projection of square patches", f.tensors[name].dims)}
	}
	if hidden := f.dims(found.naming, "block_%02d/mlp/hidden/biases", 1); hidden != nil {
		c.MLPDim = hidden[0]
	}
	if head := f.dims(found.naming, headPath+"biases", 1); head != nil {
		c.Classes = head[0]
	}
	c.Pool = vit.PoolMean
	if f.dims(found.naming, classPath, 3) != nil {
		c.Pool = vit.PoolClass
	}
	if found.foreign, err = f.readConfig(found); err != nil {
		return found, err
	}
	if err := f.inferHeads(&found, options.Heads); err != nil {
		return found, err
	}
	if err := f.inferGrid(&found, options); err != nil {
		return found, err
	}
	checked := c.WithDefaults()
	checked.Classes = max(checked.Classes, 1) // no head is no fault yet
	if err := checked.Validate(); err != nil {
		return found, &FormatError{File: f.path, Reason: err.Error()}
	}
	checked.Classes = c.Classes
	*c = checked
	return found, nil
}

// readConfig reads the config.json and holds it to the tensors. Google's format has none: one beside it may be another
// model's, unless it says that Export put it there.
func (f *foreign) readConfig(found inferred) (config modelConfig, err error) {
	if config, err = readModelConfig(f.config); err != nil {
		return config, err
	}
	if found.format == FormatTimm {
		return config, checkTimmConfig(config, found.config)
	}
	if found.format == FormatJAX {
		if kind, err := config.text("model_type"); err == nil && kind == jaxType {
			return config, nil
		}
		return modelConfig{}, nil
	}
	if config.fields == nil {
		return config, errors.Errorf("checkpoints: %s: Hugging Face's format wants its config.json beside the weights",
			f.path)
	}
	return config, checkHFConfig(config, found.config)
}

// checkTimmConfig refuses pooling, activations and norms that ours are not. Without a config.json, timm's defaults for
// ViT are taken: the class token if there is one, exact GELU.
func checkTimmConfig(config modelConfig, c vit.Config) error {
	args, err := config.object("model_args")
	if err != nil {
		return err
	}
	for _, field := range []struct {
		in        modelConfig
		key, want string
	}{
		{config, "global_pool", timmPools[c.Pool]}, {args, "global_pool", timmPools[c.Pool]},
		{args, "act_layer", "gelu"}, {args, "norm_layer", "layernorm"},
	} {
		text, err := field.in.text(field.key)
		if err != nil {
			return err
		}
		if text != "" && text != field.want {
			return config.refuse(field.key, "%q, for this model only %q is read", text, field.want)
		}
	}
	return nil
}

// timmPools are timm's names of our poolings.
var timmPools = map[string]string{vit.PoolClass: "token", vit.PoolMean: "avg"}

// checkHFConfig holds the fields that change the model's arithmetic to ours, and sizes to the tensors.
func checkHFConfig(config modelConfig, c vit.Config) error {
	for _, field := range [][2]string{{"model_type", "vit"}, {"hidden_act", "gelu"}} {
		text, err := config.text(field[0])
		if err != nil {
			return err
		}
		if text != field[1] {
			return config.refuse(field[0], "%q, only %q is read", text, field[1])
		}
	}
	for _, field := range []struct {
		key       string
		inTensors int
	}{
		{"hidden_size", c.Width}, {"num_hidden_layers", c.Depth}, {"intermediate_size", c.MLPDim},
		{"num_channels", c.Channels}, {"patch_size", c.PatchSize},
	} {
		if config.has(field.key) && string(config.fields[field.key]) != strconv.Itoa(field.inTensors) {
			return config.refuse(field.key, "%s, the tensors say %d", short(config.fields[field.key]), field.inTensors)
		}
	}
	return nil
}

// inferHeads finds the number of heads and the ε of the norms, which no torch tensor shows.
func (f *foreign) inferHeads(found *inferred, heads int) (err error) {
	const most = 65536
	c, config := &found.config, found.foreign
	switch found.format {
	case FormatJAX:
		if query := f.dims(found.naming, "block_%02d/attention/query/weights", 3); query != nil {
			c.Heads = query[1]
		}
	case FormatHF:
		if c.Heads, err = config.integer("num_attention_heads", most); err != nil {
			return err
		}
		c.Epsilon = 1e-12 // the default of transformers' ViTConfig
		if config.has("layer_norm_eps") {
			c.Epsilon, err = strconv.ParseFloat(string(config.fields["layer_norm_eps"]), 64)
			if err != nil || !(c.Epsilon > 0 && c.Epsilon <= 1) {
				return config.refuse("layer_norm_eps", "%s, want a number above 0, at most 1",
					short(config.fields["layer_norm_eps"]))
			}
		}
	case FormatTimm:
		args, err := config.object("model_args")
		if err != nil {
			return err
		}
		if args.has("num_heads") {
			if c.Heads, err = args.integer("num_heads", most); err != nil {
				return err
			}
		}
	}
	if heads != 0 && c.Heads != 0 && heads != c.Heads {
		return errors.Errorf("checkpoints: %s has %d heads, not %d", f.path, c.Heads, heads)
	}
	if c.Heads == 0 {
		c.Heads = heads
	}
	for _, size := range vit.Variants() {
		published, err := vit.Variant(size + "/1")
		if err == nil && c.Heads == 0 && published.Width == c.Width && published.Depth == c.Depth &&
			published.MLPDim == c.MLPDim {
			c.Heads = published.Heads
			found.headsFrom = fmt.Sprintf(" (the heads are those of ViT-%s, whose sizes these are)", size)
		}
	}
	if c.Heads == 0 {
		return errors.Errorf("checkpoints: %s does not say how many attention heads its model has: give their number",
			f.path)
	}
	return nil
}

// inferGrid finds the grid of the position table. A number of rows alone never decides it, unless the user says that
// it is square.
func (f *foreign) inferGrid(found *inferred, options ImportOptions) (err error) {
	c := &found.config
	var image *Grid // pixels, nil if unknown
	switch found.format {
	case FormatHF:
		var size Grid
		size, err = found.foreign.size("image_size", c.Channels)
		image = &size
	case FormatTimm:
		image, err = timmImageSize(found.foreign, c.Channels)
	case FormatJAX:
		if found.foreign.has("image_size") {
			var size Grid
			size, err = found.foreign.size("image_size", c.Channels)
			image = &size
		}
	}
	if err != nil {
		return err
	}
	position := f.dims(found.naming, positionPath, 3)
	if position == nil {
		return &FormatError{File: f.path, Tensor: found.positionName(),
			Reason: "no table of learned positions, [1, tokens, width]: only models with one are read"}
	}
	rows := position[1] - c.Prefix()
	grid := options.Grid
	if image != nil {
		inFile := Grid{image.Rows / c.PatchSize, image.Cols / c.PatchSize}
		if grid != (Grid{}) && grid != inFile {
			return errors.Errorf("checkpoints: %s has a grid of %s, not %s", f.path, inFile, grid)
		}
		grid = inFile
	}
	if image == nil && grid == (Grid{}) {
		side := int(math.Sqrt(float64(max(rows, 0))))
		if !options.AssumeSquare || side*side != rows {
			return errors.Errorf("checkpoints: %s does not say what grid of patches its %d+%d positions have: "+
				"give it, or say that it is square if it is", f.path, c.Prefix(), rows)
		}
		grid = Grid{side, side}
	}
	if min(grid.Rows, grid.Cols) < 1 || max(grid.Rows, grid.Cols) > maxPixels || rows != grid.Rows*grid.Cols {
		return &FormatError{File: f.path, Tensor: found.positionName(),
			Reason: fmt.Sprintf("%d positions, not the %d+%s of class token and grid", position[1], c.Prefix(), grid)}
	}
	c.ImageRows, c.ImageCols = grid.Rows*c.PatchSize, grid.Cols*c.PatchSize
	return nil
}

// timmImageSize returns the pixels in a timm config.json, nil if there are none.
func timmImageSize(config modelConfig, channels int) (*Grid, error) {
	for _, at := range [][2]string{{"model_args", "img_size"}, {"pretrained_cfg", "input_size"}} {
		inner, err := config.object(at[0])
		if err != nil {
			return nil, err
		}
		if inner.has(at[1]) {
			size, err := inner.size(at[1], channels)
			return &size, err
		}
	}
	return nil, nil
}
