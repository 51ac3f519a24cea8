// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

// maxAspect bounds the aspect ratio of a grid; an image beyond it is squeezed.
const maxAspect = 4

// gridOf returns the rows and columns of patches of an image of height h and width w that keeps its aspect ratio in at
// most the given number of patches: ⌈h·s⌉ and ⌈w·s⌉ of the largest possible scale s, as in SigLIP 2's NaFlex
// (https://arxiv.org/abs/2502.14786). The image is resized to whole patches, so each side is stretched by less than
// one.
//
// Method: increase s; the side that reaches its next integer first grows by one.
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

// Grids lists the grids that ResizePatches produces: rows·cols ≤ patches < (rows+1)·(cols+1), aspect ratio bounded.
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
