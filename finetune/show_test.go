// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A column per image: the first row is the dataset, the others are epochs.
func TestShowAugmentation_DrawsEachEpoch(t *testing.T) {
	set := dataset(11, 3)
	show := func(settings string) image.Image {
		var file bytes.Buffer
		if err := gomlxtest.Must(tiny().Set(settings))(t).ShowAugmentation(&file, gomlxtest.Backend(), set, 7); err != nil {
			t.Fatal(err)
		}
		return gomlxtest.Must(png.Decode(&file))(t)
	}
	plain, flipped := show(""), show("augment.hflip=1")
	size, each := plain.Bounds().Size(), plain.Bounds().Dy()/(1+shownEpochs)
	differ := func(row int) (n int) {
		for y := row * each; y < (row+1)*each; y++ {
			for x := range size.X {
				if plain.At(x, y) != flipped.At(x, y) {
					n++
				}
			}
		}
		return n
	}
	if size != flipped.Bounds().Size() || differ(0) > 0 || differ(1) == 0 || differ(shownEpochs) == 0 {
		t.Errorf("of %v pixels %d of the dataset differ, %d and %d of two epochs", size, differ(0), differ(1),
			differ(shownEpochs))
	}
}
