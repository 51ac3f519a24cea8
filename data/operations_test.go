// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/random"
)

// augmentGoldens are the results of Pillow 9.4 for one image: tools/py/augment_goldens.py.
type augmentGoldens struct {
	Width, Height int
	Pixels        string
	Cases         []struct {
		Operation     string
		File          string
		Amount        float64
		Kernel        preprocess.Resample
		Fill          [3]uint8
		Box           [4]int // left, top, right, bottom
		Width, Height int
		Pixels        string
	}
}

func readAugmentGoldens(t testing.TB, dir string) (g augmentGoldens, img *Image) {
	t.Helper()
	raw := gomlxtest.Must(os.ReadFile(filepath.Join(dir, "cases.json")))(t)
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g, goldenCase{File: "the image", Height: g.Height, Width: g.Width, Pixels: g.Pixels}.want(t)
}

func (p *Image) clone() *Image {
	return &Image{Height: p.Height, Width: p.Width, Pixels: bytes.Clone(p.Pixels)}
}

// WEPE_AUGMENT may name a directory with more cases.
func TestEveryOperationIsPillowsToTheBit(t *testing.T) {
	dirs := []string{"testdata/augment"}
	if dir := os.Getenv("WEPE_AUGMENT"); dir != "" {
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		g, img := readAugmentGoldens(t, dir)
		seen := map[string]bool{}
		for _, c := range g.Cases {
			where := fmt.Sprintf("%s: %s %g %s", dir, c.Operation, c.Amount, c.Kernel)
			seen[c.Operation] = true
			want := goldenCase{File: where, Height: img.Height, Width: img.Width, Pixels: c.Pixels}
			var got *Image
			w := window{left: c.Box[0], top: c.Box[1], width: c.Box[2] - c.Box[0], height: c.Box[3] - c.Box[1]}
			switch c.Operation {
			case "Draft":
				continue // see crop_test.go
			case "Crop":
				want.Height, want.Width = c.Height, c.Width
				got = img.windowed(w).Resize(c.Height, c.Width, c.Kernel)
			default:
				got = operations[c.Operation](img.clone(), c.Amount, surroundings{kernel: c.Kernel, fill: c.Fill})
			}
			if counts, greatest := differences(got, want.want(t)); greatest > 0 || len(got.Pixels) != 3*want.Height*want.Width {
				t.Errorf("%s: off by up to %d; by difference %v", where, greatest, counts[:greatest+1])
			}
		}
		for name := range operations {
			if !seen[name] && name != "Cutout" && dir == dirs[0] {
				t.Errorf("%s has no case of %s", dir, name)
			}
		}
	}
}

// Geometry.c of Pillow: positions beyond the image are filled, positions on its border are interpolated.
func TestTransform_APositionOnTheBorderIsWithinTheImage(t *testing.T) {
	p := &Image{Height: 1, Width: 1, Pixels: []uint8{9, 8, 7}}
	for _, kernel := range []preprocess.Resample{preprocess.Bilinear, preprocess.Bicubic} {
		for _, m := range []affine{translation(0, -0.5), translation(-0.5, 0)} {
			if got := p.transform(m, kernel, [3]uint8{}); !bytes.Equal(got.Pixels, p.Pixels) {
				t.Errorf("%s, %+v: %v", kernel, m, got.Pixels)
			}
		}
	}
}

// Expected are the formulas of timm/data/auto_augment.py (066e490), big_vision/pp/autoaugment.py (538b8a8) and
// torchvision's autoaugment.py (0.14) by hand, for an image of 19×13 pixels; a second amount is for the other sign.
func TestPolicy_AmountsAreThoseOfTheirSources(t *testing.T) {
	for name, want := range map[string]map[string][]float64{
		"rand-m9-mstd0.5-inc1": {
			"AutoContrast": {0}, "Equalize": {0}, "Invert": {0}, "Rotate": {27, -27}, "Posterize": {1}, "Solarize": {26},
			"SolarizeAdd": {99}, "Color": {1.81, 0.19}, "Contrast": {1.81, 0.19}, "Brightness": {1.81, 0.19},
			"Sharpness": {1.81, 0.19}, "ShearX": {0.27, -0.27}, "ShearY": {0.27, -0.27},
			"TranslateX": {7.695, -7.695}, "TranslateY": {5.265, -5.265},
		},
		"rand-m10": {
			"AutoContrast": {0}, "Equalize": {0}, "Invert": {0}, "Rotate": {30, -30}, "Posterize": {4}, "Solarize": {256},
			"SolarizeAdd": {110}, "Color": {1.9}, "Contrast": {1.9}, "Brightness": {1.9}, "Sharpness": {1.9},
			"ShearX": {0.3, -0.3}, "ShearY": {0.3, -0.3}, "TranslateX": {8.55, -8.55}, "TranslateY": {5.85, -5.85},
		},
		"randaug(2,10)": {
			"AutoContrast": {0}, "Equalize": {0}, "Invert": {0}, "Rotate": {30, -30}, "Posterize": {4}, "Solarize": {256},
			"SolarizeAdd": {110}, "Color": {1.9}, "Contrast": {1.9}, "Brightness": {1.9}, "Sharpness": {1.9},
			"ShearX": {0.3, -0.3}, "ShearY": {0.3, -0.3}, "TranslateX": {100, -100}, "TranslateY": {100, -100},
			"Cutout": {40},
		},
		"RandAugment(2,9)": {
			"Identity": nil, "ShearX": {0.09, -0.09}, "ShearY": {0.09, -0.09}, "TranslateX": {2, -2}, "TranslateY": {1, -1},
			"Rotate": {9, -9}, "Brightness": {1.27, 0.73}, "Color": {1.27, 0.73}, "Contrast": {1.27, 0.73},
			"Sharpness": {1.27, 0.73}, "Posterize": {7}, "Solarize": {178.5}, "AutoContrast": {0}, "Equalize": {0},
		},
	} {
		p := gomlxtest.Must(parsePolicy(name, [3]uint8{1, 2, 3}))(t)
		if len(p.choices) != len(want) {
			t.Errorf("%s has %d operations, want %d", name, len(p.choices), len(want))
		}
		for _, c := range p.choices {
			amounts, known := want[c.name]
			if !known || (c.amount == nil) != (amounts == nil) {
				t.Errorf("%s: %s, want none", name, c.name)
				continue
			}
			for k, amount := range append(amounts, amounts...)[:min(2, 2*len(amounts))] {
				l := level{strength: p.magnitude / p.scale, sign: float64(1 - 2*k), height: 13, width: 19}
				if got := c.amount(l); got < amount-1e-9 || got > amount+1e-9 {
					t.Errorf("%s: %s with sign %g is %g, want %g", name, c.name, l.sign, got, amount)
				}
			}
		}
	}
}

func TestPolicy_IsReadAsItsSourceWritesIt(t *testing.T) {
	fill, grey := [3]uint8{1, 2, 3}, [3]uint8{128, 128, 128}
	for _, c := range []struct {
		name                           string
		layers                         int
		prob                           float64
		magnitude, deviation, greatest float64
		around                         surroundings
	}{
		{"rand-m9-mstd0.5-inc1", 2, 0.5, 9, 0.5, 10, surroundings{kernel: preprocess.Bicubic, fill: fill}},
		{"rand-n3-m7", 3, 0.5, 7, 0, 10, surroundings{kernel: preprocess.Bicubic, fill: fill}},
		{"rand-m15-mmax20", 2, 0.5, 15, 0, 20, surroundings{kernel: preprocess.Bicubic, fill: fill}},
		{"randaug(3,15)", 3, 1, 15, 0, 30, surroundings{kernel: preprocess.Nearest, fill: grey}},
		{"RandAugment(2, 9)", 2, 1, 9, 0, 30, surroundings{kernel: preprocess.Nearest}},
		{"3-augment", 1, 1, 0, 0, 1, surroundings{}},
	} {
		p, err := parsePolicy(c.name, fill)
		if err != nil || p.layers != c.layers || p.prob != c.prob || p.magnitude != c.magnitude ||
			p.deviation != c.deviation || p.greatest != c.greatest || p.around != c.around {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
	for _, name := range []string{"", "rand", "rand-x3", "rand-m11", "rand-m", "randaug(2)", "randaug(101,9)",
		"randaug(2,31)", "rand-mstd100.5", "RandAugment(2,-1)", "autoaugment", "rand-n99999999999999999999"} {
		if _, err := parsePolicy(name, fill); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestPolicy_OperationsAreChosenUniformly(t *testing.T) {
	p := gomlxtest.Must(parsePolicy("rand-m9-mstd0.5-inc1", [3]uint8{}))(t)
	drawn, signs := map[string]int{}, map[float64]int{}
	var magnitudes []float64
	p.choices = slices.Clone(p.choices)
	for i, c := range p.choices {
		p.choices[i].amount = func(l level) float64 {
			drawn[c.name]++
			signs[l.sign]++
			magnitudes = append(magnitudes, l.strength*10)
			return c.amount(l)
		}
	}
	const images = 3000
	for k := range images {
		p.apply(&Image{Height: 2, Width: 3, Pixels: make([]uint8, 18)}, random.New(streamChange, 5, 0, k))
	}
	// Two draws of fifteen with probability ½: 200 each; five standard deviations are 70. A magnitude is the normal
	// 9 ± ½, cut at 10: its mean is 9 − ½·(φ(2) − 2·(1−Φ(2))) = 8.9958.
	for name, n := range drawn {
		if n < 130 || n > 270 {
			t.Errorf("%s was made %d times in %d images, want about 200", name, n, images)
		}
	}
	sum := 0.0
	for _, m := range magnitudes {
		sum += m
	}
	if mean := sum / float64(len(magnitudes)); len(drawn) != 15 || mean < 8.9958-0.05 || mean > 8.9958+0.05 {
		t.Errorf("%d operations with a mean magnitude of %g, want 15 with 8.9958", len(drawn), mean)
	}
	// Of 3000 each sign has half; five standard deviations are 137.
	if n := len(magnitudes); len(signs) != 2 || signs[1] < n/2-137 || signs[-1] < n/2-137 {
		t.Errorf("signs are %v", signs)
	}
}

func TestFill_IsTheMeanColourOrGrey(t *testing.T) {
	for want, mean := range map[[3]uint8][3]float64{
		{128, 128, 128}: {}, {124, 116, 104}: {0.485, 0.456, 0.406}, {0, 255, 255}: {0, 1, 1.5}} {
		if got := (Augment{Mean: mean}).fill(); got != want {
			t.Errorf("mean %v: %v, want %v", mean, got, want)
		}
	}
}

// timm/data/auto_augment.py (1.0): _solarize_add_level_to_arg is min(128, int(level/10·110)); big_vision has no cap.
func TestPolicy_TimmCapsSolarizeAdd(t *testing.T) {
	for name, want := range map[string]float64{"rand-m30-mmax30": 128, "rand-m11-mmax30": 121, "randaug(2,30)": 330} {
		p := gomlxtest.Must(parsePolicy(name, [3]uint8{}))(t)
		c := p.choices[slices.IndexFunc(p.choices, func(c choice) bool { return c.name == "SolarizeAdd" })]
		if got := c.amount(level{strength: p.magnitude / p.scale}); got != want {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
}

// FuzzPolicy: a name gives an error or a policy that changes no image's size.
func FuzzPolicy(f *testing.F) {
	seeds := []string{"rand-m9-mstd0.5-inc1", "rand-n3-mmax20", "randaug(2,10)", "RandAugment(2,9)", "3-augment"}
	campaign.Fuzz(f, seeds, func(t *testing.T, name string) {
		p, err := parsePolicy(name, [3]uint8{1, 2, 3})
		if err != nil {
			return
		}
		img := p.apply(&Image{Height: 7, Width: 5, Pixels: make([]uint8, 105)}, random.New(streamChange, 5, 0, 7))
		if p.layers < 0 || p.layers > maxLayers || img.Height != 7 || len(img.Pixels) != 105 {
			t.Errorf("%q: %+v, %d rows", name, p, img.Height)
		}
	})
}
