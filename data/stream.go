// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// Streaming says how the pictures of a set are read that is not held in memory.
type Streaming struct {
	Workers int               // pictures that are decoded at the same time; 0 for one a core
	Skip    bool              // leaves damaged pictures out, up to one in a hundred; else the first is an error
	Log     func(line string) // told once of each picture that is left out; may be nil
}

// stream is where the pictures of a set come from.
type stream struct {
	Streaming
	files    *Files
	settings preprocess.Settings
	damaged  map[int]bool // rows that were met and left out
}

// Stream returns the files as a set that holds none of their pictures: each is read, decoded and brought to its size
// when a batch needs it, see Feed. What is kept is an index, less than a hundred bytes a picture.
//
// A random crop is taken of the whole picture and resized as the augmentation resamples (Augment.Picture); pictures
// that are not cropped at random are just those of Load.
func (f *Files) Stream(p preprocess.Settings, how Streaming) (*Set, error) {
	set, err := emptySet(f.Name, f.Len(), f.Classes, p)
	if err != nil {
		return nil, err
	}
	if p.Fit == preprocess.FitPatches || p.Float {
		return nil, fmt.Errorf("data: %s: pictures in patches, and pixels that are not rounded, are not streamed: load them",
			f.Name)
	}
	set.Labels = f.Labels
	set.stream = &stream{how, f, p, map[int]bool{}}
	return set, nil
}

// Streamed says whether the pictures are read for each batch, see Feed, and not held.
func (s *Set) Streamed() bool { return s.stream != nil }

// Fed says whether the pictures of a batch come from a Feed: those of a stream, and what the host changes.
func (s *Set) Fed(a Augment) bool { return s.stream != nil || a.OnHost() }

// InGraph returns what is left of an augmentation for the graph: the pictures of a stream come cropped.
func (s *Set) InGraph(a Augment) Augment {
	if a.OnHost() || s.stream != nil && a.crops() {
		return a.AfterHost()
	}
	return a
}

// Held returns the given rows as a set in memory, uncropped: those of a stream are read.
func (s *Set) Held(rows []int) (*Set, error) {
	if s.stream == nil {
		return s.Subset(rows), nil
	}
	set, err := s.stream.files.Subset(rows).Load(context.Background(), s.stream.settings, nil)
	if err == nil {
		set.Name = s.Name
	}
	return set, err
}

// Damaged lists the rows of a stream that were met and left out so far. A run that goes on tells it those that it had
// met before.
func (s *Set) Damaged() []int {
	if s.stream == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.stream.damaged))
}

// LeaveOut adds rows to Damaged.
func (s *Set) LeaveOut(rows ...int) {
	for _, row := range rows {
		s.stream.damaged[row] = true
	}
}

// Left says whether a row was left out.
func (s *Set) Left(row int) bool { return s.stream != nil && s.stream.damaged[row] }

func (s *stream) subset(rows []int) *stream {
	out := &stream{s.Streaming, s.files.Subset(rows), s.settings, map[int]bool{}}
	for k, row := range rows {
		if s.damaged[row] {
			out.damaged[k] = true
		}
	}
	return out
}

// fingerprint adds what decides the pixels, as far as it is known without reading them.
func (s *stream) fingerprint(h io.Writer) {
	fmt.Fprintf(h, "streamed %+v\n", s.settings)
	if s.files.In != nil {
		fmt.Fprintf(h, "%s %v\n", s.files.In.Fingerprint(), s.files.numbers)
		return
	}
	for _, path := range s.files.Paths.All() {
		fmt.Fprintf(h, "%q\n", path)
	}
}

// PictureError is a picture of a stream that cannot be shown.
type PictureError struct {
	Where   string
	Err     error
	Damaged bool // it was read but is no picture; else it could not be read
}

// Error implements error.
func (e *PictureError) Error() string {
	if e.Damaged {
		return fmt.Sprintf("data: %s is damaged: %v: mend or remove it, or leave out what is damaged", e.Where, e.Err)
	}
	return fmt.Sprintf("data: %s cannot be read: %v", e.Where, e.Err)
}

// Unwrap returns what happened.
func (e *PictureError) Unwrap() error { return e.Err }

// picture reads a row and brings it to the size of the set, as the augmentation shows the index in an epoch where that
// is done on the host. Only a crop is taken of the whole picture.
func (s *stream) picture(ctx context.Context, from *contents, memory *semaphore.Weighted, row int, a Augment,
	seed int64, epoch, index int) (*Picture, error) {
	raw, err := from.read(row)
	if err != nil {
		return nil, &PictureError{s.files.where(row), err, false}
	}
	damaged := func(err error) error { return &PictureError{s.files.where(row), err, true} }
	kind, height, width, err := identify(raw, maxPixels)
	if err != nil {
		return nil, damaged(err)
	}
	pixels := int64(height) * int64(width)
	if err := memory.Acquire(ctx, pixels); err != nil {
		return nil, err
	}
	defer memory.Release(pixels)
	if a.crops() { // as Picture does it, without decoding more than is shown
		var w window
		choose := func(height, width int) window {
			w = a.window(draw(streamSample, seed, epoch, index), height, width)
			return w
		}
		shown, err := kind.cropped(raw, height, width, choose, a.Size[0], a.Size[1],
			cmp.Or(a.Resample, preprocess.Bilinear))
		if err != nil {
			return nil, damaged(err)
		}
		shown.flip(w)
		return a.change(shown, seed, epoch, index), nil
	}
	picture, err := kind.picture(raw, height, width)
	if err == nil {
		picture, err = picture.Preprocess(s.settings)
	}
	if err != nil {
		return nil, damaged(err)
	}
	if a.OnHost() {
		picture = a.Picture(picture, seed, epoch, index)
	}
	return picture, nil
}
