// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"slices"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/disk"
)

// MaxPixels is the largest number of pixels of an image: that at which Pillow warns, 2^28/3.
const MaxPixels = 89_478_485

// Further limits of an image file.
const (
	maxImageSide = 65_535
	maxFileBytes = 256 << 20
)

// Image is a decoded image: 8 bits each of red, green and blue.
type Image struct {
	Height, Width int
	Pixels        []uint8   // [Height, Width, 3], row-major
	Float         []float32 // Pixels before rounding, with preprocess.Settings.Float; else nil
	Grid          [2]int    // rows and columns of patches, with preprocess.ResizePatches; else zero
	Clipped       bool      // has 16-bit grey above 255, see ClippedGrey

	grey16 []uint16 // [Height, Width] the values that Pixels clip, until Preprocess; nil if there are none of 16 bits
}

// ClippedGrey is a warning, logged once for each dataset or prediction, because such images look white to a model.
const ClippedGrey = "16-bit grey above 255 becomes 255, as in Pillow: convert copies (magick IN -auto-level -depth 8 " +
	"OUT.png), or train a classifier with --set grey16=range"

// graded returns the image with its 16-bit grey in 8 bits, by a value of preprocess.Settings.Grey16.
func (p *Image) graded(grey16 string) *Image {
	if p.grey16 == nil || grey16 == preprocess.GreyClip {
		return p
	}
	low, span := 0, 1<<16
	if grey16 == preprocess.GreyRange {
		low = int(slices.Min(p.grey16))
		span = max(1, int(slices.Max(p.grey16))-low)
	}
	out := &Image{Height: p.Height, Width: p.Width, Pixels: make([]uint8, 0, 3*len(p.grey16))}
	for _, grey := range p.grey16 {
		v := uint8((int(grey) - low) * 255 / span)
		if grey16 == preprocess.GreyScale {
			v = uint8(grey >> 8)
		}
		out.Pixels = append(out.Pixels, v, v, v)
	}
	return out
}

// RGBA returns the image in the form of the standard library: a copy.
func (p *Image) RGBA() *image.RGBA {
	m := InMemory{Info: Info{Height: p.Height, Width: p.Width, Channels: 3}, Pixels: p.Pixels}
	return m.RGBA(0)
}

// Decode reads a jpeg, png, gif, webp (of these two the first frame), bmp or tiff (its first page) file of at most
// 89,478,485 pixels, as Pillow's exif_transpose and convert("RGB") do: rotated by its EXIF
// orientation, palettes looked up, transparency dropped (not composed with a background), grey repeated, the high byte
// of 16 bits of colour, 16 bits of grey clipped to 255, CMYK converted.
//
// All formats but jpeg equal Pillow in every bit, with the exceptions in testdata/pillow/README.md. Jpegs do if built
// with -tags libjpeg; otherwise one sample in forty is about a level off. Pillow 10.3 takes the high byte of 16-bit
// grey, 9.4 and 13 clip it. Errors wrap [ErrFormat] or [ErrPixels]; any other error describes the damage.
func Decode(r io.Reader) (*Image, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	e, err := Identify(raw, 0)
	if err != nil {
		return nil, err
	}
	return e.image()
}

// DecodeFile decodes an image file, which must be a regular one. Errors name it.
func DecodeFile(path string) (*Image, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img, err := Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return img, nil
}

// DecodeBytes bounds what decoding allocates per pixel, in all, with its result and without the file: for a 16-bit tiff
// 8 in the image, 22 while its only strip is unpacked and 3 of colours, and 3 more when it is rotated; 30 for a
// progressive CMYK jpeg.
const DecodeBytes = 36

// Encoded is an image file of which only the header has been read.
type Encoded struct {
	Pixels        int64
	height, width int // before the rotation by its orientation
	raw           []byte
	format        format
	proceed       func() error // see Decode; may be nil
}

// Identify reads the header of an image file of at most the given number of pixels, 0 for Decode's, with the same
// errors. What all images together may take is bounded by the callers: by Files.image (files.go) for a training, by
// Server.decode (serve/read.go, within serve's Options.Memory) for a server.
func Identify(raw []byte, pixels int64) (e Encoded, err error) {
	defer disk.Recover(&err)
	if len(raw) > maxFileBytes {
		return e, fmt.Errorf("%w: more than %d bytes", ErrPixels, maxFileBytes)
	}
	if len(raw) == 0 {
		return e, fmt.Errorf("%w, but empty", ErrFormat)
	}
	limit := min(cmp.Or(pixels, MaxPixels), MaxPixels)
	for _, f := range formats {
		if !begins(raw, f.magic) {
			continue
		}
		info, err := f.size(bytes.NewReader(raw)) // a few bytes can declare gigabytes
		if err != nil {
			return e, disk.Damage(err)
		}
		height, width := info.Height, info.Width
		if min(height, width) < 1 || max(height, width) > maxImageSide || int64(height)*int64(width) > limit {
			return e, fmt.Errorf("%w: %d×%d pixels, use 1 to %d a side and at most %d in all", ErrPixels, width, height,
				maxImageSide, limit)
		}
		return Encoded{int64(height) * int64(width), height, width, raw, f, nil}, nil
	}
	for _, other := range unread {
		if begins(raw, other.magic) {
			return e, fmt.Errorf("%w: it is %s: convert it to JPEG or PNG", ErrFormat, other.name)
		}
	}
	return e, ErrFormat
}

// Decode decodes the file as the function Decode does. It calls proceed, which may be nil, before it reads a part of
// the file; an error of proceed ends it. The parts are kilobytes, except in webp files and with -tags libjpeg, which
// are read at once.
func (e Encoded) Decode(proceed func() error) (*Image, error) {
	var stopped error // decoders hide it
	if proceed != nil {
		e.proceed = func() error {
			if stopped == nil {
				stopped = proceed()
			}
			return stopped
		}
	}
	p, err := e.image()
	if stopped != nil {
		return nil, stopped
	}
	return p, err
}

// reader reads the file for a decoder.
func (e Encoded) reader() io.Reader {
	if e.proceed == nil {
		return bytes.NewReader(e.raw)
	}
	return &asking{bytes.NewReader(e.raw), e.proceed}
}

type asking struct {
	file    *bytes.Reader
	proceed func() error
}

// ReadAt implements [io.ReaderAt], without which a tiff is read whole before its first pixel.
func (a *asking) ReadAt(p []byte, offset int64) (int, error) {
	if err := a.proceed(); err != nil {
		return 0, err
	}
	return a.file.ReadAt(p, offset)
}

func (a *asking) Read(p []byte) (int, error) {
	if err := a.proceed(); err != nil {
		return 0, err
	}
	return a.file.Read(p[:min(len(p), 4096)])
}

// Reasons other than damage for which an image file is not decoded.
var (
	ErrFormat = errors.New("not a JPEG, PNG, GIF, WebP, BMP or TIFF image")
	ErrPixels = errors.New("image is too large")
)

// format is one kind of image file, identified by its first bytes; a ? matches any byte.
type format struct {
	name, magic string
	size        func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error) // nil for jpegs, see jpegPart
	exif        func([]byte) []byte                  // returns the TIFF structure with the orientation; may be nil
}

var formats = []format{
	{"jpeg", "\xff\xd8", jpeg.DecodeConfig, nil, jpegEXIF},
	{"png", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode, pngEXIF},
	{"gif", "GIF8?a", gif.DecodeConfig, gif.Decode, nil},
	{"webp", "RIFF????WEBPVP8", webp.DecodeConfig, webp.Decode, webpEXIF},
	{"bmp", "BM", bmp.DecodeConfig, bmp.Decode, nil},
	{"tiff", "II*\x00", tiff.DecodeConfig, decodeTIFF, tiffEXIF},
	{"tiff", "MM\x00*", tiff.DecodeConfig, decodeTIFF, tiffEXIF},
}

// unread are formats that other programs open, by the name in the first bytes.
var unread = []struct{ magic, name string }{
	{"????ftypavi", "AVIF"}, {"????ftyphei", "HEIC"}, {"????ftypmif1", "HEIC or AVIF"}, {"\xff\x0a", "JPEG XL"},
	{"\x00\x00\x00\x0cJXL ", "JPEG XL"}, {"8BPS", "Photoshop"}, {"%PDF", "PDF"},
}

// decodeTIFF undoes the multiplication by transparency that a tiff may declare, as Pillow does.
func decodeTIFF(r io.Reader) (image.Image, error) {
	img, err := tiff.Decode(r)
	switch m := img.(type) {
	case *image.RGBA:
		divide(m.Pix, 1)
	case *image.RGBA64:
		divide(m.Pix, 2)
	}
	return img, err
}

// divide divides colours by their alpha, in the high bytes of samples of the given bytes: min(255, ⌊255·c/a⌋), 0 for
// a = 0.
func divide(pix []uint8, bytes int) {
	for ; len(pix) > 0; pix = pix[4*bytes:] {
		a := int(pix[3*bytes])
		for c := 0; c < 3 && a < 255; c++ {
			pix[c*bytes] = clip8(min(a, 1) * 255 * int(pix[c*bytes]) / max(a, 1))
		}
	}
}

// begins reports whether a file begins with a text; a ? matches any byte.
func begins(raw []byte, magic string) bool {
	if len(raw) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != raw[i] {
			return false
		}
	}
	return true
}

// image decodes the file.
func (e Encoded) image() (p *Image, err error) {
	defer disk.Recover(&err)
	if p, err = e.unoriented(); err != nil {
		return nil, disk.Damage(err)
	}
	return p.turned(e.orientation()), nil
}

// preprocessed decodes the file, and resizes and crops it.
func (e Encoded) preprocessed(s preprocess.Settings) (*Image, error) {
	p, err := e.image()
	if err != nil {
		return nil, err
	}
	return p.Preprocess(s)
}

// unoriented decodes the file without its orientation.
func (e Encoded) unoriented() (*Image, error) {
	if e.format.decode == nil {
		return e.jpegPart(1, image.Rect(0, 0, e.width, e.height))
	}
	fill := uint8(0)
	switch e.format.name {
	case "gif":
		e.raw, fill = opaqueGIF(e.raw)
	case "webp":
		if still, at := webpFrame(e.raw); still != nil {
			return e.animated(still, at)
		}
	}
	img, err := e.format.decode(e.reader())
	if err != nil {
		return nil, err
	}
	p := &Image{Height: e.height, Width: e.width, Pixels: make([]uint8, 3*e.height*e.width)}
	if deep, ok := img.(*image.NRGBA64); ok && e.format.name == "png" && e.raw[pngColour] == 0 { // grey, one transparent
		p.clipped(deep.Pix, deep.Stride, 8)
		return p, nil
	}
	err = p.draw(img, fill)
	if e.format.name == "tiff" && faxOfBlack(e.raw) {
		for i, v := range p.Pixels {
			p.Pixels[i] = ^v
		}
	}
	return p, err
}

// faxOfBlack reports whether a tiff is compressed as a fax whose zeros are black, which its decoder takes for white.
func faxOfBlack(raw []byte) bool {
	const group3, group4, blackIsZero = 3, 4, 1
	compression := tiffTag(raw, tagCompression)
	return (compression == group3 || compression == group4) && tiffTag(raw, tagPhotometric) == blackIsZero
}

// orientation returns the EXIF orientation of the file.
func (e Encoded) orientation() int {
	if e.format.exif == nil {
		return upright
	}
	return orientation(e.format.exif(e.raw))
}

// draw fills p with the colours of an image as the decoder of its format returns it, ignoring alpha. fill is the index
// of the colour around an image that is smaller than p: a frame of a gif.
func (p *Image) draw(img image.Image, fill uint8) error {
	bounds := img.Bounds()
	if !bounds.In(image.Rect(0, 0, p.Width, p.Height)) {
		return fmt.Errorf("the frame %v exceeds the %d×%d pixels", bounds, p.Width, p.Height)
	}
	switch m := img.(type) {
	case *image.Gray:
		p.samples(m.Pix, m.Stride, 1, [3]int{})
	case *image.Gray16:
		p.clipped(m.Pix, m.Stride, 2)
	case *image.RGBA: // decoders return this type for images without transparency
		p.samples(m.Pix, m.Stride, 4, [3]int{0, 1, 2})
	case *image.NRGBA:
		p.samples(m.Pix, m.Stride, 4, [3]int{0, 1, 2})
	case *image.RGBA64:
		p.samples(m.Pix, m.Stride, 8, [3]int{0, 2, 4})
	case *image.NRGBA64:
		p.samples(m.Pix, m.Stride, 8, [3]int{0, 2, 4})
	case *image.YCbCr: // of webp; jpegs are not decoded here
		p.convert(m, 0, 0, webpChroma, false)
	case *image.NYCbCrA:
		p.convert(&m.YCbCr, 0, 0, webpChroma, false)
	case *image.CMYK:
		p.cmyk(m)
	case *image.Paletted:
		p.paletted(m, fill)
	default:
		return fmt.Errorf("unsupported colour type %T", img)
	}
	return nil
}

// samples copies three samples per pixel, at the given bytes of every step bytes.
func (p *Image) samples(pix []uint8, stride, step int, at [3]int) {
	out := p.Pixels
	for y := range p.Height {
		row := pix[y*stride:]
		for x := 0; x < step*p.Width; x += step {
			out[0], out[1], out[2] = row[x+at[0]], row[x+at[1]], row[x+at[2]]
			out = out[3:]
		}
	}
}

// clipped converts 16-bit grey, a sample at every step bytes, as Pillow 13 does: values above 255 become 255.
func (p *Image) clipped(pix []uint8, stride, step int) {
	p.grey16 = make([]uint16, p.Height*p.Width)
	for i := range p.grey16 {
		grey := binary.BigEndian.Uint16(pix[i/p.Width*stride+i%p.Width*step:])
		v := uint8(min(255, grey))
		copy(p.Pixels[3*i:], []uint8{v, v, v})
		p.grey16[i] = grey
	}
	p.Clipped = slices.Max(p.grey16) > 255
}

// cmyk converts as Pillow does: (1−c)(1−k) in bytes, the product divided by 255 and rounded.
func (p *Image) cmyk(m *image.CMYK) {
	out := p.Pixels
	for y := range p.Height {
		row := m.Pix[y*m.Stride:]
		for x := 0; x < 4*p.Width; x += 4 {
			white := 255 - int(row[x+3])
			for c := range 3 {
				ink := int(row[x+c])*white + 128
				out[c] = uint8(white - (ink>>8+ink)>>8)
			}
			out = out[3:]
		}
	}
}

func (p *Image) paletted(m *image.Paletted, fill uint8) {
	var colours [256][3]uint8
	for i, c := range m.Palette[:min(256, len(m.Palette))] {
		plain := color.NRGBAModel.Convert(c).(color.NRGBA) // opaque, or not multiplied by its alpha: see opaqueGIF
		colours[i] = [3]uint8{plain.R, plain.G, plain.B}
	}
	for i := range p.Height * p.Width {
		index, at := fill, image.Pt(i%p.Width, i/p.Width)
		if at.In(m.Rect) {
			index = m.Pix[m.PixOffset(at.X, at.Y)]
		}
		copy(p.Pixels[3*i:], colours[index][:])
	}
}

// opaqueGIF removes the transparency flag before the first frame, because the decoder would replace the transparent
// colour by black. fill is the index of the colour outside the frame: the transparent one, otherwise 0.
func opaqueGIF(raw []byte) (opaque []byte, fill uint8) {
	const (
		screen, extension, control, frame = 13, 0x21, 0xf9, 0x2c
		table, transparent                = 0x80, 0x01 // bits of the flags
	)
	out := bytes.Clone(raw)
	at := screen
	if len(out) > screen && out[10]&table != 0 {
		at += 3 << (out[10]&7 + 1)
	}
	for at+6 < len(out) && out[at] == extension {
		if out[at+1] == control && out[at+2] == 4 && out[at+3]&transparent != 0 {
			out[at+3] &^= transparent
			fill = out[at+6]
		}
		for at += 2; at < len(out) && out[at] != 0; { // sub-blocks, each after its length
			at += 1 + int(out[at])
		}
		at++
	}
	return out, fill
}
