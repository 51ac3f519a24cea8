// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

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
