// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

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
	In interface {
		Open(part int) (io.ReadCloser, error)
		Where(part int) string // the name of a part in errors
	}
	Ignored map[string]int // files beside the images that are of no type that Folder reads, by extension; see IgnoredText

	shards string  // identifies the container's shards, "" for separate files
	parts  []int32 // [n], indices in the container; nil for 0, 1, 2, …
	all    *Files  // the dataset that has these rows; nil for all rows
}

// container is the type of Files.In.
type container interface {
	Open(part int) (io.ReadCloser, error)
	Where(part int) string
}

// NewFiles returns labelled files by their slash-separated paths in a directory.
func NewFiles(name, dir string, paths []string, labels []int32, classes []string) (*Files, error) {
	in := &directory{dir: dir}
	for _, path := range paths {
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			return nil, fmt.Errorf("data: %s: path %.60q leaves the directory", dir, path)
		}
		in.names.add(path)
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

// Join returns the files of several datasets with the same classes as one, in the order given.
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
		return nil, asDamage(err)
	}
	return raw, nil
}

// read returns the bytes of a file.
func (f *Files) read(row int) ([]byte, error) {
	raw, err := f.head(row, maxFileBytes+1)
	if err == nil {
		err = bounded(raw)
	}
	return raw, err
}

// IgnoredText lists files that are not read: extensions and their numbers, of several datasets together; "" for none.
func IgnoredText(parts ...map[string]int) string {
	total := map[string]int{}
	for _, ignored := range parts {
		for extension, n := range ignored {
			total[extension] += n
		}
	}
	var text []string
	for _, extension := range slices.Sorted(maps.Keys(total)) {
		text = append(text, fmt.Sprintf("%s (%d)", cmp.Or(extension, "no extension"), total[extension]))
	}
	return strings.Join(text, ", ")
}

// directory is a container of separate files.
type directory struct {
	dir   string
	names names
}

// Open implements container.
func (d *directory) Open(part int) (io.ReadCloser, error) {
	return disk.Open(filepath.Join(d.dir, filepath.FromSlash(d.names.at(part))))
}

// Where implements container.
func (d *directory) Where(part int) string { return d.names.at(part) }

// Load decodes the files on all cores and returns them as images of one size in memory. Missing or damaged images are
// an error that lists them. logger, which may be nil, gets the warning [ClippedGrey].
func (f *Files) Load(ctx context.Context, p preprocess.Settings, logger *slog.Logger) (*InMemory, error) {
	var clipped atomic.Int64
	m, err := f.load(ctx, p, func(int) { clipped.Add(1) })
	if n := clipped.Load(); n > 0 && logger != nil {
		logger.Warn(ClippedGrey, "dataset", f.Name, "images", n, "of", f.Len())
	}
	return m, err
}

// load is Load, and calls clipped for each row of an image with Clipped set, concurrently.
func (f *Files) load(ctx context.Context, p preprocess.Settings, clipped func(row int)) (*InMemory, error) {
	m, err := newMemory(f.Name, f.Len(), f.Classes, p)
	if err != nil {
		return nil, err
	}
	damaged := make([]error, f.Len())
	memory := semaphore.NewWeighted(maxPixels)
	err = parallel(ctx, f.Len(), func(ctx context.Context, i int) error {
		img, err := f.image(ctx, i, memory, func(kind format, raw []byte, height, width int) (*Image, error) {
			img, err := kind.image(source{raw: raw}, height, width)
			if err != nil {
				return nil, err
			}
			if img.Clipped {
				clipped(i)
			}
			return img.Preprocess(p)
		})
		var failed *ImageError
		switch {
		case err == nil:
			m.put(i, img)
		case errors.Is(err, fs.ErrNotExist):
			damaged[i] = errors.New("no such file")
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
	if err := f.unreadable(damaged); err != nil {
		return nil, err
	}
	copy(m.Labels, f.Labels)
	return m, nil
}

// image reads and identifies a file and decodes it. memory bounds the number of pixels decoded concurrently. Errors of
// the file have type *ImageError.
func (f *Files) image(ctx context.Context, row int, memory *semaphore.Weighted,
	decode func(kind format, raw []byte, height, width int) (*Image, error)) (*Image, error) {
	raw, err := f.read(row)
	if err != nil {
		return nil, &ImageError{f.Where(row), err, false}
	}
	kind, height, width, err := identify(raw, maxPixels)
	if err != nil {
		return nil, &ImageError{f.Where(row), err, true}
	}
	pixels := int64(height) * int64(width)
	if err := memory.Acquire(ctx, pixels); err != nil {
		return nil, err
	}
	defer memory.Release(pixels)
	img, err := decode(kind, raw, height, width)
	if err != nil {
		return nil, &ImageError{f.Where(row), err, true}
	}
	return img, nil
}

// Read decodes one file.
func (f *Files) Read(row int) (*Image, error) {
	raw, err := f.read(row)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", f.Where(row), err)
	}
	img, err := decode(raw, maxPixels)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", f.Where(row), err)
	}
	return img, nil
}

// unreadable is an error of type *ImageError that lists the images with an error.
func (f *Files) unreadable(damaged []error) error {
	var lines []string
	for i, err := range damaged {
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", f.Where(i), err))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &ImageError{fmt.Sprintf("%s: %d of %d images", f.Name, len(lines), len(damaged)),
		errors.New(shortened(lines)), true}
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
