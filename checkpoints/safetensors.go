// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"
)

// The safetensors format is an 8-byte little-endian header length, a JSON header that gives each tensor's dtype,
// shape and byte range, and the bytes. Its reference reader bounds the header and wants the ranges to cover the data
// without hole or overlap; this one refuses on top duplicate keys, unknown fields and whatever has no meaning here.

// FormatError says that a file is not what its format asks for.
type FormatError struct {
	File   string
	Tensor string // empty if the fault is not in one tensor
	Reason string
}

// Error names file, tensor and reason in one line.
func (e *FormatError) Error() string {
	if e.Tensor == "" {
		return fmt.Sprintf("checkpoints: %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("checkpoints: %s: tensor %q: %s", e.File, e.Tensor, e.Reason)
}

// Limits of a header. The first is the reference reader's; the others are far above any model and keep what a header
// allocates in proportion to its length.
const (
	maxHeader   = 100_000_000
	maxTensors  = 1 << 17
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

// tensorEntry is what the header says of one tensor.
type tensorEntry struct {
	name       string
	dtype      dtypes.DType
	dims       []int
	begin, end uint64 // bytes, from the start of the data
}

// readSafetensorsHeader reads and checks the header of a safetensors file of the given size, leaving r at the first
// data byte. The entries come back in the order of their data, which they cover without a hole.
func readSafetensorsHeader(r io.Reader, size int64, file string) ([]tensorEntry, error) {
	refuse := func(tensor, format string, args ...any) ([]tensorEntry, error) {
		return nil, &FormatError{File: file, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
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
		return refuse("", "a header of %d bytes in a file of %d", length, size)
	}
	var builder strings.Builder
	builder.Grow(int(length))
	if _, err := io.CopyN(&builder, r, int64(length)); err != nil {
		return nil, errors.Wrapf(err, "checkpoints: reading %s", file)
	}
	text := builder.String()
	if text[0] != '{' {
		return refuse("", "the header does not begin with {")
	}
	if !utf8.ValidString(text) {
		return refuse("", "the header is not UTF-8")
	}
	scanner := headerScanner{text: text}
	entries, err := scanner.header()
	if err != nil {
		return refuse(scanner.tensor, "%v", err)
	}
	if strings.Trim(text[scanner.at:], " ") != "" {
		return refuse("", "text after the header")
	}

	slices.SortFunc(entries, func(a, b tensorEntry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return refuse(entries[i].name, "named twice")
		}
	}
	slices.SortStableFunc(entries, func(a, b tensorEntry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at, dataSize := uint64(0), uint64(size)-8-length
	for _, e := range entries {
		if e.begin > e.end || e.end > dataSize {
			return refuse(e.name, "bytes %d to %d of %d", e.begin, e.end, dataSize)
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

// byteSize returns the bytes that dtype and shape ask for, and whether they can be counted in 64 bits.
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
