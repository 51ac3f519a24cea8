// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"fmt"
	"image"
	"slices"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/report"
)

// Test is a test split for a detector.
type Test struct {
	Scenes *scenes.Set

	// Rows and Cols are the pixels of the canvas for images, multiples of the patch size; 0 for those of generated scenes,
	// or the detector's training size.
	Rows, Cols int
}

// canvas returns the rows and columns of a test's canvas.
func (t Test) canvas(c Config) (rows, cols int) {
	if t.Rows == 0 && t.Cols == 0 {
		return cmp.Or(t.Scenes.Rows, c.Backbone.ImageRows), cmp.Or(t.Scenes.Cols, c.Backbone.ImageCols)
	}
	return t.Rows, t.Cols
}

// needed returns scenes without the masks that a detector of boxes does not need.
func (c Config) needed(s *scenes.Set) *scenes.Set {
	if c.ROI.NoMasks {
		return s.WithoutMasks()
	}
	return s
}

// identifiers returns the IDs that a test gives to a detector's categories, by their names. Categories with other names
// are an error: every detection would count as wrong.
func identifiers(own []coco.Category, test *scenes.Set) (ids []int64, err error) {
	theirs := test.Categories
	if len(own) != len(theirs) {
		return nil, fmt.Errorf("detect: %s has %d categories, the detector %d: use images with the same categories",
			test.Name, len(theirs), len(own))
	}
	for i, c := range own {
		at := slices.IndexFunc(theirs, func(d coco.Category) bool { return d.Name == c.Name })
		if theirs[i].ID == c.ID && theirs[i].Name == c.Name { // also if names are missing or repeated
			at = i
		}
		if at < 0 || slices.Contains(ids, theirs[at].ID) { // of several with one name, the first is taken
			return nil, fmt.Errorf("detect: %s lacks the detector's category %q: use images with the same categories",
				test.Name, c.Name)
		}
		ids = append(ids, theirs[at].ID)
	}
	return ids, nil
}

// Check refuses a test that Evaluate would: its annotations must have the detector's categories by name, and everything
// that their evaluation reads.
func (d *Detector) Check(test Test) error {
	_, err := d.Recipe.Detector.check(d.Categories, test)
	return err
}

// check returns the identifiers of the categories in a test.
func (c Config) check(own []coco.Category, test Test) (ids []int64, err error) {
	if ids, err = identifiers(own, test.Scenes); err != nil {
		return nil, err
	}
	if _, err := test.compare(nil, !c.ROI.NoMasks); err != nil {
		return nil, fmt.Errorf("detect: the objects of the test images: %w", err)
	}
	if err := c.checkCanvas(test.canvas(c)); err != nil {
		return nil, fmt.Errorf("%w: the test images", err)
	}
	return ids, nil
}

// Evaluate detects the objects in all scenes of a test and returns COCO's twelve metrics for boxes and for masks, the
// latter nil for a detector or annotations without masks, and all detections.
func (d *Detector) Evaluate(test Test) (numbers report.DetectionMetrics, all []coco.Detection, err error) {
	categories, err := d.Recipe.Detector.check(d.Categories, test)
	if err != nil {
		return numbers, nil, err
	}
	test.Scenes = d.Recipe.Detector.needed(test.Scenes)
	rows, cols := test.canvas(d.Recipe.Detector)
	batch := min(d.Recipe.BatchSize, test.Scenes.Len)
	for first := 0; first < test.Scenes.Len; first += batch {
		images, ids := make([]image.Image, batch), make([]int64, batch)
		for i := range batch {
			scene, err := test.Scenes.At(min(first+i, test.Scenes.Len-1)) // padded, so that one program suffices
			if err != nil {
				return numbers, nil, err
			}
			images[i], ids[i] = scene.Image.RGBA(), scene.ImageID
		}
		found, err := d.detect(rows, cols, images...)
		if err != nil {
			return numbers, nil, err
		}
		for i := range min(batch, test.Scenes.Len-first) {
			for _, o := range found[i] {
				all = append(all, result(ids[i], categories[o.Class], o))
			}
		}
	}
	numbers, err = test.compare(all, !d.Recipe.Detector.ROI.NoMasks)
	return numbers, all, err
}

// result converts a detected object to COCO's form.
func result(image, category int64, o scenes.Object) coco.Detection {
	out := coco.Detection{ImageID: image, CategoryID: category, Box: &o.Box, Score: o.Score}
	if o.Mask.Height > 0 {
		out.Segmentation = o.Mask.Segmentation()
	}
	return out
}

// compare compares detections with the ground truth. Masks are evaluated without the boxes, whose areas would determine
// their size class.
func (t Test) compare(all []coco.Detection, withMasks bool) (found report.DetectionMetrics, err error) {
	annotations, err := t.Scenes.Annotated()
	if err != nil {
		return found, err
	}
	evaluate := func(all []coco.Detection, masks bool) (map[string]report.JSONFloat, error) {
		values, err := coco.Evaluate(annotations, all, masks, t.Scenes.Areas)
		named := map[string]report.JSONFloat{}
		for i, value := range values {
			named[coco.StatNames[i]] = report.JSONFloat(value)
		}
		return named, err
	}
	masked := func(a coco.Annotation) bool { return !a.Segmentation.Empty() }
	withMasks = withMasks && (len(annotations.Annotations) == 0 || slices.ContainsFunc(annotations.Annotations, masked))
	if found.Boxes, err = evaluate(all, false); err != nil || !withMasks {
		return found, err
	}
	masks := slices.Clone(all)
	for i := range masks {
		masks[i].Box = nil
	}
	found.Masks, err = evaluate(masks, true)
	return found, err
}
