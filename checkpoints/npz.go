// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/compute/dtypes"
	"github.com/pkg/errors"
)

// An .npz is a zip of members NAME.npy, each a short header, a Python literal, and the numbers
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). Readers exist, but they allocate what a
// header asks for; here every size is held against the bytes in the file before.

// Limits of an .npz.
const (
	maxDirectory   = 2 << 20  // bytes of the zip's list of members: some 15,000 of them
	maxRatio       = 1032     // of deflate
	maxRatioLarge  = 200      // of members above largeMember
	largeMember    = 64 << 20 // bytes
	maxNPYHeader   = 64 << 10 // bytes
	npyMagic       = "\x93NUMPY"
	npySuffix      = ".npy"
	zipEncrypted   = 1         // bit of the flags
	zipSearchSpace = 128 << 10 // bytes that looking for the list's end may read
)

// addNPZ adds the members of an .npz file.
func (f *foreign) addNPZ(r io.ReaderAt, size int64, file string) error {
	refuse := func(tensor, format string, args ...any) error {
		return &FormatError{File: file, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
	// The zip package keeps every entry of the list, at several times its length.
	limited := &limitedReaderAt{r: r, left: maxDirectory + zipSearchSpace}
	archive, err := zip.NewReader(limited, size)
	if err != nil {
		return asFormatError(err, file, "")
	}
	limited.left = -1
	f.packed = true
	stored := uint64(0)
	for _, member := range archive.File {
		name, isNPY := strings.CutSuffix(member.Name, npySuffix)
		if strings.HasSuffix(member.Name, ".pkl") {
			return refuse(member.Name, "a pickle, which is never read: save the weights as safetensors")
		}
		if !isNPY || name == "" || len(name) > maxName || !utf8.ValidString(name) {
			return refuse(member.Name, "a member that is no NAME.npy")
		}
		if _, twice := f.tensors[name]; twice {
			return refuse(name, "named twice")
		}
		packed, unpacked := member.CompressedSize64, member.UncompressedSize64
		ratio := uint64(1)
		switch {
		case member.Method == zip.Deflate && unpacked > largeMember:
			ratio = maxRatioLarge
		case member.Method == zip.Deflate:
			ratio = maxRatio
		case member.Method != zip.Store:
			return refuse(name, "zip method %d, want stored or deflated", member.Method)
		}
		if member.Flags&zipEncrypted != 0 {
			return refuse(name, "encrypted")
		}
		// Members that share bytes would let a small file be read many times.
		if stored += packed; packed > uint64(size) || stored > uint64(size) {
			return refuse(name, "its members take more than the %d bytes of the file", size)
		}
		if unpacked > packed*ratio || (ratio == 1 && unpacked != packed) {
			return refuse(name, "%d bytes out of %d", unpacked, packed)
		}
		if member.CRC32 == 0 && unpacked > 0 { // which the zip package takes for "not known"
			return refuse(name, "no checksum")
		}
		t, err := npyMember(member, file, name)
		if err != nil {
			return err
		}
		f.tensors[name] = t
	}
	return nil
}

// npyMember reads the header of a member.
func npyMember(member *zip.File, file, name string) (foreignTensor, error) {
	t := foreignTensor{file: file}
	r, err := member.Open()
	if err != nil {
		return t, asFormatError(err, file, name)
	}
	defer r.Close()
	header, err := readNPYHeader(r)
	if err != nil {
		return t, asFormatError(err, file, name)
	}
	e := tensorEntry{dtype: header.dtype, dims: header.dims}
	if want, ok := e.byteSize(); !ok || want != member.UncompressedSize64-uint64(header.length) {
		return t, &FormatError{File: file, Tensor: name, Reason: fmt.Sprintf("%d bytes for %s%v",
			member.UncompressedSize64-uint64(header.length), e.dtype, e.dims)}
	}
	t.dtype, t.dims = header.dtype, header.dims
	t.open = func() (io.ReadCloser, error) {
		r, err := member.Open()
		if err != nil {
			return nil, err
		}
		_, err = io.CopyN(io.Discard, r, int64(header.length))
		return r, err
	}
	return t, nil
}

// npyHeader is what stands before the numbers of an .npy.
type npyHeader struct {
	dtype  dtypes.DType
	dims   []int
	length int // bytes up to the numbers
}

// readNPYHeader reads magic, version, length and the literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}.
func readNPYHeader(r io.Reader) (h npyHeader, err error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return h, errors.Wrap(err, "the .npy header")
	}
	if string(start[:6]) != npyMagic {
		return h, errors.New("no .npy: its magic bytes are missing")
	}
	var size [4]byte // two bytes in version 1
	width := 4
	switch start[6] {
	case 1:
		width = 2
	case 2, 3:
	default:
		return h, errors.Errorf(".npy version %d, want 1 to 3", start[6])
	}
	if _, err := io.ReadFull(r, size[:width]); err != nil {
		return h, errors.Wrap(err, "the .npy header")
	}
	length := binary.LittleEndian.Uint32(size[:])
	if length > maxNPYHeader {
		return h, errors.Errorf("an .npy header of %d bytes, at most %d are read", length, maxNPYHeader)
	}
	raw := make([]byte, length)
	if _, err := io.ReadFull(r, raw); err != nil {
		return h, errors.Wrap(err, "the .npy header")
	}
	h.length = len(start) + width + len(raw)
	h.dtype, h.dims, err = parseNPYHeader(string(raw))
	return h, err
}

// npyTypes are the types of weights. NumPy has no bfloat16 and writes its two bytes as they are.
var npyTypes = map[string]dtypes.DType{
	"<f4": dtypes.Float32, "<f2": dtypes.Float16, "|V2": dtypes.BFloat16, "<V2": dtypes.BFloat16, "<f8": dtypes.Float64,
}

// parseNPYHeader reads the literal: the three keys in any order, each once, then spaces.
func parseNPYHeader(text string) (dtype dtypes.DType, dims []int, err error) {
	s := literalScanner{text}
	var descr, order, shape bool
	if !s.found("{") {
		return dtype, nil, errors.New("the .npy header is no dictionary")
	}
	for !s.found("}") {
		key, ok := s.string()
		if !ok || !s.found(":") {
			return dtype, nil, errors.New("the .npy header has no key where one belongs")
		}
		switch {
		case key == "descr" && !descr:
			name, ok := s.string()
			if !ok {
				return dtype, nil, errors.New("structured dtypes are not read")
			}
			if strings.HasSuffix(name, "O") {
				return dtype, nil, errors.New("pickled Python objects are never read")
			}
			if dtype, descr = npyTypes[name]; !descr {
				return dtype, nil, errors.Errorf("dtype %q, want little-endian floats", name)
			}
		case key == "fortran_order" && !order:
			if order = s.found("False"); !order {
				return dtype, nil, errors.New("Fortran order: save a C-ordered copy (numpy.ascontiguousarray)")
			}
		case key == "shape" && !shape:
			if dims, shape = s.tuple(); !shape {
				return dtype, nil, errors.Errorf("its shape is no tuple of at most %d plain integers", maxRank)
			}
		default:
			return dtype, nil, errors.Errorf("key %q of the .npy header is unknown or given twice", key)
		}
		if !s.found(",") {
			if s.found("}") {
				break
			}
			return dtype, nil, errors.New("the .npy header does not go on with , or }")
		}
	}
	if !descr || !order || !shape || strings.TrimRight(s.rest, " \n") != "" {
		return dtype, nil, errors.New("the .npy header wants descr, fortran_order, shape and nothing else")
	}
	return dtype, dims, nil
}

// literalScanner reads the few Python literals of an .npy header.
type literalScanner struct{ rest string }

// found skips spaces and, if it comes next, the word.
func (s *literalScanner) found(word string) (ok bool) {
	s.rest, ok = strings.CutPrefix(strings.TrimLeft(s.rest, " "), word)
	return ok
}

// string reads 'text' or "text" without escapes.
func (s *literalScanner) string() (text string, ok bool) {
	for _, quote := range []string{"'", `"`} {
		if s.found(quote) {
			text, s.rest, ok = strings.Cut(s.rest, quote)
			return text, ok && !strings.Contains(text, `\`)
		}
	}
	return "", false
}

// tuple reads (), (2,) or (2, 3).
func (s *literalScanner) tuple() (dims []int, ok bool) {
	if !s.found("(") {
		return nil, false
	}
	for !s.found(")") {
		s.found("")
		digits := len(s.rest) - len(strings.TrimLeft(s.rest, "0123456789"))
		n, err := strconv.ParseUint(s.rest[:digits], 10, 63)
		if err != nil || n > maxDim || len(dims) == maxRank || (digits > 1 && s.rest[0] == '0') {
			return nil, false
		}
		dims, s.rest = append(dims, int(n)), s.rest[digits:]
		if comma := s.found(","); !comma && (len(dims) == 1 || !s.found(")")) {
			return nil, false
		} else if !comma {
			return dims, true
		}
	}
	return dims, true
}

// limitedReaderAt fails once more than left bytes were read; a negative left is no limit.
type limitedReaderAt struct {
	r    io.ReaderAt
	left int64
}

func (l *limitedReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if l.left >= 0 {
		if l.left -= int64(len(p)); l.left < 0 {
			l.left = 0
			return 0, errors.Errorf("a list of members of more than %d bytes", maxDirectory)
		}
	}
	return l.r.ReadAt(p, at)
}
