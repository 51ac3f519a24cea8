// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package parquet reads labelled images from Parquet files in the layout of the Hugging Face hub: a column image (or
// img) with a field bytes (an image file), and a column label (or labels, fine_label) with integers from 0.
//
// Images are read in the random order of an epoch. The pages of a row group are found by their headers on first use;
// then each image requires reading one page, about a megabyte, or a dictionary of its row group; the last two are kept.
// Memory contains a label and a fraction of a page index per image.
package parquet

import (
	"bytes"
	"cmp"
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
const bytesLeaf = "bytes"

var (
	imageColumns = []string{"image", "img"}
	labelColumns = []string{"label", "labels", "fine_label"}
)

// Shards are the images of Parquet files.
type Shards struct {
	Labels  []int32
	Classes []string // in the hub's metadata of the first file, else nil; other files have none or the same

	files  []*os.File // open while they are in use
	groups []*group

	mu     sync.Mutex
	recent [2]struct { // dictionaries, of neighbouring images the same
		*group
		*entries
	}
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
	image, label, err := columns(p.Root())
	if err != nil {
		return err
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
			return fmt.Errorf("%s: %w", label.Name(), err)
		}
		if n := len(s.Labels) - before; n != int(meta.NumRows) {
			return fmt.Errorf("row group %d has %d labels for %d rows", i, n, meta.NumRows)
		}
		s.groups = append(s.groups, &group{images, shard, row, before, sync.OnceValues(images.pages)})
		row += int(meta.NumRows)
	}
	switch names := hubClasses(p, label.Name()); {
	case shard == 0:
		s.Classes = names
	case names != nil && !slices.Equal(names, s.Classes):
		return fmt.Errorf("its class names %.80q differ from %s's %.80q: write the same names into all files", names,
			s.files[0].Name(), s.Classes)
	}
	return nil
}

// columns returns the columns that are read.
func columns(root *pq.Column) (image, label *pq.Column, err error) {
	for _, name := range imageColumns {
		image = cmp.Or(image, leaf(root, name, bytesLeaf))
	}
	for _, name := range labelColumns {
		label = cmp.Or(label, leaf(root, name))
	}
	if image == nil || image.Type().Kind() != pq.ByteArray || label == nil ||
		label.Type().Kind() != pq.Int64 && label.Type().Kind() != pq.Int32 {
		var names []string
		for _, column := range root.Columns() {
			names = append(names, column.Name())
		}
		return nil, nil, fmt.Errorf("want a column %s with %s and a column %s of integers, not the columns %.200q: rename "+
			"them", strings.Join(imageColumns, " or "), bytesLeaf, strings.Join(labelColumns, ", "), names)
	}
	return image, label, nil
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
		page, err := c.read(found.dictionary, p.at)
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
func hubClasses(p *pq.File, labelColumn string) []string {
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
	return g.value(func() (*entries, error) { return s.dictionary(g, found.dictionary) }, p.at, row-p.row)
}

// dictionary returns that of a row group, and keeps two of up to 64 MiB.
func (s *Shards) dictionary(g *group, at int64) (*entries, error) {
	s.mu.Lock()
	for _, r := range s.recent {
		if r.group == g {
			s.mu.Unlock()
			return r.entries, nil
		}
	}
	s.mu.Unlock()
	if at == 0 {
		return nil, errors.New("a page of a dictionary that is not there: the file is damaged")
	}
	d, err := g.chunk.dictionary(at)
	if err == nil && len(d.content) <= 64<<20 {
		s.mu.Lock()
		s.recent[1] = s.recent[0]
		s.recent[0].group, s.recent[0].entries = g, d
		s.mu.Unlock()
	}
	return d, err
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
