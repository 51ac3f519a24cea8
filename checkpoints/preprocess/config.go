// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/internal/strictjson"
)

// Parse reads the preprocessing of a pretrained model, in one of two forms.
//
// Hugging Face's preprocessor_config.json, or image_processor in its processor_config.json: do_resize with size
// {height, width} (ResizeExact) or {shortest_edge} (ResizeShortest) and resample, do_center_crop with crop_size,
// do_rescale with rescale_factor, do_normalize with image_mean and image_std. A single number as size (old files) means
// a square for ViT, DeiT and Beit, the shortest edge for Siglip, Bit and CLIP. An unknown enabled field is an error,
// since the pixels would differ. modelType, the model_type of config.json, names the processor where the file does
// not, as google/vit-base-patch16-224's; resample then defaults to the processor's.
//
// timm's config.json with pretrained_cfg (or that object alone): input_size, interpolation, crop_pct, crop_mode, mean,
// std, where crop_mode "center" is ResizeShortest (ResizeCover if not square), "squash" ResizeExact, "border"
// ResizeContain with the mean colour around, each to ⌊input_size/crop_pct⌋ and then cropped.
func Parse(raw []byte, modelType string) (s Settings, err error) {
	c, err := parse(raw, modelType)
	switch {
	case err != nil:
	case c.ofTimm:
		s, err = c.timm()
	default:
		s, err = c.huggingFace()
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return Settings{}, fmt.Errorf("preprocess: %s", strings.TrimPrefix(err.Error(), "preprocess: "))
	}
	return s, nil
}

// ParseNormalization reads only mean and standard deviation from the files of Parse, for any number of channels: one
// value per channel, for pixels scaled to 0…1; nil if unknown.
func ParseNormalization(raw []byte, modelType string, channels int) (mean, std []float64, err error) {
	c, err := parse(raw, modelType)
	var rescale float64
	if err == nil {
		rescale, mean, std, err = c.pixels(channels)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("preprocess: %w", err)
	}
	for i := range mean {
		mean[i], std[i] = mean[i]/scale(rescale), cmp.Or(std[i], 1)/scale(rescale)
	}
	return mean, std, nil
}

// config is a file's fields, or timm's pretrained_cfg in it.
type config struct {
	strictjson.Object
	modelType string
	ofTimm    bool
}

func parse(raw []byte, modelType string) (c config, err error) {
	c.modelType = modelType
	if c.Object, err = strictjson.ParseObject(raw); err != nil {
		return c, err
	}
	switch {
	case c.Has("image_processor"):
		c.Object, err = c.Object.Object("image_processor")
	case c.Has("pretrained_cfg"):
		c.ofTimm = true
		args, _ := c.Object.Object("model_args")
		if c.Object, err = c.Object.Object("pretrained_cfg"); err == nil {
			c.fineTuned(args)
		}
	default:
		c.ofTimm = c.Has("input_size")
	}
	return c, err
}

// fineTuned replaces the input size of the original model by that of a fine-tuned one's arguments, as timm does for
// files of its older versions.
func (c config) fineTuned(args strictjson.Object) {
	fixed, _ := c.Bool("fixed_input_size", false)
	if dynamic, _ := args.Bool("dynamic_img_size", false); !fixed || dynamic || !args.Has("img_size") {
		return
	}
	var input, sides []int
	if c.Read("input_size", &input, "") != nil || len(input) != 3 {
		return
	}
	var side int
	if args.Read("img_size", &side, "") == nil {
		sides = []int{side, side}
	} else if args.Read("img_size", &sides, "") != nil || len(sides) != 2 {
		return
	}
	c.Object["input_size"], _ = json.Marshal([]int{input[0], sides[0], sides[1]})
}

// sides reads integers by name from an object with just these names.
func (c config) sides(key string, names ...string) (sides []int, ok bool) {
	var object map[string]int
	if c.Read(key, &object, "") != nil || len(object) != len(names) {
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

// pixels reads the normalization of pixels: the model's input is (pixel·rescale − mean)/std. Both are 0 if pixels are
// not normalized, which for std means 1; the software's if the file does not specify them, nil if that is unknown.
func (c config) pixels(channels int) (rescale float64, mean, std []float64, err error) {
	rescale, meanKey, stdKey, normalize := 1.0/255, "mean", "std", true
	if !c.ofTimm {
		meanKey, stdKey = "image_mean", "image_std"
		on, err := c.Bool("do_rescale", true)
		if err == nil && !on {
			rescale = 1
		} else if err == nil && c.Has("rescale_factor") {
			rescale, err = c.Number("rescale_factor", 1e-6, 1e6)
		}
		if err == nil {
			normalize, err = c.Bool("do_normalize", true)
		}
		if err != nil {
			return 0, nil, nil, err
		}
	}
	if !normalize {
		return rescale, make([]float64, channels), make([]float64, channels), nil
	}
	if !c.Has(meanKey) && !c.Has(stdKey) {
		byDefault := processor{pixels: imageNet} // timm's
		if !c.ofTimm {
			byDefault, _, err = c.processor()
		}
		if len(byDefault.pixels[0]) != channels {
			return rescale, nil, nil, err
		}
		return rescale, slices.Clone(byDefault.pixels[0]), slices.Clone(byDefault.pixels[1]), err
	}
	const most = 1e4
	if mean, err = c.perChannel(meanKey, channels, -most, most); err == nil {
		std, err = c.perChannel(stdKey, channels, 1e-6, most)
	}
	return rescale, mean, std, err
}

// perChannel reads a number for each channel. If a model of other images has the numbers of RGB, timm uses their mean.
func (c config) perChannel(key string, channels int, low, high float64) ([]float64, error) {
	numbers, err := c.Numbers(key, channels, low, high)
	if err == nil || !c.ofTimm {
		return numbers, err
	}
	rgb, failed := c.Numbers(key, 3, low, high)
	if failed != nil {
		return nil, err
	}
	return slices.Repeat([]float64{(rgb[0] + rgb[1] + rgb[2]) / 3}, channels), nil
}

// setPixels sets Rescale, Mean and Std.
func (c config) setPixels(s *Settings) error {
	rescale, mean, std, err := c.pixels(len(s.Mean))
	if err == nil && mean == nil {
		err = errors.New("it does not specify mean and std")
	}
	if err != nil {
		return err
	}
	if rescale != 1.0/255 {
		s.Rescale = rescale
	}
	s.Mean, s.Std = [3]float64(mean), [3]float64(std)
	return nil
}
