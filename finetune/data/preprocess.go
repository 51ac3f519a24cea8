// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"io"
	"math"
)

// Preprocess brings a picture of any size to the pixels a model was trained with, on the host: decode, resize, crop.
// What is left to be done, normalisation, happens in the graph (see Augment). The zero value changes nothing.
//
// It is what Hugging Face's image processors and timm's evaluation transform do with Pillow, to the bit; see
// ParsePreprocess for how their settings map to these.
type Preprocess struct {
	Fit      Fit      `json:"fit,omitempty"`
	Size     [2]int   `json:"size,omitzero"`      // rows and columns of Fit
	Resample Resample `json:"resample,omitempty"` // the kernel; empty means Bilinear

	// Crop is the rows and columns of a window around the centre, taken after the resize; zero takes none. What lies
	// beyond the picture has the colour Fill.
	Crop [2]int   `json:"crop,omitzero"`
	Fill [3]uint8 `json:"fill,omitzero"`
	// RoundCrop is torchvision's and timm's place of a window that cannot be centred: half pixels to the even number.
	// False is Hugging Face's: up and to the left.
	RoundCrop bool `json:"round_crop,omitempty"`

	// The input of the model is (pixel·Rescale − Mean)/Std per channel. Zero Rescale means 1/255, zero Std means 1.
	Rescale float64    `json:"rescale,omitempty"`
	Mean    [3]float64 `json:"mean,omitzero"`
	Std     [3]float64 `json:"std,omitzero"`
}

// Fit says which size a picture of height h and width w is resized to, given Size.
type Fit string

const (
	// FitNone keeps the size.
	FitNone Fit = ""
	// FitExact gives Size, whatever the shape of the picture: timm's "squash".
	FitExact Fit = "exact"
	// FitShortest gives the shorter side Size, which must be square, and keeps the ratio; the longer one is cut to
	// whole pixels: torchvision's Resize(n).
	FitShortest Fit = "shortest"
	// FitCover keeps the ratio and covers Size just so, rounded to whole pixels: timm for sizes that are not square.
	FitCover Fit = "cover"
	// FitContain keeps the ratio and lies within Size, rounded to whole pixels: timm's "border".
	FitContain Fit = "contain"
)

// Validate reports the first field out of its range.
func (p Preprocess) Validate() error {
	side := func(v [2]int) bool { return min(v[0], v[1]) >= 1 && max(v[0], v[1]) <= maxSide }
	switch p.Fit {
	case FitNone:
		if p.Size != [2]int{} {
			return fmt.Errorf("data: preprocess: size %v without fit", p.Size)
		}
	case FitExact, FitShortest, FitCover, FitContain:
		if !side(p.Size) {
			return fmt.Errorf("data: preprocess: size %v, want two sides of 1 to %d", p.Size, maxSide)
		}
	default:
		return fmt.Errorf("data: preprocess: fit %q, want exact, shortest, cover, contain or none", p.Fit)
	}
	if p.Fit == FitShortest && p.Size[0] != p.Size[1] {
		return fmt.Errorf("data: preprocess: size %v, want one number twice for the shortest side", p.Size)
	}
	if p.Crop != [2]int{} && !side(p.Crop) {
		return fmt.Errorf("data: preprocess: crop %v, want two sides of 1 to %d", p.Crop, maxSide)
	}
	if k, _ := p.kernel().kernel(); k == nil && p.Resample != Nearest {
		return fmt.Errorf("data: preprocess: resample %q, want one of %q", p.Resample, resamples)
	}
	if !(p.Rescale >= 0) || math.IsInf(p.Rescale, 0) {
		return fmt.Errorf("data: preprocess: rescale %g, want above 0", p.Rescale)
	}
	return p.Augment().Validate()
}

func (p Preprocess) kernel() Resample {
	if p.Resample == "" {
		return Bilinear
	}
	return p.Resample
}

// OutputSize returns the height and width that every picture gets; an error if they depend on the picture.
func (p Preprocess) OutputSize() (height, width int, err error) {
	switch {
	case p.Crop != [2]int{}:
		return p.Crop[0], p.Crop[1], nil
	case p.Fit == FitExact:
		return p.Size[0], p.Size[1], nil
	}
	return 0, 0, fmt.Errorf("data: preprocess: without a crop or fit %q pictures differ in size", FitExact)
}

// Augment returns the normalisation as what the graph does with a set of pictures of the final size.
func (p Preprocess) Augment() Augment {
	a := Augment{Mean: p.Mean, Std: p.Std}
	if p.Rescale == 0 || p.Rescale == 1.0/255 {
		return a
	}
	for c := range a.Std { // (x·r − m)/s = (x/255 − m/255r)/(s/255r)
		a.Mean[c] /= 255 * p.Rescale
		a.Std[c] = orElse(a.Std[c], 1) / (255 * p.Rescale)
	}
	return a
}

// Image decodes a picture file and applies p.
func (p Preprocess) Image(r io.Reader) (*Picture, error) {
	picture, err := Decode(r)
	if err != nil {
		return nil, err
	}
	return p.Apply(picture)
}

// Apply resizes and crops a picture, which is not changed.
func (p Preprocess) Apply(picture *Picture) (*Picture, error) {
	if p.Fit != FitNone {
		height, width := p.fit(picture.Height, picture.Width)
		if int64(height)*int64(width) > maxPixels {
			return nil, fmt.Errorf("%d×%d pixels become %d×%d, want at most %d", picture.Width, picture.Height,
				width, height, maxPixels)
		}
		picture = picture.Resize(height, width, p.kernel())
	}
	if p.Crop != [2]int{} {
		picture = p.crop(picture)
	}
	return picture, nil
}

// fit returns the size after the resize.
func (p Preprocess) fit(height, width int) (newHeight, newWidth int) {
	if p.Fit == FitShortest {
		if short := p.Size[0]; width <= height {
			return max(1, short*height/width), short
		} else {
			return short, max(1, short*width/height)
		}
	}
	rows, cols := float64(height)/float64(p.Size[0]), float64(width)/float64(p.Size[1])
	ratio := 0.0
	switch p.Fit {
	case FitCover:
		ratio = min(rows, cols)
	case FitContain:
		ratio = max(rows, cols)
	default:
		return p.Size[0], p.Size[1]
	}
	scaled := func(side int) int { return max(1, int(math.RoundToEven(float64(side)/ratio))) }
	return scaled(height), scaled(width)
}

// crop takes the window in the middle of a picture.
func (p Preprocess) crop(picture *Picture) *Picture {
	out := &Picture{Height: p.Crop[0], Width: p.Crop[1], Pixels: make([]uint8, 3*p.Crop[0]*p.Crop[1])}
	for i := range out.Pixels {
		out.Pixels[i] = p.Fill[i%3]
	}
	top, left := p.start(picture.Height, out.Height), p.start(picture.Width, out.Width)
	from, to := max(0, left), min(picture.Width, left+out.Width) // columns of the picture that are seen
	for y := max(0, top); y < min(picture.Height, top+out.Height); y++ {
		row := picture.Pixels[3*y*picture.Width:]
		copy(out.Pixels[3*((y-top)*out.Width+from-left):], row[3*from:3*to])
	}
	return out
}

// start returns where a window of the given length begins on an axis; negative where it is longer.
func (p Preprocess) start(length, window int) int {
	middle := float64(length-window) / 2
	switch {
	case !p.RoundCrop:
		return int(math.Floor(middle))
	case window > length: // torchvision pads the odd pixel at the end
		return int(math.Ceil(middle))
	}
	return int(math.RoundToEven(middle))
}
