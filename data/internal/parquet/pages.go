// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wepe-go/wepe/internal/disk"
)

const (
	maxHeader = 1 << 20 // bytes of a page's header
	maxPage   = 1 << 29 // bytes of a page
	maxValues = 1 << 22 // of a page

	// The library allocates the size that a header declares for an uncompressed page. Image files hardly compress, and
	// labels are small: a larger page that declares a much larger size than its bytes is refused.
	maxUnproved = 4 << 20
	maxRatio    = 16

	magic = "PAR1"
)

// footerOf returns the footer of a file with only one row group of another file, without statistics, which are images
// too.
func footerOf(meta *format.FileMetaData, group int) ([]byte, error) {
	alone := meta.RowGroups[group]
	alone.Ordinal, alone.Columns = 0, slices.Clone(alone.Columns)
	for c := range alone.Columns {
		m := &alone.Columns[c].MetaData
		*m = format.ColumnMetaData{Type: m.Type, Encoding: m.Encoding, PathInSchema: m.PathInSchema, Codec: m.Codec,
			NumValues: m.NumValues, TotalUncompressedSize: m.TotalUncompressedSize,
			TotalCompressedSize: m.TotalCompressedSize, DataPageOffset: m.DataPageOffset,
			DictionaryPageOffset: m.DictionaryPageOffset}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), format.FileMetaData{Version: meta.Version,
		Schema: meta.Schema, NumRows: alone.NumRows, RowGroups: []format.RowGroup{alone}})
	return append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), magic...), err
}

// withFooter is a file with a replaced footer.
type withFooter struct {
	file   io.ReaderAt
	size   int64
	footer []byte
}

// ReadAt implements io.ReaderAt.
func (f withFooter) ReadAt(p []byte, at int64) (n int, err error) {
	if at < f.size {
		if n, err = f.file.ReadAt(p[:min(int64(len(p)), f.size-at)], at); err != nil || n == len(p) {
			return n, err
		}
	}
	if n += copy(p[n:], f.footer[min(int64(len(f.footer)), at+int64(n)-f.size):]); n < len(p) {
		err = io.EOF
	}
	return n, err
}

// findPages lists the pages of a column chunk of a row group by their headers, in the form of a file's page index, from
// byte 1 on. Headers are checked against the file before they are used.
func findPages(chunk *pq.FileColumnChunk, group int, file io.ReaderAt, size int64) (pages []byte, err error) {
	meta := chunk.File().Metadata().RowGroups[group].Columns[chunk.Column()].MetaData
	at := meta.DataPageOffset
	if dictionary := meta.DictionaryPageOffset; dictionary > 0 {
		at = dictionary
	}
	end := at + meta.TotalCompressedSize
	if at < 4 || meta.DataPageOffset < at || end < meta.DataPageOffset || end > size {
		return nil, errors.New("its pages are not within the file: it is truncated or damaged")
	}
	var index format.OffsetIndex
	for row := int64(0); at < end; {
		header, length, err := pageHeader(file, at, end)
		if err != nil {
			return nil, err
		}
		next := at + length + int64(header.CompressedPageSize)
		if header.CompressedPageSize < 0 || next > end || header.UncompressedPageSize < 0 ||
			max(header.CompressedPageSize, header.UncompressedPageSize) > maxPage {
			return nil, fmt.Errorf("a page of %d and %d bytes at byte %d: the file is truncated or damaged",
				header.CompressedPageSize, header.UncompressedPageSize, at)
		}
		dictionary, v2 := header.DictionaryPageHeader, header.DataPageHeaderV2.V
		values, rows := dictionary.V.NumValues, int32(0)
		switch header.Type {
		case format.DataPage:
			values, rows = header.DataPageHeader.V.NumValues, header.DataPageHeader.V.NumValues
		case format.DataPageV2:
			values, rows = v2.NumValues, v2.NumValues
		}
		if values < 0 || values > maxValues || v2.NumNulls < 0 {
			return nil, fmt.Errorf("the page of %d values at byte %d has %d nulls, want 0 to %d values", values, at, v2.NumNulls,
				maxValues)
		}
		if dictionary.Valid && header.Type != format.DictionaryPage { // which the library reads as both
			return nil, fmt.Errorf("the page of type %s at byte %d has the header of a dictionary", header.Type, at)
		}
		index.PageLocations = append(index.PageLocations, format.PageLocation{Offset: at,
			CompressedPageSize: int32(next - at), FirstRowIndex: row})
		row += int64(rows)
		at = next
	}
	encoded, err := thrift.Marshal(new(thrift.CompactProtocol), index)
	return append([]byte{0}, encoded...), err // 0 is an invalid offset of an index
}

// usePages gives a chunk the result of findPages, so that seeking a row reads only its page.
func usePages(chunk *pq.FileColumnChunk, group int, pages []byte) error {
	column := &chunk.File().Metadata().RowGroups[group].Columns[chunk.Column()]
	column.OffsetIndexOffset, column.OffsetIndexLength = 1, int32(len(pages)-1)
	_, err := chunk.OffsetIndexFrom(bytes.NewReader(pages))
	return err
}

// pageHeader reads the header of a page, and returns its length.
func pageHeader(file io.ReaderAt, at, end int64) (header format.PageHeader, length int64, err error) {
	for room := int64(256); ; room *= 8 { // most headers are shorter
		raw := make([]byte, min(room, end-at))
		if _, err := file.ReadAt(raw, at); err != nil {
			return header, 0, disk.Damage(err)
		}
		n, err := structLength(raw)
		switch {
		case err == nil:
			return header, int64(n), thrift.Unmarshal(new(thrift.CompactProtocol), raw[:n], &header)
		case room >= maxHeader:
			return header, 0, fmt.Errorf("no header of a page at byte %d: %w", at, err)
		}
	}
}

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

var (
	errShort = errors.New("it is truncated")
	errWrong = errors.New("no structure of Thrift")
)

// structLength returns the length of the structure at the start of raw, in Thrift's compact protocol. The decoder of
// the library allocates the lengths that it reads; here no list and no text may be longer than the remaining bytes.
// Source: thrift/doc/specs/thrift-compact-protocol.md.
func structLength(raw []byte) (length int, err error) {
	w := &walk{raw: raw}
	if err := w.structure(0); err != nil {
		return 0, err
	}
	return len(raw) - len(w.raw), nil
}

// walk is the rest of a message.
type walk struct{ raw []byte }

const maxNesting = 32

// structure skips fields, each a byte of type and difference of number, until the byte 0.
func (w *walk) structure(nesting int) error {
	if nesting > maxNesting {
		return errWrong
	}
	for {
		head, err := w.skip(1)
		if err != nil || head[0] == 0 {
			return err
		}
		if head[0]>>4 == 0 { // the number follows
			if _, err := w.number(); err != nil {
				return err
			}
		}
		if kind := head[0] & 15; kind > 2 { // 1 and 2 are true and false
			if err := w.value(kind, nesting); err != nil {
				return err
			}
		}
	}
}

// value skips a value of a kind; in lists, booleans take a byte each.
func (w *walk) value(kind byte, nesting int) error {
	var err error
	switch kind {
	case 1, 2, 3: // a byte
		_, err = w.skip(1)
	case 4, 5, 6: // integers
		_, err = w.number()
	case 7: // float64
		_, err = w.skip(8)
	case 8: // text
		var n uint64
		if n, err = w.number(); err == nil {
			_, err = w.skip(n)
		}
	case 9: // list
		var head []byte
		if head, err = w.skip(1); err != nil {
			return err
		}
		n := uint64(head[0] >> 4)
		if n == 15 {
			if n, err = w.number(); err != nil {
				return err
			}
		}
		if n > uint64(len(w.raw)) { // each takes at least a byte
			return errShort
		}
		for range n {
			if err := w.value(head[0]&15, nesting); err != nil {
				return err
			}
		}
	case 12:
		err = w.structure(nesting + 1)
	default: // sets and maps, which Parquet does not use
		err = errWrong
	}
	return err
}

func (w *walk) skip(n uint64) ([]byte, error) {
	if n > uint64(len(w.raw)) {
		return nil, errShort
	}
	passed := w.raw[:n]
	w.raw = w.raw[n:]
	return passed, nil
}

func (w *walk) number() (uint64, error) {
	v, n := binary.Uvarint(w.raw)
	switch {
	case n == 0:
		return 0, errShort
	case n < 0:
		return 0, errWrong
	}
	w.raw = w.raw[n:]
	return v, nil
}
