// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

// maxAspect bounds how much longer than the other one side of a grid may be; an image beyond it is squeezed to it.
const maxAspect = 4

// gridOf returns the rows and columns of patches of an image of height h and width w that keeps its ratio in at most
// so many patches: ⌈h·s⌉ and ⌈w·s⌉ of the largest scale s that they allow, as SigLIP 2's NaFlex does
// (https://arxiv.org/abs/2502.14786). The image is resized to whole patches, so each side is stretched by less than
// one.
//
// Method: as s grows, the sides grow by one in turn, the one first whose next whole number comes first.
func gridOf(height, width, patches int) [2]int {
	height, width = min(height, maxAspect*width), min(width, maxAspect*height)
	grid := [2]int{1, 1}
	for {
		next, rows, cols := grid, grid[0]*width, grid[1]*height // s·h and s·w, times height and width
		if rows <= cols {
			next[0]++
		}
		if cols <= rows {
			next[1]++
		}
		if next[0]*next[1] > patches {
			return grid
		}
		grid = next
	}
}

// Grids lists the grids that FitPatches produces: rows·cols ≤ patches < (rows+1)·(cols+1), aspect ratio bounded.
func Grids(patches int) (grids [][2]int) {
	for rows := 1; rows <= patches; rows++ {
		for cols := 1; rows*cols <= patches; cols++ {
			if (rows+1)*(cols+1) > patches && max(rows, cols) <= maxAspect*min(rows, cols) {
				grids = append(grids, [2]int{rows, cols})
			}
		}
	}
	return grids
}
