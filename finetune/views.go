// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Test-time augmentations: values of AverageViews.
const (
	viewsNone    = "none"
	viewsFlip    = "flip"     // an image and its mirror image
	viewsTenCrop = "ten-crop" // four corners and the centre, 7/8 of each side, resized, and their mirror images
)

// AverageViews makes Evaluate, Examine and Predict average the scores, see Model.Scores, of several views of each image
// (test-time augmentation): "flip", "ten-crop" as torchvision's TenCrop, or "none". Time grows with the number of
// views.
func (m *Model) AverageViews(views string) error {
	if views != viewsNone && views != viewsFlip && views != viewsTenCrop {
		return fmt.Errorf("finetune: unknown test-time augmentation %q: want %q, %q or %q", views, viewsNone,
			viewsFlip, viewsTenCrop)
	}
	if views != viewsNone {
		if err := m.Recipe.oneSize("test-time augmentation"); err != nil {
			return err
		}
	}
	program, err := m.forward(func(scope *model.Scope, images *Node, plan []*Node) []*Node {
		if views == viewsNone {
			return []*Node{m.logits(scope, images, plan)}
		}
		shown := viewsOf(images, views)
		batch, classes := images.Shape().Dim(0), m.Recipe.Model.Classes
		logits := m.logits(scope, Concatenate(shown, 0), plan)                           // [views·batch, classes]
		return []*Node{averageOf(Reshape(logits, len(shown), batch, classes), m.Scores)} // [batch, classes]
	})
	if err != nil {
		return err
	}
	m.eval.Finalize()
	m.eval, m.examined.source = program, nil
	return nil
}

// averageOf returns the logits [batch, classes] whose scores are the mean scores of views with logits [views, batch,
// classes]; scores is Model.Scores.
func averageOf(logits *Node, scores string) *Node {
	switch scores {
	case "sigmoid": // log(p/(1−p)), with 1−p from the opposite logits: near 1 the difference would lose its digits
		return Sub(logOfMean(logSigmoid(logits)), logOfMean(logSigmoid(Neg(logits))))
	case "none":
		return ReduceMean(logits, 0)
	default:
		return logOfMean(LogSoftmax(logits))
	}
}

// logSigmoid is log σ(x) = min(x, 0) − log(1 + exp(−|x|)).
func logSigmoid(x *Node) *Node { return Sub(MinScalar(x, 0), Log1P(Exp(Neg(Abs(x))))) }

// logOfMean is log of the mean of exp(logs) over the first axis.
func logOfMean(logs *Node) *Node {
	peak := ReduceAndKeep(logs, ReduceMax, 0)
	return Add(Squeeze(peak, 0), Log(ReduceMean(Exp(Sub(logs, peak)), 0)))
}

// viewsOf returns the views of images [batch, height, width, channels], each of the same shape.
func viewsOf(images *Node, views string) []*Node {
	shown := []*Node{images}
	if views == viewsTenCrop {
		height, width := images.Shape().Dim(1), images.Shape().Dim(2)
		h, w := (7*height+4)/8, (7*width+4)/8 // rounded
		shown = nil
		for _, at := range [][2]int{{0, 0}, {0, width - w}, {height - h, 0}, {height - h, width - w},
			{(height - h) / 2, (width - w) / 2}} {
			crop := Slice(images, AxisRange(), AxisRange(at[0], at[0]+h), AxisRange(at[1], at[1]+w), AxisRange())
			shown = append(shown, Interpolate(crop, NoInterpolation, height, width, NoInterpolation).Bilinear().Done())
		}
	}
	for _, view := range shown {
		shown = append(shown, Reverse(view, 2))
	}
	return shown
}
