// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"image"
	"image/color"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// equal tests that a value is the one that is wanted.
func equal[T any](t testing.TB, name string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

func TestScenesAreWrittenAndRead(t *testing.T) {
	for _, most := range []int{0, 1} {
		g, dir := gomlxtest.Must(Generated{Count: 5, Height: 37, Width: 59, Seed: 4, Most: most}.Set())(t), t.TempDir()
		instances := filepath.Join(dir, "annotations", "instances.json")
		gomlxtest.NoError(t, Write(filepath.Join(dir, "images"), instances, g))
		f := gomlxtest.Must(Open(filepath.Join(dir, "images"), instances, nil))(t)
		equal(t, "scenes", f.Len, g.Len)
		equal(t, "categories", f.Categories, g.Categories)
		for i := range g.Len {
			s := gomlxtest.Must(f.At(i))(t)
			want := gomlxtest.Must(g.At(i))(t)
			equal(t, fmt.Sprint("scene ", i), s, want)
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
	if objects := gomlxtest.Must(training.Annotated())(t); f.Len != 3 || training.Len != 1 || len(objects.Images) != 1 ||
		len(objects.Annotations) != 4 {
		t.Errorf("%d scenes, %d to train on with %+v, want 3 and 1", f.Len, training.Len, objects)
	}
	s := gomlxtest.Must(f.At(0))(t)
	square := gomlxtest.Must(maskOf([]float64{1, 1, 4, 1, 4, 4, 1, 4}, 5, 7))(t)
	want := []Object{
		{Class: 1, Box: coco.Box{1, 1, 3, 3}, Mask: square, Polygons: [][]float64{{1, 1, 4, 1, 4, 4, 1, 4}}},
		{Class: 0, Box: coco.Box{1, 1, 2, 3}},
		{Class: 0, Box: coco.Box{1, 0, 1, 2}, Mask: coco.RLE{Height: 5, Width: 7, Counts: []uint32{5, 2, 28}}, Crowd: true},
	}
	equal(t, "objects", s.Objects, want)
	if s, err := f.At(1); err != nil || s.ImageID != 2 || s.Rows != 5 || s.Cols != 7 || len(s.Objects) != 0 {
		t.Errorf("the image without a size and objects is %+v, %v", s, err)
	}
	trained := Jitter{Height: 5, Width: 7, Low: 1, High: 1}.Apply(s, 1, 2, 3)
	equal(t, "objects but the crowd", len(trained.Objects), 2)
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
	equal(t, "log", log.String(), data.ClippedGrey+" dataset=instances.json image=b.png\n")
}

func TestFolder_SplitsIntoTwoWithoutAnImageInBoth(t *testing.T) {
	dir := t.TempDir()
	instances := filepath.Join(dir, "instances.json")
	gomlxtest.NoError(t, Write(dir, instances, gomlxtest.Must(Generated{Count: 11, Height: 32, Width: 37}.Set())(t)))
	training, validation := gomlxtest.Must(Open(dir, instances, nil))(t).Split(0.3)
	equal(t, "training and validation images", [2]int{training.Len, validation.Len}, [2]int{8, 3})
	in := map[int64]bool{}
	for _, part := range []*Set{training, validation} {
		objects := 0
		for i := range part.Len {
			scene := gomlxtest.Must(part.At(i))(t)
			in[scene.ImageID] = true
			objects += len(scene.Objects)
		}
		equal(t, "images and annotations", [2]int{len(part.folder.dataset.Images), len(part.folder.dataset.Annotations)},
			[2]int{part.Len, objects})
	}
	equal(t, "images in the two parts", len(in), 11)
}
