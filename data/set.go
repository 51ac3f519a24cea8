// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"image"
	"math"

	"github.com/gomlx/gomlx/core/tensors"
)

// Set is a labelled image set of one image size, held as bytes; or of pictures of several sizes, each cut into a strip
// of equally many patches. The pictures of a set that Files.Stream made are not held but read for each batch: Pixels
// are nil, see Feed.
type Set struct {
	Name                    string
	Pixels                  []uint8 // [n, Height, Width, Channels], row-major, 0..255
	Labels                  []int32 // [n], each an index into Classes
	Height, Width, Channels int     // Channels is 1 (grey) or 3 (red, green, blue)
	Classes                 []string

	// Float is what Pixels were before they were rounded, where that is known; nil else. Models see it in their place.
	Float []float32

	// Grids are the rows and columns of patches of each picture [n] where the pictures are strips, see
	// preprocess.FitPatches: Width is then the side of a patch, and Height that of all patches below one another.
	Grids [][2]int

	stream *stream // where the pictures are read from, nil where they are held
}

// Len returns the number of images.
func (s *Set) Len() int { return len(s.Labels) }

// Image returns the pixels [Height, Width, Channels] of row i: a view, not a copy.
func (s *Set) Image(i int) []uint8 {
	size := s.Height * s.Width * s.Channels
	return s.Pixels[i*size : (i+1)*size : (i+1)*size]
}

// Picture returns row i as a picture, grey ones with equal channels, strips put together: a copy.
func (s *Set) Picture(i int) *image.RGBA {
	pixels, height, width := s.whole(i)
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for p := range width * height {
		for k := range 3 {
			out.Pix[4*p+k] = pixels[p*s.Channels+min(k, s.Channels-1)]
		}
		out.Pix[4*p+3] = 0xff
	}
	return out
}

// Validate reports the first thing that does not fit: no images, a shape that the pixels do not have, a label without
// a class.
func (s *Set) Validate() error {
	switch {
	case s.Height < 1 || s.Width < 1 || s.Channels != 1 && s.Channels != 3:
		return fmt.Errorf("data: %s: image shape [%d, %d, %d], want positive sides and 1 or 3 channels",
			s.Name, s.Height, s.Width, s.Channels)
	case len(s.Labels) == 0:
		return fmt.Errorf("data: %s: the set is empty", s.Name)
	case s.stream == nil && len(s.Pixels) != len(s.Labels)*s.Height*s.Width*s.Channels:
		return fmt.Errorf("data: %s: %d bytes of pixels, want %d for [%d, %d, %d, %d]", s.Name, len(s.Pixels),
			len(s.Labels)*s.Height*s.Width*s.Channels, len(s.Labels), s.Height, s.Width, s.Channels)
	case s.Float != nil && len(s.Float) != len(s.Pixels):
		return fmt.Errorf("data: %s: %d pixels as numbers, %d as bytes", s.Name, len(s.Float), len(s.Pixels))
	}
	for i, label := range s.Labels {
		if label < 0 || int(label) >= len(s.Classes) {
			return fmt.Errorf("data: %s: image %d has label %d, want 0 to %d", s.Name, i, label, len(s.Classes)-1)
		}
	}
	return s.validateGrids()
}

// Tensor returns the pixels as a new uint8 tensor [n, Height, Width, Channels], or float32 where there is Float, to be
// moved to the device once.
func (s *Set) Tensor() *tensors.Tensor {
	if s.Float != nil {
		return tensors.FromFlatDataAndDimensions(s.Float, s.Len(), s.Height, s.Width, s.Channels)
	}
	return tensors.FromFlatDataAndDimensions(s.Pixels, s.Len(), s.Height, s.Width, s.Channels)
}

// Subset returns a copy of the given rows, in the order given.
func (s *Set) Subset(rows []int) *Set {
	out := *s
	if s.stream != nil {
		out.stream = s.stream.subset(rows)
		out.Labels = out.stream.files.Labels
		return &out
	}
	out.Pixels = make([]uint8, 0, len(rows)*s.Height*s.Width*s.Channels)
	out.Labels = make([]int32, 0, len(rows))
	for _, row := range rows {
		out.Pixels = append(out.Pixels, s.Image(row)...)
		out.Labels = append(out.Labels, s.Labels[row])
	}
	if s.Float != nil {
		size := s.Height * s.Width * s.Channels
		out.Float = make([]float32, 0, len(rows)*size)
		for _, row := range rows {
			out.Float = append(out.Float, s.Float[row*size:(row+1)*size]...)
		}
	}
	if s.Grids != nil {
		out.Grids = make([][2]int, len(rows))
		for k, row := range rows {
			out.Grids[k] = s.Grids[row]
		}
	}
	return &out
}

// First returns a copy of the first n images, of all where there are fewer.
func (s *Set) First(n int) *Set {
	rows := make([]int, min(n, s.Len()))
	for i := range rows {
		rows[i] = i
	}
	return s.Subset(rows)
}

// Fraction returns round(f·n) images, at least 1, chosen uniformly without replacement as a function of the seed, in
// the set's order. As in the authors' subset study the choice is not balanced by class. A larger fraction of the same
// seed contains every smaller one.
func (s *Set) Fraction(f float64, seed int64) (*Set, error) {
	if !(f > 0 && f <= 1) {
		return nil, fmt.Errorf("data: %s: fraction %g, want more than 0 and at most 1", s.Name, f)
	}
	if f == 1 {
		return s, nil
	}
	rows, _ := drawRows(streamFraction, seed, s.Len(), max(1, int(math.Round(f*float64(s.Len())))))
	return s.Subset(rows), nil
}

// Split holds out the given number of images for validation, chosen uniformly as a function of the seed; both parts
// keep the set's order. With held == 0 the validation part is nil.
func (s *Set) Split(held int, seed int64) (train, validation *Set, err error) {
	if held < 0 || held >= s.Len() {
		return nil, nil, fmt.Errorf("data: %s: cannot hold out %d of %d images", s.Name, held, s.Len())
	}
	if held == 0 {
		return s, nil, nil
	}
	rows, others := drawRows(streamSplit, seed, s.Len(), held)
	return s.Subset(others), s.Subset(rows), nil
}

// Fingerprint returns the SHA-256, in hexadecimal, of everything training depends on: shape, class names, labels,
// pixels and grids, in order; not the name. Of pictures that are not held it takes the names of their files, or what
// their container says of itself. A resumed run compares it.
func (s *Set) Fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d %d %q\n", s.Len(), s.Height, s.Width, s.Channels, s.Classes)
	binary.Write(h, binary.LittleEndian, s.Labels) //nolint:errcheck // a hash never fails
	h.Write(s.Pixels)
	if s.stream != nil {
		s.stream.fingerprint(h)
	}
	if s.Grids != nil {
		fmt.Fprintf(h, "%v", s.Grids)
	}
	return hex.EncodeToString(h.Sum(nil))
}
