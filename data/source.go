// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// Source is a labelled dataset of images of one size: [Memory] holds the pixels, [Stream] reads each batch from files
// or shards (see [Container]).
type Source interface {
	// Describe returns the name, the classes, the labels and the image size.
	Describe() *Info
	Len() int
	// subset returns the given rows, in the order given, as a source of the same type.
	subset(rows []int) Source
	// Load returns the given rows in memory, as evaluation sees them.
	Load(ctx context.Context, rows []int) (*Memory, error)
	// Check reports images that cannot be read: by their headers, or if full is set by decoding them.
	Check(ctx context.Context, full bool) error
	// Fingerprint returns the SHA-256, in hexadecimal, of what training depends on. A resumed run compares it.
	Fingerprint() string

	divide(a Augment) (host, graph Augment)
	// show returns one row after a view. Its errors have type *ImageError. It is safe for concurrent use.
	show(ctx context.Context, row int, v view) (*Image, error)
	// LeaveOut excludes a damaged row from training and metrics, and returns the cause if that is not allowed; it is
	// always allowed with a nil cause. Damaged returns the rows left out so far.
	LeaveOut(row int, cause error) error
	Damaged() []int
}

var (
	_ Source = (*Memory)(nil)
	_ Source = (*Stream)(nil)
)

// Info describes a dataset of n images.
type Info struct {
	Name                    string
	Labels                  []int32 // [n], each an index into Classes
	Classes                 []string
	Height, Width, Channels int // of an image; Channels is 1 (grey) or 3 (red, green, blue)

	// Grids are the rows and columns of patches of each image [n], with preprocess.FitPatches: Width is then the side of a
	// patch, and Height the side times the number of patches.
	Grids [][2]int
	// Preprocess is how the original images became these; zero if unchanged. See [Info.Preprocessing].
	Preprocess preprocess.Settings
	// Workers is the number of images that a Loader reads concurrently; 0 for one per core.
	Workers int

	damaged map[int]bool // rows that are left out
	skip    bool         // see Streaming
	logger  *slog.Logger
}

// Preprocessing returns how an image of any size becomes input of a model trained on the dataset: Preprocess, or if it
// is zero a bilinear resize to the dataset's size.
func (i *Info) Preprocessing() preprocess.Settings {
	if i.Preprocess.Fit != preprocess.FitNone {
		return i.Preprocess
	}
	return preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{i.Height, i.Width}, Resample: preprocess.Bilinear}
}

// Describe returns i.
func (i *Info) Describe() *Info { return i }

// Len returns the number of images.
func (i *Info) Len() int { return len(i.Labels) }

// Damaged implements Source.
func (i *Info) Damaged() []int { return slices.Sorted(maps.Keys(i.damaged)) }

// LeaveOut implements Source. One goroutine may call it.
func (i *Info) LeaveOut(row int, cause error) error {
	var damage *ImageError
	known := i.damaged[row] || cause == nil
	if !known && (!i.skip || !errors.As(cause, &damage) || !damage.Damaged) {
		return cause
	}
	if i.damaged == nil {
		i.damaged = map[int]bool{}
	}
	if i.damaged[row] = true; known {
		return nil
	}
	if i.logger != nil {
		i.logger.Warn("image skipped", "image", damage.Where, "error", damage.Err)
	}
	if all := len(i.damaged); all*100 > i.Len() {
		return fmt.Errorf("data: %s: %d of %d images are damaged, more than 1 %%, one of them: %w", i.Name, all, i.Len(),
			cause)
	}
	return nil
}

// hash writes the common part of all fingerprints.
func (i *Info) hash(w io.Writer) {
	fmt.Fprintf(w, "%d %d %d %d %q\n", i.Len(), i.Height, i.Width, i.Channels, i.Classes)
	binary.Write(w, binary.LittleEndian, i.Labels) //nolint:errcheck // a hash never fails
}

// view is how an image is augmented: Augment.Apply as a function of seed, epoch and index, see [Order].
type view struct {
	Augment
	Seed         int64
	Epoch, Index int
}

// Rows returns the given rows of a source, in the order given.
func Rows[S Source](s S, rows []int) S { return s.subset(rows).(S) }

// First returns the first n images, or all where there are fewer.
func First[S Source](s S, n int) S {
	rows := make([]int, min(n, s.Len()))
	for i := range rows {
		rows[i] = i
	}
	return Rows(s, rows)
}

// Fraction returns round(f·n) images, at least 1, chosen uniformly without replacement as a function of the seed, in
// the order of the source. As in the authors' subset study the choice is not balanced by class. A larger fraction with
// the same seed contains every smaller one.
func Fraction[S Source](s S, f float64, seed int64) (part S, err error) {
	if !(f > 0 && f <= 1) {
		return part, fmt.Errorf("data: %s: fraction %g, want more than 0 and at most 1", s.Describe().Name, f)
	}
	if f == 1 {
		return s, nil
	}
	rows, _ := drawRows(streamFraction, seed, s.Len(), max(1, int(math.Round(f*float64(s.Len())))))
	return Rows(s, rows), nil
}

// RandomSplit takes the given number of images as a validation split, chosen uniformly as a function of the seed; both
// parts keep the order of the source. If images is 0 the validation split is nil.
func RandomSplit[S Source](s S, images int, seed int64) (train, validation S, err error) {
	if images < 0 || images >= s.Len() {
		return train, validation, fmt.Errorf("data: %s: a validation split of %d images needs more than %d",
			s.Describe().Name, images, s.Len())
	}
	if images == 0 {
		return s, validation, nil
	}
	rows, others := drawRows(streamSplit, seed, s.Len(), images)
	return Rows(s, others), Rows(s, rows), nil
}
