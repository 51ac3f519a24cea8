// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// small is a file with one image of 7×5 pixels, and entries that are ignored: the case of keys matters.
const small = `{"info":{"year":2017,"a":[1,{"b":2}]},"licenses":[],
"annotations":[
 {"id":3,"image_id":9.0,"category_id":2,"segmentation":[[1,1,4,1,4,4,1,4]],"area":9,"bbox":[1,1,3,3],"iscrowd":0,
  "Area":0.5,"BBOX" : 7,"categorY_id":"c","image_ıd":"\"","ImageXid":1},
 {"id":4,"image_id":9,"category_id":1,"segmentation":{"size":[5,7],"counts":[0,5,30]},"area":5,"iscrowd":1,
  "bbox":[0,0,1,5]},
 {"id":5,"image_id":9,"category_id":1,"segmentation":{"size":[5,7],"counts":"52l0"},"area":2,"iscrowd":false,
  "bbox":[1,0,1,2]},
 {"id":6,"image_id":8,"category_id":7,"segmentation":[[1,2]],"ignore":1}],
"images":[{"id":9,"ID":"x7","file_name":"a.png","height":5,"width":7,"coco_url":"http://\"ID\":"},{"id":2}],
"categories":[{"id":2,"name":"heart"},{"id":1,"name":"square","supercategory":"shape","keypoints":[]}]}`

func decoded(t testing.TB, text string) *Dataset {
	t.Helper()
	return gomlxtest.Must(decodeDataset([]byte(text), "small.json"))(t)
}

func TestConfigEntriesSurviveARoundTrip(t *testing.T) {
	d := decoded(t, small)
	is.Equal(t, "images", d.Images, []Image{{9, "a.png", 5, 7}, {ID: 2}})
	is.Equal(t, "first category", d.SortedCategories()[0].Name, "square")
	a := d.Annotations[1]
	is.Equal(t, "annotation", fmt.Sprint(a.ID, a.ImageID, a.IsCrowd(), *a.Area, *a.Box), "4 9 true 5 [0 0 1 5]")
	if a := d.Annotations[3]; a.Area != nil || a.Box != nil || a.Crowd != nil || d.Annotations[2].IsCrowd() {
		t.Errorf("annotation %+v", a)
	}
	is.Equal(t, "corners", Box{1, 2, 3, 7}.Corners(), [4]float64{1, 2, 4, 9})
	for i, want := range []string{".......\n.###...\n.###...\n.###...\n.......",
		"#......\n#......\n#......\n#......\n#......", ".#.....\n.#.....\n.......\n.......\n......."} {
		mask := gomlxtest.Must(d.Mask(d.Images[0], &d.Annotations[i]))(t)
		is.Equal(t, fmt.Sprintf("annotation %d\n", i), drawn(mask.Decode(), 7), want)
	}
	var out bytes.Buffer
	gomlxtest.NoError(t, d.Write(&out))
	is.Equal(t, "crowds in "+out.String(), strings.Count(out.String(), `"iscrowd":1`), 1)
	is.Equal(t, "written and read again", decoded(t, out.String()), d)
}

// named tests that an error is one line that begins with the first text and contains all.
func named(t testing.TB, name string, err error, texts ...string) {
	t.Helper()
	lacks := func(text string) bool { return !strings.Contains(err.Error(), text) }
	if err == nil || !lacks("\n") || slices.ContainsFunc(texts, lacks) ||
		len(texts) > 0 && !strings.HasPrefix(err.Error(), texts[0]) {
		t.Errorf("%s: error %q, want one line with %q", name, err, texts)
	}
}

func drawn(mask []bool, width int) string {
	var out strings.Builder
	for i, inside := range mask {
		if i > 0 && i%width == 0 {
			out.WriteByte('\n')
		}
		out.WriteByte(".#"[map[bool]int{true: 1}[inside]])
	}
	return out.String()
}

func TestDataset_Union(t *testing.T) {
	d := decoded(t, small)
	objects := gomlxtest.Must(d.Objects())(t)
	union := gomlxtest.Must(d.Union(d.Images[0], objects[9]))(t)
	is.Equal(t, "union", drawn(union.Decode(), 7), "##.....\n####...\n####...\n####...\n#......")
	is.Equal(t, "no objects", gomlxtest.Must(d.Union(Image{ID: 5, Height: 3, Width: 2}, nil))(t).Area(), 0)
	named(t, "an image without a size", is.ErrorOf(d.Union(d.Images[1], nil)))
	for _, s := range []Segmentation{{Polygons: [][]float64{{1, 2}}}, RLE{5, 3, []uint32{0, 1}}.Segmentation(),
		RLE{3, 7, []uint32{0, 1}}.Segmentation()} {
		with := []*Annotation{{ID: 7, Segmentation: s}, objects[9][0]}
		named(t, fmt.Sprintf("%+v with a mask of 5×7 pixels", s), is.ErrorOf(d.Union(d.Images[0], with)))
	}
}

func TestBrokenFilesAreRefusedByNameAndPlace(t *testing.T) {
	const image, category = `{"id":1,"height":5,"width":7}`, `{"id":1,"name":"a"}`
	with := func(annotations string) string {
		return `{"images":[` + image + `],"categories":[` + category + `],"annotations":[` + annotations + `]}`
	}
	for _, c := range []struct{ text, want string }{
		{``, ""}, {`[]`, ""}, {`7`, ""}, {`{"images":{}}`, "images"}, {`{"images":[` + image, ""}, {`{"images":[]} {}`, ""},
		{`{"images":[]`, ""}, {`{"info":{"a":`, ""}, {`{"images":[],7:1}`, ""}, {`{"annotations":[]}`, "no images"},
		{`null`, "no images"}, {with(`{"id":8,"image_id":1,"category_id":1,"area":NaN}`), ""},
		{with(`{"id":8,"image_id":1,"category_id":1},`), ""},
		{`{"images":[{"id":9007199254740994.0}]}`, "9007199254740994.0"}, {`{"images":[{"id":1e30}]}`, "1e30"},
		{`{"images":[{"id":-9007199254740994.0}]}`, "-9007199254740994.0"}, {`{"images":[{"id":1.5}]}`, "1.5"},
		{`{"images":[{"id":"a"}]}`, `"a"`}, {"{\"images\":[{\"id\":[\n1]}]}", "[ 1]"}, {`{"images":[7]}`, "images"},
		{`{"images":[` + image + `,{"height":5}]}`, "image number 2: no id"},
		{`{"images":[` + image + `,` + image + `]}`, "id 1"},
		{`{"images":[],"categories":[{"name":"a"}]}`, "category number 1: no id"},
		{`{"images":[],"categories":[` + category + `,` + category + `]}`, "id 1"},
		{with(`{"id":1,"image_id":1}`), "annotation number 1: no category_id"},
		{with(`{"id":1,"category_id":1}`), "no image_id"}, {with(`{"image_id":1,"category_id":1}`), "no id"},
		{with(`{"id":1,"image_id":1,"category_id":1},{"id":1,"image_id":1,"category_id":1}`), "id 1"},
		{with(`{"id":8,"image_id":1,"category_id":1,"bbox":[1]}`), "id 8: bbox"},
		{with(`{"id":8,"image_id":1,"category_id":1,"bbox":[1,2,3,4,5]}`), "id 8: bbox"},
		{with(`{"id":8,"image_id":1,"category_id":1,"iscrowd":"yes"}`), "id 8: iscrowd"},
		{with(`{"id":8,"image_id":1,"category_id":1,"area":"7"}`), "area"},
	} {
		read := func() error { return is.ErrorOf(decodeDataset([]byte(c.text), "small.json")) }
		named(t, c.text, is.ErrorOf(campaign.Malformed(t, read)), "coco: small.json: ", c.want)
	}
	largest := decoded(t, `{"images":[{"id":9007199254740992.0},{"id":-9007199254740992.0}]}`).Images
	is.Equal(t, "the largest whole numbers of a float64", largest, []Image{{ID: 1 << 53}, {ID: -1 << 53}})
	unboxed := decoded(t, with(`{"id":8,"image_id":1,"category_id":1,"bbox":[]}`))
	is.Equal(t, "an empty bbox", unboxed.Annotations[0].Box, nil)
}

func TestRead_NamesFilesWithoutTheirDirectory(t *testing.T) {
	path := filepath.Join(datatest.Tree(t, map[string]string{"bad.json": "7"}), "bad.json")
	named(t, "instances", is.ErrorOf(Read(path)), "coco: bad.json: ")
	named(t, "results", is.ErrorOf(ReadResults(path)), "coco: bad.json: ")
}

func TestWrite_EmptyListsAndNumbersThatJSONLacks(t *testing.T) {
	var out bytes.Buffer
	gomlxtest.NoError(t, errors.Join((&Dataset{}).Write(&out), WriteResults(&out, nil)))
	is.Equal(t, "written", out.String(), `{"images":[],"categories":[],"annotations":[]}`+"\n[]\n")
	unnumbered := &Dataset{Annotations: []Annotation{{ID: 1}, {ID: 2, Area: new(math.NaN())}}}
	named(t, "an area that is no number", unnumbered.Write(&out))
	named(t, "an infinite score", WriteResults(&out, []Detection{{Score: math.Inf(1)}}))
	broken := decoded(t, `{"images":[],"annotations":[{"id":1,"image_id":1,"category_id":1,"segmentation":7}]}`)
	named(t, "an invalid segmentation", broken.Write(&out), "", "segmentation")
}

func TestMask_LargestSizes(t *testing.T) {
	for size, want := range map[[2]int]bool{{1, 1}: true, {1, math.MaxInt32}: true, {math.MaxInt32, 1}: true,
		{46_340, 46_340}: true, {46_341, 46_341}: false, {2, 1 << 30}: false, {0, 7}: false, {7, 0}: false, {-3, -5}: false} {
		is.Equal(t, fmt.Sprint(size), checkSize(size[0], size[1]) == nil, want)
	}
	for x, want := range map[float64]bool{1 << 18: true, 1<<18 + 0.1: false, -1 << 18: true, -1<<18 - 0.1: false} {
		is.Equal(t, fmt.Sprint("coordinate ", x), is.ErrorOf(fromPolygon([]float64{1, 1, x, 2, 3, 4}, 5, 7)) == nil, want)
	}
}

// Masks on which cocoapi fails are errors only for masks, at the annotation; pycocotools' frPyObjects lists the valid
// forms.
func TestInvalidMasksAreRefusedWhenMasksAreEvaluated(t *testing.T) {
	for _, c := range []struct{ segmentation, want string }{
		{`[[1,1,4,1,4,4]]`, ""}, {`[[1,1,4,1,4]]`, ""}, {`[[1,1,3,3]]`, ""}, {`[[1,1,4,1,4,4],[1,1]]`, ""},
		{`{"size":[5,7],"counts":""}`, ""}, {`{"size":[5,7],"counts":[]}`, ""}, {`{"size":[5,7],"counts":[1,2]}`, ""},
		{`[]`, "segmentation is missing"}, {`null`, "segmentation is missing"},
		{`[[]]`, "polygon has 0 numbers"}, {`[[1,2]]`, "has 2 numbers"},
		{`[1,1,4,1,4,4]`, "no list of polygons"}, {`[[1,1,"4"]]`, "no list of polygons"},
		{`"a"`, "neither"}, {`7`, "neither"},
		{`[[1,1,3,3],[1,1,4,1,4,4]]`, "part of 6 numbers after a box"}, {`[[1,1,1e9,1,4,4]]`, "polygon: 1e+09"},
		{`{"counts":[1]}`, "neither"}, {`{"size":[5,7]}`, "neither"}, {`{"size":[5],"counts":[1]}`, "neither"},
		{`{"size":[5,7,3],"counts":[1]}`, "neither"}, {`{"size":[5,0],"counts":[1]}`, "neither"},
		{`{"size":[5,7],"counts":null}`, "neither"}, {`{"size":[5,7],"counts":[-1]}`, "neither"},
		{`{"size":[65536,65536],"counts":[1]}`, "neither"}, {`{"size":[5,7],"counts":[30,6]}`, "36 pixels, the mask has 5×7"},
		{`{"size":[5,7],"counts":"52"}`, ""}, {`{"size":[5,7],"counts":"52~"}`, "'~' at 2"},
		{`{"size":[5,7],"counts":"5 "}`, "' ' at 1"}, {`{"size":[5,7],"counts":"5R"}`, "ends within"},
		{`{"size":[5,7],"counts":"PPPPPPPP0"}`, "more than 7"}, {`{"size":[5,7],"counts":"N"}`, "run of -2"},
		{`{"size":[5,7],"counts":"T1"}`, "36 pixels"},
	} {
		d := decoded(t, `{"images":[{"id":1,"height":5,"width":7}],"categories":[{"id":1}],"annotations":[
			{"id":8,"image_id":1,"category_id":1,"bbox":[0,0,1,1],"area":1,"iscrowd":0,"segmentation":`+c.segmentation+`}]}`)
		found := []Detection{{ImageID: 1, CategoryID: 1, Box: &Box{0, 0, 1, 1}, Segmentation: d.Annotations[0].Segmentation}}
		if numbers, err := Evaluate(d, found, false, Areas{}); err != nil || numbers[0] < 0.99 {
			t.Errorf("%s: boxes do not care, but %v", c.segmentation, err)
		}
		_, err := Evaluate(d, found, true, Areas{})
		if c.want == "" {
			gomlxtest.NoError(t, err)
			continue
		}
		named(t, c.segmentation, err, "", c.want, "small.json: annotation 8 of image 1")
	}
	d := decoded(t, `{"images":[{"id":1}],"annotations":[
		{"id":8,"image_id":1,"category_id":1,"segmentation":[[1,1,4,1,4,4]]}]}`)
	unsized := is.ErrorOf(d.Mask(d.Images[0], &d.Annotations[0]))
	named(t, "a polygon in an image without a size", unsized, "", "height 0")
}

func FuzzInstances(f *testing.F) {
	seeds := [][]byte{[]byte(small), []byte(`{"images":[{"id":1,"height":3,"width":2}],` +
		`"annotations":[{"id":1,"image_id":1,"category_id":1,` +
		`"segmentation":[[0,0,1,1,2,9,-5,1e6]],"iscrowd":true,"area":1e300,"bbox":[]}]}`)}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		var d *Dataset
		var err error
		used, _ := campaign.Cost(func() { d, err = decodeDataset(raw, "fuzz.json") })
		if used > uint64(3*len(raw)+16<<20) {
			t.Errorf("%d bytes allocated for %d", used, len(raw))
		}
		if err != nil {
			named(t, "fuzz", err, "coco: fuzz.json: ")
			return
		}
		sound := d.Annotations[:0:0]
		for _, a := range d.Annotations {
			for _, image := range d.Images {
				if a.ImageID != image.ID || image.Height > 1000 || image.Width > 1000 || a.Segmentation.Size[0] > 1000 ||
					a.Segmentation.Size[1] > 1000 {
					continue
				}
				if mask, err := d.Mask(image, &a); err == nil && mask.check() != nil {
					t.Errorf("mask %+v: %v", mask, mask.check())
				}
			}
			if a.Segmentation.broken == "" {
				sound = append(sound, a)
			}
		}
		d.Annotations = sound
		var out bytes.Buffer
		gomlxtest.NoError(t, d.Write(&out))
		var second bytes.Buffer
		again, err := decodeDataset(out.Bytes(), "fuzz.json")
		if err == nil {
			err = again.Write(&second)
		}
		if err != nil || len(again.Annotations) != len(sound) || len(again.Images) != len(d.Images) {
			t.Errorf("written and read again: %v", err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	seeds := []string{"5 7 52l0", "7 9 0130N020O0O13OM040L010O1:OH100N0", "9 9 PPPPPP0"} // the second: fixture coco_eval
	campaign.Fuzz(f, seeds, func(t *testing.T, text string) {
		var height, width int
		var packed string
		if _, err := fmt.Sscan(text, &height, &width, &packed); err != nil {
			return
		}
		r, err := unpack(packed, height, width)
		if err != nil {
			return
		}
		gomlxtest.NoError(t, r.check())
		again, err := unpack(r.pack(), height, width)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%v, packed and read again %v (%v)", r, again, err)
		}
		if height*width > 1<<20 {
			return
		}
		inside := 0
		for _, in := range r.Decode() {
			if in {
				inside++
			}
		}
		canonical := Encode(r.Decode(), height, width)
		if inside != r.Area() || canonical.Area() != inside {
			t.Errorf("%d pixels inside, area %d, encoded again %d", inside, r.Area(), canonical.Area())
		}
	})
}

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
		is.Equal(t, c.name+": boxes", boxes, c.boxes)
		is.Equal(t, c.name+": areas", r.areas, c.areas)
		var out bytes.Buffer
		gomlxtest.NoError(t, WriteResults(&out, r.detections))
		again := gomlxtest.Must(decodeResults(out.Bytes(), "found.json"))(t)
		is.Equal(t, c.name+": written and read again", again, r.detections)
	}
	box, err := completed(t, []Detection{{ImageID: 9, Box: &Box{1, 1, 3, 3}}}).detections[0].Segmentation.Mask(5, 7)
	gomlxtest.NoError(t, err)
	is.Equal(t, "mask of a box", drawn(box.Decode(), 7), ".......\n.###...\n.###...\n.###...\n.......")
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
	d := decoded(f, small)
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
		is.Equal(t, "IoU of masks of two sizes", got, -1)
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
		is.Equal(t, name, gomlxtest.Must(unite(a, b))(t).Decode(), x)
		is.Equal(t, name, maskIoU(a, b, false), float64(both)/float64(max(1, either)))
	}
}
