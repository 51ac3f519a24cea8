// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"context"
	"fmt"
	"image"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// maxMemoryBytes bounds the pixels of a dataset that is read from files.
const maxMemoryBytes = 32 << 30

// InMemory is a Dataset that stores its pixels.
type InMemory struct {
	Info
	Pixels []uint8 // [n, Height, Width, Channels], row-major, 0…255

	// Float is Pixels before rounding, used in their place except by steps on the host (SplitHostGraph); nil if unknown.
	Float []float32
}

// Row returns the pixels [Height, Width, Channels] of row i: a view, not a copy.
func (m *InMemory) Row(i int) []uint8 {
	size := m.Height * m.Width * m.Channels
	return m.Pixels[i*size : (i+1)*size : (i+1)*size]
}

// RGBA returns a copy of row i, with equal channels for grey and patches of ResizePatches reassembled.
func (m *InMemory) RGBA(i int) *image.RGBA {
	pixels, height, width := m.whole(i)
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for p := range width * height {
		for k := range 3 {
			out.Pix[4*p+k] = pixels[p*m.Channels+min(k, m.Channels-1)]
		}
		out.Pix[4*p+3] = 0xff
	}
	return out
}

// Image implements Dataset.
func (m *InMemory) Image(_ context.Context, row int) (*Image, error) {
	img := &Image{Height: m.Height, Width: m.Width, Pixels: m.Row(row)}
	if m.Channels == 1 {
		img.Pixels = make([]uint8, 0, 3*m.Height*m.Width)
		for _, v := range m.Row(row) {
			img.Pixels = append(img.Pixels, v, v, v)
		}
	}
	if m.Float != nil {
		img.Float = m.Float[row*len(m.Row(row)):][:len(m.Row(row))]
	}
	if m.Grids != nil {
		img.Grid = m.Grids[row]
	}
	return img, nil
}

// check returns an error if there are no images, the pixels do not match the shape, or a label has no class.
func (m *InMemory) check() error {
	err := m.Info.check()
	switch {
	case err != nil:
		return err
	case len(m.Pixels) != len(m.Labels)*m.Height*m.Width*m.Channels:
		return fmt.Errorf("data: %s: %d bytes of pixels, want %d for [%d, %d, %d, %d]", m.Name, len(m.Pixels),
			len(m.Labels)*m.Height*m.Width*m.Channels, len(m.Labels), m.Height, m.Width, m.Channels)
	case m.Float != nil && len(m.Float) != len(m.Pixels):
		return fmt.Errorf("data: %s: %d pixels in float32, %d in bytes", m.Name, len(m.Float), len(m.Pixels))
	}
	return m.checkGrids()
}

// Tensor returns the pixels as a new uint8 tensor [n, Height, Width, Channels], or float32 from Float, to be
// transferred to the device once.
func (m *InMemory) Tensor() *tensors.Tensor {
	if m.Float != nil {
		return tensors.FromFlatDataAndDimensions(m.Float, m.Len(), m.Height, m.Width, m.Channels)
	}
	return tensors.FromFlatDataAndDimensions(m.Pixels, m.Len(), m.Height, m.Width, m.Channels)
}

// Subset returns a copy of the given rows, in the order given.
func (m *InMemory) Subset(rows []int) *InMemory {
	size := m.Height * m.Width * m.Channels
	out := &InMemory{Info: m.Info, Pixels: picked(m.Pixels, rows, size), Float: picked(m.Float, rows, size)}
	out.Labels, out.Grids = picked(m.Labels, rows, 1), picked(m.Grids, rows, 1)
	out.damaged = m.damagedOf(rows)
	return out
}

// picked returns rows of the given size, nil of nil.
func picked[T any](values []T, rows []int, size int) []T {
	if values == nil {
		return nil
	}
	out := make([]T, 0, len(rows)*size)
	for _, row := range rows {
		out = append(out, values[row*size:(row+1)*size]...)
	}
	return out
}

// newMemory returns a dataset with room for n images preprocessed by p.
func newMemory(name string, n int, classes []string, p preprocess.Settings) (*InMemory, error) {
	info, err := newInfo(name, n, classes, p)
	if err != nil {
		return nil, err
	}
	size := int64(3 * info.Height * info.Width)
	if int64(n) > maxMemoryBytes/size {
		return nil, fmt.Errorf("data: %s: %d images of %d×%d pixels take %d GiB, more than %d: stream them, or use a "+
			"smaller size", name, n, info.Width, info.Height, int64(n)*size>>30, maxMemoryBytes>>30)
	}
	m := &InMemory{Info: info, Pixels: make([]uint8, int64(n)*size)}
	m.Labels = make([]int32, n)
	if p.Float {
		m.Float = make([]float32, len(m.Pixels))
	}
	if p.Resize == preprocess.ResizePatches {
		m.Grids = make([][2]int, n)
	}
	return m, nil
}

// put stores an image as row i.
func (m *InMemory) put(i int, img *Image) {
	if pixels := m.Row(i); m.Channels == 3 {
		copy(pixels, img.Pixels)
	} else {
		for k := range pixels {
			pixels[k] = img.Pixels[3*k]
		}
	}
	if m.Float != nil {
		copy(m.Float[i*len(img.Float):], img.Float)
	}
	if m.Grids != nil {
		m.Grids[i] = cmp.Or(img.Grid, m.Grids[i])
	}
}

// newInfo describes a dataset of n images preprocessed by p, without its labels.
func newInfo(name string, n int, classes []string, p preprocess.Settings) (info Info, err error) {
	if err := p.Validate(); err != nil {
		return info, err
	}
	height, width, err := p.OutputSize()
	if err == nil && n < 1 {
		err = fmt.Errorf("data: %s has no images", name)
	}
	return Info{Name: name, Height: height, Width: width, Channels: 3, Classes: classes, Preprocess: p}, err
}
