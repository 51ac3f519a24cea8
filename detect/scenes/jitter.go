// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	_ "embed" // the comments of settings
	"fmt"
	"math"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/random"
	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
)

//go:embed jitter.go
var jitterCode string

var _ = setting.Describe(jitterCode)

// Jitter is large-scale jitter (Ghiasi et al. 2021), as in detectron2's ViTDet recipes: flip; resize so that the image
// just fits into Height × Width times a scale, uniform from Low to High; crop Height × Width at a random position, if
// it is larger, with the same fraction of the free range along both axes; pad with zeros to the right and below, if it
// is smaller.
// COCO's recipes have 1024, 1024, 0.1, 2, 0.5.
//
// Low = High = 1 with Flip 0 is for evaluation: the whole image at the largest size that fits.
//
// Source: RandomFlip, ResizeScale and FixedSizeCrop of detectron2 at 02b5c4e; images are resized as Pillow does.
type Jitter struct {
	Height int     `json:"height"`        // height of the output, pixels
	Width  int     `json:"width"`         // width of the output, pixels
	Low    float64 `json:"low"`           // smallest factor of the size
	High   float64 `json:"high"`          // largest factor of the size
	Flip   float64 `json:"flip,omitzero"` // probability of exchanging left and right
}

// Validate returns an error if nothing of an image would remain.
func (j Jitter) Validate() error {
	const most = 16 // times the size
	switch {
	case min(j.Height, j.Width) < 1 || max(j.Height, j.Width) > preprocess.MaxSide:
		return fmt.Errorf("scenes: jitter: %d×%d pixels, want 1 to %d a side", j.Height, j.Width, preprocess.MaxSide)
	case !(j.Low > 0 && j.Low <= j.High && j.High <= most):
		return fmt.Errorf("scenes: jitter: scales from %g to %g, want more than 0, the lower first, at most %d", j.Low,
			j.High, most)
	case !(j.Flip >= 0 && j.Flip <= 1):
		return fmt.Errorf("scenes: jitter: flipped with probability %g, want 0 to 1", j.Flip)
	}
	return nil
}

// view is a transformation of an image: flip, resize to rows × cols, and crop from top, left.
type view struct {
	flip                  bool
	rows, cols, top, left int
}

// view returns the view of an image for a scale and a position from 0 to 1.
func (j Jitter) view(height, width int, flip bool, scale, place float64) view {
	fit := min(float64(j.Height)*scale/float64(height), float64(j.Width)*scale/float64(width))
	v := view{flip: flip, rows: max(1, int(math.RoundToEven(float64(height)*fit))),
		cols: max(1, int(math.RoundToEven(float64(width)*fit)))}
	v.top = int(math.RoundToEven(float64(max(0, v.rows-j.Height)) * place))
	v.left = int(math.RoundToEven(float64(max(0, v.cols-j.Width)) * place))
	return v
}

// Apply returns the scene in an epoch: a function of (seed, epoch, index). Its image is Height × Width; its Rows and
// Cols are its part without padding. Crowds are removed, and so are objects that are no longer visible.
//
// Boxes are recomputed from the visible part of polygons, to fractions of a pixel, or of masks. (detectron2:
// recompute_boxes.) An object with polygons has no Mask; others' masks are resized to the nearest pixel.
func (j Jitter) Apply(s *Scene, seed int64, epoch, index int) *Scene {
	r := random.Draw("jitter", seed, epoch, index)
	flip := r.Float64() < j.Flip
	scale := j.Low + r.Float64()*(j.High-j.Low)
	return j.apply(s, j.view(s.Rows, s.Cols, flip, scale, r.Float64()))
}

func (j Jitter) apply(s *Scene, v view) *Scene {
	out := &Scene{ImageID: s.ImageID, Rows: min(v.rows-v.top, j.Height), Cols: min(v.cols-v.left, j.Width)}
	seen := s.Image.Window(0, 0, s.Rows, s.Cols)
	if v.flip {
		seen = seen.Mirrored()
	}
	out.Image = seen.Resize(v.rows, v.cols, preprocess.Bilinear).Window(v.top, v.left, j.Height, j.Width)
	for _, o := range s.Objects {
		if o.Crowd {
			continue
		}
		if o = j.object(o, s, v, out.Rows, out.Cols); o.Box[2] > leastSide && o.Box[3] > leastSide {
			out.Objects = append(out.Objects, o)
		}
	}
	return out
}

// leastSide is the minimum side of a box that is not empty, as in detectron2.
const leastSide = 1e-5

// object returns an object in a view; its box is empty if the object is not visible.
func (j Jitter) object(o Object, s *Scene, v view, rows, cols int) Object {
	down, across := float64(v.rows)/float64(s.Rows), float64(v.cols)/float64(s.Cols)
	parts := o.Polygons
	if c := o.Box.Corners(); parts == nil && !o.hasMask() {
		parts = [][]float64{{c[0], c[1], c[2], c[1], c[2], c[3], c[0], c[3]}}
	}
	if parts == nil {
		o.Mask = j.mask(o.Mask, s, v, rows, cols)
		o.Box = o.Mask.Box()
		return o
	}
	moved := make([][]float64, len(parts))
	for i, part := range parts {
		moved[i] = make([]float64, len(part))
		for k := 0; k+1 < len(part); k += 2 {
			x := part[k]
			if v.flip {
				x = float64(s.Cols) - x
			}
			moved[i][k], moved[i][k+1] = x*across-float64(v.left), part[k+1]*down-float64(v.top)
		}
	}
	if o.Box, o.Mask = seenBox(moved, float64(rows), float64(cols)), (coco.RLE{}); o.Polygons != nil {
		o.Polygons = moved
	}
	return o
}

// mask returns a mask in a view, at the nearest pixels.
func (j Jitter) mask(mask coco.RLE, s *Scene, v view, rows, cols int) coco.RLE {
	own, out := mask.Decode(), make([]bool, j.Height*j.Width)
	lines, columns := resample.Nearest(s.Rows, v.rows, v.top, v.rows), resample.Nearest(s.Cols, v.cols, v.left, v.cols)
	for y := range rows {
		for x := range cols {
			from := columns[x]
			if v.flip {
				from = s.Cols - 1 - from
			}
			out[y*j.Width+x] = own[lines[y]*mask.Width+from]
		}
	}
	return coco.Encode(out, j.Height, j.Width)
}

// seenBox is the smallest box around the part of polygons within an image of rows × cols. The corners of a polygon's
// visible part are the ends of the parts of its edges within the image, and the corners of the image that it covers. An
// edge along the border, or one that only touches it, is not within.
func seenBox(parts [][]float64, rows, cols float64) coco.Box {
	left, top, right, bottom := cols, rows, 0.0, 0.0
	add := func(x, y float64) {
		x, y = min(max(x, 0), cols), min(max(y, 0), rows)
		left, right, top, bottom = min(left, x), max(right, x), min(top, y), max(bottom, y)
	}
	const within = 1e-6 // pixels from a corner to the point that decides whether it is covered, which has no ties
	for _, part := range parts {
		n := len(part) / 2
		var covers [4]bool // corners of the image
		for i := range n {
			x0, y0 := part[2*i], part[2*i+1]
			x1, y1 := part[2*((i+1)%n)], part[2*((i+1)%n)+1]
			from, to := 0.0, 1.0 // the visible part of the edge (Liang and Barsky 1984); NaN along the border
			for _, c := range [2][3]float64{{x0, x1 - x0, cols}, {y0, y1 - y0, rows}} {
				a, b := -c[0]/c[1], (c[2]-c[0])/c[1]
				from, to = max(from, min(a, b)), min(to, max(a, b))
			}
			if from < to {
				add((1-from)*x0+from*x1, (1-from)*y0+from*y1)
				add((1-to)*x0+to*x1, (1-to)*y0+to*y1)
			}
			for k := range covers { // even-odd: count the edges that a ray to the right crosses
				x, y := math.Abs(float64(k%2)*cols-within), math.Abs(float64(k/2)*rows-within)
				if (y0 > y) != (y1 > y) && x < x0+(y-y0)/(y1-y0)*(x1-x0) {
					covers[k] = !covers[k]
				}
			}
		}
		for k, covered := range covers {
			if covered {
				add(float64(k%2)*cols, float64(k/2)*rows)
			}
		}
	}
	if right <= left || bottom <= top {
		return coco.Box{}
	}
	return coco.Box{left, top, right - left, bottom - top}
}
