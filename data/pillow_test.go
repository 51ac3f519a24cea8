// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

const goldenDir = "testdata/pillow"

// goldenCase is one line of a cases.json, made by tools/py/pillow_goldens.py.
type goldenCase struct {
	File          string
	Config        json.RawMessage // of Hugging Face's or timm's form
	Height, Width int
	Pixels        string // base64 of zlib
}

func goldenCases(t testing.TB, dir string) (cases []goldenCase) {
	t.Helper()
	raw := gomlxtest.Must(os.ReadFile(filepath.Join(dir, "cases.json")))(t)
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
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

// differences counts samples by the difference of two images.
func differences(a, b *Image) (counts [256]int, greatest int) {
	for i, v := range a.Pixels {
		d := max(int(v)-int(b.Pixels[i]), int(b.Pixels[i])-int(v))
		counts[d]++
		greatest = max(greatest, d)
	}
	return counts, greatest
}

// Compares decoding and resizing with Pillow; WEPE_PILLOW may name a directory with more cases. All are exact except
// jpegs from the standard library's decoder, whose inverse cosine transform rounds differently.
func TestDecode_ImagesAreThoseOfPillow(t *testing.T) {
	dirs := []string{goldenDir}
	if dir := os.Getenv("WEPE_PILLOW"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		total := map[string]*[256]int{}
		for i, c := range goldenCases(t, dir) {
			s := gomlxtest.Must(preprocess.Parse(c.Config))(t)
			file := gomlxtest.Must(os.ReadFile(filepath.Join(dir, c.File)))(t)
			where := fmt.Sprintf("%s, case %d, %s, %s", dir, i, c.File, c.Config)
			got, err := decode(file, maxPixels)
			if err == nil {
				got, err = got.Preprocess(s)
			}
			if !libjpeg && c.File == "restart_progressive.jpg" { // the only one that the standard library does not decode
				oneLine(t, where, err, "-tags libjpeg")
				continue
			}
			want := c.want(t)
			switch {
			case err != nil:
				t.Errorf("%s: %v", where, err)
				continue
			case got.Height != want.Height || got.Width != want.Width:
				t.Errorf("%s: %d×%d pixels, want %d×%d", where, got.Width, got.Height, want.Width, want.Height)
				continue
			}
			kind, allowed := strings.TrimPrefix(filepath.Ext(c.File), "."), 0
			if kind == "jpg" && !libjpeg {
				allowed = 6 // where a resize sharpens
			}
			counts, greatest := differences(got, want)
			if greatest > allowed {
				t.Errorf("%s: off by up to %d; by difference %v", where, greatest, counts[:greatest+1])
			}
			if total[kind] == nil {
				total[kind] = new([256]int)
			}
			for d, n := range counts {
				total[kind][d] += n
			}
		}
		for kind, counts := range total {
			samples, sum := 0, 0
			for d, n := range counts {
				samples, sum = samples+n, sum+d*n
			}
			t.Logf("%s: %s: %d samples; by difference %v", dir, kind, samples, counts[:6])
			if mean := float64(sum) / float64(samples); mean > 0.05 {
				t.Errorf("%s: %s: off by %.3f in the mean, want at most 0.05", dir, kind, mean)
			}
		}
	}
}
