// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package numpy reads untrusted NumPy arrays: an .npz is a zip of members NAME.npy, each with a short header, a Python
// literal, and the numbers (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
//
// Every size is compared with the bytes in the file before memory is allocated, pickles are never read, and the
// checksum of a member is verified if it is read to its end. Other Go readers of the format (core/tensors/numpy of
// GoMLX v0.28.8, sbinet/npyio v0.9.0) allocate the size in the header, or panic.
package numpy

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a file. MaxRatio is the maximum compression of deflate.
const (
	MaxRatio = 1032

	maxDirectory   = 2 << 20   // bytes of the zip's list of members: some 15,000 of them
	zipSearchSpace = 128 << 10 // bytes that the search for the list's end may read
	maxName        = 4 << 10   // bytes
	maxHeader      = 64 << 10  // bytes
	maxRank        = 16
	maxDim         = 1 << 48

	magic        = "\x93NUMPY"
	suffix       = ".npy"
	zipEncrypted = 1 // bit of the flags
)

// Member is an unopened array in an .npz.
type Member struct {
	Name         string // without .npy
	Stored, Size uint64 // bytes in the file and uncompressed
	file         *zip.File
}

// Array is an open array, at its first number. Reading to io.EOF verifies the checksum.
type Array struct {
	Type  string // NumPy's, as "<f4"
	Shape []int  // in C order
	io.ReadCloser
}

// Error is an error in one member.
type Error struct {
	Member string
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%q: %v", e.Member, e.Err) }

// Unwrap returns the error without the member.
func (e *Error) Unwrap() error { return e.Err }

// List returns the members of an .npz of the given size, in the order of the file, if all of them are valid. Errors
// about one member have type [*Error].
func List(r io.ReaderAt, size int64) (members []*Member, err error) {
	// The zip package stores every entry of the list, at several times its length.
	limited := &limitedReaderAt{r: r, left: maxDirectory + zipSearchSpace}
	archive, err := zip.NewReader(limited, size)
	if err != nil {
		return nil, err
	}
	limited.left = -1
	seen, stored := map[string]bool{}, uint64(0)
	for _, f := range archive.File {
		refuse := func(format string, args ...any) ([]*Member, error) {
			return nil, &Error{strings.TrimSuffix(f.Name, suffix), fmt.Errorf(format, args...)}
		}
		name, isArray := strings.CutSuffix(f.Name, suffix)
		packed, unpacked, ratio := f.CompressedSize64, f.UncompressedSize64, uint64(MaxRatio)
		if f.Method == zip.Store {
			ratio = 1
		}
		stored += packed
		switch {
		case strings.HasSuffix(f.Name, ".pkl"):
			return refuse("a pickle, which is never read: save the weights as safetensors")
		case !isArray || name == "" || len(name) > maxName || !utf8.ValidString(name):
			return refuse("a member that is no NAME.npy")
		case seen[name]:
			return refuse("named twice")
		case f.Method != zip.Store && f.Method != zip.Deflate:
			return refuse("zip method %d, want stored or deflated", f.Method)
		case f.Flags&zipEncrypted != 0:
			return refuse("encrypted")
		case packed > uint64(size) || stored > uint64(size): // overlapping members could be read many times
			return refuse("its members take more than the %d bytes of the file", size)
		case unpacked > packed*ratio || ratio == 1 && unpacked != packed:
			return refuse("%d bytes out of %d", unpacked, packed)
		case f.CRC32 == 0 && unpacked > 0: // the zip package treats this as unknown
			return refuse("no checksum")
		}
		seen[name] = true
		members = append(members, &Member{name, packed, unpacked, f})
	}
	return members, nil
}

// Open reads the header and checks it against the size of the member. Errors have type [*Error].
func (m *Member) Open() (*Array, error) {
	r, err := m.file.Open()
	if err != nil {
		return nil, &Error{m.Name, err}
	}
	a, err := Open(r, int64(m.Size))
	if err != nil {
		r.Close()
		return nil, &Error{m.Name, err}
	}
	a.ReadCloser = r
	return a, nil
}

// A header is {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: NumPy sorts the keys, readers must not rely
// on it. A type that is not one string is a structured one.
var (
	item       = `\s*['"](descr|fortran_order|shape)['"] *: *('[^'\\]*'|"[^"\\]*"|\([^()]*\)|[\w.+-]+) *`
	dictionary = regexp.MustCompile(`^ *\{` + item + "," + item + "," + item + `,? *\}[ \n]*$`)
	tuple      = regexp.MustCompile(`^\( *(?:(?:\d+ *, *)+(?:\d+ *)?)?\)$`)
	dimension  = regexp.MustCompile(`\d+`)
	plainType  = regexp.MustCompile(`^[<|]([fiuVbc])(\d{1,2})$`)
)

// parseHeader reads the three items of a header, in any order, each once.
func parseHeader(text string) (kind string, shape []int, err error) {
	found := dictionary.FindStringSubmatch(text)
	if found == nil {
		return "", nil, fmt.Errorf("the .npy header is %.80q, want descr, fortran_order, shape and nothing else "+
			"(structured and pickled types are never read)", strings.TrimSpace(text))
	}
	items := map[string]string{found[1]: found[2], found[3]: found[4], found[5]: found[6]}
	kind = strings.Trim(items["descr"], `'"`)
	switch {
	case len(items) != 3:
		return "", nil, errors.New("a key of the .npy header appears twice")
	case strings.HasSuffix(kind, "O"):
		return "", nil, errors.New("pickled Python objects are never read")
	case !plainType.MatchString(kind):
		return "", nil, fmt.Errorf("dtype %q, want a plain little-endian one", kind)
	case items["fortran_order"] == "True":
		return "", nil, errors.New("the array is in Fortran order: save a C-ordered copy (numpy.ascontiguousarray)")
	case items["fortran_order"] != "False":
		return "", nil, errors.New("fortran_order is neither True nor False")
	}
	ok := tuple.MatchString(items["shape"])
	for _, digits := range dimension.FindAllString(items["shape"], maxRank+1) {
		n, err := strconv.ParseUint(digits, 10, 63)
		ok = ok && err == nil && n <= maxDim && len(shape) < maxRank && (len(digits) == 1 || digits[0] != '0')
		shape = append(shape, int(n))
	}
	if !ok {
		return "", nil, fmt.Errorf("its shape %.80s is not a tuple of at most %d plain integers", items["shape"], maxRank)
	}
	return kind, shape, nil
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
			return 0, fmt.Errorf("the list of members has more than %d bytes", maxDirectory)
		}
	}
	return l.r.ReadAt(p, at)
}

// HeaderSize is the length of a Header of two axes, whatever their sizes: it can be rewritten once the rows are
// counted.
const HeaderSize = 128

// Header returns the header of a .npy of version 1: numbers of a type follow little-endian in C order, at a multiple of
// 64 bytes.
func Header(kind string, shape ...int) []byte {
	dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]")
	if len(shape) == 1 {
		dims += ","
	}
	literal := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, dims)
	const start = 10 // magic, version, length
	literal += strings.Repeat(" ", 63-(start+len(literal))%64) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(len(literal))), literal...)
}

// Open reads the header of a .npy of the given size: magic, version, length and literal, checked against the size.
func Open(r io.Reader, size int64) (*Array, error) {
	start, length := make([]byte, 12), int64(10) // of version 1; later versions have two more bytes of length
	_, err := io.ReadFull(r, start[:length])
	version := start[6]
	if err == nil && (version == 2 || version == 3) {
		_, err = io.ReadFull(r, start[length:])
		length = 12
	}
	n := binary.LittleEndian.Uint32(start[8:])
	switch {
	case err != nil:
		return nil, fmt.Errorf("the .npy header: %w", err)
	case string(start[:6]) != magic:
		return nil, errors.New("not an .npy file: its magic bytes are missing")
	case version < 1 || version > 3:
		return nil, fmt.Errorf(".npy version %d, want 1 to 3", version)
	case n > maxHeader:
		return nil, fmt.Errorf("the .npy header has %d bytes, more than %d", n, maxHeader)
	}
	literal := make([]byte, n)
	if _, err := io.ReadFull(r, literal); err != nil {
		return nil, fmt.Errorf("the .npy header: %w", err)
	}
	a := &Array{ReadCloser: io.NopCloser(r)}
	if a.Type, a.Shape, err = parseHeader(string(literal)); err != nil {
		return nil, err
	}
	element, _ := strconv.ParseUint(plainType.FindStringSubmatch(a.Type)[2], 10, 64) // two digits
	left := size - length - int64(n)
	if want, ok := ByteSize(element, a.Shape); !ok || left < 0 || want != uint64(left) {
		return nil, fmt.Errorf("%d bytes for type %s, shape %v", left, a.Type, a.Shape)
	}
	return a, nil
}

// ByteSize returns the number of bytes of a shape of elements of the given size, and whether it fits in 64 bits.
func ByteSize(size uint64, shape []int) (uint64, bool) {
	for _, dim := range shape {
		high, low := bits.Mul64(size, uint64(dim))
		if high != 0 {
			return 0, false
		}
		size = low
	}
	return size, true
}
