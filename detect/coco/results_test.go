// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// loadRes of pycocotools: the first result determines the case.
func TestTheFirstResultDeterminesTheCase(t *testing.T) {
	const mask = `"segmentation":{"size":[5,7],"counts":"52l0"}` // rows 0 and 1 of column 1
	for _, c := range []struct {
		name, text string
		boxes      []Box
		areas      []float64
	}{
		{"boxes", `[{"image_id":9,"category_id":2,"bbox":[1,1,3,2],"score":1,"Score":"high"}]`, []Box{{1, 1, 3, 2}},
			[]float64{6}},
		{"masks", `[{"image_id":9,"category_id":2,` + mask + `,"score":1}]`, []Box{{1, 0, 1, 2}}, []float64{2}},
		{"masks in numbers", `[{"image_id":9,"category_id":2,"segmentation":{"size":[5,7],"counts":[5,2]},"score":1}]`,
			[]Box{{1, 0, 1, 2}}, []float64{2}},
		{"an empty box is none", `[{"image_id":9,"category_id":2,"bbox":[],` + mask + `,"score":1}]`, []Box{{1, 0, 1, 2}},
			[]float64{2}},
		{"a box beside the first mask", `[{"image_id":9,"category_id":2,"bbox":[0,0,4,4],` + mask + `,"score":1}]`,
			[]Box{{0, 0, 4, 4}}, []float64{16}},
		{"a box beside the second mask", `[{"image_id":9,"category_id":2,` + mask + `,"score":1},
			{"image_id":9,"category_id":77,"bbox":[0,0,4,4],` + mask + `,"score":1}]`,
			[]Box{{1, 0, 1, 2}, {0, 0, 4, 4}}, []float64{2, 2}},
	} {
		detections, err := decodeResults([]byte(c.text), "found.json")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		r := completed(t, detections)
		var boxes []Box
		for _, d := range r.detections {
			boxes = append(boxes, *d.Box)
		}
		if !slices.Equal(boxes, c.boxes) || !slices.Equal(r.areas, c.areas) {
			t.Errorf("%s: boxes %v, areas %v, want %v, %v", c.name, boxes, r.areas, c.boxes, c.areas)
		}
		var out bytes.Buffer
		gomlxtest.NoError(t, WriteResults(&out, r.detections))
		again, err := decodeResults(out.Bytes(), "found.json")
		if err != nil || !reflect.DeepEqual(again, r.detections) {
			t.Errorf("%s: written and read again %+v (%v)", c.name, again, err)
		}
	}
	box, err := completed(t, []Detection{{ImageID: 9, Box: &Box{1, 1, 3, 3}}}).detections[0].Segmentation.Mask(5, 7)
	if want := ".......\n.###...\n.###...\n.###...\n......."; err != nil || drawn(box.Decode(), 7) != want {
		t.Errorf("the mask of a box is\n%s, %v, want\n%s", drawn(box.Decode(), 7), err, want)
	}
}

func completed(t *testing.T, detections []Detection) results {
	t.Helper()
	d := decoded(t, small)
	return gomlxtest.Must(d.results(gomlxtest.Must(d.index())(t), detections))(t)
}

func TestResultsThatCannotBeEvaluatedAreRefused(t *testing.T) {
	const box = `{"image_id":9,"category_id":2,"bbox":[1,1,3,2],"score":1}`
	for _, c := range []struct{ text, want string }{
		{`{}`, ""}, {``, ""}, {`[` + box, ""}, {`[` + box + `] 7`, ""},
		{`[{"image_id":9,"category_id":2,"score":NaN}]`, ""},
		{`[{"image_id":1,"category_id":2,"bbox":[1,1,3,2],"score":1}]`, "detection 1 is of image 1"},
		{`[` + box + `,{"image_id":9,"category_id":2,"score":1}]`, "detection 2 has no bbox"},
		{`[{"image_id":9,"category_id":2,"score":1}]`, "detection 1 has no segmentation"},
		{`[{"image_id":9,"category_id":2,"segmentation":[[1,1,4,1,4,4]],"score":1}]`, "detection 1: without a bbox"},
		{`[{"image_id":9,"category_id":2,"segmentation":{"size":[5,7],"counts":"R"},"score":1}]`, "detection 1: the string"},
		{`[{"image_id":9,"category_id":2,"bbox":[1,1,3,2]}]`, "number 1: no score"},
		{`[{"image_id":9,"bbox":[1,1,3,2],"score":1}]`, "category_id"},
		{`[{"category_id":2,"score":1}]`, "image_id"},
		{`[{"image_id":9,"category_id":2,"bbox":[1,1,3,2,9],"score":1}]`, "bbox"},
		{`[{"image_id":9,"caption":"a heart"}]`, "caption"},
	} {
		detections, err := decodeResults([]byte(c.text), "found.json")
		if err == nil {
			_, err = Evaluate(decoded(t, small), detections, true, Areas{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "coco: ") {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzResults(f *testing.F) {
	seeds := [][]byte{[]byte(`[{"image_id":9,"category_id":2,"bbox":[1,1,3,2],"score":1}]`),
		[]byte(`[{"image_id":9,"category_id":2,"segmentation":{"size":[5,7],"counts":"52l0"},"score":0.5}]`)}
	d, err := decodeDataset([]byte(small), "small.json")
	gomlxtest.NoError(f, err)
	d.Annotations = d.Annotations[:3]
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		r, err := decodeResults(raw, "found.json")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		for _, masks := range []bool{false, true} {
			numbers, err := Evaluate(d, r, masks, Areas{})
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			if err == nil {
				for i, v := range numbers {
					if !(v >= 0 && v <= 1 || v == -1) {
						t.Errorf("%s is %g", StatNames[i], v)
					}
				}
			}
		}
	})
}

// Runs may be of length 0, and the last one need not reach the end. Masks of different sizes have no IoU.
func TestUnionAndIoUAreThoseOfThePixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	draw := func() RLE {
		mask, left := RLE{Height: 3, Width: 5}, uint32(15)
		for range rng.IntN(7) {
			n := min(left, rng.Uint32N(5))
			mask.Counts, left = append(mask.Counts, n), left-n
		}
		return mask
	}
	for _, size := range [][2]int{{7, 5}, {3, 7}} {
		if got := maskIoU(RLE{3, 5, []uint32{0, 15}}, RLE{size[0], size[1], []uint32{0, 15}}, false); got != -1 {
			t.Errorf("masks of 3×5 and %v pixels: %g, want -1", size, got)
		}
	}
	for range 2000 {
		a, b := draw(), draw()
		x, y, both, either := a.Decode(), b.Decode(), 0, 0
		for i := range x {
			if x[i] && y[i] {
				both++
			}
			if x[i] = x[i] || y[i]; x[i] {
				either++
			}
		}
		union, err := unite(a, b)
		if err != nil || !slices.Equal(union.Decode(), x) {
			t.Fatalf("union of %v and %v: %v (%v)", a.Counts, b.Counts, union.Counts, err)
		}
		if got, want := maskIoU(a, b, false), float64(both)/float64(max(1, either)); got != want {
			t.Fatalf("IoU of %v and %v: %g, want %g", a.Counts, b.Counts, got, want)
		}
	}
}
