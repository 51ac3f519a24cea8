// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"io"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
)

// disturbed is a way to make images harder.
type disturbed struct {
	name string
	set  func(s *subject, sized *data.Memory) (*data.Memory, error)
}

func occlusion(s *subject) error {
	var ways []disturbed
	for _, share := range []float64{0.1, 0.2, 0.3} {
		ways = append(ways, disturbed{fmt.Sprintf("%.0f %% hidden", 100*share),
			func(s *subject, sized *data.Memory) (*data.Memory, error) {
				return occluded(sized, s.model.Recipe.Model.PatchSize, share, s.Look.Seed)
			}})
	}
	return s.withstand(ways)
}

func geometry(s *subject) error {
	var ways []disturbed
	add := func(name string, m Geometry) {
		ways = append(ways, disturbed{name, func(_ *subject, sized *data.Memory) (*data.Memory, error) {
			return Moved(sized, m)
		}})
	}
	for _, angle := range []float64{5, 10, 15, 30} {
		add(fmt.Sprintf("turned by %g°", angle), Geometry{Rotation: angle, Scale: 1})
	}
	add("0.9 times the size", Geometry{Scale: 0.9})
	add("1.1 times the size", Geometry{Scale: 1.1})
	add("shifted by 5/224", Geometry{Scale: 1, Shift: [2]float64{5. / 224, 5. / 224}})
	add("sheared by 5°", Geometry{Scale: 1, Shear: 5})
	return s.withstand(ways)
}

func shuffle(s *subject) error {
	return s.withstand([]disturbed{{"patches shuffled", func(s *subject, sized *data.Memory) (*data.Memory, error) {
		return Shuffled(sized, s.model.Recipe.Model.PatchSize, s.Look.Seed)
	}}})
}

// withstand measures accuracy on images at the model's size, as they are and disturbed.
func (s *subject) withstand(ways []disturbed) error {
	if err := s.answers(); err != nil {
		return err
	}
	c := s.model.Recipe.Model
	sized := Sized(s.Images, c.ImageRows, c.ImageCols)
	untouched, err := s.model.Evaluate(sized)
	if err != nil {
		return err
	}
	whole := 100 * float64(untouched.Top1)
	s.measured("top-1 accuracy, %", "as they are", whole)
	pictures := []*data.Memory{sized}
	for _, way := range ways {
		set, err := way.set(s, sized)
		if err != nil {
			return err
		}
		m, err := s.model.Evaluate(set)
		if err != nil {
			return err
		}
		accuracy := 100 * float64(m.Top1)
		s.measured("top-1 accuracy, %", way.name, accuracy)
		s.measured("kept of it, %", way.name, 100*accuracy/whole)
		pictures = append(pictures, data.First(set, s.Shown))
	}
	return s.show("what it was shown", "As they are, then disturbed in the order of the table.", func(w io.Writer) error {
		return contactSheet(w, pictures, s.Shown)
	})
}

func resolution(s *subject) error {
	if err := s.answers(); err != nil {
		return err
	}
	named, err := study.ByName("resolution")
	if err != nil {
		return err
	}
	sizes, err := study.SizesOf(named.Elsewhere, s.model.Recipe, s.Images.Describe())
	if err != nil {
		return err
	}
	line := report.Line{}
	for k, size := range sizes {
		at, err := finetune.Open(s.Backend, s.Path, finetune.Files(s.Import), finetune.Size(size[0], size[1]))
		if err != nil {
			return NotHere(err.Error())
		}
		m, err := at.Evaluate(s.Images)
		at.Finalize()
		if err != nil {
			return err
		}
		multiple := named.Elsewhere[k]
		s.measured("top-1 accuracy, %", fmt.Sprintf("%g × %g of the side", multiple[0], multiple[1]), 100*float64(m.Top1))
		if multiple[0] == multiple[1] {
			line.X, line.Y = append(line.X, multiple[0]), append(line.Y, 100*float64(m.Top1))
		}
	}
	s.line("trained at one size, measured at others", "side, in sides of the training", "top-1 accuracy (%)", line)
	return nil
}
