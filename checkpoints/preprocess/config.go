// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxConfigBytes = 1 << 20

// Read reads a file as Parse does.
func Read(file string) (Settings, error) {
	f, err := os.Open(file)
	if err != nil {
		return Settings{}, fmt.Errorf("preprocess: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return Settings{}, fmt.Errorf("preprocess: %w", err)
	}
	s, err := Parse(raw)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// Parse reads the preprocessing of a pretrained model, in one of two forms.
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
func Parse(raw []byte) (Settings, error) {
	c := config{}
	if len(raw) > maxConfigBytes {
		return Settings{}, fmt.Errorf("preprocess: more than %d bytes", maxConfigBytes)
	}
	if err := json.Unmarshal(raw, &c); err != nil || c == nil {
		return Settings{}, errors.New("preprocess: not a JSON object")
	}
	s, err := c.parse()
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return Settings{}, fmt.Errorf("preprocess: %s", strings.TrimPrefix(err.Error(), "preprocess: "))
	}
	return s, nil
}

// config is a file's fields, each read when it is asked for.
type config map[string]json.RawMessage

func (c config) parse() (Settings, error) {
	if inner, ok := c["pretrained_cfg"]; ok {
		c = nil
		if err := json.Unmarshal(inner, &c); err != nil || c == nil {
			return Settings{}, errors.New("pretrained_cfg is no object")
		}
		return c.timm()
	}
	if c.has("input_size") {
		return c.timm()
	}
	return c.huggingFace()
}

func (c config) has(key string) bool { return c[key] != nil && string(c[key]) != "null" }

// read decodes a field that must be there.
func (c config) read(key string, value any) error {
	if !c.has(key) {
		return fmt.Errorf("%s is missing", key)
	}
	if err := json.Unmarshal(c[key], value); err != nil {
		return fmt.Errorf("%s is %.60s, want another type", key, c[key])
	}
	return nil
}

// numbers reads a field of exactly as many numbers as there are places.
func (c config) numbers(key string, places []float64) error {
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
func (c config) sides(key string, names ...string) (sides []int, ok bool) {
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
func (c config) normalisation(s *Settings, mean, std string) error {
	if err := c.numbers(mean, s.Mean[:]); err != nil {
		return err
	}
	if err := c.numbers(std, s.Std[:]); err != nil {
		return err
	}
	if min(s.Std[0], s.Std[1], s.Std[2]) <= 0 {
		return fmt.Errorf("%s is %v, want numbers above 0", std, s.Std)
	}
	return nil
}
