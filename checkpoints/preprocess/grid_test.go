// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package preprocess

import (
	"math"
	"slices"
	"testing"
)

// searched is the bisection of SigLIP 2's image processor for the largest scale.
func searched(height, width, patches int) [2]int {
	at := func(scale float64) [2]int {
		side := func(n int) int { return max(1, int(math.Ceil(float64(n)*scale))) }
		return [2]int{side(height), side(width)}
	}
	low, high := 0.0, float64(2*patches)
	for range 200 {
		if middle := (low + high) / 2; at(middle)[0]*at(middle)[1] <= patches {
			low = middle
		} else {
			high = middle
		}
	}
	return at(low * (1 - 1e-12)) // slightly below the scale, to exclude rounding
}

func TestGrid_IsTheLargestOfTheAspectRatio(t *testing.T) {
	for _, patches := range []int{1, 2, 7, 16, 36, 131, 196, 256} {
		possible := Grids(patches)
		for height := 1; height <= 61; height++ {
			for width := (height + 3) / 4; width <= min(61, 4*height); width++ {
				got := gridOf(height, width, patches)
				if want := searched(height, width, patches); got != want {
					t.Fatalf("%d×%d in %d patches: %v, want %v", height, width, patches, got, want)
				}
				if !slices.Contains(possible, got) {
					t.Fatalf("%d×%d in %d patches: %v is not among %v", height, width, patches, got, possible)
				}
			}
		}
		for _, grid := range possible {
			if got := gridOf(grid[0], grid[1], patches); got != grid {
				t.Errorf("an image of %v patches becomes %v of %d", grid, got, patches)
			}
		}
	}
}

func TestGrid_SquareNumberOfPatches(t *testing.T) {
	for side := 1; side <= 37; side++ {
		if got := gridOf(113, 113, side*side); got != [2]int{side, side} {
			t.Errorf("%d patches: %v", side*side, got)
		}
	}
}

func TestGrid_AspectRatioIsBounded(t *testing.T) {
	for _, size := range [][2]int{{7, 100}, {100, 7}, {1, 5000}, {5000, 1}} {
		got, want := gridOf(size[0], size[1], 16), [2]int{2, 8}
		if size[0] > size[1] {
			want = [2]int{8, 2}
		}
		if got != want {
			t.Errorf("%v: %v, want %v", size, got, want)
		}
	}
}
