// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package parquet reads labelled images from Parquet files in the layout of the Hugging Face hub: a column image with a
// field bytes (an image file), and a column label with integers from 0.
//
// Images are read in the random order of an epoch. The pages of a row group are found by their headers on first use;
// then each image requires reading one page, about a megabyte. Memory contains a label and a fraction of a page index
// per image.
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
	"strings"
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
	groups []*group
}

// group is the images of a row group.
type group struct {
	chunk
	shard int
	row   int // of the file, its first
	part  int // index of its first image
	find  func() (pages, error)
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
	p, err := pq.OpenFile(file, size, fileOptions...)
	if err != nil {
		return err
	}
	image, label := leaf(p.Root(), imageColumn, bytesLeaf), leaf(p.Root(), labelColumn)
	if image == nil || image.Type().Kind() != pq.ByteArray || label == nil ||
		label.Type().Kind() != pq.Int64 && label.Type().Kind() != pq.Int32 {
		return fmt.Errorf("want a column %s with %s and a column %s of integers, as in image datasets of the hub",
			imageColumn, bytesLeaf, labelColumn)
	}
	for i, element := range p.Metadata().Schema {
		p.Metadata().Schema[i].Name = strings.Clone(element.Name) // otherwise it keeps the whole footer
	}
	row := 0
	for i, meta := range p.Metadata().RowGroups {
		if meta.NumRows == 0 { // it may have no pages
			continue
		}
		images, err := chunkOf(file, size, p.Metadata(), i, image.Index())
		if err != nil {
			return err
		}
		before := len(s.Labels)
		labels, err := chunkOf(file, size, p.Metadata(), i, label.Index())
		if err == nil {
			err = s.addLabels(labels, row)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", labelColumn, err)
		}
		if n := len(s.Labels) - before; n != int(meta.NumRows) {
			return fmt.Errorf("row group %d has %d labels for %d rows", i, n, meta.NumRows)
		}
		s.groups = append(s.groups, &group{images, shard, row, before, sync.OnceValues(images.pages)})
		row += int(meta.NumRows)
	}
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

// addLabels reads the labels of a row group, whose first row in the file is given.
func (s *Shards) addLabels(c chunk, row int) error {
	found, err := c.pages()
	if err != nil {
		return err
	}
	for _, p := range found.data {
		page, err := c.read(found.dictionary, p.at, 0)
		if err != nil {
			return err
		}
		for values, more := page.Values(), true; more; {
			var some [256]pq.Value
			n, err := values.ReadValues(some[:])
			if more = err == nil; !more && !errors.Is(err, io.EOF) {
				return err
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
	return nil
}

// hubClasses returns the class names that the hub's library writes into its files, nil if there are none.
func hubClasses(p *pq.File) []string {
	text, _ := p.Lookup("huggingface")
	var about struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"` // of other columns of any form
		} `json:"info"`
	}
	var label struct {
		Names []string `json:"names"`
	}
	if json.Unmarshal([]byte(text), &about) != nil || json.Unmarshal(about.Info.Features[labelColumn], &label) != nil {
		return nil
	}
	return label.Names
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
	found, err := g.find()
	if err != nil {
		return nil, err
	}
	row := int64(part - g.part)
	next := sort.Search(len(found.data), func(i int) bool { return found.data[i].row > row })
	if next == 0 {
		return nil, fmt.Errorf("no page has row %d of its group", row)
	}
	p := found.data[next-1]
	page, err := g.chunk.read(found.dictionary, p.at, row-p.row)
	if err != nil {
		return nil, err
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

// group finds the row group of an image.
func (s *Shards) group(part int) *group {
	return s.groups[sort.Search(len(s.groups), func(i int) bool { return s.groups[i].part > part })-1]
}

// Where returns the name of an image: the file, and the row in it, from 0.
func (s *Shards) Where(part int) string {
	g := s.group(part)
	return fmt.Sprintf("%s: row %d", s.files[g.shard].Name(), g.row+part-g.part)
}
