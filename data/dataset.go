// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// Dataset is a labelled dataset of images. [InMemory] holds the pixels, [Files.Stream] reads each batch from files or
// shards. A type of another package that embeds [Info] needs only Image:
//
//	type mine struct{ data.Info }
//	func (m *mine) Image(ctx context.Context, row int) (*data.Image, error)
type Dataset interface {
	// Describe returns the name, the classes, the labels and the image size.
	Describe() *Info
	Len() int
	// Image returns one image in red, green and blue. An image of another size than Describe's is resized by
	// Info.Preprocessing; random crops are taken before that. It is safe for concurrent use and must not return an image
	// that changes later. An error of type *ImageError with Damaged set is of a damaged image.
	Image(ctx context.Context, row int) (*Image, error)
}

// Splits are the images of a task. Validation is nil if a recipe splits it off Train, Test if there is none.
type Splits struct{ Train, Validation, Test Dataset }

var (
	_ Dataset = (*InMemory)(nil)
	_ Dataset = (*stream)(nil)
)

// show returns one row after a view. Its errors have type *ImageError unless the context is done.
func show(ctx context.Context, s Dataset, row int, v view) (*Image, error) {
	if s, ok := s.(*stream); ok { // decodes no more than the crop
		return s.show(ctx, row, v)
	}
	img, err := s.Image(ctx, row)
	if info := s.Describe(); err == nil {
		img = img.graded(info.Preprocess.Grey16) // also what is not resized, or cropped at random
		if !v.crops() && [2]int{img.Height, img.Width} != [2]int{info.Height, info.Width} {
			img, err = img.Preprocess(info.Preprocessing())
		}
	}
	switch {
	case err == nil && (v.crops() || v.onHost()):
		return v.Apply(img, v.Seed, v.Epoch, v.Index), nil
	case err == nil, errors.As(err, new(*ImageError)), ctx.Err() != nil:
		return img, err
	}
	return nil, &ImageError{fmt.Sprintf("%s, image %d", s.Describe().Name, row), err, false}
}

// Load returns the given rows in memory, as evaluation sees them. A damaged image is an error, even in a stream that
// skips it.
func Load(ctx context.Context, s Dataset, rows []int) (*InMemory, error) {
	switch s := s.(type) {
	case *InMemory:
		return s.Subset(rows), nil
	case *stream:
		return s.subset(rows).files.load(ctx, s.settings)
	}
	info := *s.Describe()
	m := &InMemory{Info: info, Pixels: make([]uint8, len(rows)*info.Height*info.Width*info.Channels)}
	m.Labels, m.Grids = picked(info.Labels, rows, 1), picked(info.Grids, rows, 1)
	return m, parallel(ctx, len(rows), func(ctx context.Context, i int) error {
		img, err := show(ctx, s, rows[i], view{})
		if err == nil {
			m.put(i, img)
		}
		return err
	})
}

// Check reports labels without a class and images that cannot be read: by their headers, or if full is set by decoding
// them.
func Check(ctx context.Context, s Dataset, full bool) error {
	switch s := s.(type) {
	case *InMemory:
		return s.check()
	case *stream:
		return s.check(ctx, full)
	}
	if err := s.Describe().check(); err != nil || !full {
		return err
	}
	return parallel(ctx, s.Len(), func(ctx context.Context, row int) error {
		_, err := show(ctx, s, row, view{})
		return err
	})
}

// Fingerprint returns the SHA-256, in hexadecimal, of what training depends on. A resumed run compares it. Of
// images in memory it covers the pixels, of a stream the preprocessing and the names of files or shards, of another
// module's dataset the pixels of at most 64 images.
func Fingerprint(s Dataset) string {
	h, info := sha256.New(), s.Describe()
	fmt.Fprintf(h, "%d %d %d %d %q\n", info.Len(), info.Height, info.Width, info.Channels, info.Classes)
	binary.Write(h, binary.LittleEndian, info.Labels) //nolint:errcheck // a hash never fails
	switch s := s.(type) {
	case *InMemory:
		if h.Write(s.Pixels); s.Grids != nil {
			fmt.Fprintf(h, "%v", s.Grids)
		}
	case *stream:
		older := strings.NewReplacer("Resize:", "Fit:", "Grey16: ", "") // the fields of older runs
		fmt.Fprintf(h, "streamed %s\n", older.Replace(fmt.Sprintf("%+v", s.settings)))
		s.files.hash(h)
	default:
		for k := range min(64, s.Len()) {
			if img, err := s.Image(context.Background(), k*s.Len()/min(64, s.Len())); err == nil { // training returns the error
				h.Write(img.Pixels)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Info describes a dataset of n images.
type Info struct {
	Name                    string
	Labels                  []int32 // [n], each an index into Classes
	Classes                 []string
	Height, Width, Channels int // of an image; Channels is 1 (grey) or 3 (red, green, blue)

	// Grids are the rows and columns of patches of each image [n], with preprocess.ResizePatches: Width is then the side
	// of a patch, and Height the side times the number of patches.
	Grids [][2]int
	// Preprocess is how the original images became these; zero if unchanged. See [Info.Preprocessing].
	Preprocess preprocess.Settings
	// Workers is the number of images that Read reads concurrently; 0 for one per core.
	Workers int

	damaged map[int]bool // rows that are left out
	skip    bool         // see Streaming
	logger  *slog.Logger
}

// Preprocessing returns how an image of any size becomes input of a model trained on the dataset: Preprocess, or if it
// is zero a bilinear resize to the dataset's size.
func (i *Info) Preprocessing() preprocess.Settings {
	if i.Preprocess.Resize != "" {
		return i.Preprocess
	}
	return preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{i.Height, i.Width},
		Resample: preprocess.Bilinear}
}

// Describe returns i.
func (i *Info) Describe() *Info { return i }

// Len returns the number of images.
func (i *Info) Len() int { return len(i.Labels) }

// Damaged returns the rows left out so far.
func (i *Info) Damaged() []int { return slices.Sorted(maps.Keys(i.damaged)) }

// damagedOf numbers the damaged among some rows by their places there.
func (i *Info) damagedOf(rows []int) map[int]bool {
	out := map[int]bool{}
	for k, row := range rows {
		if i.damaged[row] {
			out[k] = true
		}
	}
	return out
}

// Exclude excludes a damaged row from training and metrics, and returns the cause if that is not allowed; it is always
// allowed with a nil cause. One goroutine may call it.
func (i *Info) Exclude(row int, cause error) error {
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

// check returns an error if there are no images, or a label has no class.
func (i *Info) check() error {
	switch {
	case i.Height < 1 || i.Width < 1 || i.Channels != 1 && i.Channels != 3:
		return fmt.Errorf("data: %s: image shape [%d, %d, %d], want positive sides and 1 or 3 channels",
			i.Name, i.Height, i.Width, i.Channels)
	case len(i.Labels) == 0:
		return fmt.Errorf("data: %s has no images", i.Name)
	}
	for row, label := range i.Labels {
		if label < 0 || int(label) >= len(i.Classes) {
			return fmt.Errorf("data: %s: image %d has label %d, want 0 to %d", i.Name, row, label, len(i.Classes)-1)
		}
	}
	return nil
}

// view is how an image is augmented: Augment.Apply as a function of seed, epoch and index, see [Order].
type view struct {
	Augment
	Seed         int64
	Epoch, Index int
}

// Subset returns the given rows of a dataset, in the order given: of a *InMemory a *InMemory.
func Subset(s Dataset, rows []int) Dataset {
	switch s := s.(type) {
	case *InMemory:
		return s.Subset(rows)
	case *stream:
		return s.subset(rows)
	}
	out := &selection{Info: *s.Describe(), of: s, rows: rows}
	out.Labels, out.Grids = picked(out.Labels, rows, 1), picked(out.Grids, rows, 1)
	out.damaged = out.damagedOf(rows)
	return out
}

// selection is some rows of another module's dataset.
type selection struct {
	Info
	of   Dataset
	rows []int
}

// Image implements Dataset.
func (s *selection) Image(ctx context.Context, row int) (*Image, error) {
	return s.of.Image(ctx, s.rows[row])
}

// Head returns the first n images, or all where there are fewer.
func Head(s Dataset, n int) Dataset { return Subset(s, xslices.Iota(0, min(n, s.Len()))) }

// Fraction returns round(f·n) images, at least 1, chosen uniformly without replacement as a function of the seed, in
// the order of the dataset. As in the authors' subset study the choice is not balanced by class. A larger fraction with
// the same seed contains every smaller one.
func Fraction(s Dataset, f float64, seed int64) (Dataset, error) {
	if !(f > 0 && f <= 1) {
		return nil, fmt.Errorf("data: %s: fraction %g, want more than 0 and at most 1", s.Describe().Name, f)
	}
	if f == 1 {
		return s, nil
	}
	rows, _ := drawRows(streamFraction, seed, s.Len(), max(1, int(math.Round(f*float64(s.Len())))))
	return Subset(s, rows), nil
}

// RandomSplit takes the given number of images as a validation split, chosen uniformly as a function of the seed; both
// parts keep the order of the dataset. If images is 0 the validation split is nil.
func RandomSplit(s Dataset, images int, seed int64) (train, validation Dataset, err error) {
	if images < 0 || images >= s.Len() {
		return nil, nil, fmt.Errorf("data: %s: a validation split of %d images needs more than %d",
			s.Describe().Name, images, s.Len())
	}
	if images == 0 {
		return s, nil, nil
	}
	rows, others := drawRows(streamSplit, seed, s.Len(), images)
	return Subset(s, others), Subset(s, rows), nil
}
