// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
)

// unit is one training of a comparison.
type unit struct {
	variant
	size     [2]int // pixels of the pictures that the model sees, height and width; zero for the recipe's
	fraction float64
	seed     int
}

// units lists the trainings of a comparison. Seeds come first, then what the encodings share: an early look compares
// like with like.
func (o options) units() (units []unit) {
	for seed := range o.seeds {
		for _, fraction := range o.fractions {
			for _, size := range o.sizes {
				for _, v := range o.variants {
					units = append(units, unit{v, size, fraction, seed})
				}
			}
		}
	}
	return units
}

// recipe is what a unit trains. Its name tells the sizes of a study apart, which are different trainings.
func (u unit) recipe(base finetune.Recipe) (finetune.Recipe, error) {
	r, err := base.Set(u.settings)
	if err != nil {
		return r, fmt.Errorf("%s: %w", u.label, err)
	}
	r.Model.Position = u.position
	if u.size != [2]int{} {
		r.Augment.Size = u.size
		r.Name += " " + u.sizeName()
	}
	return r, nil
}

func (u unit) sizeName() string { return fmt.Sprintf("%dx%d", u.size[0], u.size[1]) }

// title names a unit in progress lines and errors.
func (u unit) title() string {
	title := u.label
	if u.size != [2]int{} {
		title += " " + u.sizeName()
	}
	if u.fraction < 1 {
		title += fmt.Sprintf(" on %g", u.fraction)
	}
	return fmt.Sprintf("%s seed %d", title, u.seed)
}

// dir is where a unit lives.
func (o options) dir(u unit) string {
	name := u.label + u.suffix()
	name = strings.Join(strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune(" ,=", c) }), "-")
	return filepath.Join(o.home(), fmt.Sprintf("%s-seed%d", name, u.seed))
}

// suffix tells the sizes and fractions of a study apart in the names of files.
func (u unit) suffix() (suffix string) {
	if u.size != [2]int{} {
		suffix += "-" + u.sizeName()
	}
	if u.fraction < 1 {
		suffix += fmt.Sprintf("-fraction%g", u.fraction)
	}
	return suffix
}

// home is where the units of a comparison live, and its pictures.
func (o options) home() string { return filepath.Join(o.checkpoint, o.recipe) }

// aspects returns the sizes of the pictures: those of -sizes, or of a study on aspect ratios.
func (o options) aspects(r finetune.Recipe, set *data.Set) ([][2]int, error) {
	if len(o.study.aspects) == 0 {
		return o.sizes, nil
	}
	if r.Model.PatchSize < 1 {
		return nil, fmt.Errorf("-study %s: recipe %s leaves the patch size to the model: -set model.patch_size=…",
			o.study.name, r.Name)
	}
	height, width := r.Augment.OutputSize(set.Height, set.Width)
	var sizes [][2]int
	for _, ratio := range o.study.aspects {
		sizes = append(sizes, squeezed(math.Sqrt(float64(height*width)), r.Model.PatchSize, ratio))
	}
	return sizes, nil
}

// squeezed returns the size whose sides are in the given ratio, multiples of the patch size, and whose area is nearest
// to that of a square picture.
func squeezed(side float64, patch int, ratio [2]int) [2]int {
	stretch := math.Sqrt(float64(ratio[0]) / float64(ratio[1]))
	patches := func(length float64) int { return max(1, int(math.Round(length/float64(patch)))) * patch }
	return [2]int{patches(side * stretch), patches(side / stretch)}
}
