// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/printable"
	"github.com/wepe-go/wepe/internal/strictjson"
)

// The fields of Hugging Face's form that are read, and those that do not affect pixels. do_convert_rgb is always
// applied: images are RGB here.
var (
	hfRead = []string{"do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale", "rescale_factor",
		"do_normalize", "image_mean", "image_std", "default_to_square"}
	hfIgnored = []string{"image_processor_type", "feature_extractor_type", "processor_class", "auto_map",
		"_valid_processor_keys", "do_convert_rgb", "data_format", "input_data_format", "device", "disable_grouping",
		"return_tensors"}
	// transformers 5.23: a crop is of 224×224 unless crop_size states another.
	hfProcessors = map[string]processor{
		"ViT":       {fit: ResizeExact, kernel: Bilinear, pixels: half},
		"Beit":      {fit: ResizeExact, kernel: Bicubic, pixels: half},
		"DeiT":      {fit: ResizeExact, kernel: Bicubic, pixels: half, crop: true},
		"Siglip":    {fit: ResizeShortest, kernel: Bicubic, pixels: half},
		"Bit":       {fit: ResizeShortest, kernel: Bicubic, pixels: openAI, crop: true},
		"CLIP":      {fit: ResizeShortest, kernel: Bicubic, pixels: openAI, crop: true},
		"DINOv3ViT": {kernel: Bilinear, pixels: imageNet, float: true},
	}
	// IMAGE_PROCESSOR_MAPPING_NAMES of transformers: the processor by model_type.
	hfOfModel = map[string]string{"vit": "ViT", "vit_mae": "ViT", "vit_msn": "ViT", "ijepa": "ViT", "deit": "DeiT",
		"beit": "Beit", "dinov2": "Bit", "dinov3_vit": "DINOv3ViT", "clip": "CLIP", "siglip": "Siglip"}
)

// Mean and standard deviation.
var (
	half     = [2][]float64{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}
	imageNet = [2][]float64{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}
	openAI   = [2][]float64{{0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}}
)

// processor are the defaults of one of transformers' classes.
type processor struct {
	fit    Resize       // if size is a single number
	kernel Resample     // resample
	crop   bool         // do_center_crop
	pixels [2][]float64 // image_mean and image_std
	float  bool         // it rescales before it resizes, and so resizes floating-point numbers; the others resize bytes
}

// processor returns the defaults of the processor that the file or the model's type names, false if they name none.
// Others than those of the table may have steps of their own without a field: Levit resizes to 256/224 of size,
// MobileViT reads BGR.
func (c config) processor() (p processor, known bool, err error) {
	name, err := c.Text("image_processor_type")
	if err == nil && name == "" {
		name, err = c.Text("feature_extractor_type")
	}
	for _, suffix := range []string{"Pil", "Fast", "ImageProcessor", "FeatureExtractor"} {
		name = strings.TrimSuffix(name, suffix)
	}
	name = cmp.Or(name, hfOfModel[c.modelType])
	if p, known = hfProcessors[name]; err == nil && !known && name != "" {
		err = fmt.Errorf("unknown processor %q, whose steps this library does not have: want one of %s",
			printable.Name(name), strings.Join(slices.Sorted(maps.Keys(hfProcessors)), ", "))
	}
	return p, known, err
}

func (c config) huggingFace() (s Settings, err error) {
	for _, key := range slices.Sorted(maps.Keys(c.Object)) {
		value := string(c.Object[key])
		known := slices.Contains(hfRead, key) || slices.Contains(hfIgnored, key)
		if off := value == "null" || value == "false"; !known && !off {
			return s, fmt.Errorf("unknown field %s = %s: this library cannot apply it", printable.Name(key),
				strictjson.Short(c.Object[key]))
		}
	}
	if !slices.ContainsFunc(hfRead, c.Has) {
		return s, errors.New("neither Hugging Face's fields (size, image_mean) nor timm's (pretrained_cfg, input_size)")
	}
	byDefault, known, err := c.processor()
	if err != nil {
		return s, err
	}
	resize, err := c.Bool("do_resize", true)
	if err == nil && resize {
		err = c.hfResize(&s, byDefault)
	}
	crop, cropErr := c.Bool("do_center_crop", byDefault.crop || !known && c.Has("crop_size"))
	if err = cmp.Or(err, cropErr); err != nil {
		return s, err
	}
	switch {
	case crop && byDefault.crop && !c.Has("crop_size"):
		s.Crop = [2]int{224, 224}
	case crop:
		sides, ok := c.sides("crop_size", "height", "width")
		if side := 0; !ok && c.Read("crop_size", &side, "") == nil {
			sides, ok = []int{side, side}, true
		}
		if !ok || slices.Min(sides) < 1 {
			return s, c.Refuse("crop_size", "{height, width}")
		}
		s.Crop = [2]int(sides)
	}
	s.Float = resize && byDefault.float
	return s, c.setPixels(&s)
}

// hfResize reads size and resample.
func (c config) hfResize(s *Settings, byDefault processor) (err error) {
	if s.Resample = byDefault.kernel; s.Resample == "" || c.Has("resample") {
		number, err := c.Int("resample", 0, len(resamples)-1)
		if err != nil {
			return err
		}
		s.Resample = resamples[number]
	}
	if sides, ok := c.sides("size", "height", "width"); ok {
		s.Resize, s.Size = ResizeExact, [2]int(sides)
		return nil
	}
	if side, ok := c.sides("size", "shortest_edge"); ok {
		s.Resize, s.Size = ResizeShortest, [2]int{side[0], side[0]}
		return nil
	}
	var side int
	if err := c.Read("size", &side, "{height, width} or {shortest_edge}"); err != nil {
		return err
	}
	if c.Has("default_to_square") && byDefault.fit != "" {
		var square bool
		square, err = c.Bool("default_to_square", true)
		byDefault.fit = map[bool]Resize{true: ResizeExact, false: ResizeShortest}[square]
	}
	if s.Resize, s.Size = byDefault.fit, [2]int{side, side}; err == nil && s.Resize == "" {
		err = fmt.Errorf("size is %d, which processors read differently: want {height, width} or {shortest_edge}", side)
	}
	return err
}

// HuggingFace returns s in Hugging Face's form, which Parse and transformers read: ViTImageProcessor; BitImageProcessor
// if there is a crop or a shortest side; DINOv3's for Float. Fits that Hugging Face does not support are an error;
// RoundCrop is lost, which may move a crop by one pixel.
func (s Settings) HuggingFace() ([]byte, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Trim != [2]int{} {
		return nil, errTrim
	}
	crops, normalizes := s.Crop != [2]int{}, s.Mean != [3]float64{} || s.Std != [3]float64{}
	processor := "ViTImageProcessor"
	if crops || s.Resize == ResizeShortest {
		processor = "BitImageProcessor"
	}
	if s.Float {
		processor = "DINOv3ViTImageProcessorFast"
	}
	hf := map[string]any{
		"image_processor_type": processor, "do_convert_rgb": true,
		"do_resize": s.Resize != "", "do_rescale": true, "do_normalize": normalizes,
		"rescale_factor": cmp.Or(s.Rescale, 1.0/255),
	}
	switch s.Resize {
	case "":
	case ResizeExact:
		hf["size"] = map[string]int{"height": s.Size[0], "width": s.Size[1]}
	case ResizeShortest:
		hf["size"] = map[string]int{"shortest_edge": s.Size[0]}
	default:
		return nil, fmt.Errorf("preprocess: Hugging Face has no fit %q, only %q and %q", s.Resize, ResizeExact,
			ResizeShortest)
	}
	if s.Resize != "" {
		hf["resample"] = slices.Index(resamples, s.Kernel())
	}
	if processor != "ViTImageProcessor" {
		hf["do_center_crop"] = crops
	}
	if crops {
		hf["crop_size"] = map[string]int{"height": s.Crop[0], "width": s.Crop[1]}
	}
	if normalizes {
		for c, std := range s.Std {
			s.Std[c] = cmp.Or(std, 1)
		}
		hf["image_mean"], hf["image_std"] = s.Mean, s.Std
	}
	raw, err := json.MarshalIndent(hf, "", "  ")
	return append(raw, '\n'), err
}
