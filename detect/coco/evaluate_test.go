// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// pycocotools treats a nonzero ID as a match.
func TestAnObjectOfIDZeroIsNeverFound(t *testing.T) {
	for id, want := range map[int64]float64{0: 0, 7: 1} { // of precision, and of recall with up to 100 detections
		d := &Dataset{Images: []Image{{ID: 1}}, Categories: []Category{{ID: 5}},
			Annotations: []Annotation{{ID: id, ImageID: 1, CategoryID: 5, Area: new(9.0), Box: &Box{2, 2, 3, 3},
				Crowd: new(0)}}}
		numbers, err := Evaluate(d, []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{2, 2, 3, 3}}}, false, Areas{})
		gomlxtest.NoError(t, err)
		gomlxtest.NearAbs(t, "AP and AR100", []float64{numbers[0], numbers[8]}, []float64{want, want}, 1e-12)
	}
}

// Both images have one object, the second has no detection: precision is 1 at the 51 recalls up to 1/2 of 101. An
// object of 32² pixels is small and medium.
func TestAnObjectInAnImageWithoutDetectionsCounts(t *testing.T) {
	d := &Dataset{Images: []Image{{ID: 1}, {ID: 2}}, Categories: []Category{{ID: 5}}, Annotations: []Annotation{
		{ID: 1, ImageID: 1, CategoryID: 5, Area: new(32. * 32), Box: &Box{2, 2, 32, 32}, Crowd: new(0)},
		{ID: 2, ImageID: 2, CategoryID: 5, Area: new(32. * 32), Box: &Box{2, 2, 32, 32}, Crowd: new(0)}}}
	found := []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{2, 2, 32, 32}, Score: 0.5}}
	numbers := gomlxtest.Must(Evaluate(d, found, false, Areas{}))(t)
	ap := 51. / 101
	gomlxtest.NearAbs(t, "metrics", numbers[:], []float64{ap, ap, ap, ap, ap, -1, 0.5, 0.5, 0.5, 0.5, 0.5, -1}, 1e-12)
	areas := Areas{{0, 1e10}, {32*32 + 1, 1e10}, {0, 32*32 - 1}, {32 * 32, 32 * 32}}
	numbers = gomlxtest.Must(Evaluate(d, found, false, areas))(t)
	gomlxtest.NearAbs(t, "other areas", []float64{numbers[0], numbers[3], numbers[4], numbers[5]},
		[]float64{ap, -1, -1, ap}, 1e-12)
	if found[0].Segmentation.Polygons != nil {
		t.Errorf("the caller's detections have changed: %+v", found)
	}
}

// numpy 1.24.2: np.mean([i*i % 17 / 10 for i in range(n)]); summing from the left differs from 13 on.
func TestMeansAreThoseOfNumpyToTheLastBit(t *testing.T) {
	for n, want := range map[int]float64{5: 0.6, 13: 0.8153846153846155, 127: 0.7929133858267717, 128: 0.7968750000000001,
		129: 0.8007751937984497, 300: 0.8026666666666668, 1010: 0.7984158415841585} {
		values := make([]float64, 0, 2*n)
		for i := range n {
			values = append(values, float64(i*i%17)/10, -1)
		}
		equal(t, fmt.Sprint("mean of ", n), mean(values), want)
	}
	equal(t, "mean of nothing", mean([]float64{-1, -1}), -1)
}

// Masks need area and iscrowd, but no bbox; an annotation of an unknown category does not count.
func TestEvaluate_RefusesByName(t *testing.T) {
	for _, c := range []struct {
		change       func(*Dataset, *Detection)
		boxes, masks string // what is named
	}{
		{func(*Dataset, *Detection) {}, "", ""},
		{func(d *Dataset, _ *Detection) { d.Annotations = slices.Repeat(d.Annotations, 2) }, "id 3", "id 3"},
		{func(_ *Dataset, f *Detection) { f.Segmentation.Polygons = [][]float64{{1, 2}} }, "", "detection 1 of image 1"},
		{func(_ *Dataset, f *Detection) { f.Score = math.NaN() }, "score of detection 1", "score of detection 1"},
		{func(_ *Dataset, f *Detection) { f.ImageID = 2 }, "image 2", "image 2"},
		{func(d *Dataset, _ *Detection) { d.Annotations[0].Box = nil }, "annotation 3 of image 1 has no bbox", ""},
		{func(d *Dataset, _ *Detection) {
			d.Annotations[0].Box, d.Annotations[0].Area, d.Annotations[0].Crowd = nil, nil, nil
		}, "no bbox", "no area"},
		{func(d *Dataset, _ *Detection) { d.Annotations[0].Crowd = nil }, "no iscrowd", "no iscrowd"},
		{func(d *Dataset, _ *Detection) { d.Annotations[0].Area, d.Annotations[0].CategoryID = nil, 6 }, "", ""},
	} {
		d := &Dataset{Name: "d.json", Images: []Image{{1, "", 5, 7}}, Categories: []Category{{ID: 5}},
			Annotations: []Annotation{{ID: 3, ImageID: 1, CategoryID: 5, Area: new(9.0), Box: &Box{}, Crowd: new(0),
				Segmentation: Segmentation{Polygons: [][]float64{{1, 1, 3, 3}}}}}}
		found := []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{1, 1, 3, 3}}}
		c.change(d, &found[0])
		for masks, want := range map[bool]string{false: c.boxes, true: c.masks} {
			_, err := Evaluate(d, found, masks, Areas{})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("masks %v: %v, want %q", masks, err, want)
			}
		}
	}
}
