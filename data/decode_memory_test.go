// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"math/bits"
	"slices"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// turnedEXIF is a TIFF structure with orientation 6.
var turnedEXIF = []byte("MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06" +
	"\x00\x00\x00\x00\x00\x00")

// zeroPNG has 16 bits of each of four channels, all zero, in seven passes.
func zeroPNG(height, width int, exif []byte) []byte {
	var pixels bytes.Buffer
	z := zlib.NewWriter(&pixels)
	for _, pass := range [][4]int{{0, 0, 8, 8}, {0, 4, 8, 8}, {4, 0, 8, 4}, {0, 2, 4, 4}, {2, 0, 4, 2}, {0, 1, 2, 2},
		{1, 0, 2, 1}} { // first row and column, and steps of both
		rows, cols := (height-pass[0]+pass[2]-1)/pass[2], (width-pass[1]+pass[3]-1)/pass[3]
		_, _ = z.Write(make([]byte, rows*(1+8*cols)))
	}
	_ = z.Close()
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	return slices.Concat([]byte("\x89PNG\r\n\x1a\n"), pngChunk("IHDR", append(header, 16, 6, 0, 0, 1)),
		pngChunk("eXIf", exif), pngChunk("IDAT", pixels.Bytes()), pngChunk("IEND", nil))
}

// pngChunk is a chunk of a png.
func pngChunk(name string, content []byte) []byte {
	body := append([]byte(name), content...)
	length := binary.BigEndian.AppendUint32(nil, uint32(len(content)))
	return binary.BigEndian.AppendUint32(append(length, body...), crc32.ChecksumIEEE(body))
}

// zeroWebP is lossless; each of its five codes has one symbol, so that a pixel takes no bits.
func zeroWebP(height, width int) []byte {
	stream := uint64(width-1) | uint64(height-1)<<14 // and no transforms, cache or groups of codes: six zeros
	at := 28 + 1 + 3 + 3
	for range 5 { // simple, one symbol, of one bit, which is 0
		stream |= 1 << at
		at += 4
	}
	body := append([]byte{0x2f}, binary.LittleEndian.AppendUint64(nil, stream)...)
	body = append(body, make([]byte, 7)...)
	out := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8L"), binary.LittleEndian.AppendUint32(nil, uint32(len(body)))...)
	out = append(out, body...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

// large are files of 1,013 × 1,531 pixels whose decoding takes the most memory of their formats.
func large(t testing.TB) map[string][]byte {
	const height, width = 1013, 1531
	r := image.Rect(0, 0, width, height)
	var gifFile, bmpFile, jpegFile, tiffFile bytes.Buffer
	gomlxtest.NoError(t, errors.Join(
		gif.Encode(&gifFile, image.NewPaletted(r, color.Palette{color.Black, color.White}), nil),
		bmp.Encode(&bmpFile, image.NewNRGBA(r)), jpeg.Encode(&jpegFile, image.NewRGBA(r), nil),
		tiff.Encode(&tiffFile, image.NewNRGBA64(r), &tiff.Options{Compression: tiff.Deflate})))
	return map[string][]byte{
		"jpeg, baseline": jpegFile.Bytes(), "gif": gifFile.Bytes(), "bmp": bmpFile.Bytes(), "webp": zeroWebP(height, width),
		"tiff, 16 bits":           tiffFile.Bytes(),
		"jpeg, progressive, grey": datatest.ProgressiveJPEG(height, width, 1, turnedEXIF),
		"jpeg, progressive":       datatest.ProgressiveJPEG(height, width, 3, turnedEXIF),
		"jpeg, progressive, CMYK": datatest.ProgressiveJPEG(height, width, 4, turnedEXIF),
		"png, 16 bits":            datatest.PNG(image.NewNRGBA64(r)), "png, 16 bits, passes": zeroPNG(height, width,
			turnedEXIF),
	}
}

// What decoding allocates in all bounds what it holds at once.
func TestDecoding_MemoryOfEachFormatIsWithinItsBound(t *testing.T) {
	most := 0.0
	for name, raw := range large(t) {
		e := gomlxtest.Must(Identify(raw, 0))(t)
		used, _ := campaign.Cost(func() {
			if p, err := e.Decode(nil); err != nil || len(p.Pixels) != 3*1013*1531 {
				t.Errorf("%s: %v", name, err)
			}
		})
		each := float64(used) / (1013 * 1531)
		t.Logf("%s: %.1f bytes a pixel, %d bits of file for a thousand", name, each, 8000*len(raw)/(1013*1531))
		if most = max(most, each); each > DecodeBytes+.5 { // buffers of a fixed size
			t.Errorf("%s: %.1f bytes a pixel, want at most %d", name, each, DecodeBytes)
		}
	}
	// The largest is a tiff that is not rotated.
	if most < DecodeBytes-4 {
		t.Errorf("at most %.1f bytes a pixel are taken of the bound of %d", most, DecodeBytes)
	}
}

// A decoder that does not ask reads the file as a whole.
func TestDecoding_EndsWithTheErrorOfItsContext(t *testing.T) {
	for name, raw := range large(t) {
		if libjpeg && raw[0] == 0xff || name == "webp" {
			continue
		}
		e, err := Identify(raw, 0)
		gomlxtest.NoError(t, err)
		calls := 0
		_, _ = e.Decode(func() error { calls++; return nil })
		if least := min(2, bits.Len(uint(len(raw)/4096))); calls < least {
			t.Errorf("%s: %d calls for %d bytes", name, calls, len(raw))
		}
		ctx, cancel := context.WithCancel(t.Context())
		last := calls / 2
		used, _ := campaign.Cost(func() {
			_, err = e.Decode(func() error {
				if last--; last < 0 {
					cancel()
				}
				return ctx.Err()
			})
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v after %d bytes of memory, want %v", name, err, used, context.Canceled)
		}
	}
}
