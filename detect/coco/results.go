// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Detection is one detected object in an image.
type Detection struct {
	ImageID      int64        `json:"image_id"`
	CategoryID   int64        `json:"category_id"`
	Box          *Box         `json:"bbox,omitempty"`
	Segmentation Segmentation `json:"segmentation,omitzero"`
	Score        float64      `json:"score"` // larger is better
}

// results are detections, each with box, mask and area. The ID of a detection is its index, from 1.
type results struct {
	detections []Detection
	areas      []float64
}

// results completes detections by the rule of loadRes in pycocotools; the first detection selects the case. If it has a
// box, all must have one; each area is the area of the box, and without a segmentation the mask is the box. Otherwise
// all must have run lengths; the area is the mask's, and without a box so is the box. (So the sizes S, M and L of masks
// change if boxes are added.) Detections in an unknown image are an error.
func (d *Dataset) results(x *index, detections []Detection) (r results, err error) {
	r = results{slices.Clone(detections), make([]float64, len(detections))}
	for i := range r.detections {
		t, boxes := &r.detections[i], detections[0].Box != nil
		if x.images[t.ImageID] == nil {
			return r, fmt.Errorf("coco: detection %d is of image %d, which %s does not have", i+1, t.ImageID, d.Name)
		}
		switch {
		case math.IsNaN(t.Score):
			return r, fmt.Errorf("coco: the score of detection %d is not a number", i+1)
		case boxes && t.Box == nil:
			return r, fmt.Errorf("coco: detection %d has no bbox, but the first has", i+1)
		case boxes:
			r.areas[i] = t.Box.area()
			if t.Segmentation.Empty() {
				t.Segmentation.Polygons = [][]float64{t.Box.polygon()}
			}
		case t.Segmentation.Empty():
			return r, fmt.Errorf("coco: detection %d has no segmentation, and the first no bbox", i+1)
		case !t.Segmentation.runs():
			return r, fmt.Errorf("coco: detection %d: without a bbox the segmentation must be run lengths", i+1)
		default:
			mask, err := t.Segmentation.Mask(0, 0)
			if err != nil {
				return r, fmt.Errorf("coco: detection %d: %w", i+1, err)
			}
			r.areas[i] = float64(mask.Area())
			if t.Box == nil {
				box := mask.Box()
				t.Box = &box
			}
		}
	}
	return r, nil
}

// ReadResults reads a file of results: an array of detections.
func ReadResults(path string) ([]Detection, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("coco: %w", err)
	}
	return decodeResults(raw, filepath.Base(path))
}

// decodeResults reads the JSON of results. name is the file's name in errors.
func decodeResults(raw []byte, name string) (detections []Detection, err error) {
	var file []struct {
		Detection
		ImageID    *whole          `json:"image_id"`
		CategoryID *whole          `json:"category_id"`
		Box        []float64       `json:"bbox"`
		Score      *float64        `json:"score"`
		Caption    json.RawMessage `json:"caption"`
	}
	if err := unmarshal(raw, &file, name); err != nil {
		return nil, err
	}
	for i, x := range file {
		d := x.Detection
		err := cmp.Or(x.ImageID.into(&d.ImageID, "image_id"), x.CategoryID.into(&d.CategoryID, "category_id"))
		switch {
		case x.Caption != nil:
			err = errors.New("it is a caption, and captions are not evaluated")
		case x.Score == nil:
			err = cmp.Or(err, errors.New("no score"))
		case len(x.Box) == 4:
			d.Box = (*Box)(x.Box)
		case len(x.Box) > 0:
			err = cmp.Or(err, fmt.Errorf("bbox has %d numbers, want x, y, width and height", len(x.Box)))
		}
		if err != nil {
			return nil, fmt.Errorf("coco: %s: detection number %d: %w", name, i+1, err)
		}
		d.Score = *x.Score
		detections = append(detections, d)
	}
	return detections, nil
}

// WriteResults writes detections as COCO's results, one per line.
func WriteResults(w io.Writer, detections []Detection) error {
	out := bufio.NewWriter(w)
	err := writeList(out, detections)
	fmt.Fprintln(out)
	return errors.Join(err, out.Flush())
}
