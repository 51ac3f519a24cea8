// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"testing"
)

func TestRowZeroIsAtTheTopAndTheSignIsInTheColour(t *testing.T) {
	f := Field{Title: "signs", Rows: 3, Cols: 5, Features: make([]float64, 3*5), Names: []string{"sign"}}
	set := func(row, col int, value float64) { f.Features[row*f.Cols+col] = value }
	set(0, 1, 1)
	set(2, 4, -1)
	set(1, 3, 100) // beyond the limit
	set(1, 0, math.NaN())
	picture, _ := decode(t, f.Draw)
	// The ends of the map as in Moreland (2009), and the grey of values that are not finite; their positions determine
	// rows and columns.
	red, blue, grey := [3]uint32{180, 4, 38}, [3]uint32{59, 76, 192}, [3]uint32{128, 128, 128}
	centre := func(clr [3]uint32, left, top float64) (x, y float64) { // of what is right of and below a point
		n := 0.0
		for py := int(top); py < picture.Bounds().Dy(); py++ {
			for px := int(left); px < picture.Bounds().Dx(); px++ {
				r, g, b, _ := picture.At(px, py).RGBA()
				off := 0.0
				for k, v := range []uint32{r >> 8, g >> 8, b >> 8} {
					off = max(off, math.Abs(float64(v)-float64(clr[k])))
				}
				if off <= 3 {
					x, y, n = x+float64(px), y+float64(py), n+1
				}
			}
		}
		return x / n, y / n
	}
	greyX, greyY := centre(grey, 0, 0)
	blueX, blueY := centre(blue, 0, 0)
	cellX, cellY := (blueX-greyX)/4, blueY-greyY // from row 1, column 0 to row 2, column 4
	if !(cellX > 10 && cellY > 10) {
		t.Fatalf("grey at %g, %g, blue at %g, %g", greyX, greyY, blueX, blueY)
	}
	for _, c := range []struct{ left, top, col, row float64 }{{0, 0, 2, 0.5}, {greyX + 2*cellX, 0, 3, 1}} {
		x, y := centre(red, c.left, c.top) // both red cells, then the right one alone
		if !(math.Abs((x-greyX)/cellX-c.col) <= 0.1) || !(math.Abs((y-greyY)/cellY+1-c.row) <= 0.1) {
			t.Errorf("red at row %g, column %g, want %g, %g", (y-greyY)/cellY+1, (x-greyX)/cellX, c.row, c.col)
		}
	}
}

func TestAFieldOfAnyAspectCanBeDrawnWithOneOrBothOfItsParts(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for _, grid := range [][2]int{{1, 1}, {1, 16}, {13, 2}, {7, 11}} {
		positions := grid[0] * grid[1]
		features, vectors := make([]float64, positions*4), make([]float64, positions*3)
		f := Field{Rows: grid[0], Cols: grid[1], Features: features, Names: names}
		one, _ := decode(t, f.Draw)
		f.Vectors = vectors
		both, _ := decode(t, f.Draw)
		if b, o := both.Bounds(), one.Bounds(); b.Dy() < 2*o.Dy()-1 || b.Dx() != o.Dx() { // four panels a row
			t.Errorf("grid %v: %v with the similarity, %v without", grid, b, o)
		}
	}
}

func TestPanelsOfAFieldAreTitled(t *testing.T) {
	f := Field{Rows: 3, Cols: 5, Vectors: make([]float64, 3*5*2)}
	for title, want := range map[string]string{"": "cosine similarity to the centre, ±1",
		"learned": "learned: cosine similarity to the centre, ±1"} {
		f.Title = title
		panels := f.panels()
		if panels[0].Title != want || panels[0].Down != "row (patches)" ||
			panels[0].Across != "column (patches)" {
			t.Errorf("%q: %+v", title, panels)
		}
	}
	f = Field{Rows: 2, Cols: 3, Features: []float64{1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60}, Names: []string{"a", "b"},
		Vectors: []float64{1, 0, 0, 1, 3, 4, 4, 3, 5, 0, -1, 0}}
	for i, want := range []string{"a, ±1 [[1 2 3] [4 5 6]]", "b, ±1 [[10 20 30] [40 50 60]]",
		"cosine similarity to the centre, ±1 [[1 0 0.6] [0.8 1 -1]]"} { // to (5, 0)
		p := f.panels()[i]
		if got := fmt.Sprint(p.Title, " ", p.Values); got != want || (p.Outlined != nil) != (i == 2) {
			t.Errorf("panel %d: %s, outlined %v, want %s", i, got, p.Outlined, want)
		}
	}
	if at := f.panels()[2].Outlined; *at != [2]int{1, 1} {
		t.Errorf("the outlined cell is %v", *at)
	}
}
