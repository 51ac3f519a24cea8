// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"fmt"
	"image"
	"io"
	"math"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
)

// disturbance is a way to perturb images.
type disturbance struct {
	name  string
	apply func(images *data.InMemory) *data.InMemory
}

func occlusions(patch int, seed uint64) (all []disturbance) {
	for _, share := range []float64{0.1, 0.2, 0.3} {
		all = append(all, disturbance{fmt.Sprintf("%.0f %% occluded", 100*share),
			func(images *data.InMemory) *data.InMemory { return occluded(images, patch, share, seed) }})
	}
	return all
}

func movements(int, uint64) (all []disturbance) {
	add := func(name string, m movement) {
		all = append(all, disturbance{name, func(images *data.InMemory) *data.InMemory {
			return moved(images, m, draw.BiLinear)
		}})
	}
	for _, angle := range []float64{5, 10, 15, 30} {
		add(fmt.Sprintf("rotated by %g°", angle), movement{Rotation: angle, Scale: 1})
	}
	add("scaled by 0.9", movement{Scale: 0.9})
	add("scaled by 1.1", movement{Scale: 1.1})
	add("translated by 5/224", movement{Scale: 1, Shift: [2]float64{5. / 224, 5. / 224}})
	add("sheared by 5°", movement{Scale: 1, Shear: 5})
	return all
}

func shuffles(patch int, seed uint64) []disturbance {
	return []disturbance{{"patches shuffled", func(images *data.InMemory) *data.InMemory {
		return shuffled(images, patch, seed)
	}}}
}

// disturbed is an analysis of accuracy under disturbances of the patches.
func disturbed(by func(patch int, seed uint64) []disturbance) func(*subject) error {
	return func(s *subject) error { return s.withstand(by(s.model.Recipe.Model.PatchSize, s.Comparison.Seed)) }
}

// withstand measures accuracy on images at the model's size, unchanged and disturbed.
func (s *subject) withstand(all []disturbance) error {
	if err := s.predicts(); err != nil {
		return err
	}
	if s.model.Recipe.Aspect == finetune.AspectKeep {
		return notApplicable("the images have several sizes")
	}
	c, kernel := s.model.Recipe.Model, s.model.Recipe.Augment.Interpolation // with which Evaluate resizes
	images := sized(s.Images, c.ImageRows, c.ImageCols, cmp.Or(kernel, preprocess.Bilinear))
	untouched, err := s.model.Evaluate(images)
	if err != nil {
		return err
	}
	whole := 100 * float64(untouched.Top1)
	s.measured("top-1 accuracy, %", "original images", whole)
	row := func(set *data.InMemory) (row []image.Image) {
		for i := range min(shownImages, set.Len()) {
			row = append(row, set.RGBA(i))
		}
		return row
	}
	shown := [][]image.Image{row(images)}
	for _, d := range all {
		harder := d.apply(images)
		m, err := s.model.Evaluate(harder)
		if err != nil {
			return err
		}
		accuracy := 100 * float64(m.Top1)
		s.measured("top-1 accuracy, %", d.name, accuracy)
		s.measured("retained accuracy, %", d.name, 100*accuracy/whole)
		shown = append(shown, row(harder))
	}
	return s.show("perturbed images", "From top to bottom: original images, then in the order of the table.",
		func(w io.Writer) error { return figure.ImageGrid(w, shown, 1) })
}

func resolution(s *subject) error {
	if err := s.predicts(); err != nil {
		return err
	}
	named, err := study.ByName("resolution")
	if err != nil {
		return err
	}
	own, err := finetune.OpenOptions{Files: s.Import}.Open(s.Backend, s.Path) // at the training size
	if err != nil {
		return err
	}
	c := own.Recipe.Model
	own.Finalize()
	line, seen := figure.Line{}, map[[2]int]bool{} // multiples of a small grid may round to one size
	for _, multiple := range named.EvalSizes {
		patches := func(i, n int) int { return c.PatchSize * max(1, int(math.Round(multiple[i]*float64(n)))) }
		size := [2]int{patches(0, c.Rows()), patches(1, c.Cols())}
		if seen[size] {
			continue
		}
		seen[size] = true
		at, err := finetune.OpenOptions{Files: s.Import, Size: size}.Open(s.Backend, s.Path)
		if err != nil {
			return notApplicable(err.Error())
		}
		images, _, err := s.Comparison.Images(s.ctx, at)
		var m report.Metrics
		if err == nil {
			m, err = at.Evaluate(images)
		}
		at.Finalize()
		if err != nil {
			return err
		}
		s.used = images.Len()
		down, across := float64(size[0])/float64(c.ImageRows), float64(size[1])/float64(c.ImageCols) // in whole patches
		s.measured("top-1 accuracy, %", fmt.Sprintf("%.3g × %.3g training size, %dx%d", down, across, size[0], size[1]),
			100*float64(m.Top1))
		if multiple[0] == multiple[1] {
			line.X, line.Y = append(line.X, math.Sqrt(down*across)), append(line.Y, 100*float64(m.Top1))
		}
	}
	s.line("accuracy of the same weights at other sizes", "image side / training side", "top-1 accuracy (%)", line)
	return nil
}
