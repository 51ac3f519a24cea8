// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// own is a dataset as another module may write it: grey images of several sizes, row k with the value k.
type own struct {
	Info
	broken int // a row
}

func (o *own) Image(_ context.Context, row int) (*Image, error) {
	if row == o.broken {
		return nil, errors.New("no such thing")
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
	return gomlxtest.Must(Load(t.Context(), s, span(0, s.Len())))(t)
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
		"rows": Subset(owned(2*n), span(0, n))} {
		d := Batches(s, size, Augment{}, seed)
		first, labels := batches(t, d, 3) // epochs of two batches
		second, others := batches(t, d, 1)
		labels = append(labels, others...)
		equal(t, name+": step after 4 batches", d.Step, 4)
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
		equal(t, name+": after a resume", again[0], first[2])
		resumed.Epochs = 1
		rest, _ := batches(t, resumed, -1)
		equal(t, name+": batches of an epoch of 2", len(rest), 2)
	}
}

// Evaluation sees every image once: of 11 in batches of 4 the last has 3.
func TestLoader_InOrderEndsWithASmallerBatch(t *testing.T) {
	_, labels := batches(t, InOrder(owned(11), 4, Augment{HFlip: 1, Mean: [3]float64{1, 1, 1}}), -1)
	equal(t, "labels", labels, [][]float64{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10}})
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
	equal(t, "images of the dataset's size", InOrder(set, 1, kernel).augment, kernel.Eval())
}

// An epoch of fewer images than a batch has them all.
func TestSampler_OfFewImages(t *testing.T) {
	s := Sampler{Images: 3, Batch: 5, Seed: 7}
	equal(t, "epoch, batch and indices", fmt.Sprint(s.At(11)), fmt.Sprint(11, 0, Order(7, 11, 3, 1)))
}

// Labels of mixed images are those that SoftLabels computes in the graph.
func TestLoader_MixedLabelsAreSoftLabels(t *testing.T) {
	for b, err := range Batches(owned(7), 5, Augment{MixupAlpha: 1}, 3).Iter() {
		gomlxtest.NoError(t, err)
		want := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{SoftLabels(in, 7, 0)} }, anys(b.Inputs[1:])...)[0]
		equal(t, "numbers", len(want), 5*7)
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
			oneLine(t, name, err)
			break
		}
	}
	if Check(t.Context(), labelled, false) == nil || Check(t.Context(), broken, false) != nil ||
		!errors.As(Check(t.Context(), broken, true), &damage) || Check(t.Context(), owned(7), true) != nil {
		t.Error("Check of another module's dataset")
	}
}

// The fingerprint of another module's dataset covers labels, pixels and rows. A run of an earlier version finds its
// dataset unchanged; owned's is from Python's hashlib.
func TestFingerprint_CoversADatasetAndStaysTheSame(t *testing.T) {
	seen := map[string]bool{}
	relabelled, changed := owned(7), owned(7)
	relabelled.Labels[2], changed.broken = 6, 5
	for _, s := range []Dataset{owned(7), owned(8), relabelled, changed, Subset(owned(7), []int{1, 0, 2, 3, 4, 5, 6})} {
		seen[Fingerprint(s)] = true
	}
	equal(t, "different fingerprints of 5 datasets", len(seen), 5)
	for want, set := range map[string]Dataset{"01008e112edd085f": streamed(t, numberedFiles(t, 3, nil), Streaming{}),
		"fcbbcbbb5f16857f": numbered(11), "94a84551179ac606": owned(7)} {
		equal(t, set.Describe().Name, Fingerprint(set)[:16], want)
	}
}

// anys returns tensors as inputs of a program.
func anys(inputs []*tensors.Tensor) (out []any) {
	for _, t := range inputs {
		out = append(out, t)
	}
	return out
}

// numbered is a dataset whose pixels and labels encode their row.
func numbered(n int) *InMemory {
	s := &InMemory{Info: Info{Name: "numbered", Height: 1, Width: 2, Channels: 1, Classes: make([]string, n)}}
	for i := range n {
		s.Pixels = append(s.Pixels, uint8(i), uint8(i))
		s.Labels = append(s.Labels, int32(i))
	}
	return s
}

// rowsOf returns the rows of a part, from the pixels, which must match the labels.
func rowsOf(t *testing.T, source Dataset) []int {
	t.Helper()
	s := source.(*InMemory)
	var rows []int
	for i, label := range s.Labels {
		if !slices.Equal(s.Row(i), []uint8{uint8(label), uint8(label)}) {
			t.Fatalf("label %d with the pixels %v", label, s.Row(i))
		}
		rows = append(rows, int(label))
	}
	return rows
}

func TestFraction_LargerOnesContainSmallerOnes(t *testing.T) {
	s := numbered(101)
	var smaller []int
	for _, c := range []struct {
		f    float64
		want int
	}{{0.001, 1}, {0.2, 20}, {0.4, 40}, {0.5, 51}, {0.6, 61}, {0.9, 91}, {1, 101}} {
		rows := rowsOf(t, gomlxtest.Must(Fraction(s, c.f, 42))(t))
		if !slices.IsSorted(rows) || len(rows) != c.want || len(slices.Compact(slices.Clone(rows))) != c.want ||
			slices.ContainsFunc(smaller, func(row int) bool { return !slices.Contains(rows, row) }) {
			t.Errorf("fraction %g: rows %v, want %d different ones with %v among them", c.f, rows, c.want, smaller)
		}
		smaller = rows
	}
	a, b := gomlxtest.Must(Fraction(s, 0.5, 1))(t), gomlxtest.Must(Fraction(s, 0.5, 2))(t)
	equal(t, "two seeds choose the same images", slices.Equal(rowsOf(t, a), rowsOf(t, b)), false)
	for _, f := range []float64{0, 1.01, math.NaN()} {
		_, err := Fraction(s, f, 1)
		oneLine(t, fmt.Sprint("fraction ", f), err)
	}
}

func TestRandomSplit_IsAPartition(t *testing.T) {
	s := numbered(101)
	train, held, err := RandomSplit(s, 13, 5)
	gomlxtest.NoError(t, err)
	all := slices.Sorted(slices.Values(append(rowsOf(t, train), rowsOf(t, held)...)))
	if train.Len() != 88 || held.Len() != 13 || !slices.Equal(all, span(0, 101)) {
		t.Errorf("%d and %d images, together %v", train.Len(), held.Len(), all)
	}
	if train, held, err := RandomSplit(s, 0, 5); train != Dataset(s) || held != nil || err != nil {
		t.Errorf("no images are held out: %v, %v, %v", train, held, err)
	}
	for _, n := range []int{-1, 101} {
		_, _, err := RandomSplit(s, n, 1)
		oneLine(t, fmt.Sprint(n, " of 101 images"), err)
	}
}

// Each change is seen by the fingerprint; those that do not fit the shape are refused.
func TestMemory_FingerprintAndCheck(t *testing.T) {
	whole := numbered(11)
	if err := Check(t.Context(), whole, true); err != nil || Fingerprint(numbered(11)) != Fingerprint(whole) {
		t.Errorf("the same set has two fingerprints, or is refused: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*InMemory)
		valid  bool
	}{
		"a pixel": {func(s *InMemory) { s.Pixels[5]++ }, true}, "a label": {func(s *InMemory) { s.Labels[5]++ }, true},
		"a class":  {func(s *InMemory) { s.Classes[3] = "x" }, true},
		"shape":    {func(s *InMemory) { s.Height, s.Width = 2, 1 }, true},
		"order":    {func(s *InMemory) { *s = *s.Subset([]int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) }, true},
		"no class": {func(s *InMemory) { s.Labels[3] = 11 }, false}, "width": {func(s *InMemory) { s.Width = 3 }, false},
		"below 0": {func(s *InMemory) { s.Labels[3] = -1 }, false}, "channels": {func(s *InMemory) { s.Channels = 2 }, false},
		"no images": {func(s *InMemory) { s.Labels, s.Pixels = nil, nil }, false},
		"numbers":   {func(s *InMemory) { s.Float, s.Classes = make([]float32, 21), nil }, false},
	} {
		s := numbered(11)
		c.change(s)
		if err := Check(t.Context(), s, false); Fingerprint(s) == Fingerprint(whole) || (err == nil) != c.valid {
			t.Errorf("%s: %v, or not seen", name, err)
		}
	}
}
