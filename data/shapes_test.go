// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Also where an image is not a square, in units of its shorter side.
func TestShapes_HaveTheStatedAreaCentreAndDirection(t *testing.T) {
	for n, k := 0, 0; k < spriteCount; n, k = n+1, k+1009 { // 731 of all, a prime stride through every factor
		s, height, width := spriteAt(k), []int{64, 64, 256, 160}[n%4], []int{64, 160, 64, 64}[n%4]
		size := float64(min(height, width))
		place := func(k, side int) float64 { return (16 + float64(k) + 0.5) / 64 * float64(side) / size }
		image, row, column := s.render(height, width), 0.0, 0.0
		moment := func(of func(dy, dx float64) float64) float64 {
			sum := 0.0
			for i, v := range image {
				sum += float64(v) / 255 * of((float64(i/width)+0.5)/size-row, (float64(i%width)+0.5)/size-column)
			}
			return sum
		}
		area := moment(func(_, _ float64) float64 { return 1 })
		rows := moment(func(dy, _ float64) float64 { return dy })
		columns := moment(func(_, dx float64) float64 { return dx })
		row, column = rows/area, columns/area

		// Square 0.32², ellipse π·0.23·0.14, heart 0.19²·3.662 (the sextic's area), by the square of the scale.
		scale := 0.5 + 0.1*float64(s.scale)
		want := []float64{0.32 * 0.32, math.Pi * 0.23 * 0.14, 0.19 * 0.19 * 3.662}[s.shape] * scale * scale * size * size
		// The outline, about 4·√area long, is accurate to half a sample, an eighth of a pixel.
		gomlxtest.NearAbs(t, fmt.Sprintf("area of %+v", s), []float64{area}, []float64{want}, 4*math.Sqrt(want)/8)
		if s.shape < 2 && math.Hypot(row-place(s.row, height), column-place(s.column, width)) > 0.1/size {
			t.Errorf("%+v lies at %.4f, %.4f, want %.4f, %.4f", s, row, column, place(s.row, height), place(s.column, width))
		}
		if s.shape == 1 { // the long axis of the ellipse, from its second moments
			yy := moment(func(dy, _ float64) float64 { return dy * dy })
			xx := moment(func(_, dx float64) float64 { return dx * dx })
			xy := moment(func(dy, dx float64) float64 { return dy * dx })
			difference := math.Atan2(2*xy, xx-yy)/2 - 2*math.Pi*float64(s.orientation)/40
			gomlxtest.NearAbs(t, fmt.Sprintf("long axis of %+v", s), []float64{math.Sin(difference)}, []float64{0}, 0.02)
		}
	}
}

// patches cuts the image into squares and sorts them: the input of a model without positions.
func patches(image []uint8, size, side int) [][]byte {
	var out [][]byte
	for i := 0; i < size; i += side {
		for j := 0; j < size; j += side {
			var patch []byte
			for k := range side {
				patch = append(patch, image[(i+k)*size+j:][:side]...)
			}
			out = append(out, patch)
		}
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

func TestShapes_WhereIsInvisibleToABagOfPatches(t *testing.T) {
	equal := func(a, b sprite, size, side int) bool {
		return slices.EqualFunc(patches(a.render(size, size), size, side),
			patches(b.render(size, size), size, side), bytes.Equal)
	}
	for _, c := range []struct{ size, side int }{{32, 8}, {32, 4}, {64, 16}, {64, 8}} {
		for k := 0; k < spriteCount; k += 10007 {
			s := spriteAt(k)
			s.row, s.column = s.row%16, s.column%16 // the cell at the top left, and all four from there
			for cell := range 4 {
				moved := s
				moved.row, moved.column = s.row+cell/2*16, s.column+cell%2*16
				if got := tasks[taskWhere].label(moved); got != cell {
					t.Fatalf("%+v has label %d, want %d", moved, got, cell)
				}
				if !equal(s, moved, c.size, c.side) {
					t.Fatalf("%d pixels, patch %d: %+v and %+v differ in their patches", c.size, c.side, s, moved)
				}
			}
		}
		next := sprite{1, 3, 7, 5, 5}
		next.column += 2 // in contrast, the next class of taskLocation
		if c.side > c.size/32 && equal(sprite{1, 3, 7, 5, 5}, next, c.size, c.side) {
			t.Errorf("%d pixels, patch %d: the next taskLocation class has the same patches", c.size, c.side)
		}
	}
}

func TestShapes_AreAFunctionOfTheSeed(t *testing.T) {
	train, test, err := Shapes(taskLocation, 307, 101, 32, 5)
	gomlxtest.NoError(t, err)
	gomlxtest.NoError(t, errors.Join(train.check(), test.check()))
	equal(t, "images, pixels, classes", [4]int{train.Len(), test.Len(), train.Height, len(train.Classes)},
		[4]int{307, 101, 32, 16})
	again, _, _ := Shapes(taskLocation, 307, 11, 32, 5)
	other, _, _ := Shapes(taskLocation, 307, 11, 32, 6)
	if Fingerprint(again) != Fingerprint(train) || Fingerprint(other) == Fingerprint(train) {
		t.Error("the set is not a function of the seed alone")
	}
	images := map[string]bool{} // for this seed no two coincide by the square's or the ellipse's symmetry either
	for _, set := range []*InMemory{train, test} {
		for i := range set.Len() {
			images[string(set.Row(i))] = true
		}
	}
	equal(t, "different images", len(images), 307+101)
	for name, c := range map[string]struct {
		task              string
		train, test, size int
	}{"colour": {"colour", 5, 5, 32}, "images": {taskWhere, spriteCount, 1, 32}, "size": {taskWhere, 5, 5, 7}} {
		_, _, err := Shapes(c.task, c.train, c.test, c.size, 1)
		oneLine(t, name, err, name)
	}
}
