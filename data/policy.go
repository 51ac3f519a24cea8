// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// A policy chooses operations for an image at random. Its name has the notation of its origin:
//
//	rand-m9-mstd0.5-inc1   timm: magnitude 9 ± 0.5 of 10, each of 2 operations with probability ½; -n3 for 3 of them,
//	                       -mmax10 for another greatest magnitude; inc1 makes all of them grow with the magnitude
//	randaug(2,10)          big_vision: 2 operations at magnitude 10 of 10
//	RandAugment(2,9)       torchvision: 2 operations at magnitude 9 of 30
//	3-augment              DeiT-III: grey, solarized or blurred
//
// Operations are drawn with replacement. Those of timm that move pixels are bicubic; timm draws bilinear or bicubic.
// Sources: timm/data/auto_augment.py at commit 066e490, big_vision's
// pp/autoaugment.py at 538b8a8, torchvision's transforms/autoaugment.py of 0.14, augment.py of
// github.com/facebookresearch/deit at 4da6691.
type policy struct {
	choices []choice
	layers  int     // number of operations per image
	prob    float64 // of each operation
	around  surroundings

	magnitude, deviation, greatest float64
	scale                          float64 // the magnitude of full strength
}

// choice is one operation of a policy. Its amount is a function of the level magnitude/scale, of a sign that is 1 or −1
// with equal probability, and of the sides of the image.
type choice struct {
	name   string
	amount func(l level) float64
}

type level struct {
	strength, sign float64
	height, width  int
	r              *rand.Rand
}

func signed(most float64) func(level) float64 {
	return func(l level) float64 { return l.sign * l.strength * most }
}

func constant(v float64) func(level) float64 { return func(level) float64 { return v } }

// common are the operations that timm and big_vision share, with their amounts.
var common = []choice{
	{"AutoContrast", constant(0)},
	{"Equalize", constant(0)},
	{"Invert", constant(0)},
	{"Rotate", signed(30)},
	{"Posterize", func(l level) float64 { return math.Trunc(l.strength * 4) }},
	{"Solarize", func(l level) float64 { return math.Trunc(l.strength * 256) }},
	{"SolarizeAdd", func(l level) float64 { return math.Trunc(l.strength * 110) }},
	{"Color", enhance}, {"Contrast", enhance}, {"Brightness", enhance}, {"Sharpness", enhance},
	{"ShearX", signed(0.3)}, {"ShearY", signed(0.3)},
}

func enhance(l level) float64 { return l.strength*1.8 + 0.1 }

// away is timm's "increasing" enhance: a factor that moves away from 1, no change.
func away(l level) float64 { return max(0.1, 1+l.sign*l.strength*0.9) }

// timmChoices caps SolarizeAdd and adds translations by a share of the side.
var timmChoices = append(replaced(common,
	choice{"SolarizeAdd", func(l level) float64 { return min(128, math.Trunc(l.strength*110)) }}),
	choice{"TranslateX", func(l level) float64 { return l.sign * l.strength * 0.45 * float64(l.width) }},
	choice{"TranslateY", func(l level) float64 { return l.sign * l.strength * 0.45 * float64(l.height) }},
)

// increasing replaces the choices whose amounts do not grow with the magnitude.
var increasing = replaced(timmChoices,
	choice{"Posterize", func(l level) float64 { return 4 - math.Trunc(l.strength*4) }},
	choice{"Solarize", func(l level) float64 { return 256 - math.Trunc(l.strength*256) }},
	choice{"Color", away}, choice{"Contrast", away}, choice{"Brightness", away}, choice{"Sharpness", away},
)

// bigVisionChoices adds translations in pixels and a grey square, twice as long and wide as its amount.
var bigVisionChoices = append(slices.Clip(common),
	choice{"TranslateX", signed(100)}, choice{"TranslateY", signed(100)},
	choice{"Cutout", func(l level) float64 { return math.Trunc(l.strength * 40) }},
)

var torchvisionChoices = []choice{
	{"Identity", nil},
	{"ShearX", signed(0.3)}, {"ShearY", signed(0.3)},
	{"TranslateX", func(l level) float64 { return translated(l, l.width) }},
	{"TranslateY", func(l level) float64 { return translated(l, l.height) }},
	{"Rotate", signed(30)},
	{"Brightness", about}, {"Color", about}, {"Contrast", about}, {"Sharpness", about},
	{"Posterize", func(l level) float64 { return 8 - math.RoundToEven(l.strength*4) }},
	{"Solarize", func(l level) float64 { return 255 - math.Round(510*l.strength)/2 }}, // steps of 8.5
	{"AutoContrast", constant(0)}, {"Equalize", constant(0)},
}

// translated is rounded to float32, as torchvision's, before it is truncated.
func translated(l level, side int) float64 {
	return math.Trunc(float64(float32(l.sign * l.strength * 150 / 331 * float64(side))))
}

func about(l level) float64 { return 1 + l.sign*l.strength*0.9 }

var threeChoices = []choice{
	{"Grey", constant(0)},
	{"Solarize", constant(128)},
	{"GaussianBlur", func(l level) float64 { return 0.1 + l.r.Float64()*1.9 }},
}

// replaced returns a copy of choices in which others replace those of the same name.
func replaced(choices []choice, others ...choice) []choice {
	out := slices.Clone(choices)
	for _, other := range others {
		out[slices.IndexFunc(out, func(c choice) bool { return c.name == other.name })] = other
	}
	return out
}

var (
	bigVisionForm   = regexp.MustCompile(`^randaug\((\d+),\s*(\d+)\)$`)
	torchvisionForm = regexp.MustCompile(`^RandAugment\((\d+),\s*(\d+)\)$`)
	timmPart        = regexp.MustCompile(`^(mstd|mmax|inc|m|n)(\d+(?:\.\d+)?)$`)
)

// maxLayers bounds the operations on one image.
const maxLayers = 100

// parsePolicy reads the name of a policy. fill is the colour outside the image for timm's policies; the others have
// their own.
func parsePolicy(name string, fill [3]uint8) (p policy, err error) {
	number := func(text string) float64 {
		v, _ := strconv.ParseFloat(text, 64) // the regular expressions allow only numbers
		return v
	}
	layers := func(n float64) int { return int(min(n, maxLayers+1)) }
	if form := bigVisionForm.FindStringSubmatch(name); form != nil {
		p = policy{choices: bigVisionChoices, layers: layers(number(form[1])), prob: 1, magnitude: number(form[2]),
			greatest: 30, scale: 10, around: surroundings{kernel: preprocess.Nearest, fill: [3]uint8{128, 128, 128}}}
	} else if form := torchvisionForm.FindStringSubmatch(name); form != nil {
		p = policy{choices: torchvisionChoices, layers: layers(number(form[1])), prob: 1, magnitude: number(form[2]),
			greatest: 30, scale: 30, around: surroundings{kernel: preprocess.Nearest}}
	} else if name == "3-augment" {
		p = policy{choices: threeChoices, layers: 1, prob: 1, greatest: 1, scale: 1}
	} else if parts, ok := strings.CutPrefix(name, "rand-"); ok {
		p = policy{choices: timmChoices, layers: 2, prob: 0.5, magnitude: 10, greatest: 10, scale: 10,
			around: surroundings{kernel: preprocess.Bicubic, fill: fill}}
		for part := range strings.SplitSeq(parts, "-") {
			form := timmPart.FindStringSubmatch(part)
			if form == nil {
				return p, fmt.Errorf("%q in it: want m, mstd, mmax, n or inc with a number", part)
			}
			switch v := number(form[2]); form[1] {
			case "m":
				p.magnitude = v
			case "mstd":
				p.deviation = v
			case "mmax":
				p.greatest = v
			case "n":
				p.layers = layers(v)
			case "inc":
				if v != 0 {
					p.choices = increasing
				}
			}
		}
	} else {
		return p, fmt.Errorf("use for example rand-m9-mstd0.5-inc1, randaug(2,10), RandAugment(2,9) or 3-augment")
	}
	if p.layers > maxLayers || p.magnitude > p.greatest || p.greatest > 30 || p.deviation > 100 {
		return p, fmt.Errorf("want at most %d operations, a magnitude up to %g and an mstd up to 100", maxLayers,
			min(p.greatest, 30))
	}
	return p, nil
}

// apply changes an image in place.
func (p policy) apply(img *Image, r *rand.Rand) *Image {
	around := p.around
	around.r = r
	for range p.layers {
		c := p.choices[r.IntN(len(p.choices))]
		if r.Float64() >= p.prob || c.amount == nil {
			continue
		}
		magnitude := p.magnitude
		if p.deviation > 0 {
			magnitude = min(max(0, magnitude+p.deviation*r.NormFloat64()), p.greatest)
		}
		amount := c.amount(level{strength: magnitude / p.scale, sign: float64(2*r.IntN(2) - 1), height: img.Height,
			width: img.Width, r: r})
		img = operations[c.name](img, amount, around)
	}
	return img
}
