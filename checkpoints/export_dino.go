// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/vit"
)

// namingFor chooses the column of a format whose models can be this one.
func namingFor(format string, c vit.Config) naming {
	dino := c.Position == dinoPosition
	switch {
	case dino && (format == FormatHF || format == FormatTimm):
		return naming{format: format, family: familyDINOv3}
	case format == FormatHF && (c.LayerScale > 0 || c.Registers > 0 || c.SwiGLU):
		n := naming{format, familyDINOv2, "dinov2."}
		if c.Registers > 0 {
			n.base = "dinov2_with_registers."
		}
		return n
	case format == FormatHF:
		return naming{format, familyViT, "vit."}
	}
	return naming{format: format}
}

// places are the options and poolings that the models of a column have a place for.
var places = map[naming]string{
	{format: FormatHF}:                         "class qkv_bias=none",
	{format: FormatHF, family: familyDINOv2}:   "class+mean registers layer_scale swiglu qkv_bias=none",
	{format: FormatHF, family: familyDINOv3}:   "class class+mean registers layer_scale swiglu qkv_bias=qv qkv_bias=none",
	{format: FormatTimm}:                       "class mean registers layer_scale swiglu patch_positions qkv_bias=none",
	{format: FormatTimm, family: familyDINOv3}: "class mean registers layer_scale swiglu qkv_bias=qv qkv_bias=none",
	{format: FormatJAX}:                        "class mean",
}

// optionsOf names the options that a model has and a plain ViT has not.
func optionsOf(c vit.Config) (options []string) {
	for option, has := range map[string]bool{
		"patch_norm": c.PatchNorm, "registers": c.Registers > 0, "layer_scale": c.LayerScale > 0, "swiglu": c.SwiGLU,
		"patch_positions":       c.PatchPositions && c.Encoding()[0].Kind() == vit.KindAdditive, // else nothing is added
		"qkv_bias=" + c.QKVBias: c.QKVBias != vit.QKVBiasAll,
	} {
		if has {
			options = append(options, option)
		}
	}
	slices.Sort(options)
	return options
}

// checkFamily refuses what the models of the format have no place for.
func (e *export) checkFamily() error {
	c := e.config
	which := strings.TrimSpace(e.Format + " " + e.naming.family)
	has := strings.Fields(places[naming{format: e.naming.format, family: e.naming.family}])
	for _, option := range optionsOf(c) {
		if !slices.Contains(has, option) {
			return errors.Errorf("models of %s have no %s: choose onnx or unfolded", which, option)
		}
	}
	if !slices.Contains(has, c.Pool) {
		return errors.Errorf("a model of %s pools by %q, not by %q: choose onnx or unfolded, or another of the formats",
			which, has[0], c.Pool)
	}
	epsilon := map[string]string{FormatTimm: "1e-6", FormatTimm + " " + familyDINOv3: "1e-5", FormatJAX: "1e-6"}[which]
	if fixed, err := strconv.ParseFloat(epsilon, 64); err == nil && c.Epsilon != fixed {
		return errors.Errorf("the norms of %s have epsilon %s, this model was made with %g: say Epsilon %[2]s to change it, "+
			"and compare the logits", which, epsilon, c.Epsilon)
	}
	switch {
	case e.naming.family != familyViT && c.LayerScale == 0:
		return errors.Errorf("models of %s have a LayerScale (layer_scale): choose onnx or unfolded", which)
	case e.naming.family == familyDINOv3 && e.Format == FormatTimm && c.QKVBias == vit.QKVBiasAll:
		return errors.Errorf("models of %s have no bias of the keys: choose hf, onnx or unfolded", which)
	case e.naming.family == familyDINOv2 && c.SwiGLU && c.MLPDim%8 != 0:
		return errors.Errorf("models of %s have a multiple of 8 hidden units, not %d: choose timm, onnx or unfolded", which,
			c.MLPDim)
	case e.naming.family == familyDINOv3:
		if e.Format == FormatHF {
			e.report = append(e.report, "head: left out: transformers' DINOv3ViTModel has none")
		}
		_, _, err := e.dinoRope()
		return err
	}
	return nil
}

// dinoRope returns the settings of the rotations, and refuses those that others do not have.
func (e *export) dinoRope() (theta float64, training map[string]any, err error) {
	scope := e.store.Scope(e.scope)
	for _, p := range []struct {
		name      string
		byDefault any
	}{
		{vit.ParamDINORopeShortest, 0.0}, {vit.ParamDINORopeLongest, 0.0}, {vit.ParamDINORopeNormalize, "separate"},
	} {
		if value, set := scope.GetParam(p.name); set && value != p.byDefault {
			return 0, nil, errors.Errorf("%s has no place for %s = %v: choose onnx or unfolded", e.Format, p.name, value)
		}
	}
	training = map[string]any{}
	for field, param := range map[string]string{"pos_embed_shift": vit.ParamDINORopeShift,
		"pos_embed_jitter": vit.ParamDINORopeJitter, "pos_embed_rescale": vit.ParamDINORopeRescale} {
		byDefault := 0.0
		if param == vit.ParamDINORopeRescale {
			byDefault = 2
		}
		if training[field] = model.GetParamOr(scope, param, byDefault); training[field] == 0.0 {
			training[field] = nil
		}
	}
	return model.GetParamOr(scope, vit.ParamRopeTheta, 100.0), training, nil
}

// maskToken is what stands for hidden patches in the training of DINO: transformers wants it, at zero as at its start.
func (e *export) maskToken() []outTensor {
	dims := []int{1, e.config.Width}
	switch {
	case e.Format != FormatHF || e.naming.family == familyViT:
		return nil
	case e.naming.family == familyDINOv3:
		dims = []int{1, 1, e.config.Width}
	}
	return []outTensor{{name: e.naming.base + "embeddings.mask_token", shape: shapes.Make(e.dtype, dims...),
		write: func(w io.Writer) error {
			_, err := w.Write(make([]byte, e.config.Width*e.dtype.Size()))
			return err
		}}}
}

// transformersClass is the class that opens the model.
func (e *export) transformersClass() string {
	return map[string]string{"vit.": "ViTForImageClassification", "dinov2.": "Dinov2ForImageClassification",
		"dinov2_with_registers.": "Dinov2WithRegistersForImageClassification", "": "DINOv3ViTModel"}[e.naming.base]
}

// dinoConfig is the config.json of transformers' DINOv2 and DINOv3.
func (e *export) dinoConfig() (exportFile, error) {
	c := e.config
	out := map[string]any{
		"architectures": []string{e.transformersClass()}, "torch_dtype": e.DType, "hidden_size": c.Width,
		"num_hidden_layers": c.Depth, "num_attention_heads": c.Heads, "image_size": c.ImageRows, "patch_size": c.PatchSize,
		"num_channels": c.Channels, "layer_norm_eps": c.Epsilon, "layerscale_value": c.LayerScale, "hidden_act": "gelu",
		"drop_path_rate": c.DropPath, "initializer_range": 0.02,
	}
	if c.ImageRows != c.ImageCols {
		out["image_size"] = [2]int{c.ImageRows, c.ImageCols}
	}
	if c.Registers > 0 || e.naming.family == familyDINOv3 {
		out["num_register_tokens"] = c.Registers
	}
	if e.naming.family == familyDINOv3 {
		theta, training, err := e.dinoRope()
		if err != nil {
			return exportFile{}, err
		}
		if c.SwiGLU {
			out["hidden_act"] = "silu"
		}
		maps.Copy(out, training)
		maps.Copy(out, map[string]any{
			"model_type": "dinov3_vit", "intermediate_size": c.MLPDim, "rope_theta": theta, "use_gated_mlp": c.SwiGLU,
			"key_bias": c.QKVBias == vit.QKVBiasAll, "query_bias": c.QKVBias != vit.QKVBiasNone,
			"value_bias": c.QKVBias != vit.QKVBiasNone, "proj_bias": true, "mlp_bias": true,
			"attention_dropout": c.AttentionDropout,
		})
		return jsonFile(foreignConfig, out)
	}
	ratio := timmRatio(c.Width, c.MLPDim)
	if c.SwiGLU {
		ratio = timmRatio(c.Width, c.MLPDim*3/2) // of which a SwiGLU has two thirds
	}
	names, numbers := e.id2label(), map[string]int{}
	for i := range c.Classes {
		numbers[names[fmt.Sprint(i)]] = i
	}
	maps.Copy(out, map[string]any{
		"model_type": strings.TrimSuffix(e.naming.base, "."), "mlp_ratio": ratio, "use_swiglu_ffn": c.SwiGLU,
		"qkv_bias": c.QKVBias == vit.QKVBiasAll, "hidden_dropout_prob": c.Dropout,
		"attention_probs_dropout_prob": c.AttentionDropout, "id2label": names, "label2id": numbers,
	})
	return jsonFile(foreignConfig, out)
}
