// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"image"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// cropped decodes a window of an identified file, which choose selects given the sides of the oriented image, and
// resizes it. The result equals windowed and Resize on the whole image, but jpegs are decoded only as far as needed.
// With -tags libjpeg a window of at least two, four or eight times the output size is decoded at a half, a quarter or
// an eighth, as by Pillow's draft.
func (f format) cropped(raw []byte, height, width int, choose func(height, width int) window, outHeight, outWidth int,
	kernel preprocess.Resample) (p *Image, err error) {
	defer recoverDamage(&err)
	if f.decode == nil && f.orientation(raw) == upright && kernel != preprocess.Nearest {
		if w := choose(height, width); w.within(height, width) {
			p, err = jpegWindow(raw, height, width, w, outHeight, outWidth, kernel)
			return p, asDamage(err)
		}
	}
	if p, err = f.image(source{raw: raw}, height, width); err != nil {
		return nil, err
	}
	out := p.windowed(choose(p.Height, p.Width)).Resize(outHeight, outWidth, kernel)
	out.Clipped = p.Clipped
	return out, nil
}

func (w window) within(height, width int) bool {
	return w.top >= 0 && w.left >= 0 && w.top+w.height <= height && w.left+w.width <= width
}

// jpegWindow decodes the pixels of a window at the smallest size that is large enough, and resizes the window, which
// need not start at a decoded pixel.
func jpegWindow(raw []byte, height, width int, w window, outHeight, outWidth int, kernel preprocess.Resample) (*Image,
	error) {
	scale := 1
	for _, s := range jpegScales {
		if w.height >= s*outHeight && w.width >= s*outWidth {
			scale = s
			break
		}
	}
	up := func(n int) int { return (n + scale - 1) / scale }
	p, err := jpegPart(source{raw: raw}, height, width, scale,
		image.Rect(w.left/scale, w.top/scale, up(w.left+w.width), up(w.top+w.height)))
	if err != nil {
		return nil, err
	}
	taps := func(from, length, in, out int) []tap {
		return tapsOf(kernel, in, part{float64(from%scale) / float64(scale), float64(length) / float64(scale)}, out, 0, out)
	}
	return p.resample(taps(w.top, w.height, p.Height, outHeight), taps(w.left, w.width, p.Width, outWidth),
		p.columnsFirst(outHeight, outWidth)), nil
}
