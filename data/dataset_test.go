// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"context"
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

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// own is a dataset as another module may write it: grey images of several sizes, row k with the value k.
type own struct {
	Info
	broken int    // a row
	img    *Image // for all rows, if not nil
}

func (o *own) Image(_ context.Context, row int) (*Image, error) {
	if row == o.broken {
		return nil, errors.New("no such thing")
	}
	if o.img != nil {
		return o.img, nil
	}
	p := &Image{Height: 1 + row%3, Width: 3}
	p.Pixels = slices.Repeat([]uint8{uint8(row)}, 3*p.Height*p.Width)
	return p, nil
}

func owned(n int) *own {
	o := &own{Info: Info{Name: "own", Height: 2, Width: 3, Channels: 1, Classes: make([]string, n)}, broken: -1}
	for i := range n {
		o.Labels = append(o.Labels, int32(i))
	}
	return o
}

// held is a copy of a dataset in memory.
func held(t *testing.T, s Dataset) *InMemory {
	return gomlxtest.Must(Load(t.Context(), s, xslices.Iota(0, s.Len())))(t)
}

// batches returns the pixels, which encode the rows, and the labels of the next n batches.
func batches(t *testing.T, d *Loader, n int) (pixels, labels [][]float64) {
	t.Helper()
	for b, err := range d.Iter() {
		gomlxtest.NoError(t, err)
		images := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{BatchImages(b.Spec, in)} }, anys(b.Inputs)...)[0]
		pixels, labels = append(pixels, images), append(labels, gomlxtest.Values(t, b.Labels[0]))
		if n--; n == 0 {
			break
		}
	}
	return pixels, labels
}

// Each batch has the images and labels of Order, from any dataset, and continues after a resume; grey of value k is
// k/255 of the model's images.
func TestLoader_BatchesFollowOrder(t *testing.T) {
	const n, size, seed = 11, 4, 7
	for name, s := range map[string]Dataset{"own": owned(n), "memory": held(t, owned(n)),
		"rows": Subset(owned(2*n), xslices.Iota(0, n))} {
		d := Batches(s, size, Augment{}, seed)
		first, labels := batches(t, d, 3) // epochs of two batches
		second, others := batches(t, d, 1)
		labels = append(labels, others...)
		is.Equal(t, name+": step after 4 batches", d.Step, 4)
		for step, images := range append(first, second...) {
			want := Order(seed, step/2, n, 1)[step%2*size:][:size]
			for k, row := range want {
				if got := images[k*6 : k*6+6]; labels[step][k] != float64(row) ||
					math.Abs(got[0]*255-float64(row)) > 1e-4 || slices.Min(got) != slices.Max(got) {
					t.Errorf("%s, step %d: label %g, pixels %v, want row %d", name, step, labels[step][k], got, row)
				}
			}
		}
		resumed := Batches(s, size, Augment{}, seed)
		resumed.Step = 2
		again, _ := batches(t, resumed, 1)
		is.Equal(t, name+": after a resume", again[0], first[2])
		resumed.Epochs = 1
		rest, _ := batches(t, resumed, -1)
		is.Equal(t, name+": batches of an epoch of 2", len(rest), 2)
	}
}

// Evaluation sees every image once: of 11 in batches of 4 the last has 3.
func TestLoader_InOrderEndsWithASmallerBatch(t *testing.T) {
	_, labels := batches(t, InOrder(owned(11), 4, Augment{HFlip: 1, Mean: [3]float64{1, 1, 1}}), -1)
	is.Equal(t, "labels", labels, [][]float64{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10}})
	// Images are resized as in evaluation, by the kernel of the augmentation, else not on the host.
	set, want := noise(1, 5, 7, 3), []float64{}
	img := gomlxtest.Must(set.Image(t.Context(), 0))(t)
	for _, v := range img.Resize(3, 2, preprocess.Bicubic).Pixels {
		want = append(want, float64(v)/255)
	}
	kernel := Augment{Size: [2]int{3, 2}, Interpolation: preprocess.Bicubic}
	resized, _ := batches(t, InOrder(set, 1, kernel), -1)
	gomlxtest.Near(t, "resized", resized[0], want, 1e-6)
	kernel.Size = [2]int{5, 7}
	is.Equal(t, "images of the dataset's size", InOrder(set, 1, kernel).augment, kernel.Eval())
}

// An epoch of fewer images than a batch has them all.
func TestSampler_OfFewImages(t *testing.T) {
	s := Sampler{Images: 3, Batch: 5, Seed: 7}
	is.Equal(t, "epoch, batch and indices", fmt.Sprint(s.At(11)), fmt.Sprint(11, 0, Order(7, 11, 3, 1)))
}

// Labels of mixed images are those that SoftLabels computes in the graph.
func TestLoader_MixedLabelsAreSoftLabels(t *testing.T) {
	for b, err := range Batches(owned(7), 5, Augment{MixupAlpha: 1}, 3).Iter() {
		gomlxtest.NoError(t, err)
		want := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{SoftLabels(in, 7, 0)} }, anys(b.Inputs[1:])...)[0]
		is.Equal(t, "numbers", len(want), 5*7)
		gomlxtest.Near(t, "labels", gomlxtest.Values(t, b.Labels[0]), want, 1e-6)
		break
	}
}

// An unreadable image of another module's dataset, too large a batch and labels without classes are errors.
func TestLoader_ErrorsOfADataset(t *testing.T) {
	broken, labelled := owned(7), owned(7)
	broken.broken, labelled.Labels[5] = 3, 7
	var damage *ImageError
	for b, err := range InOrder(broken, 7, Augment{}).Iter() {
		if !errors.As(err, &damage) || damage.Damaged || b.Inputs != nil {
			t.Errorf("an unreadable image: %v", err)
		}
	}
	for name, d := range map[string]*Loader{"large": Batches(owned(3), 4, Augment{}, 1),
		"augment": Batches(owned(3), 2, Augment{HFlip: 2}, 1), "label": Batches(labelled, 2, Augment{}, 1)} {
		for _, err := range d.Iter() {
			is.Refused(t, name, err)
			break
		}
	}
	if Check(t.Context(), labelled, false) == nil || Check(t.Context(), broken, false) != nil ||
		!errors.As(Check(t.Context(), broken, true), &damage) || Check(t.Context(), owned(7), true) != nil {
		t.Error("Check of another module's dataset")
	}
}

// The fingerprint of another module's dataset covers labels, pixels and rows. A run of an earlier version finds its
// dataset unchanged; those of owned are from Python's hashlib.
func TestFingerprint_CoversADatasetAndStaysTheSame(t *testing.T) {
	seen := map[string]bool{}
	relabelled, changed := owned(7), owned(7)
	relabelled.Labels[2], changed.broken = 6, 5
	for _, s := range []Dataset{owned(7), owned(8), relabelled, changed, Subset(owned(7), []int{1, 0, 2, 3, 4, 5, 6})} {
		seen[Fingerprint(s)] = true
	}
	is.Equal(t, "different fingerprints of 5 datasets", len(seen), 5)
	for want, set := range map[string]Dataset{"01008e112edd085f": streamed(t, numberedFiles(t, 3, nil), Streaming{}),
		"977012625357a6e8": held(t, owned(11)), "94a84551179ac606": owned(7)} {
		is.Equal(t, set.Describe().Name, Fingerprint(set)[:16], want)
	}
}

// anys returns tensors as inputs of a program.
func anys(inputs []*tensors.Tensor) (out []any) {
	for _, t := range inputs {
		out = append(out, t)
	}
	return out
}

func TestFraction_LargerOnesContainSmallerOnes(t *testing.T) {
	s := owned(101)
	var smaller []int32
	for _, c := range []struct {
		f    float64
		want int
	}{{0.001, 1}, {0.2, 20}, {0.4, 40}, {0.5, 51}, {0.6, 61}, {0.9, 91}, {1, 101}} {
		rows := gomlxtest.Must(Fraction(s, c.f, 42))(t).Describe().Labels
		if !slices.IsSorted(rows) || len(rows) != c.want || len(slices.Compact(slices.Clone(rows))) != c.want ||
			slices.ContainsFunc(smaller, func(row int32) bool { return !slices.Contains(rows, row) }) {
			t.Errorf("fraction %g: rows %v, want %d different ones with %v among them", c.f, rows, c.want, smaller)
		}
		smaller = rows
	}
	a, b := gomlxtest.Must(Fraction(s, 0.5, 1))(t), gomlxtest.Must(Fraction(s, 0.5, 2))(t)
	same := slices.Equal(a.Describe().Labels, b.Describe().Labels)
	is.Equal(t, "two seeds choose the same images", same, false)
	for _, f := range []float64{0, 1.01, math.NaN()} {
		is.Refused(t, fmt.Sprint("fraction ", f), is.ErrorOf(Fraction(s, f, 1)))
	}
}

func TestRandomSplit_IsAPartition(t *testing.T) {
	s := owned(101)
	train, held, err := RandomSplit(s, 13, 5)
	gomlxtest.NoError(t, err)
	is.Equal(t, "images", [2]int{train.Len(), held.Len()}, [2]int{88, 13})
	all := slices.Concat(train.Describe().Labels, held.Describe().Labels)
	is.Equal(t, "rows", slices.Sorted(slices.Values(all)), s.Labels)
	if train, held, err := RandomSplit(s, 0, 5); train != Dataset(s) || held != nil || err != nil {
		t.Errorf("no images are held out: %v, %v, %v", train, held, err)
	}
	for _, n := range []int{-1, 101} {
		is.Refused(t, fmt.Sprint(n, " of 101 images"), errorOfTwo(RandomSplit(s, n, 1)))
	}
}

// Each change is seen by the fingerprint; those that do not fit the shape are refused.
func TestMemory_FingerprintAndCheck(t *testing.T) {
	whole := held(t, owned(11))
	gomlxtest.NoError(t, Check(t.Context(), whole, true))
	is.Equal(t, "fingerprint of the same", Fingerprint(held(t, owned(11))), Fingerprint(whole))
	for name, c := range map[string]struct {
		change func(*InMemory)
		valid  bool
	}{
		"a pixel": {func(s *InMemory) { s.Pixels[5]++ }, true}, "a label": {func(s *InMemory) { s.Labels[5]++ }, true},
		"a class":  {func(s *InMemory) { s.Classes[3] = "x" }, true},
		"shape":    {func(s *InMemory) { s.Height, s.Width = 3, 2 }, true},
		"order":    {func(s *InMemory) { *s = *s.Subset([]int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) }, true},
		"no class": {func(s *InMemory) { s.Labels[3] = 11 }, false}, "width": {func(s *InMemory) { s.Width = 4 }, false},
		"below 0": {func(s *InMemory) { s.Labels[3] = -1 }, false}, "channels": {func(s *InMemory) { s.Channels = 2 }, false},
		"no images": {func(s *InMemory) { s.Labels, s.Pixels = nil, nil }, false},
		"numbers":   {func(s *InMemory) { s.Float, s.Classes[3] = make([]float32, 65), "x" }, false},
	} {
		s := held(t, owned(11))
		c.change(s)
		is.Equal(t, name+" is not seen", Fingerprint(s) == Fingerprint(whole), false)
		is.Equal(t, name+" is valid", Check(t.Context(), s, false) == nil, c.valid)
	}
}

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
		for ; first < n && yield(0, xslices.Iota(first, size)); first += size {
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
			is.Equal(t, name+": the seed decides pixels", !bytes.Equal(other, want), name != "whole")
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
		gomlxtest.NoError(t, err)
		is.Equal(t, container+": pixels", [2][]uint8{got, held.Pixels}, [2][]uint8{want.Pixels, want.Pixels})
		is.Equal(t, container+": labels", [2][]int32{part.Describe().Labels, held.Labels}, [2][]int32{want.Labels,
			want.Labels})
		is.Equal(t, container+": classes", part.Describe().Classes, []string{"cat", "dog", "eel"})
		is.Equal(t, container+": fingerprint of the whole", Fingerprint(part) == Fingerprint(set), false)
	}
}

// With repeats an index is row + k·n: the row has the pixels and the label, the index has the draws of its crop.
func TestRead_CropsAreDrawnByTheirIndex(t *testing.T) {
	f := sources(t)["folders"]
	n, a := f.Len(), Augment{CropScale: [2]float64{0.1, 0.5}}
	var indices []int
	for row := range n {
		indices = append(indices, row, row+n, row+2*n)
	}
	rows, pixels, err := fed(streamed(t, f, Streaming{}), a, 3, func(yield func(int, []int) bool) { yield(4, indices) })
	gomlxtest.NoError(t, err)
	is.Equal(t, "indices", rows, indices)
	a.Size = to7x5.Crop
	seen := map[string]bool{}
	for k, index := range indices {
		shown := pixels[k*105 : (k+1)*105]
		is.Equal(t, "the crop drawn", shown, a.Apply(gomlxtest.Must(f.Read(index%n))(t), 3, 4, index).Pixels)
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
		gomlxtest.NoError(t, err)
		part := b.Part(1, 2)
		is.Equal(t, "numbers", [2][]float32{b.Float, part.Float}, [2][]float32{set.Float, set.Float[3:]})
		is.Equal(t, "labels", [2][]int32{b.Labels, part.Labels}, [2][]int32{set.Labels, set.Labels[1:]})
	}
}

// counted counts reads.
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
	is.Refused(t, "an image", err, "0031.png")
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
				is.Equal(t, fmt.Sprintf("part %d, place %d: row, number and label", part, place),
					[3]int{row, int(b.Row(k)[0]) + int(b.Row(k)[1])<<8, int(b.Labels[k])}, [3]int{want, want, want % 2})
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
		is.Equal(t, fmt.Sprint("labels in batches of ", size), len(labels), 297)
		is.Equal(t, "of images 30, 32 and 208", []float64{labels[30], labels[31], labels[207]}, make([]float64, 3))
	}
	is.Equal(t, "left out", set.Damaged(), []int{31, 209, 299})
	is.Equal(t, "lines of the log", strings.Count(log.String(), "\n"), 3)
	is.Said(t, "the log", log.String(), "image=0209.png")
	is.Equal(t, "damage of a part", Subset(set, []int{5, 299, 31}).Describe().Damaged(), []int{1, 2})
	memory := &InMemory{Info: Info{Labels: make([]int32, 300)}}
	gomlxtest.NoError(t, memory.Exclude(3, nil))
	is.Equal(t, "in memory", memory.Subset([]int{5, 3}).Damaged(), []int{1})
	_, _, err = fed(streamed(t, withDamage(t, 1, 2, 3, 4), Streaming{Skip: true}), Augment{}, 0, inOrder(0, 300, 30))
	is.Refused(t, "more than one in a hundred", err, "4 of 300", "000")
	err = Check(t.Context(), streamed(t, withDamage(t, 1, 2, 3, 4), Streaming{Skip: true}), true)
	is.Refused(t, "the same checked", err, "4 of 300", "000")
	is.Equal(t, err.Error(), strings.Count(err.Error(), "300"), 1)
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
		is.Refused(t, container, err, filepath.Base(lost))
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
		is.Refused(t, "damage", err, "0031.png")
		is.Equal(t, err.Error(), strings.Contains(err.Error(), "0209.png"), full)
		set := streamed(t, f, Streaming{Skip: true})
		gomlxtest.NoError(t, Check(t.Context(), set, full))
		is.Equal(t, fmt.Sprintf("full %v: left out", full), set.Damaged(), want)
	}
	patches := preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{6, 6}, Patch: 3}
	is.Refused(t, "patches", is.ErrorOf(f.Stream(patches, Streaming{})))
	is.Refused(t, "no images", is.ErrorOf(f.Subset(nil).Stream(to7x5, Streaming{})))
}

// Also where an image is not a square, in units of its shorter side.
func TestShapes_HaveTheStatedAreaCentreAndDirection(t *testing.T) {
	for n, k := 0, 0; k < spriteCount; n, k = n+1, k+1009 { // 731 of all, a prime stride through every factor
		s, height, width := spriteAt(k), []int{64, 64, 256, 160}[n%4], []int{64, 160, 64, 64}[n%4]
		size := float64(min(height, width))
		place := func(k, side int) float64 { return (16 + float64(k) + 0.5) / 64 * float64(side) / size }
		image, row, column := s.render(height, width), 0.0, 0.0
		moment := func(of func(dy, dx float64) float64) float64 {
			sum := 0.0
			for i, v := range image {
				sum += float64(v) / 255 * of((float64(i/width)+0.5)/size-row, (float64(i%width)+0.5)/size-column)
			}
			return sum
		}
		area := moment(func(_, _ float64) float64 { return 1 })
		rows := moment(func(dy, _ float64) float64 { return dy })
		columns := moment(func(_, dx float64) float64 { return dx })
		row, column = rows/area, columns/area

		// Square 0.32², ellipse π·0.23·0.14, heart 0.19²·3.662 (the sextic's area), by the square of the scale.
		scale := 0.5 + 0.1*float64(s.scale)
		want := []float64{0.32 * 0.32, math.Pi * 0.23 * 0.14, 0.19 * 0.19 * 3.662}[s.shape] * scale * scale * size * size
		// The outline, about 4·√area long, is accurate to half a sample, an eighth of a pixel.
		is.Near(t, fmt.Sprintf("area of %+v", s), area, want, 4*math.Sqrt(want)/8)
		if s.shape < 2 && math.Hypot(row-place(s.row, height), column-place(s.column, width)) > 0.1/size {
			t.Errorf("%+v lies at %.4f, %.4f, want %.4f, %.4f", s, row, column, place(s.row, height), place(s.column, width))
		}
		of := func(task string) int { return tasks[task].label(s) }
		is.Equal(t, fmt.Sprintf("labels of %+v", s), []int{of(taskLocation), of(taskOrientation), of(taskShape)},
			[]int{s.column / 2, int(float64(s.orientation) / 2.5), s.shape})
		if s.shape == 1 { // the long axis of the ellipse, from its second moments
			yy := moment(func(dy, _ float64) float64 { return dy * dy })
			xx := moment(func(_, dx float64) float64 { return dx * dx })
			xy := moment(func(dy, dx float64) float64 { return dy * dx })
			difference := math.Atan2(2*xy, xx-yy)/2 - 2*math.Pi*float64(s.orientation)/40
			is.Near(t, fmt.Sprintf("long axis of %+v", s), math.Sin(difference), 0, 0.02)
		}
	}
}

// patches cuts the image into squares and sorts them: the input of a model without positions.
func patches(image []uint8, size, side int) [][]byte {
	out := make([][]byte, size/side*(size/side))
	for i, v := range image {
		at := i/size/side*(size/side) + i%size/side
		out[at] = append(out[at], v)
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

func TestShapes_WhereIsInvisibleToABagOfPatches(t *testing.T) {
	for _, c := range []struct{ size, side int }{{32, 8}, {32, 4}, {64, 16}, {64, 8}} {
		seen := func(s sprite) [][]byte { return patches(s.render(c.size, c.size), c.size, c.side) }
		for k := 0; k < spriteCount; k += 10007 {
			s := spriteAt(k)
			s.row, s.column = s.row%16, s.column%16 // the cell at the top left, and all four from there
			for cell := range 4 {
				moved := s
				moved.row, moved.column = s.row+cell/2*16, s.column+cell%2*16
				is.Equal(t, fmt.Sprintf("label of %+v", moved), tasks[taskWhere].label(moved), cell)
				is.Equal(t, fmt.Sprintf("%d pixels: patches of %+v and %+v", c.size, s, moved), seen(moved), seen(s))
			}
		}
		next := sprite{1, 3, 7, 5, 5}
		next.column += 2 // in contrast, the next class of taskLocation
		if c.side > c.size/32 && slices.EqualFunc(seen(sprite{1, 3, 7, 5, 5}), seen(next), bytes.Equal) {
			t.Errorf("%d pixels, patch %d: the next taskLocation class has the same patches", c.size, c.side)
		}
	}
}

func TestShapes_AreAFunctionOfTheSeed(t *testing.T) {
	train, test, err := Shapes(taskLocation, 307, 101, 32, 5)
	gomlxtest.NoError(t, err)
	gomlxtest.NoError(t, errors.Join(train.check(), test.check()))
	is.Equal(t, "images, pixels, classes", [4]int{train.Len(), test.Len(), train.Height, len(train.Classes)},
		[4]int{307, 101, 32, 16})
	again, _, _ := Shapes(taskLocation, 307, 11, 32, 5)
	other, _, _ := Shapes(taskLocation, 307, 11, 32, 6)
	is.Equal(t, "fingerprint of the same seed", Fingerprint(again), Fingerprint(train))
	is.Equal(t, "the same of another seed", Fingerprint(other) == Fingerprint(train), false)
	images := map[string]bool{} // for this seed no two coincide by the square's or the ellipse's symmetry either
	for _, set := range []*InMemory{train, test} {
		for i := range set.Len() {
			images[string(set.Row(i))] = true
		}
	}
	is.Equal(t, "different images", len(images), 307+101)
	for name, c := range map[string]struct {
		task              string
		train, test, size int
	}{"colour": {"colour", 5, 5, 32}, "images": {taskWhere, spriteCount, 1, 32}, "size": {taskWhere, 5, 5, 7}} {
		is.Refused(t, name, errorOfTwo(Shapes(c.task, c.train, c.test, c.size, 1)), name)
	}
}
