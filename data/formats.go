// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"io"
	"iter"
)

// Cameras store an image as the sensor recorded it, and the EXIF tag Orientation is the rotation for display. Only this
// tag is read. Invalid EXIF data is no error: it means "upright".

const (
	exifPrefix      = "Exif\x00\x00"
	tagOrientation  = 0x0112
	tagCompression  = 0x0103
	tagPhotometric  = 0x0106
	typeShort       = 3
	typeLong        = 4
	typeSignedShort = 8
	typeSignedLong  = 9
	pngColour       = 25 // the byte with the type of colours
	upright         = 1
	mirrored        = 2
	upsideDown      = 4 // mirrored vertically
	lastOrientation = 8
)

// orientation reads the tag from a TIFF structure; some writers of png and webp put the prefix of jpeg before it.
func orientation(tiff []byte) int {
	if v := tiffTag(bytes.TrimPrefix(tiff, []byte(exifPrefix)), tagOrientation); v >= upright && v <= lastOrientation {
		return v
	}
	return upright
}

// tiffTag returns the first number of a tag in a TIFF structure, -1 if it has none of two or four bytes: byte order,
// 42, offset of the first directory; there a count and entries of tag, type, number of values and value (TIFF 6.0,
// section 2).
func tiffTag(tiff []byte, tag uint16) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case len(tiff) < 8:
		return -1
	case bytes.HasPrefix(tiff, []byte("MM\x00\x2a")):
		order = binary.BigEndian
	case !bytes.HasPrefix(tiff, []byte("II\x2a\x00")):
		return -1
	}
	begin := int64(order.Uint32(tiff[4:]))
	if begin+2 > int64(len(tiff)) {
		return -1
	}
	entries := tiff[begin+2:]
	for range order.Uint16(tiff[begin:]) {
		if len(entries) < 12 {
			break
		}
		if order.Uint16(entries) == tag {
			switch order.Uint16(entries[2:]) {
			case typeShort, typeSignedShort:
				return int(order.Uint16(entries[8:]))
			case typeLong, typeSignedLong: // as Pillow reads it
				return int(order.Uint32(entries[8:]))
			}
		}
		entries = entries[12:]
	}
	return -1
}

// jpegEXIF returns the content after the prefix of the first APP1 segment with this prefix, before the pixels.
func jpegEXIF(raw []byte) []byte {
	for marker, segment := range jpegSegments(raw) {
		if marker == markerScan {
			break
		}
		if body, ok := bytes.CutPrefix(segment, []byte(exifPrefix)); ok && marker == markerAPP1 {
			return body
		}
	}
	return nil
}

// pngEXIF returns the eXIf chunk. Chunks are a length, four letters, as many bytes and a checksum.
func pngEXIF(raw []byte) []byte {
	for raw = raw[8:]; len(raw) >= 12; {
		length := int64(binary.BigEndian.Uint32(raw))
		if length > int64(len(raw)-12) {
			break
		}
		if string(raw[4:8]) == "eXIf" {
			return raw[8 : 8+length]
		}
		raw = raw[12+length:]
	}
	return nil
}

// webpEXIF returns the EXIF chunk.
func webpEXIF(raw []byte) []byte {
	for name, content := range riffChunks(raw[webpHeader:]) {
		if name == "EXIF" {
			return content
		}
	}
	return nil
}

// tiffEXIF returns the file, which is such a structure itself.
func tiffEXIF(raw []byte) []byte { return raw }

// Mirrored returns the image with left and right exchanged.
func (p *Image) Mirrored() *Image { return p.turned(mirrored) }

// turned returns the image rotated by an orientation. Each of the eight is a walk over the pixels from one corner: down
// and to the right in the result are steps in the source.
func (p *Image) turned(orientation int) *Image {
	if orientation == upright {
		return p
	}
	h, w := p.Height, p.Width
	walk := [lastOrientation + 1]struct{ corner, down, right int }{
		mirrored:   {w - 1, w, -1},
		3:          {h*w - 1, -w, -1}, // rotated by 180°
		upsideDown: {(h - 1) * w, -w, 1},
		5:          {0, 1, w},            // transposed
		6:          {(h - 1) * w, 1, -w}, // rotated by 90° clockwise
		7:          {h*w - 1, -1, -w},    // rotated by 180°, then transposed
		8:          {w - 1, -1, w},       // rotated by 90° counter-clockwise
	}[orientation]
	out := &Image{Height: h, Width: w, Pixels: make([]uint8, 0, len(p.Pixels)), Clipped: p.Clipped}
	if orientation >= 5 {
		out.Height, out.Width = w, h
	}
	for y := range out.Height {
		for x := range out.Width {
			at := walk.corner + y*walk.down + x*walk.right
			out.Pixels = append(out.Pixels, p.Pixels[3*at:3*at+3]...)
			if p.grey16 != nil {
				out.grey16 = append(out.grey16, p.grey16[at])
			}
		}
	}
	return out
}

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
func (e Encoded) animated(still []byte, at image.Point) (*Image, error) {
	first, err := Identify(still, e.Pixels)
	if err != nil {
		return nil, err
	}
	switch {
	case int64(binary.LittleEndian.Uint32(e.raw[4:])) > int64(len(e.raw)-8):
		return nil, io.ErrUnexpectedEOF
	case at.X+first.width > e.width || at.Y+first.height > e.height:
		return nil, errors.New("the first frame is larger than the image")
	}
	first.proceed = e.proceed
	frame, err := first.unoriented()
	if err != nil {
		return nil, err
	}
	return frame.Window(-at.Y, -at.X, e.height, e.width), nil
}
