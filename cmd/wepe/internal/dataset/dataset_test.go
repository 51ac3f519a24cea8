// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"fmt"
	"image"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// layouts writes a dataset with 6 training, 4 validation and 2 test images in several layouts, a directory for each.
func layouts(t *testing.T) map[string]string {
	t.Helper()
	type content struct {
		Bytes []byte `parquet:"bytes"`
	}
	type row struct {
		Image content `parquet:"image"`
		Label int64   `parquet:"label"`
	}
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))
	files, tables := map[string][]byte{}, map[string][]row{}
	for split, n := range map[string]int{"train": 6, "val": 4, "test": 2} {
		var members [][2]string
		for i := range n {
			files[fmt.Sprintf("folders/%s/%s/%d.png", split, []string{"cat", "dog"}[i%2], i)] = img
			members = append(members, [2]string{fmt.Sprint(i, ".png"), string(img)}, [2]string{fmt.Sprint(i, ".cls"),
				fmt.Sprint(i % 2)})
			tables[split] = append(tables[split], row{content{img}, int64(i % 2)})
		}
		files["tar names/"+split+"-000.tar"] = datatest.Tar(members...)
		files["tar folders/"+split+"/000.tar"] = datatest.Tar(members...)
	}
	dir := datatest.Tree(t, files)
	for split, name := range map[string]string{"train": "train", "val": "validation", "test": "test"} {
		for _, path := range []string{"hub/data/" + name + "-00000-of-00001", "parquet folders/" + name + "/0000"} {
			path = filepath.Join(dir, path+".parquet")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := pq.WriteFile(path, tables[split]); err != nil {
				t.Fatal(err)
			}
		}
	}
	of := map[string]string{}
	for _, name := range []string{"folders", "tar names", "tar folders", "hub", "parquet folders"} {
		of[name] = filepath.Join(dir, name)
	}
	return of
}

func TestOpen_EveryLayoutHasThreeSplitsAlsoRenamed(t *testing.T) {
	for layout, dir := range layouts(t) {
		d := gomlxtest.Must(Open(t.Context(), dir, Options{}))(t)
		if got := [3]int{d.train, d.validation, d.test}; got != [3]int{6, 4, 2} || len(d.Classes) != 2 {
			t.Errorf("%s: %v images of %v, want 6, 4 and 2 of 2 classes", layout, got, d.Classes)
		}
		name, identity := d.Name, d.Identity()
		if d.Rename("earlier"); d.Identity() == identity || !d.Is(name, identity) {
			t.Errorf("%s: the identity does not have the name", layout)
		}
		s := gomlxtest.Must(d.Load(t.Context(), finetune.Recipe{Augment: data.Augment{Size: [2]int{3, 5}}}))(t)
		for _, split := range []data.Source{s.Train, s.Validation, s.Test} {
			if name := split.Describe().Name; !strings.HasPrefix(name, "earlier") {
				t.Errorf("%s: a split is named %s", layout, name)
			}
		}
	}
}

func TestOpen_RefusesTwoKinds(t *testing.T) {
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))
	shard := datatest.Tar([2]string{"0.png", string(img)}, [2]string{"0.cls", "0"}, [2]string{"1.png", string(img)},
		[2]string{"1.cls", "1"})
	split := map[string][]byte{"train/cat/1.png": img, "train/dog/1.png": img, "val/cat/1.png": img}
	for name, more := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"tar":         {map[string][]byte{"extra.tar": shard}, "extra.tar"},
		"data":        {map[string][]byte{"data/x.tar": shard}, "x.tar"},
		"Parquet":     {map[string][]byte{"index.parquet": nil}, "index.parquet"},
		"two shards":  {map[string][]byte{"index.parquet": nil, "x.tar": shard}, "tar shards"},
		"none":        {map[string][]byte{"readme.txt": nil}, ""},
		"CIFAR-100":   {map[string][]byte{"train.bin": nil}, "cifar100:"},
		"other files": {map[string][]byte{"train/cat/2.heic": img}, ""},
	} {
		files := maps.Clone(split)
		maps.Copy(files, more.files)
		d, err := Open(t.Context(), datatest.Tree(t, files), Options{Unlabelled: true})
		switch {
		case more.want == "" && (err != nil || d.train != 2):
			t.Errorf("%s: %v", name, err)
		case more.want != "" && (err == nil || !strings.Contains(err.Error(), more.want)):
			t.Errorf("%s: %v, want %q", name, err, more.want)
		case name == "other files" && d.ignored != ".heic (1)":
			t.Errorf("ignored %q", d.ignored)
		}
	}
	onlyVal := map[string][]byte{"train.tar": shard, "val/cat/1.png": img, "val/dog/1.png": img}
	if _, err := Open(t.Context(), datatest.Tree(t, onlyVal), Options{}); err == nil ||
		!strings.Contains(err.Error(), "two kinds of datasets") {
		t.Errorf("shards beside a split of folders: %v", err)
	}
}

// Random crops of images in memory would be crops of images that were cropped and resized already.
func TestStreams_WhereTheRecipeCrops(t *testing.T) {
	plain := finetune.Recipe{Augment: data.Augment{Size: [2]int{3, 5}, FlipProb: 0.5}}
	crops := plain
	crops.Augment.CropScale = [2]float64{0.3, 1}
	keep := crops
	keep.Aspect, keep.Model.PatchSize = finetune.AspectKeep, 1
	dir := layouts(t)["folders"]
	for _, c := range []struct {
		stream   string
		recipe   finetune.Recipe
		streamed [3]bool // train, validation, test
	}{
		{streamAuto, crops, [3]bool{true, false, false}},
		{streamAuto, plain, [3]bool{}},
		{streamAuto, keep, [3]bool{}},
		{InMemory, crops, [3]bool{}},
		{"", crops, [3]bool{}},
		{Streamed, plain, [3]bool{true, true, true}},
	} {
		d := gomlxtest.Must(Open(t.Context(), dir, Options{Stream: c.stream}))(t)
		s := gomlxtest.Must(d.Load(t.Context(), c.recipe))(t)
		var got [3]bool
		for i, source := range []data.Source{s.Train, s.Validation, s.Test} {
			_, held := source.(*data.Memory)
			got[i] = !held
		}
		if got != c.streamed || d.Streams(c.recipe) != c.streamed[0] {
			t.Errorf("--stream=%s, crops of %v, aspect %q: streams %v, want %v", c.stream, c.recipe.Augment.CropScale,
				c.recipe.Aspect, got, c.streamed)
		}
	}
}

func TestIdentity_HasThePixels(t *testing.T) {
	files := datatest.CIFAR100(7, 5)
	identity := func() string {
		d, err := Open(t.Context(), "cifar100:"+datatest.Tree(t, files), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Identity()
	}
	own := identity()
	if moved := identity(); moved != own {
		t.Errorf("in another directory: %s, want %s", moved, own)
	}
	for _, name := range []string{"train.bin", "test.bin"} {
		files[name][1000] ^= 1 // of the first image
		if changed := identity(); changed == own {
			t.Errorf("with another pixel in %s: %s", name, changed)
		}
		files[name][1000] ^= 1
	}
}

// With one image a class none can be held out, but all can be evaluated.
func TestSplit_AllOfOneImagePerClass(t *testing.T) {
	img := datatest.PNG(image.NewGray(image.Rect(0, 0, 7, 5)))
	d, err := Open(t.Context(), datatest.Tree(t, map[string][]byte{"a/1.png": img, "b/2.png": img}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	settings := preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{3, 2}}
	if _, err := d.read(t.Context(), settings, false); err == nil {
		t.Error("an image is held out")
	}
	all, err := d.joined()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := all.read(t.Context(), settings, false); err != nil || s.Train.Len() != 2 {
		t.Errorf("%v, %v", s, err)
	}
}
