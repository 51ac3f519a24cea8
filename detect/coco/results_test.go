// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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
		r := completed(t, gomlxtest.Must(decodeResults([]byte(c.text), "found.json"))(t))
		var boxes []Box
		for _, d := range r.detections {
			boxes = append(boxes, *d.Box)
		}
		equal(t, c.name+": boxes", boxes, c.boxes)
		equal(t, c.name+": areas", r.areas, c.areas)
		var out bytes.Buffer
		gomlxtest.NoError(t, WriteResults(&out, r.detections))
		again := gomlxtest.Must(decodeResults(out.Bytes(), "found.json"))(t)
		equal(t, c.name+": written and read again", again, r.detections)
	}
	box, err := completed(t, []Detection{{ImageID: 9, Box: &Box{1, 1, 3, 3}}}).detections[0].Segmentation.Mask(5, 7)
	gomlxtest.NoError(t, err)
	equal(t, "mask of a box", drawn(box.Decode(), 7), ".......\n.###...\n.###...\n.###...\n.......")
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
		named(t, c.text, err, "coco: ", c.want)
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
			named(t, "fuzz", err)
			return
		}
		for _, masks := range []bool{false, true} {
			numbers, err := Evaluate(d, r, masks, Areas{})
			if err != nil {
				named(t, "fuzz", err)
				continue
			}
			for i, v := range numbers {
				if !(v >= 0 && v <= 1 || v == -1) {
					t.Errorf("%s is %g", StatNames[i], v)
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
		got := maskIoU(RLE{3, 5, []uint32{0, 15}}, RLE{size[0], size[1], []uint32{0, 15}}, false)
		equal(t, "IoU of masks of two sizes", got, -1)
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
		name := fmt.Sprint(a.Counts, " and ", b.Counts)
		equal(t, name, gomlxtest.Must(unite(a, b))(t).Decode(), x)
		equal(t, name, maskIoU(a, b, false), float64(both)/float64(max(1, either)))
	}
}
