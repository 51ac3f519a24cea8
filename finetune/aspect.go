// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// How images whose aspect ratio differs from the model's are handled: values of Recipe.Aspect.
const (
	aspectCrop   = "crop"   // the central crop
	aspectSquash = "squash" // resized without keeping the aspect ratio
	// AspectKeep gives each image its own grid, of at most the model's number of patches (NaFlex): vit.NaFlexImages.
	AspectKeep = "keep"
)

// Aspects lists the values of Recipe.Aspect.
func Aspects() []string { return []string{aspectCrop, aspectSquash, AspectKeep} }

// validateAspect refuses what an aspect does not support.
func validateAspect(aspect string, a data.Augment, c vit.Config) error {
	switch {
	case aspect != "" && !slices.Contains(Aspects(), aspect):
		return fmt.Errorf("finetune: unknown aspect %q: want one of %s, or none for images of one size", aspect,
			strings.Join(Aspects(), ", "))
	case aspect != AspectKeep:
		return nil
	case a != a.Eval():
		return fmt.Errorf("finetune: aspect %s supports no augmentation except mean and std: turn off crops, flips, cutout "+
			"and mixing", aspect)
	}
	return c.Encoding().ValidateGrids()
}

// sidesOf returns the size of a model's images for a dataset, whose images may be resized by the augmentation. A model
// that keeps aspect ratios has the grid of its configured size, or a square; its images, of any grid with as many
// patches, are strips.
func sidesOf(set *data.Info, aspect string, a data.Augment, c vit.Config) (rows, cols int, err error) {
	switch {
	case aspect != AspectKeep && set.Grids != nil:
		return 0, 0, fmt.Errorf("finetune: the images of %s are in patches, which aspect %s needs, not %q", set.Name,
			AspectKeep, aspect)
	case aspect != AspectKeep:
		rows, cols = a.OutputSize(set.Height, set.Width)
		return rows, cols, nil
	case set.Grids == nil || set.Width != c.PatchSize:
		return 0, 0, fmt.Errorf("finetune: aspect %s needs images in patches of %d pixels (Recipe.Preprocessing): the "+
			"images of %s are not", aspect, c.PatchSize, set.Name)
	}
	if rows, cols = a.OutputSize(c.ImageRows, c.ImageCols); rows == 0 && cols == 0 {
		rows = set.Width * int(math.Round(math.Sqrt(float64(set.Height/set.Width))))
		cols = rows
	}
	if rows*cols != set.Height*set.Width {
		return 0, 0, fmt.Errorf("finetune: the images of %s have up to %d patches of %d pixels, the model's images are "+
			"%d×%d: set augment.size", set.Name, set.Height/set.Width, set.Width, rows, cols)
	}
	return rows, cols, nil
}

// ofStrips returns the images of a plan.
func ofStrips(strips *Node, plan []*Node) vit.NaFlexImages {
	d := strips.Shape().Dimensions // [batch, N·patch, patch, channels]
	return vit.NaFlexImages{Strips: strips, Grids: preprocess.Grids(d[1] / d[2]), Grid: plan[data.PlanGrids]}
}
