// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/vit"
)

// What becomes of pictures of other aspects than the model's images: values of Recipe.Aspect.
const (
	AspectCrop   = "crop"   // the middle is kept
	AspectSquash = "squash" // sides are stretched apart
	// AspectKeep gives each picture a grid of its own, of as many patches as an image has or fewer (NaFlex):
	// vit.Pictures.
	AspectKeep = "keep"
)

// Aspects lists them.
func Aspects() []string { return []string{AspectCrop, AspectSquash, AspectKeep} }

// Pictures says how pictures of any aspect become what the recipe trains on, at a size in pixels.
func (r Recipe) Pictures(size [2]int) (preprocess.Settings, error) {
	s := preprocess.Settings{Resample: preprocess.Bicubic, Size: size}
	switch r.Aspect {
	case AspectSquash:
		s.Fit = preprocess.FitExact
	case AspectKeep:
		if s.Fit, s.Patch = preprocess.FitPatches, r.Model.PatchSize; s.Patch == 0 {
			return s, fmt.Errorf("finetune: aspect %s: recipe %s leaves the patch size to the model: set model.patch_size",
				r.Aspect, r.Name)
		}
	default:
		s.Fit, s.Crop = preprocess.FitCover, size
	}
	return s, s.Validate()
}

// validateAspect refuses what does not go with the aspect.
func (r Recipe) validateAspect() error {
	switch {
	case r.Aspect != "" && !slices.Contains(Aspects(), r.Aspect):
		return fmt.Errorf("finetune: unknown aspect %q: want one of %s, or none for images of one size", r.Aspect,
			strings.Join(Aspects(), ", "))
	case r.Aspect != AspectKeep:
		return nil
	}
	if err := r.plainViT("takes pictures of aspect " + r.Aspect); err != nil {
		return err
	}
	if r.Augment != r.Augment.Eval() {
		return fmt.Errorf("finetune: aspect %s goes with no augmentation but mean and std: crops, flips, cutout and mixing "+
			"are those of images of one size", r.Aspect)
	}
	return r.Model.Encoding().ValidatePictures()
}

// oneSize refuses what is not there for a model of pictures of several grids.
func (r Recipe) oneSize(what string) error {
	if r.Aspect == AspectKeep {
		return fmt.Errorf("finetune: recipe %s keeps the aspect of its pictures: %s is for models of images of one size",
			r.Name, what)
	}
	return nil
}

// sized returns the recipe with the size of its images, and that, for a set. The grid of a model that keeps the aspect of
// its pictures is that of its size, or a square; the pictures, of any grid of so many patches, come as strips that are
// resized no more.
func (r Recipe) sized(set *data.Set) (Recipe, int, int, error) {
	if r.Aspect != AspectKeep {
		if set.Grids != nil {
			return r, 0, 0, fmt.Errorf("finetune: the pictures of %s are cut into patches: that is for aspect %s, not %q",
				set.Name, AspectKeep, r.Aspect)
		}
		rows, cols := r.Augment.OutputSize(set.Height, set.Width)
		return r, rows, cols, nil
	}
	if set.Grids == nil || set.Width != r.Model.PatchSize {
		return r, 0, 0, fmt.Errorf("finetune: aspect %s wants pictures in patches of %d pixels, see Recipe.Pictures; those of "+
			"%s are not", r.Aspect, r.Model.PatchSize, set.Name)
	}
	rows, cols := r.Augment.OutputSize(r.Model.ImageRows, r.Model.ImageCols)
	if rows == 0 && cols == 0 {
		rows = set.Width * int(math.Round(math.Sqrt(float64(set.Height/set.Width))))
		cols = rows
	}
	if r.Augment.Size = [2]int{}; rows*cols != set.Height*set.Width {
		return r, 0, 0, fmt.Errorf("finetune: the pictures of %s have up to %d patches of %d pixels, the model's images are "+
			"%d×%d: set augment.size", set.Name, set.Height/set.Width, set.Width, rows, cols)
	}
	return r, rows, cols, nil
}

// ofStrips are the pictures of a plan.
func ofStrips(strips *Node, plan []*Node) vit.Pictures {
	d := strips.Shape().Dimensions // [batch, N·patch, patch, channels]
	return vit.Pictures{Strips: strips, Grids: preprocess.Grids(d[1] / d[2]), Grid: plan[data.PlanGrids]}
}
