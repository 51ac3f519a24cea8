// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"iter"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/disk"
)

// Markers of a jpeg, ITU-T T.81, table B.1.
const (
	markerTemporary = 0x01
	markerRestart   = 0xd0 // to 0xd7
	markerStart     = 0xd8
	markerEnd       = 0xd9
	markerScan      = 0xda
	markerAPP1      = 0xe1
)

// maxScans bounds the work of decoding a jpeg: a few bytes can declare a scan over millions of blocks. Encoders write
// about ten.
const maxScans = 100

// jpegPart decodes a part of a jpeg, without orientation, at 1/scale of its size, one of jpegScales. The part is in
// pixels of the result.
func (e Encoded) jpegPart(scale int, part image.Rectangle) (*Image, error) {
	scans, last := 0, byte(0)
	for marker := range jpegSegments(e.raw) {
		if last = marker; marker == markerScan {
			scans++
		}
	}
	switch {
	case last != markerEnd:
		return nil, io.ErrUnexpectedEOF
	case scans > maxScans:
		return nil, fmt.Errorf("the image has %d scans, want at most %d", scans, maxScans)
	}
	return e.decodeJPEGPart(scale, part)
}

// jpegSegments iterates over the markers of a jpeg and their contents, to its end or to where it is truncated. It skips
// the data of a scan, in which 0xff occurs only before 0 or a restart marker.
func jpegSegments(raw []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for raw = raw[2:]; ; {
			at := bytes.IndexByte(raw, 0xff)
			if at < 0 || at+1 == len(raw) {
				return
			}
			marker := raw[at+1]
			raw = raw[at+1:]
			switch {
			case marker == 0 || marker == 0xff || marker == markerTemporary ||
				marker >= markerRestart && marker <= markerStart: // markers without content
				continue
			case marker == markerEnd:
				yield(marker, nil)
				return
			case len(raw) < 3:
				return
			}
			end := 1 + int(binary.BigEndian.Uint16(raw[1:]))
			if end < 3 || end > len(raw) || !yield(marker, raw[3:end]) {
				return
			}
			raw = raw[end:]
		}
	}
}

// cropped decodes a window, which choose selects given the sides of the oriented image, and resizes it. The result
// equals Window and Resize on the whole image, but jpegs are decoded only as far as needed. With -tags libjpeg a
// window of at least two, four or eight times the output size is decoded at a half, a quarter or an eighth, as by
// Pillow's draft. grey16 is as in preprocess.Settings.
func (e Encoded) cropped(choose func(height, width int) window, outHeight, outWidth int, kernel preprocess.Resample,
	grey16 string) (p *Image, err error) {
	defer disk.Recover(&err)
	if e.format.decode == nil && e.orientation() == upright && kernel != preprocess.Nearest {
		if w := choose(e.height, e.width); w.within(e.height, e.width) {
			p, err = e.jpegWindow(w, outHeight, outWidth, kernel)
			return p, disk.Damage(err)
		}
	}
	if p, err = e.image(); err != nil {
		return nil, err
	}
	p = p.graded(grey16)
	w := choose(p.Height, p.Width)
	out := p.Window(w.top, w.left, w.height, w.width).Resize(outHeight, outWidth, kernel)
	out.Clipped = p.Clipped
	return out, nil
}

func (w window) within(height, width int) bool {
	return w.top >= 0 && w.left >= 0 && w.top+w.height <= height && w.left+w.width <= width
}

// jpegWindow decodes the pixels of a window at the smallest size that is large enough, and resizes the window, which
// need not start at a decoded pixel.
func (e Encoded) jpegWindow(w window, outHeight, outWidth int, kernel preprocess.Resample) (*Image, error) {
	scale := 1
	for _, s := range jpegScales {
		if w.height >= s*outHeight && w.width >= s*outWidth {
			scale = s
			break
		}
	}
	up := func(n int) int { return (n + scale - 1) / scale }
	p, err := e.jpegPart(scale, image.Rect(w.left/scale, w.top/scale, up(w.left+w.width), up(w.top+w.height)))
	if err != nil {
		return nil, err
	}
	taps := func(from, length, in, out int) []tap {
		return tapsOf(kernel, in, part{float64(from%scale) / float64(scale), float64(length) / float64(scale)}, out, 0, out)
	}
	return p.resample(taps(w.top, w.height, p.Height, outHeight), taps(w.left, w.width, p.Width, outWidth),
		p.columnsFirst(outHeight, outWidth)), nil
}
