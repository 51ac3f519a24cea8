// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"io/fs"
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
	"unicode/utf8"

	"github.com/janpfeifer/must"
	pq "github.com/parquet-go/parquet-go"
	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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

var toTiny = preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{3, 2}}

// numbersOf loads files and returns the numbers of plain images.
func numbersOf(t *testing.T, f *Files) (numbers []int) {
	t.Helper()
	s := gomlxtest.Must(f.Load(t.Context(), toTiny, nil))(t)
	for i := range s.Len() {
		numbers = append(numbers, int(s.Row(i)[0])+int(s.Row(i)[1])<<8)
	}
	return numbers
}

// listed are the paths of files.
func listed(f *Files) (paths []string) {
	for i := range f.Len() {
		paths = append(paths, f.Where(i))
	}
	return paths
}

func errorOfTwo[T, U any](_ T, _ U, err error) error { return err }

func TestFolder_ListsClassesAndImagesInOrder(t *testing.T) {
	dir := named(t, "dog/b.png", "dog/a.PNG", "cat/x/9.webp", "cat/10.jpeg", "cat/2.JPG", "zebra/.hidden.png",
		"zebra/1.gif", ".git/cat.png", "cat/.thumbnails/2.png", "cat/notes.txt", "readme.png", "dog/c.bmp", "dog/d.HEIC",
		"cat/deep/e.heic", "dog/f", "README.md", "__MACOSX/cat/._1.png")
	gomlxtest.NoError(t, os.Symlink(filepath.Join("..", "cat", "2.JPG"), filepath.Join(dir, "zebra", "2.png")))
	all := gomlxtest.Must(Folder(dir))(t)
	f := all.Train
	is.Equal(t, "parts", all, Parts{Train: f})
	is.Equal(t, "paths", strings.Join(listed(f), " "), "cat/10.jpeg cat/2.JPG cat/x/9.webp dog/a.PNG dog/b.png dog/c.bmp "+
		"zebra/1.gif zebra/2.png")
	is.Equal(t, "labels", fmt.Sprintf("%v %v %s", f.Labels, f.Classes, f.Dir), "[0 0 0 1 1 1 2 2] [cat dog zebra] "+dir)
	is.Equal(t, "ignored", f.Ignored, map[string]int{".txt": 1, ".heic": 2, "": 1, ".png outside of class folders": 1})
	is.Equal(t, "indices in the list above", numbersOf(t, f), []int{3, 4, 2, 1, 0, 11, 6, 4})
}

// Folders of splits have these names in any case; a folder without images is none. Otherwise the folders are classes.
func TestFolder_Splits(t *testing.T) {
	for _, names := range [][3]string{{"train", "val", "test"}, {"Train", "Val", "TEST"}, {"training", "dev", "testing"},
		{"train", "valid", "eval"}, {"Training", "Validation", ""}, {"train", "", "testing"}, {"train", "", ""}} {
		paths := []string{"labels/1.txt", ".cache/x", "readme.png"}
		for i, name := range names {
			if name != "" {
				paths = append(paths, name+"/dog/1.png", name+"/eel/2.png")
			}
			if i == 0 { // another split need not have every class
				paths = append(paths, name+"/cat/3.png")
			}
		}
		dir := named(t, paths...)
		parts := gomlxtest.Must(Folder(dir))(t)
		for i, f := range parts.each() {
			labels := [3][]int32{{0, 1, 2}, {1, 2}, {1, 2}}[i]
			if (*f == nil) != (names[i] == "") || *f != nil && ((*f).Dir != filepath.Join(dir, names[i]) ||
				!slices.Equal((*f).Classes, []string{"cat", "dog", "eel"}) || !slices.Equal((*f).Labels, labels) ||
				(*f).Name != filepath.Base(dir)+[3]string{"-train", "-validation", "-test"}[i] ||
				((*f).Ignored[".png outside of class folders"] == 1) != (i == 0)) {
				t.Errorf("%v: split %d is %+v", names, i, *f)
			}
		}
	}
	for _, classes := range [][]string{{"train", "tram", "val"}, {"test", "val"}, {"cat", "test"}} {
		all := gomlxtest.Must(Folder(named(t, classes[0]+"/1.png", classes[1]+"/1.png", classes[len(classes)-1]+"/1.png")))(t)
		is.Equal(t, "parts", all, Parts{Train: all.Train})
		is.Equal(t, "classes", all.Train.Classes, classes)
	}
}

// Each is refused with its directory; two readings are ErrSplits, and what to move or rename is named.
func TestFolder_Refuses(t *testing.T) {
	for paths, want := range map[string]struct {
		is    error
		names string
	}{
		"Train/cat/1.png unlabeled/deep/1.png":          {ErrSplits, "unlabeled"},
		"cat/1.png dog/1.png test/cat/1.png":            {ErrSplits, "cat"},
		"cat/1.png p\xeache/1.png":                      {ErrUnlabelled, "UTF-8"},
		"train/cat/1.png val/cat/1.png Valid/cat/1.png": {ErrSplits, "Valid and val"},
		"train/cat/1.png training/cat/1.png":            {ErrSplits, "train and training"},
		"test/cat/1.png val/cat/1.png":                  {ErrSplits, "test, val"},
		"1.png":                                         {ErrUnlabelled, ""},
		"a/1.png b/1.txt":                               {ErrUnlabelled, "b"},
		"train/a/1.png val/a/1.png val/b/1.png":         {names: "val: folder b"},
		"train/a/1.png val/a/1.txt":                     {names: "val: class folder a"},
		"train/a/1.png train/2.png val/a/1.png b/1.png": {ErrSplits, "b"},
		// Kaggle's dogs-vs-cats, aptos2019-blindness-detection and intel-image-classification.
		"train/cat.0.jpg train/dog.0.jpg test1/1.jpg":                     {ErrSplits, "test1 and train"},
		"train_images/1.png test_images/2.png":                            {ErrSplits, "test_images and train_images"},
		"seg_train/seg_train/sea/1.jpg seg_test/sea/1.jpg seg_pred/1.jpg": {ErrSplits, "seg_test and seg_train"},
	} {
		dir := named(t, strings.Fields(paths)...)
		parts, err := Folder(dir)
		is.Refused(t, paths, err, dir, "data: ", want.names)
		is.Equal(t, paths, [2]bool{errors.Is(err, ErrSplits), errors.Is(err, ErrUnlabelled)},
			[2]bool{errors.Is(want.is, ErrSplits), errors.Is(want.is, ErrUnlabelled)})
		is.Equal(t, paths, parts, Parts{})
	}
	dir := named(t, "a/b/1.png")
	gomlxtest.NoError(t, os.Symlink("..", filepath.Join(dir, "a/b/c")))
	is.Refused(t, "a link to a folder above", is.ErrorOf(Folder(dir)), filepath.Join(dir, "a/b/c"))
	dir = named(t, "train/a/1.png", "train/b/1.png", "x.tar")
	gomlxtest.NoError(t, os.Symlink("absent", filepath.Join(dir, "val"))) // on a disk that is not mounted
	is.Error(t, "a dangling folder", is.ErrorOf(Folder(dir)), os.ErrNotExist)
	is.Error(t, "a dangling folder of shards", is.ErrorOf(findShards(dir, ".tar")), os.ErrNotExist)
	is.Error(t, "an absent directory", is.ErrorOf(Folder(filepath.Join(dir, "absent"))), os.ErrNotExist)
}

// Links are followed as in torchvision: to images and folders, relative and absolute, inside the directory and outside.
// A dangling link is an image that cannot be read, and a pipe does not block.
func TestFolder_FollowsLinks(t *testing.T) {
	dir, outside := named(t, "a/1.png", "a/deep/2.png", "c/3.png"), named(t, "x/4.png", "5.png")
	for name, target := range map[string]string{"b": filepath.Join(dir, "a"), "a/6.png": "../c/3.png", "c/in": "../a/deep",
		"c/7.png": filepath.Join(outside, "5.png"), "d": filepath.Join(outside, "x"), "a/8.png": "none"} {
		gomlxtest.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	gomlxtest.NoError(t, syscall.Mkfifo(filepath.Join(dir, "a", "9.png"), 0o600))
	f := gomlxtest.Must(Folder(dir))(t).Train
	want := strings.Fields("a/1.png a/6.png a/8.png a/9.png a/deep/2.png b/1.png b/6.png b/8.png b/9.png b/deep/2.png " +
		"c/3.png c/7.png c/in/2.png d/4.png")
	is.Equal(t, "paths", listed(f), want)
	is.Equal(t, "classes", f.Classes, []string{"a", "b", "c", "d"})
	fails := map[string]error{"8.png": os.ErrNotExist, "9.png": disk.ErrIrregular}
	for row, where := range want {
		is.Error(t, where, is.ErrorOf(f.Read(row)), fails[path.Base(where)])
	}
}

func TestFiles_RowsAndJoin(t *testing.T) {
	dir := named(t, "train/a/0.png", "train/b/1.png", "train/b/2.png", "val/b/1.png", "test/a/0.png", "test/b/5.png")
	parts := gomlxtest.Must(Folder(dir))(t)
	all := gomlxtest.Must(Join("all", parts.Train.Subset([]int{0, 2, 1}).Subset([]int{2, 1}), parts.Validation,
		parts.Test))(t)
	is.Equal(t, "paths", strings.ReplaceAll(strings.Join(listed(all), " "), dir+"/", ""),
		"train/b/1.png train/b/2.png val/b/1.png test/a/0.png test/b/5.png")
	is.Equal(t, "joined", fmt.Sprint(all.Name, numbersOf(t, all), all.Labels), "all[1 2 3 4 5] [1 1 1 0 1]")
	other := *parts.Test
	other.Classes = []string{"b", "a"}
	is.Refused(t, "datasets of other classes", is.ErrorOf(Join("all", parts.Train, &other)))
	is.Refused(t, "no datasets", is.ErrorOf(Join("none")))
}

// The expected files are from Python's hashlib: an image is held out if the first 8 bytes of
// sha256(f"{seed}/{class}/{name}") are below 0.3·2⁶⁴, except that the only image of a class is never held out.
func TestSplit_ChoosesByTheHashOfTheName(t *testing.T) {
	var paths []string
	for class, n := range map[string]int{"a": 1, "b": 7, "c": 20} {
		for i := range n {
			paths = append(paths, fmt.Sprintf("%s/%02d.png", class, i))
		}
	}
	slices.Sort(paths)
	all := gomlxtest.Must(training(named(t, paths...)))(t)
	for seed, want := range []string{"b/01 b/02 c/01 c/07 c/11 c/15", "b/04 b/05 c/03 c/06 c/07 c/08 c/09 c/15 c/17",
		"b/03 b/04 b/06 c/01 c/06 c/12 c/18 c/19"} { // with seed 1 the rule alone would hold out a/00
		train, held, err := all.Split(0.3, int64(seed))
		gomlxtest.NoError(t, err)
		is.Equal(t, "held out", strings.ReplaceAll(strings.Join(listed(held), " "), ".png", ""), want)
		is.Equal(t, "both parts", slices.Sorted(slices.Values(append(listed(train), listed(held)...))), paths)
		is.Equal(t, "the training part is sorted", slices.IsSorted(listed(train)), true)
	}
	if _, held, err := all.Split(1e-9, 0); err != nil || !slices.Equal(held.Labels, []int32{1, 2}) {
		t.Errorf("a share below every hash holds out %+v, %v, want an image of each class of several", held, err)
	}
	if train, _, err := all.Split(1, 1); err != nil || !slices.Equal(train.Labels, []int32{0, 1, 2}) {
		t.Errorf("of a share of 1 %+v, %v is left to train with", train, err)
	}
	all = gomlxtest.Must(training(named(t, "a/1.png", "b/1.png")))(t)
	is.Refused(t, "nothing can be held out", errorOfTwo(all.Split(0.3, 1)))
}

// Measuring a model on its training images overstates it: the images held out do not depend on where shards are.
func TestSplit_OfShardsIsTheSameInAnyPlace(t *testing.T) {
	var splits []string
	for range 2 {
		f := sources(t)["tar"]
		_, held, err := f.Split(0.2, 0)
		gomlxtest.NoError(t, err)
		splits = append(splits, strings.ReplaceAll(strings.Join(listed(held), " "), f.Dir, ""))
	}
	is.Equal(t, "held out in another place", splits[1], splits[0])
}

func TestLists_ReadsTheLayoutOfVTAB(t *testing.T) {
	dir := datatest.Tree(t, map[string][]byte{
		"train800.txt":               []byte("images/train800/000000.jpg 3\nimages/train800/000001.jpg\t0\r\n"),
		"test.txt":                   []byte("./images//test/000000.jpg 1"),
		"images/train800/000000.jpg": plain(10, 5, 7), "images/train800/000001.jpg": plain(11, 5, 7),
	})
	f := gomlxtest.Must(Lists(dir, "train800.txt", nil))(t)
	is.Equal(t, "name", f.Name, filepath.Base(dir)+"-train800")
	is.Equal(t, "train", fmt.Sprint(listed(f), f.Labels, f.Classes, numbersOf(t, f)),
		"[images/train800/000000.jpg images/train800/000001.jpg] [3 0] [0 1 2 3] [10 11]")
	f = gomlxtest.Must(Lists(dir, "test.txt", []string{"x", "y"}))(t)
	is.Equal(t, "test", f.Where(0)+fmt.Sprint(f.Classes), "images/test/000000.jpg[x y]")
}

func TestLists_RefusesByLine(t *testing.T) {
	for content, line := range map[string]string{
		"": "", "a.png 0\n\na.png 0\n": "line 2", "a.png 0\na b.png 0\n": "line 2", "a.png\n": "line 1",
		"a.png 0\na.png 1\na.png 2": "line 3", "a.png -1\n": "line 1", "a.png 1.0\n": "line 1",
		"a.png 99999999999999999999": "line 1", "../a.png 0\n": "line 1", "a/../../a.png 0\n": "line 1",
		"/etc/passwd 0\n": "line 1", "a.png 0\n" + strings.Repeat("a", 1<<17): "line 2",
	} {
		dir := datatest.Tree(t, map[string][]byte{"list.txt": []byte(content)})
		path := filepath.Join(dir, "list.txt")
		is.Refused(t, fmt.Sprintf("%.30q", content), is.ErrorOf(Lists(dir, "list.txt", []string{"x", "y"})), path, line)
	}
	dir := datatest.Tree(t, map[string][]byte{"big.txt": []byte("a.png 1000000\n"), "gap.txt": []byte("a.png 999999\n")})
	for _, list := range []string{"big.txt", "gap.txt", "../list.txt", "absent.txt"} {
		err := is.ErrorOf(Lists(dir, list, nil))
		is.Refused(t, list, err, strings.TrimPrefix(list, "../"))
		is.Equal(t, list+": names that are not read", strings.Contains(err.Error(), classNamesFile), false)
	}
	unread := iotest.ErrReader(io.ErrClosedPipe)
	is.Error(t, "a list that cannot be read", errorOfTwo(parseList(unread, 0)), io.ErrClosedPipe)
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
			path := paths[i]
			if !filepath.IsLocal(filepath.FromSlash(path)) || label < 0 || classes > 0 && int(label) >= classes {
				t.Errorf("%q %d of %d", path, label, classes)
			}
			fmt.Fprintln(&again, path, label)
		}
		secondPaths, second, err := parseList(strings.NewReader(again.String()), classes)
		gomlxtest.NoError(t, err)
		is.Equal(t, again.String(), fmt.Sprintf("%q %v", secondPaths, second), fmt.Sprintf("%q %v", paths, labels))
	})
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
		if raw, damaged := damage[k]; !damaged {
			files[path] = plain(k, 2+k%3, 1+k%5)
		} else if raw != nil {
			files[path] = raw
		}
	}
	return gomlxtest.Must(NewFiles("numbered", datatest.Tree(t, files), paths, labels, []string{"even", "odd"}))(t)
}

func TestLoad_KeepsTheOrderOnAnyNumberOfCores(t *testing.T) {
	files, numbers := numberedFiles(t, 83, nil), toTiny
	for _, cores := range []int{1, 3, 100} {
		numbers.Float = cores == 3
		before := runtime.GOMAXPROCS(cores)
		set, err := files.Load(t.Context(), numbers, nil)
		runtime.GOMAXPROCS(before)
		if err != nil || set.check() != nil || set.Len() != 83 || set.Height != 3 || set.Width != 2 ||
			(set.Float != nil) != numbers.Float {
			t.Fatalf("%+v, %v", set, err)
		}
		for k := range 83 {
			if !bytes.Equal(set.Row(k), bytes.Repeat([]byte{byte(k), 0, 77}, 6)) || set.Labels[k] != int32(k%2) ||
				numbers.Float && set.Float[18*k] != float32(k) {
				t.Fatalf("%d cores, image %d: %v, label %d", cores, k, set.Row(k), set.Labels[k])
			}
		}
	}
}

// Unreadable images are named, up to ten of them.
func TestLoad_Refuses(t *testing.T) {
	many := map[int][]byte{}
	for k := range 30 {
		many[k] = nil
	}
	for n, c := range map[int]struct {
		damage map[int][]byte
		names  []string
	}{
		199: {map[int][]byte{3: nil, 20: []byte("x")}, []string{"2 of 199", "0003.png", "0020.png"}},
		197: {many, []string{"30 of 197", "0000.png", "0009.png", "20 more"}},
		193: {map[int][]byte{20: []byte("x")}, []string{"1 of 193", "0020.png"}}, // none is missing: a stream may skip it
	} {
		set, err := numberedFiles(t, n, c.damage).Load(t.Context(), toTiny, nil)
		is.Refused(t, fmt.Sprint(n, " images"), err, c.names...)
		if damaged := (*ImageError)(nil); set != nil || !errors.As(err, &damaged) || damaged.Damaged != (n == 193) ||
			strings.Contains(err.Error(), "0010.png") {
			t.Errorf("%d images: %v", n, err)
		}
	}
	files := numberedFiles(t, 3, nil)
	gomlxtest.NoError(t, os.Mkdir(filepath.Join(files.Dir, "folder.png"), 0o755))
	list := func(n int, path string) *Files {
		paths := slices.Repeat([]string{path}, n)
		return gomlxtest.Must(NewFiles("list", files.Dir, paths, make([]int32, n), []string{"x"}))(t)
	}
	for name, c := range map[string]struct {
		files *Files
		p     preprocess.Settings
	}{
		"sizes that differ": {files, preprocess.Settings{}}, "no images": {list(0, "a.png"), toTiny},
		"longer sides":  {files, preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{3, 3}}},
		"shorter sides": {files, preprocess.Settings{Resize: preprocess.ResizeContain, Size: [2]int{3, 2}}},
		"a folder":      {list(2, "folder.png"), toTiny},
		"32.25 GiB":     {list(43, "a.png"), preprocess.Settings{Crop: [2]int{16384, 16384}}}, // 43·3·2^28 bytes
	} {
		is.Refused(t, name, is.ErrorOf(c.files.Load(t.Context(), c.p, nil)))
	}
	for path, labels := range map[string][]int32{"../a.png": {0}, "a.png": {1}, "b.png": {-1}, "list": {},
		"lists": {0, 0}} {
		err := is.ErrorOf(NewFiles("lists", files.Dir, []string{path}, labels, []string{"x"}))
		is.Refused(t, fmt.Sprint(path, labels), err, strings.TrimPrefix(path, "../"))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	is.Error(t, "the context has ended", is.ErrorOf(files.Load(ended, toTiny, nil)), context.Canceled)
}

func TestImageFiles_AreInAnyFolders(t *testing.T) {
	dir := datatest.Tree(t, map[string][]byte{
		"b/2.png": plain(2, 3, 5), "b/deep/1.png": plain(3, 3, 5), "a/9.PNG": plain(4, 3, 5), "top.png": plain(5, 3, 5),
		"a/notes.txt": nil, ".hidden/1.png": plain(6, 3, 5), "empty/notes.txt": nil, "z.gif": []byte("damaged"),
		"top.heic": nil,
	})
	f := gomlxtest.Must(ImageFiles(dir))(t)
	var got []string
	for i := range f.Len() {
		got = append(got, f.Where(i)+"="+f.Classes[f.Labels[i]])
	}
	is.Equal(t, "images", fmt.Sprint(got, f.Ignored),
		"[top.png= z.gif= a/9.PNG=a b/2.png=b b/deep/1.png=b] map[.heic:1 .txt:2]")
	img := gomlxtest.Must(f.Read(4))(t).RGBA()
	is.Equal(t, "an image", fmt.Sprint(img.Bounds(), img.RGBAAt(4, 2)), "(0,0)-(5,3) {3 0 77 255}")
	is.Refused(t, "a damaged image", is.ErrorOf(f.Read(1)), "z.gif")
	for _, nothing := range []string{t.TempDir(), filepath.Join(dir, "none")} {
		_, err := ImageFiles(nothing)
		is.Refused(t, "no images", err, nothing)
		is.Equal(t, nothing, errors.Is(err, os.ErrNotExist), filepath.Base(nothing) == "none")
	}
}

func TestImage_GivesItsMemoryBack(t *testing.T) {
	f := numberedFiles(t, 1, map[int][]byte{0: plain(3, 5, 7)})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, calls, damage := f.reading(nil), 0, errors.New("no image")
	r.memory = semaphore.NewWeighted(5 * 7)
	for range 2 {
		_, err := r.image(ctx, 0, func(Encoded) (*Image, error) {
			if calls++; r.memory.TryAcquire(1) {
				t.Error("no memory is taken")
			}
			return nil, damage
		})
		is.Error(t, "the error of a reader", err, damage)
	}
	is.Equal(t, "calls", calls, 2)
}

// A valid dataset of each kind, and mutated ones. Images are bounded by their pixels instead: TestDecode_Refuses.
func TestReaders_UseMemoryInProportionToTheirFiles(t *testing.T) {
	cifar := func(dir string) error { return errorOfTwo(CIFAR100(dir)) }
	var members [][2]string
	for i := range 300 {
		name := strings.Repeat("x", i)
		members = append(members, [2]string{name + ".jpg", strings.Repeat("image", 100)}, [2]string{name + ".cls", "3"})
	}
	readers := map[string]struct {
		files map[string][]byte
		read  func(dir string) error
	}{
		"CIFAR-100":           {datatest.CIFAR100(200, 50), cifar},
		"CIFAR-100's archive": {map[string][]byte{cifarArchive: packed(datatest.CIFAR100(200, 50), allNames...)}, cifar},
		"lists": {map[string][]byte{"train.txt": []byte(strings.Repeat("a/b.jpg 0\n", 20_000))},
			func(dir string) error { return is.ErrorOf(Lists(dir, "train.txt", nil)) }},
		"tar": {map[string][]byte{"0.tar": datatest.Tar(members...)},
			func(dir string) error { return is.ErrorOf(training(dir)) }},
	}
	rng := campaign.Rand(3)
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		for i := range campaign.Times(20) {
			files, size := maps.Clone(readers[name].files), 0
			names := slices.Sorted(maps.Keys(files))
			if target := names[rng.IntN(len(names))]; i > 0 {
				files[target] = campaign.Mutate(rng, files[target], files[target])
			}
			for _, raw := range files {
				size += len(raw)
			}
			dir := datatest.Tree(t, files)
			var err error
			used, took := campaign.Cost(func() { err = readers[name].read(dir) })
			if used > uint64(3*size+16<<20) || took > 20*time.Second {
				t.Errorf("%s, %d: %d bytes allocated for %d, in %v", name, i, used, size, took)
			}
			if i == 0 && err != nil || err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %d: %v", name, i, err)
			}
		}
	}
}

func TestRead_LeaksNothingWhereverItEnds(t *testing.T) {
	for _, container := range []string{"folders", "tar"} {
		f, rng := sources(t)[container], campaign.Rand(11)
		campaign.Leaks(t, 20, func(int) {
			left, set := 1+rng.IntN(6), streamed(t, f, Streaming{Workers: 1 + rng.IntN(8)})
			for _, err := range read(set, Augment{}, 3, 13, epochs(f.Len(), 3)) {
				if left--; err != nil || left == 0 {
					break
				}
			}
		})
	}
}

// tarred is the archive with the official layout, before compression.
func tarred(files map[string][]byte, names ...string) []byte {
	members := [][2]string{{"cifar-100-binary/"}} // a directory
	for _, name := range names {
		members = append(members, [2]string{"cifar-100-binary/" + name, string(files[name])})
	}
	return datatest.Tar(members...)
}

func compressed(raw []byte, level int) []byte {
	var out bytes.Buffer
	zipped := must.M1(gzip.NewWriterLevel(&out, level))
	must.M1(zipped.Write(raw))
	must.M(zipped.Close())
	return out.Bytes()
}

// packed is the archive as downloaded.
func packed(files map[string][]byte, names ...string) []byte {
	return compressed(tarred(files, names...), gzip.BestSpeed)
}

var allNames = []string{"fine_label_names.txt", "train.bin", "test.bin"}

func TestCIFAR100_ReadsTheSameFromDirectorySubdirectoryAndArchive(t *testing.T) {
	files := datatest.CIFAR100(5, 3)
	all := map[string][]byte{
		"archive/cifar-100-binary.tar.gz": packed(files, "test.bin", "fine_label_names.txt", "train.bin"),
	}
	for name, raw := range files {
		all["plain/"+name], all["nested/cifar-100-binary/"+name] = raw, raw
	}
	root := datatest.Tree(t, all)
	for _, dir := range []string{"plain", "nested", "archive", "archive/cifar-100-binary.tar.gz"} {
		train, test, err := CIFAR100(filepath.Join(root, dir))
		gomlxtest.NoError(t, err)
		gomlxtest.NoError(t, errors.Join(train.check(), test.check()))
		is.Equal(t, dir, fmt.Sprintf("%v %d %s", train.Labels, test.Len(), train.Classes[42]), "[0 7 14 21 28] 3 class_42")
		for k := range 5 {
			for i, v := range train.Row(k) { // interleaved against planes
				is.Equal(t, fmt.Sprintf("%s: record %d", dir, k), v, files[cifarTrain][k*cifarRecord+2+i%3*1024+i/3])
			}
		}
	}
}

// Each is refused with the file, and the record if one is wrong.
func TestCIFAR100_Refuses(t *testing.T) {
	files := datatest.CIFAR100(5, 3)
	with := func(name string, content []byte) map[string][]byte {
		out := datatest.CIFAR100(5, 3)
		if out[name] = content; content == nil {
			delete(out, name)
		}
		return out
	}
	set := func(at int, v byte) []byte { raw := bytes.Clone(files[cifarTrain]); raw[at] = v; return raw }
	archive := func(raw []byte) map[string][]byte { return map[string][]byte{cifarArchive: raw} }
	whole := packed(files, allNames...)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-6] ^= 1 // in gzip's checksum
	var header bytes.Buffer
	claim := &tar.Header{Name: "bomb", Typeflag: tar.TypeReg, Size: 1 << 40}
	gomlxtest.NoError(t, tar.NewWriter(&header).WriteHeader(claim))
	// gzip streams concatenate: a gibibyte, more than the limit, in one megabyte.
	zeros := compressed(make([]byte, 1<<20), gzip.BestCompression)
	bomb := append(compressed(header.Bytes(), gzip.BestSpeed), bytes.Repeat(zeros, 1<<10)...)
	for name, c := range map[string]struct {
		files map[string][]byte
		want  []string
	}{
		"no names":       {with(cifarNames, nil), []string{cifarNames}},
		"cut":            {with(cifarTrain, files[cifarTrain][:3*cifarRecord+17]), []string{cifarTrain, "record 3"}},
		"empty":          {with(cifarTest, []byte{}), []string{cifarTest}},
		"fine label":     {with(cifarTrain, set(2*cifarRecord+1, 100)), []string{cifarTrain, "record 2", "100"}},
		"coarse label":   {with(cifarTrain, set(4*cifarRecord, 20)), []string{cifarTrain, "record 4", "20"}},
		"few names":      {with(cifarNames, files[cifarNames][:50]), []string{cifarNames}},
		"one name":       {with(cifarNames, files[cifarNames][:8]), []string{cifarNames}},
		"archive: cut":   {archive(whole[:len(whole)/2]), []string{cifarArchive}},
		"archive: text":  {archive([]byte("<html>404</html>")), []string{cifarArchive}},
		"archive: lacks": {archive(packed(files, cifarTrain, cifarNames)), []string{cifarArchive, cifarTest}},
		"archive: twice": {archive(packed(files, cifarTrain, cifarTrain)), []string{cifarArchive, cifarTrain}},
		"archive: sum":   {archive(flipped), []string{cifarArchive}},
		"archive: bomb":  {archive(bomb), []string{cifarArchive}},
	} {
		dir := datatest.Tree(t, c.files)
		err := is.ErrorOf(campaign.Malformed(t, func() error { return errorOfTwo(CIFAR100(dir)) }))
		is.Refused(t, name, err, c.want...)
	}
	is.Error(t, "an empty directory", errorOfTwo(CIFAR100(t.TempDir())), fs.ErrNotExist)
}

// FuzzCIFAR100Archive checks for any bytes inside the compression: an error or complete datasets. Mutations would
// hardly ever pass the compression's checksum.
func FuzzCIFAR100Archive(f *testing.F) {
	files := datatest.CIFAR100(2, 1)
	seeds := [][]byte{tarred(files, allNames...), tarred(files, "train.bin"), {}}
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		parts, file := cifarFiles{}, bytes.NewReader(compressed(raw, gzip.NoCompression))
		train, test, err := parts.parse("fuzz", parts.readArchive("fuzz", file))
		if err == nil {
			gomlxtest.NoError(t, errors.Join(train.check(), test.check()))
		}
	})
}

// training is the training split of a directory of shards.
func training(dir string) (*Files, error) {
	parts, _, err := Find(dir)
	return parts.Train, err
}

// one is a shard of one sample of class 0.
func one() []byte { return datatest.Tar([2]string{"0.jpg", "an image"}, [2]string{"0.cls", "0"}) }

func TestFind_TarSamplesBetweenOtherMembers(t *testing.T) {
	long := strings.Repeat("folder/", 40) // a name that needs a separate header
	var global, folders bytes.Buffer      // git archive begins with a global header
	g, w := tar.NewWriter(&global), tar.NewWriter(&folders)
	// Some programs write the size of a directory's entries or of a link's target, which has no content here.
	gomlxtest.NoError(t, errors.Join(g.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "global",
		PAXRecords: map[string]string{"comment": strings.Repeat("x", 700)}}), g.Flush(),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755, Size: 4096}), w.Flush()))
	content := [][]byte{plain(7, 2, 3), plain(8, 2, 3), plain(9, 2, 3)}
	dir := datatest.Tree(t, map[string][]byte{
		"a.tar": append(folders.Bytes(), datatest.Tar(
			[2]string{"./a/0.cls", "2\n"}, [2]string{"./a/0.jpg", string(content[0])}, [2]string{"a/0.txt", "words"},
			[2]string{"a/._0.jpg", "resource fork"}, [2]string{".hidden.jpg", "x"},
			[2]string{long + "1.seg.jpg", "no image of a sample"}, [2]string{long + "1.jpg", string(content[1])},
			[2]string{long + "1.cls", "0"})...),
		"b.tar": datatest.Tar(),
		"c.tar": append(global.Bytes(), datatest.Tar([2]string{"b.webp", string(content[2])},
			[2]string{"b.cls", strings.Repeat(" ", 63) + "1"})...),
	})
	f := gomlxtest.Must(training(dir))(t)
	is.Equal(t, "labels and classes", fmt.Sprintf("%v %q", f.Labels, f.Classes), `[2 0 1] ["0" "1" "2"]`)
	for i, want := range content {
		is.Equal(t, fmt.Sprint("image ", i), gomlxtest.Must(f.head(i, maxFileBytes))(t), want)
	}
	is.Equal(t, "image 1", f.Where(1), filepath.Join(dir, "a.tar")+": "+long+"1.jpg")
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, classNamesFile), []byte("\ufeffx\r\ny\nz\n"), 0o600))
	is.Equal(t, "classes", gomlxtest.Must(training(dir))(t).Classes, []string{"x", "y", "z"})
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, classNamesFile), []byte("x\n\r\nz\n"), 0o600))
	is.Refused(t, "a class without a name", is.ErrorOf(training(dir)), classNamesFile, "line 2")
}

// Each is refused in one line that names the directory, and the member if there is one.
func TestFind_RefusesTars(t *testing.T) {
	sums := func(raw []byte) []byte { // the checksum of a changed header
		copy(raw[148:], "        ")
		sum := 0
		for _, b := range raw[:512] {
			sum += int(b)
		}
		copy(raw[148:], fmt.Sprintf("%06o\x00", sum))
		return raw
	}
	linked := func(kind byte) []byte { // to another file of the machine
		raw := datatest.Tar([2]string{"0.jpg", ""})
		raw[156] = kind
		copy(raw[157:], "/etc/hostname")
		return sums(raw)
	}
	large := one()
	copy(large[124:], "77777777777\x00") // the size of 0.jpg: 8 GiB less a byte
	labelled := func(label string) []byte {
		return datatest.Tar([2]string{"d/0.cls", label}, [2]string{"d/0.jpg", "x"})
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"no label": {datatest.Tar([2]string{"0.jpg", "x"}), "0.cls"},
		"no image": {datatest.Tar([2]string{"0.cls", "1"}, [2]string{"1.cls", "1"}), "0 has"},
		"text":     {labelled("cat"), "d/0.cls"}, "below 0": {labelled("-1"), "d/0.cls"},
		"a million": {labelled("1000000"), "d/0.cls"}, "65 bytes": {labelled(strings.Repeat(" ", 64) + "7"), "d/0.cls"},
		"gaps":         {labelled("999999"), classNamesFile},
		"two images":   {datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.png", "x"}), "0 has"},
		"two labels":   {datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.cls", "0"}, [2]string{"0.cls", "1"}), "0 has"},
		"dotted names": {datatest.Tar([2]string{"d/img.00.png", "x"}, [2]string{"d/img.00.cls", "1"}), "d/img.00.png"},
		"nothing":      {datatest.Tar([2]string{"readme", "x"}), "no images"},
		"no tar":       {bytes.Repeat([]byte("hello"), 300), "a.tar"},
		"cut":          {one()[:515], "a.tar"}, "cut in headers": {one()[:1300], "a.tar"},
		"a huge size": {sums(large), "0.jpg"},
		"a symlink":   {linked(tar.TypeSymlink), "no images"}, "a hard link": {linked(tar.TypeLink), "no images"},
		"a device": {linked(tar.TypeBlock), "no images"},
	} {
		dir := datatest.Tree(t, map[string][]byte{"a.tar": c.content})
		_, err := campaign.Malformed(t, func() error { return is.ErrorOf(training(dir)) })
		is.Refused(t, name, err, dir, c.want)
	}
	dir := datatest.Tree(t, map[string][]byte{"a.tar": one()})
	f := gomlxtest.Must(training(dir))(t)
	gomlxtest.NoError(t, os.Truncate(filepath.Join(dir, "a.tar"), 515)) // after it was indexed
	is.Refused(t, "a truncated shard", is.ErrorOf(f.head(0, maxFileBytes)))
}

// Splits are named by the words of paths. Shards in no split, two names of one, and two kinds of datasets are refused.
func TestFind_SplitsOfShards(t *testing.T) {
	for _, c := range []struct{ files, train, validation, test string }{
		{"data/train-00000-of-2.tar data/train-00001-of-2.tar data/validation-0.tar data/test-0.tar",
			"data/train-00000-of-2.tar data/train-00001-of-2.tar", "data/validation-0.tar", "data/test-0.tar"},
		{"train/0.tar train/1.tar val/0.tar x.txt .git/train.tar train/deep/train.tar",
			"train/0.tar train/1.tar", "val/0.tar", ""},
		{"Train/a-val.tar TESTING/0.tar Dev-0.tar", "Train/a-val.tar", "Dev-0.tar", "TESTING/0.tar"},
		{"imagenet1k-train-0000.tar imagenet1k-validation-00.tar", "imagenet1k-train-0000.tar",
			"imagenet1k-validation-00.tar", ""},
		{"b.tar trainset.tar a.tar", "a.tar b.tar trainset.tar", "", ""},
	} {
		files := map[string][]byte{}
		for _, file := range strings.Fields(c.files) {
			files[file] = one()
		}
		dir := datatest.Tree(t, files)
		parts, format, err := Find(dir)
		var got [3][]string
		n := 0
		for i, f := range parts.each() {
			for row := 0; *f != nil && row < (*f).Len(); row++ {
				path, _, _ := strings.Cut(strings.TrimPrefix((*f).Where(row), dir+"/"), ":")
				got[i], n = append(got[i], path), n+1
			}
		}
		want := [3][]string{strings.Fields(c.train), strings.Fields(c.validation), strings.Fields(c.test)}
		gomlxtest.NoError(t, err)
		is.Equal(t, c.files, fmt.Sprint(got, format), fmt.Sprint(want, fmt.Sprint(n, " tar shards")))
	}
	for files, want := range map[string]error{
		"train-0.tar val-0.tar data/validation-0.tar": ErrSplits, "extra-0.tar train-0.tar": ErrSplits,
		"val-0.tar images-0.tar": ErrSplits, "a.tar b.parquet": ErrKinds, "a.tar cat/1.png": ErrKinds,
		"a.parquet train/cat/1.png other/1.png": ErrKinds,
	} {
		if parts, _, err := Find(named(t, strings.Fields(files)...)); !errors.Is(err, want) || parts.Train != nil {
			t.Errorf("%s: %v, want %v", files, err, want)
		}
	}
	is.Error(t, "an absent directory", errorOfTwo(Find(filepath.Join(t.TempDir(), "none"))), os.ErrNotExist)
}

// The validation split has the classes of the training split.
func TestFind_Parquet(t *testing.T) {
	type content struct {
		Bytes []byte `parquet:"bytes"`
	}
	type row struct {
		Image content `parquet:"image"`
		Label int64   `parquet:"label"`
	}
	dir := datatest.Tree(t, map[string][]byte{classNamesFile: []byte("a\nb\nc\n")})
	for split, labels := range map[string][]int64{"train": {1, 0, 2}, "test": {1}} {
		var rows []row
		for i, label := range labels {
			rows = append(rows, row{content{plain(i, 2, 3)}, label})
		}
		gomlxtest.NoError(t, pq.WriteFile(filepath.Join(dir, split+".parquet"), rows))
	}
	parts, format, err := Find(dir)
	gomlxtest.NoError(t, err)
	is.Equal(t, format, fmt.Sprint(format, parts.Train.Labels, numbersOf(t, parts.Train), len(parts.Test.Classes)),
		"2 Parquet files[1 0 2] [0 1 2] 3")
	// A split may have no names, but no others: neither in its files nor for its labels.
	for names, valid := range map[string]bool{`"a", "b", "c"`: true, `"b", "a", "c"`: false} {
		gomlxtest.NoError(t, pq.WriteFile(filepath.Join(dir, "test.parquet"), []row{{content{plain(0, 2, 3)}, 1}},
			pq.KeyValueMetadata("huggingface", `{"info": {"features": {"label": {"names": [`+names+`]}}}}`)))
		is.Equal(t, names, errorOfTwo(Find(dir)) == nil, valid)
	}
	gomlxtest.NoError(t, pq.WriteFile(filepath.Join(dir, "test.parquet"), []row{{content{plain(0, 2, 3)}, 3}}))
	is.Refused(t, "a label without a name", errorOfTwo(Find(dir)), "test.parquet: row 0", "label 3", classNamesFile)
}

// A pipe named as a shard or as its class names is an error: opening it would wait for its other end. Class names are
// read up to a limit.
func TestFind_PipesAndLongClassNames(t *testing.T) {
	dir := datatest.Tree(t, map[string][]byte{"b.tar": one()})
	pipe, names := filepath.Join(dir, "a.tar"), filepath.Join(dir, classNamesFile)
	gomlxtest.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), syscall.Mkfifo(names, 0o600)))
	for range 2 { // the shard, then the names
		is.Error(t, "a pipe", is.ErrorOf(training(dir)), disk.ErrIrregular)
		_ = os.Remove(pipe)
	}
	gomlxtest.NoError(t, errors.Join(os.Remove(names), os.WriteFile(names, make([]byte, maxClassNames+1), 0o600)))
	err := is.ErrorOf(training(dir))
	is.Equal(t, fmt.Sprint("long class names: ", err), errors.As(err, new(*fs.PathError)), true)
}

// FuzzClassNames: names of classes are one for each line of UTF-8, none empty, and each label has one.
func FuzzClassNames(f *testing.F) {
	dir := f.TempDir()
	shard := datatest.Tar([2]string{"0.jpg", "x"}, [2]string{"0.cls", "2"})
	gomlxtest.NoError(f, os.WriteFile(filepath.Join(dir, "0.tar"), shard, 0o600))
	campaign.Fuzz(f, []string{"a\nb\nc\n", "a\r\nb", "", "\ufeffa\n\nb\nc"}, func(t *testing.T, text string) {
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, classNamesFile), []byte(text), 0o600))
		files, err := training(dir)
		lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")), "\n")
		named := utf8.ValidString(text) && len(lines) > 2 && !slices.Contains(lines, "") && !slices.Contains(lines, "\r")
		if (err == nil) != named || named && len(files.Classes) != len(lines) {
			t.Errorf("%q: %v, %v", lines, files, err)
		}
	})
}

// FuzzTar: a shard gives a one-line error, or its images are parts of it, each with a label.
func FuzzTar(f *testing.F) {
	seeds := [][]byte{datatest.Tar([2]string{"0.cls", "2\n"}, [2]string{"0.jpg", "an image"},
		[2]string{"1.png", "another"}, [2]string{"1.cls", "0"}),
		datatest.Tar([2]string{"../0.jpg", "x"}, [2]string{"../0.cls", "1"}), datatest.Tar()}
	dir := f.TempDir()
	campaign.Fuzz(f, seeds, func(t *testing.T, raw []byte) {
		gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, "0.tar"), raw, 0o644))
		files, err := training(dir)
		if err != nil {
			is.Refused(t, "a shard", err)
			return
		}
		for i, label := range files.Labels {
			content, err := files.head(i, maxFileBytes)
			if label < 0 || err == nil && !bytes.Contains(raw, content) {
				t.Errorf("image %d of class %d: %q", i, label, content)
			}
		}
	})
}
