// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// split writes 6 training, 4 validation and 2 test images of two classes, and other files.
func split(t *testing.T, more map[string][]byte) string {
	t.Helper()
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))
	for split, n := range map[string]int{"train": 6, "val": 4, "test": 2} {
		for i := range n {
			more[fmt.Sprintf("%s/%s/%d.png", split, []string{"cat", "dog"}[i%2], i)] = img
		}
	}
	return datatest.Tree(t, more)
}

// Package data tests the layouts of directories.
func TestOpen_ASplitDirectoryAlsoRenamed(t *testing.T) {
	d := gomlxtest.Must(Open(t.Context(), split(t, map[string][]byte{"train/cat/2.heic": nil}), Options{}))(t)
	is.Equal(t, "images and classes", []int{d.train, d.validation, d.test, len(d.Classes)}, []int{6, 4, 2, 2})
	is.Equal(t, "ignored", d.ignored, ".heic (1)")
	name, identity := d.Name, d.Identity()
	d.Rename("earlier")
	is.Equal(t, "an identity, its own", []bool{d.Identity() == identity, d.Is(name, identity)}, []bool{false, true})
	s := gomlxtest.Must(d.Load(t.Context(), finetune.Recipe{Augment: data.Augment{Size: [2]int{3, 5}}}))(t)
	for _, split := range []data.Dataset{s.Train, s.Validation, s.Test} {
		is.Said(t, "the name of a split", "in "+split.Describe().Name, "in earlier")
	}
	for more, want := range map[string]error{"x.tar": data.ErrKinds, "extra/1.png": data.ErrSplits} {
		_, err := Open(t.Context(), split(t, map[string][]byte{more: datatest.Tar()}), Options{Unlabelled: true})
		is.Error(t, more, err, want)
	}
	for file, named := range map[string]bool{"a/1.heic": true, "a.parquet": false} { // is no class; is broken
		_, err := Open(t.Context(), datatest.Tree(t, map[string][]byte{"1.png": nil, file: nil}), Options{Unlabelled: true})
		is.Equal(t, fmt.Sprint(file, ": ", err), err == nil, named)
	}
	_, err := Open(t.Context(), split(t, map[string][]byte{"train.bin": nil}), Options{})
	is.Refused(t, "CIFAR-100's files", err, "cifar100:")
}

// Random crops of images in memory would be crops of images that were cropped and resized already.
func TestStreams_WhereTheRecipeCrops(t *testing.T) {
	plain := finetune.Recipe{Augment: data.Augment{Size: [2]int{3, 5}, HFlip: 0.5}}
	crops := plain
	crops.Augment.CropScale = [2]float64{0.3, 1}
	keep := crops
	keep.Aspect, keep.Model.PatchSize = finetune.AspectKeep, 1
	photos := crops
	photos.Name = finetune.PhotosName + " 3x5" // in a comparison of sizes
	dir := split(t, map[string][]byte{})
	for _, c := range []struct {
		stream   string
		recipe   finetune.Recipe
		streamed [3]bool // train, validation, test
	}{
		{StreamAuto, crops, [3]bool{true, false, false}}, {StreamAuto, plain, [3]bool{}}, {StreamAuto, keep, [3]bool{}},
		{StreamAuto, photos, [3]bool{}},
		{InMemory, crops, [3]bool{}}, {"", crops, [3]bool{}}, {Streamed, plain, [3]bool{true, true, true}},
	} {
		d := gomlxtest.Must(Open(t.Context(), dir, Options{Stream: c.stream}))(t)
		s := gomlxtest.Must(d.Load(t.Context(), c.recipe))(t)
		var got [3]bool
		for i, source := range []data.Dataset{s.Train, s.Validation, s.Test} {
			_, held := source.(*data.InMemory)
			got[i] = !held
		}
		name := fmt.Sprintf("--stream=%s, crops of %v, aspect %q", c.stream, c.recipe.Augment.CropScale, c.recipe.Aspect)
		is.Equal(t, name, got, c.streamed)
		is.Equal(t, name, d.Streams(c.recipe), c.streamed[0])
	}
}

func TestIdentity_HasThePixels(t *testing.T) {
	files := datatest.CIFAR100(7, 5)
	identity := func() string {
		return gomlxtest.Must(Open(t.Context(), "cifar100:"+datatest.Tree(t, files), Options{}))(t).Identity()
	}
	own := identity()
	is.Equal(t, "in another directory", identity(), own)
	for _, name := range []string{"train.bin", "test.bin"} {
		files[name][1000] ^= 1 // of the first image
		is.Equal(t, "with another pixel in "+name, identity() == own, false)
		files[name][1000] ^= 1
	}
}

// With one image a class none can be held out, but all can be evaluated.
func TestSplit_AllOfOneImagePerClass(t *testing.T) {
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))
	dir := datatest.Tree(t, map[string][]byte{"a/1.png": img, "b/2.png": img})
	d := gomlxtest.Must(Open(t.Context(), dir, Options{}))(t)
	settings := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{3, 2}}
	is.Refused(t, "an image is held out", is.ErrorOf(d.read(t.Context(), settings, false, -1)), "--split all")
	all := gomlxtest.Must(gomlxtest.Must(d.joined())(t).read(t.Context(), settings, false, -1))(t)
	is.Equal(t, "images", all.Train.Len(), 2)
}

func TestDownloadCIFAR100_PutsTheArchiveWhereTheReaderLooks(t *testing.T) {
	content := bytes.Repeat([]byte("archive"), 10_007)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	official, sum := cifar100, sha256.Sum256(content)
	defer func() { cifar100 = official }()
	cifar100.URL, cifar100.Hash = server.URL+"/cifar.tar.gz", hex.EncodeToString(sum[:])
	dir := filepath.Join(t.TempDir(), "new")
	last, total := int64(0), int64(0)
	gomlxtest.NoError(t, downloadCIFAR100(t.Context(), dir, func(done, of int64) { last, total = done, of }))
	got := gomlxtest.Must(os.ReadFile(filepath.Join(dir, "cifar-100-binary.tar.gz")))(t)
	is.Equal(t, "the file", bytes.Equal(got, content), true)
	is.Equal(t, "bytes, and of how many", [2]int64{last, total}, [2]int64{70_049, 70_049})
	server.Close()
	is.Refused(t, "offline", downloadCIFAR100(t.Context(), t.TempDir(), nil), "by hand")
}

// annotatedBoxes is COCO's file of images of one size, each with an object, a box x0, y0, x1, y1.
func annotatedBoxes(height, width int, names []string, box func(i int) [4]int) []byte {
	var images, objects []string
	for i, name := range names {
		b := box(i)
		images = append(images, fmt.Sprintf(`{"id":%d,"file_name":%q,"height":%d,"width":%d}`, i+7, name, height, width))
		objects = append(objects, fmt.Sprintf(`{"id":%d,"image_id":%d,"category_id":1,"iscrowd":0,"area":1,`+
			`"bbox":[%d,%d,%d,%d],"segmentation":[[%[3]d,%[4]d,%[7]d,%[4]d,%[7]d,%[8]d,%[3]d,%[8]d]]}`, i+1, i+7, b[0], b[1],
			b[2]-b[0], b[3]-b[1], b[2], b[3]))
	}
	return fmt.Appendf(nil, `{"images":[%s],"annotations":[%s],"categories":[{"id":1,"name":"thing"}]}`,
		strings.Join(images, ","), strings.Join(objects, ","))
}

// Images of 3×2 pixels, one of them in each mask. COCO's file names have no folders; where two images have one name,
// the folders decide.
func TestMasks_BelongToTheirImages(t *testing.T) {
	annotations := func(names ...string) string {
		text := annotatedBoxes(3, 2, names, func(i int) [4]int { return [4]int{0, i, 1, i + 1} })
		return filepath.Join(datatest.Tree(t, map[string][]byte{"instances.json": text}), "instances.json")
	}
	exact := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{3, 2}}
	for _, c := range []struct {
		images, listed []string
		rows           []int // of the masks' pixels
		want           string
	}{
		{[]string{"a/1.png", "b/2.png"}, []string{"2.png", "1.png"}, []int{1, 0}, ""},
		{[]string{"a/1.png", "b/1.png"}, []string{"b/1.png", "a/1.png"}, []int{1, 0}, ""},
		{[]string{"a/1.png", "b/1.png"}, []string{"1.png"}, nil, "a/1.png"},
		{[]string{"a/1.png"}, []string{"b/1.png", "c/1.png"}, nil, "a/1.png"},
		{[]string{"a/1.png"}, []string{"2.png"}, nil, "1.png"},
	} {
		where := func(i int) string { return c.images[i] }
		mask, err := annotated(annotations(c.listed...), len(c.images), where, exact)
		asFloat := exact
		asFloat.Float = true // as DINOv3's images are resized
		floats, _ := annotated(annotations(c.listed...), len(c.images), where, asFloat)
		name := fmt.Sprint(c.images, " in ", c.listed)
		if c.rows == nil {
			is.Refused(t, name, err, c.want)
			continue
		}
		gomlxtest.NoError(t, err)
		for i, row := range c.rows {
			want := make([]bool, 6)
			want[2*row] = true
			is.Equal(t, name, [][]bool{mask(i), floats(i)}, [][]bool{want, want})
		}
	}
}

// A folder per class without a split, whose images have equal names: the grey of an image is the number of rows of its
// object. The model's images are of 24×24 pixels.
func TestMasked_OfAPlainFolderPerClass(t *testing.T) {
	files, listed, grey := map[string][]byte{}, []string{}, 0
	for _, class := range []string{"cat", "dog"} {
		for i := range 7 {
			grey++
			img, mask := image.NewGray(image.Rect(0, 0, 24, 24)), image.NewGray(image.Rect(0, 0, 24, 24))
			copy(img.Pix, bytes.Repeat([]byte{byte(grey)}, 24*24))
			copy(mask.Pix, bytes.Repeat([]byte{255}, 24*grey))
			name := fmt.Sprintf("%s/%d.png", class, i)
			files["own/"+name], files["masks/"+name] = datatest.PNG(img), datatest.PNG(mask)
			listed = append(listed, name)
		}
	}
	files["masks.json"] = annotatedBoxes(24, 24, listed, func(i int) [4]int { return [4]int{0, 0, 24, i + 1} })
	demo := gomlxtest.Must(filepath.Abs("../../../../examples/cifar100/demo/vit"))(t)
	t.Chdir(datatest.Tree(t, files))
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), demo))(t)
	defer m.Finalize()
	for _, spec := range []string{"own", "./own/", gomlxtest.Must(filepath.Abs("own"))(t)} {
		d := gomlxtest.Must(Open(t.Context(), spec, Options{}))(t)
		for _, masks := range []string{"masks", "masks.json"} {
			set, mask, err := d.Masked(t.Context(), masks, m, 100)
			gomlxtest.NoError(t, err)
			for i := range set.Len() {
				object := 24 * int(set.Row(i)[0])
				want := append(slices.Repeat([]bool{true}, object), make([]bool, 24*24-object)...)
				is.Equal(t, masks+" of "+spec, mask(i), want)
			}
			is.Equal(t, "images of "+spec, set.Len(), d.validation) // not those of its training
		}
		for _, wrong := range []string{".", "own"} { // with the images themselves
			_, _, err := d.Masked(t.Context(), wrong, m, 100)
			is.Refused(t, wrong, err, "--masks "+wrong)
		}
	}
}
