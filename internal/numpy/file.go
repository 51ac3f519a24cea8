// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numpy

import (
	"fmt"
	"io"
	"strings"
)

// HeaderSize is the length of what Header writes.
const HeaderSize = 128

// Header begins a .npy of float32 numbers [rows, cols], which follow little-endian in C order. It is of one length for
// all sizes: it can be written again once the rows are counted.
func Header(rows, cols int) []byte {
	const length = HeaderSize - 10
	literal := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, cols)
	return []byte(magic + "\x01\x00" + string([]byte{length, 0}) + literal +
		strings.Repeat(" ", length-1-len(literal)) + "\n")
}

// Open reads the header of a .npy of so many bytes and holds it to them.
func Open(r io.Reader, size int64) (*Array, error) {
	a := &Array{ReadCloser: io.NopCloser(r)}
	length, err := a.readHeader(r)
	if want, ok := a.byteSize(); err == nil && (!ok || size < int64(length) || want != uint64(size-int64(length))) {
		err = fmt.Errorf("%d bytes for type %s, shape %v", size-int64(length), a.Type, a.Shape)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}
