// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	_ "embed" // the comments of settings
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/setting"
)

//go:embed augment.go
var augmentCode string

var _ = setting.Describe(augmentCode)

// Augment describes how images become a model's input. The zero value only scales pixels to 0…1.
//
// The steps, in the order of the authors' CIFAR-100 script: random crop of the zero-padded image, or random resized
// crop; flips; resize to Size; rotation, policy, colour jitter, grey and erasing (on the host, and with them crop and
// resize); normalization; cutout; mixup or cutmix.
//
// The shape of the graph depends on which steps are enabled, not on their strengths: a graph built with mixing also
// works for plans from a copy of the struct with other strengths, or without the step.
type Augment struct {
	// Size is the height and width of the output; zero keeps the dataset's. The resize is bilinear, anti-aliased when
	// shrinking as in Pillow and torchvision.
	Size [2]int `json:"size,omitzero"`
	// Pad is how many black pixels are put around an image before a random crop of its own size, 0 for no crop:
	// torchvision's RandomCrop(32, padding=4).
	Pad int `json:"pad,omitzero"`
	// CropScale is the smallest and largest share of the area that a random resized crop keeps (torchvision's
	// RandomResizedCrop, whole pixels); zero takes none. Not together with Pad.
	CropScale [2]float64 `json:"crop_scale,omitzero"`
	// CropRatio is the smallest and largest width/height of that crop; zero means 3/4 and 4/3.
	CropRatio [2]float64 `json:"crop_ratio,omitzero"`
	// HFlip is the probability of exchanging left and right.
	HFlip float64 `json:"hflip,omitzero"`
	// VFlip is the probability of exchanging top and bottom.
	VFlip float64 `json:"vflip,omitzero"`
	// Interpolation is the kernel of a resize on the host; "" is bilinear, on the host or in the graph.
	Interpolation preprocess.Resample `json:"interpolation,omitzero"`
	// Rotate is the largest rotation in degrees, to either side; nearest pixel, black corners: torchvision's
	// RandomRotation.
	Rotate float64 `json:"rotate,omitzero"`
	// Policy is an automatic augmentation: rand-m9-mstd0.5-inc1 and similar (timm), randaug(2,10) (big_vision),
	// RandAugment(2,9) (torchvision), 3-augment (DeiT-III).
	Policy string `json:"policy,omitzero"`
	// Jitter is the range of brightness, contrast, saturation (relative) and hue (fraction of the circle), to either side:
	// torchvision's ColorJitter.
	Jitter [4]float64 `json:"jitter,omitzero"`
	// GrayscaleProb is the probability of conversion to greyscale.
	GrayscaleProb float64 `json:"grayscale_prob,omitzero"`
	// RandomErasingProb is the probability of erasing a box.
	RandomErasingProb float64 `json:"random_erasing_prob,omitzero"`
	// EraseScale is the smallest and largest share of the area that such a box has; zero means 1/50 and 1/3.
	EraseScale [2]float64 `json:"erase_scale,omitzero"`
	// EraseNoise fills the box with noise, timm's mode "pixel", instead of the mean.
	EraseNoise bool `json:"erase_noise,omitzero"`
	// RepeatedAug is how often an epoch shows each image, of n/RepeatedAug distinct ones, drawn by Order; 0 is 1.
	RepeatedAug int `json:"repeated_aug,omitzero"`
	// Cutout is the side, in output pixels, of one square set to 0 after normalization; its centre is uniform over the
	// output, so that it may be cut by the border (DeVries and Taylor 2017).
	Cutout int `json:"cutout,omitzero"`
	// MixupAlpha is α of mixup, 0 for none: each image is blended with a partner of the batch, by one λ ~ Beta(α, α) a
	// batch (Zhang et al. 2018).
	MixupAlpha float64 `json:"mixup_alpha,omitzero"`
	// CutmixAlpha is α of cutmix, 0 for none: one box of the partner, the same for the batch, of area 1-λ, is pasted (Yun
	// et al. 2019).
	CutmixAlpha float64 `json:"cutmix_alpha,omitzero"`
	// MixProb is the probability that a batch is mixed; zero means 1.
	MixProb float64 `json:"mix_prob,omitzero"`
	// SwitchProb is the probability of cutmix if both alphas are set; zero means 1/2.
	SwitchProb float64 `json:"switch_prob,omitzero"`
	// Mean is subtracted per channel, in units where a pixel is 0…1: the output is (pixel/255 - Mean)/Std.
	Mean [3]float64 `json:"mean,omitzero"`
	// Std divides per channel, in the same units; zero means 1.
	Std [3]float64 `json:"std,omitzero"`
}

// SplitHostGraph returns the part of an augmentation that the host does, the zero value for none, and the part that is
// left for the graph. The graph computes everything that it supports, except that random crops of images that are not
// in memory are taken from the originals, and so are the steps up to erasing that follow them.
func (a Augment) SplitHostGraph(s Dataset) (host, graph Augment) {
	_, held := s.(*InMemory)
	host, graph = Augment{}, a
	height, width := s.Describe().Height, s.Describe().Width
	if a.onHost() || a.crops() && !held {
		host, graph = a, a.afterHost()
		height, width = a.OutputSize(height, width)
	}
	if !held {
		host.Size = [2]int{height, width}
	}
	return host, graph
}

// Eval returns the augmentation of evaluation: Size, Mean and Std of a. [InOrder] adds the interpolation of a resize.
func (a Augment) Eval() Augment {
	return Augment{Size: a.Size, Mean: a.Mean, Std: a.Std}
}

// OutputSize returns height and width of the output for images of the given height and width.
func (a Augment) OutputSize(height, width int) (outHeight, outWidth int) {
	if a.Size != [2]int{} {
		return a.Size[0], a.Size[1]
	}
	return height, width
}

// Validate reports the first field out of its range.
func (a Augment) Validate() error {
	for _, p := range []struct {
		name      string
		v, lo, hi float64
	}{
		{"pad", float64(a.Pad), 0, preprocess.MaxSide},
		{"crop_scale", a.CropScale[0], 0, a.CropScale[1]}, {"crop_scale", a.CropScale[1], 0, 1},
		{"crop_ratio", a.CropRatio[0], 0, a.CropRatio[1]}, {"crop_ratio", a.CropRatio[1], 0, 100},
		{"hflip", a.HFlip, 0, 1}, {"vflip", a.VFlip, 0, 1},
		{"rotate", a.Rotate, 0, 180}, {"grayscale_prob", a.GrayscaleProb, 0, 1},
		{"random_erasing_prob", a.RandomErasingProb, 0, 1},
		{"erase_scale", a.EraseScale[0], 0, a.EraseScale[1]}, {"erase_scale", a.EraseScale[1], 0, 1},
		{"jitter of brightness", a.Jitter[0], 0, 10}, {"jitter of contrast", a.Jitter[1], 0, 10},
		{"jitter of saturation", a.Jitter[2], 0, 10}, {"jitter of hue", a.Jitter[3], 0, 0.5},
		{"repeated_aug", float64(a.RepeatedAug), 0, 100},
		{"cutout", float64(a.Cutout), 0, preprocess.MaxSide},
		{"mixup_alpha", a.MixupAlpha, 0, 1000}, {"cutmix_alpha", a.CutmixAlpha, 0, 1000},
		{"mix_prob", a.MixProb, 0, 1}, {"switch_prob", a.SwitchProb, 0, 1},
	} {
		if !(p.v >= p.lo && p.v <= p.hi) { // false for NaN, too
			return fmt.Errorf("data: augment: %s %g, want %g to %g", p.name, p.v, p.lo, p.hi)
		}
	}
	s := preprocess.Settings{Size: a.Size, Mean: a.Mean, Std: a.Std}
	if a.Size != [2]int{} {
		s.Resize = preprocess.ResizeExact
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("data: augment: %s", strings.TrimPrefix(err.Error(), "preprocess: "))
	}
	if a.crops() && (a.CropScale[0] == 0 || a.CropRatio != [2]float64{} && a.CropRatio[0] == 0) {
		return fmt.Errorf("data: augment: crop_scale %v and crop_ratio %v must be above 0", a.CropScale, a.CropRatio)
	}
	if a.crops() && a.Pad > 0 {
		return fmt.Errorf("data: augment: pad %d and crop_scale %v are two kinds of crop: choose one", a.Pad, a.CropScale)
	}
	if !slices.Contains([]preprocess.Resample{"", preprocess.Bilinear, preprocess.Bicubic, preprocess.Lanczos,
		preprocess.Box, preprocess.Hamming, preprocess.Nearest}, a.Interpolation) {
		return fmt.Errorf("data: augment: unknown interpolation %q: want bilinear, bicubic or another of Pillow's",
			a.Interpolation)
	}
	if a.Policy != "" {
		if _, err := parsePolicy(a.Policy, [3]uint8{}); err != nil {
			return fmt.Errorf("data: augment: policy %q: %w", a.Policy, err)
		}
	}
	return nil
}

func (a Augment) crops() bool { return a.CropScale != [2]float64{} }

func (a Augment) mixes() bool { return a.MixupAlpha > 0 || a.CutmixAlpha > 0 }
