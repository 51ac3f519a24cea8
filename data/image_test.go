// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"io"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// goldenFiles returns the images beside cases.json, by name.
func goldenFiles(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, c := range goldens[[]goldenCase](t, goldenDir) {
		files[c.File] = gomlxtest.Must(os.ReadFile(filepath.Join(goldenDir, c.File)))(t)
	}
	return files
}

// Files of other formats, with too many pixels, or damaged; a whole one, and a window of it.
func TestDecode_Refuses(t *testing.T) {
	files := goldenFiles(t)
	sized := func(width, height uint32) []byte {
		header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)
		raw := files["rgb.png"]
		return slices.Concat(raw[:8], pngChunk("IHDR", append(header, raw[24:29]...)), raw[33:])
	}
	corrupt := bytes.Clone(files["rgb.png"])
	corrupt[len(corrupt)-14]++ // checksum of the pixels
	// A repeated scan takes few bytes in the file, and a pass over the image each time.
	slow := files["progressive.jpg"]
	first := bytes.Index(slow, []byte{0xff, markerScan})
	second := first + 2 + bytes.Index(slow[first+2:], []byte{0xff, 0xc4})
	slow = slices.Concat(slow[:first], bytes.Repeat(slow[first:second], maxScans), slow[first:])
	for name, c := range map[string]struct {
		file []byte
		want error // nil for damage
	}{
		"empty": {nil, ErrFormat}, "text": {[]byte("no image\n"), ErrFormat}, "heic": {[]byte("\x00\x00\x00\x18ftypheic"),
			ErrFormat},
		"gigapixels": {sized(65_535, 65_535), ErrPixels}, "a wide png": {sized(70_000, 1), ErrPixels},
		"a gif": {[]byte("GIF89a\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\xff\xff\xff\xff" +
			"\x00\x02\x02D\x01\x00;"), ErrPixels},
		"a checksum": {corrupt, nil}, "signature": {[]byte("\x89PNG\r\n\x1a\n"), nil}, "marker": {[]byte("\xff\xd8"), nil},
		"scans": {slow, nil},
	} {
		_, err := campaign.Malformed(t, func() error { _, err := Decode(bytes.NewReader(c.file)); return err })
		if is.Refused(t, name, err); !errors.Is(err, c.want) && c.want != nil ||
			c.want == nil && (errors.Is(err, ErrFormat) || errors.Is(err, ErrPixels)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for pixels, want := range map[int64]error{17 * 13: nil, 17*13 - 1: ErrPixels} {
		is.Error(t, fmt.Sprint(pixels, " pixels"), is.ErrorOf(Identify(files["rgb.png"], pixels)), want)
	}
	for name, raw := range files {
		ends := []int{len(raw) * 2 / 3}
		for end := len(raw) - 1; filepath.Ext(name) == ".jpg" && end >= 2; end -= 5 { // anywhere
			ends = append(ends, end)
		}
		for _, end := range ends {
			is.Refused(t, name, is.ErrorOf(Decode(bytes.NewReader(raw[:end]))))
			e, headed := Identify(raw[:end], 0)
			if _, err := e.cropped(func(int, int) window { return window{height: 2, width: 2} }, 2, 2,
				preprocess.Bilinear, ""); err == nil && headed == nil {
				t.Errorf("%s: a window of %d of %d bytes is decoded", name, end, len(raw))
			}
		}
	}
}

// Ink c and black k leave (1−c)(1−k) of the light, with the product of the two rounded to a byte: Pillow's cmyk2rgb.
func TestCMYK_IsConvertedWithOneRounding(t *testing.T) {
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

// FuzzDecode: any bytes give an error or an image within the limit, and a valid orientation. A window of it, here the
// last four bytes, is an error or has the requested size.
func FuzzDecode(f *testing.F) {
	files := goldenFiles(f)
	var seeds [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		seeds = append(seeds, slices.Concat(files[name], []byte{255, 2, 3, 5}))
	}
	const limit = 1 << 14
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		if len(raw) < 4 {
			return
		}
		raw, at := raw[:len(raw)-4], raw[len(raw)-4:]
		e, err := Identify(raw, limit)
		if err != nil {
			return
		}
		if p, err := e.image(); err == nil && (p.Height*p.Width > limit || len(p.Pixels) != 3*p.Height*p.Width) {
			t.Errorf("%d×%d pixels in %d bytes", p.Width, p.Height, len(p.Pixels))
		}
		if v := e.orientation(); v < upright || v > lastOrientation {
			t.Errorf("orientation %d", v)
		}
		shown := window{top: int(int8(at[0])), left: int(int8(at[1])), height: 1 + int(at[2]), width: 1 + int(at[3])}
		p, err := e.cropped(func(int, int) window { return shown }, 7, 5, preprocess.Bilinear, preprocess.GreyRange)
		if err == nil && (p.Height != 7 || p.Width != 5 || len(p.Pixels) != 105) {
			t.Errorf("%+v: %d×%d", shown, p.Width, p.Height)
		}
	})
}

// FuzzEXIF: an orientation other than upright is in the bytes as an entry: tag, type, count and value.
func FuzzEXIF(f *testing.F) {
	little := []byte("II*\x00\x08\x00\x00\x00\x02\x00\x00\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00" + // another tag
		"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00")
	long := []byte("MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x04\x00\x00\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00")
	if v := orientation(long); v != 6 {
		f.Errorf("a long orientation of 6 is %d", v)
	}
	campaign.Fuzz(f, [][]byte{turnedEXIF, little, long}, func(t *testing.T, raw []byte) {
		v := orientation(raw)
		if v == upright {
			return
		}
		for i := range raw { // some entry contains it
			for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
				if entry := raw[i:]; len(entry) >= 12 && order.Uint16(entry) == 0x0112 && v > 1 && v <= 8 &&
					(slices.Contains([]uint16{3, 8}, order.Uint16(entry[2:])) && int(order.Uint16(entry[8:])) == v ||
						slices.Contains([]uint16{4, 9}, order.Uint16(entry[2:])) && int(order.Uint32(entry[8:])) == v) {
					return
				}
			}
		}
		t.Errorf("orientation %d of no entry", v)
	})
}

// The expected values are from Pillow 13.0.0's Image.open(file).convert("RGB").
func TestDecode_TIFFsAreDividedByTheirAlphaAsByPillow(t *testing.T) {
	want := []uint8{63, 127, 191, 99, 1, 200, 0, 0, 0, 162, 115, 69, 90, 181, 255}
	bits8, bits16 := image.NewRGBA(image.Rect(0, 0, 5, 1)), image.NewRGBA64(image.Rect(0, 0, 5, 1))
	copy(bits8.Pix, []uint8{10, 20, 30, 40, 99, 1, 200, 255, 50, 60, 70, 0, 7, 5, 3, 11, 90, 180, 254, 253})
	for x, c := range []color.RGBA64{{0x0a12, 0x14ff, 0x1e00, 0x2880}, {0x6301, 0x0102, 0xc8c8, 0xffff},
		{0x3203, 0x3c04, 0x4605, 0x0006}, {0x07aa, 0x0501, 0x0302, 0x0bfe}, {0x5a00, 0xb4ff, 0xfe10, 0xfd20}} {
		bits16.SetRGBA64(x, 0, c)
	}
	for _, img := range []image.Image{bits8, bits16} {
		var file bytes.Buffer
		gomlxtest.NoError(t, tiff.Encode(&file, img, nil))
		is.Equal(t, fmt.Sprintf("%T", img), gomlxtest.Must(Decode(&file))(t).Pixels, want)
	}
}

// The expected values are from Pillow 13.0.0's Image.open(file).convert("RGB") of mode I;16.
func TestDecode_GreyOf16BitsIsClippedAsByPillow13(t *testing.T) {
	for _, c := range []struct {
		in      []uint16
		want    []uint8
		clipped bool
	}{
		{[]uint16{0, 1, 100, 255, 256, 300, 1000, 65535}, []uint8{0, 1, 100, 255, 255, 255, 255, 255}, true},
		{[]uint16{0, 255}, []uint8{0, 255}, false},
	} {
		plain := grey16(len(c.in), c.in...)
		for _, raw := range [][]byte{plain, withChunk(plain, "tRNS", []byte{0, 100})} { // 100 is transparent
			got := gomlxtest.Must(Decode(bytes.NewReader(raw)))(t)
			is.Equal(t, "pixels", got.Pixels, coloured(c.want))
			is.Equal(t, "clipped", got.Clipped, c.clipped)
		}
	}
}

// grey16 is the png of an image of 16 bits.
func grey16(width int, values ...uint16) []byte {
	img := image.NewGray16(image.Rect(0, 0, width, len(values)/width))
	for i, v := range values {
		img.SetGray16(i%width, i/width, color.Gray16{Y: v})
	}
	return datatest.PNG(img)
}

// withChunk inserts a chunk behind the header of a png, its first 33 bytes.
func withChunk(png []byte, name string, content []byte) []byte {
	return slices.Concat(png[:33], pngChunk(name, content), png[33:])
}

// The expected values are from NumPy: v >> 8, as Pillow 10.3 reads such files, and (v - v.min()) * 255 // np.ptp(v).
func TestPreprocess_GreyOf16Bits(t *testing.T) {
	plain := grey16(2, 4000, 1100, 300, 2047, 2500, 513)
	rotated := withChunk(plain, "eXIf", slices.Concat([]byte(exifPrefix), turnedEXIF)) // by 90° clockwise: 2 rows of 3
	for grey16, want := range map[string][2][]uint8{
		preprocess.GreyClip:  {{255, 255, 255, 255, 255, 255}, {255, 255, 255, 255, 255, 255}},
		preprocess.GreyScale: {{15, 4, 1, 7, 9, 2}, {9, 1, 15, 2, 7, 4}},
		preprocess.GreyRange: {{255, 55, 0, 120, 151, 14}, {151, 0, 255, 14, 120, 55}},
	} {
		for i, raw := range [][]byte{plain, rotated} {
			e := gomlxtest.Must(Identify(raw, 0))(t)
			decoded := gomlxtest.Must(e.Decode(nil))(t)
			whole := gomlxtest.Must(decoded.Preprocess(preprocess.Settings{Grey16: grey16}))(t)
			all := func(height, width int) window { return window{height: height, width: width} }
			cropped := gomlxtest.Must(e.cropped(all, 3-i, 2+i, preprocess.Bilinear, grey16))(t)
			set := &own{Info{Height: 3 - i, Width: 2 + i, Preprocess: preprocess.Settings{Grey16: grey16}}, -1, decoded}
			shown := gomlxtest.Must(show(t.Context(), set, 0, view{}))(t)
			for of, got := range map[string]*Image{"whole": whole, "cropped": cropped, "another module's": shown} {
				name := grey16 + ", " + of
				is.Equal(t, name, got.Pixels, coloured(want[i]))
				is.Equal(t, name+": width", got.Width, 2+i)
				is.Equal(t, name+": clipped", got.Clipped, grey16 == preprocess.GreyClip)
			}
		}
	}
}

func TestPreprocess_DarkGreyOf16BitsIsConvertedAsTheOthers(t *testing.T) {
	dark := gomlxtest.Must(Decode(bytes.NewReader(grey16(2, 7, 100, 200, 255))))(t)
	for grey16, want := range map[string][]uint8{preprocess.GreyScale: {0, 0, 0, 0},
		preprocess.GreyRange: {0, 95, 198, 255}, preprocess.GreyClip: {7, 100, 200, 255}} {
		is.Equal(t, grey16, gomlxtest.Must(dark.Preprocess(preprocess.Settings{Grey16: grey16}))(t).Pixels, coloured(want))
	}
}

func TestFiles_WarnOnceOfClippedGrey(t *testing.T) {
	white := grey16(30, slices.Repeat([]uint16{2000, 55_100}, 30)...)
	files := numberedFiles(t, 5, map[int][]byte{1: white, 3: white})
	crop := Augment{CropScale: [2]float64{0.5, 1}, CropRatio: [2]float64{1, 1}, Size: [2]int{3, 2}}
	for name, read := range map[string]func(s Dataset) error{
		"loaded":    func(s Dataset) error { _, err := Load(t.Context(), s, []int{0, 1}); return err },
		"whole":     func(s Dataset) error { _, err := show(t.Context(), s, 1, view{}); return err },
		"cropped":   func(s Dataset) error { _, err := show(t.Context(), s, 1, view{Augment: crop}); return err },
		"in memory": func(Dataset) error { return nil },
	} {
		var log strings.Builder
		want := ClippedGrey + " dataset=numbered image=0001.png\n"
		s := gomlxtest.Must(files.Stream(toTiny, Streaming{Logger: gomlxtest.Logger(&log)}))(t)
		err := errors.Join(read(s), read(Head(s, 4)))
		if name == "in memory" {
			_, err = files.Subset([]int{0, 1}).Load(t.Context(), toTiny, gomlxtest.Logger(&log))
		}
		gomlxtest.NoError(t, err)
		is.Equal(t, name, log.String(), want)
	}
}

const goldenDir = "testdata/pillow"

// goldenCase is one line of a cases.json, made by tools/py/pillow_goldens.py.
type goldenCase struct {
	File          string
	Config        json.RawMessage // of Hugging Face's or timm's form
	Height, Width int
	Pixels        string // base64 of zlib
}

// goldens reads the cases of a directory.
func goldens[T any](t testing.TB, dir string) (cases T) {
	t.Helper()
	gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile(filepath.Join(dir, "cases.json")))(t), &cases))
	return cases
}

func (c goldenCase) want(t testing.TB) *Image {
	t.Helper()
	packed := base64.NewDecoder(base64.StdEncoding, strings.NewReader(c.Pixels))
	pixels, err := io.ReadAll(gomlxtest.Must(zlib.NewReader(packed))(t))
	if err != nil || len(pixels) != 3*c.Height*c.Width {
		t.Fatalf("%s: %d bytes of pixels, %v", c.File, len(pixels), err)
	}
	return &Image{Height: c.Height, Width: c.Width, Pixels: pixels}
}

// nearImage tests the greatest difference of samples, and counts them by their differences.
func nearImage(t testing.TB, name string, got, want *Image, allowed int) (counts [256]int) {
	t.Helper()
	if got.Height != want.Height || got.Width != want.Width || len(got.Pixels) != len(want.Pixels) {
		t.Fatalf("%s: %d×%d pixels, want %d×%d", name, got.Width, got.Height, want.Width, want.Height)
	}
	greatest := 0
	for i, v := range got.Pixels {
		d := max(int(v)-int(want.Pixels[i]), int(want.Pixels[i])-int(v))
		counts[d]++
		greatest = max(greatest, d)
	}
	if greatest > allowed {
		t.Errorf("%s: off by up to %d; by difference %v", name, greatest, counts[:greatest+1])
	}
	return counts
}

// Compares decoding and resizing with Pillow; WEPE_PILLOW may name a directory with more cases. All are exact except
// jpegs from the standard library's decoder, whose inverse cosine transform rounds differently.
func TestDecode_ImagesAreThoseOfPillow(t *testing.T) {
	for _, dir := range append([]string{goldenDir}, filepath.SplitList(os.Getenv("WEPE_PILLOW"))...) {
		samples, sum := 0, 0 // of jpegs, and of their differences
		cases := goldens[[]goldenCase](t, dir)
		is.Equal(t, dir+" has no cases", len(cases) == 0, false)
		for i, c := range cases {
			s := gomlxtest.Must(preprocess.Parse(c.Config, ""))(t)
			file := gomlxtest.Must(os.ReadFile(filepath.Join(dir, c.File)))(t)
			where := fmt.Sprintf("%s, case %d, %s, %s", dir, i, c.File, c.Config)
			got, err := Decode(bytes.NewReader(file))
			if err == nil {
				got, err = got.Preprocess(s)
			}
			if !libjpeg && c.File == "restart_progressive.jpg" { // the only one that the standard library does not decode
				is.Refused(t, where, err, "-tags libjpeg")
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			if filepath.Ext(c.File) != ".jpg" || libjpeg {
				nearImage(t, where, got, c.want(t), 0)
				continue
			}
			for d, n := range nearImage(t, where, got, c.want(t), 6) { // where a resize sharpens
				samples, sum = samples+n, sum+d*n
			}
		}
		is.Near(t, dir+": mean difference of jpegs", float64(sum)/float64(max(1, samples)), 0, 0.05)
	}
}

const augmentDir = "testdata/augment"

// The expected values are from Pillow's draft, crop and resize of a box. The decoder of the standard library has no
// smaller transforms: its larger windows give another image, the others differ by rounding.
func TestCropped_ALargeWindowIsDecodedSmallerAsByPillow(t *testing.T) {
	drafts := 0
	for _, c := range goldens[augmentGoldens](t, augmentDir).Cases {
		if c.Operation != "Draft" {
			continue
		}
		drafts++
		raw := gomlxtest.Must(os.ReadFile(filepath.Join(augmentDir, c.File)))(t)
		w := window{left: c.Box[0], top: c.Box[1], width: c.Box[2] - c.Box[0], height: c.Box[3] - c.Box[1]}
		e := gomlxtest.Must(Identify(raw, 0))(t)
		got := gomlxtest.Must(e.cropped(func(int, int) window { return w }, c.Height, c.Width, c.Kernel, ""))(t)
		allowed := 0
		if !libjpeg {
			allowed = map[bool]int{true: 3, false: 255}[c.Amount == 1]
		}
		nearImage(t, fmt.Sprintf("%s at 1/%g", c.File, c.Amount), got, c.want(t), allowed)
	}
	is.Equal(t, "cases", drafts, 20)
}

// The visible part has the bits of the whole image, whatever decoding skips: at every corner, with any subsampling,
// rotated or not, and beyond the border.
func TestCropped_HasTheBitsOfTheWholeImage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var paths []string
	for _, dir := range []string{augmentDir, goldenDir} {
		paths = append(paths, gomlxtest.Must(filepath.Glob(filepath.Join(dir, "*.*")))(t)...)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if slices.Contains([]string{".md", ".json"}, filepath.Ext(path)) || !libjpeg && name == "restart_progressive.jpg" {
			continue
		}
		raw := gomlxtest.Must(os.ReadFile(path))(t)
		e := gomlxtest.Must(Identify(raw, 0))(t)
		whole := gomlxtest.Must(e.Decode(nil))(t)
		for k := range 40 {
			w := window{height: 1 + r.IntN(whole.Height), width: 1 + r.IntN(whole.Width)}
			w.top, w.left = r.IntN(whole.Height-w.height+1), r.IntN(whole.Width-w.width+1)
			if k%10 == 9 {
				w.top, w.left = w.top-2, w.left+1
			}
			height, width := w.height, w.width // nothing is resized, or decoded smaller
			if k%2 == 1 {
				height, width = w.height/2+1, w.width+3
			}
			var sides [2]int
			got := gomlxtest.Must(e.cropped(func(height, width int) window {
				sides = [2]int{height, width}
				return w
			}, height, width, preprocess.Bicubic, ""))(t)
			want := whole.Window(w.top, w.left, w.height, w.width).Resize(height, width, preprocess.Bicubic)
			nearImage(t, fmt.Sprintf("%s, %+v", path, w), got, want, 0)
			is.Equal(t, path, sides, [2]int{whole.Height, whole.Width})
		}
	}
}

// Trimmed images are the first rows and columns of the others, whatever the resize and crop.
func TestPreprocess_TrimKeepsTheTopLeft(t *testing.T) {
	img := gomlxtest.Must(noise(1, 11, 17, 3).Image(t.Context(), 0))(t)
	for _, s := range []preprocess.Settings{
		{Resize: preprocess.ResizeExact, Size: [2]int{9, 7}}, {Crop: [2]int{7, 13}}, {Crop: [2]int{13, 7}},
		{Resize: preprocess.ResizeExact, Size: [2]int{9, 7}, Float: true},
		{Resize: preprocess.ResizeExact, Size: [2]int{9, 7}, Resample: preprocess.Nearest},
		{Resize: preprocess.ResizeShortest, Size: [2]int{8, 8}, Crop: [2]int{7, 7}, Resample: preprocess.Bicubic},
		{Resize: preprocess.ResizeContain, Size: [2]int{9, 9}, Crop: [2]int{9, 9}, Fill: [3]uint8{1, 2, 3}},
	} {
		whole := gomlxtest.Must(img.Preprocess(s))(t)
		s.Trim = [2]int{6, 5}
		got := gomlxtest.Must(img.Preprocess(s))(t)
		rows, cols, err := s.OutputSize()
		if err != nil || s.Validate() != nil || [2]int{rows, cols} != s.Trim || got.Height != 6 || got.Width != 5 {
			t.Fatalf("%+v: %v, %v, %d×%d, output %d×%d", s, err, s.Validate(), got.Height, got.Width, rows, cols)
		}
		for i := range got.Pixels {
			at := (i/15*whole.Width+i%15/3)*3 + i%3
			if got.Pixels[i] != whole.Pixels[at] || s.Float && got.Float[i] != whole.Float[at] {
				t.Fatalf("%+v: number %d is %d, want %d", s, i, got.Pixels[i], whole.Pixels[at])
			}
		}
	}
}

// A ribbon of 65,535×1 pixels becomes 131,070 pixels long, or 19,660,500, but only its crop is computed; an output of
// that size is refused.
func TestPreprocess_OnlyTheCropOfARibbonIsComputed(t *testing.T) {
	pixels := bytes.Repeat([]byte{7, 11, 13}, 65535)
	for _, ribbon := range []*Image{{Height: 1, Width: 65535, Pixels: pixels}, {Height: 65535, Width: 1, Pixels: pixels}} {
		for _, edge := range []int{2, 300} {
			for _, r := range []preprocess.Resample{preprocess.Bicubic, preprocess.Nearest} {
				s := preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{edge, edge}, Resample: r,
					Float: r != preprocess.Nearest && edge == 2}
				cropped := s
				cropped.Crop = [2]int{2, 2}
				var got *Image
				var err error
				used, _ := campaign.Cost(func() { got, err = ribbon.Preprocess(cropped) })
				if err != nil || used > 4<<20 || !bytes.Equal(got.Pixels, bytes.Repeat([]byte{7, 11, 13}, 4)) {
					t.Errorf("%+v: %v, %v, %d bytes", cropped, got, err, used)
				}
				is.Equal(t, fmt.Sprintf("the whole is computed: %+v", s), is.ErrorOf(ribbon.Preprocess(s)) == nil, edge == 2)
			}
		}
	}
}

// The fixtures contain an image before and after DINOv3's processor.
func TestPreprocess_AResizeOfNumbersIsTorchvisions(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		for _, set := range []string{"dinov3_vit_tiny", "dinov3_vit_tiny_swiglu"} {
			file := filepath.Join(fixtures.Dir(t, set), "preprocessor_config.json")
			settings := gomlxtest.Must(preprocess.Parse(gomlxtest.Must(os.ReadFile(file))(t), ""))(t)
			all := fixtures.Tensors(t, set, "tensors.safetensors")
			raw, want := all["preprocess.image_u8"], all["preprocess.pixel_values_nhwc_out"]
			img := &Image{Height: raw.Shape[0], Width: raw.Shape[1]}
			for _, v := range raw.Data {
				img.Pixels = append(img.Pixels, uint8(v))
			}
			img = gomlxtest.Must(img.Preprocess(settings))(t)
			mean, std := settings.Normalization()
			var got []float64
			for i, v := range img.Float {
				got = append(got, (float64(v)/255-mean[i%3])/std[i%3])
				if d := math.Abs(float64(v) - float64(img.Pixels[i])); d > 0.5 {
					t.Fatalf("%s: pixel %d is %g, and %d rounded", set, i, v, img.Pixels[i])
				}
			}
			gomlxtest.NearAbs(t, set, got, want.Data, 1e-5)
		}
	})
}

var toStrips = preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{20, 16}, Patch: 4} // 5×4 patches

func TestStrip_IsCutAndReassembled(t *testing.T) {
	for _, grid := range [][2]int{{5, 4}, {4, 5}, {2, 7}, {3, 6}, {8, 2}} {
		img := gomlxtest.Must(noise(1, 4*grid[0], 4*grid[1], 3).Image(t.Context(), 0))(t)
		strip := gomlxtest.Must(img.Preprocess(toStrips))(t)
		is.Equal(t, "grid", strip.Grid, grid)
		is.Equal(t, "strip", [3]int{strip.Height, strip.Width, len(strip.Pixels)}, [3]int{80, 4, 3 * 80 * 4})
		var want []uint8 // patches row by row, then black
		for k := range grid[0] * grid[1] {
			for y := range 4 {
				at := 3 * ((k/grid[1]*4+y)*img.Width + k%grid[1]*4)
				want = append(want, img.Pixels[at:at+3*4]...)
			}
		}
		is.Equal(t, "patches", strip.Pixels, append(want, make([]uint8, len(strip.Pixels)-len(want))...))
		set := &InMemory{
			Info:   Info{Labels: []int32{0}, Height: 80, Width: 4, Channels: 3, Grids: [][2]int{grid}},
			Pixels: strip.Pixels,
		}
		is.Equal(t, "the image of the set", FromImage(set.RGBA(0)), img)
	}
}

// wrapped is a dataset of another module.
type wrapped struct{ *InMemory }

func TestStrip_GridsStayWithTheirImages(t *testing.T) {
	train, test, err := ShapesOfAspects(taskShape, 53, 31, 24, 3, toStrips)
	gomlxtest.NoError(t, err)
	gomlxtest.NoError(t, errors.Join(train.check(), test.check()))
	rows := []int{17, 3, 3, 50}
	some := train.Subset(rows)
	numbers := Augment{}.Plan(train, 0, 0, 0, rows).Grids
	known := preprocess.Grids(20)
	for k, row := range rows {
		is.Equal(t, fmt.Sprint("grid of row ", row), some.Grids[k], train.Grids[row])
		is.Equal(t, fmt.Sprint("number of row ", row), known[numbers[k]], train.Grids[row])
	}
	before := slices.Clone(train.Grids)
	loaded := gomlxtest.Must(Load(t.Context(), wrapped{train}, rows))(t)
	is.Equal(t, "grids of another module's dataset", loaded.Grids, some.Grids)
	is.Equal(t, "grids afterwards", train.Grids, before)
	for a, valid := range map[Augment]bool{{HFlip: 0.5}: false, {Pad: 1}: false, {CutmixAlpha: 1}: false,
		{Size: [2]int{6, 6}}: false, {MixupAlpha: 1, RepeatedAug: 2, Std: [3]float64{1, 2, 3}}: true} {
		for _, err := range Batches(train, 7, a, 1).Iter() {
			is.Equal(t, fmt.Sprintf("%+v of patches: %v", a, err), err == nil, valid)
			break
		}
	}
	other := train.Subset(rows)
	other.Grids[1] = [2]int{4, 4}
	is.Equal(t, "same fingerprint of other grids", Fingerprint(other) == Fingerprint(some), false)
	other.Grids[1] = [2]int{1, 2}
	is.Refused(t, "a grid that no image has", other.check(), "image 1")
}

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
			is.Equal(t, name+": bytes", len(gomlxtest.Must(e.Decode(nil))(t).Pixels), 3*1013*1531)
		})
		each := float64(used) / (1013 * 1531)
		t.Logf("%s: %.1f bytes a pixel, %d bits of file for a thousand", name, each, 8000*len(raw)/(1013*1531))
		if most = max(most, each); each > DecodeBytes+.5 { // buffers of a fixed size
			t.Errorf("%s: %.1f bytes a pixel, want at most %d", name, each, DecodeBytes)
		}
	}
	is.Near(t, "most bytes a pixel, of a tiff that is not rotated", most, DecodeBytes, 4)
}

// A decoder that does not ask reads the file as a whole. When it asks for the last time, memory for the pixels is
// allocated, or decoding would go on after its end.
func TestDecoding_EndsWithTheErrorOfItsContext(t *testing.T) {
	for name, raw := range large(t) {
		if libjpeg && raw[0] == 0xff || name == "webp" {
			continue
		}
		e, calls := gomlxtest.Must(Identify(raw, 0))(t), 0
		var before, last runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = e.Decode(func() error { calls++; runtime.ReadMemStats(&last); return nil })
		least := min(2, bits.Len(uint(len(raw)/4096)))
		if took := last.TotalAlloc - before.TotalAlloc; calls < least || len(raw) > 4096 && took < uint64(e.Pixels) {
			t.Errorf("%s: %d calls for %d bytes, %d bytes allocated before the last", name, calls, len(raw), took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := calls / 2
		_, err := e.Decode(func() error {
			if left--; left < 0 {
				cancel()
			}
			return ctx.Err()
		})
		is.Error(t, name, err, context.Canceled)
	}
}

// The major version of JFIF and, in a baseline scan, the last coefficient, which some cameras write as 0.
func TestDecode_IgnoresFieldsThatNoDecoderNeeds(t *testing.T) {
	raw := gomlxtest.Must(os.ReadFile(filepath.Join(goldenDir, "420.jpg")))(t)
	odd := slices.Clone(raw)
	scan := bytes.Index(odd, []byte{0xff, 0xda, 0, 12, 3}) // of three components
	odd[bytes.Index(odd, []byte("JFIF\x00"))+5], odd[scan+12] = 0, 0
	got := gomlxtest.Must(gomlxtest.Must(Identify(odd, 0))(t).Decode(nil))(t)
	nearImage(t, "an odd header", got, gomlxtest.Must(gomlxtest.Must(Identify(raw, 0))(t).Decode(nil))(t), 0)
}
