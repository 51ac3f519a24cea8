// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// kindsOfTorch are our kinds, by the names of torch's results.
var kindsOfTorch = map[string]string{
	"bicubic_aa": resampleTimm, "bicubic": resampleHF, "bilinear": resampleBilinear,
}

func TestResample_EqualsTorch(t *testing.T) { fixtures.Each(t, testResampleEqualsTorch) }

func testResampleEqualsTorch(t *testing.T) {
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

func TestResample_WeightsSumToOne(t *testing.T) {
	for kind, axis := range resamplers {
		for n := 1; n < 12; n++ {
			for m := 1; m < 30; m++ {
				for i, taps := range axis(n, m) {
					sum := 0.0
					for _, weight := range taps.Weights {
						sum += weight
					}
					if last := taps.First + len(taps.Weights); taps.First < 0 || last > n {
						t.Fatalf("%s %d -> %d: places %d to %d", kind, n, m, taps.First, last)
					}
					if !(math.Abs(sum-1) <= 1e-12) {
						t.Fatalf("%s %d -> %d: weights of place %d sum to %g", kind, n, m, i, sum)
					}
				}
			}
		}
	}
}

// The class token is unchanged; an equal grid is a copy, but a grid with as many patches in other rows is not.
func TestResample_CopiesAnEqualGridAndPrefixRows(t *testing.T) {
	const width, patches = 7, 16
	equal := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	for kind := range resamplers {
		for _, prefix := range []int{0, 1, 2} {
			in := make([]float32, (prefix+patches)*width)
			for i := range in {
				in[i] = float32(i * i)
			}
			in[0], in[1] = float32(math.NaN()), float32(math.Copysign(0, -1))
			for to, same := range map[gridSize]int{{2, 8}: len(in), {4, 4}: prefix * width} {
				got, _, err := Resample(in, width, prefix, gridSize{2, 8}, to, kind)
				if err != nil || len(got) != len(in) || &got[0] == &in[0] || !slices.EqualFunc(got[:same], in[:same], equal) ||
					same < len(in) && slices.EqualFunc(got[same:], in[same:], equal) {
					t.Errorf("%s, prefix %d to %v: %v, %v", kind, prefix, to, got, err)
				}
			}
		}
	}
}

func TestResample_Bounds(t *testing.T) {
	from := gridSize{2, 3}
	for _, c := range []struct {
		numbers, width, prefix int
		to                     gridSize
		kind                   string
		ok                     bool
	}{
		{6, 1, 0, from, resampleHF, true}, {6, 1, 0, gridSize{1 << 14, 1}, resampleTimm, true},
		{6, 1, 0, gridSize{1, 1 << 14}, resampleTimm, true}, {6, 1, 0, gridSize{1 << 10, 1 << 10}, resampleTimm, true},
		{6, 1, 0, from, "nearest", false}, {6, 1, 0, gridSize{0, 3}, resampleHF, false},
		{6, 0, 0, from, resampleHF, false}, {5, 1, -1, from, resampleHF, false}, {7, 1, 0, from, resampleHF, false},
		{6, 1, 1, from, resampleHF, false}, {6, 1, 0, gridSize{1 << 10, 1<<10 + 1}, resampleHF, false},
		{6, 1, 0, gridSize{1<<14 + 1, 1}, resampleHF, false}, {6, 1, 0, gridSize{1, 1<<14 + 1}, resampleHF, false},
	} {
		if _, _, err := Resample(make([]float32, c.numbers), c.width, c.prefix, from, c.to, c.kind); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
