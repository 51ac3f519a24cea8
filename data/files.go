// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// maxSetBytes bounds the pixels of a set that is read from files.
const maxSetBytes = 32 << 30

// Files are labelled picture files that have not been read yet: what Folder, Lists and Tar find.
type Files struct {
	Name    string
	Dir     string  // nothing outside it is read, be it by .. or by a link
	Paths   Names   // [n], relative to Dir, with slashes; none for the parts of a Container
	Labels  []int32 // [n], each an index into Classes
	Classes []string

	In      Container // the larger files that these are parts of; nil for files of their own
	numbers []int32   // [n], of the parts; nil for 0, 1, 2, …
}

// Container holds picture files as parts of larger files, as in tar shards. Its methods may be called at the same time.
type Container interface {
	Read(part int) (content []byte, err error)
	Where(part int) string // how errors name a part
	Fingerprint() string   // tells containers apart, without reading all of them
}

// Len returns the number of files.
func (f *Files) Len() int { return len(f.Labels) }

// Subset returns the given rows, in the order given.
func (f *Files) Subset(rows []int) *Files {
	out := &Files{Name: f.Name, Dir: f.Dir, Classes: f.Classes, In: f.In, Labels: make([]int32, len(rows))}
	for k, row := range rows {
		if out.Labels[k] = f.Labels[row]; f.In != nil {
			out.numbers = append(out.numbers, f.number(row))
		} else {
			out.Paths.Add(f.Paths.At(row))
		}
	}
	return out
}

// Slice returns rows from to to-1.
func (f *Files) Slice(from, to int) *Files {
	rows := make([]int, 0, to-from)
	for row := from; row < to; row++ {
		rows = append(rows, row)
	}
	return f.Subset(rows)
}

// number is which part of its container a row is.
func (f *Files) number(row int) int32 {
	if f.numbers == nil {
		return int32(row)
	}
	return f.numbers[row]
}

// where names a row in errors.
func (f *Files) where(row int) string {
	if f.In != nil {
		return f.In.Where(int(f.number(row)))
	}
	return f.Paths.At(row)
}

func (f *Files) add(path string, label int32) {
	f.Paths.Add(path)
	f.Labels = append(f.Labels, label)
}

// Load decodes the files on all cores and returns them as a set of pictures of one size. A picture that is missing or
// damaged is left out; more than one in a hundred are an error that lists them. log, which may be nil, is called with a
// line for each picture that is left out and one with their number.
func (f *Files) Load(ctx context.Context, p preprocess.Settings, log func(line string)) (*Set, error) {
	set, err := newSet(f.Name, f.Len(), f.Classes, p)
	if err != nil {
		return nil, err
	}
	contents, err := f.open()
	if err != nil {
		return nil, err
	}
	defer contents.close()
	damaged := make([]error, f.Len())
	memory := semaphore.NewWeighted(maxPixels) // bounds how many pixels are decoded at the same time
	err = parallel(ctx, f.Len(), func(ctx context.Context, i int) error {
		raw, err := contents.read(i)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			damaged[i] = errors.New("no such file")
			return nil
		case err != nil:
			return fmt.Errorf("data: %s: %w", f.Name, err)
		}
		var picture *Picture
		kind, height, width, err := identify(raw, maxPixels)
		if err == nil {
			pixels := int64(height) * int64(width)
			if memory.Acquire(ctx, pixels) != nil {
				return context.Cause(ctx)
			}
			defer memory.Release(pixels)
			picture, err = kind.picture(raw, height, width)
		}
		if err == nil {
			picture, err = picture.Preprocess(p)
		}
		if damaged[i] = err; err == nil {
			set.put(i, picture)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	copy(set.Labels, f.Labels)
	return set, f.leaveOut(set, damaged, log)
}

// Read decodes one file.
func (f *Files) Read(row int) (*Picture, error) {
	contents, err := f.open()
	if err != nil {
		return nil, err
	}
	defer contents.close()
	raw, err := contents.read(row)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	picture, err := decode(raw, maxPixels)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", f.where(row), err)
	}
	return picture, nil
}

// contents are files opened for reading, by several goroutines at a time.
type contents struct {
	files *Files
	root  *os.Root // nil where there is a container
}

func (f *Files) open() (*contents, error) {
	if f.In != nil {
		return &contents{files: f}, nil
	}
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return &contents{f, root}, nil
}

// read returns the bytes of a file.
func (c *contents) read(row int) ([]byte, error) {
	if c.root == nil {
		return c.files.In.Read(int(c.files.number(row)))
	}
	return readPicture(c.root, c.files.Paths.At(row))
}

func (c *contents) close() {
	if c.root != nil {
		c.root.Close()
	}
}

// readPicture reads a file that is no larger than pictures are.
func readPicture(root *os.Root, path string) ([]byte, error) {
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(file)
}

// leaveOut removes the pictures that could not be read from the set.
func (f *Files) leaveOut(set *Set, damaged []error, log func(string)) error {
	var lines []string
	kept := 0
	for i, err := range damaged {
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", f.where(i), err))
			continue
		}
		if kept < i {
			copy(set.Image(kept), set.Image(i))
			set.Labels[kept] = set.Labels[i]
			if set.Grids != nil {
				set.Grids[kept] = set.Grids[i]
			}
		}
		kept++
	}
	if len(lines) == 0 {
		return nil
	}
	if len(lines)*100 > len(damaged) {
		const shown = 10
		list := strings.Join(lines[:min(shown, len(lines))], "; ")
		if more := len(lines) - shown; more > 0 {
			list += fmt.Sprintf("; and %d more", more)
		}
		return fmt.Errorf("data: %s: %d of %d pictures cannot be read, more than 1 %%: %s", f.Name, len(lines),
			len(damaged), list)
	}
	set.Pixels, set.Labels = set.Pixels[:kept*len(set.Pixels)/len(damaged)], set.Labels[:kept]
	if set.Grids != nil {
		set.Grids = set.Grids[:kept]
	}
	if log != nil {
		for _, line := range lines {
			log("skipped " + line)
		}
		log(fmt.Sprintf("%d of %d pictures of %s skipped", len(lines), len(damaged), f.Name))
	}
	return nil
}

// newSet returns a set with room for n pictures as p leaves them.
func newSet(name string, n int, classes []string, p preprocess.Settings) (*Set, error) {
	set, err := emptySet(name, n, classes, p)
	if err != nil {
		return nil, err
	}
	height, width := set.Height, set.Width
	size := int64(3 * height * width)
	if int64(n) > maxSetBytes/size {
		return nil, fmt.Errorf("data: %s: %d pictures of %d×%d pixels take %d GiB, more than %d: read them as "+
			"they are needed (Stream), or smaller", name, n, width, height, int64(n)*size>>30, maxSetBytes>>30)
	}
	set.Pixels, set.Labels = make([]uint8, int64(n)*size), make([]int32, n)
	if p.Fit == preprocess.FitPatches {
		set.Grids = make([][2]int, n)
	}
	return set, nil
}

// emptySet returns a set for n pictures as p leaves them, without any.
func emptySet(name string, n int, classes []string, p preprocess.Settings) (*Set, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	height, width, err := p.OutputSize()
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("data: %s: no pictures", name)
	}
	return &Set{Name: name, Height: height, Width: width, Channels: 3, Classes: classes}, nil
}

// put makes a picture row i of a set from newSet.
func (s *Set) put(i int, picture *Picture) {
	copy(s.Image(i), picture.Pixels)
	if s.Grids != nil {
		s.Grids[i] = picture.Grid
	}
}

// parallel calls do for 0…n-1 on all cores, until one call fails or the context ends.
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
