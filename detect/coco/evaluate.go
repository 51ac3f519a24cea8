// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// evaluation contains precision and recall of detections, T IoU thresholds × R recall thresholds × K categories × A
// area ranges × M maximum numbers of detections. All values are -1 if no object counts.
type evaluation struct {
	masks      bool
	areas      Areas
	categories []Category // [K] by ID

	// precision is the largest precision at this recall or a larger one, right/(right + wrong + 2.2e-16), 0 if the recall
	// is never reached.
	precision []float64 // [T, R, K, A, M]
	recall    []float64 // [T, K, A, M], the largest
}

// cell collects the outcomes of a category and area range over all images.
type cell struct {
	objects int // that count
	found   []outcome
}

// outcome is the result of matching a detection: one bit per IoU threshold.
type outcome struct {
	score            float64
	matched, ignored uint64
	rank             int // in its image, from 0
}

// Evaluate compares the boxes of detections with a dataset, or their masks, and returns cocoapi's twelve metrics, in
// the order of StatNames: fractions of 1, or -1. Zero areas are COCO's. Either all detections have a box, which is the
// mask if there is no segmentation, or all have run lengths. Masks are decoded image by image, to limit memory.
func Evaluate(d *Dataset, detections []Detection, masks bool, areas Areas) ([12]float64, error) {
	e, err := evaluate(d, detections, masks, areas)
	if err != nil {
		return [12]float64{}, err
	}
	return e.stats(), nil
}

func evaluate(d *Dataset, detections []Detection, masks bool, areas Areas) (*evaluation, error) {
	if areas == (Areas{}) {
		areas = cocoAreas
	}
	x, err := d.index()
	if err != nil {
		return nil, err
	}
	r, err := d.results(x, detections)
	if err != nil {
		return nil, err
	}
	found := map[int64][]int{} // detections of each image
	for i, t := range detections {
		found[t.ImageID] = append(found[t.ImageID], i)
	}
	e := &evaluation{masks: masks, areas: areas, categories: x.categories}
	cells := make([]cell, len(e.categories)*len(areas))
	for _, id := range slices.Sorted(maps.Keys(x.images)) {
		objects, err := e.objects(d, x, id)
		if err != nil {
			return nil, err
		}
		detections, err := e.detections(r, x, id, found[id])
		if err != nil {
			return nil, err
		}
		for k := range e.categories {
			if len(objects[k])+len(detections[k]) == 0 {
				continue
			}
			iou := overlaps(detections[k], objects[k], masks)
			for a, area := range areas {
				cells[k*len(areas)+a].add(match(detections[k], objects[k], iou, area), detections[k])
			}
		}
	}
	e.accumulate(cells)
	return e, nil
}

// objects returns the objects of an image by category.
func (e *evaluation) objects(d *Dataset, x *index, image int64) ([][]instance, error) {
	out := make([][]instance, len(x.categories))
	for _, a := range x.objects[image] {
		class, known := x.classes[a.CategoryID]
		if !known {
			continue
		}
		lacks := ""
		switch {
		case !e.masks && a.Box == nil:
			lacks = "bbox"
		case a.Area == nil:
			lacks = "area"
		case a.Crowd == nil:
			lacks = "iscrowd"
		}
		if lacks != "" {
			return nil, fmt.Errorf("coco: %s: annotation %d of image %d has no %s, which evaluation needs", d.Name, a.ID, image,
				lacks)
		}
		o := instance{id: a.ID, area: *a.Area, crowd: a.IsCrowd()}
		if e.masks {
			var err error
			if o.mask, err = d.Mask(*x.images[image], a); err != nil {
				return nil, err
			}
			o.box = o.mask.Box()
		} else {
			o.box = *a.Box
		}
		out[class] = append(out[class], o)
	}
	return out, nil
}

// detections returns the detections of an image by category, the best first, and only those that can count.
func (e *evaluation) detections(r results, x *index, image int64, rows []int) ([][]instance, error) {
	all := make([][]instance, len(x.categories))
	for _, i := range rows {
		t := &r.detections[i]
		if class, known := x.classes[t.CategoryID]; known {
			all[class] = append(all[class], instance{id: int64(i + 1), area: r.areas[i], score: t.Score, box: *t.Box})
		}
	}
	size := x.images[image]
	for k := range all {
		slices.SortStableFunc(all[k], func(a, b instance) int { return cmp.Compare(b.score, a.score) })
		all[k] = all[k][:min(maxDetections[len(maxDetections)-1], len(all[k]))]
		for j := range all[k] {
			f := &all[k][j]
			if !e.masks {
				continue
			}
			var err error
			if f.mask, err = r.detections[f.id-1].Segmentation.Mask(size.Height, size.Width); err != nil {
				return nil, fmt.Errorf("coco: detection %d of image %d: %w", f.id, image, err)
			}
			f.box = f.mask.Box()
		}
	}
	return all, nil
}

// add counts the matches of one image.
func (c *cell) add(m matches, found []instance) {
	for _, skipped := range m.skipped {
		if !skipped {
			c.objects++
		}
	}
	for i, f := range found {
		o := outcome{score: f.score, rank: i}
		for at, t := i, 0; at < len(m.matched); at, t = at+len(found), t+1 {
			if m.matched[at] != 0 {
				o.matched |= 1 << t
			}
			if m.ignored[at] {
				o.ignored |= 1 << t
			}
		}
		c.found = append(c.found, o)
	}
}

// sizes returns the lengths of the axes.
func (e *evaluation) sizes() (T, R, K, A, M int) {
	return len(iouThresholds), len(recallThresholds), len(e.categories), len(e.areas), len(maxDetections)
}

// accumulate computes precision and recall. Source: accumulate of pycocotools.
func (e *evaluation) accumulate(cells []cell) {
	T, R, K, A, M := e.sizes()
	e.precision, e.recall = slices.Repeat([]float64{-1}, T*R*K*A*M), slices.Repeat([]float64{-1}, T*K*A*M)
	for i := range cells {
		c := &cells[i]
		if c.objects == 0 {
			continue
		}
		// Ties are in the order of images, then in the order within an image: the order of addition.
		slices.SortStableFunc(c.found, func(a, b outcome) int { return cmp.Compare(b.score, a.score) })
		for m, most := range maxDetections {
			for t := range T {
				precision, recall := c.curve(t, most)
				e.recall[(t*K*A+i)*M+m] = 0
				if n := len(recall); n > 0 {
					e.recall[(t*K*A+i)*M+m] = recall[n-1]
				}
				for r, threshold := range recallThresholds {
					at, _ := slices.BinarySearch(recall, threshold) // the first that is not smaller
					to := ((t*R+r)*K*A+i)*M + m
					if e.precision[to] = 0; at < len(recall) {
						e.precision[to] = precision[at]
					}
				}
			}
		}
	}
}

// curve returns the precision, made monotonic, and the recall after each detection with a rank below most, at IoU
// threshold t.
func (c *cell) curve(t, most int) (precision, recall []float64) {
	right, wrong := 0.0, 0.0
	const epsilon = 0x1p-52 // numpy.spacing(1)
	for _, o := range c.found {
		if o.rank >= most {
			continue
		}
		if o.ignored>>t&1 == 0 {
			if o.matched>>t&1 == 1 {
				right++
			} else {
				wrong++
			}
		}
		precision = append(precision, right/(wrong+right+epsilon))
		recall = append(recall, right/float64(c.objects))
	}
	for i := len(precision) - 1; i > 0; i-- {
		precision[i-1] = max(precision[i-1], precision[i])
	}
	return precision, recall
}

// instance is what matching needs of an annotation, which may be a crowd, or of a detection, which has a score.
type instance struct {
	id          int64
	area, score float64
	crowd       bool
	box         Box
	mask        RLE
}

// overlaps returns the IoU [detections][objects].
func overlaps(found, objects []instance, masks bool) [][]float64 {
	out := make([][]float64, len(found))
	for i, f := range found {
		out[i] = make([]float64, len(objects))
		for j, o := range objects {
			out[i][j] = boxIoU(f.box, o.box, o.crowd)
			if masks && out[i][j] > 0 {
				out[i][j] = maskIoU(f.mask, o.mask, o.crowd)
			}
		}
	}
	return out
}

// matches are the matches of one image, category and area range.
type matches struct {
	order   []int   // of objects, counting ones first
	skipped []bool  // [objects] in this order: does not count
	matched []int64 // [thresholds·detections] IDs of objects
	ignored []bool  // [thresholds·detections]
	taken   []int64 // [thresholds·objects] IDs of detections, objects in this order
}

// match assigns to each detection, best first, the untaken object with the largest IoU, at least the threshold: for
// equal IoU the last one, and counting objects before others. A crowd is never taken. A detection without an object is
// ignored if its own area is out of the range. Source: evaluateImg of pycocotools.
func match(found, objects []instance, iou [][]float64, area [2]float64) (m matches) {
	outside := func(a float64) bool { return a < area[0] || a > area[1] }
	for _, skipped := range []bool{false, true} {
		for j, o := range objects {
			if (o.crowd || outside(o.area)) == skipped {
				m.order, m.skipped = append(m.order, j), append(m.skipped, skipped)
			}
		}
	}
	m.matched, m.ignored = make([]int64, len(iouThresholds)*len(found)), make([]bool, len(iouThresholds)*len(found))
	m.taken = make([]int64, len(iouThresholds)*len(objects))
	for t, threshold := range iouThresholds {
		matched, ignored := m.matched[t*len(found):][:len(found)], m.ignored[t*len(found):][:len(found)]
		taken := m.taken[t*len(objects):][:len(objects)]
		for i, f := range found {
			const none = -1
			chosen, most := none, threshold
			for k, j := range m.order {
				if taken[k] > 0 && !objects[j].crowd {
					continue
				}
				if chosen != none && !m.skipped[chosen] && m.skipped[k] {
					break
				}
				if iou[i][j] >= most {
					chosen, most = k, iou[i][j]
				}
			}
			if chosen != none {
				matched[i], taken[chosen], ignored[i] = objects[m.order[chosen]].id, f.id, m.skipped[chosen]
			}
			ignored[i] = ignored[i] || matched[i] == 0 && outside(f.area)
		}
	}
	return m
}
