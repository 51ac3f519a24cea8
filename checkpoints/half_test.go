// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// Every float16 against its definition, (-1)^s · 2^(e-15) · 1.f and 2^-14 · 0.f; every bfloat16 as a cut float32.
func TestAppendFloats_WidensExactly(t *testing.T) {
	for bits := range 1 << 16 {
		raw := []byte{byte(bits), byte(bits >> 8)}
		sign, exponent, fraction := 1-2*float64(bits>>15), bits>>10&31, float64(bits&1023)/1024
		want := sign * math.Ldexp(1+fraction, exponent-15)
		switch exponent {
		case 0:
			want = math.Copysign(math.Ldexp(fraction, -14), sign)
		case 31:
			want = math.Inf(int(sign))
		}
		got := float64(appendFloats(nil, raw, dtypes.Float16)[0])
		nan := exponent == 31 && fraction != 0
		if math.Float64bits(got) != math.Float64bits(want) && !nan || nan && got == got {
			t.Fatalf("float16 %#04x is %g, want %g", bits, got, want)
		}
		if got := math.Float32bits(appendFloats(nil, raw, dtypes.BFloat16)[0]); got != uint32(bits)<<16 {
			t.Fatalf("bfloat16 %#04x has the bits %#08x", bits, got)
		}
	}
}

// The 16-bit numbers in order are the bits 0, 1, … with a separate sign. For each of them and its successor: the number
// itself is preserved, the midpoint rounds to the even one, and its float32 neighbours to the nearer one.
func TestHalf_RoundsTiesToEven(t *testing.T) {
	for _, c := range []struct {
		dtype    dtypes.DType
		bits     func(float32) uint16
		infinity int
	}{{dtypes.Float16, float16Bits, 0x7c00}, {dtypes.BFloat16, bfloat16Bits, 0x7f80}} {
		widened := func(bits int) float32 {
			return appendFloats(nil, []byte{byte(bits), byte(bits >> 8)}, c.dtype)[0]
		}
		next := func(x, towards float32) float32 { return math.Nextafter32(x, towards) }
		for sign := range 2 {
			for low := range c.infinity {
				bits := sign<<15 | low
				x, above := widened(bits), widened(bits+1)
				if low == c.infinity-1 { // as if there were a next number: half a step above the last one
					above = x + (x - widened(bits-1))
				}
				middle := float32((float64(x) + float64(above)) / 2)
				if low == c.infinity-1 && c.dtype == dtypes.BFloat16 { // 2^128 is not a float32
					middle = float32(math.Copysign(math.Ldexp(511, 119), float64(x)))
				}
				even := bits + bits&1
				for _, want := range []struct {
					x    float32
					bits int
				}{{x, bits}, {middle, even}, {next(middle, x), bits}, {next(middle, above), bits + 1}} {
					if got := c.bits(want.x); int(got) != want.bits {
						t.Fatalf("%s: %g has the bits %#04x, want %#04x", c.dtype, want.x, got, want.bits)
					}
				}
			}
			for low := c.infinity; low <= 0x7fff; low++ {
				got, x := c.bits(widened(sign<<15|low)), widened(sign<<15|low)
				if back := widened(int(got)); low == c.infinity && back != x || low > c.infinity && back == back {
					t.Fatalf("%s: %#04x, %g, becomes %#04x", c.dtype, sign<<15|low, x, got)
				}
			}
		}
		if got := c.bits(math.Float32frombits(0x7f800001)); !(widened(int(got)) != widened(int(got))) {
			t.Errorf("%s: a NaN of low bits becomes %#04x", c.dtype, got)
		}
	}
}

func TestAppendRaw_NumbersBeyondTheType(t *testing.T) {
	for _, c := range []struct {
		dtype dtypes.DType
		x     float32
		ok    bool
	}{
		{dtypes.Float16, 65519, true}, {dtypes.Float16, 65520, false}, {dtypes.Float16, -1e30, false},
		{dtypes.Float16, float32(math.Inf(-1)), true}, {dtypes.Float16, float32(math.NaN()), true},
		{dtypes.BFloat16, 3.38e38, true}, {dtypes.BFloat16, math.MaxFloat32, false},
		{dtypes.BFloat16, float32(math.Inf(1)), true}, {dtypes.Float32, math.MaxFloat32, true},
		{dtypes.Float64, 1, false},
	} {
		_, err := appendRaw(nil, []float32{0, c.x}, c.dtype)
		if (err == nil) != c.ok || (err != nil && !strings.Contains(err.Error(), "loat")) {
			t.Errorf("%s %g: %v", c.dtype, c.x, err)
		}
	}
}
