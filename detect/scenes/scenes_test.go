// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"image"
	"image/color"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/random"
)

func TestScenesAreWrittenAndRead(t *testing.T) {
	for _, most := range []int{0, 1} {
		g, dir := gomlxtest.Must(Generated{Count: 5, Height: 37, Width: 59, Seed: 4, Most: most}.Set())(t), t.TempDir()
		instances := filepath.Join(dir, "annotations", "instances.json")
		gomlxtest.NoError(t, Write(filepath.Join(dir, "images"), instances, g))
		f := gomlxtest.Must(Open(filepath.Join(dir, "images"), instances, nil))(t)
		is.Equal(t, "scenes", f.Len, g.Len)
		is.Equal(t, "categories", f.Categories, g.Categories)
		for i := range g.Len {
			s := gomlxtest.Must(f.At(i))(t)
			want := gomlxtest.Must(g.At(i))(t)
			is.Equal(t, fmt.Sprint("scene ", i), s, want)
			if most != 1 {
				continue
			}
			kind := g.Categories[want.Objects[0].Class].Name
			if name := f.folder.dataset.Images[i].FileName; len(want.Objects) != 1 || filepath.Dir(name) != kind {
				t.Errorf("scene %d shows %d objects, the first a %s, and is %s", i, len(want.Objects), kind, name)
			}
		}
	}
}

// written writes an image of 5×7 pixels and an instances file about it.
func written(t *testing.T, images, annotations string) (dir, instances string) {
	t.Helper()
	text := fmt.Sprintf(`{"images":[%s],"categories":[{"id":4,"name":"b"},{"id":2,"name":"a"}],"annotations":[%s]}`,
		images, annotations)
	return datatest.Tree(t, map[string][]byte{"a.png": datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))}),
		filepath.Join(datatest.Tree(t, map[string]string{"instances.json": text}), "instances.json")
}

const img = `{"id":1,"file_name":"a.png","height":5,"width":7}`

// The rules are detectron2's: load_coco_json, filter_images_with_only_crowd_annotations.
func TestBrokenPolygonsAreLeftOutAndCrowdsAreNotTrainedOn(t *testing.T) {
	others := `,{"id":3,"file_name":"a.png","height":5,"width":7},{"id":2,"file_name":"a.png"}`
	dir, instances := written(t, img+others, `
		{"id":1,"image_id":1,"category_id":4,"bbox":[1,1,3,3],"segmentation":[[1,1,4,1,4,4,1,4],[0,0,1],[1,2,3,4,5,6,7]]},
		{"id":2,"image_id":1,"category_id":2,"bbox":[1,1,3,3],"segmentation":[[1,1,4,1]]},
		{"id":3,"image_id":1,"category_id":2,"bbox":[1,1,2,3]},
		{"id":4,"image_id":1,"category_id":2,"segmentation":{"size":[5,7],"counts":"52l0"},"iscrowd":1},
		{"id":5,"image_id":3,"category_id":2,"bbox":[1,1,2,3],"iscrowd":1}`)
	f := gomlxtest.Must(Open(dir, instances, nil))(t)
	training := f.Training()
	objects := gomlxtest.Must(training.Annotated())(t)
	is.Equal(t, "scenes, and ones to train on, their images and annotations",
		[4]int{f.Len, training.Len, len(objects.Images), len(objects.Annotations)}, [4]int{3, 1, 1, 4})
	s := gomlxtest.Must(f.At(0))(t)
	square := gomlxtest.Must(maskOf([]float64{1, 1, 4, 1, 4, 4, 1, 4}, 5, 7))(t)
	want := []Object{
		{Class: 1, Box: coco.Box{1, 1, 3, 3}, Mask: square, Polygons: [][]float64{{1, 1, 4, 1, 4, 4, 1, 4}}},
		{Class: 0, Box: coco.Box{1, 1, 2, 3}},
		{Class: 0, Box: coco.Box{1, 0, 1, 2}, Mask: coco.RLE{Height: 5, Width: 7, Counts: []uint32{5, 2, 28}}, Crowd: true},
	}
	is.Equal(t, "objects", s.Objects, want)
	bare := gomlxtest.Must(f.At(1))(t)
	is.Equal(t, "an image without objects", fmt.Sprint(bare.ImageID, bare.Rows, bare.Cols, len(bare.Objects)), "2 5 7 0")
	trained := Jitter{Height: 5, Width: 7, Low: 1, High: 1}.Apply(s, 1, 2, 3)
	is.Equal(t, "objects but the crowd", len(trained.Objects), 2)
}

func TestUnreadableFoldersAreRefusedByName(t *testing.T) {
	object := `{"id":9,"image_id":1,"category_id":2,"bbox":[1,1,2,3],"segmentation":%s}`
	for _, c := range []struct{ images, annotations, want string }{
		{`{"id":1,"file_name":"b.png"},{"id":2,"file_name":"c.png"},{"id":3,"file_name":"a.png"}`, "", "2 of 3 images"},
		{`{"id":1,"file_name":"../a.png"}`, "", "../a.png"}, {`{"id":1}`, "", "image 1"},
		{`{"id":1,"file_name":"link.png"}`, "", "name the directory that they lead to"},
		{img, `{"id":9,"image_id":1,"category_id":7}`, "annotation 9 is of category 7"},
		{`{"id":1,"file_name":"a.png","height":7,"width":5}`, "", "5×7 pixels, image 1"},
		{img, `{"id":9,"image_id":1,"category_id":2}`, "annotation 9 has neither"},
		{img, fmt.Sprintf(object, `{"size":[5,7],"counts":"T1"}`), "annotation 9 of image 1"},
		{img, fmt.Sprintf(object, `{"size":[7,5],"counts":"52l0"}`), "annotation 9 has a mask of 7×5"},
		{img, fmt.Sprintf(object, `7`), "annotation 9 of image 1: segmentation is neither"},
	} {
		dir, instances := written(t, c.images, c.annotations)
		gomlxtest.NoError(t, os.Symlink(instances, filepath.Join(dir, "link.png")))
		f, err := Open(dir, instances, nil)
		if err == nil {
			_, err = f.At(0)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.images, c.annotations, err, c.want)
		}
	}
}

func TestAFolderWarnsOnceOfClippedGrey(t *testing.T) {
	dir, instances := written(t, img+`,{"id":2,"file_name":"b.png"},{"id":3,"file_name":"c.png"}`, "")
	bright := image.NewGray16(image.Rect(0, 0, 7, 5))
	bright.SetGray16(3, 2, color.Gray16{Y: 256})
	for _, name := range []string{"b.png", "c.png"} {
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, name), datatest.PNG(bright), 0o644))
	}
	var log strings.Builder
	for _, logger := range []*slog.Logger{nil, gomlxtest.Logger(&log)} {
		f := gomlxtest.Must(Open(dir, instances, logger))(t)
		one, other := f.Split(0.5)
		for _, part := range []*Set{f, one, other} {
			for i := range part.Len {
				gomlxtest.Must(part.At(i))(t)
			}
		}
	}
	is.Equal(t, "log", log.String(), data.ClippedGrey+" dataset=instances.json image=b.png\n")
}

func TestFolder_SplitsIntoTwoWithoutAnImageInBoth(t *testing.T) {
	dir := t.TempDir()
	instances := filepath.Join(dir, "instances.json")
	gomlxtest.NoError(t, Write(dir, instances, gomlxtest.Must(Generated{Count: 11, Height: 32, Width: 37}.Set())(t)))
	training, validation := gomlxtest.Must(Open(dir, instances, nil))(t).Split(0.3)
	is.Equal(t, "training and validation images", [2]int{training.Len, validation.Len}, [2]int{8, 3})
	in := map[int64]bool{}
	for _, part := range []*Set{training, validation} {
		objects := 0
		for i := range part.Len {
			scene := gomlxtest.Must(part.At(i))(t)
			in[scene.ImageID] = true
			objects += len(scene.Objects)
		}
		is.Equal(t, "images and annotations", [2]int{len(part.folder.dataset.Images), len(part.folder.dataset.Annotations)},
			[2]int{part.Len, objects})
	}
	is.Equal(t, "images in the two parts", len(in), 11)
}

func at(t *testing.T, g Generated, index int) *Scene {
	t.Helper()
	return gomlxtest.Must(gomlxtest.Must(g.Set())(t).At(index))(t)
}

func TestGenerated_IsAFunctionOfSeedAndIndex(t *testing.T) {
	g := Generated{Count: 40, Height: 53, Width: 71, Seed: 5}
	more, seed := g, g
	more.Count, seed.Seed = 9000, 6
	scene := at(t, g, 7)
	is.Equal(t, "the same again", at(t, g, 7), scene)
	is.Equal(t, "the same among more", at(t, more, 7), scene)
	if slices.Equal(scene.Image.Pixels, at(t, seed, 7).Image.Pixels) ||
		slices.Equal(scene.Image.Pixels, at(t, g, 8).Image.Pixels) {
		t.Error("scenes of other seeds or indices are the same")
	}
	for most, name := range map[int]string{0: "shapes-5", 6: "shapes-5", 1: "shapes-5-most-1"} { // as in old rows
		g.Most = most
		s := gomlxtest.Must(g.Set())(t)
		if s.Name != name || gomlxtest.Must(s.Annotated())(t).Name != name || s.Training() != s {
			t.Errorf("at most %d shapes: %s, want %s", most, s.Name, name)
		}
	}
	for _, bad := range []Generated{{}, {Count: 40, Height: 31, Width: 64}, {Count: 40, Height: 64, Width: 5000},
		{Count: 40, Height: 64, Width: 64, Most: 7}} {
		if _, err := bad.Set(); err == nil {
			t.Errorf("%+v is a set", bad)
		}
	}
}

// A pixel wholly within a shape has exactly its colour, which no other shape has. So the pixels of the most frequent
// colour of a mask are all within that mask, and other colours are on its outline, whose length the box bounds.
func TestGenerated_MasksAreTheVisibleParts(t *testing.T) {
	kinds, numbers := map[int]int{}, map[int]int{}
	for _, size := range [][2]int{{53, 71}, {97, 41}, {64, 128}} {
		g := Generated{Count: 40, Height: size[0], Width: size[1], Seed: 3}
		for i := range g.Count {
			s := at(t, g, i)
			numbers[len(s.Objects)]++
			owner, colours := make([]int, size[0]*size[1]), map[[3]uint8]int{}
			for k, o := range s.Objects {
				kinds[o.Class]++
				count := map[[3]uint8]int{}
				most, colour := 0, [3]uint8{}
				for p, inside := range o.Mask.Decode() {
					if !inside {
						continue
					}
					if owner[p] != 0 {
						t.Fatalf("scene %d of %v: pixel %d has two owners", i, size, p)
					}
					owner[p] = k + 1
					c := [3]uint8(s.Image.Pixels[3*p:])
					if count[c]++; count[c] > most {
						most, colour = count[c], c
					}
				}
				if rim := o.Mask.Area() - most; o.Box != o.Mask.Box() || float64(rim) > 3*(o.Box[2]+o.Box[3]) {
					t.Errorf("scene %d of %v: box %v, %d pixels of object %d are of other colours", i, size, o.Box, rim, k)
				}
				if most > 1 {
					colours[colour] = k + 1
				}
			}
			for p, k := range owner {
				if want := colours[[3]uint8(s.Image.Pixels[3*p:])]; want != 0 && k != want {
					t.Errorf("scene %d of %v: pixel %d has the colour of object %d, the mask of %d", i, size, p, want, k)
				}
			}
		}
	}
	if len(kinds) != 3 || numbers[0] > 0 || numbers[1] == 0 || numbers[mostShapes] == 0 || numbers[mostShapes+1] > 0 {
		t.Errorf("objects of classes %v, scenes with so many objects %v", kinds, numbers)
	}
}

// Areas at scale 1: squares 0.32², ellipses π·0.23·0.14, hearts 0.19²·3.662 (data).
func TestSizesSpanTwoOctavesEvenly(t *testing.T) {
	g := Generated{Count: 300, Height: 120, Width: 90, Seed: 2}
	var logs []float64
	for i := range g.Count {
		s := at(t, g, i)
		if len(s.Objects) > 1 {
			continue
		}
		o := s.Objects[0]
		whole := []float64{0.32 * 0.32, math.Pi * 0.23 * 0.14, 0.19 * 0.19 * 3.662}[o.Class]
		scale := math.Sqrt(float64(o.Mask.Area())/whole) / 90
		if scale < 0.97*0.3 || scale > 1.03*1.2 {
			t.Errorf("scene %d: class %d of scale %g", i, o.Class, scale)
		}
		logs = append(logs, math.Log2(scale/0.3)) // uniform from 0 to 2
	}
	slices.Sort(logs)
	for k, quantile := range []float64{0.25, 0.5, 0.75} {
		if got := logs[int(quantile*float64(len(logs)))]; len(logs) < 30 || !(math.Abs(got-2*quantile) <= 0.3) {
			t.Errorf("quartile %d of %d sizes lies at %.2f octaves, want %.2f", k+1, len(logs), got, 2*quantile)
		}
	}
	sizes := g.areas()
	if low := 0.11 * math.Pow(0.3*math.Exp2(2.0/3)*90, 2); !(math.Abs(sizes[1][1]-low) <= 1e-9) ||
		!(math.Abs(sizes[3][0]/sizes[1][1]-math.Exp2(4.0/3)) <= 1e-9) || sizes[2][0] != sizes[1][1] ||
		sizes[2][1] != sizes[3][0] || sizes[0] != [2]float64{0, 1e10} || sizes[3][1] != 1e10 {
		t.Errorf("sizes %+v", sizes)
	}
}

// A mask of the pixels of which at least half is visible has the visible area on average, over many shapes.
func TestAThirdOfEveryShapeIsVisibleAndItsMaskAsLarge(t *testing.T) {
	g := Generated{Count: 100, Height: 64, Width: 64, Seed: 1}
	hidden, growth, rim := 0, 0.0, 0.0
	for i := range g.Count {
		shapes, seen := g.arrange(random.Draw("scene", g.Seed, 0, i))
		objects := at(t, g, i).Objects
		left := make([]int, len(shapes))
		for _, k := range seen {
			if k != background {
				left[k]++
			}
		}
		for k, s := range shapes {
			whole := len(g.covered(s))
			if 3*left[k] < whole {
				t.Errorf("scene %d: of shape %d %d samples of %d are seen", i, k, left[k], whole)
			}
			if left[k] < whole {
				hidden++
			}
			o := objects[k]
			growth += float64(o.Mask.Area()) - float64(left[k])/(samples*samples)
			rim += 2 * (o.Box[2] + o.Box[3])
		}
	}
	is.Near(t, "pixels of masks beyond what is seen", growth, 0, 0.03*rim)
	if hidden < 20 {
		t.Errorf("%d shapes lie under others", hidden)
	}
}

// coco1024 is the jitter of ViTDet's recipes.
var coco1024 = Jitter{Height: 1024, Width: 1024, Low: 0.1, High: 2, Flip: 0.5}

// By hand from ResizeScale and FixedSizeCrop: fit = scale·min(H/h, W/w), sides round(h·fit), half to even; the offset
// is the free range times one number for both axes, rounded likewise.
func TestAViewIsThatOfDetectron2(t *testing.T) {
	for _, c := range []struct {
		jitter        Jitter
		height, width int
		scale, place  float64
		want          view
	}{
		{coco1024, 480, 640, 1, 0.3, view{rows: 768, cols: 1024}},                                    // fit 1.6
		{coco1024, 480, 640, 2, 0.25, view{rows: 1536, cols: 2048, top: 128, left: 256}},             // 3.2; range 512, 1024
		{coco1024, 480, 640, 0.1, 0.9, view{rows: 77, cols: 102}},                                    // 76.8, 102.4
		{coco1024, 640, 427, 1.5, 0.5, view{rows: 1536, cols: 1025, top: 256, left: 0}},              // 2.4: 1024.8; ½ to 0
		{Jitter{Height: 5, Width: 5}, 5, 10, 1, 0, view{rows: 2, cols: 5}},                           // 2.5 to 2
		{Jitter{Height: 5, Width: 5}, 7, 10, 1, 0, view{rows: 4, cols: 5}},                           // 3.5 to 4
		{Jitter{Height: 30, Width: 20}, 10, 10, 3, 0.4, view{rows: 60, cols: 60, top: 12, left: 16}}, // range 30, 40
		{Jitter{Height: 8, Width: 8}, 1, 100, 0.1, 0, view{rows: 1, cols: 1}},
	} {
		is.Equal(t, fmt.Sprintf("%+v", c), c.jitter.view(c.height, c.width, false, c.scale, c.place), c.want)
	}
}

func TestJitter_IsAFunctionOfSeedEpochAndIndex(t *testing.T) {
	s := at(t, Generated{Count: 3, Height: 40, Width: 53, Seed: 1}, 2)
	j := Jitter{Height: 47, Width: 61, Low: 0.1, High: 2, Flip: 0.5}
	before, first := *s, j.Apply(s, 5, 6, 7)
	is.Equal(t, "the same call", j.Apply(s, 5, 6, 7), first)
	is.Equal(t, "the scene afterwards", *s, before)
	for _, other := range []*Scene{j.Apply(s, 4, 6, 7), j.Apply(s, 5, 5, 7), j.Apply(s, 5, 6, 6)} {
		if slices.Equal(first.Image.Pixels, other.Image.Pixels) {
			t.Error("another call gives the same")
		}
	}
	small := 0 // scales in the lowest quarter of 0.1 to 2
	for epoch := range 400 {
		got := j.Apply(s, 1, epoch, 0)
		if scale := float64(got.Rows) / (40 * 61.0 / 53); scale < 0.1+1.9/4 { // the smaller ratio
			small++
		}
	}
	if small < 60 || small > 140 {
		t.Errorf("%d of 400 scales are in the lowest quarter", small)
	}
}

// An image at its own size, flipped or not, padded.
func TestImagesMoveWithTheirObjects(t *testing.T) {
	s := at(t, Generated{Count: 30, Height: 40, Width: 53, Seed: 1}, 7)
	j := Jitter{Height: 43, Width: 61}
	for _, flip := range []bool{false, true} {
		got := j.apply(s, view{flip: flip, rows: 40, cols: 53})
		is.Equal(t, "sides and objects", [3]int{got.Rows, got.Cols, len(got.Objects)}, [3]int{40, 53, len(s.Objects)})
		source := func(x int) int {
			if flip {
				return 52 - x
			}
			return x
		}
		for y := range 43 {
			for x := range 61 {
				want, inside := [3]uint8{}, y < 40 && x < 53
				if inside {
					want = [3]uint8(s.Image.Pixels[3*(y*53+source(x)):])
				}
				place := fmt.Sprintf("flip %v: at %d, %d ", flip, y, x)
				is.Equal(t, place+"the pixel", [3]uint8(got.Image.Pixels[3*(y*61+x):]), want)
				for k, o := range got.Objects {
					shown := inside && s.Objects[k].Mask.Decode()[y*53+source(x)]
					is.Equal(t, place+"an object", o.Mask.Decode()[y*61+x], shown)
				}
			}
		}
		for k, o := range got.Objects {
			is.Equal(t, fmt.Sprint("box of object ", k), o.Box, o.Mask.Box())
			is.Equal(t, fmt.Sprint("class of object ", k), o.Class, s.Objects[k].Class)
		}
	}
	v := view{rows: 80, cols: 106, top: 21, left: 33}
	whole := s.Image.Resize(80, 106, preprocess.Bilinear) // as in Pillow
	got := j.apply(s, v)
	for y := range 43 {
		at := 3 * ((y+21)*106 + 33)
		is.Equal(t, "row of the enlarged image", got.Image.Pixels[3*y*61:3*(y+1)*61], whole.Pixels[at:at+3*61])
	}
}

// The same object as polygon, as mask and as box: polygons are transformed exactly.
func TestPolygonsMasksAndBoxesMoveAlike(t *testing.T) {
	const height, width = 60, 90
	polygon := []float64{12, 10, 66, 10, 66, 40, 12, 40}
	mask := gomlxtest.Must(maskOf(polygon, height, width))(t)
	box := coco.Box{12, 10, 54, 30}
	s := &Scene{Rows: height, Cols: width, Image: &data.Image{Height: height, Width: width,
		Pixels: make([]uint8, 3*height*width)},
		Objects: []Object{{Box: box, Mask: mask, Polygons: [][]float64{polygon}}, {Box: box, Mask: mask}, {Box: box}}}
	j := Jitter{Height: 80, Width: 100}
	for _, c := range []struct {
		view view
		want coco.Box
	}{
		{view{rows: 60, cols: 90}, box},
		{view{rows: 60, cols: 90, flip: true}, coco.Box{24, 10, 54, 30}},        // 90−66
		{view{rows: 90, cols: 135, top: 7, left: 20}, coco.Box{0, 8, 79, 45}},   // by 1.5: 18…99, 15…60; the left is cut
		{view{rows: 120, cols: 180, top: 30, left: 40}, coco.Box{0, 0, 92, 50}}, // by 2: 24…132, 20…80
		{view{rows: 30, cols: 45, flip: true}, coco.Box{12, 5, 27, 15}},
		{view{rows: 240, cols: 360, top: 0, left: 260}, coco.Box{0, 40, 4, 40}}, // by 4: 48…264, 40…160; 80 rows
	} {
		got := j.apply(s, c.view)
		is.Equal(t, fmt.Sprintf("%+v: objects", c.view), len(got.Objects), 3)
		for k, o := range got.Objects {
			gomlxtest.NearAbs(t, fmt.Sprintf("%+v: object %d", c.view, k), o.Box[:], c.want[:], 1e-9)
			if k == 1 && o.Mask.Area() != int(c.want[2]*c.want[3]) {
				t.Errorf("%+v: object %d has %d pixels, want %g", c.view, k, o.Mask.Area(), c.want[2]*c.want[3])
			}
		}
	}
	above := j.apply(s, view{rows: 240, cols: 360, top: 165, left: 0})
	is.Equal(t, "objects above what is seen", len(above.Objects), 0)
}

func TestTheBoxOfTheVisiblePartOfPolygons(t *testing.T) {
	shift := func(xy []float64, dx, dy float64) (out []float64) {
		for i := 0; i < len(xy); i += 2 {
			out = append(out, xy[i]+dx, xy[i+1]+dy)
		}
		return out
	}
	triangle := []float64{0, 0, 2, 0, 0, 2}
	for _, c := range []struct {
		name       string
		parts      [][]float64
		rows, cols float64
		want       coco.Box
	}{
		// detectron2's dataset_mapper.py: of this triangle, cut by (1, 0) to (2, 2), (1, 0) to (2, 1) remains.
		{"detectron2's triangle", [][]float64{shift(triangle, -1, 0)}, 2, 1, coco.Box{0, 0, 1, 1}},
		{"inside", [][]float64{shift(triangle, 3, 4)}, 9, 9, coco.Box{3, 4, 2, 2}},
		{"two parts", [][]float64{shift(triangle, 3, 4), {7, 1, 8, 1, 8, 2}}, 9, 9, coco.Box{3, 1, 5, 5}},
		{"around everything", [][]float64{{-5, -5, 20, -5, 20, 20, -5, 20}}, 9, 7, coco.Box{0, 0, 7, 9}},
		{"outside", [][]float64{shift(triangle, 20, 20)}, 9, 9, coco.Box{}},
		{"outside, though its box is not", [][]float64{{8, -8, 20, -8, 20, 8}}, 9, 9, coco.Box{}},
		{"touching", [][]float64{{9, 2, 12, 2, 12, 5, 9, 5}}, 9, 9, coco.Box{}},
		{"exactly everything", [][]float64{{0, 0, 7, 0, 7, 9, 0, 9}}, 9, 7, coco.Box{0, 0, 7, 9}},
		{"along the border", [][]float64{{0, 9, 0, 0, 4, 0, 4, 9}}, 9, 7, coco.Box{0, 0, 4, 9}},
		{"touching from outside", [][]float64{{6, -2, 12, -2, 12, 6, 9, 6, 9, 1, 6, 1}}, 9, 9, coco.Box{6, 0, 3, 1}},
		{"one part inside, one touching", [][]float64{{3, 4, 5, 4, 5, 6, 3, 6}, {9, 0, 12, 0, 12, 8, 9, 8}}, 9, 9,
			coco.Box{3, 4, 2, 2}},
		{"a tooth of a C around the image", [][]float64{{-4, -5, 12, -5, 12, -3, -2, -3, -2, 4, 1, 4, 1, 5, -2, 5, -2, 11, 12,
			11, 12, 13, -4, 13}}, 9, 9, coco.Box{0, 4, 1, 1}},
		{"around a corner", [][]float64{{6, -2, 12, -2, 12, 6, 10, 6, 10, 1, 6, 1}}, 9, 9, coco.Box{6, 0, 3, 1}},
	} {
		is.Equal(t, c.name, seenBox(c.parts, c.rows, c.cols), c.want)
	}
}

// maskOf is the mask of a polygon.
func maskOf(polygon []float64, height, width int) (coco.RLE, error) {
	s := coco.Segmentation{Polygons: [][]float64{polygon}}
	return s.Mask(height, width)
}
