// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

func (c config) timm() (s Settings, err error) {
	size, err := c.Numbers("input_size", 3, 1, MaxSide)
	if err != nil {
		return s, err
	}
	if size[0] != 3 || size[1] != math.Trunc(size[1]) || size[2] != math.Trunc(size[2]) {
		return s, c.Refuse("input_size", "3 channels and two sides in whole pixels")
	}
	portion := 0.875 // timm's default
	if c.Has("crop_pct") {
		portion, err = c.Number("crop_pct", math.SmallestNonzeroFloat64, 1)
	}
	mode, modeErr := c.Text("crop_mode")
	interpolation, kernelErr := c.Text("interpolation")
	if err = cmp.Or(err, modeErr, kernelErr, c.setPixels(&s)); err != nil {
		return s, err
	}
	if interpolation = cmp.Or(interpolation, string(Bicubic)); !slices.Contains(resamples, Resample(interpolation)) {
		return s, fmt.Errorf("interpolation is %q, want one of %q", interpolation, resamples)
	}
	s.Resample, s.Crop, s.RoundCrop = Resample(interpolation), [2]int{int(size[1]), int(size[2])}, true
	if max(size[1], size[2])/portion >= MaxSide+1 {
		return s, fmt.Errorf("crop_pct is %g of %v, want a resize to at most %d", portion, s.Crop, MaxSide)
	}
	s.Size = [2]int{int(size[1] / portion), int(size[2] / portion)}
	switch cmp.Or(mode, "center") {
	case "center":
		if s.Resize = ResizeCover; s.Size[0] == s.Size[1] {
			s.Resize = ResizeShortest
		}
	case "squash":
		s.Resize = ResizeExact
	case "border":
		s.Resize = ResizeContain
		for i, mean := range s.Mean {
			s.Fill[i] = uint8(min(max(math.RoundToEven(255*mean), 0), 255))
		}
	default:
		return s, fmt.Errorf("crop_mode is %q, want center, squash or border", mode)
	}
	return s, nil
}

// cropPct returns the crop_pct of timm that gives Size, of those one of few digits, as in timm's files; 0 if there is
// none.
func (s Settings) cropPct() float64 {
	most := min(float64(s.Crop[0])/float64(s.Size[0]), float64(s.Crop[1])/float64(s.Size[1]))
	for digits := 1.0; digits <= 1e12; digits *= 10 {
		for _, unit := range []float64{digits, 2 * digits} { // 0.1, 0.05, 0.01, 0.005
			portion := math.Floor(most*unit*(1+1e-15)) / unit
			resized := func(k int) int { return int(float64(s.Crop[k]) / portion) } // timm truncates the quotient
			if 0 < portion && portion <= 1 && resized(0) == s.Size[0] && resized(1) == s.Size[1] {
				return portion
			}
		}
	}
	return 0
}

// Timm converts s to the fields of timm's pretrained_cfg, for a model of images of rows×cols: images are resized to
// input_size/crop_pct and cropped. A crop with different shares of the two sides is an error.
func (s Settings) Timm(rows, cols int) (map[string]any, error) {
	mode, portion := "squash", 1.0
	switch s.Resize {
	case ResizeShortest, ResizeCover:
		mode = "center"
	case ResizeContain:
		mode = "border"
	}
	switch {
	case s.Trim != [2]int{}:
		return nil, errTrim
	case s.Crop != [2]int{} && s.Resize == "":
		return nil, errors.New("preprocess: timm has no crop without a resize")
	case s.Crop != [2]int{}:
		if portion = s.cropPct(); portion == 0 {
			return nil, fmt.Errorf("preprocess: timm has no crop of %v out of %v: both sides have to shrink by one factor",
				s.Crop, s.Size)
		}
	}
	mean, std := s.Normalization()
	return map[string]any{"input_size": [3]int{3, rows, cols}, "interpolation": s.Kernel(), "crop_pct": portion,
		"crop_mode": mode, "mean": mean, "std": std}, nil
}
