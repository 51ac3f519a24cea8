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

// The library decompresses all of a page, whatever size the header declares, and first allocates the size in the page's
// first bytes: one wrong byte can take gigabytes, from which no recover helps. So a page is first decompressed to
// io.Discard or, if the codec stores a length, that is checked.

// prove checks that the page with a row of a row group decompresses to the size in its header, and that those without
// rows do, such as the dictionary: for shorter pages the library invents values. It returns the end of the page with
// the row. A negative row checks all pages.
func prove(chunk *pq.FileColumnChunk, group int, file io.ReaderAt, row int64) (end int64, err error) {
	meta := &chunk.File().Metadata().RowGroups[group].Columns[chunk.Column()].MetaData
	index, err := chunk.OffsetIndex()
	if err != nil {
		return 0, err
	}
	for i, n := 0, index.NumPages(); i < n; i++ {
		first, next := index.FirstRowIndex(i), int64(math.MaxInt64)
		if i+1 < n {
			next = index.FirstRowIndex(i + 1)
		}
		here := row < 0 || row >= first && row < next
		if first < next && !here {
			continue
		}
		last := index.Offset(i) + index.CompressedPageSize(i)
		if err := provePage(file, meta.Codec, index.Offset(i), last); err != nil {
			return 0, err
		}
		if here {
			end = last
		}
	}
	return end, nil
}

// provePage is prove for the page between two offsets.
func provePage(file io.ReaderAt, codec format.CompressionCodec, at, end int64) error {
	header, length, err := pageHeader(file, at, end)
	if err != nil {
		return err
	}
	levels := int64(0) // never compressed
	if v2 := header.DataPageHeaderV2; header.Type == format.DataPageV2 {
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return nil
		}
		levels = int64(v2.V.DefinitionLevelsByteLength) + int64(v2.V.RepetitionLevelsByteLength)
	}
	most, packed := int64(header.UncompressedPageSize)-levels, int64(header.CompressedPageSize)-levels
	if levels < 0 || packed < 0 {
		return fmt.Errorf("a page of %d and %d bytes at byte %d: the file is truncated or damaged", packed, most, at)
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
	case format.Snappy: // stores its length
		var start [binary.MaxVarintLen64]byte
		n, _ := body.ReadAt(start[:], 0) // shorter at the end of the file
		says, k := binary.Uvarint(start[:n])
		if size = int64(min(says, math.MaxInt64)); k <= 0 {
			return fmt.Errorf("a page at byte %d is not valid snappy", at)
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
		return fmt.Errorf("its pages are compressed by %s, whose output cannot be limited: use snappy, gzip, zstd or "+
			"none", codec)
	}
	if err == nil && unpacked != nil {
		size, err = io.Copy(io.Discard, io.LimitReader(unpacked, most+1))
	}
	if err == nil && size != most {
		err = fmt.Errorf("a page at byte %d does not unpack to the %d bytes that its header says", at, most)
	}
	return err
}
