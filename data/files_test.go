// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/regular"
)

// plain is the file of an image of one colour, the given number in red and green.
func plain(number, height, width int) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range height * width {
		img.Set(i%width, i/width, color.NRGBA{uint8(number), uint8(number >> 8), 77, 255})
	}
	return datatest.PNG(img)
}

// named is a tree of one small image for each path.
func named(t testing.TB, paths ...string) string {
	t.Helper()
	files := map[string][]byte{}
	for i, path := range paths {
		files[path] = plain(i, 2, 3)
	}
	return datatest.Tree(t, files)
}

// numbersOf returns the numbers of plain images.
func numbersOf(s *Memory) (numbers []int) {
	for i := range s.Len() {
		numbers = append(numbers, int(s.Row(i)[0])+int(s.Row(i)[1])<<8)
	}
	return numbers
}

var toTiny = preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{3, 2}}

// listed are the paths of files.
func listed(f *Files) (paths []string) {
	for i := range f.Len() {
		paths = append(paths, f.Where(i))
	}
	return paths
}

func TestFolderListsClassesAndImagesInOrder(t *testing.T) {
	dir := named(t, "dog/b.png", "dog/a.PNG", "cat/x/9.webp", "cat/10.jpeg", "cat/2.JPG", "zebra/.hidden.png",
		"zebra/1.gif",
		".git/cat.png", "cat/.thumbnails/2.png", "cat/notes.txt", "readme.png", "dog/c.bmp", "dog/d.heic")
	all, err := Folder(dir, nil)
	if err != nil || all.Validation != nil || all.Test != nil {
		t.Fatal(all, err)
	}
	train := all.Train
	wantPaths := []string{"cat/10.jpeg", "cat/2.JPG", "cat/x/9.webp", "dog/a.PNG", "dog/b.png", "dog/c.bmp", "zebra/1.gif"}
	if !slices.Equal(listed(train), wantPaths) || !slices.Equal(train.Labels, []int32{0, 0, 0, 1, 1, 1, 2}) ||
		!slices.Equal(train.Classes, []string{"cat", "dog", "zebra"}) {
		t.Errorf("%+v", train)
	}
	if err := os.Symlink(filepath.Join("..", "cat", "2.JPG"), filepath.Join(dir, "zebra", "2.png")); err != nil {
		t.Skip(err)
	}
	all, err = Folder(dir, []string{"zebra", "horse", "cat", "dog"})
	if train = all.Train; err != nil || !slices.Equal(train.Labels, []int32{0, 0, 2, 2, 2, 3, 3, 3}) ||
		train.Where(1) != "zebra/2.png" {
		t.Errorf("with names and a link: %+v, %v", train, err)
	}
	set, err := train.Load(t.Context(), toTiny, nil) // index of the images in the list above
	if err != nil || !slices.Equal(numbersOf(set), []int{6, 4, 3, 4, 2, 1, 0, 11}) {
		t.Errorf("%v, %v", numbersOf(set), err)
	}
}

func TestFolderTakesTheDataSetsOwnSplit(t *testing.T) {
	for _, held := range []string{"val", "valid", "validation", "test"} {
		dir := named(t, "train/cat/1.png", "train/dog/1.png", "train/dog/2.png", "train/eel/1.png",
			held+"/dog/5.png", held+"/eel/6.png", ".cache/x")
		parts := gomlxtest.Must(Folder(dir, nil))(t)
		train, heldOut := parts.Train, cmp.Or(parts.Validation, parts.Test)
		if train.Len() != 4 || !slices.Equal(listed(heldOut), []string{"dog/5.png", "eel/6.png"}) ||
			!slices.Equal(heldOut.Labels, []int32{1, 2}) || !slices.Equal(heldOut.Classes, train.Classes) {
			t.Errorf("%s: %+v, %+v", held, train, heldOut)
		}
		part := map[bool]string{true: "-test", false: "-validation"}[held == "test"]
		if filepath.Base(train.Dir) != "train" || filepath.Base(heldOut.Dir) != held ||
			train.Name != filepath.Base(dir)+"-train" || heldOut.Name != filepath.Base(dir)+part {
			t.Errorf("%s: parts %s of %s and %s of %s", held, train.Name, train.Dir, heldOut.Name, heldOut.Dir)
		}
	}
	for _, classes := range [][]string{{"train", "tram", "val"}, {"test", "val"}, {"cat", "test"}} {
		var paths []string
		for _, class := range classes {
			paths = append(paths, class+"/1.png")
		}
		all := gomlxtest.Must(Folder(named(t, paths...), nil))(t)
		if all.Validation != nil || all.Test != nil || !slices.Equal(all.Train.Classes, classes) {
			t.Errorf("%v: %+v", classes, all)
		}
	}
}

func TestFoldersAreSplitsByTheirNamesInAnyCase(t *testing.T) {
	for _, names := range [][3]string{{"train", "val", "test"}, {"Train", "Val", "TEST"}, {"training", "dev", "testing"},
		{"train", "valid", "eval"}, {"Training", "Validation", ""}, {"train", "", "testing"}, {"train", "", ""}} {
		var paths []string
		for i, name := range names {
			if name != "" {
				paths = append(paths, fmt.Sprintf("%s/cat/%d.png", name, i), fmt.Sprintf("%s/dog/%d.png", name, i))
			}
		}
		parts, err := Folder(named(t, append(paths, "labels/1.txt")...), nil) // a folder without images is none
		if err != nil {
			t.Errorf("%v: %v", names, err)
			continue
		}
		for i, f := range []*Files{parts.Train, parts.Validation, parts.Test} {
			if (f == nil) != (names[i] == "") || f != nil && (filepath.Base(f.Dir) != names[i] ||
				!slices.Equal(f.Classes, []string{"cat", "dog"}) || f.Len() != 2) {
				t.Errorf("%v: split %d is %+v", names, i, f)
			}
		}
	}
}

func TestFilesThatAreNotReadAreCounted(t *testing.T) {
	dir := named(t, "cat/1.png", "cat/2.HEIC", "cat/deep/3.heic", "cat/.DS_Store", "dog/1.jpg", "dog/notes", "loose.png",
		"README.md", "__MACOSX/cat/._1.png", ".git/x.heic")
	parts, err := Folder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{".heic": 2, "": 1, ".png outside of class folders": 1}
	if f := parts.Train; f.Len() != 2 || !slices.Equal(f.Classes, []string{"cat", "dog"}) || !maps.Equal(f.Ignored, want) {
		t.Errorf("%d images of %v, ignored %v, want %v", f.Len(), f.Classes, f.Ignored, want)
	}
	all, err := ImageFiles(dir)
	if want := map[string]int{".heic": 2, "": 1}; err != nil || all.Len() != 3 || !maps.Equal(all.Ignored, want) {
		t.Errorf("%+v, %v, want %v", all, err, want)
	}
	_, err = Folder(named(t, "cat/1.png", "zebra/1.heic"), nil)
	if err == nil || !strings.Contains(err.Error(), "zebra has no images") || !strings.Contains(err.Error(), ".zebra") {
		t.Errorf("an empty class: %v", err)
	}
}

func TestFoldersThatMayBeSplitsOrClassesAreRefused(t *testing.T) {
	for paths, want := range map[string][]string{
		"train/cat/1.png train/dog/1.png val/cat/1.png unlabelled/1.png": {"unlabelled", "move it", "rename it"},
		"Train/cat/1.png unlabeled/deep/1.png":                           {"unlabeled", "move it", "rename it"},
		"cat/1.png dog/1.png test/cat/1.png":                             {"cat", "test", "move it", "rename it"},
		"train/cat/1.png val/cat/1.png validation/cat/1.png":             {"val and validation", "move"},
		"train/cat/1.png val/cat/1.png Valid/cat/1.png":                  {"Valid and val", "move"},
		"train/cat/1.png training/cat/1.png":                             {"train and training", "move"},
		"test/cat/1.png val/cat/1.png":                                   {"test, val without train"},
	} {
		dir := named(t, strings.Fields(paths)...)
		parts, err := Folder(dir, nil)
		if err == nil || !errors.Is(err, ErrSplits) || parts != (Parts[*Files]{}) {
			t.Errorf("%s: %+v, %v", paths, parts, err)
			continue
		}
		for _, want := range append(want, dir, "data: ") {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q does not say %q in one line", err, want)
			}
		}
	}
}

func TestASliceOfFilesHasTheRowsBetween(t *testing.T) {
	all := gomlxtest.Must(Folder(named(t, "a/0.png", "a/1.png", "b/2.png", "c/3.png", "c/4.png"), nil))(t).Train
	for _, some := range []*Files{all.Slice(1, 4), all.Slice(0, 4).Slice(1, 4)} {
		if !slices.Equal(listed(some), []string{"a/1.png", "b/2.png", "c/3.png"}) ||
			!slices.Equal(some.Labels, []int32{0, 1, 2}) {
			t.Errorf("%v with labels %v", listed(some), some.Labels)
		}
	}
}

func TestThinnedFilesAreSpreadOverTheClasses(t *testing.T) {
	all := gomlxtest.Must(Folder(named(t, "a/0.png", "a/1.png", "b/2.png", "c/3.png", "c/4.png"), nil))(t).Train
	for n, want := range map[int][]string{1: {"a/0.png"}, 2: {"a/0.png", "b/2.png"}, 3: {"a/0.png", "a/1.png", "c/3.png"},
		5: listed(all), 7: listed(all)} {
		if got := listed(all.Thin(n)); !slices.Equal(got, want) {
			t.Errorf("%d images: %v, want %v", n, got, want)
		}
	}
}

func TestJoinedFilesAreThoseOfTheirDatasetsInOrder(t *testing.T) {
	dir := named(t, "train/a/0.png", "train/b/1.png", "train/b/2.png", "val/b/1.png", "test/a/0.png", "test/b/5.png")
	parts, err := Folder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Join("all", parts.Train.Slice(1, 3), parts.Validation, parts.Test)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"train/b/1.png", "train/b/2.png", "val/b/1.png", "test/a/0.png", "test/b/5.png"}
	for i := range want {
		want[i] = filepath.Join(dir, want[i])
	}
	set, err := all.Load(t.Context(), toTiny, nil)
	if err != nil || !slices.Equal(numbersOf(set), []int{1, 2, 3, 4, 5}) || !slices.Equal(listed(all), want) ||
		!slices.Equal(set.Labels, []int32{1, 1, 1, 0, 1}) || all.Name != "all" {
		t.Errorf("%v %v: %v", numbersOf(set), listed(all), err)
	}
	other := *parts.Test
	other.Classes = []string{"b", "a"}
	if _, err := Join("all", parts.Train, &other); err == nil || !strings.Contains(err.Error(), "differ") {
		t.Errorf("other classes: %v", err)
	}
	if _, err := Join("none"); err == nil {
		t.Error("nothing is joined")
	}
}

// The expected files are from Python's hashlib: an image is held out if the first 8 bytes of
// sha256(f"{seed}/{class}/{name}") are below 0.3·2⁶⁴, except that the only image of a class is never held out.
func TestAShareOfEachClassIsHeldOutByTheHashOfItsName(t *testing.T) {
	var paths []string
	for class, n := range map[string]int{"a": 1, "b": 7, "c": 20} {
		for i := range n {
			paths = append(paths, fmt.Sprintf("%s/%02d.png", class, i))
		}
	}
	all := gomlxtest.Must(Folder(named(t, paths...), nil))(t).Train
	for seed, want := range []string{"b/01 b/02 c/01 c/07 c/11 c/15", "b/04 b/05 c/03 c/06 c/07 c/08 c/09 c/15 c/17",
		"b/03 b/04 b/06 c/01 c/06 c/12 c/18 c/19"} { // with seed 1 the rule alone would hold out a/00
		train, held, err := all.HoldOut(0.3, int64(seed))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(strings.Join(listed(held), " "), ".png", ""); got != want {
			t.Errorf("seed %d holds out %s, want %s", seed, got, want)
		}
		both := slices.Sorted(slices.Values(append(listed(train), listed(held)...)))
		if !slices.Equal(both, slices.Sorted(slices.Values(paths))) || !slices.IsSorted(listed(train)) {
			t.Errorf("seed %d: parts are not a sorted partition", seed)
		}
	}
	if _, held, err := all.HoldOut(1e-9, 0); err != nil || !slices.Equal(held.Labels, []int32{1, 2}) {
		t.Errorf("a share below every hash holds out %+v, %v, want an image of each class of several", held, err)
	}
	if train, _, err := all.HoldOut(1, 1); err != nil || !slices.Equal(train.Labels, []int32{0, 1, 2}) {
		t.Errorf("of a share of 1 %+v, %v is left to train with", train, err)
	}
	single := gomlxtest.Must(Folder(named(t, "a/1.png", "b/1.png"), nil))(t).Train
	if _, _, err := single.HoldOut(0.3, 1); err == nil || !strings.Contains(err.Error(), "a single image") {
		t.Errorf("nothing can be held out: %v", err)
	}
}

// Measuring a model on its training images overstates it: the images held out must not depend on what is added.
func TestAnImageTrainedOnIsNotHeldOutAfterOthersAreAdded(t *testing.T) {
	var before []string
	for _, class := range []string{"cat", "dog", "eel"} {
		for i := range 40 {
			before = append(before, fmt.Sprintf("%s/%03d.png", class, i))
		}
	}
	after := append(slices.Clone(before), "cat/000a.png", "dog/000a.png", "eel/000a.png", "ant/1.png", "ant/2.png")
	split := func(paths []string) (trained, held []string) {
		all := gomlxtest.Must(Folder(named(t, paths...), nil))(t).Train
		train, heldOut, err := all.HoldOut(0.2, 0)
		if err != nil {
			t.Fatal(err)
		}
		return listed(train), listed(heldOut)
	}
	trained, held := split(before)
	// Binomial(120, 0.2) has mean 24 and deviation 4.4.
	if n := len(held); n < 11 || n > 37 {
		t.Errorf("%d of 120 images are held out, want about 24", n)
	}
	_, later := split(after)
	for _, image := range later {
		if slices.Contains(trained, image) {
			t.Errorf("%s was trained on and is held out", image)
		}
	}
	for _, image := range held {
		if !slices.Contains(later, image) {
			t.Errorf("%s is no longer held out", image)
		}
	}
}

// A shard is named by its path in the dataset, so that the split is that of the dataset wherever it is.
func TestTheSplitOfShardsMovesWithThem(t *testing.T) {
	img := string(plain(1, 2, 3))
	var members [][2]string
	for i := range 40 {
		members = append(members, [2]string{fmt.Sprintf("%d.png", i), img}, [2]string{fmt.Sprintf("%d.cls", i),
			fmt.Sprint(i % 2)})
	}
	var splits []string
	for range 2 {
		dir := datatest.Tree(t, map[string][]byte{"data/0.tar": datatest.Tar(members...)})
		shards := gomlxtest.Must(Shards(dir, ".tar"))(t)
		all := gomlxtest.Must(Tar(dir, shards.Train, nil))(t)
		_, held, err := all.HoldOut(0.2, 0)
		if err != nil || held.Len() == 0 || held.Len() > 20 {
			t.Fatal(held, err)
		}
		splits = append(splits, strings.ReplaceAll(strings.Join(listed(held), " "), dir, ""))
	}
	if splits[0] != splits[1] {
		t.Errorf("two places have the splits\n%s\n%s", splits[0], splits[1])
	}
}

func TestFolderRefusesInOneLine(t *testing.T) {
	outside := named(t, "secret.png", "folder/1.png")
	link := func(target, name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Skip(err)
			}
		}
	}
	for name, c := range map[string]struct {
		paths  []string
		change func(t *testing.T, dir string)
		class  []string
		want   []string
	}{
		"no classes":       {paths: []string{"1.png"}, want: []string{"has no class folders"}},
		"an empty class":   {paths: []string{"a/1.png", "b/1.txt"}, want: []string{"class folder b has no images"}},
		"an unknown class": {paths: []string{"a/1.png", "b/1.png"}, class: []string{"a"}, want: []string{"folder b is none"}},
		"unknown in val": {paths: []string{"train/a/1.png", "val/a/1.png", "val/b/1.png"},
			want: []string{"val: folder b is none"}},
		"empty in val": {paths: []string{"train/a/1.png", "val/a/1.txt"}, want: []string{"val: class folder a has no"}},
		"a link to a folder above": {paths: []string{"a/b/1.png"}, change: link("..", "a/b/c"),
			want: []string{"c is a link to a folder that contains it"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := named(t, c.paths...)
			if c.change != nil {
				c.change(t, dir)
			}
			all, err := Folder(dir, c.class)
			if err == nil {
				t.Fatalf("accepted: %+v", all)
			}
			for _, want := range append(c.want, dir, "data: ") {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q does not say %q in one line", err, want)
				}
			}
		})
	}
	if _, err := Folder(filepath.Join(outside, "absent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent directory: %v", err)
	}
}

// Links are followed as in torchvision: to images and folders, relative and absolute, inside the directory and outside.
// A dangling link is an image that cannot be read, and a pipe does not block.
func TestFolder_FollowsLinks(t *testing.T) {
	dir, outside := named(t, "a/1.png", "a/deep/2.png", "c/3.png"), named(t, "x/4.png", "5.png")
	for name, target := range map[string]string{"b": filepath.Join(dir, "a"), "a/6.png": "../c/3.png", "c/in": "../a/deep",
		"c/7.png": filepath.Join(outside, "5.png"), "d": filepath.Join(outside, "x"), "a/8.png": "none"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "a", "9.png"), 0o600); err != nil {
		t.Skip(err)
	}
	f := gomlxtest.Must(Folder(dir, nil))(t).Train
	want := []string{"a/1.png", "a/6.png", "a/8.png", "a/9.png", "a/deep/2.png", "b/1.png", "b/6.png", "b/8.png",
		"b/9.png",
		"b/deep/2.png", "c/3.png", "c/7.png", "c/in/2.png", "d/4.png"}
	if !slices.Equal(listed(f), want) || !slices.Equal(f.Classes, []string{"a", "b", "c", "d"}) {
		t.Fatalf("%q of %q", listed(f), f.Classes)
	}
	for row, where := range want {
		switch _, err := f.Read(row); path.Base(where) {
		case "8.png":
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", where, err)
			}
		case "9.png":
			if !errors.Is(err, regular.ErrIrregular) {
				t.Errorf("%s: %v", where, err)
			}
		default:
			if err != nil {
				t.Error(err)
			}
		}
	}
}

func TestListsReadsTheVTABLayout(t *testing.T) {
	dir := datatest.Tree(t, map[string][]byte{
		"train800.txt":               []byte("images/train800/000000.jpg 3\nimages/train800/000001.jpg\t0\r\n"),
		"test.txt":                   []byte("./images//test/000000.jpg 1"),
		"images/train800/000000.jpg": plain(10, 5, 7), "images/train800/000001.jpg": plain(11, 5, 7),
	})
	got, err := Lists(dir, "train800.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(listed(got), []string{"images/train800/000000.jpg", "images/train800/000001.jpg"}) ||
		!slices.Equal(got.Labels, []int32{3, 0}) || !slices.Equal(got.Classes, []string{"0", "1", "2", "3"}) ||
		got.Name != filepath.Base(dir)+"-train800" {
		t.Errorf("%+v", got)
	}
	set, err := got.Load(t.Context(), toTiny, nil)
	if err != nil || set.Check(t.Context(), true) != nil || !slices.Equal(numbersOf(set), []int{10, 11}) {
		t.Errorf("%+v, %v", set, err)
	}
	classes := []string{"x", "y"}
	got, err = Lists(dir, "test.txt", classes)
	if err != nil || got.Where(0) != "images/test/000000.jpg" || !slices.Equal(got.Classes, classes) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestListsNamesTheLineItRefuses(t *testing.T) {
	for content, want := range map[string]string{
		"":                           "the list is empty",
		"a.png 0\n\na.png 0\n":       "line 2: 0 fields",
		"a.png 0\na b.png 0\n":       "line 2: 3 fields",
		"a.png\n":                    "line 1: 1 fields",
		"a.png 0\na.png 1\na.png 2":  `line 3: label "2", want 0 to 1`,
		"a.png -1\n":                 `line 1: label "-1"`,
		"a.png 1.0\n":                `line 1: label "1.0"`,
		"a.png 99999999999999999999": "line 1: label",
		"../a.png 0\n":               "line 1: path \"../a.png\" leaves",
		"a/../../a.png 0\n":          "line 1: path",
		"/etc/passwd 0\n":            "line 1: path \"/etc/passwd\" leaves",
		strings.Repeat("a", 1<<17):   "line 1: longer than",
	} {
		dir := datatest.Tree(t, map[string][]byte{"list.txt": []byte(content)})
		_, err := Lists(dir, "list.txt", []string{"x", "y"})
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), filepath.Join(dir, "list.txt")) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%.30q: %v, want %s", content, err, want)
		}
	}
	dir := datatest.Tree(t, map[string][]byte{"big.txt": []byte("a.png 1000000\n")})
	if _, err := Lists(dir, "big.txt", nil); err == nil || !strings.Contains(err.Error(), "0 to 999999") {
		t.Errorf("a million and one classes: %v", err)
	}
	if _, _, err := parseList(iotest.ErrReader(io.ErrClosedPipe), 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a list that cannot be read: %v", err)
	}
	if _, err := Lists(dir, "../list.txt", nil); err == nil {
		t.Error("a list outside the directory is read")
	}
}

// numberedFiles is a directory of n images; number k is damaged where damage has a content for it, nil for none.
func numberedFiles(t testing.TB, n int, damage map[int][]byte) *Files {
	t.Helper()
	files := map[string][]byte{}
	var paths []string
	var labels []int32
	for k := range n {
		path := fmt.Sprintf("%04d.png", k)
		paths, labels = append(paths, path), append(labels, int32(k%2))
		files[path] = plain(k, 2+k%3, 1+k%5)
		if raw, damaged := damage[k]; damaged {
			files[path] = raw
		}
		if files[path] == nil {
			delete(files, path)
		}
	}
	return gomlxtest.Must(NewFiles("numbered", datatest.Tree(t, files), paths, labels, []string{"even", "odd"}))(t)
}

func TestLoadKeepsTheOrderOnAnyNumberOfCores(t *testing.T) {
	files := numberedFiles(t, 83, nil)
	for _, cores := range []int{1, 3, 100} {
		before := runtime.GOMAXPROCS(cores)
		set, err := files.Load(t.Context(), toTiny, nil)
		runtime.GOMAXPROCS(before)
		if err != nil || set.Check(t.Context(), true) != nil || set.Len() != 83 || set.Height != 3 || set.Width != 2 {
			t.Fatalf("%+v, %v", set, err)
		}
		for k := range 83 {
			if !bytes.Equal(set.Row(k), bytes.Repeat([]byte{byte(k), 0, 77}, 6)) || set.Labels[k] != int32(k%2) {
				t.Fatalf("%d cores, image %d: %v, label %d", cores, k, set.Row(k), set.Labels[k])
			}
		}
	}
}

func TestUnreadableImagesAreAnErrorThatNamesThem(t *testing.T) {
	many := map[int][]byte{}
	for k := range 30 {
		many[k] = nil
	}
	const advice = ": repair, convert or remove it"
	for _, c := range []struct {
		n      int
		damage map[int][]byte
		err    string
	}{
		{211, map[int][]byte{7: []byte("no image")}, "1 of 211 images cannot be read: " +
			"0007.png: not a JPEG, PNG, GIF, WebP, BMP or TIFF image"},
		{199, map[int][]byte{3: nil, 20: []byte("x")}, "2 of 199 images cannot be read: " +
			"0003.png: no such file; 0020.png: not a JPEG, PNG, GIF, WebP, BMP or TIFF image"},
		{199, many, "30 of 199 images cannot be read: 0000.png: no such file; 0001.png: " +
			"no such file; 0002.png: no such file; 0003.png: no such file; 0004.png: no such file; 0005.png: no such " +
			"file; 0006.png: no such file; 0007.png: no such file; 0008.png: no such file; 0009.png: no such file; " +
			"and 20 more"},
	} {
		set, err := numberedFiles(t, c.n, c.damage).Load(t.Context(), toTiny, nil)
		if set != nil || err == nil || err.Error() != "data: numbered: "+c.err+advice {
			t.Errorf("error %v, want %q", err, c.err)
		}
	}
	numbers := toTiny
	numbers.Float = true
	floats, err := numberedFiles(t, 7, nil).Load(t.Context(), numbers, nil)
	if err != nil || floats.Check(t.Context(), true) != nil || floats.Float[5*18] != 5 || floats.Pixels[5*18] != 5 {
		t.Errorf("as numbers: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	files := numberedFiles(t, 3, nil)
	dir := files.Dir
	if err := os.Mkdir(filepath.Join(dir, "folder.png"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := func(n int, path string) *Files {
		return gomlxtest.Must(NewFiles("list", dir, slices.Repeat([]string{path}, n), make([]int32, n), []string{"a"}))(t)
	}
	for want, c := range map[string]struct {
		files *Files
		p     preprocess.Settings
	}{
		"differ in size": {files, preprocess.Settings{}},
		"no images":      {list(0, "a.png"), toTiny},
		// 43·3·2^28 bytes are 32.25 GiB.
		"43 images of 16384×16384 pixels take 32 GiB, more than 32:": {list(43, "a.png"),
			preprocess.Settings{Crop: [2]int{16384,
				16384}}},
		"not a regular": {list(2, "folder.png"), toTiny},
	} {
		if set, err := c.files.Load(t.Context(), c.p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want an error with %q", set, err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := files.Load(ended, toTiny, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
}

// FuzzList: an accepted list has a local path and a label in range on every line, and reads the same when written.
func FuzzList(f *testing.F) {
	seeds := []string{"images/train800/000000.jpg 3\nimages/train800/000001.jpg 0\n", "../x.png 0\n", "a b c\n"}
	campaign.Fuzz(f, seeds, func(t *testing.T, content string) {
		classes := len(content) % 7 // 0: any number
		paths, labels, err := parseList(strings.NewReader(content), classes)
		if err != nil {
			return
		}
		var again strings.Builder
		for i, label := range labels {
			path := paths.at(i)
			if !filepath.IsLocal(filepath.FromSlash(path)) || label < 0 || classes > 0 && int(label) >= classes {
				t.Errorf("%q %d of %d", path, label, classes)
			}
			fmt.Fprintln(&again, path, label)
		}
		secondPaths, second, err := parseList(strings.NewReader(again.String()), classes)
		if err != nil || !bytes.Equal(secondPaths.text, paths.text) || !slices.Equal(second, labels) {
			t.Errorf("%q is read back as %q %v, %v", again.String(), secondPaths.text, second, err)
		}
	})
}

func TestImagesFindsThemInAnyFolders(t *testing.T) {
	dir := datatest.Tree(t, map[string][]byte{
		"b/2.png": plain(2, 3, 5), "b/deep/1.png": plain(3, 3, 5), "a/9.PNG": plain(4, 3, 5), "top.png": plain(5, 3, 5),
		"a/notes.txt": nil, ".hidden/1.png": plain(6, 3, 5), "empty/notes.txt": nil, "z.gif": []byte("damaged"),
	})
	f, err := ImageFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range f.Len() {
		got = append(got, f.Where(i)+"="+f.Classes[f.Labels[i]])
	}
	if want := "top.png= z.gif= a/9.PNG=a b/2.png=b b/deep/1.png=b"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	img, err := f.Read(4)
	if err != nil || img.Height != 3 || img.Width != 5 || img.Pixels[0] != 3 {
		t.Errorf("%+v, %v", img, err)
	}
	if img := img.RGBA(); img.Bounds() != image.Rect(0, 0, 5, 3) || img.RGBAAt(4, 2) != (color.RGBA{3, 0, 77, 255}) {
		t.Errorf("%v with %v", img.Bounds(), img.RGBAAt(4, 2))
	}
	if _, err := f.Read(1); err == nil || !strings.Contains(err.Error(), "z.gif") {
		t.Errorf("a damaged image: %v", err)
	}
	fileExists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	for _, nothing := range []string{t.TempDir(), filepath.Join(dir, "none")} {
		_, err := ImageFiles(nothing)
		if err == nil || !strings.Contains(err.Error(), nothing) || errors.Is(err, os.ErrNotExist) == fileExists(nothing) {
			t.Errorf("%v", err)
		}
	}
}

func TestADecodedImageGivesItsMemoryBack(t *testing.T) {
	f := numberedFiles(t, 1, map[int][]byte{0: plain(3, 5, 7)})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	memory, calls := semaphore.NewWeighted(5*7), 0
	for range 2 {
		_, err := f.image(ctx, 0, memory, func(format, []byte, int, int) (*Image, error) {
			if calls++; memory.TryAcquire(1) {
				t.Error("no memory is taken")
			}
			return nil, errors.New("no image")
		})
		if err == nil || !strings.Contains(err.Error(), "no image") {
			t.Error(err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

func TestALabelIsANumberInAtMost64Bytes(t *testing.T) {
	for text, want := range map[string]int32{" 7\n": 7, strings.Repeat(" ", 63) + "7": 7, strings.Repeat(" ", 64) +
		"7": -1,
		"-1": -1, "x": -1, fmt.Sprint(maxLabels): -1, fmt.Sprint(maxLabels - 1): maxLabels - 1} {
		if got, err := parseLabel(strings.NewReader(text)); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}
