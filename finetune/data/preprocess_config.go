// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

const maxConfigBytes = 1 << 20

// ReadPreprocess reads a file as ParsePreprocess does.
func ReadPreprocess(file string) (Preprocess, error) {
	f, err := os.Open(file)
	if err != nil {
		return Preprocess{}, fmt.Errorf("data: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return Preprocess{}, fmt.Errorf("data: %w", err)
	}
	p, err := ParsePreprocess(raw)
	if err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// ParsePreprocess reads the preprocessing of a pretrained model, in one of two forms.
//
// Hugging Face's preprocessor_config.json: do_resize with size {height, width} (FitExact) or {shortest_edge}
// (FitShortest) and resample, do_center_crop with crop_size, do_rescale with rescale_factor, do_normalize with
// image_mean and image_std. A size that is one number, as old files have it, is read for processors that are known to
// take it for a square (ViT, DeiT, Beit, Siglip) or for the shortest edge (Bit, CLIP). A field that is switched on and
// not known is an error, since the pixels would differ.
//
// timm's config.json with pretrained_cfg (or that object alone): input_size, interpolation, crop_pct, crop_mode, mean,
// std, where crop_mode "center" is FitShortest (FitCover if not square), "squash" FitExact, "border" FitContain with
// the mean colour around, each to ⌊input_size/crop_pct⌋ and then cropped. timm takes bilinear for "center" with a size
// that is not square, whatever interpolation says; here the file is obeyed.
func ParsePreprocess(raw []byte) (Preprocess, error) {
	c := preprocessConfig{}
	if len(raw) > maxConfigBytes {
		return Preprocess{}, fmt.Errorf("data: preprocess: more than %d bytes", maxConfigBytes)
	}
	if err := json.Unmarshal(raw, &c); err != nil || c == nil {
		return Preprocess{}, errors.New("data: preprocess: not a JSON object")
	}
	p, err := c.parse()
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return Preprocess{}, fmt.Errorf("data: preprocess: %s", strings.TrimPrefix(err.Error(), "data: preprocess: "))
	}
	return p, nil
}

// preprocessConfig is a file's fields, each read when it is asked for.
type preprocessConfig map[string]json.RawMessage

func (c preprocessConfig) parse() (Preprocess, error) {
	if inner, ok := c["pretrained_cfg"]; ok {
		c = nil
		if err := json.Unmarshal(inner, &c); err != nil || c == nil {
			return Preprocess{}, errors.New("pretrained_cfg is no object")
		}
		return c.timm()
	}
	if c.has("input_size") {
		return c.timm()
	}
	return c.huggingFace()
}

func (c preprocessConfig) has(key string) bool { return c[key] != nil && string(c[key]) != "null" }

// read decodes a field that must be there.
func (c preprocessConfig) read(key string, value any) error {
	if !c.has(key) {
		return fmt.Errorf("%s is missing", key)
	}
	if err := json.Unmarshal(c[key], value); err != nil {
		return fmt.Errorf("%s is %.60s, want another type", key, c[key])
	}
	return nil
}

// numbers reads a field of exactly as many numbers as there are places.
func (c preprocessConfig) numbers(key string, places []float64) error {
	var values []float64
	if err := c.read(key, &values); err != nil {
		return err
	}
	if copy(places, values); len(values) != len(places) {
		return fmt.Errorf("%s has %d numbers, want %d", key, len(values), len(places))
	}
	return nil
}

// sides reads integers by name from an object with just these names.
func (c preprocessConfig) sides(key string, names ...string) (sides []int, ok bool) {
	var object map[string]int
	if json.Unmarshal(c[key], &object) != nil || len(object) != len(names) {
		return nil, false
	}
	for _, name := range names {
		side, found := object[name]
		if !found {
			return nil, false
		}
		sides = append(sides, side)
	}
	return sides, true
}

// normalisation reads Mean and Std, which timm and Hugging Face both give for pixels of 0…1 or as rescaled.
func (c preprocessConfig) normalisation(p *Preprocess, mean, std string) error {
	if err := c.numbers(mean, p.Mean[:]); err != nil {
		return err
	}
	if err := c.numbers(std, p.Std[:]); err != nil {
		return err
	}
	if min(p.Std[0], p.Std[1], p.Std[2]) <= 0 {
		return fmt.Errorf("%s is %v, want numbers above 0", std, p.Std)
	}
	return nil
}

// The fields of Hugging Face's form that are read, and those that say nothing about pixels. do_convert_rgb is always
// obeyed: pictures are RGB here.
var (
	hfRead = []string{"do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale", "rescale_factor",
		"do_normalize", "image_mean", "image_std"}
	hfIgnored = []string{"image_processor_type", "feature_extractor_type", "processor_class", "auto_map",
		"_valid_processor_keys", "do_convert_rgb", "data_format", "input_data_format", "default_to_square", "device",
		"disable_grouping", "return_tensors"}
	// What one number as size means to processors.
	hfSquare   = []string{"ViT", "DeiT", "Beit", "Siglip"}
	hfShortest = []string{"Bit", "CLIP"}
)

func (c preprocessConfig) huggingFace() (p Preprocess, err error) {
	for key, value := range c {
		known := slices.Contains(hfRead, key) || slices.Contains(hfIgnored, key)
		if off := string(value) == "null" || string(value) == "false"; !known && !off {
			return p, fmt.Errorf("%s is not known and is %.60s: what it does to pictures is not done here", key, value)
		}
	}
	if !slices.ContainsFunc(hfRead, c.has) {
		return p, errors.New("neither Hugging Face's fields (size, image_mean) nor timm's (pretrained_cfg, input_size)")
	}
	on := func(key string, byDefault bool) (on bool) {
		if !c.has(key) || err != nil {
			return byDefault && err == nil
		}
		err = c.read(key, &on)
		return on && err == nil
	}
	resize, crop := on("do_resize", true), on("do_center_crop", c.has("crop_size"))
	rescale, normalise := on("do_rescale", true), on("do_normalize", true)
	if err != nil {
		return p, err
	}
	if resize {
		if err := c.hfResize(&p); err != nil {
			return p, err
		}
	}
	if crop {
		sides, ok := c.sides("crop_size", "height", "width")
		if side := 0; !ok && json.Unmarshal(c["crop_size"], &side) == nil {
			sides, ok = []int{side, side}, true
		}
		if !ok || slices.Min(sides) < 1 {
			return p, fmt.Errorf("crop_size is %.60s, want {height, width}", c["crop_size"])
		}
		p.Crop = [2]int(sides)
	}
	p.Rescale = 1
	if rescale {
		p.Rescale = 1.0 / 255
		if c.has("rescale_factor") {
			err = c.read("rescale_factor", &p.Rescale)
		}
		if err == nil && p.Rescale <= 0 {
			err = fmt.Errorf("rescale_factor is %g, want above 0", p.Rescale)
		}
		if p.Rescale == 1.0/255 {
			p.Rescale = 0
		}
	}
	if err == nil && normalise {
		err = c.normalisation(&p, "image_mean", "image_std")
	}
	return p, err
}

// hfResize reads size and resample.
func (c preprocessConfig) hfResize(p *Preprocess) error {
	number := -1
	if err := c.read("resample", &number); err != nil {
		return err
	}
	if number < 0 || number >= len(resamples) {
		return fmt.Errorf("resample is %d, want 0 to %d", number, len(resamples)-1)
	}
	p.Resample = resamples[number]
	if sides, ok := c.sides("size", "height", "width"); ok {
		p.Fit, p.Size = FitExact, [2]int(sides)
		return nil
	}
	if side, ok := c.sides("size", "shortest_edge"); ok {
		p.Fit, p.Size = FitShortest, [2]int{side[0], side[0]}
		return nil
	}
	var side int
	if err := c.read("size", &side); err != nil {
		return fmt.Errorf("size is %.60s, want {height, width} or {shortest_edge}", c["size"])
	}
	var processor string
	for _, key := range []string{"image_processor_type", "feature_extractor_type"} {
		if c.has(key) && processor == "" {
			if err := c.read(key, &processor); err != nil {
				return err
			}
		}
	}
	for _, suffix := range []string{"Fast", "ImageProcessor", "FeatureExtractor"} {
		processor = strings.TrimSuffix(processor, suffix)
	}
	switch p.Size = [2]int{side, side}; {
	case slices.Contains(hfSquare, processor):
		p.Fit = FitExact
	case slices.Contains(hfShortest, processor):
		p.Fit = FitShortest
	default:
		return fmt.Errorf("size is %d, which processors read differently: want {height, width} or {shortest_edge}", side)
	}
	return nil
}

func (c preprocessConfig) timm() (p Preprocess, err error) {
	var size [3]float64
	if err := c.numbers("input_size", size[:]); err != nil {
		return p, err
	}
	if size[0] != 3 || min(size[1], size[2]) < 1 || max(size[1], size[2]) > maxSide ||
		size[1] != math.Trunc(size[1]) || size[2] != math.Trunc(size[2]) {
		return p, fmt.Errorf("input_size is %v, want 3 channels and sides of 1 to %d", size, maxSide)
	}
	portion, mode, interpolation := 0.875, "center", string(Bicubic) // timm's defaults
	for _, field := range []struct {
		key   string
		value any
	}{{"crop_pct", &portion}, {"crop_mode", &mode}, {"interpolation", &interpolation}} {
		if c.has(field.key) && err == nil {
			err = c.read(field.key, field.value)
		}
	}
	if err == nil {
		err = c.normalisation(&p, "mean", "std")
	}
	switch {
	case err != nil:
		return p, err
	case !(portion > 0 && portion <= 1):
		return p, fmt.Errorf("crop_pct is %g, want above 0 to 1", portion)
	case !slices.Contains(resamples, Resample(interpolation)):
		return p, fmt.Errorf("interpolation is %q, want one of %q", interpolation, resamples)
	}
	p.Resample, p.Crop, p.RoundCrop = Resample(interpolation), [2]int{int(size[1]), int(size[2])}, true
	if max(size[1], size[2])/portion >= maxSide+1 {
		return p, fmt.Errorf("crop_pct is %g of %v, want a resize to at most %d", portion, p.Crop, maxSide)
	}
	p.Size = [2]int{int(size[1] / portion), int(size[2] / portion)}
	switch mode {
	case "center":
		if p.Fit = FitCover; p.Size[0] == p.Size[1] {
			p.Fit = FitShortest
		}
	case "squash":
		p.Fit = FitExact
	case "border":
		p.Fit = FitContain
		for i, mean := range p.Mean {
			p.Fill[i] = clip8(int(math.RoundToEven(255 * mean)))
		}
	default:
		return p, fmt.Errorf("crop_mode is %q, want center, squash or border", mode)
	}
	return p, nil
}

// HuggingFace writes p in Hugging Face's form, which ParsePreprocess and transformers read: ViTImageProcessor, or
// BitImageProcessor where there is a crop or a shortest side. Fits of timm for which Hugging Face has no word are an
// error; RoundCrop is lost, which may move a crop by one pixel.
func (p Preprocess) HuggingFace() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	crops, normalises := p.Crop != [2]int{}, p.Mean != [3]float64{} || p.Std != [3]float64{}
	processor := "ViTImageProcessor"
	if crops || p.Fit == FitShortest {
		processor = "BitImageProcessor"
	}
	hf := map[string]any{
		"image_processor_type": processor, "do_convert_rgb": true,
		"do_resize": p.Fit != FitNone, "do_rescale": true, "do_normalize": normalises,
		"rescale_factor": orElse(p.Rescale, 1.0/255),
	}
	switch p.Fit {
	case FitNone:
	case FitExact:
		hf["size"] = map[string]int{"height": p.Size[0], "width": p.Size[1]}
	case FitShortest:
		hf["size"] = map[string]int{"shortest_edge": p.Size[0]}
	default:
		return nil, fmt.Errorf("data: preprocess: Hugging Face has no fit %q: export with %q or %q", p.Fit, FitExact,
			FitShortest)
	}
	if p.Fit != FitNone {
		hf["resample"] = slices.Index(resamples, p.kernel())
	}
	if processor == "BitImageProcessor" {
		hf["do_center_crop"] = crops
	}
	if crops {
		hf["crop_size"] = map[string]int{"height": p.Crop[0], "width": p.Crop[1]}
	}
	if normalises {
		for c, std := range p.Std {
			p.Std[c] = orElse(std, 1)
		}
		hf["image_mean"], hf["image_std"] = p.Mean, p.Std
	}
	raw, err := json.MarshalIndent(hf, "", "  ")
	return append(raw, '\n'), err
}
