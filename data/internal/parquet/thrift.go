// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// checkFooter returns the size of a Parquet file whose footer can be read without allocating more memory than the file
// has bytes.
func checkFooter(file *os.File) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	const tail = 8
	size = info.Size()
	raw := make([]byte, tail)
	if size < int64(len(magic)+tail) {
		return 0, errors.New("not a Parquet file")
	}
	if _, err := file.ReadAt(raw, size-tail); err != nil {
		return 0, err
	}
	length := int64(binary.LittleEndian.Uint32(raw))
	if string(raw[4:]) != magic || length > size-tail-int64(len(magic)) {
		return 0, errors.New("not a Parquet file, or truncated")
	}
	raw = make([]byte, length)
	if _, err := file.ReadAt(raw, size-tail-length); err != nil {
		return 0, err
	}
	if _, err := structLength(raw); err != nil {
		return 0, fmt.Errorf("the footer is damaged: %w", err)
	}
	return size, nil
}

const maxNesting = 32

var errStructure = fmt.Errorf("no structure of Parquet, or more than %d in one another", maxNesting)

// structLength returns the length of the structure at the start of raw, in Thrift's compact protocol. The decoder of
// the library allocates the lengths of lists that it reads, and descends as deep as values are nested; here no list may
// be longer than the remaining bytes.
func structLength(raw []byte) (length int, err error) {
	r := new(thrift.CompactProtocol).NewReaderFromBytes(raw)
	err = pass(r, thrift.STRUCT, len(raw), 0)
	return r.BytesRead(), err
}

// pass reads a value of a kind from a message of a size.
func pass(r thrift.Reader, kind thrift.Type, size, nesting int) (err error) {
	if nesting > maxNesting {
		return errStructure
	}
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8: // booleans of a list
		_, err = r.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = r.ReadInt64()
	case thrift.DOUBLE:
		_, err = r.ReadFloat64()
	case thrift.BINARY:
		_, err = r.ReadBytes() // which are not copied
	case thrift.LIST:
		var list thrift.List
		if list, err = r.ReadList(); err == nil && int(list.Size) > size-r.BytesRead() { // each takes at least a byte
			err = io.ErrUnexpectedEOF
		}
		for i := int32(0); i < list.Size && err == nil; i++ {
			err = pass(r, list.Type, size, nesting+1)
		}
	case thrift.STRUCT:
		for err == nil {
			field, failed := r.ReadField()
			switch {
			case failed != nil || field.Type == thrift.STOP:
				return failed
			case field.Type != thrift.TRUE && field.Type != thrift.FALSE: // which have no value
				err = pass(r, field.Type, size, nesting+1)
			}
		}
	default: // sets and maps
		err = errStructure
	}
	return err
}
