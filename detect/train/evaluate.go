// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"image"
	"slices"
	"strings"

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

// identifiers returns the IDs that a test gives to a detector's categories, by their names. Categories with other names
// are an error: every detection would count as wrong.
func identifiers(own []coco.Category, test *coco.Dataset) (ids []int64, err error) {
	theirs := test.SortedCategories()
	same := len(own) == len(theirs)
	for i, c := range own {
		at := slices.IndexFunc(theirs, func(d coco.Category) bool { return d.Name == c.Name })
		if same && theirs[i].ID == c.ID && theirs[i].Name == c.Name { // also if names are missing or repeated
			at = i
		}
		if same = same && at >= 0; same {
			ids = append(ids, theirs[at].ID)
		}
	}
	if !same {
		return nil, fmt.Errorf("detection: %s has the categories %s, the detector %s: use images with the same categories",
			test.Name, categoryNames(theirs), categoryNames(own))
	}
	return ids, nil
}

// categoryNames lists the first categories.
func categoryNames(all []coco.Category) string {
	const most = 5
	var names []string
	for _, c := range all[:min(most, len(all))] {
		names = append(names, fmt.Sprintf("%q", c.Name))
	}
	if len(all) > most {
		names = append(names, fmt.Sprintf("… (%d)", len(all)))
	}
	return strings.Join(names, ", ")
}

// Evaluate detects the objects in all scenes of a test, whose annotations must have the model's categories by name, and
// returns COCO's twelve metrics for boxes and for masks, the latter nil for a detector without masks, and all
// detections.
func (m *Model) Evaluate(test Test) (numbers report.Found, all []coco.Detection, err error) {
	categories, err := identifiers(m.Categories, test.Annotations)
	if err != nil {
		return numbers, nil, err
	}
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
				all = append(all, result(ids[i], categories[d.Class], d))
			}
		}
	}
	numbers, err = m.compare(test, all)
	return numbers, all, err
}

// result converts a detection to COCO's form.
func result(image, category int64, d detect.Detection) coco.Detection {
	box := cocoBox(d.Box)
	out := coco.Detection{ImageID: image, CategoryID: category, Box: &box, Score: float64(d.Score)}
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
	return compare(test, all, !m.Recipe.Detector.ROI.NoMasks)
}

func compare(test Test, all []coco.Detection, withMasks bool) (found report.Found, err error) {
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
	if found.Boxes, err = evaluate(boxes, false); err != nil || !withMasks {
		return found, err
	}
	found.Masks, err = evaluate(masks, true)
	return found, err
}
