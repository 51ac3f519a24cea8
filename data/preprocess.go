// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"image"
	"image/color"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// FromImage converts a decoded image to 8 bits per channel, dropping transparency as Decode does.
func FromImage(img image.Image) *Image {
	bounds := img.Bounds()
	p := &Image{Height: bounds.Dy(), Width: bounds.Dx(), Pixels: make([]uint8, 0, 3*bounds.Dy()*bounds.Dx())}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			p.Pixels = append(p.Pixels, c.R, c.G, c.B)
		}
	}
	return p
}

// Preprocess returns the image resized and cropped, or cut into patches, as settings specify. Only the visible part of
// the resized image is computed.
func (p *Image) Preprocess(s preprocess.Settings) (*Image, error) {
	p = p.graded(s.Grey16)
	out, err := p.fitted(s)
	if err == nil && p.Clipped {
		out.Clipped = true
	}
	return out, err
}

// fitted is Preprocess without the conversion of 16-bit grey.
func (p *Image) fitted(s preprocess.Settings) (*Image, error) {
	height, width := s.Resized(p.Height, p.Width)
	w := window{height: height, width: width}
	if s.Resize != preprocess.ResizePatches && (s.Crop != [2]int{} || s.Trim != [2]int{}) {
		start, size := s.Window(height, width)
		w = window{top: start[0], left: start[1], height: size[0], width: size[1]}
	}
	if int64(w.height)*int64(w.width) > MaxPixels {
		return nil, fmt.Errorf("%d×%d pixels become %d×%d, want at most %d", p.Width, p.Height, w.width, w.height, MaxPixels)
	}
	visible := w.visible(height, width)
	if visible.height < 1 || visible.width < 1 {
		return p.framed(window{top: p.Height, height: w.height, width: w.width}, s), nil
	}
	if s.Float {
		p = p.resizeFloat(height, width, visible, s.Kernel())
	} else {
		p = p.resized(height, width, visible, s.Kernel())
	}
	if s.Resize == preprocess.ResizePatches {
		return p.strip(s)
	}
	if visible == w {
		return p, nil
	}
	return p.framed(window{top: w.top - visible.top, left: w.left - visible.left, height: w.height, width: w.width}, s),
		nil
}

// framed returns a window of the image, with the colour of the settings beyond the border.
func (p *Image) framed(w window, s preprocess.Settings) *Image {
	out := &Image{Height: w.height, Width: w.width, Pixels: cut(p, p.Pixels, w, s.Fill)}
	if s.Float {
		out.Float = cut(p, p.Float, w, s.Fill)
	}
	return out
}

// visible returns the part of a window that is in an image of the given sides.
func (w window) visible(height, width int) window {
	top, left := max(0, w.top), max(0, w.left)
	return window{top: top, left: left, height: min(height, w.top+w.height) - top, width: min(width,
		w.left+w.width) - left}
}

// strip cuts an image of whole patches into a strip, see [preprocess.ResizePatches].
func (p *Image) strip(s preprocess.Settings) (*Image, error) {
	height, width, err := s.OutputSize()
	if err != nil {
		return nil, err
	}
	out := &Image{Height: height, Width: width, Pixels: make([]uint8, 3*height*width),
		Grid: [2]int{p.Height / s.Patch, p.Width / s.Patch}}
	for at, line := range patchLines(out.Grid, s.Patch, 3) {
		copy(out.Pixels[at:], p.Pixels[line:line+3*s.Patch])
	}
	return out, nil
}

// patchLines yields the start of each line of each patch in a strip of patches with the given pixels and channels, and
// in the image of a grid of patches.
func patchLines(grid [2]int, patch, channels int) func(yield func(inStrip, inImage int) bool) {
	line := patch * channels
	return func(yield func(int, int) bool) {
		for k := range grid[0] * grid[1] {
			for y := range patch {
				row := k/grid[1]*patch + y
				if !yield((k*patch+y)*line, (row*grid[1]+k%grid[1])*line) {
					return
				}
			}
		}
	}
}

// patches returns the maximum number of patches of a strip.
func (i *Info) patches() int { return i.Height / i.Width }

// whole returns row i reassembled, and its sides.
func (m *InMemory) whole(i int) (pixels []uint8, height, width int) {
	if m.Grids == nil {
		return m.Row(i), m.Height, m.Width
	}
	grid, strip := m.Grids[i], m.Row(i)
	pixels = make([]uint8, grid[0]*grid[1]*m.Width*m.Width*m.Channels)
	for at, line := range patchLines(grid, m.Width, m.Channels) {
		copy(pixels[line:line+m.Width*m.Channels], strip[at:])
	}
	return pixels, grid[0] * m.Width, grid[1] * m.Width
}

// checkGrids reports the first image whose grid does not fit.
func (m *InMemory) checkGrids() error {
	if m.Grids == nil {
		return nil
	}
	if m.Height%m.Width != 0 || len(m.Grids) != m.Len() {
		return fmt.Errorf("data: %s: %d grids for %d strips of %d×%d pixels, want one each, and whole patches", m.Name,
			len(m.Grids), m.Len(), m.Height, m.Width)
	}
	known := preprocess.Grids(m.patches())
	for i, grid := range m.Grids {
		if !slices.Contains(known, grid) {
			return fmt.Errorf("data: %s: image %d has a grid of %d×%d patches, want one of %v", m.Name, i, grid[0], grid[1],
				known)
		}
	}
	return nil
}

// gridNumbers returns the indices into preprocess.Grids of some rows; zeros for images of one size.
func (i *Info) gridNumbers(rows []int) []int64 {
	numbers := make([]int64, len(rows))
	if i.Grids != nil {
		known := preprocess.Grids(i.patches())
		for k, row := range rows {
			numbers[k] = int64(slices.Index(known, i.Grids[row]))
		}
	}
	return numbers
}
