// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

var toStrips = preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{20, 16}, Patch: 4} // 5×4 patches

// gradual is an image whose pixels encode their position.
func gradual(height, width int) *Image {
	p := &Image{Height: height, Width: width}
	for y := range height {
		for x := range width {
			p.Pixels = append(p.Pixels, uint8(y), uint8(x), uint8(y*7+x*3))
		}
	}
	return p
}

func TestStrip_IsCutAndReassembled(t *testing.T) {
	for _, grid := range [][2]int{{5, 4}, {4, 5}, {2, 7}, {3, 6}, {8, 2}} {
		img := gradual(4*grid[0], 4*grid[1])
		strip := gomlxtest.Must(img.Preprocess(toStrips))(t)
		if strip.Grid != grid || strip.Height != 80 || strip.Width != 4 || len(strip.Pixels) != 3*80*4 {
			t.Fatalf("%v: grid %v, %d×%d", grid, strip.Grid, strip.Height, strip.Width)
		}
		for k := range grid[0] * grid[1] {
			for y := range 4 {
				for x := range 4 {
					want := img.Pixels[3*((k/grid[1]*4+y)*img.Width+k%grid[1]*4+x):][:3]
					if got := strip.Pixels[3*((4*k+y)*4+x):][:3]; !slices.Equal(got, want) {
						t.Fatalf("%v: patch %d, pixel %d, %d: %v, want %v", grid, k, y, x, got, want)
					}
				}
			}
		}
		padding := strip.Pixels[3*16*grid[0]*grid[1]:]
		if slices.ContainsFunc(padding, func(v uint8) bool { return v != 0 }) {
			t.Errorf("%v: padding is not black", grid)
		}
		set := &InMemory{
			Info:   Info{Labels: []int32{0}, Height: 80, Width: 4, Channels: 3, Grids: [][2]int{grid}},
			Pixels: strip.Pixels,
		}
		again := FromImage(set.RGBA(0))
		if again.Height != img.Height || again.Width != img.Width || !slices.Equal(again.Pixels, img.Pixels) {
			t.Errorf("%v: the image of the set is another one", grid)
		}
	}
}

func TestStrip_GridsStayWithTheirImages(t *testing.T) {
	train, test, err := ShapesOfAspects(taskShape, 53, 31, 24, 3, toStrips)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []*InMemory{train, test} {
		if err := set.check(); err != nil {
			t.Fatal(err)
		}
	}
	rows := []int{17, 3, 3, 50}
	some := train.Subset(rows)
	numbers := Augment{}.Plan(train, 0, 0, 0, rows).Grids
	known := preprocess.Grids(20)
	for k, row := range rows {
		if some.Grids[k] != train.Grids[row] || known[numbers[k]] != train.Grids[row] {
			t.Errorf("row %d: grid %v, number %d, want %v", row, some.Grids[k], numbers[k], train.Grids[row])
		}
	}
	other := train.Subset(rows)
	other.Grids[1] = [2]int{4, 4}
	if Fingerprint(other) == Fingerprint(some) {
		t.Error("the fingerprint does not depend on grids")
	}
	other.Grids[1] = [2]int{1, 2}
	oneLine(t, "a grid that no image has", other.check(), "image 1")
}

func TestShapesOfAspects_AreNotStretched(t *testing.T) {
	for k := 0; k < spriteCount; k += 30011 {
		for _, sides := range [][2]int{{32, 128}, {128, 32}, {40, 101}} {
			s := spriteAt(k)
			short := min(sides[0], sides[1])
			area := 0.0
			for _, v := range s.render(sides[0], sides[1]) {
				area += float64(v) / 255
			}
			want := 0.0
			for _, v := range s.render(short, short) {
				want += float64(v) / 255
			}
			if d := area - want; d > 0.03*want || d < -0.03*want {
				t.Errorf("%+v covers %.1f of %v pixels, want %.1f", s, area, sides, want)
			}
		}
	}
}
