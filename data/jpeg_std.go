// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !libjpeg

package data

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

// libjpeg is whether libjpeg decodes JPEG files, for the tests that compare their bits.
const libjpeg = false

// jpegScales are the parts of its size that a jpeg can be decoded at, the smallest first: only the whole.
var jpegScales = []int{1}

// decodeJPEGPart decodes by the standard library, which decodes all of an image. Its planes are those of libjpeg but
// for the rounding in the inverse cosine transform, a level in 3 % of the samples; what makes RGB of them is
// libjpeg's way, see chroma.go, and is made of the part alone.
func decodeJPEGPart(raw []byte, height, width, _ int, part image.Rectangle) (*Image, error) {
	img, err := jpeg.Decode(bytes.NewReader(raw))
	if err != nil { // some kinds it does not know, such as restart markers in a progressive jpeg
		return nil, fmt.Errorf("%w (if other programs show it: save it anew, or build with -tags libjpeg)", err)
	}
	if m, ok := img.(*image.YCbCr); ok {
		p := &Image{Height: part.Dy(), Width: part.Dx(), Pixels: make([]uint8, 3*part.Dy()*part.Dx())}
		p.jpeg(m, part.Min.Y, part.Min.X)
		return p, nil
	}
	p := &Image{Height: height, Width: width, Pixels: make([]uint8, 3*height*width)}
	if err := p.draw(img, 0); err != nil {
		return nil, err
	}
	return p.windowed(window{top: part.Min.Y, left: part.Min.X, height: part.Dy(), width: part.Dx()}), nil
}
