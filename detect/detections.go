// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import "math"

// Detection is a detected object.
type Detection struct {
	Box   Box // in pixels of the image
	Class int
	Score float32 // 0 to 1
	Mask  *Bitmap // of the whole image; nil for detectors without masks
}

// detections returns the best of boxes [n, classes or 1] with probabilities [n, classes+1], the last one for
// background: every pair of a box and a class with a score above the threshold, without those that overlap a better one
// of the same class, by decreasing score.
func (r ROI) detections(scores []float32, boxes []Box, classes int) []Detection {
	var all []Detection
	var of []Box
	var score []float32
	var class []int
	each := 1
	if !r.agnostic() {
		each = classes
	}
	for i := range len(boxes) / each {
		for k := range classes {
			s, box := scores[i*(classes+1)+k], boxes[i*each+k%each]
			if s > float32(r.Score) && finite(box.area()) {
				of, score, class = append(of, box), append(score, s), append(class, k)
			}
		}
	}
	for _, i := range nms(of, score, class, float32(r.Overlap), r.Top) {
		all = append(all, Detection{Box: of[i], Class: class[i], Score: score[i]})
	}
	return all
}

// scaled rescales detections to an image of another size: boxes by factors down and across, clipped to rows × cols.
// keep are the indices of the boxes that are not empty then.
func scaled(all []Detection, down, across float64, rows, cols int) (out []Detection, keep []int) {
	for i, d := range all {
		for k := range d.Box {
			if k%2 == 0 {
				d.Box[k] *= float32(across)
			} else {
				d.Box[k] *= float32(down)
			}
		}
		if d.Box = d.Box.clip(rows, cols); !d.Box.Empty() {
			out, keep = append(out, d), append(keep, i)
		}
	}
	return out, keep
}

// paste puts a mask of probabilities, side × side cells of a box, into an image of rows × cols pixels: a pixel belongs
// to the object if the probability at its centre, bilinear between the cells and 0 outside, is at least ½.
func paste(mask []float32, side int, box Box, rows, cols int) *Bitmap {
	b := &Bitmap{Rows: rows, Cols: cols, Pixels: make([]bool, rows*cols)}
	at := func(pixel int, begin, end float32) float64 { // in cells, from the centre of the first
		return (float64(pixel)+0.5-float64(begin))/float64(end-begin)*float64(side) - 0.5
	}
	cell := func(row, col int) float64 {
		if row < 0 || row >= side || col < 0 || col >= side {
			return 0
		}
		return float64(mask[row*side+col])
	}
	// A pixel whose centre is outside the box is less than ½: at the border the mask is half of its last cell.
	top, bottom := max(0, int(box[1])), min(rows, int(math.Ceil(float64(box[3]))))
	left, right := max(0, int(box[0])), min(cols, int(math.Ceil(float64(box[2]))))
	for row := top; row < bottom; row++ {
		y := at(row, box[1], box[3])
		up := math.Floor(y)
		for col := left; col < right; col++ {
			x := at(col, box[0], box[2])
			before := math.Floor(x)
			i, j, v, h := int(up), int(before), y-up, x-before
			p := (1-v)*((1-h)*cell(i, j)+h*cell(i, j+1)) + v*((1-h)*cell(i+1, j)+h*cell(i+1, j+1))
			b.Pixels[row*cols+col] = p >= 0.5
		}
	}
	return b
}
