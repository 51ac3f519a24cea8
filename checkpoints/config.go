// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// said holds what a config.json states and the tensors do not show; a field is zero where config.json lacks it.
type said struct {
	image   Grid // pixels
	heads   int
	epsilon float64 // of the norms

	layerScale float64        // at the start of the training
	params     map[string]any // hyperparameters of the encoding
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
func readHF(o strictjson.Object, c vit.Config, family string) (s said, err error) {
	act, epsilon := "gelu", 1e-12 // the defaults of transformers' ViTConfig
	types := []string{"vit"}
	sizes := map[string]any{
		"hidden_size": c.Width, "num_hidden_layers": c.Depth, "intermediate_size": c.MLPDim, "num_channels": c.Channels,
		"patch_size": c.PatchSize,
	}
	switch family {
	case familyDINOv2:
		types, epsilon = []string{"dinov2", "dinov2_with_registers"}, 1e-6
		maps.Copy(sizes, map[string]any{"use_swiglu_ffn": c.SwiGLU, "num_register_tokens": c.Registers, "qkv_bias": true})
		if err = hiddenUnits(o, c); err != nil {
			return s, err
		}
	case familyDINOv3:
		types, epsilon = []string{"dinov3_vit"}, 1e-5
		if c.SwiGLU {
			act = "silu"
		}
		maps.Copy(sizes, map[string]any{
			"use_gated_mlp": c.SwiGLU, "num_register_tokens": c.Registers, "key_bias": c.QKVBias == vit.QKVBiasAll,
			"query_bias": c.QKVBias != vit.QKVBiasNone, "value_bias": c.QKVBias != vit.QKVBiasNone, "proj_bias": true,
			"mlp_bias": true,
		})
		if s.params, err = dinoRope(o); err != nil {
			return s, err
		}
	}
	if kind, err := o.Text("model_type"); err != nil || !slices.Contains(types, kind) {
		return s, o.Refuse("model_type", "%q for these tensors", types[0])
	}
	if text, err := o.Text("hidden_act"); err != nil || text != act {
		return s, o.Refuse("hidden_act", "%q", act)
	}
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		if o.Has(key) && string(o[key]) != fmt.Sprint(sizes[key]) {
			return s, o.Refuse(key, "%v as the tensors have it", sizes[key])
		}
	}
	if family != familyViT {
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if _, size := sizes[key]; !size && !slices.Contains(otherFields, key) {
				return s, errors.Errorf("%s = %s is an option that this version does not know", key, strictjson.Short(o[key]))
			}
		}
	}
	if s.heads, err = o.Int("num_attention_heads", 1, maxHeads); err != nil {
		return s, err
	}
	s.epsilon = epsilon
	if o.Has("layer_norm_eps") {
		if s.epsilon, err = o.Number("layer_norm_eps", math.SmallestNonzeroFloat64, 1); err != nil {
			return s, err
		}
	}
	if o.Has("layerscale_value") {
		if s.layerScale, err = o.Number("layerscale_value", 0, 1000); err != nil {
			return s, err
		}
	}
	s.image, err = imageSize(o, "image_size", c.Channels)
	return s, err
}

// otherFields of a config.json of DINO are read elsewhere, or change nothing about the features of a picture.
var otherFields = strings.Fields(`_name_or_path architectures auto_map dtype torch_dtype transformers_version model_type
	id2label label2id image_size layer_norm_eps layerscale_value mlp_ratio hidden_act num_attention_heads
	rope_theta pos_embed_shift pos_embed_jitter pos_embed_rescale initializer_range use_mask_token
	attention_dropout attention_probs_dropout_prob hidden_dropout_prob drop_path_rate
	apply_layernorm reshape_hidden_states out_features out_indices stage_names return_class_token problem_type`)

// hiddenUnits holds mlp_ratio to the tensors. A SwiGLU has two thirds of the units, rounded up to a multiple of 8.
func hiddenUnits(o strictjson.Object, c vit.Config) error {
	if !o.Has("mlp_ratio") {
		return nil
	}
	ratio, err := o.Number("mlp_ratio", 0, 1000)
	units := int(float64(c.Width) * ratio)
	if c.SwiGLU {
		units = (int(float64(units)*2/3) + 7) / 8 * 8
	}
	if err == nil && units != c.MLPDim {
		err = o.Refuse("mlp_ratio", "what gives the %d hidden units of the tensors", c.MLPDim)
	}
	return err
}

// dinoRope reads the hyperparameters of the rotations.
func dinoRope(o strictjson.Object) (params map[string]any, err error) {
	params = map[string]any{}
	for _, field := range []struct {
		key, param string
		byDefault  float64
	}{
		{"rope_theta", vit.ParamRopeTheta, 100}, {"pos_embed_shift", vit.ParamDINORopeShift, 0},
		{"pos_embed_jitter", vit.ParamDINORopeJitter, 0}, {"pos_embed_rescale", vit.ParamDINORopeRescale, 2},
	} {
		value := field.byDefault
		switch _, stated := o[field.key]; {
		case o.Has(field.key):
			if value, err = o.Number(field.key, 0, math.MaxFloat32); err != nil {
				return nil, err
			}
		case stated: // null: none
			value = 0
		}
		if value != field.byDefault {
			params[field.param] = value
		}
	}
	return params, nil
}

// readTimm refuses pooling, activations, norms and other arguments of a model that ours has not. Without a config.json
// it assumes timm's defaults for ViT: the class token if there is one, exact GELU.
func readTimm(o strictjson.Object, c vit.Config, family string) (s said, err error) {
	args, err := o.Object("model_args")
	if err != nil {
		return s, err
	}
	trained, err := o.Object("pretrained_cfg")
	if err != nil {
		return s, err
	}
	if pool := timmPools[c.Pool]; c.Classes > 0 { // without a head nobody pools
		for _, in := range []strictjson.Object{o, args} {
			if text, err := in.Text("global_pool"); err != nil || text != "" && text != pool {
				return s, in.Refuse("global_pool", "%q for this model", pool)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		want, known := timmArgs[key]
		switch value := string(args[key]); {
		case !known:
			return s, errors.Errorf("model_args: %s = %s is an option that this version does not know", key,
				strictjson.Short(args[key]))
		case want != "" && value != want && value != "null":
			return s, args.Refuse(key, "%s for this model", want)
		}
	}
	if args.Has("num_heads") {
		if s.heads, err = args.Int("num_heads", 1, maxHeads); err != nil {
			return s, err
		}
	}
	if args.Has("init_values") {
		if s.layerScale, err = args.Number("init_values", 0, 1000); err != nil {
			return s, err
		}
	}
	if family == familyDINOv3 {
		s.epsilon, s.params = 1e-5, map[string]any{}
		if args.Has("rope_temperature") {
			theta, err := args.Number("rope_temperature", 1, math.MaxFloat32)
			if err != nil {
				return s, err
			}
			if theta != 100 {
				s.params[vit.ParamRopeTheta] = theta
			}
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

// timmArgs are the arguments of timm's VisionTransformer and Eva that are known, with the value that ours has; empty
// where the tensors decide or the value is read elsewhere.
var timmArgs = map[string]string{
	"img_size": "", "patch_size": "", "in_chans": "", "num_classes": "", "global_pool": "", "embed_dim": "", "depth": "",
	"num_heads": "", "mlp_ratio": "", "class_token": "", "init_values": "", "reg_tokens": "", "num_reg_tokens": "",
	"no_embed_class": "", "qkv_bias": "", "swiglu_mlp": "", "swiglu_align_to": "", "rope_temperature": "",
	"act_layer": `"gelu"`, "norm_layer": `"layernorm"`, "pos_embed": `"learn"`, "fc_norm": "false",
	"use_fc_norm": "false", "qk_norm": "false", "pre_norm": "false", "final_norm": "true", "proj_bias": "true",
	"qkv_fused": "true", "scale_mlp": "false", "scale_attn_inner": "false", "pool_include_prefix": "false",
	"use_abs_pos_emb": "false", "use_rot_pos_emb": "true", "rope_type": `"dinov3"`, "rope_rotate_half": "true",
	"dynamic_img_size": "", "dynamic_img_pad": "false", "weight_init": "", "fix_init": "", "drop_rate": "",
	"pos_drop_rate": "", "patch_drop_rate": "", "proj_drop_rate": "", "attn_drop_rate": "", "drop_path_rate": "",
}

// readJAX reads the config.json that Export writes beside an .npz.
func readJAX(o strictjson.Object, c vit.Config, _ string) (s said, err error) {
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
