// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/random"
)

// Streaming are the options of Files.Stream.
type Streaming struct {
	Workers int          // images that Read reads concurrently; 0 for one per core
	Skip    bool         // skip damaged images, up to 1 %; otherwise the first is an error
	Logger  *slog.Logger // gets a warning for each skipped image, and [ClippedGrey]; may be nil
}

// stream is a Dataset that reads each image when a batch needs it. Its index takes less than 100 bytes per image.
type stream struct {
	Info
	files    reading
	settings preprocess.Settings
	checked  bool
}

// Stream returns the files as a Dataset that reads each image when a batch needs it. A random crop is taken from the
// original image and resized by Augment.Interpolation (see [Augment.Apply]); other images equal those of [Files.Load].
func (f *Files) Stream(p preprocess.Settings, how Streaming) (Dataset, error) {
	info, err := newInfo(f.Name, f.Len(), f.Classes, p)
	if err != nil {
		return nil, err
	}
	if p.Resize == preprocess.ResizePatches || p.Float {
		return nil, fmt.Errorf("data: %s: images in patches and unrounded pixels cannot be streamed: load them", f.Name)
	}
	info.Labels, info.Workers, info.skip, info.logger = f.Labels, how.Workers, how.Skip, how.Logger
	return &stream{Info: info, files: f.reading(how.Logger), settings: p}, nil
}

// subset returns the given rows, in the order given.
func (s *stream) subset(rows []int) *stream {
	out := *s
	out.files.Files, out.damaged = s.files.Subset(rows), s.damagedOf(rows)
	out.Labels = out.files.Labels
	return &out
}

// ImageError is the error of an image that cannot be read or decoded.
type ImageError struct {
	Where   string
	Err     error
	Damaged bool // read but not decodable, so that a stream may skip it; otherwise not readable
}

// Error implements error.
func (e *ImageError) Error() string {
	if e.Damaged {
		return fmt.Sprintf("data: %s cannot be read: %v: repair, convert or remove it", e.Where, e.Err)
	}
	return fmt.Sprintf("data: %s cannot be read: %v", e.Where, e.Err)
}

// Unwrap returns e.Err.
func (e *ImageError) Unwrap() error { return e.Err }

// Image implements Dataset.
func (s *stream) Image(ctx context.Context, row int) (*Image, error) { return s.show(ctx, row, view{}) }

// show returns one row after a view. A crop is taken as in Augment.Apply, decoding only the visible part.
func (s *stream) show(ctx context.Context, row int, v view) (*Image, error) {
	return s.files.image(ctx, row, func(e Encoded) (*Image, error) {
		if !v.crops() {
			img, err := e.preprocessed(s.settings)
			if err != nil {
				return nil, err
			}
			if s.files.warn(row, img); v.onHost() {
				img = v.Apply(img, v.Seed, v.Epoch, v.Index)
			}
			return img, nil
		}
		var w window
		img, err := e.cropped(func(height, width int) window {
			w = v.window(random.New(streamSample, v.Seed, v.Epoch, v.Index), height, width)
			return w
		}, v.Size[0], v.Size[1], cmp.Or(v.Interpolation, preprocess.Bilinear), s.settings.Grey16)
		if err != nil {
			return nil, err
		}
		s.files.warn(row, img)
		return v.change(img.flipped(w), v.Seed, v.Epoch, v.Index), nil
	})
}

// check leaves damaged images out if the stream skips them. Headers are read once per stream.
func (s *stream) check(ctx context.Context, full bool) error {
	if s.checked && !full {
		return nil
	}
	failed := make([]error, s.Len())
	err := parallel(ctx, s.Len(), func(ctx context.Context, row int) error {
		switch {
		case s.damaged[row]:
		case full:
			_, failed[row] = s.show(ctx, row, view{})
		default:
			failed[row] = s.checkHeader(row)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	var lines []string
	for row, err := range failed {
		if err != nil {
			err = s.Exclude(row, err)
		}
		if err != nil && s.damaged[row] { // it was one too many
			return err
		}
		if err != nil {
			lines = append(lines, strings.TrimPrefix(err.Error(), "data: "))
		}
	}
	if len(lines) > 0 {
		return fmt.Errorf("data: %s: %d of %d images cannot be used: %s", s.Name, len(lines), s.Len(), shortened(lines))
	}
	s.checked = true
	return nil
}

// checkHeader reads the header of a file: 4 KiB, or more if it has long metadata.
func (s *stream) checkHeader(row int) error {
	for _, most := range []int{4 << 10, 64 << 10, maxFileBytes} {
		raw, err := s.files.head(row, most)
		if err != nil {
			return &ImageError{s.files.Where(row), err, false}
		}
		if _, err = Identify(raw, 0); err == nil {
			return nil
		}
		if len(raw) < most {
			return &ImageError{s.files.Where(row), err, true}
		}
	}
	return &ImageError{s.files.Where(row), fmt.Errorf("more than %d bytes", maxFileBytes), true}
}
