// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"math"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
)

// stepProgram compiles the second half of a step: the losses of what the host has sampled, their gradient and the
// update. Inputs: detect.Inputs in the order of List, scalars. Outputs: the losses, in the order of Config.LossNames.
func stepProgram(m *Model) (*model.Exec, error) {
	r := m.Recipe
	factor := func(variable string) float64 {
		if r.Optimizer.LayerDecay == 0 {
			return 1
		}
		below := strings.TrimPrefix(variable, detectorScope+"/")
		return r.Detector.Backbone.LearningRateFactor(below, r.Optimizer.LayerDecay)
	}
	return model.NewExec(m.backend, m.store, func(root *model.Scope, inputs []*Node) []*Node {
		g := inputs[0].Graph()
		root.Store().SetTraining(g, true)
		last := len(inputs) - 1
		losses := r.Detector.Losses(root.Store().Scope(detectorScope), detect.InputsOf(inputs[:last]))
		vars := finetune.Trainable(root, g, ofDetector)
		weights := make([]*Node, len(vars))
		for i, v := range vars {
			weights[i] = v.NodeValue(g)
		}
		r.Optimizer.Update(root, vars, Gradient(losses.Total(), weights...), inputs[last], factor)
		return losses.All()
	})
}

// batch is what a step looks at: pixels uint8 [batch, rows, cols, 3] and what they show. It is a function of the seed
// and the step.
func (t *trainer) batch() (*tensors.Tensor, []detect.Truth, error) {
	r := t.Recipe
	epoch, first := t.step/t.perPass, t.step%t.perPass*r.BatchSize
	if first == 0 || t.order == nil {
		t.order = data.Order(t.Seed, epoch, t.Train.Len())
	}
	rows, cols := r.Jitter.Height, r.Jitter.Width
	pixels, truths := make([]uint8, r.BatchSize*rows*cols*3), make([]detect.Truth, r.BatchSize)
	var read errgroup.Group
	for i, index := range t.order[first : first+r.BatchSize] {
		read.Go(func() error {
			scene, err := t.Train.At(index)
			if err != nil {
				return err
			}
			scene = r.Jitter.Apply(scene, t.Seed, epoch, index)
			copy(pixels[i*rows*cols*3:], scene.Picture.Pixels)
			truths[i] = truthOf(scene)
			return nil
		})
	}
	err := read.Wait()
	return tensors.FromFlatDataAndDimensions(pixels, r.BatchSize, rows, cols, 3), truths, err
}

// truthOf is a scene without its crowds, as training wants it.
func truthOf(s *scenes.Scene) detect.Truth {
	t := detect.Truth{Rows: s.Rows, Cols: s.Cols}
	for _, o := range s.Objects {
		c := o.Box.Corners()
		box := detect.Box{float32(c[0]), float32(c[1]), float32(c[2]), float32(c[3])}
		if o.Crowd || box.Empty() {
			continue
		}
		var mask detect.Mask
		switch {
		case o.Polygons != nil:
			mask = detect.Polygons(o.Polygons)
		case o.Mask.Height > 0:
			mask = detect.Bitmap{Rows: o.Mask.Height, Cols: o.Mask.Width, Pixels: o.Mask.Decode()}
		}
		t.Boxes, t.Classes, t.Masks = append(t.Boxes, box), append(t.Classes, o.Class), append(t.Masks, mask)
	}
	return t
}

// update makes one optimizer step and returns its loss.
func (t *trainer) update() (total float64, err error) {
	pixels, truths, err := t.batch()
	if err != nil {
		return 0, err
	}
	inputs, err := t.model.Inputs(pixels, truths, t.Seed<<32+int64(t.step))
	if err != nil {
		return 0, fmt.Errorf("detection: step %d: %w", t.step, err)
	}
	var all []any
	for _, x := range inputs.List() {
		all = append(all, x)
	}
	// The scalars are finetune's, with no decay of an average at the end.
	scalars := t.Recipe.Optimizer.Scalars(t.Recipe.rate(t.step), t.step)
	outputs, err := t.program.Call(append(all, scalars)...)
	if err != nil {
		return 0, fmt.Errorf("detection: step %d: %w", t.step, err)
	}
	for i, output := range outputs {
		loss := float64(tensors.ToScalar[float32](output))
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return 0, fmt.Errorf("detection: the loss %s became %v at step %d: %w; lower learning_rate or set "+
				"optimizer.clip_norm", t.Recipe.Detector.LossNames()[i], loss, t.step+1, finetune.ErrDiverged)
		}
		total += loss
		_ = output.FinalizeAll()
	}
	t.step++
	return total, nil
}
