// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
	"github.com/wepe-go/wepe/internal/numpy"
	"github.com/wepe-go/wepe/internal/strictjson"
)

// The safetensors format is an 8-byte little-endian header length, a JSON header with each tensor's dtype, shape and
// byte range, and the bytes. Its reference reader bounds the header and requires the ranges to cover the data without
// hole or overlap. This reader also refuses what package strictjson refuses, unknown fields and values without a
// meaning here.

// formatError reports that a file violates its format.
type formatError struct {
	File   string
	Tensor string // empty if the fault is not in one tensor
	Reason string
}

// Error names file, tensor and reason in one line.
func (e *formatError) Error() string {
	if e.Tensor == "" {
		return fmt.Sprintf("checkpoints: %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("checkpoints: %s: tensor %q: %s", e.File, e.Tensor, e.Reason)
}

// Limits of a header, far larger than any model needs.
const (
	maxHeader   = strictjson.MaxBytes
	maxTensors  = index.MaxTensors
	maxMetadata = 1 << 12
	maxRank     = 16
	maxDim      = 1 << 48
	maxName     = 1 << 12
)

// safetensorsDTypes are the names of the types that both the format and GoMLX have, widest first.
var safetensorsDTypes = []namedDType{
	{"F64", dtypes.Float64}, {"I64", dtypes.Int64}, {"U64", dtypes.Uint64},
	{"F32", dtypes.Float32}, {"I32", dtypes.Int32}, {"U32", dtypes.Uint32},
	{"F16", dtypes.Float16}, {"BF16", dtypes.BFloat16}, {"I16", dtypes.Int16}, {"U16", dtypes.Uint16},
	{"I8", dtypes.Int8}, {"U8", dtypes.Uint8}, {"BOOL", dtypes.Bool},
}

// namedDType is a type under its name in a format.
type namedDType struct {
	name  string
	dtype dtypes.DType
}

// tensorEntry is the header's entry for one tensor.
type tensorEntry struct {
	name       string
	dtype      dtypes.DType
	dims       []int
	begin, end uint64 // bytes, from the start of the data
}

// readSafetensorsHeader reads and checks the header of a safetensors file of the given size, leaving r at the first
// data byte. It returns the entries in the order of their data, which they cover without a hole.
func readSafetensorsHeader(r io.Reader, size int64, file string) ([]tensorEntry, error) {
	refuse := func(tensor, format string, args ...any) ([]tensorEntry, error) {
		return nil, &formatError{File: file, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
	if size < 8 {
		return refuse("", "%d bytes are too few for a safetensors file", size)
	}
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, errors.Wrapf(err, "checkpoints: reading %s", file)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length < 2 || length > maxHeader || length > uint64(size-8) {
		return refuse("", "%s", cmp.Or(otherFile(prefix),
			fmt.Sprintf("no safetensors file, or a damaged one (a header of %d bytes in a file of %d)", length, size)))
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, errors.Wrapf(err, "checkpoints: reading %s", file)
	}
	text = bytes.TrimRight(text, " ")
	if len(text) == 0 || text[0] != '{' || text[len(text)-1] != '}' {
		return refuse("", "the header does not begin with { and end with }")
	}
	entries, tensor, err := parseEntries(text)
	if err != nil {
		return refuse(tensor, "%v", err)
	}
	slices.SortFunc(entries, func(a, b tensorEntry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	at, dataSize := uint64(0), uint64(size)-8-length
	for _, e := range entries {
		if e.begin > e.end || e.end > dataSize {
			return refuse(e.name, "bytes %d to %d of %d: is the file truncated? download it again", e.begin, e.end, dataSize)
		}
		if want, ok := numpy.ByteSize(uint64(e.dtype.Size()), e.dims); !ok || want != e.end-e.begin {
			return refuse(e.name, "%d bytes for %s%v", e.end-e.begin, e.dtype, e.dims)
		}
		if e.begin != at {
			return refuse(e.name, "begins at byte %d, the tensor before it ends at %d", e.begin, at)
		}
		at = e.end
	}
	if at != dataSize {
		return refuse("", "%d bytes of data, its tensors hold %d", dataSize, at)
	}
	return entries, nil
}

// otherFile describes a file of another kind by its first bytes; "" if it is unknown.
func otherFile(prefix [8]byte) string {
	const image = "an image in place of the weights: the model comes before images"
	for begin, what := range map[string]string{
		"version ": "a pointer of git-lfs in place of the weights: git lfs pull fetches them",
		"<":        "a page of the web in place of the weights: fetch the file itself",
		"{":        "a JSON file in place of the weights: name the weights or their directory",
		"\x80":     "a pickle, which is never read: save as safetensors", // the first opcode of all since version 2
		"\x89PNG":  image, "\xff\xd8\xff": image, "GIF8": image, "RIFF": image,
	} {
		if strings.HasPrefix(string(prefix[:]), begin) {
			return what
		}
	}
	return ""
}

// parseEntries reads {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}} and
// ignores the metadata. With an error it returns the tensor that caused it, "" for none.
func parseEntries(text []byte) (entries []tensorEntry, tensor string, err error) {
	header, err := strictjson.ParseObject(text)
	if err != nil {
		return nil, "", err
	}
	if len(header) > maxTensors+1 {
		return nil, "", errors.Errorf("the file has %d tensors, more than %d", len(header), maxTensors)
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fields, err := header.Object(name)
		if name == "__metadata__" {
			if err == nil && (fields == nil || len(fields) > maxMetadata) {
				err = header.Refuse(name, "an object of at most %d strings", maxMetadata)
			}
			for _, key := range slices.Sorted(maps.Keys(fields)) {
				err = cmp.Or(err, fields.Read(key, new(string), "a string"))
			}
			if err != nil {
				return nil, "", errors.WithMessage(err, name)
			}
			continue
		}
		e, err := parseEntry(name, fields)
		if err != nil {
			return nil, name, err
		}
		entries = append(entries, e)
	}
	return entries, "", nil
}

func parseEntry(name string, fields strictjson.Object) (e tensorEntry, err error) {
	if len(name) > maxName {
		return e, errors.Errorf("its name has more than %d bytes", maxName)
	}
	if strings.ContainsRune(name, utf8.RuneError) { // the replacement for an unpaired surrogate in encoding/json
		return e, errors.New("its name contains an unpaired surrogate (or U+FFFD)")
	}
	dtype, err := fields.Text("dtype")
	known := slices.IndexFunc(safetensorsDTypes, func(d namedDType) bool { return d.name == dtype })
	if err != nil || known < 0 {
		return e, fields.Refuse("dtype", "a type that GoMLX has too")
	}
	shape, err := plainIntegers(fields, "shape")
	if err != nil {
		return e, err
	}
	offsets, err := plainIntegers(fields, "data_offsets")
	if err != nil {
		return e, err
	}
	e = tensorEntry{name: name, dtype: safetensorsDTypes[known].dtype, dims: make([]int, len(shape))}
	for axis, dim := range shape {
		if e.dims[axis] = int(dim); len(shape) > maxRank || dim > maxDim {
			return e, fields.Refuse("shape", "at most %d numbers up to 2^48", maxRank)
		}
	}
	if len(offsets) != 2 {
		return e, fields.Refuse("data_offsets", "two numbers")
	}
	e.begin, e.end = offsets[0], offsets[1]
	if len(fields) != 3 {
		return e, errors.New("it has fields other than dtype, shape and data_offsets")
	}
	return e, nil
}

// plainIntegers returns a list of numbers without sign, fraction or exponent.
func plainIntegers(o strictjson.Object, key string) (list []uint64, err error) {
	if json.Unmarshal(o[key], &list) != nil || list == nil || bytes.Contains(o[key], []byte("null")) {
		return nil, o.Refuse(key, "plain integers")
	}
	return list, nil
}

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
		return binary.Append(to, le, floats)
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
