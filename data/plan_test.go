// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/random"
)

var strong = Augment{
	Size: [2]int{19, 23}, Pad: 3, FlipProb: 0.5, Cutout: 5, MixupAlpha: 0.4, CutmixAlpha: 1, MixProb: 0.7,
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
		if got := other.Plan(set, 9, 4, 0, rows).Cutout; !slices.Equal(got, whole.Cutout) {
			t.Errorf("%+v: boxes %v, want %v", other, got, whole.Cutout)
		}
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
	sorted := slices.Sorted(slices.Values(first.Partners))
	if !slices.Equal(sorted, []int64{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("partners %v are no permutation", first.Partners)
	}
}

// Of 7 images repeated three times, an epoch shows two three times and one once.
func TestOrder_IsAPermutationThatChangesWithEpochAndSeed(t *testing.T) {
	order := Order(3, 1, 101, 1)
	if !slices.Equal(slices.Sorted(slices.Values(order)), span(0, 101)) || !slices.Equal(Order(3, 1, 101, 1), order) ||
		slices.Equal(Order(3, 2, 101, 1), order) || slices.Equal(Order(4, 1, 101, 1), order) {
		t.Error("the order is not a permutation, or not a function of seed and epoch")
	}
	once := Order(4, 2, 7, 1)
	want := []int{once[0], once[0] + 7, once[0] + 14, once[1], once[1] + 7, once[1] + 14, once[2]}
	if got := Order(4, 2, 7, 3); !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
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
	if len(seen) != 300 {
		t.Errorf("only %d of 300 draws differ", len(seen))
	}
	within5(t, "bits that differ", float64(flipped)/300/64, 0.5, 0.25, 300*64)
}

// within5 checks a mean of n draws: at most five standard errors from its expectation.
func within5(t *testing.T, name string, mean, want, variance float64, n int) {
	t.Helper()
	if bound := 5 * math.Sqrt(variance/float64(n)); !(math.Abs(mean-want) <= bound) {
		t.Errorf("%s: mean of %d draws %g, want %g within %g", name, n, mean, want, bound)
	}
}

func TestPlan_FlipsAndCropsAreDrawnUniformly(t *testing.T) {
	set := noise(4999, 3, 2, 1)
	a := Augment{Pad: 2, FlipProb: 0.3}
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
		if got := a.window(random.New(streamSample, 1, 0, 0), sides[0], sides[1]); got != want {
			t.Errorf("%v: got %+v, want %+v", sides, got, want)
		}
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
