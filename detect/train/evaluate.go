// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"image"

	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/report"
)

// canvas returns the rows and columns of a test's canvas.
func (t Test) canvas(c detect.Config) (rows, cols int) {
	if t.Rows == 0 && t.Cols == 0 {
		return c.Backbone.ImageRows, c.Backbone.ImageCols
	}
	return t.Rows, t.Cols
}

// at detects the objects in images at a test's size.
func (m *Model) at(test Test, images ...image.Image) ([][]detect.Detection, error) {
	trainedRows, trainedCols := m.Rows, m.Cols
	defer func() { m.Rows, m.Cols = trainedRows, trainedCols }()
	m.Rows, m.Cols = test.canvas(m.Recipe.Detector)
	return m.Detect(images...)
}

// Evaluate detects the objects in all scenes of a test and returns COCO's twelve metrics for boxes and for masks, the
// latter nil for a detector without masks, and all detections.
func (m *Model) Evaluate(test Test) (numbers report.Found, all []coco.Detection, err error) {
	batch := min(m.Recipe.BatchSize, test.Scenes.Len())
	for first := 0; first < test.Scenes.Len(); first += batch {
		images, ids := make([]image.Image, batch), make([]int64, batch)
		for i := range batch {
			scene, err := test.Scenes.At(min(first+i, test.Scenes.Len()-1)) // padded, so that one program suffices
			if err != nil {
				return numbers, nil, err
			}
			images[i], ids[i] = scene.Image.RGBA(), scene.ImageID
		}
		found, err := m.at(test, images...)
		if err != nil {
			return numbers, nil, err
		}
		for i := range min(batch, test.Scenes.Len()-first) {
			for _, d := range found[i] {
				all = append(all, m.result(ids[i], d))
			}
		}
	}
	numbers, err = m.compare(test, all)
	return numbers, all, err
}

// result converts a detection to COCO's form.
func (m *Model) result(image int64, d detect.Detection) coco.Detection {
	box := cocoBox(d.Box)
	out := coco.Detection{ImageID: image, CategoryID: m.Categories[d.Class].ID, Box: &box, Score: float64(d.Score)}
	if d.Mask != nil {
		out.Segmentation = coco.Encode(d.Mask.Pixels, d.Mask.Rows, d.Mask.Cols).Segmentation()
	}
	return out
}

func cocoBox(b detect.Box) coco.Box {
	return coco.FromCorners([4]float64{float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])})
}

// compare compares detections with the ground truth. Masks are evaluated without the boxes, whose areas would determine
// their size class.
func (m *Model) compare(test Test, all []coco.Detection) (found report.Found, err error) {
	evaluate := func(all []coco.Detection, masks bool) (map[string]report.Number, error) {
		values, err := coco.Evaluate(test.Annotations, all, coco.Params{Masks: masks, Areas: test.Areas})
		named := map[string]report.Number{}
		for i, value := range values {
			named[coco.StatNames[i]] = report.Number(value)
		}
		return named, err
	}
	boxes := make([]coco.Detection, len(all))
	masks := make([]coco.Detection, len(all))
	for i, d := range all {
		boxes[i], masks[i] = d, d
		boxes[i].Segmentation, masks[i].Box = coco.Segmentation{}, nil
	}
	if found.Boxes, err = evaluate(boxes, false); err != nil || m.Recipe.Detector.ROI.NoMasks {
		return found, err
	}
	found.Masks, err = evaluate(masks, true)
	return found, err
}
