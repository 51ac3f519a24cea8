// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"image"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// cropped decodes the window of an identified file that choose says, for the sides of the image as it is turned, and
// resizes it: what windowed and Resize make of the whole image, but decoding jpegs no further than they are shown,
// and with -tags libjpeg no larger. There a window that has at least twice, four or eight times the size that is
// asked for is decoded at a half, a quarter or an eighth, as Pillow's draft does it.
func (f format) cropped(raw []byte, height, width int, choose func(height, width int) window, outHeight, outWidth int,
	kernel preprocess.Resample) (p *Image, err error) {
	defer recoverDamage(&err)
	if f.decode == nil && f.orientation(raw) == upright && kernel != preprocess.Nearest {
		if w := choose(height, width); w.within(height, width) {
			p, err = jpegWindow(raw, height, width, w, outHeight, outWidth, kernel)
			return p, asDamage(err)
		}
	}
	if p, err = f.image(raw, height, width); err != nil {
		return nil, err
	}
	return p.windowed(choose(p.Height, p.Width)).Resize(outHeight, outWidth, kernel), nil
}

func (w window) within(height, width int) bool {
	return w.top >= 0 && w.left >= 0 && w.top+w.height <= height && w.left+w.width <= width
}

// jpegWindow decodes the pixels that a window touches, at the smallest size that is large enough, and resizes the
// window, which need not begin with one of them.
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
	p, err := jpegPart(raw, height, width, scale,
		image.Rect(w.left/scale, w.top/scale, up(w.left+w.width), up(w.top+w.height)))
	if err != nil {
		return nil, err
	}
	taps := func(from, length, in, out int) []tap {
		return tapsOf(kernel, in, part{float64(from%scale) / float64(scale), float64(length) / float64(scale)}, out)
	}
	return p.resample(taps(w.top, w.height, p.Height, outHeight), taps(w.left, w.width, p.Width, outWidth),
		p.columnsFirst(outHeight, outWidth)), nil
}
