// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/binary"
	"errors"
	"image"
	"io"
	"iter"
)

// riffChunks iterates over chunks from a position on: four letters, a length and as many bytes, padded to an even
// number.
func riffChunks(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for len(raw) >= 8 {
			length := int64(binary.LittleEndian.Uint32(raw[4:]))
			if length > int64(len(raw)-8) || !yield(string(raw[:4]), raw[8:8+length]) {
				return
			}
			raw = raw[min(8+length+length&1, int64(len(raw))):]
		}
	}
}

const webpHeader = 12 // bytes before the first chunk: RIFF, a length, WEBP

// webpFrame returns the first frame of an animated webp as a webp of its own, without its transparency, and where its
// top left corner is in the image; nil if the file is not animated. An ANMF chunk has 24 bits each of x/2, y/2,
// width-1, height-1 and duration, a byte of flags, and the chunks of the frame.
func webpFrame(raw []byte) (still []byte, at image.Point) {
	for name, content := range riffChunks(raw[webpHeader:]) {
		if name != "ANMF" || len(content) < 16 {
			continue
		}
		for name, pixels := range riffChunks(content[16:]) {
			if name != "VP8 " && name != "VP8L" {
				continue
			}
			uint24 := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
			padded := len(pixels) + len(pixels)&1
			still = binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(padded+webpHeader))
			still = binary.LittleEndian.AppendUint32(append(still, "WEBP"+name...), uint32(len(pixels)))
			still = append(append(still, pixels...), 0)[:8+webpHeader+padded]
			return still, image.Pt(2*uint24(content), 2*uint24(content[3:]))
		}
	}
	return nil, at
}

// animated decodes the first frame of an animated webp on black, as Pillow does.
func (f format) animated(file source, still []byte, at image.Point, height, width int) (*Image, error) {
	_, rows, columns, err := identify(still, int64(height)*int64(width))
	if err != nil {
		return nil, err
	}
	switch {
	case int64(binary.LittleEndian.Uint32(file.raw[4:])) > int64(len(file.raw)-8):
		return nil, io.ErrUnexpectedEOF
	case at.X+columns > width || at.Y+rows > height:
		return nil, errors.New("the first frame is larger than the image")
	}
	frame, err := f.unoriented(source{still, file.proceed}, rows, columns)
	if err != nil {
		return nil, err
	}
	return frame.windowed(window{top: -at.Y, left: -at.X, height: height, width: width}), nil
}
