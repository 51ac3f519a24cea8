// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The words of shards that name splits, those of held-out splits in the order in which they are tried.
const trainFolder = "train"

var heldFolders = []string{"val", "valid", "validation", "test"}

// classNamesFile may be beside shards that do not name their classes: one name per line.
const classNamesFile = "classnames.txt"

// Shards finds the shards of a dataset, files with the given extension (".tar"), in the directory or in its folders
// data, train, val, valid, validation and test. A word of a file's path selects the split: train, or as held-out split
// the first found of val, valid, validation and test; without such words all files are for training. Files are sorted
// by path.
func Shards(dir, extension string) (train, heldOut []string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, fmt.Errorf("data: %w", err)
	}
	parts := map[string][]string{}
	for _, folder := range append([]string{".", "data", trainFolder}, heldFolders...) {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && folder == "." {
			return nil, nil, fmt.Errorf("data: %w", err)
		}
		for _, entry := range entries {
			if name := entry.Name(); !hidden(name) && !entry.IsDir() && filepath.Ext(name) == extension {
				part := partOf(filepath.Join(folder, name))
				parts[part] = append(parts[part], filepath.Join(dir, folder, name))
			}
		}
	}
	for _, paths := range parts {
		slices.Sort(paths)
	}
	if len(parts[trainFolder]) == 0 {
		return slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(parts))...))), nil, nil
	}
	for _, part := range heldFolders {
		if heldOut = parts[part]; heldOut != nil {
			break
		}
	}
	return parts[trainFolder], heldOut, nil
}

// partOf returns the word of a path that names a split, "" if there is none.
func partOf(file string) string {
	words := strings.FieldsFunc(file, func(c rune) bool { return !unicode.IsLetter(c) })
	for _, part := range append([]string{trainFolder}, heldFolders...) {
		if slices.Contains(words, part) {
			return part
		}
	}
	return ""
}

// NewShards returns the images of a container of shards, in the order of its parts. The dataset is named after dir. If
// classes is nil, class names are read from classNamesFile in the directory, or are 0 to the largest label.
func NewShards(dir string, paths []string, in Container, labels []int32, classes []string) (*Files, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("data: %s: the %d shards contain no images", dir, len(paths))
	}
	h := sha256.New()
	for _, shard := range paths {
		info, err := os.Stat(shard)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		fmt.Fprintf(h, "%q %d\n", filepath.Base(shard), info.Size())
	}
	if classes == nil {
		text, err := os.ReadFile(filepath.Join(dir, classNamesFile))
		switch {
		case err == nil:
			classes = strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")), "\n")
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("data: %w", err)
		default:
			classes = numberedClasses(labels)
		}
	}
	for part, label := range labels {
		if label < 0 || int(label) >= len(classes) {
			return nil, fmt.Errorf("data: %s: label %d, want 0 to %d", in.Where(part), label, len(classes)-1)
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

// numberedClasses names classes by their numbers, up to the largest label.
func numberedClasses(labels []int32) (classes []string) {
	for label := range slices.Max(append(labels[:len(labels):len(labels)], -1)) + 1 {
		classes = append(classes, strconv.Itoa(int(label)))
	}
	return classes
}

// parseLabel reads a label as text.
func parseLabel(r io.Reader) (int32, error) {
	raw, err := io.ReadAll(io.LimitReader(r, 64))
	if err != nil {
		return 0, err
	}
	label, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || label < 0 || label >= maxLabels {
		return 0, fmt.Errorf("label %.20q, want 0 to %d", raw, maxLabels-1)
	}
	return int32(label), nil
}
