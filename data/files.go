// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/disk"
)

// Files are labelled image files, not yet read, as returned by [Find], [Folder], [ImageFiles] and [Lists].
type Files struct {
	Name    string
	Dir     string
	Labels  []int32 // [n], each an index into Classes
	Classes []string
	// In is what the images are read from: a directory, tar or Parquet files. Its methods are safe for concurrent use.
	In      container
	Ignored map[string]int // files beside the images, by extension or by the reason why they are not read

	shards string  // identifies the container's shards, "" for separate files
	parts  []int32 // [n], indices in the container; nil for 0, 1, 2, …
	all    *Files  // the dataset that has these rows; nil for all rows
}

type container interface {
	Open(part int) (io.ReadCloser, error)
	Where(part int) string // the name of a part in errors
}

// NewFiles returns labelled files by their slash-separated paths in a directory, each with an index into classes.
func NewFiles(name, dir string, paths []string, labels []int32, classes []string) (*Files, error) {
	in := &directory{dir: dir}
	if len(labels) != len(paths) {
		return nil, fmt.Errorf("data: %s: %d labels for %d paths, want one each", name, len(labels), len(paths))
	}
	for i, path := range paths {
		if label := labels[i]; label < 0 || int(label) >= len(classes) {
			return nil, fmt.Errorf("data: %s: path %.60q has label %d, want 0 to %d", name, path, label, len(classes)-1)
		}
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			return nil, fmt.Errorf("data: %s: path %.60q leaves the directory", dir, path)
		}
		in.names = append(in.names, path)
	}
	return &Files{Name: name, Dir: dir, Labels: labels, Classes: classes, In: in}, nil
}

// Len returns the number of files.
func (f *Files) Len() int { return len(f.Labels) }

// Subset returns the given rows, in the order given.
func (f *Files) Subset(rows []int) *Files {
	out := *f
	out.Labels, out.parts, out.all = picked(f.Labels, rows, 1), make([]int32, len(rows)), cmp.Or(f.all, f)
	for k, row := range rows {
		out.parts[k] = int32(f.part(row))
	}
	return &out
}

// Join returns the files of several datasets with the same classes as one, in the order given. Names of separate files
// then begin with their directory, so Split and Fingerprint depend on where that is.
func Join(name string, parts ...*Files) (*Files, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("data: %s: nothing to join", name)
	}
	all := &Files{Name: name, Dir: parts[0].Dir, Classes: parts[0].Classes, In: joined(parts)}
	for _, f := range parts {
		if !slices.Equal(f.Classes, all.Classes) {
			return nil, fmt.Errorf("data: %s: the classes of %s and %s differ, join only datasets with the same", name,
				parts[0].Name, f.Name)
		}
		all.Labels = append(all.Labels, f.Labels...)
	}
	return all, nil
}

// joined is the container of Join.
type joined []*Files

// at returns the dataset of a part, and the row there.
func (j joined) at(part int) (*Files, int) {
	i := 0
	for ; part >= j[i].Len(); i++ {
		part -= j[i].Len()
	}
	return j[i], part
}

// Open implements container.
func (j joined) Open(part int) (io.ReadCloser, error) {
	f, row := j.at(part)
	return f.In.Open(f.part(row))
}

// Where implements container. Names in a directory begin with it, as several may have the same.
func (j joined) Where(part int) string {
	f, row := j.at(part)
	if f.shards != "" {
		return f.Where(row)
	}
	return filepath.Join(f.Dir, f.Where(row))
}

// part returns the index of a row in its container.
func (f *Files) part(row int) int {
	if f.parts == nil {
		return row
	}
	return int(f.parts[row])
}

// Where returns the name of a row: its path in Dir, or its name in the container.
func (f *Files) Where(row int) string { return f.In.Where(f.part(row)) }

// head returns the first bytes of a file, at most the given number.
func (f *Files) head(row, most int) ([]byte, error) {
	file, err := f.In.Open(f.part(row))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, int64(most)))
	if err != nil {
		return nil, disk.Damage(err)
	}
	return raw, nil
}

// directory is a container of separate files.
type directory struct {
	dir   string
	names []string // slash-separated
}

// Open implements container.
func (d *directory) Open(part int) (io.ReadCloser, error) {
	return disk.Open(filepath.Join(d.dir, filepath.FromSlash(d.names[part])))
}

// Where implements container.
func (d *directory) Where(part int) string { return d.names[part] }

// reading is files that are decoded.
type reading struct {
	*Files
	memory *semaphore.Weighted // bounds the number of pixels decoded concurrently
	logger *slog.Logger        // may be nil
	warned *sync.Once          // of ClippedGrey
}

func (f *Files) reading(logger *slog.Logger) reading {
	return reading{f, semaphore.NewWeighted(MaxPixels), logger, &sync.Once{}}
}

// warn warns of the first image with Clipped set.
func (f reading) warn(row int, img *Image) {
	if img.Clipped && f.logger != nil {
		f.warned.Do(func() { f.logger.Warn(ClippedGrey, "dataset", f.Name, "image", f.Where(row)) })
	}
}

// Load decodes the files on all cores and returns them as images of one size in memory. Missing or damaged images are
// an error that lists them. logger, which may be nil, gets the warning [ClippedGrey].
func (f *Files) Load(ctx context.Context, p preprocess.Settings, logger *slog.Logger) (*InMemory, error) {
	return f.reading(logger).load(ctx, p)
}

// load decodes the files, see Load.
func (f reading) load(ctx context.Context, p preprocess.Settings) (*InMemory, error) {
	m, err := newMemory(f.Name, f.Len(), f.Classes, p)
	if err != nil {
		return nil, err
	}
	damaged := make([]error, f.Len())
	err = parallel(ctx, f.Len(), func(ctx context.Context, i int) error {
		img, err := f.image(ctx, i, func(e Encoded) (*Image, error) { return e.preprocessed(p) })
		var failed *ImageError
		switch {
		case err == nil:
			f.warn(i, img)
			m.put(i, img)
		case errors.Is(err, fs.ErrNotExist):
			damaged[i] = fs.ErrNotExist
		case !errors.As(err, &failed): // the context is done
			return err
		case !failed.Damaged:
			return failed
		default:
			damaged[i] = failed.Err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var lines []string
	for i, err := range damaged {
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", f.Where(i), err))
		}
	}
	if len(lines) > 0 {
		return nil, &ImageError{fmt.Sprintf("%s: %d of %d images", f.Name, len(lines), f.Len()),
			errors.New(shortened(lines)), !slices.Contains(damaged, fs.ErrNotExist)} // a stream skips no missing file
	}
	copy(m.Labels, f.Labels)
	return m, nil
}

// image reads and identifies a file and decodes it. Errors of the file have type *ImageError.
func (f reading) image(ctx context.Context, row int, decode func(e Encoded) (*Image, error)) (*Image, error) {
	raw, err := f.head(row, maxFileBytes+1)
	if err != nil {
		return nil, &ImageError{f.Where(row), err, false}
	}
	e, err := Identify(raw, 0)
	if err != nil {
		return nil, &ImageError{f.Where(row), err, true}
	}
	if err := f.memory.Acquire(ctx, e.Pixels); err != nil {
		return nil, err
	}
	defer f.memory.Release(e.Pixels)
	img, err := decode(e)
	if err != nil {
		return nil, &ImageError{f.Where(row), err, true}
	}
	return img, nil
}

// Read decodes one file.
func (f *Files) Read(row int) (*Image, error) {
	return f.reading(nil).image(context.Background(), row, Encoded.image)
}

// shortened joins the first ten lines.
func shortened(lines []string) string {
	const shown = 10
	list := strings.Join(lines[:min(shown, len(lines))], "; ")
	if more := len(lines) - shown; more > 0 {
		list += fmt.Sprintf("; and %d more", more)
	}
	return list
}

// parallel calls do for 0…n-1 on all cores, until one call fails or the context is done.
func parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, going := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := 0; i < n && going.Err() == nil; i++ {
		group.Go(func() error { return do(going, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

const (
	maxListBytes = 256 << 20
	maxLabels    = 1_000_000
)

// Lists reads a list of images in a directory: VTAB-1k's train800.txt, val200.txt, train800val200.txt and test.txt.
// Each line is a path relative to the directory and a label counted from 0, with white space between:
//
//	images/train800/000017.jpg 3
//
// list is the file's name within dir. Without class names the classes are named 0 to the largest label; with them a
// label beyond the last is an error. A path that leaves dir is an error.
func Lists(dir, list string, classes []string) (*Files, error) {
	if !filepath.IsLocal(list) {
		return nil, fmt.Errorf("data: %s: list %s leaves the directory", dir, list)
	}
	file, err := disk.Open(filepath.Join(dir, list))
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	paths, labels, err := parseList(file, len(classes))
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", filepath.Join(dir, list), err)
	}
	if classes == nil {
		if classes, err = numberedClasses(labels); err != nil {
			return nil, fmt.Errorf("data: %s: %w", filepath.Join(dir, list), err)
		}
	}
	name := filepath.Base(dir) + "-" + strings.TrimSuffix(filepath.Base(list), filepath.Ext(list))
	return &Files{Name: name, Dir: dir, Labels: labels, Classes: classes, In: &directory{dir, paths}}, nil
}

// parseList reads the lines; classes is 0 for any number.
func parseList(r io.Reader, classes int) (paths []string, labels []int32, err error) {
	limit := maxLabels
	if classes > 0 {
		limit = classes
	}
	limited := &io.LimitedReader{R: r, N: maxListBytes}
	lines := bufio.NewScanner(limited)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			return nil, nil, fmt.Errorf("line %d: %d fields in %.60q, want a path without spaces and a label", n, len(fields),
				lines.Text())
		}
		label, err := parseLabel(fields[1], limit)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		path := filepath.FromSlash(fields[0])
		if !filepath.IsLocal(path) {
			return nil, nil, fmt.Errorf("line %d: path %.60q leaves the directory", n, fields[0])
		}
		paths = append(paths, filepath.ToSlash(filepath.Clean(path)))
		labels = append(labels, label)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, nil, fmt.Errorf("line %d: longer than %d bytes", len(labels)+1, bufio.MaxScanTokenSize)
	case err != nil:
		return nil, nil, err
	case limited.N == 0:
		return nil, nil, fmt.Errorf("more than %d bytes", maxListBytes-1)
	case len(labels) == 0:
		return nil, nil, errors.New("the list is empty")
	}
	return paths, labels, nil
}

// parseLabel reads a label below a limit.
func parseLabel(text string, limit int) (int32, error) {
	label, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || label < 0 || label >= limit {
		return 0, fmt.Errorf("label %.20q, want 0 to %d", text, limit-1)
	}
	return int32(label), nil
}
