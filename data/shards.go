// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wepe-go/wepe/data/internal/parquet"
	"github.com/wepe-go/wepe/internal/disk"
)

// classNamesFile may be beside shards that do not name their classes: one name per line.
const classNamesFile = "classnames.txt"

const (
	maxClassNames = 16 << 20 // bytes
	sparseClasses = 100      // labels without images that are accepted in any dataset without names
)

// shardKinds are the kinds of shards, see [Find]. index returns the images of files in their order, their labels, and
// the names of classes if the files have them.
var shardKinds = []struct {
	extension, name string
	index           func(paths []string) (in container, labels []int32, classes []string, err error)
}{
	{".parquet", "Parquet files", func(paths []string) (container, []int32, []string, error) {
		s, err := parquet.Index(paths)
		if err != nil {
			return nil, nil, nil, err
		}
		return s, s.Labels, s.Classes, nil
	}},
	{".tar", "tar shards", indexTar},
}

// ErrKinds is wrapped by the error of a directory with two kinds of datasets.
var ErrKinds = errors.New("two kinds of datasets")

// Find finds the images of a directory, and returns their splits and a description of the format. It contains class
// folders, see [Folder], or shards:
//
//   - tar files in WebDataset format: adjacent members with the same name up to the first dot of its last part form a
//     sample; 0017.jpg is an image (any extension that Folder reads) and 0017.cls its label, a number from 0 on as
//     text; others, like 0017.json, are not read;
//   - .parquet files in the layout of the Hugging Face hub: a column image or img with a field bytes, an image file,
//     and a column label, labels or fine_label of integers from 0.
//
// Shards are in the directory or in its folders data, train, val, test and so on. The split of a shard is that of its
// folder, otherwise that of a word in its name, as in train-0017.tar; if no file has a split, all are for training.
// Images keep the order of the sorted shards. The names of classes are those of the hub's metadata, the lines of
// classnames.txt in the directory, or 0 to the largest label. Two names for one split, as val and validation, are an
// error that wraps [ErrSplits].
func Find(dir string) (parts Parts, format string, err error) {
	kind, paths := -1, [3][]string{}
	for i, k := range shardKinds {
		found, err := findShards(dir, k.extension)
		switch {
		case err != nil:
			return parts, "", fmt.Errorf("data: %w", err)
		case len(found[0]) == 0:
		case kind >= 0:
			return parts, "", fmt.Errorf("data: %w, %s and %s: move one of them to another directory", ErrKinds,
				shardKinds[kind].name, k.name)
		default:
			kind, paths = i, found
		}
	}
	if parts, err = Folder(dir); kind < 0 {
		return parts, "a folder per class", err
	}
	k := shardKinds[kind]
	if err == nil || errors.Is(err, ErrSplits) {
		return Parts{}, "", fmt.Errorf("data: %w, %s (%s) and folders of images: move one of them to another "+
			"directory", ErrKinds, k.name, filepath.Base(paths[0][0]))
	}
	parts, n := Parts{}, 0
	var classes []string
	for i, to := range parts.each() {
		if paths[i] == nil {
			continue
		}
		in, labels, names, err := k.index(paths[i])
		switch {
		case err != nil:
		case classes != nil && names != nil && !slices.Equal(names, classes):
			err = fmt.Errorf("the class names of %s are %.80q, those of %s %.80q: write the same names into all files",
				splitNames[i][0], names, splitNames[0][0], classes)
		default:
			if classes == nil {
				classes = names
			}
			*to, err = newShards(dir, paths[i], in, labels, classes)
			if s, ok := in.(*tarShards); ok && err == nil && s.beyond > 0 {
				(*to).Ignored = map[string]int{"images with another dot in their names": s.beyond}
			}
		}
		if err != nil {
			return Parts{}, "", fmt.Errorf("data: %s: %w", dir, err)
		}
		classes, n = (*to).Classes, n+len(paths[i])
	}
	return parts, fmt.Sprintf("%d %s", n, k.name), nil
}

// findShards finds the files of each split with the given extension.
func findShards(dir, extension string) (paths [3][]string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return paths, err
	}
	folders := []string{"."}
	for _, entry := range entries {
		if name := entry.Name(); name == "data" || splitOf(name) >= 0 {
			switch info, err := os.Stat(filepath.Join(dir, name)); {
			case err != nil: // of a link
				return paths, err
			case info.IsDir():
				folders = append(folders, name)
			}
		}
	}
	named, others := map[string][]string{}, []string(nil)
	for _, folder := range folders {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil {
			return paths, err
		}
		for _, entry := range entries {
			file := entry.Name()
			if hidden(file) || entry.IsDir() || filepath.Ext(file) != extension {
				continue
			}
			words := strings.FieldsFunc(strings.ToLower(file), func(c rune) bool { return !unicode.IsLetter(c) })
			if splitOf(folder) >= 0 {
				words = []string{strings.ToLower(folder)}
			}
			path, known := filepath.Join(dir, folder, file), slices.Concat(splitNames[:]...)
			if i := slices.IndexFunc(known, func(name string) bool { return slices.Contains(words, name) }); i < 0 {
				others = append(others, path)
			} else {
				named[known[i]] = append(named[known[i]], path)
			}
		}
	}
	if len(named) == 0 {
		paths[0] = others
	} else if paths, err = bySplit(dir, "shards", named, others); err != nil {
		return paths, err
	}
	for _, p := range paths {
		slices.Sort(p)
	}
	return paths, nil
}

// newShards returns the images of a container of shards, named after dir. If classes is nil, class names are read from
// classNamesFile in the directory, or are 0 to the largest label.
func newShards(dir string, paths []string, in container, labels []int32, classes []string) (*Files, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("the %d shards contain no images (%s)", len(paths), strings.Join(imageExtensions, ", "))
	}
	h := sha256.New()
	for _, shard := range paths {
		info, err := os.Stat(shard)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(h, "%q %d\n", filepath.Base(shard), info.Size())
	}
	if classes == nil {
		text, err := disk.ReadFile(filepath.Join(dir, classNamesFile), maxClassNames)
		switch {
		case err == nil && !utf8.Valid(text):
			err = fmt.Errorf("%s is not UTF-8: convert it", classNamesFile)
		case err == nil:
			text := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
			classes = strings.Split(strings.TrimSpace(text), "\n")
			if i := slices.Index(classes, ""); i >= 0 {
				err = fmt.Errorf("%s: line %d is empty: name the class, or remove the line", classNamesFile, i+1)
			}
		case errors.Is(err, fs.ErrNotExist):
			if classes, err = numberedClasses(labels); err != nil {
				err = fmt.Errorf("%w, or name all in %s", err, classNamesFile)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	for part, label := range labels {
		if label < 0 || int(label) >= len(classes) {
			return nil, fmt.Errorf("%s: label %d, want 0 to %d: correct it, or name all classes, in %s if the files name none",
				in.Where(part), label, len(classes)-1, classNamesFile)
		}
	}
	return &Files{Name: filepath.Base(dir), Dir: dir, Labels: labels, Classes: classes, In: in,
		shards: hex.EncodeToString(h.Sum(nil))}, nil
}

// Fingerprint writes what identifies all files of the dataset, also those outside this split, without reading them.
func (f *Files) Fingerprint(w io.Writer) { cmp.Or(f.all, f).hash(w) }

// hash writes what identifies these files: the names and sizes of their shards, or their own names.
func (f *Files) hash(w io.Writer) {
	if f.shards != "" {
		fmt.Fprintf(w, "%s %v\n", f.shards, f.parts)
		return
	}
	for row := range f.Len() {
		fmt.Fprintf(w, "%q\n", f.Where(row))
	}
}

// numberedClasses names classes by their numbers, up to the largest label. A model has an output for each, so most must
// occur: one wrong label would make a million.
func numberedClasses(labels []int32) (classes []string, err error) {
	largest, seen := int32(-1), map[int32]bool{}
	for _, label := range labels {
		largest, seen[label] = max(largest, label), true
	}
	if int(largest) >= 2*len(seen)+sparseClasses {
		return nil, fmt.Errorf("the largest label is %d, but only %d labels occur: number the classes from 0 without "+
			"gaps", largest, len(seen))
	}
	for label := range largest + 1 {
		classes = append(classes, strconv.Itoa(int(label)))
	}
	return classes, nil
}

// tarShards are images in tar files.
type tarShards struct {
	files  []*os.File // open while they are in use
	images []member
	dotted string // an image that is none by WebDataset's rule: its extension begins at the first dot
	beyond int    // images like it
}

// member is an image: its shard, its name, and the bytes of its content.
type member struct {
	shard    int
	name     string
	at, size int64
}

// indexTar reads the headers of tar files. Memory holds the name of each image and 40 bytes.
func indexTar(paths []string) (in container, labels []int32, classes []string, err error) {
	s := &tarShards{}
	for _, shard := range paths {
		if err := s.index(&labels, shard); err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", shard, err)
		}
	}
	if len(labels) == 0 && s.dotted != "" {
		stem, extension, _ := strings.Cut(path.Base(s.dotted), ".")
		return nil, nil, nil, fmt.Errorf("the %d shards contain no samples: the name of a sample ends at its first dot, so "+
			"%s is %q of sample %s: rename the members without other dots", len(paths), s.dotted, extension, stem)
	}
	return s, labels, nil, nil
}

// index adds the images of a shard.
func (s *tarShards) index(labels *[]int32, shardPath string) error {
	file, err := disk.Open(shardPath)
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	var key string // of the current sample
	var img *member
	label := int32(-1)
	end := func() error { // of a sample
		switch {
		case img == nil && label < 0:
		case img == nil:
			return fmt.Errorf("%s has a label but no image (%s)", key, strings.Join(imageExtensions, ", "))
		case label < 0:
			return fmt.Errorf("%s has an image but no label: add %s.cls to the archive", key, key)
		default:
			s.images, *labels = append(s.images, *img), append(*labels, label)
		}
		img, label = nil, -1
		return nil
	}
	for archive := tar.NewReader(file); ; {
		header, err := nextFile(archive)
		if errors.Is(err, io.EOF) {
			return end()
		} else if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		base := path.Base(name)
		stem, extension, _ := strings.Cut(base, ".")
		if sample := path.Join(path.Dir(name), stem); sample != key {
			if err := end(); err != nil {
				return err
			}
			key = sample
		}
		extension = "." + strings.ToLower(extension)
		switch known := slices.Contains(imageExtensions, extension); {
		case extension == ".cls" && label >= 0:
			return fmt.Errorf("%s has two labels", key)
		case extension == ".cls":
			if label, err = readLabel(archive); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case known && img != nil:
			return fmt.Errorf("%s has two images", key)
		case known && header.Size > maxFileBytes:
			return fmt.Errorf("%s: %d bytes, want at most %d", name, header.Size, maxFileBytes)
		case known:
			at, err := file.Seek(0, io.SeekCurrent) // of its content: nothing is read ahead
			if err != nil {
				return err
			}
			img = &member{len(s.files) - 1, header.Name, at, header.Size}
		case isImage(base):
			s.dotted = name
			s.beyond++
		}
	}
}

// nextFile returns the header of the next file that is not hidden, io.EOF after the last one.
func nextFile(archive *tar.Reader) (*tar.Header, error) {
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, disk.Damage(err)
		case isSparse(header):
			return nil, fmt.Errorf("%s is a sparse file: create the archive again without sparse files", header.Name)
		case header.Typeflag == tar.TypeReg && !hidden(path.Base(path.Clean(header.Name))):
			return header, nil
		}
	}
}

// readLabel reads the content of a .cls file.
func readLabel(content io.Reader) (int32, error) {
	text, err := io.ReadAll(io.LimitReader(content, 64))
	if err != nil {
		return 0, err
	}
	return parseLabel(string(text), maxLabels)
}

// isSparse reports whether the content of a member has holes, so that it is not a range of bytes of the archive.
func isSparse(header *tar.Header) bool {
	for record := range header.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

// Open implements container.
func (s *tarShards) Open(part int) (io.ReadCloser, error) {
	m := s.images[part]
	file := s.files[m.shard]
	if _, err := file.ReadAt(make([]byte, 1), m.at+m.size-1); err != nil { // the shard has become shorter
		return nil, disk.Damage(err)
	}
	return io.NopCloser(io.NewSectionReader(file, m.at, m.size)), nil
}

// Where implements container: the shard, and the name of the image in it.
func (s *tarShards) Where(part int) string {
	m := s.images[part]
	return fmt.Sprintf("%s: %s", s.files[m.shard].Name(), m.name)
}
