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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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
		label, content := i/50, ramp(i, 23+i%7, 29+i%11)
		files[fmt.Sprintf("folders/%s/%03d.png", []string{"cat", "dog", "eel"}[label], i)] = content
		members[i/70] = append(members[i/70], [2]string{fmt.Sprintf("%03d.cls", i), fmt.Sprint(label)},
			[2]string{fmt.Sprintf("%03d.PNG", i), string(content)}, [2]string{fmt.Sprintf("%03d.json", i), "{}"})
	}
	for k, m := range members {
		files[fmt.Sprintf("shards/pets-train-%d.tar", k)] = datatest.Tar(m...)
	}
	dir := datatest.Tree(t, files)
	return map[string]*Files{"folders": gomlxtest.Must(training(filepath.Join(dir, "folders")))(t),
		"tar": gomlxtest.Must(training(filepath.Join(dir, "shards")))(t)}
}

var to7x5 = preprocess.Settings{Resize: preprocess.ResizeCover, Size: [2]int{7, 5}, Crop: [2]int{7, 5},
	Resample: preprocess.Bicubic}

// streamed streams files, or fails the test.
func streamed(t *testing.T, f *Files, how Streaming) *stream {
	t.Helper()
	return gomlxtest.Must(f.Stream(to7x5, how))(t).(*stream)
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

// inOrder yields batches of rows first to n-1.
func inOrder(first, n, size int) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		for ; first < n && yield(0, span(first, first+size)); first += size {
		}
	}
}

// read is Read with the host's part of an augmentation.
func read(s Dataset, a Augment, seed int64, part int, batches iter.Seq2[int, []int]) iter.Seq2[*Batch, error] {
	host, _ := a.SplitHostGraph(s)
	return Read(s, host, seed, part, batches)
}

// fed returns the rows and pixels of all batches, and the error that ends them.
func fed(set Dataset, a Augment, seed int64, batches iter.Seq2[int, []int]) (rows []int, pixels []byte, err error) {
	for b, err := range read(set, a, seed, 30, batches) {
		if err != nil {
			return rows, pixels, err
		}
		rows, pixels = append(rows, b.Indices...), append(pixels, b.Pixels...)
	}
	return rows, pixels, nil
}

func TestRead_OrderAndPixelsAreThoseOfAnyNumberOfWorkersAndAnyContainer(t *testing.T) {
	changed := changing
	changed.CropScale = [2]float64{}
	for name, a := range map[string]Augment{"cropped": {CropScale: [2]float64{0.1, 1}}, "cropped and changed": changing,
		"changed": changed, "whole": {}} {
		var wantRows []int
		var want []byte
		for container, f := range sources(t) {
			same := func(s Dataset, a Augment) {
				t.Helper()
				rows, pixels, err := fed(s, a, 3, epochs(f.Len(), 3))
				if want == nil {
					wantRows, want = rows, pixels
				}
				if err != nil || len(rows) != 2*130 || !slices.Equal(rows, wantRows) || !bytes.Equal(pixels, want) {
					t.Errorf("%s, %s: other rows or pixels, %v", name, container, err)
				}
			}
			for _, workers := range []int{1, 2, 8} {
				same(streamed(t, f, Streaming{Workers: workers}), a)
			}
			if name == "changed" { // like images in memory
				same(gomlxtest.Must(f.Load(t.Context(), to7x5, nil))(t), a)
			}
			_, other, _ := fed(streamed(t, f, Streaming{}), a, 4, epochs(f.Len(), 3))
			equal(t, name+": the seed decides pixels", !bytes.Equal(other, want), name != "whole")
		}
	}
}

func TestRead_ImagesThatAreNotCroppedAreThoseOfLoad(t *testing.T) {
	for container, f := range sources(t) {
		rows := []int{130, 0, 77, 5}
		want, set := gomlxtest.Must(f.Load(t.Context(), to7x5, nil))(t).Subset(rows), streamed(t, f, Streaming{})
		part := Subset(set, rows)
		_, got, err := fed(part, Augment{HFlip: 0.5}, 1, inOrder(0, 4, 4))
		held := gomlxtest.Must(Load(t.Context(), set, rows))(t)
		if err != nil || !bytes.Equal(got, want.Pixels) || !bytes.Equal(held.Pixels, want.Pixels) {
			t.Errorf("%s: other pixels than Load's, %v", container, err)
		}
		if info := part.Describe(); !slices.Equal(info.Labels, want.Labels) || !slices.Equal(held.Labels, want.Labels) ||
			!slices.Equal(info.Classes, []string{"cat", "dog", "eel"}) {
			t.Errorf("%s: labels %v and %v of %v", container, info.Labels, held.Labels, info.Classes)
		}
		if Fingerprint(part) == Fingerprint(set) || Fingerprint(part) != Fingerprint(Subset(set, rows)) {
			t.Errorf("%s: parts do not have fingerprints of their own", container)
		}
	}
}

// With repeats an index is row + k·n: the row has the pixels and the label, the index has the draws of its crop. Images
// that are ramps show which part of them is seen.
func TestRead_CropsAreDrawnByTheirIndex(t *testing.T) {
	f := sources(t)["folders"]
	n, a := f.Len(), Augment{CropScale: [2]float64{0.1, 0.5}}
	var indices []int
	for row := range n {
		indices = append(indices, row, row+n, row+2*n)
	}
	rows, pixels, err := fed(streamed(t, f, Streaming{}), a, 3, func(yield func(int, []int) bool) { yield(4, indices) })
	gomlxtest.NoError(t, err)
	equal(t, "indices", rows, indices)
	a.Size = to7x5.Crop
	seen := map[string]bool{}
	for k, index := range indices {
		shown := pixels[k*105 : (k+1)*105]
		equal(t, "the crop drawn", shown, a.Apply(gomlxtest.Must(f.Read(index%n))(t), 3, 4, index).Pixels)
		seen[string(shown)] = true
	}
	if len(seen) < 3*n-3 {
		t.Errorf("%d of %d crops differ", len(seen), 3*n)
	}
}

// Images in memory that are not augmented on the host keep their numbers before rounding.
func TestRead_NumbersAreNotRounded(t *testing.T) {
	set := &InMemory{Info: Info{Height: 1, Width: 1, Channels: 3, Labels: []int32{0, 1}}, Pixels: make([]uint8, 6),
		Float: []float32{0.25, 0.5, 0.75, 1.25, 1.5, 1.75}}
	for b, err := range Read(set, Augment{}, 0, 2, inOrder(0, 2, 2)) {
		if err != nil || !slices.Equal(b.Float, set.Float) || !slices.Equal(b.Labels, set.Labels) {
			t.Errorf("%v of %v, %v", b.Float, b.Labels, err)
		}
		if part := b.Part(1, 2); !slices.Equal(part.Float, set.Float[3:]) || !slices.Equal(part.Labels, set.Labels[1:]) {
			t.Errorf("of a part %v of %v", part.Float, part.Labels)
		}
	}
}

// counted counts the reads of each part.
type counted struct {
	container
	mutex sync.Mutex
	reads map[int]int
}

func (c *counted) Open(part int) (io.ReadCloser, error) {
	c.mutex.Lock()
	c.reads[part]++
	c.mutex.Unlock()
	return c.container.Open(part)
}

func TestRead_TheRequestedBatchesAndFewAhead(t *testing.T) {
	f := sources(t)["tar"]
	c := &counted{container: f.In, reads: map[int]int{}}
	f.In = c
	n := 0
	for _, err := range read(streamed(t, f, Streaming{Workers: 3}), Augment{}, 0, 13, inOrder(26, 130, 13)) { // resumed
		if n++; err != nil || n == 2 {
			break
		}
	}
	if n != 2 || len(c.reads) < 26 || len(c.reads) > 26+prefetched*13+13 {
		t.Errorf("%d images were read for two batches of 13", len(c.reads))
	}
	for part, n := range c.reads {
		if n != 1 || part < 26 {
			t.Errorf("image %d was read %d times", part, n)
		}
	}
}

// withDamage are 300 images, some of them truncated behind their headers.
func withDamage(t *testing.T, cut ...int) *Files {
	t.Helper()
	damage := map[int][]byte{}
	for _, k := range cut {
		damage[k] = plain(k, 2, 3)[:40]
	}
	return numberedFiles(t, 300, damage)
}

func TestRead_ADamagedImageIsAnErrorByNameOrIsLeftOutAndCounted(t *testing.T) {
	f := withDamage(t, 31, 209, 299)
	rows, _, err := fed(streamed(t, f, Streaming{}), Augment{}, 0, inOrder(0, 300, 30))
	oneLine(t, "an image", err, "0031.png")
	if img := (*ImageError)(nil); len(rows) != 30 || !errors.As(err, &img) || !img.Damaged {
		t.Errorf("after %d images %v", len(rows), err)
	}
	var log strings.Builder
	set := streamed(t, f, Streaming{Skip: true, Logger: gomlxtest.Logger(&log)})
	for part, want := range map[int]map[int]int{
		30: {31: 32, 209: 180, 299: 270}, // the next of the micro-batch, after its last its first
		1:  {31: 32, 209: 210, 299: 0},   // the next of the dataset
	} {
		place := 0
		for b, err := range read(set, Augment{}, 0, part, inOrder(0, 300, 30)) {
			gomlxtest.NoError(t, err)
			for k, row := range b.Indices {
				want, damaged := want[place]
				if !damaged {
					want = place
				}
				if row != want || int(b.Row(k)[0])+int(b.Row(k)[1])<<8 != want || b.Labels[k] != int32(want%2) {
					t.Errorf("part %d, place %d shows row %d, pixel %v, label %d, want %d", part, place, row, b.Row(k)[:3],
						b.Labels[k], want)
				}
				place++
			}
		}
	}
	for _, size := range []int{1, 13, 300} { // in order: left out, also where a batch has no other
		var labels []float64
		for b, err := range InOrder(set, size, Augment{}).Iter() {
			gomlxtest.NoError(t, err)
			labels = append(labels, gomlxtest.Values(t, b.Labels[0])...)
		}
		if len(labels) != 297 || labels[30] != 0 || labels[31] != 0 || labels[207] != 0 { // of 30, 32, 208
			t.Errorf("batches of %d: %d labels, %v", size, len(labels), labels)
		}
	}
	if lines := strings.Count(log.String(), "\n"); !slices.Equal(set.Damaged(), []int{31, 209, 299}) || lines != 3 ||
		!strings.Contains(log.String(), "image=0209.png") {
		t.Errorf("left out %v, logged %q", set.Damaged(), log.String())
	}
	equal(t, "damage of a part", Subset(set, []int{5, 299, 31}).Describe().Damaged(), []int{1, 2})
	_, _, err = fed(streamed(t, withDamage(t, 1, 2, 3, 4), Streaming{Skip: true}), Augment{}, 0, inOrder(0, 300, 30))
	oneLine(t, "more than one in a hundred", err, "4 of 300", "000")
	err = Check(t.Context(), streamed(t, withDamage(t, 1, 2, 3, 4), Streaming{Skip: true}), true)
	oneLine(t, "the same checked", err, "4 of 300", "000")
	equal(t, err.Error(), strings.Count(err.Error(), "300"), 1)
}

func TestRead_UnreadableFilesAreErrorsEvenIfDamageIsSkipped(t *testing.T) {
	for container, f := range sources(t) {
		set := streamed(t, f, Streaming{Skip: true})
		// A shard stays open while it is in use: it can be truncated, but not vanish.
		lost, lose := filepath.Join(f.Dir, "pets-train-1.tar"), func(path string) error { return os.Truncate(path, 0) }
		if container == "folders" {
			lost, lose = filepath.Join(f.Dir, "dog", "070.png"), os.Remove
		}
		gomlxtest.NoError(t, lose(lost))
		rows, _, err := fed(set, Augment{}, 0, inOrder(0, 130, 10))
		oneLine(t, container, err, filepath.Base(lost))
		if img := (*ImageError)(nil); len(rows) != 70 || !errors.As(err, &img) || img.Damaged ||
			errors.Is(err, os.ErrNotExist) != (container == "folders") {
			t.Errorf("%s: after %d images %v", container, len(rows), err)
		}
	}
}

func TestCheck_FindsDamageBeforeTraining(t *testing.T) {
	f := numberedFiles(t, 300, map[int][]byte{209: plain(209, 2, 3)[:40], 31: []byte("no image")}) // a header, and none
	for full, want := range map[bool][]int{false: {31}, true: {31, 209}} {
		err := Check(t.Context(), streamed(t, f, Streaming{}), full)
		oneLine(t, "damage", err, "0031.png")
		equal(t, err.Error(), strings.Contains(err.Error(), "0209.png"), full)
		set := streamed(t, f, Streaming{Skip: true})
		if err := Check(t.Context(), set, full); err != nil || !slices.Equal(set.Damaged(), want) {
			t.Errorf("full %v: left out %v, want %v: %v", full, set.Damaged(), want, err)
		}
	}
	patches := preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{6, 6}, Patch: 3}
	_, strips := f.Stream(patches, Streaming{})
	if _, none := f.Subset(nil).Stream(to7x5, Streaming{}); strips == nil || none == nil {
		t.Errorf("patches and no images are streamed: %v, %v", strips, none)
	}
}
