// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// pycocotools treats a nonzero ID as a match.
func TestAnObjectOfIDZeroIsNeverFound(t *testing.T) {
	for id, want := range map[int64]float64{0: 0, 7: 1} { // of precision, and of recall with up to 100 detections
		d := &Dataset{Images: []Image{{ID: 1}}, Categories: []Category{{ID: 5}},
			Annotations: []Annotation{{ID: id, ImageID: 1, CategoryID: 5, Area: new(9.0), Box: &Box{2, 2, 3, 3},
				Crowd: new(0)}}}
		found := []Detection{{ImageID: 1, CategoryID: 5, Box: &Box{2, 2, 3, 3}}}
		numbers := gomlxtest.Must(Evaluate(d, found, false, Areas{}))(t)
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
	is.Equal(t, "the caller's detections afterwards", found[0].Segmentation, Segmentation{})
}

// numpy 1.24.2: np.mean([i*i % 17 / 10 for i in range(n)]); summing from the left differs from 13 on.
func TestMeansAreThoseOfNumpyToTheLastBit(t *testing.T) {
	for n, want := range map[int]float64{5: 0.6, 13: 0.8153846153846155, 127: 0.7929133858267717, 128: 0.7968750000000001,
		129: 0.8007751937984497, 300: 0.8026666666666668, 1010: 0.7984158415841585} {
		values := make([]float64, 0, 2*n)
		for i := range n {
			values = append(values, float64(i*i%17)/10, -1)
		}
		is.Equal(t, fmt.Sprint("mean of ", n), mean(values), want)
	}
	is.Equal(t, "mean of nothing", mean([]float64{-1, -1}), -1)
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

// All comparisons are with pycocotools: fixture coco_eval.
const set = "coco_eval"

// meta are parameters and tolerances of the fixture.
type meta struct {
	Reference string
	Config    struct {
		Max    [3]int `json:"max_dets"`
		Ranges Areas  `json:"area_ranges"`
	} `json:"config"`
	Tolerance struct {
		Stats     float64 `json:"stats_abs"`
		Recall    float64 `json:"recall_abs"`
		Precision float64 `json:"precision_float32_abs"`
		IoU       float64 `json:"iou_abs"`
	} `json:"tolerance"`
}

func readMeta(t *testing.T) (m meta) {
	fixtures.JSON(t, set, "meta.json", &m)
	return m
}

// Run lengths, evaluation and thresholds are those of pycocotools.
func TestCocoapi(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){"run lengths": testRunLengths, "evaluation": testEvaluation} {
			t.Run(name, test)
		}
	})
}

func testRunLengths(t *testing.T) {
	type mask struct {
		Name           string
		H, W           int
		Size           [2]int
		Rows           []string
		Counts         []uint32
		String, Merged string
		Area           int
		Box            Box `json:"bbox"`
		Inputs, Parts  []string
		Intersect      int
		Polygons       [][]float64
	}
	type pairs[T any] struct {
		DT, GT []T
		Crowd  []int       `json:"iscrowd"`
		IoU    [][]float64 `json:"iou_dt_by_gt"`
	}
	var cases struct {
		Masks, Merge, Polygons, Uncompressed []mask
		Boxes                                []mask        `json:"boxes_to_rle"`
		IoU                                  pairs[string] `json:"iou_rle"`
		BoxIoU                               pairs[Box]    `json:"iou_box"`
	}
	fixtures.JSON(t, set, "rle_cases.json", &cases)
	tolerance := readMeta(t).Tolerance.IoU
	holds := func(name string, r RLE, err error, packed string, area int, box *Box) {
		t.Helper()
		gomlxtest.NoError(t, err)
		is.Equal(t, name+": string", r.pack(), packed)
		is.Equal(t, name+": read again", gomlxtest.Must(unpack(packed, r.Height, r.Width))(t).Counts, r.Counts)
		is.Equal(t, name+": area", r.Area(), area)
		if box != nil {
			is.Equal(t, name+": box", r.Box(), *box)
		}
	}
	named := map[string]RLE{}
	for _, c := range cases.Masks {
		var mask []bool
		for _, pixel := range strings.Join(c.Rows, "") {
			mask = append(mask, pixel == '1')
		}
		r := Encode(mask, c.H, c.W)
		named[c.Name] = r
		holds(c.Name, r, nil, c.String, c.Area, &c.Box)
		is.Equal(t, c.Name+": counts", r.Counts, c.Counts)
		is.Equal(t, c.Name+": decoded", r.Decode(), mask)
	}
	for i, c := range cases.Merge {
		if c.Intersect == 1 {
			continue
		}
		var masks []RLE
		for _, name := range c.Inputs {
			masks = append(masks, named[name])
		}
		r, err := unite(masks...)
		holds(fmt.Sprint("merge ", i), r, err, c.String, c.Area, nil)
	}
	for i, row := range cases.IoU.IoU {
		for j, want := range row {
			dt, gt := named[cases.IoU.DT[i]], named[cases.IoU.GT[j]]
			got := overlaps([]instance{{box: dt.Box(), mask: dt}}, []instance{{box: gt.Box(), mask: gt,
				crowd: cases.IoU.Crowd[j] == 1}}, true)[0]
			gomlxtest.NearAbs(t, cases.IoU.DT[i]+" and "+cases.IoU.GT[j], got, []float64{want}, tolerance)
		}
	}
	for i, row := range cases.BoxIoU.IoU {
		for j, want := range row {
			got := boxIoU(cases.BoxIoU.DT[i], cases.BoxIoU.GT[j], cases.BoxIoU.Crowd[j] == 1)
			is.Near(t, fmt.Sprint("IoU of boxes ", i, j), got, want, tolerance)
		}
	}
	for _, c := range cases.Polygons {
		for i, xy := range c.Polygons {
			is.Equal(t, c.Name+": part", gomlxtest.Must(fromPolygon(xy, c.H, c.W))(t).pack(), c.Parts[i])
		}
		s := Segmentation{Polygons: c.Polygons}
		r, err := s.Mask(c.H, c.W)
		holds("polygon "+c.Name, r, err, c.Merged, c.Area, &c.Box)
		want := strings.NewReplacer("0", ".", "1", "#").Replace(strings.Join(c.Rows, "\n"))
		if got := drawn(r.Decode(), c.W); c.Rows != nil && got != want {
			t.Errorf("polygon %s: mask\n%s\nwant\n%s", c.Name, got, want)
		}
	}
	for i, c := range cases.Boxes {
		r, err := fromPolygon(c.Box.polygon(), c.H, c.W)
		holds(fmt.Sprint("box ", i), r, err, c.String, c.Area, nil)
	}
	old := strings.HasPrefix(readMeta(t).Reference, "cocodataset/cocoapi") // its boxes contain runs of length 0: see Box
	for _, c := range cases.Uncompressed {
		s := RLE{c.Size[0], c.Size[1], c.Counts}.Segmentation()
		r, err := s.Mask(0, 0)
		box := &c.Box
		for i, run := range c.Counts {
			if old && i%2 == 1 && run == 0 {
				box = nil
			}
		}
		holds("uncompressed "+c.Name, r, err, c.String, c.Area, box)
	}
}

// expected are the results of one run.
type expected struct {
	Stats   []float64 `json:"stats"`
	Matches []struct {
		ImageID    int64   `json:"image_id"`
		CategoryID int64   `json:"category_id"`
		DT         []int64 `json:"dt"` // at most the first 30
		DT50       []int64 `json:"dt_match_50"`
		DT75       []int64 `json:"dt_match_75"`
		Ignore50   []int64 `json:"dt_ignore_50"`
		GT         []int64 `json:"gt"`
		GT50       []int64 `json:"gt_match_50"`
		GTIgnore   []int64 `json:"gt_ignore"`
	} `json:"matches_area_all"`
}

func testEvaluation(t *testing.T) {
	dir, m := fixtures.Dir(t, set), readMeta(t)
	var file struct {
		Order []string            `json:"order_of_stats"`
		Runs  map[string]expected `json:"runs"`
	}
	fixtures.JSON(t, set, "expected.json", &file)
	tensors := fixtures.Tensors(t, set, "tensors.safetensors")
	is.Equal(t, "numbers", StatNames[:], file.Order)
	is.Equal(t, "IoU thresholds", iouThresholds, tensors["iou_thresholds"].Data)
	is.Equal(t, "recall thresholds", recallThresholds, tensors["recall_thresholds"].Data)
	truth := gomlxtest.Must(Read(filepath.Join(dir, "instances.json")))(t)
	read := func(name string) []Detection { return gomlxtest.Must(ReadResults(filepath.Join(dir, name)))(t) }
	boxes, masks := read("detections_bbox.json"), read("detections_segm.json")
	var grown []Detection // the box of the mask, 4 pixels larger on each side
	x := gomlxtest.Must(truth.index())(t)
	complete := gomlxtest.Must(truth.results(x, masks))(t)
	for _, d := range complete.detections {
		b := *d.Box
		d.Box = &Box{b[0] - 4, b[1] - 4, b[2] + 8, b[3] + 8}
		grown = append(grown, d)
	}
	for name, c := range map[string]struct {
		results []Detection
		masks   bool
	}{"bbox": {boxes, false}, "segm": {masks, true}, "segm_with_bbox": {grown, true}} {
		t.Run(name, func(t *testing.T) {
			want, known := file.Runs[name]
			if !known {
				t.Fatal("the set has no such run")
			}
			e := gomlxtest.Must(evaluate(truth, c.results, c.masks, m.Config.Ranges))(t)
			is.Equal(t, "detections", maxDetections, m.Config.Max)
			stats := e.stats()
			gomlxtest.NearAbs(t, "metrics", stats[:], want.Stats, m.Tolerance.Stats)
			sameArrays(t, e, tensors, name, m)
			sameMatches(t, truth, c.results, e, want)
		})
	}
}

// sameMatches compares the matches in the area range of all sizes.
func sameMatches(t *testing.T, truth *Dataset, detections []Detection, e *evaluation, want expected) {
	x := gomlxtest.Must(truth.index())(t)
	results := gomlxtest.Must(truth.results(x, detections))(t)
	for _, w := range want.Matches {
		where := fmt.Sprintf("image %d, category %d", w.ImageID, w.CategoryID)
		var rows []int
		for i, d := range detections {
			if d.ImageID == w.ImageID {
				rows = append(rows, i)
			}
		}
		objects := gomlxtest.Must(e.objects(truth, x, w.ImageID))(t)
		found := gomlxtest.Must(e.detections(results, x, w.ImageID, rows))(t)
		k := slices.IndexFunc(e.categories, func(c Category) bool { return c.ID == w.CategoryID })
		m := match(found[k], objects[k], overlaps(found[k], objects[k], e.masks), e.areas[0])
		var ids, ordered []int64
		for _, d := range found[k] {
			ids = append(ids, d.id)
		}
		for _, j := range m.order {
			ordered = append(ordered, objects[k][j].id)
		}
		const half, more = 0, 5 // of iouThresholds: 0.5 and 0.75
		numbers := func(flags []bool) (out []int64) {
			for _, f := range flags {
				out = append(out, map[bool]int64{true: 1}[f])
			}
			return out
		}
		for _, list := range []struct {
			name      string
			got, want []int64
		}{
			{"detections", ids, w.DT}, {"matched at 0.5", m.matched[half*len(ids):], w.DT50},
			{"matched at 0.75", m.matched[more*len(ids):], w.DT75}, {"ignored", numbers(m.ignored[half*len(ids):]), w.Ignore50},
			{"objects", ordered, w.GT}, {"found at 0.5", m.taken[half*len(ordered):], w.GT50},
			{"ignored objects", numbers(m.skipped), w.GTIgnore},
		} {
			if len(list.got) < len(list.want) || !slices.Equal(list.got[:len(list.want)], list.want) {
				t.Errorf("%s: %s %v, want %v", where, list.name, list.got, list.want)
			}
		}
	}
}

// sameArrays compares the arrays behind the metrics, if the fixture contains them.
func sameArrays(t *testing.T, e *evaluation, tensors map[string]fixtures.Tensor, run string, m meta) {
	_, R, K, A, M := e.sizes()
	dense := func(t, r, k, a int) int { return (((t*R+r)*K+k)*A+a)*M + M - 1 } // with the maximum number of detections
	compare := func(name string, tolerance float64, value func(i []int) float64) {
		want, known := tensors[run+"."+name]
		if !known {
			return
		}
		var got []float64
		for n := range want.Data {
			i := make([]int, len(want.Shape))
			for axis, rest := len(i)-1, n; axis >= 0; axis-- {
				i[axis], rest = rest%want.Shape[axis], rest/want.Shape[axis]
			}
			got = append(got, value(i))
		}
		gomlxtest.NearAbs(t, name, got, want.Data, tolerance)
	}
	compare("precision", m.Tolerance.Precision, func(i []int) float64 { return e.precision[dense(i[0], i[1], i[2], 0)] })
	compare("recall", m.Tolerance.Recall, func(i []int) float64 { return e.recall[((i[0]*K+i[1])*A+i[2])*M+i[3]] })
	compare("precision_by_area", m.Tolerance.Precision, func(i []int) float64 {
		return e.precision[dense(5*i[0], i[1], i[2], i[3])] // at 0.5 and 0.75
	})
}
