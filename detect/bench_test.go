// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"image"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// The parts of a step of training on eight images of 96² pixels, and of detection in them, by a detector that trains
// on a CPU: proposals and sampling; losses and their gradients; detections with masks.
func BenchmarkDetector(b *testing.B) {
	c := Config{
		Backbone: Backbone{Config: vit.Config{ImageRows: 96, ImageCols: 96, PatchSize: 8, Width: 96, Depth: 4, Heads: 4,
			Classes: 5}, Window: 6, Global: []int{1, 3}},
		Channels: 48,
		RPN: RPN{Convs: 1, Sizes: []float64{8, 14, 24, 40, 64}, Samples: 128, Before: Counts{256, 128},
			After: Counts{128, 64}},
		ROI: ROI{Samples: 48, Convs: []int{48}, Dense: []int{128}, MaskSize: 7, Masks: []int{48, 48},
			CanonicalSize: 64, Top: 20},
	}.WithDefaults()
	d := gomlxtest.Must(New(gomlxtest.Backend(), gomlxtest.Seeded(b, 3).Scope("/detector"), c))(b)
	defer d.Finalize()
	var images []image.Image
	var annotations []Annotations
	for i := range 8 {
		img, truth := scene(96, 96, image.Rect(5+i, 9, 40+i, 50), image.Pt(70, 60+i), 13+i)
		images, annotations = append(images, img), append(annotations, truth)
	}
	pixels, _, err := canvas(images, d.Rows, d.Cols)
	if err != nil {
		b.Fatal(err)
	}
	step, err := model.NewExec(gomlxtest.Backend(), d.scope.Store(), func(root *model.Scope, in []*Node) []*Node {
		root.Store().SetTraining(in[0].Graph(), true)
		loss := total(c.Losses(root.Store().Scope("/detector"), InputsOf(in)))
		gradients := root.BuildTrainableVariablesGradientsGraph(loss)
		for i, x := range gradients {
			gradients[i] = ReduceAllSum(x)
		}
		return append(gradients, loss)
	})
	if err != nil {
		b.Fatal(err)
	}
	defer step.Finalize()
	in := gomlxtest.Must(d.Inputs(pixels, annotations, 1))(b)
	for name, part := range map[string]func(){
		"propose": func() { gomlxtest.Must(d.Inputs(pixels, annotations, 1))(b) },
		"losses":  func() { gomlxtest.Must(step.Call(anys(in.List())...))(b) },
		"detect":  func() { gomlxtest.Must(d.Detect(images...))(b) },
	} {
		b.Run(name, func(b *testing.B) {
			part() // compiles
			for b.Loop() {
				part()
			}
		})
	}
}
