// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"image"

	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/report"
)

// Measured is what a detector came to on scenes.
type Measured struct {
	Boxes, Masks *coco.Evaluation // Masks is nil for a detector that has none
	Detections   []coco.Detection // image by image
}

// Numbers are COCO's twelve of boxes and of masks.
func (m Measured) Numbers() (found report.Found) {
	numbers := func(e *coco.Evaluation) map[string]report.Number {
		if e == nil {
			return nil
		}
		all := map[string]report.Number{}
		for i, value := range e.Stats() {
			all[coco.StatNames[i]] = report.Number(value)
		}
		return all
	}
	return report.Found{Boxes: numbers(m.Boxes), Masks: numbers(m.Masks)}
}

// canvas are the rows and columns that a test's images are fitted into.
func (t Test) canvas(c detect.Config) (rows, cols int) {
	if t.Rows == 0 && t.Cols == 0 {
		return c.Backbone.ImageRows, c.Backbone.ImageCols
	}
	return t.Rows, t.Cols
}

// at finds the objects in images as a test has them seen.
func (m *Model) at(test Test, images ...image.Image) ([][]detect.Detection, error) {
	trainedRows, trainedCols := m.Rows, m.Cols
	defer func() { m.Rows, m.Cols = trainedRows, trainedCols }()
	m.Rows, m.Cols = test.canvas(m.Recipe.Detector)
	return m.Detect(images...)
}

// Evaluate finds the objects of all scenes of a test and compares them with what is there, as COCO does.
func (m *Model) Evaluate(test Test) (Measured, error) {
	var all []coco.Detection
	batch := min(m.Recipe.BatchSize, test.Scenes.Len())
	for first := 0; first < test.Scenes.Len(); first += batch {
		images, ids := make([]image.Image, batch), make([]int64, batch)
		for i := range batch {
			scene, err := test.Scenes.At(min(first+i, test.Scenes.Len()-1)) // filled up, so that one program serves all
			if err != nil {
				return Measured{}, err
			}
			images[i], ids[i] = scene.Image.RGBA(), scene.ImageID
		}
		found, err := m.at(test, images...)
		if err != nil {
			return Measured{}, err
		}
		for i := range min(batch, test.Scenes.Len()-first) {
			for _, d := range found[i] {
				all = append(all, m.result(ids[i], d))
			}
		}
	}
	return m.compare(test, all)
}

// result is a detection in COCO's form.
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

// compare holds detections to what is there. Masks are compared without the boxes, whose areas would decide what is
// small.
func (m *Model) compare(test Test, all []coco.Detection) (out Measured, err error) {
	out.Detections = all
	evaluate := func(all []coco.Detection, masks bool) (*coco.Evaluation, error) {
		var results *coco.Results // nil where nothing was found
		if len(all) > 0 {
			if results, err = test.Annotations.Results(all); err != nil {
				return nil, err
			}
		}
		return coco.Evaluate(test.Annotations, results, coco.Params{Masks: masks, Areas: test.Areas})
	}
	boxes := make([]coco.Detection, len(all))
	masks := make([]coco.Detection, len(all))
	for i, d := range all {
		boxes[i], masks[i] = d, d
		boxes[i].Segmentation, masks[i].Box = coco.Segmentation{}, nil
	}
	if out.Boxes, err = evaluate(boxes, false); err != nil || m.Recipe.Detector.ROI.NoMasks {
		return out, err
	}
	out.Masks, err = evaluate(masks, true)
	return out, err
}
