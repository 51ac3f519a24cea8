// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package preprocess describes how an image becomes the pixels that a model was trained with: resize, crop and
// normalization. It reads and writes Hugging Face's preprocessor_config.json and timm's config.json; package data
// applies the settings to images.
//
//	raw, err := os.ReadFile("vit/preprocessor_config.json")
//	settings, err := preprocess.Parse(raw, "vit")
//
// Rows come before columns everywhere.
package preprocess

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxSide is the largest image side that settings may have.
const MaxSide = 16384

// Settings bring an image to a model's size on the host: resize, then crop. Normalization is left to the graph. The
// zero value changes nothing.
//
// The result equals Hugging Face's image processors and timm's evaluation transform with Pillow bit for bit, or with
// Float torchvision's on tensors; see [Parse] for the mapping of their files.
type Settings struct {
	Resize   Resize   `json:"fit,omitempty"`
	Size     [2]int   `json:"size,omitzero"`      // rows and columns of Resize
	Resample Resample `json:"resample,omitempty"` // the kernel; empty means Bilinear
	Patch    int      `json:"patch,omitempty"`    // side of the patches of ResizePatches, in pixels
	Float    bool     `json:"float,omitempty"`    // no rounding to 8 bits after the resize, as in DINOv3's processor
	// Grey16 is how 16-bit grey is converted before the resize: GreyClip, GreyScale or GreyRange.
	Grey16 string `json:"grey16,omitempty"`

	// Crop is the rows and columns of a window around the centre, taken after the resize; zero takes none. Pixels beyond
	// the image have the colour Fill.
	Crop [2]int   `json:"crop,omitzero"`
	Fill [3]uint8 `json:"fill,omitzero"`
	// RoundCrop rounds half-pixel crop offsets to even, as torchvision and timm do; false rounds them down, as Hugging
	// Face does.
	RoundCrop bool `json:"round_crop,omitempty"`
	// Trim is the rows and columns kept of the result, from the top left; zero keeps all. A patch embedding ignores the
	// pixels beyond whole patches: of 384 pixels, patches of 14 see 378.
	Trim [2]int `json:"trim,omitzero"`

	// The input of the model is (pixel·Rescale − Mean)/Std per channel. Zero Rescale means 1/255, zero Std means 1.
	Rescale float64    `json:"rescale,omitempty"`
	Mean    [3]float64 `json:"mean,omitzero"`
	Std     [3]float64 `json:"std,omitzero"`
}

// Values of Settings.Grey16.
const (
	GreyClip  = ""      // values above 255 become 255, as in Pillow
	GreyScale = "scale" // the high byte
	GreyRange = "range" // the image's smallest value becomes 0 and its largest 255
)

// Resize is the rule by which an image is resized to Size; "" keeps its size.
type Resize string

const (
	// ResizeExact resizes to Size, ignoring the aspect ratio: timm's "squash".
	ResizeExact Resize = "exact"
	// ResizeShortest resizes the shorter side to Size, which must be square, and keeps the aspect ratio; the longer one is
	// rounded down: torchvision's Resize(n).
	ResizeShortest Resize = "shortest"
	// ResizeCover keeps the aspect ratio and just covers Size, in whole pixels: timm for sizes that are not square.
	ResizeCover Resize = "cover"
	// ResizeContain keeps the aspect ratio and fits within Size, rounded to whole pixels: timm's "border".
	ResizeContain Resize = "contain"
	// ResizePatches keeps the aspect ratio up to whole patches, at most as many as Size has, see [Grids]. Images become
	// strips: their patches below one another, row by row, padded with black to that number.
	ResizePatches Resize = "patches"
)

// Resample is the kernel of a resize, widened (anti-aliased) when shrinking.
type Resample string

// The kernels, by Pillow's names.
const (
	Nearest  Resample = "nearest"  // the input pixel at the output pixel's centre, without averaging
	Lanczos  Resample = "lanczos"  // sinc(x)·sinc(x/3)
	Bilinear Resample = "bilinear" // 1−|x|
	Bicubic  Resample = "bicubic"  // Keys' cubic with a = −½
	Box      Resample = "box"      // 1 for −½ < x <= ½
	Hamming  Resample = "hamming"  // sinc(x)·(0.54 + 0.46 cos πx)
)

// resamples lists the kernels by their numbers in Pillow and so in Hugging Face's files.
var resamples = []Resample{Nearest, Lanczos, Bilinear, Bicubic, Box, Hamming}

// errTrim refuses to write Trim: other software trims in the model.
var errTrim = errors.New("preprocess: files of other software cannot trim images to whole patches")

// Validate reports the first field out of its range.
func (s Settings) Validate() error {
	side := func(v [2]int) bool { return min(v[0], v[1]) >= 1 && max(v[0], v[1]) <= MaxSide }
	switch s.Resize {
	case "":
		if s.Size != [2]int{} {
			return fmt.Errorf("preprocess: size %v without fit", s.Size)
		}
	case ResizeExact, ResizeShortest, ResizeCover, ResizeContain, ResizePatches:
		if !side(s.Size) {
			return fmt.Errorf("preprocess: size %v, want two sides of 1 to %d", s.Size, MaxSide)
		}
	default:
		return fmt.Errorf("preprocess: fit %q, want exact, shortest, cover, contain, patches or none", s.Resize)
	}
	patches := s.Resize == ResizePatches
	switch {
	case !slices.Contains([]string{GreyClip, GreyScale, GreyRange}, s.Grey16):
		return fmt.Errorf("preprocess: grey16 %q, want scale, range, or \"\" to clip", s.Grey16)
	case s.Float && (patches || s.Resample == Nearest):
		return fmt.Errorf("preprocess: float with fit %q, resample %q: want another of either", s.Resize, s.Resample)
	case patches && (s.Patch < 1 || s.Size[0]%s.Patch != 0 || s.Size[1]%s.Patch != 0 || s.Crop != [2]int{}):
		return fmt.Errorf("preprocess: patches of %d pixels for %v, crop %v: want whole patches, and no crop", s.Patch,
			s.Size, s.Crop)
	case s.Resize == ResizeShortest && s.Size[0] != s.Size[1]:
		return fmt.Errorf("preprocess: size %v, want one number twice for the shortest side", s.Size)
	case s.Crop != [2]int{} && !side(s.Crop):
		return fmt.Errorf("preprocess: crop %v, want two sides of 1 to %d", s.Crop, MaxSide)
	}
	if s.Trim != [2]int{} {
		t := s
		t.Trim = [2]int{}
		rows, cols, err := t.OutputSize()
		if err != nil || patches || !side(s.Trim) || s.Trim[0] > rows || s.Trim[1] > cols {
			return fmt.Errorf("preprocess: trim %v of %d×%d, want two sides within a fixed size of images", s.Trim, rows, cols)
		}
	}
	if !slices.Contains(resamples, s.Kernel()) {
		return fmt.Errorf("preprocess: resample %q, want one of %q", s.Resample, resamples)
	}
	if !(s.Rescale >= 0) || math.IsInf(s.Rescale, 0) {
		return fmt.Errorf("preprocess: rescale %g, want above 0", s.Rescale)
	}
	mean, std := s.Normalization()
	for c := range std {
		if !(s.Std[c] >= 0) || math.IsInf(std[c], 0) || math.IsNaN(mean[c]) || math.IsInf(mean[c], 0) {
			return fmt.Errorf("preprocess: mean %v, std %v must be finite and std not negative", s.Mean, s.Std)
		}
	}
	return nil
}

// Kernel returns Resample, or Bilinear if it is empty.
func (s Settings) Kernel() Resample { return cmp.Or(s.Resample, Bilinear) }

// Normalization returns mean and standard deviation of pixels scaled to 0…1: the model's input is
// (pixel/255 − mean)/std per channel.
func (s Settings) Normalization() (mean, std [3]float64) {
	scale := scale(cmp.Or(s.Rescale, 1.0/255))
	for c := range std {
		mean[c], std[c] = s.Mean[c]/scale, cmp.Or(s.Std[c], 1)/scale
	}
	return mean, std
}

// scale is the divisor of mean and std in units of rescaled pixels: (x·r − m)/s = (x/255 − m/255r)/(s/255r).
func scale(rescale float64) float64 {
	if rescale == 1.0/255 {
		return 1
	}
	return 255 * rescale
}

// For returns the settings for images of another size, with the same share of the image cropped.
func (s Settings) For(rows, cols int) (Settings, error) {
	if s.Resize == "" && s.Crop == [2]int{} {
		return s, nil // the images have this size already
	}
	if s.Resize == ResizePatches {
		s.Size = [2]int{rows, cols}
		return s, s.Validate()
	}
	oldRows, oldCols, err := s.OutputSize()
	if err != nil || oldRows == rows && oldCols == cols {
		return s, err
	}
	if s.Trim != [2]int{} {
		s.Trim = [2]int{}
		return s.For(rows, cols)
	}
	scaled := func(size, to, from int) int { return int(math.Round(float64(size) * float64(to) / float64(from))) }
	switch portion := s.cropPct(); {
	case s.Resize == "":
	case s.RoundCrop && portion > 0:
		s.Size = [2]int{int(float64(rows) / portion), int(float64(cols) / portion)}
	default:
		s.Size = [2]int{scaled(s.Size[0], rows, oldRows), scaled(s.Size[1], cols, oldCols)}
	}
	if s.Crop != [2]int{} {
		s.Crop = [2]int{rows, cols}
	}
	if s.Resize == ResizeShortest && s.Size[0] != s.Size[1] {
		s.Resize = ResizeCover
	}
	return s, s.Validate()
}

// OutputSize returns the height and width of every output; an error if they depend on the image.
func (s Settings) OutputSize() (height, width int, err error) {
	switch {
	case s.Trim != [2]int{}:
		return s.Trim[0], s.Trim[1], nil
	case s.Crop != [2]int{}:
		return s.Crop[0], s.Crop[1], nil
	case s.Resize == ResizeExact:
		return s.Size[0], s.Size[1], nil
	case s.Resize == ResizePatches:
		return s.patches() * s.Patch, s.Patch, nil
	}
	return 0, 0, fmt.Errorf("preprocess: without a crop or fit %q images differ in size", ResizeExact)
}

// patches returns the number of patches that ResizePatches allows.
func (s Settings) patches() int { return s.Size[0] / s.Patch * (s.Size[1] / s.Patch) }

// Resized returns the size of an image of the given size after the resize.
func (s Settings) Resized(height, width int) (newHeight, newWidth int) {
	rows, cols := float64(height)/float64(s.Size[0]), float64(width)/float64(s.Size[1])
	ratio := max(rows, cols)
	switch s.Resize {
	case "":
		return height, width
	case ResizeExact:
		return s.Size[0], s.Size[1]
	case ResizeShortest:
		short := min(height, width)
		return s.Size[0] * height / short, s.Size[0] * width / short
	case ResizePatches:
		grid := gridOf(height, width, s.patches())
		return s.Patch * grid[0], s.Patch * grid[1]
	case ResizeCover:
		ratio = min(rows, cols)
	}
	scaled := func(side int) int { return max(1, int(math.RoundToEven(float64(side)/ratio))) }
	return scaled(height), scaled(width)
}

// Window returns the part kept of an image of the given size after the resize: its start, negative on an axis where
// Crop is longer than the image, and its size.
func (s Settings) Window(height, width int) (start, size [2]int) {
	size = [2]int{height, width}
	if s.Crop != [2]int{} {
		start, size = [2]int{s.cropStart(height, s.Crop[0]), s.cropStart(width, s.Crop[1])}, s.Crop
	}
	if s.Trim != [2]int{} {
		size = s.Trim
	}
	return start, size
}

// cropStart centres a window of the crop on an axis.
func (s Settings) cropStart(length, window int) int {
	middle := float64(length-window) / 2
	switch {
	case !s.RoundCrop:
		return int(math.Floor(middle))
	case window > length: // torchvision pads the odd pixel at the end
		return int(math.Ceil(middle))
	}
	return int(math.RoundToEven(middle))
}

// maxAspect bounds the aspect ratio of a grid; an image beyond it is squeezed.
const maxAspect = 4

// gridOf returns the rows and columns of patches of an image of height h and width w that keeps its aspect ratio in at
// most the given number of patches: ⌈h·s⌉ and ⌈w·s⌉ of the largest possible scale s, as in SigLIP 2's NaFlex
// (https://arxiv.org/abs/2502.14786). The image is resized to whole patches, so each side is stretched by less than
// one.
//
// Method: increase s; the side that reaches its next integer first grows by one.
func gridOf(height, width, patches int) [2]int {
	height, width = min(height, maxAspect*width), min(width, maxAspect*height)
	grid := [2]int{1, 1}
	for {
		next, rows, cols := grid, grid[0]*width, grid[1]*height // s·h and s·w, times height and width
		if rows <= cols {
			next[0]++
		}
		if cols <= rows {
			next[1]++
		}
		if next[0]*next[1] > patches {
			return grid
		}
		grid = next
	}
}

// Grids lists the grids that ResizePatches produces: rows·cols ≤ patches < (rows+1)·(cols+1), aspect ratio bounded.
func Grids(patches int) (grids [][2]int) {
	for rows := 1; rows <= patches; rows++ {
		for cols := 1; rows*cols <= patches; cols++ {
			if (rows+1)*(cols+1) > patches && max(rows, cols) <= maxAspect*min(rows, cols) {
				grids = append(grids, [2]int{rows, cols})
			}
		}
	}
	return grids
}
