// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

const goldenDir = "testdata/pillow"

// goldenCase is one line of a cases.json, made by internal/tools/py/pillow_goldens.py.
type goldenCase struct {
	File          string
	Config        json.RawMessage // of Hugging Face's or timm's form
	Height, Width int
	Pixels        string // base64 of zlib
}

func goldenCases(t testing.TB, dir string) (cases []goldenCase) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", dir)
	}
	return cases
}

func (c goldenCase) want(t testing.TB) *Picture {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(c.Pixels)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	pixels, err := io.ReadAll(unzipped)
	if err != nil || len(pixels) != 3*c.Height*c.Width {
		t.Fatalf("%s: %d bytes of pixels, %v", c.File, len(pixels), err)
	}
	return &Picture{c.Height, c.Width, pixels}
}

// differences counts samples by how far two pictures are apart there.
func differences(a, b *Picture) (counts [256]int, greatest int) {
	for i, v := range a.Pixels {
		d := max(int(v)-int(b.Pixels[i]), int(b.Pixels[i])-int(v))
		counts[d]++
		greatest = max(greatest, d)
	}
	return counts, greatest
}

// Decoding and resizing are held to real Pillow; WEPE_PILLOW may name a directory with more cases. All of
// it is exact.
func TestPicturesAreThoseOfPillow(t *testing.T) {
	dirs := []string{goldenDir}
	if dir := os.Getenv("WEPE_PILLOW"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		total := map[string]*[256]int{}
		for i, c := range goldenCases(t, dir) {
			p, err := preprocess.Parse(c.Config)
			if err != nil {
				t.Fatalf("%s, case %d: %v", dir, i, err)
			}
			file, err := os.ReadFile(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			want := c.want(t)
			got, err := Image(bytes.NewReader(file), p)
			if err != nil {
				t.Errorf("%s, case %d, %s: %v", dir, i, c.File, err)
				continue
			}
			if got.Height != want.Height || got.Width != want.Width {
				t.Errorf("%s, case %d, %s, %s: %d×%d pixels, want %d×%d", dir, i, c.File, c.Config, got.Width, got.Height,
					want.Width, want.Height)
				continue
			}
			counts, greatest := differences(got, want)
			kind := strings.TrimPrefix(filepath.Ext(c.File), ".")
			if total[kind] == nil {
				total[kind] = new([256]int)
			}
			for d, n := range counts {
				total[kind][d] += n
			}
			if greatest > 0 {
				t.Errorf("%s, case %d, %s, %s: off by up to %d; by difference %v", dir, i, c.File, c.Config,
					greatest, counts[:greatest+1])
			}
		}
		for kind, counts := range total {
			all := 0
			for _, n := range counts {
				all += n
			}
			t.Logf("%s: %s: %d samples; by difference %v", dir, kind, all, counts[:6])
		}
	}
}
