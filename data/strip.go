// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// strip cuts a picture of whole patches into a strip of them, see preprocess.FitPatches.
func (p *Picture) strip(s preprocess.Settings) (*Picture, error) {
	height, width, err := s.OutputSize()
	if err != nil {
		return nil, err
	}
	out := &Picture{Height: height, Width: width, Pixels: make([]uint8, 3*height*width),
		Grid: [2]int{p.Height / s.Patch, p.Width / s.Patch}}
	for at, line := range patchLines(out.Grid, s.Patch, 3) {
		copy(out.Pixels[at:], p.Pixels[line:line+3*s.Patch])
	}
	return out, nil
}

// patchLines yields where each line of each patch begins in a strip of patches of so many pixels and channels, and
// where in the picture of a grid of them.
func patchLines(grid [2]int, patch, channels int) func(yield func(inStrip, inPicture int) bool) {
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

// patches is how many patches a strip of the set has room for.
func (s *Set) patches() int { return s.Height / s.Width }

// whole returns row i put together again, and its sides.
func (s *Set) whole(i int) (pixels []uint8, height, width int) {
	if s.Grids == nil {
		return s.Image(i), s.Height, s.Width
	}
	grid, strip := s.Grids[i], s.Image(i)
	pixels = make([]uint8, grid[0]*grid[1]*s.Width*s.Width*s.Channels)
	for at, line := range patchLines(grid, s.Width, s.Channels) {
		copy(pixels[line:line+s.Width*s.Channels], strip[at:])
	}
	return pixels, grid[0] * s.Width, grid[1] * s.Width
}

// validateGrids reports the first picture whose grid does not fit.
func (s *Set) validateGrids() error {
	if s.Grids == nil {
		return nil
	}
	if s.Height%s.Width != 0 || len(s.Grids) != s.Len() {
		return fmt.Errorf("data: %s: %d grids for %d strips of %d×%d pixels, want one each, and whole patches", s.Name,
			len(s.Grids), s.Len(), s.Height, s.Width)
	}
	known := preprocess.Grids(s.patches())
	for i, grid := range s.Grids {
		if !slices.Contains(known, grid) {
			return fmt.Errorf("data: %s: picture %d has a grid of %d×%d patches, want one of %v", s.Name, i, grid[0], grid[1],
				known)
		}
	}
	return nil
}

// gridNumbers returns which of preprocess.Grids the pictures of some rows have; zeros for a set of one size.
func (s *Set) gridNumbers(rows []int) []int64 {
	numbers := make([]int64, len(rows))
	if s.Grids != nil {
		known := preprocess.Grids(s.patches())
		for k, row := range rows {
			numbers[k] = int64(slices.Index(known, s.Grids[row]))
		}
	}
	return numbers
}
