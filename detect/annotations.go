// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math"

	"github.com/wepe-go/wepe/detect/coco"
)

// Annotations are the ground truth of an image: rows × cols pixels at the top left of its canvas, and the objects in
// it. Masks has one entry per object, nil for an object without a mask, or is empty.
type Annotations struct {
	Rows, Cols int
	Boxes      []Box
	Classes    []int
	Masks      []Mask
}

// Mask is the segmentation of an object: a Bitmap or Polygons.
type Mask interface {
	// target is the part of the mask within a box, side × side cells row by row, 0 or 1.
	target(box Box, side int) ([]float32, error)
}

// Polygons are the parts of an object, each x0, y0, x1, y1, … in pixels.
type Polygons [][]float64

// target implements Mask by COCO's rule: the polygons are moved into the box, scaled to the cells and filled.
func (p Polygons) target(box Box, side int) ([]float32, error) {
	left, top := float64(box[0]), float64(box[1])
	across := float64(side) / max(float64(box[2])-left, 0.1)
	down := float64(side) / max(float64(box[3])-top, 0.1)
	moved := coco.Segmentation{Polygons: make([][]float64, len(p))}
	for k, polygon := range p {
		for i, x := range polygon {
			if i%2 == 0 {
				x = (x - left) * across
			} else {
				x = (x - top) * down
			}
			moved.Polygons[k] = append(moved.Polygons[k], x)
		}
	}
	mask, err := moved.Mask(side, side)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	return ones(mask.Decode()), nil
}

// Bitmap is a mask of the pixels of an image, row by row.
type Bitmap struct {
	Rows, Cols int
	Pixels     []bool
}

// target implements Mask by ROIAlign: a cell is 1 where the mean over its samples is at least ½.
func (b Bitmap) target(box Box, side int) ([]float32, error) {
	if len(b.Pixels) != b.Rows*b.Cols {
		return nil, fmt.Errorf("detect: the mask of %d×%d pixels contains %d pixels", b.Rows, b.Cols, len(b.Pixels))
	}
	down := binWeights(box[1], box[3], side, b.Rows)
	across := binWeights(box[0], box[2], side, b.Cols)
	inside := make([]bool, side*side)
	line := make([]float32, b.Cols)
	for i := range side {
		clear(line)
		for row, w := range down[i] {
			if w == 0 {
				continue
			}
			for col, in := range b.Pixels[row*b.Cols : (row+1)*b.Cols] {
				if in {
					line[col] += w
				}
			}
		}
		for j := range side {
			sum := float32(0)
			for col, w := range across[j] {
				sum += w * line[col]
			}
			inside[i*side+j] = sum >= 0.5
		}
	}
	return ones(inside), nil
}

// binWeights is roiAlign.weights on the host, for a map of stride 1 with samples by size: [bins][length].
func binWeights(begin, end float32, bins, length int) [][]float32 {
	start := begin - 0.5
	bin := (end - 0.5 - start) / float32(bins)
	samples := int(math.Ceil(float64(bin)))
	weights := make([][]float32, bins)
	for i := range weights {
		weights[i] = make([]float32, length)
		for k := range samples {
			x := start + float32(i)*bin + (float32(k)+0.5)*(bin/float32(samples))
			if x < -1 || x > float32(length) {
				continue
			}
			x = min(max(x, 0), float32(length-1))
			cell := int(x)
			part := x - float32(cell)
			weights[i][cell] += (1 - part) / float32(samples)
			if cell+1 < length {
				weights[i][cell+1] += part / float32(samples)
			}
		}
	}
	return weights
}

func ones(inside []bool) []float32 {
	out := make([]float32, len(inside))
	for i, in := range inside {
		if in {
			out[i] = 1
		}
	}
	return out
}

// check returns an error for an invalid ground truth of images in a canvas, with a number of classes.
func (t Annotations) check(canvasRows, canvasCols, classes int) error {
	if t.Rows < 1 || t.Cols < 1 || t.Rows > canvasRows || t.Cols > canvasCols {
		return fmt.Errorf("detect: an image of %d×%d pixels, want 1×1 to the canvas, %d×%d", t.Rows, t.Cols, canvasRows,
			canvasCols)
	}
	if len(t.Classes) != len(t.Boxes) || t.Masks != nil && len(t.Masks) != len(t.Boxes) {
		return fmt.Errorf("detect: %d boxes have %d classes and %d masks", len(t.Boxes), len(t.Classes), len(t.Masks))
	}
	for i, box := range t.Boxes {
		if t.Classes[i] < 0 || t.Classes[i] >= classes {
			return fmt.Errorf("detect: object %d has class %d, want 0 to %d", i, t.Classes[i], classes-1)
		}
		if box.Empty() || !finite(box.area()) {
			return fmt.Errorf("detect: object %d has the box %v, want one with a width and a height", i, box)
		}
	}
	return nil
}
