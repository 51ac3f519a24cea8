// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"io/fs"
	"math"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// said holds what a config.json states and the tensors do not show; a field is zero where config.json lacks it.
type said struct {
	image   Grid // pixels
	heads   int
	epsilon float64 // of the norms
}

// maxPixels bounds the side of an image, maxHeads the heads of a block.
const (
	maxPixels = 16384
	maxHeads  = 65536
)

// timmPools are timm's names of our poolings.
var timmPools = map[string]string{vit.PoolClass: "token", vit.PoolMean: "avg"}

// jaxType is the model_type in the config.json beside an exported .npz.
const jaxType = "vit-jax"

// readConfig reads the config.json beside the weights, nil if there is none.
func (w *weights) readConfig() (strictjson.Object, error) {
	file := filepath.Join(w.dir, foreignConfig)
	raw, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	config, err := strictjson.ParseObject(raw)
	return config, w.badConfig(err)
}

// badConfig names the config.json in an error, if it is one.
func (w *weights) badConfig(err error) error {
	if err == nil {
		return nil
	}
	return &FormatError{File: filepath.Join(w.dir, foreignConfig), Reason: err.Error()}
}

// readHF refuses fields that would change the model's arithmetic, and sizes that differ from the tensors', c.
func readHF(o strictjson.Object, c vit.Config) (s said, err error) {
	for _, field := range [][2]string{{"model_type", "vit"}, {"hidden_act", "gelu"}} {
		if text, err := o.Text(field[0]); err != nil || text != field[1] {
			return s, o.Refuse(field[0], "%q", field[1])
		}
	}
	for _, field := range []struct {
		key       string
		inTensors int
	}{
		{"hidden_size", c.Width}, {"num_hidden_layers", c.Depth}, {"intermediate_size", c.MLPDim},
		{"num_channels", c.Channels}, {"patch_size", c.PatchSize},
	} {
		if o.Has(field.key) && string(o[field.key]) != strconv.Itoa(field.inTensors) {
			return s, o.Refuse(field.key, "%d as the tensors have it", field.inTensors)
		}
	}
	if s.heads, err = o.Int("num_attention_heads", 1, maxHeads); err != nil {
		return s, err
	}
	s.epsilon = 1e-12 // the default of transformers' ViTConfig
	if o.Has("layer_norm_eps") {
		if s.epsilon, err = o.Number("layer_norm_eps", math.SmallestNonzeroFloat64, 1); err != nil {
			return s, err
		}
	}
	s.image, err = imageSize(o, "image_size", c.Channels)
	return s, err
}

// readTimm refuses pooling, activations and norms other than ours. Without a config.json it assumes timm's defaults for
// ViT: the class token if there is one, exact GELU.
func readTimm(o strictjson.Object, c vit.Config) (s said, err error) {
	args, err := o.Object("model_args")
	if err != nil {
		return s, err
	}
	trained, err := o.Object("pretrained_cfg")
	if err != nil {
		return s, err
	}
	for _, field := range []struct {
		in        strictjson.Object
		key, want string
	}{
		{o, "global_pool", timmPools[c.Pool]}, {args, "global_pool", timmPools[c.Pool]},
		{args, "act_layer", "gelu"}, {args, "norm_layer", "layernorm"},
	} {
		if text, err := field.in.Text(field.key); err != nil || text != "" && text != field.want {
			return s, field.in.Refuse(field.key, "%q for this model", field.want)
		}
	}
	if args.Has("num_heads") {
		if s.heads, err = args.Int("num_heads", 1, maxHeads); err != nil {
			return s, err
		}
	}
	switch {
	case args.Has("img_size"):
		s.image, err = imageSize(args, "img_size", c.Channels)
	case trained.Has("input_size"):
		s.image, err = imageSize(trained, "input_size", c.Channels)
	}
	return s, err
}

// readJAX reads the config.json that Export writes beside an .npz.
func readJAX(o strictjson.Object, c vit.Config) (s said, err error) {
	if o.Has("image_size") {
		s.image, err = imageSize(o, "image_size", c.Channels)
	}
	return s, err
}

// imageSize returns a field that is one number of pixels, [rows, cols] or [channels, rows, cols].
func imageSize(o strictjson.Object, key string, channels int) (Grid, error) {
	if n, err := o.Int(key, 1, maxPixels); err == nil {
		return Grid{n, n}, nil
	}
	sides, err := o.Numbers(key, 2, 1, maxPixels)
	if err != nil {
		if sides, err = o.Numbers(key, 3, 1, maxPixels); err == nil && sides[0] == float64(channels) {
			sides = sides[1:]
		}
	}
	if len(sides) == 2 && sides[0] == math.Trunc(sides[0]) && sides[1] == math.Trunc(sides[1]) {
		return Grid{int(sides[0]), int(sides[1])}, nil
	}
	return Grid{}, o.Refuse(key, "pixels, one number or rows and columns, at most %d", maxPixels)
}

// labelsIn returns the names of n classes, in id2label or as a list in timm's label_names; nil if neither is there.
func labelsIn(o strictjson.Object, n int) ([]string, error) {
	const key, timmKey = "id2label", "label_names"
	var labels []string
	if o.Read(timmKey, &labels, "") == nil && len(labels) == n {
		return labels, nil
	}
	if !o.Has(key) {
		return nil, nil
	}
	var byID map[string]string
	if o.Read(key, &byID, "") != nil || len(byID) != n {
		return nil, o.Refuse(key, "names of the %d classes of the head", n)
	}
	labels = make([]string, n)
	for i := range labels {
		name, ok := byID[strconv.Itoa(i)]
		if !ok {
			return nil, errors.Errorf("%s: class %d has no name", key, i)
		}
		labels[i] = name
	}
	return labels, nil
}
