// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package parquet reads labelled images from Parquet files in the layout of the Hugging Face hub: a column image with a
// field bytes (an image file), and a column label with integers from 0.
//
// Images are read in the random order of an epoch. The pages of a row group are found by their headers on first use;
// then each image requires reading one page, about a megabyte. Memory contains a label and a fraction of a page index
// per image, and a footer per row group.
package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"sync"

	pq "github.com/parquet-go/parquet-go"

	"github.com/wepe-go/wepe/internal/disk"
)

// The columns that are read.
const (
	imageColumn, bytesLeaf = "image", "bytes"
	labelColumn            = "label"
)

// Shards are the images of Parquet files.
type Shards struct {
	Labels  []int32
	Classes []string // in the hub's metadata of the first file, else nil; other files have none or the same

	files  []*os.File // open while they are in use
	sizes  []int64    // of the files
	groups []*group
	schema *pq.Schema // of the first file
	column int        // index of the images' column
}

// group is a row group. An open file takes kilobytes for each of its groups, so only a footer is stored, as if the file
// had no other group.
type group struct {
	shard  int
	row    int    // of the file, its first
	part   int    // index of its first image
	footer []byte // with its length and the magic bytes
	found  sync.Once
	pages  []byte // the index of its pages, once known
	err    error
}

// Index finds the images of Parquet files, in their order.
func Index(paths []string) (*Shards, error) {
	s := &Shards{}
	for _, path := range paths {
		if err := s.index(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, nil
}

// index adds the images of a file.
func (s *Shards) index(path string) (err error) {
	defer disk.Recover(&err)
	file, err := disk.Open(path)
	if err != nil {
		return err
	}
	shard := len(s.files)
	s.files = append(s.files, file)
	size, err := checkFooter(file)
	if err != nil {
		return err
	}
	p, err := s.open(file, size)
	if err != nil {
		return err
	}
	s.schema = p.Schema()
	image, label := leaf(p.Root(), imageColumn, bytesLeaf), leaf(p.Root(), labelColumn)
	if image == nil || image.Type().Kind() != pq.ByteArray || label == nil ||
		label.Type().Kind() != pq.Int64 && label.Type().Kind() != pq.Int32 {
		return fmt.Errorf("want a column %s with %s and a column %s of integers, as in image datasets of the hub",
			imageColumn, bytesLeaf, labelColumn)
	}
	if shard > 0 && s.column != image.Index() {
		return fmt.Errorf("its columns differ from %s's", s.files[0].Name())
	}
	s.column = image.Index()
	row := 0
	for i, rows := range p.RowGroups() {
		meta := &p.Metadata().RowGroups[i]
		if meta.Ordinal = int16(i); int(meta.Ordinal) != i { // some writers omit it
			return fmt.Errorf("%d row groups, want at most 32768", len(p.RowGroups()))
		}
		chunks := rows.ColumnChunks()
		if len(chunks) <= max(image.Index(), label.Index()) {
			return fmt.Errorf("row group %d lacks columns", i)
		}
		before := len(s.Labels)
		if err := s.addLabels(chunks[label.Index()].(*pq.FileColumnChunk), i, file, row); err != nil {
			return err
		}
		footer, err := footerOf(p.Metadata(), i)
		if err != nil {
			return err
		}
		if n := len(s.Labels) - before; n != int(rows.NumRows()) {
			return fmt.Errorf("row group %d has %d labels for %d rows", i, n, rows.NumRows())
		}
		s.groups = append(s.groups, &group{shard: shard, row: row, part: before, footer: footer})
		row += int(rows.NumRows())
	}
	s.sizes = append(s.sizes, size)
	switch names := hubClasses(p); {
	case shard == 0:
		s.Classes = names
	case names != nil && !slices.Equal(names, s.Classes):
		return fmt.Errorf("its class names %.80q differ from %s's %.80q: write the same names into all files", names,
			s.files[0].Name(), s.Classes)
	}
	return nil
}

// leaf returns the column of a path without repeated parts, nil if there is none.
func leaf(column *pq.Column, path ...string) *pq.Column {
	for _, name := range path {
		if column = column.Column(name); column == nil || column.Repeated() {
			return nil
		}
	}
	if !column.Leaf() {
		return nil
	}
	return column
}

// open reads the footer of a file.
func (s *Shards) open(file io.ReaderAt, size int64) (*pq.File, error) {
	options := []pq.FileOption{pq.SkipPageIndex(true), pq.SkipBloomFilters(true)}
	if s.schema != nil { // skip the metadata, which takes tens of kilobytes and most of the time
		options = append(options, pq.FileSchema(s.schema))
	}
	return pq.OpenFile(file, size, options...)
}

// addLabels reads the labels of a row group, whose first row in the file is given.
func (s *Shards) addLabels(chunk *pq.FileColumnChunk, group int, file *os.File, row int) error {
	found, err := findPages(chunk, group, file, chunk.File().Size())
	if err == nil {
		err = usePages(chunk, group, found)
	}
	if err == nil {
		_, err = prove(chunk, group, file, -1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", labelColumn, err)
	}
	pages := chunk.PagesFrom(file)
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return disk.Damage(err)
		}
		for values, more := page.Values(), true; more; {
			var some [256]pq.Value
			n, err := values.ReadValues(some[:])
			if more = err == nil; !more && !errors.Is(err, io.EOF) {
				return disk.Damage(err)
			}
			for _, v := range some[:n] {
				if v.IsNull() {
					return fmt.Errorf("row %d has no label", row)
				}
				label := v.Int64() // also of 32 bits
				if label < 0 || int64(int32(label)) != label {
					return fmt.Errorf("row %d: label %d, want 0 or more: move files without labels, as of a test split, out of the "+
						"directory", row, label)
				}
				s.Labels = append(s.Labels, int32(label))
				row++
			}
		}
		pq.Release(page)
	}
}

// hubClasses returns the class names that the hub's library writes into its files, nil if there are none.
func hubClasses(p *pq.File) []string {
	text, _ := p.Lookup("huggingface")
	var about struct {
		Info struct {
			Features map[string]struct {
				Names []string `json:"names"`
			} `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &about) != nil {
		return nil
	}
	return about.Info.Features[labelColumn].Names
}

// Open returns the bytes of an image, none if the row has none.
func (s *Shards) Open(part int) (io.ReadCloser, error) {
	content, err := s.read(part)
	return io.NopCloser(bytes.NewReader(content)), err
}

// read returns the bytes of an image, nil if the row has none.
func (s *Shards) read(part int) (content []byte, err error) {
	defer disk.Recover(&err)
	g := s.group(part)
	pages, err := s.pages(g, s.files[g.shard], part-g.part)
	if err != nil {
		return nil, err
	}
	defer pages.Close()
	if err := pages.SeekToRow(int64(part - g.part)); err != nil {
		return nil, err
	}
	page, err := pages.ReadPage()
	if err != nil {
		return nil, disk.Damage(err)
	}
	defer pq.Release(page)
	var value [1]pq.Value
	if n, err := page.Values().ReadValues(value[:]); n == 0 {
		return nil, fmt.Errorf("a page without its values: %w", err)
	}
	if value[0].IsNull() {
		return nil, nil
	}
	return bytes.Clone(value[0].ByteArray()), nil
}

// pages opens the images of a row group to read one row.
func (s *Shards) pages(g *group, file io.ReaderAt, row int) (pq.Pages, error) {
	size := s.sizes[g.shard]
	p, err := s.open(withFooter{file, size, g.footer}, size+int64(len(g.footer)))
	if err != nil {
		return nil, err
	}
	chunk := p.RowGroups()[0].ColumnChunks()[s.column].(*pq.FileColumnChunk)
	g.found.Do(func() {
		defer disk.Recover(&g.err)
		g.pages, g.err = findPages(chunk, 0, file, size)
	})
	if g.err != nil {
		return nil, g.err
	}
	if err := usePages(chunk, 0, g.pages); err != nil {
		return nil, err
	}
	end, err := prove(chunk, 0, file, int64(row))
	if err != nil {
		return nil, err
	}
	return chunk.PagesFrom(io.NewSectionReader(file, 0, end)), nil // nothing of the next page
}

// group finds the row group of an image.
func (s *Shards) group(part int) *group {
	return s.groups[sort.Search(len(s.groups), func(i int) bool { return s.groups[i].part > part })-1]
}

// Where returns the name of an image: the file, and the row in it, from 0.
func (s *Shards) Where(part int) string {
	g := s.group(part)
	return fmt.Sprintf("%s: row %d", s.files[g.shard].Name(), g.row+part-g.part)
}
