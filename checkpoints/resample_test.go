// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
)

// kindsOfTorch are our kinds by the name of what torch computed.
var kindsOfTorch = map[string]string{
	"bicubic_aa": ResampleTimm, "bicubic": ResampleHF, "bilinear": ResampleBilinear,
}

func TestResampledTablesEqualTorch(t *testing.T) {
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
		from, to := Grid{in.Shape[0], in.Shape[1]}, Grid{want.Shape[0], want.Shape[1]}
		got, report, err := Resample(in.Float32(), in.Shape[2], 0, from, to, kind)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%dx%d -> %dx%d (%s)", from.Rows, from.Cols, to.Rows, to.Cols, kind); report != want {
			t.Errorf("report %q, want %q", report, want)
		}
		nearAbs(t, key, got, want.Data, 1e-5)
	}
	for _, kind := range kindsOfTorch {
		if seen[kind] < 2 {
			t.Errorf("the fixture holds %d cases of %s", seen[kind], kind)
		}
	}
}

func TestCornerAlignedResamplingEqualsScipy(t *testing.T) {
	want := fixtures.Tensors(t, "jax_vit_npz", "tensors.safetensors")
	in := fixtures.Tensors(t, "timm_vit", "model.safetensors")["pos_embed"] // the same weights, see its README
	name := regexp.MustCompile(`^google_zoom\.pos_embed_(\d+)x(\d+)$`)
	cases := 0
	for key, want := range want {
		parts := name.FindStringSubmatch(key)
		if parts == nil {
			continue
		}
		cases++
		rows, _ := strconv.Atoi(parts[1])
		cols, _ := strconv.Atoi(parts[2])
		prefix := want.Shape[1] - rows*cols
		side := int(math.Sqrt(float64(in.Shape[1] - prefix)))
		got, _, err := Resample(in.Float32(), in.Shape[2], prefix, Grid{side, side}, Grid{rows, cols}, ResampleJAX)
		if err != nil {
			t.Fatal(err)
		}
		nearAbs(t, key, got, want.Data, 1e-5)
	}
	if cases == 0 {
		t.Error("the fixture has no case")
	}
}

// ramp is a table whose patch rows are linear in row and column, behind prefix rows of their own.
func ramp(g Grid, width, prefix int) []float32 {
	var out []float32
	for p := range prefix {
		for i := range width {
			out = append(out, float32(1000*p+i))
		}
	}
	for row := range g.Rows {
		for col := range g.Cols {
			for i := range width {
				out = append(out, float32(3*row-5*col+7*i))
			}
		}
	}
	return out
}

func TestAnEqualGridIsCopiedBitForBit(t *testing.T) {
	const width = 7
	for kind := range resamplers {
		for _, prefix := range []int{0, 1, 2} {
			in := ramp(Grid{3, 5}, width, prefix)
			in[len(in)-1] = float32(math.Copysign(0, -1))
			in[len(in)-2] = float32(math.NaN())
			got, report, err := Resample(in, width, prefix, Grid{3, 5}, Grid{3, 5}, kind)
			if err != nil || report != "3x5 -> 3x5 (copy)" {
				t.Fatal(report, err)
			}
			for i := range in {
				if math.Float32bits(got[i]) != math.Float32bits(in[i]) {
					t.Fatalf("%s, prefix %d: element %d changed", kind, prefix, i)
				}
			}
			if &got[0] == &in[0] {
				t.Errorf("%s: not a copy", kind)
			}
		}
	}
}

func TestPrefixRowsAreKeptAndOtherGridsOfEqualSizeAreResampled(t *testing.T) {
	const width = 3
	for kind := range resamplers {
		for _, prefix := range []int{0, 1, 2} {
			in := ramp(Grid{2, 8}, width, prefix)
			got, report, err := Resample(in, width, prefix, Grid{2, 8}, Grid{4, 4}, kind)
			if err != nil || report != "2x8 -> 4x4 ("+kind+")" {
				t.Fatal(report, err)
			}
			head := prefix * width
			for i := range head {
				if math.Float32bits(got[i]) != math.Float32bits(in[i]) {
					t.Errorf("%s: prefix element %d of %d is %g", kind, i, head, got[i])
				}
			}
			if len(got) != len(in) || slices.Equal(got[head:], in[head:]) {
				t.Errorf("%s: returned unchanged", kind)
			}
		}
	}
}

// Between the corners, linear interpolation of a linear ramp is the ramp; everywhere, the taps of a place sum to 1.
func TestResamplingKeepsRampsAndConstants(t *testing.T) {
	got, _, err := Resample(ramp(Grid{3, 5}, 2, 1), 2, 1, Grid{3, 5}, Grid{5, 13}, ResampleJAX)
	if err != nil {
		t.Fatal(err)
	}
	for row := range 5 {
		for col := range 13 {
			want := 3*(float64(row)*2/4) - 5*(float64(col)*4/12)
			if x := float64(got[2*(1+row*13+col)]); math.Abs(x-want) > 1e-5 {
				t.Errorf("jax at %d, %d: %g, want %g", row, col, x, want)
			}
		}
	}
	for kind, axis := range resamplers {
		for n := 1; n < 12; n++ {
			for m := 1; m < 30; m++ {
				for i, taps := range axis(n, m) {
					sum := 0.0
					for _, tap := range taps {
						if tap.place < 0 || tap.place >= n {
							t.Fatalf("%s %d -> %d: place %d", kind, n, m, tap.place)
						}
						sum += tap.weight
					}
					if math.Abs(sum-1) > 1e-12 {
						t.Fatalf("%s %d -> %d: weights of place %d sum to %g", kind, n, m, i, sum)
					}
				}
			}
		}
	}
}

func TestWhatCannotBeResampledIsRefused(t *testing.T) {
	ok := Grid{2, 3}
	for name, refused := range map[string]func() error{
		"unknown resampling": func() error { return resampleError(6, 1, 0, ok, ok, "nearest") },
		"0x3":                func() error { return resampleError(6, 1, 0, ok, Grid{0, 3}, ResampleHF) },
		"width 0":            func() error { return resampleError(6, 0, 0, ok, ok, ResampleHF) },
		"prefix -1":          func() error { return resampleError(5, 1, -1, ok, ok, ResampleHF) },
		"0+2x3 rows":         func() error { return resampleError(7, 1, 0, ok, ok, ResampleHF) },
		"1+2x3 rows":         func() error { return resampleError(6, 1, 1, ok, ok, ResampleHF) },
		"2^20":               func() error { return resampleError(6, 1, 0, ok, Grid{2000, 2000}, ResampleHF) },
		"100000x1":           func() error { return resampleError(6, 1, 0, ok, Grid{100000, 1}, ResampleHF) },
	} {
		if err := refused(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

func resampleError(n, width, prefix int, from, to Grid, kind string) error {
	_, _, err := Resample(make([]float32, n), width, prefix, from, to, kind)
	return err
}

func nearAbs[T float32 | float64](t testing.TB, name string, got []T, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", name, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= tol) {
			t.Errorf("%s: at %d got %g, want %g", name, i, got[i], want[i])
			return
		}
	}
}
