// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/random"
)

// ramp is the file of an image whose red is the column, green the row and blue the number.
func ramp(number, height, width int) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range height * width {
		img.Set(i%width, i/width, color.NRGBA{uint8(i % width), uint8(i / width), uint8(number), 255})
	}
	return datatest.PNG(img)
}

// sources are the same 131 images of many sizes in class folders and in two tar shards, in the same order.
func sources(t *testing.T) map[string]*Files {
	t.Helper()
	files := map[string][]byte{"shards/classnames.txt": []byte("cat\ndog\neel\n")}
	var members [2][][2]string
	for i := range 131 {
		label := i / 50
		content := ramp(i, 23+i%7, 29+i%11)
		files[fmt.Sprintf("folders/%s/%03d.png", []string{"cat", "dog", "eel"}[label], i)] = content
		members[i/70] = append(members[i/70], [2]string{fmt.Sprintf("%03d.cls", i), fmt.Sprint(label)},
			[2]string{fmt.Sprintf("%03d.PNG", i), string(content)}, [2]string{fmt.Sprintf("%03d.json", i), "{}"})
	}
	for k, m := range members {
		files[fmt.Sprintf("shards/pets-train-%d.tar", k)] = datatest.Tar(m...)
	}
	dir := datatest.Tree(t, files)
	folder, err := Folder(filepath.Join(dir, "folders"), nil)
	if err != nil {
		t.Fatal(err)
	}
	shards, err := Shards(filepath.Join(dir, "shards"), ".tar")
	if err != nil || len(shards.Train) != 2 || shards.Validation != nil || shards.Test != nil {
		t.Fatal(shards, err)
	}
	tarred, err := Tar(filepath.Join(dir, "shards"), shards.Train, nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Files{"folders": folder.Train, "tar": tarred}
}

var to7x5 = preprocess.Settings{Fit: preprocess.FitCover, Size: [2]int{7, 5}, Crop: [2]int{7, 5},
	Resample: preprocess.Bicubic}

// streamed streams files, or fails the test.
func streamed(t *testing.T, f *Files, how Streaming) *Stream {
	t.Helper()
	set, err := f.Stream(to7x5, how)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// epochs yields batches of 13 rows of two epochs.
func epochs(n int, seed int64) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		for epoch := range 2 {
			for rows := range slices.Chunk(Order(seed, epoch, n, 1), 13) {
				if len(rows) == 13 && !yield(epoch, rows) {
					return
				}
			}
		}
	}
}

// newLoader is NewLoader with the host's part of an augmentation.
func newLoader(s Source, a Augment, seed int64, part int, batches iter.Seq2[int, []int]) *Loader {
	host, _ := a.Divide(s)
	return NewLoader(s, host, seed, part, batches)
}

// fed returns the rows and pixels of all batches.
func fed(t *testing.T, set Source, a Augment, seed int64, batches iter.Seq2[int, []int]) (rows []int, pixels []byte) {
	t.Helper()
	feed := newLoader(set, a, seed, 30, batches)
	defer feed.Close()
	for {
		b, err := feed.Next()
		if errors.Is(err, io.EOF) {
			return rows, pixels
		}
		if err != nil {
			t.Fatal(err)
		}
		rows, pixels = append(rows, b.Indices...), append(pixels, b.Pixels...)
	}
}

func TestOrderAndPixelsAreThoseOfAnyNumberOfWorkersAndAnyContainer(t *testing.T) {
	changed := changing
	changed.CropScale = [2]float64{}
	for name, a := range map[string]Augment{"cropped": {CropScale: [2]float64{0.1, 1}}, "cropped and changed": changing,
		"changed": changed, "whole": {}} {
		var wantRows []int
		var want []byte
		for container, f := range sources(t) {
			for _, workers := range []int{1, 2, 8} {
				rows, pixels := fed(t, streamed(t, f, Streaming{Workers: workers}), a, 3, epochs(f.Len(), 3))
				if want == nil {
					wantRows, want = rows, pixels
				}
				if len(rows) != 2*130 || !slices.Equal(rows, wantRows) || !bytes.Equal(pixels, want) {
					t.Errorf("%s: %s by %d workers: other rows or pixels", name, container, workers)
				}
			}
			if name == "changed" { // like images in memory
				a := a
				a.Size = to7x5.Crop
				rows, pixels := fed(t, gomlxtest.Must(f.Load(t.Context(), to7x5, nil))(t), a, 3, epochs(f.Len(), 3))
				if !slices.Equal(rows, wantRows) || !bytes.Equal(pixels, want) {
					t.Errorf("%s from memory: other rows or pixels", container)
				}
			}
			if _, other := fed(t, streamed(t, f, Streaming{}), a, 4, epochs(f.Len(), 3)); bytes.Equal(other, want) !=
				(name == "whole") {
				t.Errorf("%s: the seed decides pixels: %v", name, !bytes.Equal(other, want))
			}
		}
	}
}

func TestImagesThatAreNotCroppedAreThoseOfLoad(t *testing.T) {
	for container, f := range sources(t) {
		want, err := f.Load(t.Context(), to7x5, nil)
		if err != nil {
			t.Fatal(err)
		}
		rows := []int{130, 0, 77, 5}
		set := streamed(t, f, Streaming{})
		part := set.subset(rows)
		_, got := fed(t, part, Augment{FlipProb: 0.5}, 1, func(yield func(int, []int) bool) { yield(0, []int{0, 1, 2, 3}) })
		held, err := set.Load(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		for _, pixels := range [][]byte{got, held.Pixels} {
			if !bytes.Equal(pixels, want.Rows(rows).Pixels) {
				t.Errorf("%s: other pixels than Load's", container)
			}
		}
		if !slices.Equal(part.Labels, want.Rows(rows).Labels) || !slices.Equal(held.Labels, part.Labels) ||
			!slices.Equal(part.Classes, []string{"cat", "dog", "eel"}) {
			t.Errorf("%s: labels %v and %v of %v", container, part.Labels, held.Labels, part.Classes)
		}
		if part.Fingerprint() == set.Fingerprint() || part.Fingerprint() != set.subset(rows).Fingerprint() {
			t.Errorf("%s: a fingerprint that does not tell parts apart", container)
		}
	}
}

// An image that is a ramp reveals its crop: the mean of a row is the centre of the window.
func TestACropIsTheWindowThatWasDrawn(t *testing.T) {
	f := sources(t)["tar"]
	a := Augment{CropScale: [2]float64{0.1, 0.5}}
	rows, pixels := fed(t, streamed(t, f, Streaming{}), a, 5, epochs(f.Len(), 5))
	seen := map[window]bool{}
	for k, row := range rows {
		height, width := 23+row%7, 29+row%11
		w := a.window(random.New(streamSample, 5, k/130, row), height, width)
		seen[w] = true
		if area := float64(w.height * w.width); area > 0.55*float64(height*width) {
			t.Errorf("a window of %d×%d of %d×%d", w.height, w.width, height, width)
		}
		var mean [3]float64
		for i, v := range pixels[k*105 : (k+1)*105] {
			mean[i%3] += float64(v) / 35
		}
		want := [3]float64{float64(w.left) + float64(w.width-1)/2, float64(w.top) + float64(w.height-1)/2, float64(row)}
		for c := range 3 {
			if !(math.Abs(mean[c]-want[c]) <= 0.75) { // rounding, and the kernel truncated at the border
				t.Fatalf("image %d: channel %d is %g in the mean, want %g of %+v", row, c, mean[c], want[c], w)
			}
		}
	}
	if len(seen) < 200 {
		t.Errorf("only %d windows of 260 differ", len(seen))
	}
}

// counted counts the reads of each part.
type counted struct {
	Container
	mutex sync.Mutex
	reads map[int]int
}

func (c *counted) Open(part int) (io.ReadCloser, error) {
	c.mutex.Lock()
	c.reads[part]++
	c.mutex.Unlock()
	return c.Container.Open(part)
}

func TestALoaderReadsTheRequestedBatchesAndFewAhead(t *testing.T) {
	f := sources(t)["tar"]
	c := &counted{Container: f.In, reads: map[int]int{}}
	f.In = c
	set := streamed(t, f, Streaming{Workers: 3})
	feed := newLoader(set, Augment{}, 0, 13, func(yield func(int, []int) bool) {
		for first := 26; first < 130; first += 13 { // as after a resume
			rows := make([]int, 13)
			for k := range rows {
				rows[k] = first + k
			}
			if !yield(0, rows) {
				return
			}
		}
	})
	for range 2 {
		if _, err := feed.Next(); err != nil {
			t.Fatal(err)
		}
	}
	feed.Close()
	if len(c.reads) < 26 || len(c.reads) > 26+prefetched*13+13 {
		t.Errorf("%d images were read for two batches of 13", len(c.reads))
	}
	for part, n := range c.reads {
		if n != 1 || part < 26 {
			t.Errorf("image %d was read %d times", part, n)
		}
	}
}

// withDamage are class folders of 300 images, some of them truncated.
func withDamage(t *testing.T, cut ...int) *Files {
	t.Helper()
	files := map[string][]byte{}
	for i := range 300 {
		files[fmt.Sprintf("%d/%03d.png", i/150, i)] = ramp(i, 9, 11)
	}
	for _, i := range cut {
		name := fmt.Sprintf("%d/%03d.png", i/150, i)
		files[name] = files[name][:len(files[name])/2]
	}
	return gomlxtest.Must(Folder(datatest.Tree(t, files), nil))(t).Train
}

func all(n, size int) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		for first := 0; first < n; first += size {
			rows := make([]int, size)
			for k := range rows {
				rows[k] = first + k
			}
			if !yield(0, rows) {
				return
			}
		}
	}
}

func TestADamagedImageIsAnErrorByNameOrIsLeftOutAndCounted(t *testing.T) {
	f := withDamage(t, 31, 209, 299)
	feed := newLoader(streamed(t, f, Streaming{}), Augment{}, 0, 30, all(300, 30))
	defer feed.Close()
	_, first := feed.Next()
	_, err := feed.Next()
	var img *ImageError
	if first != nil || !errors.As(err, &img) || !img.Damaged || !strings.Contains(err.Error(), "0/031.png") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, then %v, want the second batch to name 0/031.png", first, err)
	}

	var log strings.Builder
	set := streamed(t, f, Streaming{Skip: true, Logger: gomlxtest.Logger(&log)})
	for range 2 {
		rows, pixels := fed(t, set, Augment{}, 0, all(300, 30))
		for k, row := range rows {
			want := k
			switch k {
			case 31:
				want = 32 // the next of the batch
			case 209, 299:
				want = k - 29 // the last of a batch: its first
			}
			if row != want || pixels[k*105+2] != uint8(want) {
				t.Errorf("place %d shows row %d, blue %d, want %d", k, row, pixels[k*105+2], want)
			}
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if !slices.Equal(set.Damaged(), []int{31, 209, 299}) || len(lines) != 3 ||
		!strings.HasPrefix(lines[1], "image skipped image=1/209.png error=") {
		t.Errorf("left out %v, logged %q", set.Damaged(), lines)
	}
	if part := set.subset([]int{5, 299, 31}); !slices.Equal(part.Damaged(), []int{1, 2}) {
		t.Errorf("of a part %v is left out", part.Damaged())
	}

	feed = newLoader(streamed(t, withDamage(t, 1, 2, 3, 4), Streaming{Skip: true}), Augment{}, 0, 30, all(300, 30))
	defer feed.Close()
	if _, err := feed.Next(); err == nil || !strings.Contains(err.Error(), "4 of 300 images are damaged") ||
		!strings.Contains(err.Error(), "0/00") {
		t.Errorf("more than one in a hundred: %v", err)
	}
}

func TestUnreadableFilesAreErrorsEvenIfDamageIsSkipped(t *testing.T) {
	for container, f := range sources(t) {
		set := streamed(t, f, Streaming{Skip: true})
		// A shard stays open while it is in use: it can be truncated, but not vanish.
		lost, lose := filepath.Join(f.Dir, "pets-train-1.tar"), func(path string) error { return os.Truncate(path, 0) }
		if container == "folders" {
			lost, lose = filepath.Join(f.Dir, "dog", "070.png"), os.Remove
		}
		if err := lose(lost); err != nil {
			t.Fatal(err)
		}
		feed := newLoader(set, Augment{}, 0, 10, all(130, 10))
		for k := range 8 {
			_, err := feed.Next()
			var img *ImageError
			if errors.As(err, &img) != (k == 7) ||
				k == 7 && (img.Damaged || errors.Is(err, os.ErrNotExist) != (container == "folders") ||
					!strings.Contains(err.Error(), filepath.Base(lost)) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: batch %d: %v", container, k, err)
			}
		}
		feed.Close()
	}
}

func TestAStreamRefusesPatchesAndNoImages(t *testing.T) {
	f := withDamage(t)
	patches := preprocess.Settings{Fit: preprocess.FitPatches, Size: [2]int{6, 6}, Patch: 3}
	if _, err := f.Stream(patches, Streaming{}); err == nil || !strings.Contains(err.Error(), "cannot be streamed") {
		t.Error(err)
	}
	if _, err := f.subset(nil).Stream(to7x5, Streaming{}); err == nil || !strings.Contains(err.Error(), "no images") {
		t.Error(err)
	}
}

func TestCheckFindsDamageBeforeTraining(t *testing.T) {
	f := withDamage(t, 209) // whose header is complete
	if err := os.WriteFile(filepath.Join(f.Dir, "0", "031.png"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, full := range []bool{false, true} {
		err := streamed(t, f, Streaming{}).Check(t.Context(), full)
		if err == nil || !strings.Contains(err.Error(), "0/031.png") || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "1/209.png") != full {
			t.Errorf("full %v: %v", full, err)
		}
		set := streamed(t, f, Streaming{Skip: true})
		want := []int{31}
		if full {
			want = []int{31, 209}
		}
		if err := set.Check(t.Context(), full); err != nil || !slices.Equal(set.Damaged(), want) {
			t.Errorf("full %v: left out %v, want %v: %v", full, set.Damaged(), want, err)
		}
	}
}

// With repeats an index is row + k·n: the row has the pixels and the label, the index has the draws.
func TestTheRepetitionsOfAStreamedImageAreDrawnByTheirIndex(t *testing.T) {
	f := sources(t)["folders"]
	n, row := f.Len(), 77
	a := Augment{CropScale: [2]float64{0.1, 0.5}}
	indices := []int{row, row + n, row + 2*n}
	rows, pixels := fed(t, streamed(t, f, Streaming{}), a, 3, func(yield func(int, []int) bool) { yield(4, indices) })
	whole, err := f.Read(row)
	if err != nil {
		t.Fatal(err)
	}
	a.Size = to7x5.Crop
	for k, index := range rows {
		shown := pixels[k*105 : (k+1)*105]
		if want := a.Apply(whole, 3, 4, index).Pixels; !bytes.Equal(shown, want) {
			t.Errorf("index %d is not the crop drawn for it", index)
		}
		if k > 0 && bytes.Equal(shown, pixels[:105]) {
			t.Errorf("repetition %d shows the crop of the first", k)
		}
	}
}
