// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package parquet

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wepe-go/wepe/internal/disk"
)

// The library decompresses all of a page, whatever size its header declares, and allocates what the header and the
// page's first bytes declare: one wrong byte can take gigabytes, from which no recover helps. So pages are found,
// checked and unpacked here, and the library decodes a file in memory that contains only the page of a row and its
// dictionary.

const (
	maxHeader = 1 << 20 // bytes of a page's header
	maxPage   = 1 << 29 // bytes of a page
	maxValues = 1 << 22 // of a page

	// Image files hardly compress, and labels are small: a larger page that declares a much larger size than its bytes is
	// refused.
	maxUnproved = 4 << 20
	maxRatio    = 16

	magic = "PAR1"
)

// fileOptions skip what is not read. A schema takes tens of kilobytes and most of the time.
var fileOptions = []pq.FileOption{pq.SkipPageIndex(true), pq.SkipBloomFilters(true),
	pq.FileSchema(pq.NewSchema("", pq.Group{}))}

// chunk is a column of a row group.
type chunk struct {
	file    io.ReaderAt
	schema  []format.SchemaElement // of the file
	column  int                    // among columns
	columns int
	codec   format.CompressionCodec
	at, end int64 // bytes of its pages
}

// chunkOf returns a column of a row group of a file.
func chunkOf(file io.ReaderAt, size int64, meta *format.FileMetaData, group, column int) (chunk, error) {
	columns := meta.RowGroups[group].Columns
	m := &columns[column].MetaData
	at := m.DataPageOffset
	if dictionary := m.DictionaryPageOffset; dictionary > 0 {
		at = dictionary
	}
	end := at + m.TotalCompressedSize
	if at < int64(len(magic)) || m.DataPageOffset < at || end < m.DataPageOffset || end > size {
		return chunk{}, errors.New("its pages are not within the file: it is truncated or damaged")
	}
	return chunk{file, meta.Schema, column, len(columns), m.Codec, at, end}, nil
}

// page is a page, at first its header.
type page struct {
	format.PageHeader
	content  int64 // where its content begins
	rows     int64 // 0 for a dictionary
	unpacked []byte
}

// byDictionary reports whether its values are numbers of those in a dictionary.
func (p page) byDictionary() bool {
	encoding := p.DataPageHeader.V.Encoding
	if p.Type == format.DataPageV2 {
		encoding = p.DataPageHeaderV2.V.Encoding
	}
	return encoding == 2 || encoding == format.RLEDictionary // 2 is PLAIN_DICTIONARY, of older files
}

// page reads the header of a page, and checks it before anything in it is used.
func (c chunk) page(at int64) (p page, err error) {
	for room := int64(256); ; room *= 8 { // most headers are shorter
		raw := make([]byte, min(room, c.end-at))
		if _, err := c.file.ReadAt(raw, at); err != nil {
			return p, disk.Damage(err)
		}
		n, err := structLength(raw)
		if err != nil && room < maxHeader {
			continue
		}
		if err == nil {
			err = thrift.Unmarshal(new(thrift.CompactProtocol), raw[:n], &p.PageHeader)
		}
		if err != nil {
			return p, fmt.Errorf("no header of a page at byte %d: %w", at, err)
		}
		p.content = at + int64(n)
		break
	}
	packed, size := p.CompressedPageSize, p.UncompressedPageSize
	if min(packed, size) < 0 || max(packed, size) > maxPage || p.content+int64(packed) > c.end {
		return p, fmt.Errorf("a page of %d and %d bytes at byte %d, want at most %d that are in the file: it is truncated "+
			"or damaged, or write smaller row groups", packed, size, at, maxPage)
	}
	v0, v1, v2 := p.DictionaryPageHeader.V.NumValues, p.DataPageHeader.V.NumValues, p.DataPageHeaderV2.V.NumValues
	if min(v0, v1, v2) < 0 || max(v0, v1, v2) > maxValues {
		return p, fmt.Errorf("a page of %d values at byte %d, want 0 to %d", cmp.Or(v0, v1, v2), at, maxValues)
	}
	if p.DictionaryPageHeader.Valid && p.Type != format.DictionaryPage { // which the library reads as both
		return p, fmt.Errorf("the page of type %s at byte %d has the header of a dictionary", p.Type, at)
	}
	p.rows = int64(map[format.PageType]int32{format.DataPage: v1, format.DataPageV2: v2}[p.Type])
	return p, nil
}

// pages are where the pages of a chunk begin.
type pages struct {
	dictionary int64 // 0 for none
	data       []struct {
		at, row int64 // row is the first
	}
}

// pages finds the pages by their headers.
func (c chunk) pages() (found pages, err error) {
	row := int64(0)
	for at := c.at; at < c.end; {
		p, err := c.page(at)
		if err != nil {
			return found, err
		}
		if p.Type == format.DictionaryPage {
			found.dictionary = at
		} else if p.rows > 0 {
			found.data = append(found.data, struct{ at, row int64 }{at, row})
		}
		row += p.rows
		at = p.content + int64(p.CompressedPageSize)
	}
	return found, nil
}

// read returns the values of a page. dictionary is where that of the page is, 0 for none.
func (c chunk) read(dictionary, at int64) (_ pq.Page, err error) {
	var d, p page
	if dictionary > 0 {
		if d, err = c.unpacked(dictionary); err != nil {
			return nil, err
		}
	}
	if p, err = c.unpacked(at); err != nil {
		return nil, err
	}
	return c.decode(d, p, 0)
}

// value returns a value of a page of byte arrays, null if there is none. dictionary returns that of the page.
func (c chunk) value(dictionary func() (*entries, error), at, row int64) (value []byte, err error) {
	p, err := c.unpacked(at)
	if err != nil {
		return nil, err
	}
	var d *entries
	places := page{}
	if p.byDictionary() {
		if d, err = dictionary(); err != nil {
			return nil, err
		}
		places = d.places
	}
	decoded, err := c.decode(places, p, row)
	if err != nil {
		return nil, err
	}
	defer pq.Release(decoded)
	var one [1]pq.Value
	if n, err := decoded.Values().ReadValues(one[:]); n == 0 {
		return nil, fmt.Errorf("a page without its values: %w", err)
	}
	switch raw := one[0].ByteArray(); {
	case one[0].IsNull():
		return nil, nil
	case d != nil:
		return d.value(binary.LittleEndian.Uint32(raw)), nil
	default:
		return bytes.Clone(raw), nil
	}
}

// entries are the values of a page by which other pages write numbers. pyarrow puts whole row groups of images into
// one. In its place the library gets one of the numbers themselves.
type entries struct {
	content []byte
	ends    []int // of the values, each behind its length
	places  page
}

// dictionary reads a dictionary of byte arrays.
func (c chunk) dictionary(at int64) (*entries, error) {
	p, err := c.unpacked(at)
	if err != nil {
		return nil, err
	}
	n := int(p.DictionaryPageHeader.V.NumValues)
	d, places, rest := &entries{content: p.unpacked}, []byte{}, p.unpacked
	for k := range n {
		if len(rest) < 4 || uint64(binary.LittleEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return nil, fmt.Errorf("the dictionary at byte %d has fewer than its %d values: the file is damaged", at, n)
		}
		rest = rest[4+binary.LittleEndian.Uint32(rest):]
		d.ends = append(d.ends, len(d.content)-len(rest))
		places = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(places, 4), uint32(k))
	}
	p.unpacked = places
	d.places = p
	return d, nil
}

// value returns a copy of a value.
func (d *entries) value(k uint32) []byte {
	begin := 4
	if k > 0 {
		begin += d.ends[k-1]
	}
	return bytes.Clone(d.content[begin:d.ends[k]])
}

// decode returns the values of an unpacked page from one on; dictionary may be the zero value.
func (c chunk) decode(dictionary, data page, first int64) (pq.Page, error) {
	file, columns := []byte(magic), make([]format.ColumnChunk, c.columns)
	meta, rows := &columns[c.column].MetaData, data.rows
	for _, part := range []struct {
		page
		to *int64
	}{{dictionary, &meta.DictionaryPageOffset}, {data, &meta.DataPageOffset}} {
		if part.unpacked == nil {
			continue
		}
		size := int32(len(part.unpacked))
		part.CompressedPageSize, part.UncompressedPageSize, part.CRC = size, size, 0
		*part.to = int64(len(file))
		file = append(append(file, marshalled(part.PageHeader)...), part.unpacked...)
	}
	meta.NumValues, meta.TotalCompressedSize = rows, int64(len(file)-len(magic))
	footer := marshalled(format.FileMetaData{Version: 1, Schema: c.schema, NumRows: rows,
		RowGroups: []format.RowGroup{{NumRows: rows, Columns: columns}}})
	file = append(binary.LittleEndian.AppendUint32(append(file, footer...), uint32(len(footer))), magic...)
	p, err := pq.OpenFile(bytes.NewReader(file), int64(len(file)), fileOptions...)
	if err != nil {
		return nil, err
	}
	pages := p.RowGroups()[0].ColumnChunks()[c.column].Pages()
	defer pages.Close()
	if err := pages.SeekToRow(first); err != nil {
		return nil, err
	}
	page, err := pages.ReadPage()
	return page, disk.Damage(err)
}

func marshalled(v any) []byte {
	raw, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		panic(err) // only of a writer
	}
	return raw
}

// unpacked returns a page with its content, which has exactly the size that the header declares.
func (c chunk) unpacked(at int64) (p page, err error) {
	if p, err = c.page(at); err != nil {
		return p, err
	}
	raw := make([]byte, p.CompressedPageSize)
	if _, err := c.file.ReadAt(raw, p.content); err != nil {
		return p, disk.Damage(err)
	}
	if sum := uint32(p.CRC); sum != 0 && sum != crc32.ChecksumIEEE(raw) {
		return p, fmt.Errorf("the page at byte %d has another checksum: the file is damaged", at)
	}
	codec, levels := c.codec, 0 // levels are never compressed
	if v2 := p.DataPageHeaderV2.V; p.Type == format.DataPageV2 {
		levels = int(v2.DefinitionLevelsByteLength) + int(v2.RepetitionLevelsByteLength)
		if v2.IsCompressed.Valid && !v2.IsCompressed.V {
			codec = format.Uncompressed
		}
	}
	size := int(p.UncompressedPageSize)
	switch packed := len(raw) - levels; {
	case levels < 0 || packed < 0 || size < levels:
		return p, fmt.Errorf("a page of %d and %d bytes at byte %d has %d bytes of levels: the file is damaged",
			len(raw), size, at, levels)
	case size > maxUnproved && size/maxRatio > packed:
		return p, fmt.Errorf("a page of %d bytes that unpack to %d at byte %d: more than %d times as many", packed, size,
			at, maxRatio)
	}
	p.unpacked = make([]byte, size)
	copy(p.unpacked, raw[:levels])
	if err := unpack(p.unpacked[levels:], raw[levels:], codec); err != nil {
		return p, fmt.Errorf("a page at byte %d does not unpack to the %d bytes that its header says: %w", at, size, err)
	}
	return p, nil
}

var unzstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true)) // no error

// unpack fills out with the content of a page, and allocates no more than that is long.
func unpack(out, raw []byte, codec format.CompressionCodec) (err error) {
	n := 0
	switch {
	case len(raw)+len(out) == 0: // no values
	case codec == format.Uncompressed:
		n = len(raw)
		copy(out, raw)
	case codec == format.Snappy:
		if n, err = snappy.DecodedLen(raw); err == nil && n == len(out) {
			_, err = snappy.Decode(out, raw)
		}
	case codec == format.Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(raw)); err == nil {
			n, err = io.ReadFull(r, out)
		}
		if err == nil { // a checksum is at the end
			var more int
			more, err = r.Read(make([]byte, 1))
			n += more
			if errors.Is(err, io.EOF) {
				err = nil
			}
		}
	case codec == format.Zstd:
		var all []byte
		all, err = unzstd.DecodeAll(raw, out[:0:len(out)])
		n = len(all)
	default:
		return fmt.Errorf("it is compressed by %s, whose output cannot be limited: use snappy, gzip, zstd or none", codec)
	}
	if err == nil && n != len(out) {
		err = errors.New("it has another size")
	}
	return err
}
