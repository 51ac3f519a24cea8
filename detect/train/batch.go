// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/scenes"
)

// batch is the scenes of a step.
type batch struct {
	step        int
	pixels      *tensors.Tensor      // uint8 [batch, rows, cols, 3]
	annotations []detect.Annotations // of each image
}

// Fetch reads the scenes of a step: a function of the seed and the step.
func (d *detection) Fetch(step int) error {
	if step == d.batch.step {
		return nil
	}
	r := d.Recipe
	perPass := d.Train.Len() / r.BatchSize
	epoch, first := step/perPass, step%perPass*r.BatchSize
	if first == 0 || d.order == nil {
		d.order = data.Order(d.Seed, epoch, d.Train.Len(), 1)
	}
	rows, cols := r.Jitter.Height, r.Jitter.Width
	pixels, annotations := make([]uint8, r.BatchSize*rows*cols*3), make([]detect.Annotations, r.BatchSize)
	var read errgroup.Group
	for i, index := range d.order[first : first+r.BatchSize] {
		read.Go(func() error {
			scene, err := d.Train.At(index)
			if err != nil {
				return err
			}
			scene = r.Jitter.Apply(scene, d.Seed, epoch, index)
			copy(pixels[i*rows*cols*3:], scene.Image.Pixels)
			annotations[i] = annotationsOf(scene)
			return nil
		})
	}
	if err := read.Wait(); err != nil {
		return err
	}
	d.batch = batch{step, tensors.FromFlatDataAndDimensions(pixels, r.BatchSize, rows, cols, 3), annotations}
	return nil
}

// annotationsOf returns a scene's annotations without crowds, which are not trained on.
func annotationsOf(s *scenes.Scene) detect.Annotations {
	t := detect.Annotations{Rows: s.Rows, Cols: s.Cols}
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
