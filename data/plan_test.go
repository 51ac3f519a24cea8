// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/random"
)

var strong = Augment{
	Size: [2]int{19, 23}, Pad: 3, HFlip: 0.5, Cutout: 5, MixupAlpha: 0.4, CutmixAlpha: 1, MixProb: 0.7,
}

func TestPlan_OfAnImageDependsOnlyOnSeedEpochAndRow(t *testing.T) {
	set, rows := noise(31, 7, 5, 3), shuffled(31)
	whole := strong.Plan(set, 9, 4, 0, rows)
	for _, size := range []int{1, 2, 7, 11} { // any batch size, any index in the batch, any batch number
		for some := range slices.Chunk(rows, size) {
			some = slices.Clone(some)
			slices.Reverse(some)
			part := strong.Plan(set, 9, 4, 100+some[0], some)
			for k, row := range some {
				at := slices.Index(rows, row)
				if part.Windows[k] != whole.Windows[at] || part.Cutout[k] != whole.Cutout[at] ||
					part.Labels[k] != set.Labels[row] || part.Indices[k] != int64(row) {
					t.Fatalf("row %d in a batch of %d differs from the same row in a batch of 31", row, size)
				}
			}
		}
	}
	for name, other := range map[string]*Plan{
		"seed": strong.Plan(set, 10, 4, 0, rows), "epoch": strong.Plan(set, 9, 5, 0, rows),
	} {
		if slices.Equal(other.Windows, whole.Windows) || slices.Equal(other.Cutout, whole.Cutout) {
			t.Errorf("another %s gives the same plan", name)
		}
	}
	// The box is the same whether the graph crops or the host: otherwise the draws of the host's crop would place it.
	crops := Augment{Size: strong.Size, CropScale: [2]float64{0.3, 1}, Cutout: strong.Cutout}
	for _, other := range []Augment{strong.afterHost(), crops} {
		equal(t, fmt.Sprintf("boxes of %+v", other), other.Plan(set, 9, 4, 0, rows).Cutout, whole.Cutout)
	}
}

func TestPlan_OfTheMixingDependsOnlyOnSeedEpochAndBatchNumber(t *testing.T) {
	set := noise(31, 7, 5, 3)
	a := Augment{MixupAlpha: 1}
	first := a.Plan(set, 9, 4, 2, shuffled(31)[:7])
	again := a.Plan(set, 9, 4, 2, shuffled(31)[11:18])
	if first.Mix != again.Mix || !slices.Equal(first.Partners, again.Partners) {
		t.Error("the same batch number with other images is mixed differently")
	}
	for name, other := range map[string]*Plan{
		"seed": a.Plan(set, 10, 4, 2, shuffled(31)[:7]), "epoch": a.Plan(set, 9, 5, 2, shuffled(31)[:7]),
		"batch": a.Plan(set, 9, 4, 3, shuffled(31)[:7]),
	} {
		if other.Mix == first.Mix || slices.Equal(other.Partners, first.Partners) {
			t.Errorf("another %s gives the same mixing", name)
		}
	}
	equal(t, "partners", slices.Sorted(slices.Values(first.Partners)), []int64{0, 1, 2, 3, 4, 5, 6})
}

// Of 7 images repeated three times, an epoch shows two three times and one once.
func TestOrder_IsAPermutationThatChangesWithEpochAndSeed(t *testing.T) {
	order := Order(3, 1, 101, 1)
	if !slices.Equal(slices.Sorted(slices.Values(order)), span(0, 101)) || !slices.Equal(Order(3, 1, 101, 1), order) ||
		slices.Equal(Order(3, 2, 101, 1), order) || slices.Equal(Order(4, 1, 101, 1), order) {
		t.Error("the order is not a permutation, or not a function of seed and epoch")
	}
	once := Order(4, 2, 7, 1)
	equal(t, "order", Order(4, 2, 7, 3), []int{once[0], once[0] + 7, once[0] + 14, once[1], once[1] + 7, once[1] + 14,
		once[2]})
}

// Neighbouring seeds, epochs and indices give unrelated draws: all different, and half of the bits differ.
func TestDraws_OfNeighboursAreUnrelated(t *testing.T) {
	seen, flipped, last := map[uint64]bool{}, 0, uint64(0)
	for k := range 300 {
		of := [3]int{1, 1, 1}
		of[k%3] += 1 + k/3
		v := random.New(streamSample, int64(of[0]), of[1], of[2]).Uint64()
		seen[v], flipped, last = true, flipped+bits.OnesCount64(v^last), v
	}
	equal(t, "draws that differ", len(seen), 300)
	within5(t, "bits that differ", float64(flipped)/300/64, 0.5, 0.25, 300*64)
}

// within5 checks a mean of n draws: at most five standard errors from its expectation.
func within5(t *testing.T, name string, mean, want, variance float64, n int) {
	t.Helper()
	gomlxtest.NearAbs(t, name, []float64{mean}, []float64{want}, 5*math.Sqrt(variance/float64(n)))
}

func TestPlan_FlipsAndCropsAreDrawnUniformly(t *testing.T) {
	set := noise(4999, 3, 2, 1)
	a := Augment{Pad: 2, HFlip: 0.3}
	plan := a.Plan(set, 1, 0, 0, shuffled(4999))
	flips := 0.0
	var tops, lefts [5]float64
	for _, v := range plan.Windows {
		w := windowOf(v)
		if w.flip {
			flips++
		}
		tops[w.top+2]++ // out of range would panic: offsets are -2…2
		lefts[w.left+2]++
	}
	n := set.Len()
	within5(t, "flips", flips/float64(n), 0.3, 0.3*0.7, n)
	for k := range 5 {
		within5(t, "top", tops[k]/float64(n), 0.2, 0.2*0.8, n)
		within5(t, "left", lefts[k]/float64(n), 0.2, 0.2*0.8, n)
	}
}

func TestWindow_FallsBackToTheLargestCentredOne(t *testing.T) {
	// A strip of 40×2 has no window of ratio 1…1.2 and 80% of the area: torchvision takes width 2, height 2/1; of a
	// strip of 5×40 height 5, width 5·1.2.
	a := Augment{CropScale: [2]float64{0.8, 1}, CropRatio: [2]float64{1, 1.2}}
	for sides, want := range map[[2]int]window{
		{40, 2}: {top: 19, left: 0, height: 2, width: 2}, {5, 40}: {top: 0, left: 17, height: 5, width: 6},
	} {
		equal(t, fmt.Sprint(sides), a.window(random.New(streamSample, 1, 0, 0), sides[0], sides[1]), want)
	}
}

func TestBeta_HasTheMomentsOfTheDistribution(t *testing.T) {
	for _, alpha := range []float64{0.01, 0.15, 0.8, 1, 5} {
		r := random.New(streamMix, 1, 0, 0)
		const n = 20000
		var sum, square float64
		for range n {
			v := beta(r, alpha)
			if !(v >= 0 && v <= 1) {
				t.Fatalf("alpha %g: %g", alpha, v)
			}
			sum, square = sum+v, square+(v-0.5)*(v-0.5)
		}
		variance := 1 / (4 * (2*alpha + 1)) // Beta(α, α)
		within5(t, "mean", sum/n, 0.5, variance, n)
		// The fourth central moment of a variable in 0…1 is at most a quarter of the second.
		within5(t, "variance", square/n, variance, variance/4, n)
	}
}

func TestPlan_MixingHappensWithItsProbability(t *testing.T) {
	set := noise(5, 32, 32, 1)
	mixed, cut := 0.0, 0.0
	const n = 3000
	a := Augment{MixupAlpha: 1, CutmixAlpha: 1, MixProb: 0.6, SwitchProb: 0.25}
	for batch := range n {
		m := a.Plan(set, 1, 0, batch, []int{0, 1}).Mix
		switch {
		case m == [6]float32{0, 0, 0, 0, 1, 1}:
		case m[4] == 0:
			mixed, cut = mixed+1, cut+1
		default:
			mixed++
		}
	}
	within5(t, "mixed", mixed/n, 0.6, 0.6*0.4, n)
	within5(t, "cut", cut/n, 0.15, 0.15*0.85, n)
}

// torchvision's RandomResizedCrop: the area is uniform, the logarithm of the ratio too. Kolmogorov and Smirnov's
// distance of n draws is above 2.2/√n once in 8,000 times.
func TestWindow_AreaIsUniformAndRatioLogUniform(t *testing.T) {
	const n = 4001
	a := Augment{CropScale: [2]float64{0.05, 0.3}, CropRatio: [2]float64{0.5, 3}} // all fit into a square
	var areas, ratios []float64
	for i := range n {
		w := a.window(random.New(streamSample, 3, 0, i), 3000, 3000)
		areas = append(areas, (float64(w.height)*float64(w.width)/9e6-0.05)/0.25)
		ratios = append(ratios, math.Log(2*float64(w.width)/float64(w.height))/math.Log(6))
	}
	for name, values := range map[string][]float64{"areas": areas, "ratios": ratios} {
		slices.Sort(values)
		distance := 0.0
		for i, v := range values {
			distance = max(distance, math.Abs(v-float64(i)/n), math.Abs(v-float64(i+1)/n))
		}
		if distance > 2.2/math.Sqrt(n) {
			t.Errorf("%s are %.4f from uniform, want at most %.4f", name, distance, 2.2/math.Sqrt(n))
		}
	}
}

// shown is a window of an image of a dataset pixel by pixel, black outside, and mirrored.
func shown(set *InMemory, row int, w window) *Image {
	out := &Image{Height: w.height, Width: w.width}
	for i := range w.height {
		for j := range w.width {
			y, x := w.top+i, w.left+j
			if w.flip {
				x = w.left + w.width - 1 - j
			}
			if w.flipUp {
				y = w.top + w.height - 1 - i
			}
			at := make([]uint8, set.Channels)
			if y >= 0 && x >= 0 && y < set.Height && x < set.Width {
				copy(at, set.Row(row)[(y*set.Width+x)*set.Channels:])
			}
			out.Pixels = append(out.Pixels, at...)
		}
	}
	return out
}

// noise is a dataset of random pixels; tests use unequal prime sides.
func noise(n, height, width, channels int) *InMemory {
	r := rand.New(rand.NewPCG(7, 11))
	s := &InMemory{
		Info: Info{Name: "noise", Height: height, Width: width, Channels: channels, Classes: []string{"a", "b", "c"}},
	}
	for i := range n {
		s.Labels = append(s.Labels, int32(i%3))
	}
	for range n * height * width * channels {
		s.Pixels = append(s.Pixels, uint8(r.UintN(256)))
	}
	return s
}

// shuffled is a fixed order of 0…n-1 for prime n.
func shuffled(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = (3*i + 1) % n
	}
	return rows
}

// windowOf reads a plan's window back; the oracles check its lines.
func windowOf(v [8]float32) window {
	return window{
		top: int(v[2]), height: int(v[3] - v[2]), left: int(v[6]), width: int(v[7] - v[6]), flip: v[4] < 0,
		flipUp: v[0] < 0,
	}
}

func inputs(pixels *tensors.Tensor, plan *Plan) []any {
	return append([]any{pixels}, anys(plan.Tensors())...)
}

// images runs the graph of one plan.
func images(t testing.TB, a Augment, set *InMemory, plan *Plan) []float64 {
	gomlxtest.NoError(t, a.Validate())
	return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{a.Images(in[0], in[1:])}
	}, inputs(set.Tensor(), plan)...)[0]
}

// Whole pixels are exact. A resize is the host's before rounding, which equals torchvision's and, rounded, Pillow's. On
// the host the same augmentation is rounded to bytes.
func TestImages_CropsResizesAndFlipsAreThoseOfPixelsAndOfTheHost(t *testing.T) {
	rows := shuffled(13)[:7]
	for _, c := range []struct {
		a                 Augment
		channels, changed int // minimum number of windows other than the whole image
	}{
		{Augment{}, 1, 0}, {Augment{}, 3, 0}, {Augment{HFlip: 0.5}, 3, 2}, {Augment{VFlip: 0.5}, 3, 2},
		{Augment{HFlip: 1, VFlip: 1}, 1, 7}, {Augment{Pad: 2}, 3, 3}, {Augment{Pad: 3, HFlip: 0.5, VFlip: 0.5}, 1, 3},
		{Augment{Pad: 23, HFlip: 1}, 3, 7}, {Augment{Size: [2]int{31, 29}}, 3, 0}, {Augment{Size: [2]int{5, 3}}, 3, 0},
		{Augment{Size: [2]int{7, 23}}, 3, 0}, {Augment{Size: [2]int{31, 29}, Pad: 3, HFlip: 0.5}, 3, 3},
		{Augment{Size: [2]int{5, 3}, Pad: 3, HFlip: 0.5}, 3, 3},
		{Augment{Size: [2]int{13, 7}, CropScale: [2]float64{0.2, 1}, HFlip: 0.5, VFlip: 0.5}, 3, 7},
		{Augment{CropScale: [2]float64{0.3, 0.6}, CropRatio: [2]float64{0.5, 2}}, 3, 7},
	} {
		set, a := noise(13, 17, 11, c.channels), c.a
		plan, name := a.Plan(set, 3, 1, 0, rows), fmt.Sprintf("%+v", a)
		height, width := a.OutputSize(set.Height, set.Width)
		resized, tolerance, rounding := a.Size != [2]int{} || a.crops(), 0.0, 0.0
		if resized {
			tolerance, rounding = 2e-6, 1./255
		}
		if resized && a.Pad > 0 { // black that is resampled with the image is rounded with it
			rounding *= 2
		}
		var want []float64
		for k, row := range rows {
			w := windowOf(plan.Windows[k])
			if w != (window{height: 17, width: 11}) {
				c.changed--
			}
			crop := shown(set, row, w)
			if resized {
				whole := window{height: height, width: width}
				for _, v := range crop.resizeFloat(height, width, whole, preprocess.Bilinear).Float {
					want = append(want, float64(v)/255)
				}
				continue
			}
			for _, v := range crop.Pixels {
				want = append(want, float64(float32(v)*float32(1./255)))
			}
		}
		if c.changed > 0 {
			t.Fatalf("%s: %d images too few change: the test would show nothing", name, c.changed)
		}
		inGraph := images(t, a, set, plan)
		gomlxtest.Near(t, name, inGraph, want, tolerance)
		a.Interpolation = preprocess.Bilinear
		host, graph := a.SplitHostGraph(set)
		equal(t, "host", host, a)
		onHost := gomlxtest.Must(loadBatch(set, host, 3, 1, rows))(t)
		gomlxtest.NearAbs(t, "on the host "+name, images(t, graph, onHost, graph.Plan(onHost, 3, 1, 0, span(0, 7))), inGraph,
			rounding)
	}
}

// The graph's normalization against (pixel·rescale − mean)/std.
func TestImages_NormalizationIsThatOfTheSettings(t *testing.T) {
	set, rows := noise(3, 4, 7, 3), []int{2, 0}
	for name, p := range map[string]preprocess.Settings{
		"usual":        {Mean: [3]float64{0.51, 0.49, 0.44}, Std: [3]float64{0.27, 0.26, 0.28}},
		"rescale 1":    {Rescale: 1, Mean: [3]float64{120, 110, 100}, Std: [3]float64{50, 60, 70}},
		"rescale only": {Rescale: 1.0 / 127.5, Mean: [3]float64{1, 1, 1}},
		"none":         {},
	} {
		var a Augment
		a.Mean, a.Std = p.Normalization()
		var want []float64
		for _, row := range rows {
			for i, v := range set.Row(row) {
				want = append(want, (float64(v)*cmp.Or(p.Rescale, 1.0/255)-p.Mean[i%3])/cmp.Or(p.Std[i%3], 1))
			}
		}
		gomlxtest.Near(t, name, images(t, a, set, a.Plan(set, 0, 0, 0, rows)), want, 1e-6)
	}
}

func TestImages_CutoutZeroesOneClippedSquare(t *testing.T) {
	set, rows := noise(31, 17, 13, 3), shuffled(31)
	plain := Augment{Mean: [3]float64{0.51, 0.49, 0.44}, Std: [3]float64{0.27, 0.26, 0.28}}
	a := plain
	a.Cutout = 6
	plan := a.Plan(set, 3, 1, 0, rows)
	want := images(t, plain, set, plan)
	clipped := 0
	for k := range rows {
		box := plan.Cutout[k] // the centre is a pixel: 3 to 6 remain of 6 lines, fewer than 6 at the border alone
		for axis, length := range []float32{17, 13} {
			from, to := box[axis], box[axis+2]
			if n := to - from; n < 3 || n > 6 || from < 0 || to > length || n < 6 && from != 0 && to != length {
				t.Errorf("image %d: box %v", k, box)
			}
		}
		if (box[2]-box[0])*(box[3]-box[1]) < 36 {
			clipped++
		}
		for i := int(box[0]); i < int(box[2]); i++ {
			for j := int(box[1]); j < int(box[3]); j++ {
				copy(want[((k*17+i)*13+j)*3:], []float64{0, 0, 0})
			}
		}
	}
	gomlxtest.Near(t, "images", images(t, a, set, plan), want, 0)
	if clipped == 0 || clipped == len(rows) {
		t.Errorf("%d of %d squares are clipped, want some and not all", clipped, len(rows))
	}
}

func TestImages_MixingTakesTheStatedShareOfThePartner(t *testing.T) {
	set, rows := noise(13, 7, 5, 3), shuffled(13)[:11]
	plain := Augment{Pad: 2, HFlip: 0.5, Cutout: 2}
	for name, alphas := range map[string][2]float64{"mixup": {0.8, 0}, "cutmix": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			a := plain
			a.MixupAlpha, a.CutmixAlpha = alphas[0], alphas[1]
			plan := a.Plan(set, 3, 1, 4, rows)
			base, got := images(t, plain, set, plan), images(t, a, set, plan)
			m := plan.Mix
			var want []float64
			inside := 0
			for k := range rows {
				for i := range 7 {
					for j := range 5 {
						keep := 1.0
						if float32(i) >= m[0] && float32(j) >= m[1] && float32(i) < m[2] && float32(j) < m[3] {
							keep = float64(m[4])
							inside++
						}
						for c := range 3 {
							own := base[((k*7+i)*5+j)*3+c]
							partner := base[((int(plan.Partners[k])*7+i)*5+j)*3+c]
							want = append(want, keep*own+(1-keep)*partner)
						}
					}
				}
			}
			gomlxtest.Near(t, name, got, want, 3e-7)
			share := 1 - (1-float64(m[4]))*float64(inside)/float64(len(rows)*7*5)
			if inside == 0 || !(math.Abs(share-float64(m[5])) <= 1e-6) || share <= 0 || share >= 1 {
				t.Errorf("λ of the labels is %g, the pixels keep %g", m[5], share)
			}
		})
	}
}

func TestSoftLabels_BlendPartnersAndSmooth(t *testing.T) {
	plan := &Plan{
		Indices: []int64{0, 1, 2}, Labels: []int32{4, 0, 4}, Windows: make([][8]float32, 3),
		Cutout: make([][4]float32, 3), Partners: []int64{1, 2, 0}, Mix: [6]float32{0, 0, 0, 0, 1, 0.75},
		Grids: make([]int64, 3),
	}
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{SoftLabels(in[1:], 5, 0.1)}
	}, inputs(noise(3, 2, 2, 1).Tensor(), plan)...)[0]
	// 0.9·λ + 0.1/5 and 0.9·(1-λ) + 0.1/5 by hand.
	gomlxtest.Near(t, "targets", got, []float64{
		0.245, 0.02, 0.02, 0.02, 0.695,
		0.695, 0.02, 0.02, 0.02, 0.245,
		0.02, 0.02, 0.02, 0.02, 0.92,
	}, 1e-6)
}
