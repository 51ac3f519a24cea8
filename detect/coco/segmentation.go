// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Segmentation is a mask in one of its file forms: polygons, or run lengths as a string; those that a file has as
// numbers (crowds) become a string. The zero value is none.
type Segmentation struct {
	Polygons [][]float64 // parts of one object, each x0, y0, x1, y1, …; the object is their union

	Size   [2]int // height and width of run lengths
	Packed string // cocoapi's string of them

	broken string // the invalid value in a file
}

// Empty reports whether the segmentation is missing: there is not even an invalid one.
func (s *Segmentation) Empty() bool { return !s.runs() && len(s.Polygons) == 0 && s.broken == "" }

// Segmentation returns the mask in its file form, packed.
func (r RLE) Segmentation() Segmentation {
	return Segmentation{Size: [2]int{r.Height, r.Width}, Packed: r.pack()}
}

// runs reports whether it is run lengths.
func (s *Segmentation) runs() bool { return s.Size != [2]int{} }

// Mask returns the run lengths: of polygons for an image of the given size, otherwise with their own size.
//
// The rules for polygons are from annToRLE and frPyObjects of pycocotools: polygons are united; if the first has four
// numbers, all are boxes x, y, width, height; fewer numbers are an error.
func (s *Segmentation) Mask(height, width int) (RLE, error) {
	switch {
	case s.broken != "":
		return RLE{}, errors.New("segmentation is " + s.broken)
	case s.runs():
		return unpack(s.Packed, s.Size[0], s.Size[1])
	case len(s.Polygons) == 0:
		return RLE{}, errors.New("the segmentation is missing")
	}
	boxes := len(s.Polygons[0]) == 4
	if len(s.Polygons[0]) < 4 {
		return RLE{}, fmt.Errorf("a polygon has %d numbers, want 6 or more", len(s.Polygons[0]))
	}
	parts := make([]RLE, len(s.Polygons))
	for i, xy := range s.Polygons {
		if boxes {
			if len(xy) != 4 {
				return RLE{}, fmt.Errorf("a part of %d numbers after a box of 4", len(xy))
			}
			xy = Box(xy).polygon()
		}
		var err error
		if parts[i], err = fromPolygon(xy, height, width); err != nil {
			return RLE{}, err
		}
	}
	return unite(parts...)
}

// MarshalJSON writes polygons as lists, run lengths as an object with size and counts. An invalid value is an error.
func (s Segmentation) MarshalJSON() ([]byte, error) {
	if s.broken != "" {
		return nil, errors.New("segmentation is " + s.broken)
	}
	if !s.runs() {
		return json.Marshal(s.Polygons)
	}
	return json.Marshal(struct {
		Size   [2]int `json:"size"`
		Counts string `json:"counts"`
	}{s.Size, s.Packed})
}

// UnmarshalJSON accepts any JSON: Mask returns the error of an invalid mask, since evaluating boxes does not need it.
func (s *Segmentation) UnmarshalJSON(raw []byte) error {
	*s = Segmentation{}
	if string(raw) == "null" {
		return nil
	}
	if raw[0] == '[' {
		if json.Unmarshal(raw, &s.Polygons) != nil {
			*s = Segmentation{broken: "no list of polygons, each a list of numbers"}
		}
		return nil
	}
	var read struct {
		Size   []int           `json:"size"`
		Counts json.RawMessage `json:"counts"`
	}
	valid := json.Unmarshal(raw, &read) == nil && len(read.Size) == 2 && checkSize(read.Size[0], read.Size[1]) == nil &&
		len(read.Counts) > 0
	switch {
	case !valid:
	case read.Counts[0] == '"':
		valid = json.Unmarshal(read.Counts, &s.Packed) == nil
	case read.Counts[0] == '[':
		var runs RLE
		valid = json.Unmarshal(read.Counts, &runs.Counts) == nil
		s.Packed = runs.pack()
	default:
		valid = false
	}
	if !valid {
		*s = Segmentation{broken: "neither polygons nor run lengths with size and counts"}
		return nil
	}
	s.Size = [2]int(read.Size)
	return nil
}
