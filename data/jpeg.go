// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"iter"
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

// jpegPart decodes a part of a jpeg of the given sides, without orientation, at 1/scale of its size, one of jpegScales.
// The part is in pixels of the result.
func jpegPart(file source, height, width, scale int, part image.Rectangle) (*Image, error) {
	if err := wholeJPEG(file.raw); err != nil {
		return nil, err
	}
	return decodeJPEGPart(file, height, width, scale, part)
}

// wholeJPEG refuses a jpeg that is truncated, or too expensive to decode.
func wholeJPEG(raw []byte) error {
	scans, last := 0, byte(0)
	for marker := range jpegSegments(raw) {
		if last = marker; marker == markerScan {
			scans++
		}
	}
	switch {
	case last != markerEnd:
		return io.ErrUnexpectedEOF
	case scans > maxScans:
		return fmt.Errorf("the image has %d scans, want at most %d", scans, maxScans)
	}
	return nil
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
