// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Two objects of 3×3 and 3×2 pixels in an image of 11×13: one is detected exactly, and there is a false detection with
// a larger score. So one of two is detected, at precision 1/2: at the 51 recalls up to 1/2 of 101 the precision is 1/2
// at every IoU, and all objects are small.
func TestTheTwelveNumbers(t *testing.T) {
	d := &Dataset{Name: "two", Images: []Image{{1, "", 11, 13}}, Categories: []Category{{ID: 5, Name: "a"}},
		Annotations: []Annotation{{ID: 1, ImageID: 1, CategoryID: 5, Area: 9, Box: Box{2, 2, 3, 3}},
			{ID: 2, ImageID: 1, CategoryID: 5, Area: 6, Box: Box{7, 6, 3, 2}}}}
	found := []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{2, 2, 3, 3}, Score: 0.5},
		{ImageID: 1, CategoryID: 5, Box: &Box{8, 0, 4, 4}, Score: 0.75}}
	numbers := gomlxtest.Must(Evaluate(d, found, false, Areas{}))(t)
	ap := 51 * 0.5 / 101
	for i, want := range [12]float64{ap, ap, ap, ap, -1, -1, 0, 0.5, 0.5, 0.5, -1, -1} {
		if got := numbers[i]; !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("%s %g, want %g", StatNames[i], got, want)
		}
	}
	none, err := Evaluate(d, nil, false, Areas{})
	if err != nil || none != [12]float64{0, 0, 0, 0, -1, -1, 0, 0, 0, 0, -1, -1} {
		t.Errorf("nothing detected: %v, %v", none, err)
	}
}

// pycocotools treats a nonzero ID as a match.
func TestAnObjectOfIDZeroIsNeverFound(t *testing.T) {
	for id, want := range map[int64]float64{0: 0, 7: 1} { // of precision, and of recall with up to 100 detections
		d := &Dataset{Images: []Image{{ID: 1}}, Categories: []Category{{ID: 5}},
			Annotations: []Annotation{{ID: id, ImageID: 1, CategoryID: 5, Area: 9, Box: Box{2, 2, 3, 3}}}}
		numbers, err := Evaluate(d, []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{2, 2, 3, 3}}}, false, Areas{})
		if err != nil || !(math.Abs(numbers[0]-want) <= 1e-12) || !(math.Abs(numbers[8]-want) <= 1e-12) {
			t.Errorf("id %d: AP %g, AR100 %g (%v), want %g", id, numbers[0], numbers[8], err, want)
		}
	}
}

// Both images have one object, the second has no detection: precision is 1 at the 51 recalls up to 1/2 of 101. An
// object of 32² pixels is small and medium.
func TestAnObjectInAnImageWithoutDetectionsCounts(t *testing.T) {
	d := &Dataset{Images: []Image{{ID: 1}, {ID: 2}}, Categories: []Category{{ID: 5}}, Annotations: []Annotation{
		{ID: 1, ImageID: 1, CategoryID: 5, Area: 32 * 32, Box: Box{2, 2, 32, 32}},
		{ID: 2, ImageID: 2, CategoryID: 5, Area: 32 * 32, Box: Box{2, 2, 32, 32}}}}
	found := []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{2, 2, 32, 32}, Score: 0.5}}
	numbers := gomlxtest.Must(Evaluate(d, found, false, Areas{}))(t)
	ap := 51. / 101
	for i, want := range [12]float64{ap, ap, ap, ap, ap, -1, 0.5, 0.5, 0.5, 0.5, 0.5, -1} {
		if !(math.Abs(numbers[i]-want) <= 1e-12) {
			t.Errorf("%s %g, want %g", StatNames[i], numbers[i], want)
		}
	}
	areas := Areas{{0, 1e10}, {32*32 + 1, 1e10}, {0, 32*32 - 1}, {32 * 32, 32 * 32}}
	numbers = gomlxtest.Must(Evaluate(d, found, false, areas))(t)
	for i, want := range map[int]float64{0: ap, 3: -1, 4: -1, 5: ap} {
		if !(math.Abs(numbers[i]-want) <= 1e-12) {
			t.Errorf("with other areas %s is %g, want %g", StatNames[i], numbers[i], want)
		}
	}
	if found[0].Segmentation.Polygons != nil {
		t.Errorf("the caller's detections have changed: %+v", found)
	}
}

func TestAnObjectIsFoundByTheBestDetectionAlone(t *testing.T) {
	box := Box{2, 2, 8, 8}
	found := []detected{{id: 1, score: 0.9, box: box, area: 64}, {id: 2, score: 0.5, box: box, area: 64}}
	for crowd, want := range map[bool][]int64{false: {7, 0}, true: {7, 7}} { // a crowd is never taken
		objects := []object{{id: 7, area: 64, crowd: crowd, box: box}}
		m := match(found, objects, overlaps(found, objects, false), cocoAreas[0])
		if got := m.matched[:2]; !slices.Equal(got, want) {
			t.Errorf("crowd %v: matched with %v, want %v", crowd, got, want)
		}
	}
}

func TestEvaluationReportsDuplicatesBrokenMasksAndScores(t *testing.T) {
	sound := func() *Dataset {
		return &Dataset{Name: "d.json", Images: []Image{{1, "", 5, 7}}, Categories: []Category{{ID: 5}},
			Annotations: []Annotation{{ID: 1, ImageID: 1, CategoryID: 5, Area: 9,
				Segmentation: Segmentation{Polygons: [][]float64{{1, 1, 3, 3}}}}}}
	}
	found := []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{1, 1, 3, 3}}}
	twice := sound()
	twice.Annotations = append(twice.Annotations, twice.Annotations[0])
	broken, unscored := slices.Clone(found), slices.Clone(found)
	broken[0].Segmentation.Polygons, unscored[0].Score = [][]float64{{1, 2}}, math.NaN()
	unboxed := append(slices.Clone(found), Detection{ImageID: 1})
	for want, of := range map[string]struct {
		d     *Dataset
		found []Detection
	}{
		"coco: d.json: two annotations have id 1":                {twice, found},
		"coco: detection 1 of image 1: a polygon has 2 numbers":  {sound(), broken},
		"coco: the score of detection 1 is not a number":         {sound(), unscored},
		"coco: detection 1 is of image 2, which d.json does not": {sound(), []Detection{{ImageID: 2}}},
		"coco: detection 2 has no bbox, but the first has":       {sound(), unboxed},
	} {
		if _, err := Evaluate(of.d, of.found, true, Areas{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := twice.Objects(); err == nil || !strings.Contains(err.Error(), "two annotations have id 1") {
		t.Errorf("%v", err)
	}
}

func TestMissingFieldsForEvaluationAreNamed(t *testing.T) {
	for missing, want := range map[fields]string{noBox: "no bbox", noArea: "no area", noCrowd: "no iscrowd",
		noBox | noArea | noCrowd: "no bbox", noArea | noCrowd: "no area"} {
		d := &Dataset{Name: "d.json", Images: []Image{{1, "", 5, 7}}, Categories: []Category{{ID: 5}},
			Annotations: []Annotation{{ID: 3, ImageID: 1, CategoryID: 5, missing: missing,
				Segmentation: Segmentation{Polygons: [][]float64{{1, 1, 3, 3}}}}}}
		_, err := Evaluate(d, nil, false, Areas{})
		if err == nil || !strings.Contains(err.Error(), "d.json: annotation 3 of image 1 has "+want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err = Evaluate(d, nil, true, Areas{}); (err == nil) != (missing == noBox) {
			t.Errorf("masks need area and iscrowd, but no box: %v", err)
		}
		d.Annotations[0].CategoryID = 6 // does not count
		if _, err := Evaluate(d, nil, false, Areas{}); err != nil {
			t.Error(err)
		}
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
		if got := mean(values); got != want {
			t.Errorf("the mean of %d is %v, want %v", n, got, want)
		}
	}
	great, one := 1e16, 1.0 // to which ones can be added only in pairs
	eight := []float64{great, one, one, one, one, one, one, one}
	if got, want := mean(eight), (((great+one)+(one+one))+((one+one)+(one+one)))/8; got != want || want == great/8 {
		t.Errorf("the mean of eight is %v, want %v", got, want)
	}
	if got := mean([]float64{-1, -1}); got != -1 {
		t.Errorf("the mean of nothing is %v", got)
	}
}
