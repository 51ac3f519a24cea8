// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/binary"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"
)

// float16Bits rounds to the nearest IEEE 754 binary16, ties to even. (float16.FromFloat32 of compute v0.1.3 rounds
// every subnormal to zero, which loses the small weights of a model.)
func float16Bits(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := math.Float32frombits(bits &^ (1 << 31))
	switch {
	case magnitude != magnitude:
		return sign | 0x7e00
	case magnitude >= 65520: // half a step above the largest, 65504
		return sign | 0x7c00
	case magnitude < 0x1p-14:
		// Adding 1/2 leaves steps of 2^-24 in the fraction, the steps of subnormals: the addition rounds.
		return sign | uint16(math.Float32bits(magnitude+0.5)-math.Float32bits(0.5))
	}
	// Keep 10 of 23 bits of the fraction, and change the exponent's bias from 127 to 15. A carry into the exponent is
	// correct.
	bits = math.Float32bits(magnitude) - (127-15)<<23
	return sign | uint16((bits+0xfff+bits>>13&1)>>13)
}

// bfloat16Bits rounds to the nearest bfloat16, ties to even. (The conversion of compute v0.1.3 turns some NaN into
// infinity.)
func bfloat16Bits(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// appendRaw is the inverse of appendFloats: it appends the little-endian bytes of the numbers in a type, rounded to
// nearest if the type has fewer bits. A finite number that is too large for the type is an error.
func appendRaw(to []byte, floats []float32, dtype dtypes.DType) ([]byte, error) {
	le := binary.LittleEndian
	bits, infinity := float16Bits, uint16(0x7c00)
	beyond := "float16, whose greatest number is 65504: choose bfloat16 or float32"
	switch dtype {
	case dtypes.Float32:
		for _, x := range floats {
			to = le.AppendUint32(to, math.Float32bits(x))
		}
		return to, nil
	case dtypes.BFloat16:
		bits, infinity, beyond = bfloat16Bits, 0x7f80, "bfloat16: choose float32"
	case dtypes.Float16:
	default:
		return to, errors.Errorf("type %s cannot be written", dtype)
	}
	for _, x := range floats {
		b := bits(x)
		if b&0x7fff == infinity && !math.IsInf(float64(x), 0) {
			return to, errors.Errorf("%g overflows %s", x, beyond)
		}
		to = le.AppendUint16(to, b)
	}
	return to, nil
}
