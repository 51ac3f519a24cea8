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
	portion, mode, interpolation := 0.875, "", "" // timm's defaults
	if c.Has("crop_pct") {
		portion, err = c.Number("crop_pct", math.SmallestNonzeroFloat64, 1)
	}
	if err == nil {
		mode, err = c.Text("crop_mode")
	}
	if err == nil {
		interpolation, err = c.Text("interpolation")
	}
	if err == nil {
		err = c.setPixels(&s, true)
	}
	if err != nil {
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

// Timm holds the preprocessing fields of timm's pretrained_cfg other than input_size.
type Timm struct {
	Interpolation Resample  `json:"interpolation,omitempty"`
	CropPct       float64   `json:"crop_pct,omitempty"`
	CropMode      string    `json:"crop_mode,omitempty"`
	Mean          []float64 `json:"mean,omitempty"`
	Std           []float64 `json:"std,omitempty"`
}

// Timm converts s to timm's fields: images are resized to input_size/crop_pct and cropped. A crop with different shares
// of the two sides is an error.
func (s Settings) Timm() (Timm, error) {
	if s.Trim != [2]int{} {
		return Timm{}, errTrim
	}
	mean, std := s.Normalization()
	t := Timm{Interpolation: s.Kernel(), CropPct: 1, CropMode: "squash", Mean: mean[:], Std: std[:]}
	switch s.Resize {
	case ResizeShortest, ResizeCover:
		t.CropMode = "center"
	case ResizeContain:
		t.CropMode = "border"
	}
	switch {
	case s.Crop == [2]int{}:
		return t, nil
	case s.Resize == "":
		return t, errors.New("preprocess: timm has no crop without a resize")
	}
	t.CropPct = float64(s.Crop[0]) / float64(s.Size[0])
	resized := func(k int) int { return int(float64(s.Crop[k]) / t.CropPct) }
	for resized(0) < s.Size[0] { // timm truncates the quotient
		t.CropPct = math.Nextafter(t.CropPct, 0)
	}
	if resized(0) != s.Size[0] || resized(1) != s.Size[1] || t.CropPct > 1 {
		return t, fmt.Errorf("preprocess: timm has no crop of %v out of %v: both sides have to shrink by one factor",
			s.Crop, s.Size)
	}
	return t, nil
}
