// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// kindsOfTorch are our kinds, by the names of torch's results.
var kindsOfTorch = map[string]string{
	"bicubic_aa": resampleTimm, "bicubic": resampleHF, "bilinear": resampleBilinear,
}

func TestResampledTablesEqualTorch(t *testing.T) { fixtures.Each(t, testResampledTablesEqualTorch) }

func testResampledTablesEqualTorch(t *testing.T) {
	all := fixtures.Tensors(t, "timm_vit", "tensors.safetensors")
	name := regexp.MustCompile(`^resample\.(\d+x\d+)_to_\d+x\d+\.(\w+)$`)
	seen := map[string]int{}
	for key, want := range all {
		parts := name.FindStringSubmatch(key)
		if parts == nil || kindsOfTorch[parts[2]] == "" {
			continue
		}
		kind, in := kindsOfTorch[parts[2]], all["resample.input_"+parts[1]]
		seen[kind]++
		from, to := gridSize{in.Shape[0], in.Shape[1]}, gridSize{want.Shape[0], want.Shape[1]}
		got, report, err := Resample(in.Float32(), in.Shape[2], 0, from, to, kind)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%dx%d -> %dx%d (%s)", from[0], from[1], to[0], to[1], kind); report != want {
			t.Errorf("report %q, want %q", report, want)
		}
		gomlxtest.NearAbs(t, key, got, want.Data, 1e-5)
	}
	for _, kind := range kindsOfTorch {
		if seen[kind] < 2 {
			t.Errorf("the fixture holds %d cases of %s", seen[kind], kind)
		}
	}
}

// The class token is unchanged; an equal grid is a copy, but a grid with as many patches in other rows is not.
func TestAnEqualGridIsCopiedAndPrefixRowsAreKeptBitForBit(t *testing.T) {
	const width, patches = 7, 16
	for kind := range resamplers {
		for _, prefix := range []int{0, 1, 2} {
			in := make([]float32, (prefix+patches)*width)
			for i := range in {
				in[i] = float32(i * i)
			}
			in[0], in[1] = float32(math.NaN()), float32(math.Copysign(0, -1))
			for _, to := range []gridSize{{2, 8}, {4, 4}} {
				got, report, err := Resample(in, width, prefix, gridSize{2, 8}, to, kind)
				want, same := "2x8 -> 4x4 ("+kind+")", prefix*width
				if to == (gridSize{2, 8}) {
					want, same = "2x8 -> 2x8 (copy)", len(in)
				}
				equal := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
				if err != nil || report != want || len(got) != len(in) || &got[0] == &in[0] ||
					!slices.EqualFunc(got[:same], in[:same], equal) ||
					same < len(in) && slices.EqualFunc(got[same:], in[same:], equal) {
					t.Errorf("prefix %d: %q, want %q, %v, %v", prefix, report, want, got, err)
				}
			}
		}
	}
}

func TestWeightsOfResamplingSumToOneInsideTheOldGrid(t *testing.T) {
	for kind, axis := range resamplers {
		for n := 1; n < 12; n++ {
			for m := 1; m < 30; m++ {
				for i, taps := range axis(n, m) {
					sum := 0.0
					for _, tap := range taps {
						sum += tap.weight
						if tap.place < 0 || tap.place >= n {
							t.Fatalf("%s %d -> %d: place %d", kind, n, m, tap.place)
						}
					}
					if !(math.Abs(sum-1) <= 1e-12) {
						t.Fatalf("%s %d -> %d: weights of place %d sum to %g", kind, n, m, i, sum)
					}
				}
			}
		}
	}
}

// scipy.ndimage.zoom with order 1, by which Google resamples its checkpoints, keeps the corners.
func TestJAXsResamplingKeepsTheCorners(t *testing.T) {
	var in []float32 // 3×5, row and column in decimal
	for i := range 15 {
		in = append(in, float32(i/5*10+i%5))
	}
	for to, want := range map[gridSize][]float64{{1, 1}: {0}, {2, 2}: {0, 4, 20, 24}, {1, 3}: {0, 2, 4},
		{5, 2}: {0, 4, 5, 9, 10, 14, 15, 19, 20, 24}} {
		got, _, err := Resample(in, 1, 0, gridSize{3, 5}, to, resampleJAX)
		if err != nil {
			t.Fatal(err)
		}
		gomlxtest.NearAbs(t, fmt.Sprint(to), got, want, 1e-5)
	}
}

func TestTheLargestGridsAreResampled(t *testing.T) {
	const most = 1 << 14
	one := gridSize{1, 1}
	for _, c := range [][2]gridSize{{{most, 1}, one}, {one, {most, 1}}, {one, {1, most}}, {one, {1 << 10, 1 << 10}}} {
		if _, _, err := Resample(make([]float32, c[0][0]), 1, 0, c[0], c[1], resampleTimm); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestInvalidResamplingIsRefused(t *testing.T) {
	ok := gridSize{2, 3}
	for _, c := range []struct {
		numbers, width, prefix int
		to                     gridSize
		kind, want             string
	}{
		{6, 1, 0, ok, "nearest", `resampling "nearest": want one of timm, hf, dinov2, jax, bilinear`},
		{6, 1, 0, gridSize{0, 3}, resampleHF, "0x3"},
		{6, 0, 0, ok, resampleHF, "width 0"},
		{5, 1, -1, ok, resampleHF, "prefix -1"},
		{7, 1, 0, ok, resampleHF, "0+2x3 rows"},
		{6, 1, 1, ok, resampleHF, "1+2x3 rows"},
		{6, 1, 0, gridSize{2000, 2000}, resampleHF, "2^20"},
		{6, 1, 0, gridSize{1 << 10, 1<<10 + 1}, resampleHF, "at most 2^20 patches"},
		{6, 1, 0, gridSize{1<<14 + 1, 1}, resampleHF, "16385x1"}, {6, 1, 0, gridSize{1, 1<<14 + 1}, resampleHF, "1x16385"},
	} {
		_, _, err := Resample(make([]float32, c.numbers), c.width, c.prefix, ok, c.to, c.kind)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
		}
	}
}
