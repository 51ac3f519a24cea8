// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// goldenFiles returns the images beside cases.json, by name.
func goldenFiles(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, c := range goldenCases(t, goldenDir) {
		raw, err := os.ReadFile(filepath.Join(goldenDir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		files[c.File] = raw
	}
	return files
}

func TestDecodeRefusesDamage(t *testing.T) {
	files := goldenFiles(t)
	huge := bytes.Clone(files["rgb.png"]) // signature 8, length 4, "IHDR" 4, width 4, height 4, 5 more, checksum
	binary.BigEndian.PutUint32(huge[16:], 65_535)
	binary.BigEndian.PutUint32(huge[20:], 65_535)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	wide := bytes.Clone(huge)
	binary.BigEndian.PutUint32(wide[16:], 70_000)
	binary.BigEndian.PutUint32(wide[20:], 1)
	binary.BigEndian.PutUint32(wide[29:], crc32.ChecksumIEEE(wide[12:29]))
	bomb := []byte("GIF89a\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\xff\xff\xff" +
		",\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x02D\x01\x00;")
	corrupt := bytes.Clone(files["rgb.png"])
	corrupt[len(corrupt)-14]++ // checksum of the pixels
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":           {nil, "not a JPEG, PNG, GIF, WebP, BMP or TIFF"},
		"text":            {[]byte("no image\n"), "not a JPEG, PNG, GIF, WebP, BMP or TIFF"},
		"a gigapixel png": {huge, "65535×65535 pixels"},
		"a wide png":      {wide, "70000×1 pixels"},
		"a gigapixel gif": {bomb, "65535×65535 pixels"},
		"a checksum":      {corrupt, "checksum"},
		"signature alone": {[]byte("\x89PNG\r\n\x1a\n"), "truncated"},
		"marker alone":    {[]byte("\xff\xd8"), "truncated"},
	} {
		_, err := campaign.Malformed(t, func() error {
			_, err := Decode(bytes.NewReader(c.file), 0)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	for name, raw := range files {
		ends := []int{len(raw) * 2 / 3}
		if filepath.Ext(name) == ".jpg" { // anywhere
			for end := len(raw) - 1; end >= 2; end -= 5 {
				ends = append(ends, end)
			}
		}
		for _, end := range ends {
			if p, err := Decode(bytes.NewReader(raw[:end]), 0); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %d of %d bytes are decoded as %v, error %v", name, end, len(raw), p, err)
			}
		}
	}
}

func TestTheLimitOfPixelsIsEnforced(t *testing.T) {
	raw := goldenFiles(t)["rgb.png"] // 17×13
	if _, err := decode(raw, 17*13); err != nil {
		t.Error(err)
	}
	if _, err := decode(raw, 17*13-1); err == nil {
		t.Error("one pixel too many is decoded")
	}
}

// Ink c and black k leave (1−c)(1−k) of the light, with the product of the two rounded to a byte: Pillow's cmyk2rgb.
func TestInkIsConvertedWithOneRounding(t *testing.T) {
	img := image.NewCMYK(image.Rect(0, 0, 256, 256))
	for i := range 256 * 256 {
		copy(img.Pix[4*i:], []uint8{uint8(i), uint8(3 * i), uint8(255 - i), uint8(i >> 8)}) // black by row
	}
	p := &Image{Height: 256, Width: 256, Pixels: make([]uint8, 3*256*256)}
	p.cmyk(img)
	for i, got := range p.Pixels {
		c, white := int(img.Pix[i/3*4+i%3]), 255-i/3/256
		if want := white - (2*c*white+255)/510; int(got) != want { // (a + ½·255)/255, rounded down
			t.Fatalf("ink %d, black %d: %d, want %d", c, 255-white, got, want)
		}
	}
}

// Damaged EXIF data may rotate an image differently, but never make it an error.
func TestDamagedEXIFDoesNotLoseTheImage(t *testing.T) {
	raw := goldenFiles(t)["turned6.jpg"]
	begin := bytes.Index(raw, []byte(exifPrefix))
	end := begin - 2 + int(binary.BigEndian.Uint16(raw[begin-2:]))
	upright, turned := 0, 0
	for at := begin; at < end; at++ {
		for _, v := range []byte{0x00, 0xff, raw[at] ^ 0x01, raw[at] ^ 0x80} {
			damaged := bytes.Clone(raw)
			damaged[at] = v
			p, err := Decode(bytes.NewReader(damaged), 0)
			if err != nil {
				t.Fatalf("byte %d as %#x: %v", at, v, err)
			}
			switch [2]int{p.Height, p.Width} {
			case [2]int{3, 5}:
				upright++
			case [2]int{5, 3}:
				turned++
			default:
				t.Fatalf("byte %d as %#x: %d×%d pixels", at, v, p.Width, p.Height)
			}
		}
	}
	if upright == 0 || turned == 0 {
		t.Errorf("%d upright, %d turned: the damage never, or always, mattered", upright, turned)
	}
	if p, err := Decode(bytes.NewReader(raw), 0); err != nil || p.Height != 5 {
		t.Errorf("undamaged: %v", err)
	}
}

// FuzzDecode: any bytes give an error or an image within the limit, and a valid orientation.
func FuzzDecode(f *testing.F) {
	files := goldenFiles(f)
	var seeds [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		seeds = append(seeds, files[name])
	}
	const limit = 1 << 14
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		p, err := decode(raw, limit)
		if err == nil && (p.Height*p.Width > limit || len(p.Pixels) != 3*p.Height*p.Width) {
			t.Errorf("%d×%d pixels in %d bytes", p.Width, p.Height, len(p.Pixels))
		}
		for _, kind := range formats {
			if kind.exif == nil || !begins(raw, kind.magic) {
				continue
			}
			if v := orientation(kind.exif(raw)); v < upright || v > lastOrientation {
				t.Errorf("orientation %d", v)
			}
		}
	})
}

// FuzzEXIF: an orientation other than upright is in the bytes as an entry: tag, type, count and value.
func FuzzEXIF(f *testing.F) {
	var seeds [][]byte
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		tiff := map[binary.AppendByteOrder]string{binary.LittleEndian: "II", binary.BigEndian: "MM"}[order]
		raw := order.AppendUint32(order.AppendUint16([]byte(tiff), 42), 8)
		raw = order.AppendUint16(raw, 2)
		for _, tag := range []uint16{0x0100, tagOrientation} {
			raw = order.AppendUint32(order.AppendUint16(order.AppendUint16(raw, tag), typeShort), 1)
			raw = order.AppendUint16(order.AppendUint16(raw, 6), 0)
		}
		seeds = append(seeds, order.AppendUint32(raw, 0))
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		v := orientation(raw)
		if v == upright {
			return
		}
		for i := range raw { // some entry contains it
			for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
				if entry := raw[i:]; len(entry) >= 12 && order.Uint16(entry) == 0x0112 && order.Uint16(entry[2:]) == 3 &&
					int(order.Uint16(entry[8:])) == v && v > 1 && v <= 8 {
					return
				}
			}
		}
		t.Errorf("orientation %d of no entry", v)
	})
}

// The expected values are from Pillow 13.0.0's Image.open(file).convert("RGB") of mode I;16.
func TestGreyOf16BitsIsClippedAsByPillow13(t *testing.T) {
	img := image.NewGray16(image.Rect(0, 0, 8, 1))
	for x, v := range []uint16{0, 1, 100, 255, 256, 300, 1000, 65535} {
		img.SetGray16(x, 0, color.Gray16{Y: v})
	}
	got, err := decode(datatest.PNG(img), maxPixels)
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range []uint8{0, 1, 100, 255, 255, 255, 255, 255} {
		if [3]uint8(got.Pixels[3*x:]) != [3]uint8{want, want, want} {
			t.Errorf("pixel %d is %v, want %d", x, got.Pixels[3*x:3*x+3], want)
		}
	}
	if !got.Clipped {
		t.Error("the image is not marked as clipped")
	}
	for x := range 8 {
		img.SetGray16(x, 0, color.Gray16{Y: 255})
	}
	if got, err = decode(datatest.PNG(img), maxPixels); err != nil || got.Clipped {
		t.Errorf("255 is marked as clipped: %v, %v", got, err)
	}
}

// greyRamp is a 16-bit image from 2,000 to 60,000, of which an 8-bit decoder sees only white.
func greyRamp() []byte {
	img := image.NewGray16(image.Rect(0, 0, 30, 2))
	for x := range 30 {
		img.SetGray16(x, 0, color.Gray16{Y: uint16(2000 * (x + 1))})
		img.SetGray16(x, 1, color.Gray16{Y: uint16(2000 * (x + 1))})
	}
	return datatest.PNG(img)
}

func TestADatasetWarnsOnceOfClippedGrey(t *testing.T) {
	files := numberedFiles(t, 5, map[int][]byte{1: greyRamp(), 3: greyRamp()})
	var log strings.Builder
	if _, err := files.Load(t.Context(), toTiny, gomlxtest.Logger(&log)); err != nil {
		t.Fatal(err)
	}
	if want := ClippedGrey + " dataset=numbered images=2 of=5\n"; log.String() != want {
		t.Errorf("in memory: %q, want %q", log.String(), want)
	}
	for name, read := range map[string]func(s *Stream) error{
		"evaluated": func(s *Stream) error { _, err := s.Load(t.Context(), []int{0, 1}); return err },
		"whole":     func(s *Stream) error { _, err := s.show(t.Context(), 1, view{}); return err },
		"cropped": func(s *Stream) error {
			v := view{Augment: Augment{CropScale: [2]float64{0.5, 1}, CropRatio: [2]float64{1, 1}, Size: [2]int{3, 2}}}
			_, err := s.show(t.Context(), 1, v)
			return err
		},
	} {
		log.Reset()
		stream, err := files.Stream(toTiny, Streaming{Logger: gomlxtest.Logger(&log)})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(read(stream), read(First(stream, 4).(*Stream))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := ClippedGrey + " dataset=numbered image=0001.png\n"; log.String() != want {
			t.Errorf("%s: %q, want %q", name, log.String(), want)
		}
	}
}
