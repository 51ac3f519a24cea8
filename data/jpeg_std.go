// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !libjpeg

package data

import (
	"fmt"
	"image"
	"image/jpeg"
)

// libjpeg reports whether libjpeg decodes JPEG files; tests of exact bits depend on it.
const libjpeg = false

// jpegScales are the reductions at which a jpeg can be decoded, the smallest result first: only the full size.
var jpegScales = []int{1}

// decodeJPEGPart decodes with the standard library, always the whole image. Its planes equal libjpeg's except for the
// rounding in the inverse cosine transform, a level in 3 % of the samples. The part is converted to RGB as in libjpeg,
// see chroma.go.
func (e Encoded) decodeJPEGPart(_ int, part image.Rectangle) (*Image, error) {
	img, err := jpeg.Decode(e.reader())
	if err != nil { // unsupported kinds, such as restart markers in a progressive jpeg
		return nil, fmt.Errorf("%w (if other programs open the image: save it again, or build with -tags libjpeg)", err)
	}
	if m, ok := img.(*image.YCbCr); ok {
		p := &Image{Height: part.Dy(), Width: part.Dx(), Pixels: make([]uint8, 3*part.Dy()*part.Dx())}
		p.jpeg(m, part.Min.Y, part.Min.X)
		return p, nil
	}
	p := &Image{Height: e.height, Width: e.width, Pixels: make([]uint8, 3*e.height*e.width)}
	if err := p.draw(img, 0); err != nil {
		return nil, err
	}
	if part == image.Rect(0, 0, e.width, e.height) {
		return p, nil
	}
	return p.Window(part.Min.Y, part.Min.X, part.Dy(), part.Dx()), nil
}
