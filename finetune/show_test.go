// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// shownCell is an image of ShowAugmentation's, at the dataset's size.
func shownCell(t *testing.T, page image.Image, row, column, height, width int) []uint8 {
	t.Helper()
	times := (page.Bounds().Dx() - shownGap) / shownImages / width
	var out []uint8
	for y := range height {
		for x := range width {
			at := image.Pt(shownGap+column*(width*times+shownGap)+x*times, shownGap+row*(height*times+shownGap)+y*times)
			for _, corner := range []image.Point{at, at.Add(image.Pt(times-1, times-1))} {
				r, g, b, _ := page.At(corner.X, corner.Y).RGBA()
				out = append(out, uint8(r>>8), uint8(g>>8), uint8(b>>8))
			}
		}
	}
	return out
}

func TestTheGridOfAnAugmentationShowsImagesBeforeAndAfterIt(t *testing.T) {
	set := dataset(11, 3)
	show := func(settings string) image.Image {
		r := gomlxtest.Must(tiny().Set(settings))(t)
		var file bytes.Buffer
		if err := r.ShowAugmentation(&file, gomlxtest.Backend(), set, 7); err != nil {
			t.Fatal(err)
		}
		return gomlxtest.Must(png.Decode(&file))(t)
	}
	if g := newGrid(1, 1, 10, 50); g.height != 100 || g.width != 500 { // ten times 10 is the first above 96
		t.Errorf("an image of 10×50 is shown with %d×%d pixels", g.height, g.width)
	}
	cell := func(page image.Image, row, column int) []uint8 {
		return shownCell(t, page, row, column, set.Height, set.Width)
	}
	flipped, changed := show("augment.flip_prob=1"), show("augment.policy=randaug(2,10);augment.flip_prob=0")
	for k := range shownImages {
		want := make([]uint8, 0, 6*set.Height*set.Width)
		mirrored := data.Augment{FlipProb: 1, Resample: "bilinear"}.Apply(
			&data.Image{Height: set.Height, Width: set.Width, Pixels: set.Row(k)}, 0, 0, k).Pixels
		for _, pixels := range [][]uint8{set.Row(k), mirrored} {
			want = want[:0]
			for i := 0; i < len(pixels); i += 3 {
				want = append(append(want, pixels[i:i+3]...), pixels[i:i+3]...)
			}
			row := 0
			if &pixels[0] == &mirrored[0] {
				row = shownEpochs
			}
			if got := cell(flipped, row, k); !bytes.Equal(got, want) {
				t.Fatalf("image %d in row %d is %v, want %v", k, row, got, want)
			}
		}
		if bytes.Equal(cell(changed, 1, k), cell(changed, 2, k)) && bytes.Equal(cell(changed, 2, k), cell(changed, 3, k)) {
			t.Errorf("image %d is the same in three epochs", k)
		}
	}
}
