// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

func drawn(t *testing.T, f Field) image.Image {
	t.Helper()
	var out bytes.Buffer
	if err := f.Draw(&out); err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(&out)
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// colorAt returns the 8-bit colour of a cell of the upper left panel, Re ℘.
func colorAt(picture image.Image, row, col int) [3]uint32 {
	cell := panelSide / 72 * dotsPerInch / 5 // dots; the grids below have 5 columns
	x := int(fieldMargin/72*dotsPerInch + (0.5+vg.Length(col))*cell)
	y := int(titleHeight/72*dotsPerInch + (0.5+vg.Length(row))*cell)
	r, g, b, _ := picture.At(x, y).RGBA()
	return [3]uint32{r >> 8, g >> 8, b >> 8}
}

func TestRowZeroIsAtTheTopAndTheSignIsInTheColour(t *testing.T) {
	f := Field{Title: "signs", Rows: 3, Cols: 5, Limit: 2, Features: make([]float64, 3*5*numFeatures)}
	set := func(row, col int, value float64) { f.Features[(row*f.Cols+col)*numFeatures] = value }
	set(0, 1, 2)
	set(2, 4, -2)
	set(1, 3, 100) // beyond the limit
	set(1, 0, math.NaN())
	picture := drawn(t, f)
	// The ends and the middle of the map as Moreland (2009) gives them.
	red, blue, zero := [3]uint32{180, 4, 38}, [3]uint32{59, 76, 192}, [3]uint32{221, 221, 221}
	grey := [3]uint32{128, 128, 128}
	for _, c := range []struct {
		row, col int
		want     [3]uint32
	}{{0, 1, red}, {2, 4, blue}, {1, 3, red}, {1, 0, grey}, {0, 0, zero}, {2, 1, zero}} {
		got := colorAt(picture, c.row, c.col)
		for k := range got {
			if math.Abs(float64(got[k])-float64(c.want[k])) > 3 {
				t.Errorf("row %d, column %d: colour %v, want %v", c.row, c.col, got, c.want)
				break
			}
		}
	}
}

func TestAFieldOfAnyAspectCanBeDrawnWithOneOrBothOfItsParts(t *testing.T) {
	for _, grid := range [][2]int{{1, 1}, {1, 16}, {13, 2}, {7, 11}} {
		positions := grid[0] * grid[1]
		features, vectors := make([]float64, positions*numFeatures), make([]float64, positions*3)
		both := drawn(t, Field{Rows: grid[0], Cols: grid[1], Features: features, Vectors: vectors}).Bounds().Dx()
		one := drawn(t, Field{Rows: grid[0], Cols: grid[1], Features: features}).Bounds().Dx()
		if both <= one {
			t.Errorf("grid %v: %d dots wide with the similarity, %d without", grid, both, one)
		}
	}
}

func TestSimilarityIsTheCosineToTheChosenPosition(t *testing.T) {
	vectors := []float64{3, 4, -3, -4, 4, -3, 6, 8, 0, 0, 1, 0, math.NaN(), 1}
	got, err := Similarity(vectors, 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, -1, 0, 1, 0, 0.6, math.NaN()} {
		if math.Abs(got[i]-want) > 1e-15 || math.IsNaN(got[i]) != math.IsNaN(want) {
			t.Errorf("position %d: %g, want %g", i, got[i], want)
		}
	}
}

func TestSizesThatDoNotFitAreErrorsWithTheNumbers(t *testing.T) {
	for want, f := range map[string]Field{
		"0 rows":             {Cols: 3, Features: []float64{}},
		"7 feature values":   {Rows: 1, Cols: 2, Features: make([]float64, 7)},
		"5 vector values":    {Rows: 1, Cols: 2, Vectors: make([]float64, 5)},
		"neither features":   {Rows: 1, Cols: 2},
		"0 vector values fo": {Rows: 1, Cols: 2, Vectors: []float64{}},
	} {
		if err := f.Draw(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := Similarity([]float64{1, 2}, 2, 2); err == nil {
		t.Error("a position outside the grid: no error")
	}
}
