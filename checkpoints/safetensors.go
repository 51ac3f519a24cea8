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
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
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
		if want, ok := e.byteSize(); !ok || want != e.end-e.begin {
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
	start := string(prefix[:])
	switch {
	case start == "version ":
		return "a pointer of git-lfs in place of the weights: git lfs pull fetches them"
	case start[0] == '<':
		return "a page of the web in place of the weights: fetch the file itself"
	case start[0] == '{':
		return "a JSON file in place of the weights: name the weights or their directory"
	case start[0] == 0x80: // the first opcode of every pickle since version 2
		return "a pickle, which is never read: save as safetensors"
	case slices.ContainsFunc([]string{"\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF"}, func(image string) bool {
		return strings.HasPrefix(start, image)
	}):
		return "an image in place of the weights: the model comes before images"
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
				var text *string
				if err == nil && (json.Unmarshal(fields[key], &text) != nil || text == nil) {
					err = fields.Refuse(key, "a string")
				}
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

// byteSize returns the number of bytes of dtype and shape, and whether it fits in 64 bits.
func (e tensorEntry) byteSize() (uint64, bool) {
	n := uint64(e.dtype.Size())
	for _, dim := range e.dims {
		hi, lo := bits.Mul64(n, uint64(dim))
		if hi != 0 {
			return 0, false
		}
		n = lo
	}
	return n, true
}
