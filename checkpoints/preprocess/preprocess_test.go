// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// Settings published with models, without fields that do not affect pixels.
var published = map[string]struct {
	config string
	want   Settings
}{
	"a ViT of transformers 4": {`{"do_normalize": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5],
		"image_std": [0.5, 0.5, 0.5], "size": 224, "resample": 2, "feature_extractor_type": "ViTFeatureExtractor"}`,
		Settings{Resize: ResizeExact, Size: [2]int{224, 224}, Resample: Bilinear, Mean: halves, Std: halves}},
	"facebook/deit-base-patch16-224": {`{"crop_size": 224, "do_center_crop": true, "do_normalize": true,
		"do_resize": true, "feature_extractor_type": "DeiTFeatureExtractor", "image_mean": [0.485, 0.456, 0.406],
		"image_std": [0.229, 0.224, 0.225], "resample": 3, "size": 256}`,
		Settings{Resize: ResizeExact, Size: [2]int{256, 256}, Resample: Bicubic, Crop: [2]int{224, 224},
			Mean: imageNetMean, Std: imageNetStd}},
	"facebook/dinov2-base": {`{"crop_size": {"height": 224, "width": 224}, "do_center_crop": true,
		"do_convert_rgb": true, "do_normalize": true, "do_rescale": true, "do_resize": true,
		"image_mean": [0.485, 0.456, 0.406], "image_processor_type": "BitImageProcessor",
		"image_std": [0.229, 0.224, 0.225], "resample": 3, "rescale_factor": 0.00392156862745098,
		"size": {"shortest_edge": 256}}`,
		Settings{Resize: ResizeShortest, Size: [2]int{256, 256}, Resample: Bicubic, Crop: [2]int{224, 224},
			Mean: imageNetMean, Std: imageNetStd}},
	"facebook/dinov3-vits16-pretrain-lvd1689m": {`{"crop_size": null, "data_format": "channels_first",
		"default_to_square": true, "do_center_crop": null, "do_normalize": true, "do_rescale": true, "do_resize": true,
		"image_mean": [0.485, 0.456, 0.406], "image_processor_type": "DINOv3ViTImageProcessorFast",
		"image_std": [0.229, 0.224, 0.225], "resample": 2, "rescale_factor": 0.00392156862745098,
		"size": {"height": 224, "width": 224}}`,
		Settings{Resize: ResizeExact, Size: [2]int{224, 224}, Resample: Bilinear, Float: true, Mean: imageNetMean,
			Std: imageNetStd}},
	"openai/clip-vit-base-patch32": {`{"crop_size": 224, "do_center_crop": true, "do_normalize": true, "do_resize": true,
		"feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.48145466, 0.4578275, 0.40821073],
		"image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "size": 224}`,
		Settings{Resize: ResizeShortest, Size: [2]int{224, 224}, Resample: Bicubic, Crop: [2]int{224, 224},
			Mean: clipMean, Std: clipStd}},
	"siglip, as the fast processors save it": {`{"do_center_crop": null, "do_convert_rgb": null, "do_pad": null,
		"do_normalize": true, "do_rescale": true, "do_resize": true, "crop_size": null, "data_format": "channels_first",
		"image_mean": [0.5, 0.5, 0.5], "image_processor_type": "SiglipImageProcessorFast", "image_std": [0.5, 0.5, 0.5],
		"resample": 2, "rescale_factor": 0.00392156862745098, "size": {"height": 384, "width": 256}}`,
		Settings{Resize: ResizeExact, Size: [2]int{384, 256}, Resample: Bilinear, Mean: halves, Std: halves}},
	"no resize, no normalization, other range": {`{"do_resize": false, "do_normalize": false, "do_rescale": true,
		"rescale_factor": 0.0078125, "crop_size": {"height": 7, "width": 5}}`,
		Settings{Crop: [2]int{7, 5}, Rescale: 1.0 / 128}},
	// The classes' image_mean, image_std, do_center_crop and crop_size in transformers 5.23, models/*/image_processing_*.
	"CLIP crops by default": {`{"image_processor_type": "CLIPImageProcessorFast", "size": {"shortest_edge": 256},
		"resample": 3}`,
		Settings{Resize: ResizeShortest, Size: [2]int{256, 256}, Resample: Bicubic, Crop: [2]int{224, 224},
			Mean: clipMean, Std: clipStd}},
	"DeiT, too": {`{"image_processor_type": "DeiTImageProcessor", "size": 256, "resample": 3, "do_normalize": false,
		"crop_size": 192}`,
		Settings{Resize: ResizeExact, Size: [2]int{256, 256}, Resample: Bicubic, Crop: [2]int{192, 192}}},
	"ViT and Beit do not": {`{"image_processor_type": "BeitImageProcessorPil", "size": 256, "resample": 3,
		"do_normalize": false, "crop_size": {"height": 224, "width": 224}}`,
		Settings{Resize: ResizeExact, Size: [2]int{256, 256}, Resample: Bicubic}},
	"timm/vit_base_patch16_224.augreg_in21k": {`{"architecture": "vit_base_patch16_224", "num_classes": 21843,
		"pretrained_cfg": {"tag": "augreg_in21k", "input_size": [3, 224, 224], "fixed_input_size": true,
		"interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center", "mean": [0.5, 0.5, 0.5],
		"std": [0.5, 0.5, 0.5], "first_conv": "patch_embed.proj", "classifier": "head"}}`,
		Settings{Resize: ResizeShortest, Size: [2]int{248, 248}, Resample: Bicubic, Crop: [2]int{224, 224},
			RoundCrop: true, Mean: halves, Std: halves}},
	"a fine-tuned timm model at 224 with the size of the original": {`{"architecture": "vit_small_patch14_dinov2",
		"model_args": {"img_size": 224}, "pretrained_cfg": {"input_size": [3, 518, 518], "fixed_input_size": true,
		"interpolation": "bicubic", "crop_pct": 1.0, "crop_mode": "center", "mean": [0.485, 0.456, 0.406],
		"std": [0.229, 0.224, 0.225]}}`,
		Settings{Resize: ResizeShortest, Size: [2]int{224, 224}, Resample: Bicubic, Crop: [2]int{224, 224},
			RoundCrop: true, Mean: imageNetMean, Std: imageNetStd}},
	"processor_config.json of transformers 5": {`{"processor_class": "SiglipProcessor", "image_processor": {
		"do_normalize": true, "do_rescale": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5],
		"image_processor_type": "SiglipImageProcessorPil", "image_std": [0.5, 0.5, 0.5], "resample": 3,
		"rescale_factor": 0.00392156862745098, "size": {"height": 256, "width": 256}}}`,
		Settings{Resize: ResizeExact, Size: [2]int{256, 256}, Resample: Bicubic, Mean: halves, Std: halves}},
	"timm at 384, squashed": {`{"input_size": [3, 384, 384], "interpolation": "bilinear", "crop_pct": 1.0,
		"crop_mode": "squash", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}`,
		Settings{Resize: ResizeExact, Size: [2]int{384, 384}, Resample: Bilinear, Crop: [2]int{384, 384},
			RoundCrop: true, Mean: imageNetMean, Std: imageNetStd}},
	"timm's defaults, border": {`{"input_size": [3, 224, 192], "crop_mode": "border"}`,
		Settings{Resize: ResizeContain, Size: [2]int{256, 219}, Resample: Bicubic, Crop: [2]int{224, 192},
			Fill: [3]uint8{124, 116, 104}, RoundCrop: true, Mean: imageNetMean, Std: imageNetStd}},
}

var (
	halves       = [3]float64{0.5, 0.5, 0.5}
	imageNetMean = [3]float64{0.485, 0.456, 0.406}
	imageNetStd  = [3]float64{0.229, 0.224, 0.225}
	clipMean     = [3]float64{0.48145466, 0.4578275, 0.40821073}
	clipStd      = [3]float64{0.26862954, 0.26130258, 0.27577711}
)

// refused requires an error of one line with a text, or none for "".
func refused(t *testing.T, what any, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), "preprocess: ") ||
		!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
		t.Errorf("%+v: %v, want an error with %q", what, err, want)
	}
}

func TestParse_PublishedSettings(t *testing.T) {
	for name, c := range published {
		is.Equal(t, name, gomlxtest.Must(Parse([]byte(c.config), ""))(t), c.want)
	}
}

// google/vit-base-patch16-224's file names no processor and no kernel. The processors by model_type and their kernels
// are transformers 5.23's.
func TestParse_TheModelNamesTheProcessor(t *testing.T) {
	const google = `{"do_normalize": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
		"size": 224}`
	exact := Settings{Resize: ResizeExact, Size: [2]int{224, 224}, Resample: Bilinear, Mean: halves, Std: halves}
	smooth, shortest := exact, exact
	smooth.Resample = Bicubic
	shortest.Resize, shortest.Resample = ResizeShortest, Bicubic
	cropped, deit := shortest, smooth
	cropped.Crop, deit.Crop = [2]int{224, 224}, [2]int{224, 224}
	for kind, want := range map[string]Settings{"vit": exact, "vit_mae": exact, "vit_msn": exact, "ijepa": exact,
		"beit": smooth, "siglip": shortest, "clip": cropped, "dinov2": cropped, "deit": deit} {
		is.Equal(t, kind, gomlxtest.Must(Parse([]byte(google), kind))(t), want)
	}
	_, err := Parse([]byte(google), "unknown")
	refused(t, "no processor", err, "resample is missing")
	mean, std, err := ParseNormalization([]byte(`{"size": 224}`), "clip", 3)
	gomlxtest.NoError(t, err)
	is.Equal(t, "CLIP's pixels", [2][3]float64{[3]float64(mean), [3]float64(std)}, [2][3]float64{clipMean, clipStd})
}

// FuzzParse does likewise for those that were published.
func TestHuggingFace_ComesBack(t *testing.T) {
	for name, s := range map[string]Settings{ // by what the file names
		`"ViTImageProcessor"`: {Resize: ResizeExact, Size: [2]int{1, 1}, Resample: Nearest},
		`"BitImageProcessor"`: {Resize: ResizeShortest, Size: [2]int{9, 9}, Resample: Box, Mean: imageNetMean},
		`BitImageProcessor`:   {Resize: ResizeExact, Size: [2]int{9, 9}, Resample: Hamming, Crop: [2]int{7, 7}},
	} {
		want := s
		if want.Mean != [3]float64{} {
			want.Std = [3]float64{1, 1, 1}
		}
		raw := gomlxtest.Must(s.HuggingFace())(t)
		is.Equal(t, name, gomlxtest.Must(Parse(raw, ""))(t), want)
		is.Equal(t, name+" is named", strings.Contains(string(raw), name), true)
	}
	_, err := Settings{Resize: ResizeContain, Size: [2]int{9, 9}}.HuggingFace()
	refused(t, "a fit that Hugging Face lacks", err, "contain")
	// transformers requires: ViTImageProcessor accepts only height and width.
	raw := gomlxtest.Must(published["a ViT of transformers 4"].want.HuggingFace())(t)
	var fields map[string]any
	gomlxtest.NoError(t, json.Unmarshal(raw, &fields))
	size, _ := fields["size"].(map[string]any)
	if fields["image_processor_type"] != "ViTImageProcessor" || fields["resample"] != 2.0 ||
		!maps.Equal(size, map[string]any{"height": 224.0, "width": 224.0}) || fields["rescale_factor"] != 1.0/255 ||
		fields["do_convert_rgb"] != true {
		t.Errorf("fields are %v", fields)
	}
}

func TestParse_Refusals(t *testing.T) {
	const (
		mean, std = `"image_mean": [0.5, 0.5, 0.5]`, `"image_std": [0.5, 0.5, 0.5]`
		hf        = mean + `, ` + std + `, "resample": 2`
		size      = `{"size": {"height": 5, "width": 7}, `
	)
	const timm = `"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]`
	for config, want := range map[string]string{
		`[1]`: "not a JSON object",
		`{}`:  "neither Hugging Face's fields",
		size + `"do_flip_channel_order": true, ` + hf + `}`: "do_flip_channel_order",
		size + `"crop_pct": 0.9, ` + hf + `}`:               "crop_pct",
		size + "\"pad\": {\n\"x\": 1}, " + hf + `}`:         `pad = { "x": 1}`,
		size + `"pad\n": 1, ` + hf + `}`:                    `pad\n`,
		// transformers 5.23: these resize to 256/224 of size, read BGR, and crop before the resize.
		size + `"image_processor_type": "LevitPil", ` + hf + `}`:        "Levit",
		size + `"feature_extractor_type": "MobileViT", ` + hf + `}`:     "MobileViT",
		size + `"image_processor_type": "PerceiverFast", ` + hf + `}`:   "Perceiver",
		`{"size": {"shortest_edge": 5, "longest_edge": 7}, ` + hf + `}`: "size is",
		`{"size": {"height": 5, "width": -7}, ` + hf + `}`:              "size [5 -7]",
		`{"size": {"height": 5, "width": 99999}, ` + hf + `}`:           "size [5 99999]",
		`{"size": 224, ` + hf + `}`:                                     "size is 224",
		`{"size": 224, "image_processor_type": 3, ` + hf + `}`:          "image_processor_type is 3",
		`{` + hf + `}`: "size is",
		size + std + `, "resample": 2, "image_mean": [0.5]}`:                   "image_mean is [0.5], want 3",
		size + mean + `, "resample": 2, "image_std": [0.5, 0, 0.5]}`:           "image_std is",
		size + mean + `, ` + std + `, "resample": 6}`:                          "resample is 6",
		size + mean + `, ` + std + `}`:                                         "resample is missing",
		`{"do_resize": "yes", ` + hf + `}`:                                     "do_resize is",
		`{"do_resize": false, "do_center_crop": true, ` + hf + `}`:             "crop_size is",
		`{"do_resize": false, "crop_size": 0, ` + hf + `}`:                     "crop_size is 0",
		`{"do_resize": false, "rescale_factor": 0, ` + hf + `}`:                "rescale_factor is 0",
		`{"input_size": [1, 28, 28], ` + timm + `}`:                            "input_size",
		size + `"resample": 2}`:                                                "does not specify mean and std",
		`{"input_size": [3, 28, 28], "std": [1, 1, 1]}`:                        "mean is missing",
		`{"input_size": [3, 28, 28], "crop_pct": 1.5, ` + timm + `}`:           "crop_pct is 1.5",
		`{"input_size": [3, 9999, 28], "crop_pct": 1e-300, ` + timm + `}`:      "crop_pct is 1e-300",
		`{"input_size": [3, 28, 28], "crop_mode": "corner", ` + timm + `}`:     "crop_mode is",
		`{"input_size": [3, 28, 28], "interpolation": "random", ` + timm + `}`: "interpolation is",
		`{"pretrained_cfg": {"architecture": "vit"}}`:                          "input_size is missing",
		size + hf + `, "do_pad": true}`:                                        "do_pad",
		size + hf + `, "do_normalize": "maybe"}`:                               "do_normalize is",
	} {
		_, err := Parse([]byte(config), "")
		refused(t, config, err, want)
	}
}

func TestParseNormalization(t *testing.T) {
	for config, want := range map[string][2][]float64{
		`{"image_mean": [0.25], "image_std": [0.5], "do_pad": true}`:                   {{0.25}, {0.5}},
		`{"image_mean": [64], "image_std": [2], "do_rescale": false}`:                  {{64. / 255}, {2. / 255}},
		`{"image_mean": [1], "image_std": [1], "rescale_factor": 0.00784313725490196}`: {{0.5}, {0.5}}, // 2/255
		`{"image_mean": [1], "image_std": [2], "do_normalize": false}`:                 {{0}, {1}},
		`{"pretrained_cfg": {"mean": [0.25], "std": [0.5]}}`:                           {{0.25}, {0.5}},
		`{"pretrained_cfg": {"mean": [0.25, 0.5, 0.6], "std": [0.5, 0.5, 0.2]}}`:       {{0.45}, {0.4}}, // timm's mean
		`{"do_resize": true}`: {},
	} {
		mean, std, err := ParseNormalization([]byte(config), "", 1)
		gomlxtest.NoError(t, err)
		gomlxtest.NearAbs(t, config, append(mean, std...), append(want[0], want[1]...), 1e-15)
	}
	for config, want := range map[string]string{
		`{"image_mean": [0.5], "image_std": [1, 1]}`: "image_std is", `{"image_mean": [1, 2, 3]}`: "image_mean is",
		`{"input_size": [1, 8, 8], "mean": [1, 2]}`: "mean is", `{"image_mean": [0.5]}`: "image_std is missing",
		`{"image_mean": [0.5], "image_std": [0]}`: "image_std is", `{"image_mean":`: "not JSON",
	} {
		_, _, err := ParseNormalization([]byte(config), "", 1)
		refused(t, config, err, want)
	}
}

func TestSettings_ForAnotherSize(t *testing.T) {
	for _, c := range []struct{ was, want Settings }{
		{Settings{}, Settings{}},
		{Settings{Resize: ResizeExact, Size: [2]int{8, 8}}, Settings{Resize: ResizeExact, Size: [2]int{6, 10}}},
		{Settings{Resize: ResizeExact, Size: [2]int{6, 10}}, Settings{Resize: ResizeExact, Size: [2]int{6, 10}}},
		{Settings{Resize: ResizeShortest, Size: [2]int{10, 10}, Crop: [2]int{8, 8}},
			Settings{Resize: ResizeCover, Size: [2]int{8, 13}, Crop: [2]int{6, 10}}}, // 7.5 and 12.5, rounded
		{Settings{Crop: [2]int{8, 8}}, Settings{Crop: [2]int{6, 10}}},
		{Settings{Resize: ResizeExact, Size: [2]int{8, 11}, Trim: [2]int{6, 10}},
			Settings{Resize: ResizeExact, Size: [2]int{8, 11}, Trim: [2]int{6, 10}}},
		{Settings{Resize: ResizeExact, Size: [2]int{8, 8}, Trim: [2]int{6, 6}},
			Settings{Resize: ResizeExact, Size: [2]int{6, 10}}},
	} {
		is.Equal(t, c.was, gomlxtest.Must(c.was.For(6, 10))(t), c.want)
	}
	ofTimm := func(rows, cols int, portion float64) Settings { // int(side/portion), timm 1.0.31's transforms_factory.py
		return gomlxtest.Must(Parse(fmt.Appendf(nil, `{"input_size":[3,%d,%d],"crop_pct":%g}`, rows, cols, portion), ""))(t)
	}
	for _, portion := range []float64{0.8, 0.875, 0.9, 0.95, 0.96, 0.965, 1} {
		for _, from := range []int{224, 256, 384} {
			for side := 96; side < 600; side += 31 {
				is.Equal(t, fmt.Sprint(portion, from, side), gomlxtest.Must(ofTimm(from, from, portion).For(side, side))(t),
					ofTimm(side, side, portion))
			}
		}
	}
	// The columns alone would have fewer digits.
	gomlxtest.Must(ofTimm(224, 288, 0.902).Timm(224, 288))(t)
	_, err := Settings{Resize: ResizeShortest, Size: [2]int{8, 8}}.For(6, 10) // of any size
	refused(t, "no crop", err, "preprocess: ")
}

func TestSettings_Bounds(t *testing.T) {
	exact := Settings{Resize: ResizeExact, Size: [2]int{6, 10}}
	patches := Settings{Resize: ResizePatches, Size: [2]int{6, 10}, Patch: 2}
	with := func(s Settings, change func(*Settings)) Settings { change(&s); return s }
	nan := [3]float64{2: math.NaN()}
	for _, c := range []struct {
		s    Settings
		want string // of the error; empty for none
	}{
		{s: Settings{Grey16: GreyRange}}, {s: Settings{Grey16: "low"}, want: `grey16 "low"`},
		{s: Settings{}}, {s: Settings{Size: [2]int{0, 5}}, want: "without fit"},
		{s: Settings{Resize: ResizeExact, Size: [2]int{1, MaxSide}}},
		{s: Settings{Resize: ResizeExact, Size: [2]int{MaxSide, 1}}},
		{s: Settings{Resize: ResizeContain, Size: [2]int{1, MaxSide + 1}}, want: "size [1 16385]"},
		{s: Settings{Resize: ResizeCover, Size: [2]int{0, 5}}, want: "size [0 5]"},
		{s: Settings{Resize: "other", Size: [2]int{6, 10}}, want: `fit "other"`},
		{s: Settings{Resize: ResizeShortest, Size: [2]int{6, 10}}, want: "one number twice"},
		{s: patches}, {s: with(patches, func(s *Settings) { s.Patch = 1 })},
		{s: with(patches, func(s *Settings) { s.Patch = 0 }), want: "patches of 0 pixels"},
		{s: with(patches, func(s *Settings) { s.Size[0] = 5 }), want: "whole patches"},
		{s: with(patches, func(s *Settings) { s.Crop = [2]int{2, 2} }), want: "no crop"},
		{s: with(patches, func(s *Settings) { s.Float = true }), want: "float"},
		{s: with(exact, func(s *Settings) { s.Float = true })},
		{s: with(exact, func(s *Settings) { s.Float, s.Resample = true, Nearest }), want: "float"},
		{s: with(exact, func(s *Settings) { s.Resample = "cubic" }), want: `resample "cubic"`},
		{s: with(exact, func(s *Settings) { s.Crop = [2]int{1, MaxSide} })},
		{s: with(exact, func(s *Settings) { s.Crop = [2]int{0, 1} }), want: "crop [0 1]"},
		{s: with(exact, func(s *Settings) { s.Trim = [2]int{6, 1} })},
		{s: with(exact, func(s *Settings) { s.Trim = [2]int{7, 1} }), want: "trim [7 1] of 6×10"},
		{s: with(exact, func(s *Settings) { s.Trim = [2]int{0, 1} }), want: "trim [0 1]"},
		{s: with(patches, func(s *Settings) { s.Trim = [2]int{2, 2} }), want: "trim [2 2]"},
		{s: Settings{Resize: ResizeShortest, Size: [2]int{8, 8}, Trim: [2]int{2, 2}}, want: "fixed size"},
		{s: with(exact, func(s *Settings) { s.Rescale = -0.5 }), want: "rescale -0.5"},
		{s: with(exact, func(s *Settings) { s.Rescale = math.Inf(1) }), want: "rescale +Inf"},
		{s: with(exact, func(s *Settings) { s.Std = [3]float64{1, -1, 1} }), want: "std not negative"},
		{s: with(exact, func(s *Settings) { s.Std = nan }), want: "std not negative"},
		{s: with(exact, func(s *Settings) { s.Std = [3]float64{1: math.Inf(1)} }),
			want: "mean [0 0 0], std [0 +Inf 0] must be finite"},
		{s: with(exact, func(s *Settings) { s.Mean = nan }), want: "must be finite"},
		{s: with(exact, func(s *Settings) { s.Mean = [3]float64{math.Inf(-1)} }), want: "must be finite"},
	} {
		refused(t, c.s, c.s.Validate(), c.want)
	}
}

// (pixel·r − m)/s of both forms: 0 and 255 become the same.
func TestNormalization_Units(t *testing.T) {
	s := Settings{Rescale: 1.0 / 128, Mean: [3]float64{0.5, 1, 0.25}, Std: [3]float64{0.5, 2, 0}}
	mean, std := s.Normalization()
	for c, deviation := range []float64{0.5, 2, 1} { // 0 means 1
		for _, pixel := range []float64{0, 255} {
			want := (pixel*s.Rescale - s.Mean[c]) / deviation
			if got := (pixel/255 - mean[c]) / std[c]; !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("channel %d: %g becomes %g, want %g", c, pixel, got, want)
			}
		}
	}
}

// Of an image of 9×14, by hand.
func TestResized_ByFit(t *testing.T) {
	for _, c := range []struct {
		s          Settings
		rows, cols int
	}{
		{Settings{}, 9, 14}, {Settings{Resize: ResizeExact, Size: [2]int{5, 7}}, 5, 7},
		{Settings{Resize: ResizeShortest, Size: [2]int{6, 6}}, 6, 9}, // 9⅓, rounded down
		{Settings{Resize: ResizeCover, Size: [2]int{6, 6}}, 6, 9},
		{Settings{Resize: ResizeCover, Size: [2]int{5, 10}}, 6, 10},
		{Settings{Resize: ResizeContain, Size: [2]int{6, 6}}, 4, 6},
		{Settings{Resize: ResizeContain, Size: [2]int{3, 10}}, 3, 5},
		{Settings{Resize: ResizeContain, Size: [2]int{20, 1}}, 1, 1},
		{Settings{Resize: ResizePatches, Size: [2]int{4, 12}, Patch: 2}, 6, 8}, // 3×4 patches of 12
	} {
		rows, cols := c.s.Resized(9, 14)
		is.Equal(t, c.s, [2]int{rows, cols}, [2]int{c.rows, c.cols})
	}
	rows, cols, err := Settings{Resize: ResizePatches, Size: [2]int{6, 10}, Patch: 2}.OutputSize()
	gomlxtest.NoError(t, err)
	is.Equal(t, "15 patches of 2×2", [2]int{rows, cols}, [2]int{30, 2})
}

// The middles of windows in 8 and 9 pixels, by hand: half of 9 − 4 is 2½, of 8 − 5 it is 1½, of 8 − 11 it is −1½, of
// 9 − 10 it is −½.
func TestWindow_IsInTheMiddle(t *testing.T) {
	for _, c := range []struct{ crop, rounded, lower [2]int }{ // to even, in the image, or up, beyond it; and down
		{[2]int{5, 4}, [2]int{2, 2}, [2]int{1, 2}}, {[2]int{8, 9}, [2]int{0, 0}, [2]int{0, 0}},
		{[2]int{11, 10}, [2]int{-1, 0}, [2]int{-2, -1}}, {[2]int{3, 2}, [2]int{2, 4}, [2]int{2, 3}},
	} {
		for round, want := range map[bool][2]int{true: c.rounded, false: c.lower} {
			start, size := Settings{Crop: c.crop, RoundCrop: round}.Window(8, 9)
			is.Equal(t, fmt.Sprint(c.crop, round), [2][2]int{start, size}, [2][2]int{want, c.crop})
		}
	}
}

// FuzzParse: accepted settings are valid, and equal after a round trip through Hugging Face's form.
func FuzzParse(f *testing.F) {
	var seeds [][]byte
	for _, c := range published {
		seeds = append(seeds, []byte(c.config))
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		p, err := Parse(raw, "")
		if err != nil {
			return
		}
		gomlxtest.NoError(t, p.Validate())
		written, err := p.HuggingFace()
		if err != nil {
			return // a fit that only timm has
		}
		p.RoundCrop = false
		is.Equal(t, "read again", gomlxtest.Must(Parse(written, ""))(t), p)
	})
}

// timm's form of every fit, at sizes that do not divide.
func TestTimm_ComesBack(t *testing.T) {
	readBack := func(s Settings, rows, cols int) Settings {
		form := gomlxtest.Must(s.Timm(rows, cols))(t)
		return gomlxtest.Must(Parse(gomlxtest.Must(json.Marshal(form))(t), ""))(t)
	}
	s := Settings{RoundCrop: true, Resample: Lanczos, Mean: [3]float64{0.1, 0.2, 0.3}, Std: [3]float64{0.4, 0.5, 0.6}}
	for size := 224; size < 380; size++ {
		for fit, fill := range map[Resize][3]uint8{ResizeExact: {}, ResizeShortest: {},
			ResizeContain: {26, 51, 76}} { // the mean
			s.Resize, s.Size, s.Crop, s.Fill = fit, [2]int{size, size}, [2]int{224, 224}, fill
			is.Equal(t, size, readBack(s, 224, 224), s)
		}
	}
	for crop, want := range map[[2]int]bool{{12, 16}: true, {12, 15}: false, {12, 17}: false, {16, 16}: false} {
		s := Settings{Resize: ResizeCover, Size: [2]int{15, 20}, Crop: crop}
		_, err := s.Timm(crop[0], crop[1]) // 4/5 of both sides
		is.Equal(t, crop, err == nil, want)
	}
	// The largest resize: int(8192/0.5), and int(8192.5/0.5) would be one more.
	for portion, want := range map[string]string{"0.5": "", "0.49998": "", "0.49996": "resize to at most 16384"} {
		for _, sides := range []string{"8192, 28", "28, 8192"} {
			_, err := Parse([]byte(`{"input_size": [3, `+sides+`], "crop_pct": `+portion+
				`, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}`), "")
			refused(t, sides+" pixels are "+portion, err, want)
		}
	}
	s.Resize, s.Size, s.Crop, s.Fill = ResizeExact, [2]int{6, 10}, [2]int{}, [3]uint8{}
	got := readBack(s, 6, 10)
	s.Crop = s.Size
	is.Equal(t, "without a crop", got, s)
}

// searched is the bisection of SigLIP 2's image processor for the largest scale.
func searched(height, width, patches int) [2]int {
	at := func(scale float64) [2]int {
		side := func(n int) int { return max(1, int(math.Ceil(float64(n)*scale))) }
		return [2]int{side(height), side(width)}
	}
	low, high := 0.0, float64(2*patches)
	for range 200 {
		if middle := (low + high) / 2; at(middle)[0]*at(middle)[1] <= patches {
			low = middle
		} else {
			high = middle
		}
	}
	return at(low * (1 - 1e-12)) // slightly below the scale, to exclude rounding
}

func TestGrid_IsTheLargestOfTheAspectRatio(t *testing.T) {
	for _, patches := range []int{1, 2, 7, 16, 36, 131, 196, 256} {
		possible := Grids(patches)
		for height := 1; height <= 61; height++ {
			for width := (height + 3) / 4; width <= min(61, 4*height); width++ {
				got := gridOf(height, width, patches)
				is.Equal(t, [3]int{height, width, patches}, got, searched(height, width, patches))
				if !slices.Contains(possible, got) {
					t.Fatalf("%d×%d in %d patches: %v is not among %v", height, width, patches, got, possible)
				}
			}
		}
		for _, grid := range possible {
			is.Equal(t, patches, gridOf(grid[0], grid[1], patches), grid)
		}
	}
	for size, want := range map[[2]int][2]int{{7, 100}: {2, 8}, {100, 7}: {8, 2}, {1, 5000}: {2, 8}, {5000, 1}: {8, 2}} {
		is.Equal(t, size, gridOf(size[0], size[1], 16), want) // bounded
	}
}
