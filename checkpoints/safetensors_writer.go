// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"
)

// outTensor is a tensor to be written; write produces its data.
type outTensor struct {
	name  string
	shape shapes.Shape
	write func(io.Writer) error // all of its bytes, little-endian
}

// asIs returns a tensor to be written with its own bytes.
func asIs(name string, value *tensors.Tensor) outTensor {
	return outTensor{name, value.Shape(), func(w io.Writer) error { return writeBytes(w, value) }}
}

// writeSafetensors sorts the tensors, widest type first, then by name, and writes them after a header padded to 8
// bytes: so every tensor is aligned to its elements without a hole, and equal tensors give equal files. format is the
// "format" of the header's metadata ("pt" for transformers); empty writes none.
func writeSafetensors(w io.Writer, format string, out []outTensor) error {
	slices.SortFunc(out, func(a, b outTensor) int {
		return cmp.Or(cmp.Compare(b.shape.DType.Size(), a.shape.DType.Size()), cmp.Compare(a.name, b.name))
	})
	if len(out) > maxTensors {
		return errors.Errorf("checkpoints: %d tensors do not fit in a file, the limit is %d", len(out), maxTensors)
	}
	header := bytes.NewBufferString("{")
	if format != "" {
		fmt.Fprintf(header, `"__metadata__":{"format":%q}`, format)
	}
	var at int64
	for _, t := range out {
		known := slices.IndexFunc(safetensorsDTypes, func(d namedDType) bool { return d.dtype == t.shape.DType })
		if known < 0 {
			return errors.Errorf("checkpoints: tensor %q: safetensors has no type for %s", t.name, t.shape.DType)
		}
		if t.shape.Rank() > maxRank || len(t.name) > maxName/6 || !utf8.ValidString(t.name) { // \u0001 takes six bytes
			return errors.Errorf("checkpoints: tensor %q: want a UTF-8 name of at most %d bytes and rank at most %d",
				t.name, maxName/6, maxRank)
		}
		name, _ := json.Marshal(t.name) // strings and numbers always encode; dims are [], never null
		dims, _ := json.Marshal(append([]int{}, t.shape.Dimensions...))
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		end := at + t.shape.ByteSize()
		fmt.Fprintf(header, `%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, safetensorsDTypes[known].name, dims,
			at, end)
		at = end
	}
	header.WriteByte('}')
	if header.Len() > maxHeader {
		return errors.Errorf("checkpoints: the header has %d bytes, more than %d: use shorter names", header.Len(), maxHeader)
	}
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(header.Len())); err != nil {
		return err
	}
	if _, err := header.WriteTo(w); err != nil {
		return err
	}
	for _, t := range out {
		if err := t.write(w); err != nil {
			return errors.WithMessagef(err, "tensor %q", t.name)
		}
	}
	return nil
}

// writeBytes writes the elements of a tensor, copying them from the device if necessary.
func writeBytes(w io.Writer, t *tensors.Tensor) error {
	if t.ByteSize() == 0 {
		return nil
	}
	var writeErr error
	err := t.ConstBytes(func(data []byte) { _, writeErr = w.Write(data) })
	if err == nil {
		err = writeErr
	}
	return err
}

// float16Bits rounds to the nearest IEEE 754 binary16, ties to even. (float16.FromFloat32 of compute v0.1.6 rounds
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

// bfloat16Bits rounds to the nearest bfloat16, ties to even. (The conversion of compute v0.1.6 turns some NaN into
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
