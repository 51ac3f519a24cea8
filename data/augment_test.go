// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/xslices"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/random"
)

// changing enables all operations of the host.
var changing = Augment{
	Size: [2]int{19, 23}, CropScale: [2]float64{0.3, 1}, HFlip: 0.5, VFlip: 0.5, Rotate: 20,
	Policy: "rand-m9-mstd0.5-inc1", Jitter: [4]float64{0.4, 0.4, 0.4, 0.1}, GrayscaleProb: 0.3,
	RandomErasingProb: 0.5, EraseNoise: true,
	Mean: [3]float64{0.5, 0.4, 0.3}, Std: [3]float64{0.2, 0.3, 0.4},
}

// A batch and its images alone have the same pixels; the images of the dataset are not changed.
func TestApply_DependsOnlyOnSeedEpochAndIndex(t *testing.T) {
	set, before := noise(31, 17, 11, 3), noise(31, 17, 11, 3)
	indices := shuffled(31)
	for k := range indices {
		indices[k] += k % 3 * 31
	}
	batch := func(seed int64, epoch int, indices []int) *InMemory {
		return gomlxtest.Must(loadBatch(set, changing, seed, epoch, indices))(t)
	}
	whole := batch(9, 4, indices)
	for k, index := range indices {
		alone := changing.Apply(&Image{Height: 17, Width: 11, Pixels: set.Row(index % 31)}, 9, 4, index)
		is.Equal(t, fmt.Sprint("index ", index), whole.Row(k), alone.Pixels)
		is.Equal(t, "label", whole.Labels[k], set.Labels[index%31])
	}
	for name, other := range map[string]*InMemory{"seed": batch(10, 4, indices), "epoch": batch(9, 5, indices)} {
		for k := range indices {
			as := fmt.Sprintf("another %s shows image %d as before", name, k)
			is.Equal(t, as, bytes.Equal(other.Row(k), whole.Row(k)), false)
		}
	}
	is.Equal(t, "images of the dataset afterwards", set.Pixels, before.Pixels)
}

func TestApply_GreyImagesStayGrey(t *testing.T) {
	set := noise(5, 17, 11, 1)
	a := changing
	a.RandomErasingProb, a.Mean = 0, [3]float64{0.5, 0.5, 0.5}
	shown := gomlxtest.Must(loadBatch(set, a, 1, 0, []int{4, 2}))(t)
	is.Equal(t, "bytes and channels", [2]int{len(shown.Pixels), shown.Channels}, [2]int{2 * 19 * 23, 1})
	colour := &Image{Height: 17, Width: 11, Pixels: coloured(set.Row(2))}
	is.Equal(t, "three channels", a.Apply(colour, 1, 0, 2).Pixels, coloured(shown.Row(1)))
	for probability, want := range map[float64]uint8{0: 0, 1: 60} { // 0.299·200
		red := &Image{Height: 1, Width: 1, Pixels: []uint8{200, 0, 0}}
		is.Equal(t, "green of red", Augment{GrayscaleProb: probability}.Apply(red, 1, 0, 2).Pixels[1], want)
	}
}

// coloured repeats values of grey for each channel.
func coloured(grey []uint8) (pixels []uint8) {
	for _, v := range grey {
		pixels = append(pixels, v, v, v)
	}
	return pixels
}

func TestApply_AnErasedBoxHasTheSpecifiedAreaAndContent(t *testing.T) {
	const height, width, images = 97, 89, 400
	mean, std := [3]float64{0.5, 0.4, 0.6}, [3]float64{0.1, 0.12, 0.08} // four deviations stay within bytes
	for _, noise := range []bool{false, true} {
		a := Augment{RandomErasingProb: 0.25, EraseScale: [2]float64{0.05, 0.2}, EraseNoise: noise, Mean: mean, Std: std}
		erased, area, tall := 0.0, 0.0, 0.0
		var tops, lefts []float64 // in the room that the box leaves
		var values [3][]float64
		for k := range images {
			p := a.Apply(&Image{Height: height, Width: width, Pixels: make([]uint8, 3*height*width)}, 2, 0, k)
			top, left, bottom, right := height, width, 0, 0
			for i := range height * width {
				if at := p.Pixels[3*i:]; at[0]|at[1]|at[2] != 0 {
					top, left = min(top, i/width), min(left, i%width)
					bottom, right = max(bottom, i/width+1), max(right, i%width+1)
				}
			}
			if bottom == 0 {
				continue
			}
			part, ratio := float64((bottom-top)*(right-left))/(height*width), float64(bottom-top)/float64(right-left)
			if ratio < 0.27 || ratio > 3.7 || part < 0.045 || part > 0.21 {
				t.Fatalf("a box of ratio %g with %g of the area, want 0.3 to 10/3 and 0.05 to 0.2", ratio, part)
			}
			if erased, area = erased+1, area+part; ratio > 1 {
				tall++
			}
			tops = append(tops, float64(top)/float64(height-(bottom-top)))
			lefts = append(lefts, float64(left)/float64(width-(right-left)))
			for i, v := range p.Window(top, left, bottom-top, right-left).Pixels {
				values[i%3] = append(values[i%3], float64(v)/255)
			}
		}
		// 100 ± 9 of 400; a mean area of 0.125; half of them tall.
		if erased < 60 || erased > 140 || !(math.Abs(area/erased-0.125) <= 0.02) || !(math.Abs(tall/erased-0.5) <= 0.25) {
			t.Errorf("%g of %d erased, %g of the area in the mean, %g of them tall", erased, images, area/erased, tall)
		}
		for _, places := range [][]float64{tops, lefts} { // uniform: a tenth of each end is met by 60 boxes
			is.Equal(t, "boxes lie anywhere", []bool{slices.Min(places) < 0.1, slices.Max(places) > 0.9}, []bool{true, true})
		}
		for c := range 3 {
			m, variance := stat.PopMeanVariance(values[c], nil)
			deviation := math.Sqrt(max(0, variance)) // for equal numbers rounding may leave either sign
			gomlxtest.NearAbs(t, fmt.Sprintf("mean and deviation, noise %t, channel %d", noise, c), []float64{m, deviation},
				[]float64{mean[c], map[bool]float64{true: std[c]}[noise]}, 0.003)
		}
	}
}

// A strength of s varies a factor uniformly from 1−s to 1+s. Brightness multiplies, so the value 100 of an image of one
// colour scales. Contrast and saturation do not change it.
func TestApply_JitterVariesAsInTorchvision(t *testing.T) {
	p := func() *Image { return &Image{Height: 1, Width: 1, Pixels: []uint8{100, 100, 100}} }
	sum, least, greatest := 0.0, 255.0, 0.0
	const n = 2000
	for k := range n {
		v := float64(Augment{Jitter: [4]float64{0.4, 0.7, 0.7, 0}}.Apply(p(), 1, 0, k).Pixels[1])
		sum, least, greatest = sum+v, min(least, v), max(greatest, v)
	}
	if mean := sum / n; !(math.Abs(mean-99.5) <= 2) || least > 61 || least < 60 || greatest < 139 || greatest > 140 {
		t.Errorf("100 becomes %g to %g, %g in the mean, want 60 to 140 and 99.5", least, greatest, mean)
	}
	// Contrast moves the values 50 and 150 about their mean, 100, and saturation leaves grey as it is.
	grey := func() *Image { return &Image{Height: 1, Width: 2, Pixels: []uint8{50, 50, 50, 150, 150, 150}} }
	low, high := 255.0, 0.0
	for k := range 500 {
		v := float64(Augment{Jitter: [4]float64{1: 0.7}}.Apply(grey(), 1, 0, k).Pixels[0])
		low, high = min(low, v), max(high, v)
		is.Equal(t, "grey", Augment{Jitter: [4]float64{2: 0.7}}.Apply(grey(), 1, 0, k).Pixels, grey().Pixels)
	}
	gomlxtest.NearAbs(t, "50 by contrast", []float64{low, high}, []float64{15, 85}, 1.5)
	// Hue: red turned by at most a tenth of the circle towards yellow or magenta keeps its value and saturation.
	seen := map[string]bool{}
	for k := range 200 {
		c := Augment{Jitter: [4]float64{3: 0.1}}.Apply(
			&Image{Height: 1, Width: 1, Pixels: []uint8{200, 0, 0}}, 1, 0, k).Pixels
		if c[0] != 200 || min(c[1], c[2]) != 0 || max(c[1], c[2]) > 200*6/10+3 {
			t.Fatalf("red becomes %v", c)
		}
		seen[fmt.Sprint(c[1] > 60, c[2] > 60)] = true
	}
	is.Equal(t, "sides that red turns to", len(seen), 3)
}

// Both ends of each range are valid, the next values are not; the error names the field.
func TestValidate_RefusesStrengthsByName(t *testing.T) {
	for name, b := range map[string]struct {
		low, high, more float64
		json            string // of the value, %[2]v; the field of that name by default
	}{
		"pad": {0, 16_384, 1, ""}, "cutout": {0, 16_384, 1, ""}, "repeated_aug": {0, 100, 1, ""},
		"rotate": {0, 180, 0.01, ""}, "hflip": {0, 1, 0.01, ""}, "vflip": {0, 1, 0.01, ""},
		"grayscale_prob": {0, 1, 0.01, ""}, "random_erasing_prob": {0, 1, 0.01, ""}, "mix_prob": {0, 1, 0.01, ""},
		"switch_prob": {0, 1, 0.01, ""}, "mixup_alpha": {0, 1000, 0.01, ""}, "cutmix_alpha": {0, 1000, 0.01, ""},
		"size": {1, 16_384, 1, `{"size": [7, %[2]v]}`}, "crop_scale": {0.01, 1, 0.02, `{"crop_scale": [%[1]v, %[2]v]}`},
		"crop_ratio":  {0.01, 100, 0.02, `{"crop_ratio": [0.01, %[2]v]}`},
		"erase_scale": {0.01, 1, 0.02, `{"erase_scale": [0.01, %[2]v]}`},
		"brightness":  {0, 10, 0.01, `{"jitter": [%[2]v]}`}, "contrast": {0, 10, 0.01, `{"jitter": [0, %[2]v]}`},
		"saturation": {0, 10, 0.01, `{"jitter": [0, 0, %[2]v]}`}, "hue": {0, 0.5, 0.01, `{"jitter": [0, 0, 0, %[2]v]}`},
	} {
		for v, valid := range map[float64]bool{b.low: true, b.high: true, b.low - b.more: false, b.high + b.more: false} {
			var a Augment
			text := fmt.Sprintf(cmp.Or(b.json, `{"`+name+`": %[2]v}`), min(v, 0.01), v)
			gomlxtest.NoError(t, json.Unmarshal([]byte(text), &a))
			if err := a.Validate(); (err == nil) != valid || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for name, a := range map[string]Augment{
		"random_erasing_prob": {RandomErasingProb: math.NaN()}, "interpolation": {Interpolation: "cubic"},
		"policy": {Policy: "rand-m9-q3"},
		"std":    {Std: [3]float64{1, -1, 1}}, "mean": {Mean: [3]float64{1: math.Inf(1)}}, "crop_ratio": {
			CropScale: [2]float64{0.5, 1}, CropRatio: [2]float64{0, 1}}, "pad": {Pad: 1, CropScale: [2]float64{0.5, 1}},
	} {
		is.Refused(t, name, a.Validate(), name)
	}
	gomlxtest.NoError(t, errors.Join(changing.Validate(), strong.Validate()))
}

// loadBatch returns some indices of a dataset in an epoch, augmented by host.
func loadBatch(s Dataset, host Augment, seed int64, epoch int, indices []int) (*InMemory, error) {
	for batch, err := range Read(s, host, seed, len(indices), maps.All(map[int][]int{epoch: indices})) {
		return &batch.InMemory, err
	}
	return nil, nil
}

// augmentGoldens are the results of Pillow 9.4 for one image: tools/py/augment_goldens.py.
type augmentGoldens struct {
	goldenCase
	Cases []struct {
		goldenCase
		Operation string
		Amount    float64
		Kernel    preprocess.Resample
		Fill      [3]uint8
		Box       [4]int // left, top, right, bottom
	}
}

// WEPE_AUGMENT may name a directory with more cases, random ones.
func TestEveryOperationIsPillowsToTheBit(t *testing.T) {
	for _, dir := range append([]string{augmentDir}, filepath.SplitList(os.Getenv("WEPE_AUGMENT"))...) {
		g := goldens[augmentGoldens](t, dir)
		img, seen := g.want(t), map[string]bool{}
		for _, c := range g.Cases {
			where := fmt.Sprintf("%s: %s %g %s", dir, c.Operation, c.Amount, c.Kernel)
			seen[c.Operation] = true
			var got *Image
			w := window{left: c.Box[0], top: c.Box[1], width: c.Box[2] - c.Box[0], height: c.Box[3] - c.Box[1]}
			switch c.Operation {
			case "Draft":
				continue // see TestCropped_ALargeWindowIsDecodedSmallerAsByPillow
			case "Crop":
				got = img.Window(w.top, w.left, w.height, w.width).Resize(c.Height, c.Width, c.Kernel)
			default:
				c.Height, c.Width = img.Height, img.Width
				own := &Image{Height: img.Height, Width: img.Width, Pixels: bytes.Clone(img.Pixels)}
				got = operations[c.Operation](own, c.Amount, surroundings{kernel: c.Kernel, fill: c.Fill})
			}
			// Pillow truncates, and C rounds a sine or cosine otherwise than Go now and then: the 15th digit of the matrix.
			allowed := 0
			if c.Operation == "Rotate" && dir != augmentDir {
				allowed = 1
			}
			if counts := nearImage(t, where, got, c.want(t), allowed); counts[1] > 5 {
				t.Errorf("%s: %d samples are off by 1", where, counts[1])
			}
		}
		for name := range operations {
			if !seen[name] && name != "Cutout" && dir == augmentDir {
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
			is.Equal(t, string(kernel), p.transform(m, kernel, [3]uint8{}).Pixels, p.Pixels)
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
			"SolarizeAdd": {110}, "Color": {1.9}, "Contrast": {1.9}, "Brightness": {1.9}, "Sharpness": {1.9}, "Cutout": {40},
			"ShearX": {0.3, -0.3}, "ShearY": {0.3, -0.3}, "TranslateX": {100, -100}, "TranslateY": {100, -100},
		},
		"RandAugment(2,9)": {
			"Identity": nil, "ShearX": {0.09, -0.09}, "ShearY": {0.09, -0.09}, "TranslateX": {2, -2}, "TranslateY": {1, -1},
			"Rotate": {9, -9}, "Brightness": {1.27, 0.73}, "Color": {1.27, 0.73}, "Contrast": {1.27, 0.73},
			"Sharpness": {1.27, 0.73}, "Posterize": {7}, "Solarize": {178.5}, "AutoContrast": {0}, "Equalize": {0},
		},
	} {
		p := gomlxtest.Must(parsePolicy(name, [3]uint8{1, 2, 3}))(t)
		is.Equal(t, name, len(p.choices), len(want))
		for _, c := range p.choices {
			amounts, known := want[c.name]
			if !known || (c.amount == nil) != (amounts == nil) {
				t.Errorf("%s: %s, want none", name, c.name)
				continue
			}
			for k, amount := range append(amounts, amounts...)[:min(2, 2*len(amounts))] {
				l := level{strength: p.magnitude / p.scale, sign: float64(1 - 2*k), height: 13, width: 19}
				is.Near(t, name+": "+c.name, c.amount(l), amount, 1e-9)
			}
		}
	}
	// DeiT III's 3-Augment: Gaussian blur by a σ of 0.1 to 2, solarization at 128 (deit/augment.py).
	three := gomlxtest.Must(parsePolicy("3-augment", [3]uint8{}))(t).choices
	amount := func(name string, l level) float64 {
		return three[slices.IndexFunc(three, func(c choice) bool { return c.name == name })].amount(l)
	}
	is.Equal(t, "choices of 3-Augment", len(three), 3)
	is.Equal(t, "Solarize", amount("Solarize", level{}), 128)
	var blurs []float64
	for k := range 300 {
		blurs = append(blurs, amount("GaussianBlur", level{r: rand.New(rand.NewPCG(uint64(k), 1))}))
	}
	is.Near(t, "the least blur", slices.Min(blurs), 0.125, 0.025)
	is.Near(t, "the greatest blur", slices.Max(blurs), 1.975, 0.025)
	// timm 1.0: _solarize_add_level_to_arg is min(128, int(level/10·110)); big_vision has no cap.
	for name, want := range map[string]float64{"rand-m30-mmax30": 128, "rand-m11-mmax30": 121, "randaug(2,30)": 330} {
		p := gomlxtest.Must(parsePolicy(name, [3]uint8{}))(t)
		c := p.choices[slices.IndexFunc(p.choices, func(c choice) bool { return c.name == "SolarizeAdd" })]
		is.Equal(t, name, c.amount(level{strength: p.magnitude / p.scale}), want)
	}
}

func TestPolicy_IsReadAsItsSourceWritesIt(t *testing.T) {
	fill := [3]uint8{1, 2, 3}
	timm := surroundings{kernel: preprocess.Bicubic, fill: fill}
	grey := surroundings{kernel: preprocess.Nearest, fill: [3]uint8{128, 128, 128}}
	for name, want := range map[string]policy{ // layers, prob; magnitude, deviation, greatest, scale
		"rand-m9-mstd0.5-inc1": {nil, 2, 0.5, timm, 9, 0.5, 10, 10}, "rand-n3-m7": {nil, 3, 0.5, timm, 7, 0, 10, 10},
		"rand-m15-mmax20": {nil, 2, 0.5, timm, 15, 0, 20, 10}, "randaug(3,15)": {nil, 3, 1, grey, 15, 0, 30, 10},
		"RandAugment(2, 9)": {nil, 2, 1, surroundings{kernel: preprocess.Nearest}, 9, 0, 30, 30},
		"3-augment":         {nil, 1, 1, surroundings{}, 0, 0, 1, 1},
	} {
		p := gomlxtest.Must(parsePolicy(name, fill))(t)
		p.choices = nil
		is.Equal(t, name, p, want)
	}
	for _, name := range []string{"", "rand", "rand-x3", "rand-m11", "rand-m", "randaug(2)", "randaug(101,9)",
		"randaug(2,31)", "rand-mstd100.5", "RandAugment(2,-1)", "autoaugment", "rand-n99999999999999999999"} {
		is.Refused(t, name, is.ErrorOf(parsePolicy(name, fill)))
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
		is.Near(t, name, float64(n), 200, 70)
	}
	is.Near(t, "mean magnitude", stat.Mean(magnitudes, nil), 8.9958, 0.05)
	is.Equal(t, "operations and signs", [2]int{len(drawn), len(signs)}, [2]int{15, 2})
	// Of 3000 each sign has half; five standard deviations are 137.
	is.Near(t, "positive", float64(signs[1]), float64(len(magnitudes))/2, 137)
}

func TestFill_IsTheMeanColourOrGrey(t *testing.T) {
	for want, mean := range map[[3]uint8][3]float64{
		{128, 128, 128}: {}, {124, 116, 104}: {0.485, 0.456, 0.406}, {0, 255, 255}: {0, 1, 1.5}} {
		is.Equal(t, fmt.Sprint("mean ", mean), Augment{Mean: mean}.fill(), want)
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

var strong = Augment{
	Size: [2]int{19, 23}, Pad: 3, HFlip: 0.5, Cutout: 5, MixupAlpha: 0.4, CutmixAlpha: 1, MixProb: 0.7,
}

func TestPlan_OfAnImageDependsOnlyOnSeedEpochAndRow(t *testing.T) {
	set, rows := noise(31, 7, 5, 3), shuffled(31)
	whole := strong.Plan(set, 9, 4, 0, rows)
	for k, row := range rows { // in a batch of 31 and alone, in a batch of another number
		alone := strong.Plan(set, 9, 4, 100+row, []int{row})
		is.Equal(t, fmt.Sprint("window of row ", row), alone.Windows[0], whole.Windows[k])
		is.Equal(t, fmt.Sprint("box of row ", row), alone.Cutout[0], whole.Cutout[k])
		is.Equal(t, "label and row", [2]int{int(whole.Labels[k]), int(whole.Indices[k])}, [2]int{row % 3, row})
	}
	for name, other := range map[string]*Plan{
		"seed": strong.Plan(set, 10, 4, 0, rows), "epoch": strong.Plan(set, 9, 5, 0, rows),
	} {
		same := slices.Equal(other.Windows, whole.Windows) || slices.Equal(other.Cutout, whole.Cutout)
		is.Equal(t, "another "+name+" gives the same plan", same, false)
	}
	// The box is the same whether the graph crops or the host: otherwise the draws of the host's crop would place it.
	crops := Augment{Size: strong.Size, CropScale: [2]float64{0.3, 1}, Cutout: strong.Cutout}
	for _, other := range []Augment{strong.afterHost(), crops} {
		is.Equal(t, fmt.Sprintf("boxes of %+v", other), other.Plan(set, 9, 4, 0, rows).Cutout, whole.Cutout)
	}
}

func TestPlan_OfTheMixingDependsOnlyOnSeedEpochAndBatchNumber(t *testing.T) {
	set := noise(31, 7, 5, 3)
	a := Augment{MixupAlpha: 1}
	first := a.Plan(set, 9, 4, 2, shuffled(31)[:7])
	again := a.Plan(set, 9, 4, 2, shuffled(31)[11:18])
	is.Equal(t, "mixing of the same batch number with other images", again.Mix, first.Mix)
	is.Equal(t, "its partners", again.Partners, first.Partners)
	for name, other := range map[string]*Plan{
		"seed": a.Plan(set, 10, 4, 2, shuffled(31)[:7]), "epoch": a.Plan(set, 9, 5, 2, shuffled(31)[:7]),
		"batch": a.Plan(set, 9, 4, 3, shuffled(31)[:7]),
	} {
		same := other.Mix == first.Mix || slices.Equal(other.Partners, first.Partners)
		is.Equal(t, "another "+name+" gives the same mixing", same, false)
	}
	is.Equal(t, "partners", slices.Sorted(slices.Values(first.Partners)), []int64{0, 1, 2, 3, 4, 5, 6})
}

// Of 7 images repeated three times, an epoch shows two three times and one once.
func TestOrder_IsAPermutationThatChangesWithEpochAndSeed(t *testing.T) {
	order := Order(3, 1, 101, 1)
	all := xslices.Iota(0, 101)
	if !slices.Equal(slices.Sorted(slices.Values(order)), all) || !slices.Equal(Order(3, 1, 101, 1), order) ||
		slices.Equal(Order(3, 2, 101, 1), order) || slices.Equal(Order(4, 1, 101, 1), order) {
		t.Error("the order is not a permutation, or not a function of seed and epoch")
	}
	once := Order(4, 2, 7, 1)
	is.Equal(t, "order", Order(4, 2, 7, 3), []int{once[0], once[0] + 7, once[0] + 14, once[1], once[1] + 7, once[1] + 14,
		once[2]})
}

// Neighbouring seeds, epochs and indices give unrelated draws: all different, and half of the bits differ.
func TestDraws_OfNeighboursAreUnrelated(t *testing.T) {
	seen, flipped, last := map[uint64]bool{}, 0, uint64(0)
	for k := range 300 {
		of := [3]int{1, 1, 1}
		of[k%3] += 1 + k/3
		v := random.New(streamSample, int64(of[0]), of[1], of[2]).Uint64()
		seen[v], flipped, last = true, flipped+bits.OnesCount64(v^last), v
	}
	is.Equal(t, "draws that differ", len(seen), 300)
	within5(t, "bits that differ", float64(flipped)/300/64, 0.5, 0.25, 300*64)
}

// within5 checks a mean of n draws: at most five standard errors from its expectation.
func within5(t *testing.T, name string, mean, want, variance float64, n int) {
	t.Helper()
	is.Near(t, name, mean, want, 5*math.Sqrt(variance/float64(n)))
}

func TestPlan_FlipsAndCropsAreDrawnUniformly(t *testing.T) {
	set := noise(4999, 3, 2, 1)
	a := Augment{Pad: 2, HFlip: 0.3, VFlip: 0.2}
	plan := a.Plan(set, 1, 0, 0, shuffled(4999))
	flips, up := 0.0, 0.0
	var tops, lefts [5]float64
	for _, v := range plan.Windows {
		w := windowOf(v)
		if w.flip {
			flips++
		}
		if w.flipUp {
			up++
		}
		tops[w.top+2]++ // out of range would panic: offsets are -2…2
		lefts[w.left+2]++
	}
	n := set.Len()
	within5(t, "flips", flips/float64(n), 0.3, 0.3*0.7, n)
	within5(t, "flips upside down", up/float64(n), 0.2, 0.2*0.8, n)
	for k := range 5 {
		within5(t, "top", tops[k]/float64(n), 0.2, 0.2*0.8, n)
		within5(t, "left", lefts[k]/float64(n), 0.2, 0.2*0.8, n)
	}
}

func TestWindow_FallsBackToTheLargestCentredOne(t *testing.T) {
	// A strip of 40×2 has no window of ratio 1…1.2 and 80% of the area: torchvision takes width 2, height 2/1; of a
	// strip of 5×40 height 5, width 5·1.2.
	a := Augment{CropScale: [2]float64{0.8, 1}, CropRatio: [2]float64{1, 1.2}}
	for sides, want := range map[[2]int]window{
		{40, 2}: {top: 19, left: 0, height: 2, width: 2}, {5, 40}: {top: 0, left: 17, height: 5, width: 6},
	} {
		is.Equal(t, fmt.Sprint(sides), a.window(random.New(streamSample, 1, 0, 0), sides[0], sides[1]), want)
	}
}

func TestBeta_HasTheMomentsOfTheDistribution(t *testing.T) {
	for _, alpha := range []float64{0.01, 0.15, 0.8, 1, 5} {
		r := random.New(streamMix, 1, 0, 0)
		const n = 20000
		var sum, square float64
		for range n {
			v := beta(r, alpha)
			if !(v >= 0 && v <= 1) {
				t.Fatalf("alpha %g: %g", alpha, v)
			}
			sum, square = sum+v, square+(v-0.5)*(v-0.5)
		}
		variance := 1 / (4 * (2*alpha + 1)) // Beta(α, α)
		within5(t, "mean", sum/n, 0.5, variance, n)
		// The fourth central moment of a variable in 0…1 is at most a quarter of the second.
		within5(t, "variance", square/n, variance, variance/4, n)
	}
}

func TestPlan_MixingHappensWithItsProbability(t *testing.T) {
	set := noise(5, 32, 32, 1)
	mixed, cut := 0.0, 0.0
	const n = 3000
	a := Augment{MixupAlpha: 1, CutmixAlpha: 1, MixProb: 0.6, SwitchProb: 0.25}
	for batch := range n {
		m := a.Plan(set, 1, 0, batch, []int{0, 1}).Mix
		switch {
		case m == [6]float32{0, 0, 0, 0, 1, 1}:
		case m[4] == 0:
			mixed, cut = mixed+1, cut+1
		default:
			mixed++
		}
	}
	within5(t, "mixed", mixed/n, 0.6, 0.6*0.4, n)
	within5(t, "cut", cut/n, 0.15, 0.15*0.85, n)
	half := Augment{CutmixAlpha: 1e6, MixProb: 1, SwitchProb: 1} // λ is ½: boxes have √½ of the sides, cut at the border
	tall, wide := float32(0), float32(0)
	for batch := range 300 {
		m := half.Plan(noise(5, 50, 30, 1), 1, 0, batch, []int{0, 1}).Mix
		tall, wide = max(tall, m[2]-m[0]), max(wide, m[3]-m[1])
	}
	is.Equal(t, "the largest box", [2]float32{tall, wide}, [2]float32{35, 21})
}

// torchvision's RandomResizedCrop: the area is uniform, the logarithm of the ratio too. Kolmogorov and Smirnov's
// distance of n draws is above 2.2/√n once in 8,000 times.
func TestWindow_AreaIsUniformAndRatioLogUniform(t *testing.T) {
	const n = 4001
	a := Augment{CropScale: [2]float64{0.05, 0.3}, CropRatio: [2]float64{0.5, 2}} // all fit
	var areas, ratios, tops, lefts []float64
	for i := range n {
		w := a.window(random.New(streamSample, 3, 0, i), 3000, 2900)
		areas = append(areas, (float64(w.height)*float64(w.width)/8.7e6-0.05)/0.25)
		ratios = append(ratios, math.Log(2*float64(w.width)/float64(w.height))/math.Log(4))
		tops = append(tops, float64(w.top)/float64(3000-w.height))
		lefts = append(lefts, float64(w.left)/float64(2900-w.width))
	}
	for name, values := range map[string][]float64{"areas": areas, "ratios": ratios, "tops": tops, "lefts": lefts} {
		slices.Sort(values)
		distance := 0.0
		for i, v := range values {
			distance = max(distance, math.Abs(v-float64(i)/n), math.Abs(v-float64(i+1)/n))
		}
		is.Near(t, name+": distance from uniform", distance, 0, 2.2/math.Sqrt(n))
	}
}

// shown is a window of an image of a dataset pixel by pixel, black outside, and mirrored.
func shown(set *InMemory, row int, w window) *Image {
	out := &Image{Height: w.height, Width: w.width}
	for i := range w.height * w.width {
		y, x := w.top+i/w.width, w.left+i%w.width
		if w.flip {
			x = w.left + w.width - 1 - i%w.width
		}
		if w.flipUp {
			y = w.top + w.height - 1 - i/w.width
		}
		at := make([]uint8, set.Channels)
		if y >= 0 && x >= 0 && y < set.Height && x < set.Width {
			copy(at, set.Row(row)[(y*set.Width+x)*set.Channels:])
		}
		out.Pixels = append(out.Pixels, at...)
	}
	return out
}

// noise is a dataset of random pixels; tests use unequal prime sides.
func noise(n, height, width, channels int) *InMemory {
	r := rand.New(rand.NewPCG(7, 11))
	s := &InMemory{
		Info: Info{Name: "noise", Height: height, Width: width, Channels: channels, Classes: []string{"a", "b", "c"}},
	}
	for i := range n {
		s.Labels = append(s.Labels, int32(i%3))
	}
	for range n * height * width * channels {
		s.Pixels = append(s.Pixels, uint8(r.UintN(256)))
	}
	return s
}

// shuffled is a fixed order of 0…n-1 for prime n.
func shuffled(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = (3*i + 1) % n
	}
	return rows
}

// windowOf reads a plan's window back; the oracles check its lines.
func windowOf(v [8]float32) window {
	return window{
		top: int(v[2]), height: int(v[3] - v[2]), left: int(v[6]), width: int(v[7] - v[6]), flip: v[4] < 0,
		flipUp: v[0] < 0,
	}
}

// images runs the graph of one plan.
func images(t testing.TB, a Augment, set *InMemory, plan *Plan) []float64 {
	gomlxtest.NoError(t, a.Validate())
	return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{a.Images(in[0], in[1:])}
	}, append([]any{set.Tensor()}, anys(plan.Tensors())...)...)[0]
}

// Whole pixels are exact. A resize is the host's before rounding, which equals torchvision's and, rounded, Pillow's. On
// the host the same augmentation is rounded to bytes.
func TestImages_CropsResizesAndFlipsAreThoseOfPixelsAndOfTheHost(t *testing.T) {
	rows := shuffled(13)[:7]
	for _, c := range []struct {
		a                 Augment
		channels, changed int // minimum number of windows other than the whole image
	}{
		{Augment{}, 1, 0}, {Augment{}, 3, 0}, {Augment{HFlip: 0.5}, 3, 2}, {Augment{VFlip: 0.5}, 3, 2},
		{Augment{HFlip: 1, VFlip: 1}, 1, 7}, {Augment{Pad: 2}, 3, 3}, {Augment{Pad: 3, HFlip: 0.5, VFlip: 0.5}, 1, 3},
		{Augment{Pad: 23, HFlip: 1}, 3, 7}, {Augment{Size: [2]int{31, 29}}, 3, 0}, {Augment{Size: [2]int{5, 3}}, 3, 0},
		{Augment{Size: [2]int{7, 23}}, 3, 0}, {Augment{Size: [2]int{31, 29}, Pad: 3, HFlip: 0.5}, 3, 3},
		{Augment{Size: [2]int{5, 3}, Pad: 3, HFlip: 0.5}, 3, 3},
		{Augment{Size: [2]int{13, 7}, CropScale: [2]float64{0.2, 1}, HFlip: 0.5, VFlip: 0.5}, 3, 7},
		{Augment{CropScale: [2]float64{0.3, 0.6}, CropRatio: [2]float64{0.5, 2}}, 3, 7},
	} {
		set, a := noise(13, 17, 11, c.channels), c.a
		plan, name := a.Plan(set, 3, 1, 0, rows), fmt.Sprintf("%+v", a)
		height, width := a.OutputSize(set.Height, set.Width)
		resized, tolerance, rounding := a.Size != [2]int{} || a.crops(), 0.0, 0.0
		if resized {
			tolerance, rounding = 2e-6, 1./255
		}
		if resized && a.Pad > 0 { // black that is resampled with the image is rounded with it
			rounding *= 2
		}
		var want []float64
		for k, row := range rows {
			w := windowOf(plan.Windows[k])
			if w != (window{height: 17, width: 11}) {
				c.changed--
			}
			crop := shown(set, row, w)
			if resized {
				whole := window{height: height, width: width}
				for _, v := range crop.resizeFloat(height, width, whole, preprocess.Bilinear).Float {
					want = append(want, float64(v)/255)
				}
				continue
			}
			for _, v := range crop.Pixels {
				want = append(want, float64(float32(v)*float32(1./255)))
			}
		}
		if c.changed > 0 {
			t.Fatalf("%s: %d images too few change: the test would show nothing", name, c.changed)
		}
		inGraph := images(t, a, set, plan)
		gomlxtest.Near(t, name, inGraph, want, tolerance)
		a.Interpolation = preprocess.Bilinear
		host, graph := a.SplitHostGraph(set)
		is.Equal(t, "host", host, a)
		onHost := gomlxtest.Must(loadBatch(set, host, 3, 1, rows))(t)
		plan = graph.Plan(onHost, 3, 1, 0, xslices.Iota(0, 7))
		gomlxtest.NearAbs(t, "on the host "+name, images(t, graph, onHost, plan), inGraph, rounding)
	}
}

// The graph's normalization against (pixel·rescale − mean)/std.
func TestImages_NormalizationIsThatOfTheSettings(t *testing.T) {
	set, rows := noise(3, 4, 7, 3), []int{2, 0}
	for name, p := range map[string]preprocess.Settings{
		"usual":        {Mean: [3]float64{0.51, 0.49, 0.44}, Std: [3]float64{0.27, 0.26, 0.28}},
		"rescale 1":    {Rescale: 1, Mean: [3]float64{120, 110, 100}, Std: [3]float64{50, 60, 70}},
		"rescale only": {Rescale: 1.0 / 127.5, Mean: [3]float64{1, 1, 1}},
	} {
		var a Augment
		a.Mean, a.Std = p.Normalization()
		var want []float64
		for _, row := range rows {
			for i, v := range set.Row(row) {
				want = append(want, (float64(v)*cmp.Or(p.Rescale, 1.0/255)-p.Mean[i%3])/cmp.Or(p.Std[i%3], 1))
			}
		}
		gomlxtest.Near(t, name, images(t, a, set, a.Plan(set, 0, 0, 0, rows)), want, 1e-6)
	}
}

func TestImages_CutoutZeroesOneClippedSquare(t *testing.T) {
	set, rows := noise(31, 17, 13, 3), shuffled(31)
	plain := Augment{Mean: [3]float64{0.51, 0.49, 0.44}, Std: [3]float64{0.27, 0.26, 0.28}}
	a := plain
	a.Cutout = 6
	plan := a.Plan(set, 3, 1, 0, rows)
	want := images(t, plain, set, plan)
	clipped := 0
	for k := range rows {
		box := plan.Cutout[k] // the centre is a pixel: 3 to 6 remain of 6 lines, fewer than 6 at the border alone
		for axis, length := range []float32{17, 13} {
			from, to := box[axis], box[axis+2]
			if n := to - from; n < 3 || n > 6 || from < 0 || to > length || n < 6 && from != 0 && to != length {
				t.Errorf("image %d: box %v", k, box)
			}
		}
		if (box[2]-box[0])*(box[3]-box[1]) < 36 {
			clipped++
		}
		for i := int(box[0]); i < int(box[2]); i++ {
			for j := int(box[1]); j < int(box[3]); j++ {
				copy(want[((k*17+i)*13+j)*3:], []float64{0, 0, 0})
			}
		}
	}
	gomlxtest.Near(t, "images", images(t, a, set, plan), want, 0)
	is.Equal(t, fmt.Sprint("some squares are clipped, not all: ", clipped), clipped > 0 && clipped < len(rows), true)
}

func TestImages_MixingTakesTheStatedShareOfThePartner(t *testing.T) {
	set, rows := noise(13, 7, 5, 3), shuffled(13)[:11]
	plain := Augment{Pad: 2, HFlip: 0.5, Cutout: 2}
	for name, alphas := range map[string][2]float64{"mixup": {0.8, 0}, "cutmix": {0, 1}} {
		a := plain
		a.MixupAlpha, a.CutmixAlpha = alphas[0], alphas[1]
		plan := a.Plan(set, 3, 1, 4, rows)
		base, m := images(t, plain, set, plan), plan.Mix
		var want []float64
		inside := 0
		for at, own := range base { // [rows, 7, 5, 3]
			keep, y, x := 1.0, float32(at/15%7), float32(at/3%5)
			if y >= m[0] && x >= m[1] && y < m[2] && x < m[3] {
				keep = float64(m[4])
				inside++
			}
			partner := base[int(plan.Partners[at/105])*105+at%105]
			want = append(want, keep*own+(1-keep)*partner)
		}
		gomlxtest.Near(t, name, images(t, a, set, plan), want, 3e-7)
		share := 1 - (1-float64(m[4]))*float64(inside)/float64(len(base))
		is.Near(t, name+": λ of the labels", float64(m[5]), share, 1e-6)
		is.Equal(t, fmt.Sprint(name, " keeps a part: ", share), inside > 0 && share > 0 && share < 1, true)
	}
}

func TestSoftLabels_BlendPartnersAndSmooth(t *testing.T) {
	plan := &Plan{
		Indices: []int64{0, 1, 2}, Labels: []int32{4, 0, 4}, Windows: make([][8]float32, 3),
		Cutout: make([][4]float32, 3), Partners: []int64{1, 2, 0}, Mix: [6]float32{0, 0, 0, 0, 1, 0.75},
		Grids: make([]int64, 3),
	}
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{SoftLabels(in, 5, 0.1)}
	}, anys(plan.Tensors())...)[0]
	// 0.9·λ + 0.1/5 and 0.9·(1-λ) + 0.1/5 by hand.
	gomlxtest.Near(t, "targets", got, []float64{
		0.245, 0.02, 0.02, 0.02, 0.695,
		0.695, 0.02, 0.02, 0.02, 0.245,
		0.02, 0.02, 0.02, 0.02, 0.92,
	}, 1e-6)
}
