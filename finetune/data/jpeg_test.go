// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"image"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// The constants are sums of c(k) = √2·cos(kπ/16), as their comments say, in units of 2⁻¹³.
func TestConstantsAreSumsOfCosines(t *testing.T) {
	c := func(k float64) float64 { return math.Sqrt2 * math.Cos(k*math.Pi/16) }
	for _, v := range []struct {
		got  int
		want float64
	}{
		{c6, c(6)}, {c2m6, c(2) - c(6)}, {c2p6, c(2) + c(6)},
		{c3, c(3)}, {c3m5, c(3) - c(5)}, {c3p5, c(3) + c(5)}, {c3m7, c(3) - c(7)}, {c1p3, c(1) + c(3)},
		{oddOne, c(1) + c(3) - c(5) - c(7)}, {oddTwo, c(1) + c(3) + c(5) - c(7)},
		{oddFour, c(1) + c(3) - c(5) + c(7)}, {oddLast, -c(1) + c(3) + c(5) - c(7)},
	} {
		if want := int(math.Round(v.want * (1 << constantBits))); v.got != want {
			t.Errorf("%d, want %d", v.got, want)
		}
	}
}

// Against T.81, A.3.3: a sample is 128 + ¼ Σ C(u) C(v) S(v, u) cos((2x+1)uπ/16) cos((2y+1)vπ/16), C(0) = 1/√2, else 1.
func TestInverseCosinesFollowTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	basis := func(x, u int) float64 {
		if u == 0 {
			return math.Sqrt2 / 4
		}
		return math.Cos(float64((2*x+1)*u)*math.Pi/16) / 2
	}
	for range 100 {
		var block [64]int16
		var quant [64]int32
		for i := range block {
			quant[i] = 1 + rng.Int32N(5)
			if rng.IntN(4) == 0 {
				block[i] = int16(rng.IntN(61) - 30)
			}
		}
		var got [8 * 11]uint8
		inverseCosines(got[:], 11, &block, &quant)
		for i := range 64 {
			want := 128.0
			for k := range 64 {
				want += basis(i/8, k/8) * basis(i%8, k%8) * float64(block[k]) * float64(quant[k])
			}
			want = min(max(want, 0), 255)
			if v := float64(got[i/8*11+i%8]); math.Abs(v-want) > 0.6 { // a half is lost by rounding to a byte
				t.Fatalf("row %d, column %d: %g, want %g", i/8, i%8, v, want)
			}
		}
	}
}

// Wherever a jpeg is cut, or changed, there is an error or a picture, and no panic that decode has to catch.
func TestDamagedJPEGsAreErrors(t *testing.T) {
	for name, raw := range goldenFiles(t) {
		if filepath.Ext(name) != ".jpg" {
			continue
		}
		for end := len(raw) - 1; end >= 2; end -= 5 {
			if _, err := decodeJPEG(bytes.NewReader(raw[:end])); err == nil {
				t.Errorf("%s: %d of %d bytes are decoded", name, end, len(raw))
			}
		}
		rng := rand.New(rand.NewPCG(3, 5))
		for range 60 {
			damaged := bytes.Clone(raw)
			damaged[2+rng.IntN(len(raw)-2)] = byte(rng.Uint32())
			if info, err := jpeg.DecodeConfig(bytes.NewReader(damaged)); err != nil || info.Width*info.Height > 1<<14 {
				continue
			}
			if _, err := decodeJPEG(bytes.NewReader(damaged)); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %q", name, err)
			}
		}
	}
}

// The band of coefficients in a sequential scan's header means nothing, and must not hide that a table is missing.
func TestASequentialScanNeedsItsTables(t *testing.T) {
	raw := bytes.Clone(goldenFiles(t)["444.jpg"])
	scan := bytes.Index(raw, []byte{0xff, markerScan}) // length 2, count 1, three times component and tables, band
	raw[scan+11] = 1
	if _, err := decodeJPEG(bytes.NewReader(raw)); err != nil {
		t.Errorf("a band: %v", err)
	}
	raw[scan+6] = 0x30
	if _, err := decodeJPEG(bytes.NewReader(raw)); err == nil || !strings.Contains(err.Error(), "without its tables") {
		t.Errorf("a missing table: %v", err)
	}
}

// A scan that is there again and again costs little in the file, and a pass over the picture each time.
func TestPassesOverAJPEGAreLimited(t *testing.T) {
	raw := goldenFiles(t)["progressive.jpg"]
	scan := []byte{0xff, markerScan}
	first := bytes.Index(raw, scan)
	second := first + 2 + bytes.Index(raw[first+2:], []byte{0xff, markerHuffman})
	for _, c := range []struct {
		more int
		ok   bool
	}{{0, true}, {50, true}, {maxPasses + 1, false}} {
		file := append(bytes.Clone(raw[:first]), bytes.Repeat(raw[first:second], c.more)...)
		_, err := Decode(bytes.NewReader(append(file, raw[first:]...)))
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "more than 100 times") {
			t.Errorf("%d more scans: %v", c.more, err)
		}
	}
}

// BenchmarkJPEG decodes 512×512 pixels to planes, with this package's decoder and Go's.
func BenchmarkJPEG(b *testing.B) {
	img, rng := image.NewRGBA(image.Rect(0, 0, 512, 512)), rand.New(rand.NewPCG(7, 11))
	for i := range img.Pix {
		img.Pix[i] = uint8(128 + 90*math.Sin(float64(i)/700) + float64(rng.IntN(20)))
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: 90}); err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func(io.Reader) (image.Image, error){"wepe": decodeJPEG, "go": jpeg.Decode} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(512 * 512)
			for b.Loop() {
				if _, err := decode(bytes.NewReader(file.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzDecodeJPEG: unlike Decode, decodeJPEG lets a panic through.
func FuzzDecodeJPEG(f *testing.F) {
	for name, raw := range goldenFiles(f) {
		if strings.HasSuffix(name, ".jpg") {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		config, err := jpeg.DecodeConfig(bytes.NewReader(raw))
		if err != nil || config.Width*config.Height > 1<<14 {
			return // identify has refused it
		}
		img, err := decodeJPEG(bytes.NewReader(raw))
		if err == nil && (img.Bounds().Dx() != config.Width || img.Bounds().Dy() != config.Height) {
			t.Errorf("%v, want %d×%d", img.Bounds(), config.Width, config.Height)
		}
	})
}
