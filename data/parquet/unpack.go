// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// The library unpacks a page for as long as there is more of it, whatever the header says, and begins with as much
// memory as its first bytes ask for: one wrong byte can take gigabytes, which no recover gets back. So a page is
// unpacked into nothing first, or where it says its length itself, that is read.

// prove sees that the page with a row of a row group unpacks to as much as its header says, and that the dictionary
// does: of less the library makes values of its own. A negative row stands for all pages.
func prove(chunk *pq.FileColumnChunk, group int, file io.ReaderAt, row int64) error {
	meta := &chunk.File().Metadata().RowGroups[group].Columns[chunk.Column()].MetaData
	index, err := chunk.OffsetIndex()
	if err != nil {
		return err
	}
	if at := meta.DictionaryPageOffset; at > 0 {
		if err := provePage(file, meta.Codec, at, meta.DataPageOffset); err != nil {
			return err
		}
	}
	for i, n := 0, index.NumPages(); i < n; i++ {
		if row >= 0 && (index.FirstRowIndex(i) > row || i+1 < n && index.FirstRowIndex(i+1) <= row) {
			continue
		}
		if err := provePage(file, meta.Codec, index.Offset(i), index.Offset(i)+index.CompressedPageSize(i)); err != nil {
			return err
		}
	}
	return nil
}

// provePage is prove for the page between two places.
func provePage(file io.ReaderAt, codec format.CompressionCodec, at, end int64) error {
	header, length, err := pageHeader(file, at, end)
	if err != nil {
		return err
	}
	levels := int64(0) // which are never packed
	if v2 := header.DataPageHeaderV2; header.Type == format.DataPageV2 && v2.Valid {
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return nil
		}
		levels = int64(v2.V.DefinitionLevelsByteLength) + int64(v2.V.RepetitionLevelsByteLength)
	}
	most, packed := int64(header.UncompressedPageSize)-levels, int64(header.CompressedPageSize)-levels
	if levels < 0 || most < 0 || packed < 0 || packed > end-at-length {
		return fmt.Errorf("a page of %d and %d bytes at byte %d: the file is cut, or damaged", packed, most, at)
	}
	if most > maxUnproved && most/maxRatio > packed {
		return fmt.Errorf("a page of %d bytes that unpack to %d at byte %d: more than %d times as many", packed, most, at,
			maxRatio)
	}
	if packed == 0 && most == 0 { // no values
		return nil
	}
	body, size := io.NewSectionReader(file, at+length+levels, packed), packed
	var unpacked io.Reader
	switch codec {
	case format.Uncompressed:
	case format.Snappy: // says its length itself
		var start [binary.MaxVarintLen64]byte
		n, _ := body.ReadAt(start[:], 0) // fewer where there are no more
		says, k := binary.Uvarint(start[:n])
		if size = int64(min(says, math.MaxInt64)); k <= 0 {
			return fmt.Errorf("a page at byte %d is no snappy", at)
		}
	case format.Gzip:
		unpacked, err = gzip.NewReader(body)
	case format.Zstd:
		var d *zstd.Decoder
		d, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(max(most, maxUnproved))))
		if err == nil {
			defer d.Close()
			unpacked = d
		}
	default:
		return fmt.Errorf("pages packed with %s, which cannot be held to a size: want snappy, gzip, zstd or none", codec)
	}
	if err == nil && unpacked != nil {
		size, err = io.Copy(io.Discard, io.LimitReader(unpacked, most+1))
	}
	if err == nil && size != most {
		err = fmt.Errorf("a page at byte %d does not unpack to the %d bytes that its header says", at, most)
	}
	return err
}
