// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"image"
	"image/color"
	"image/draw"
	"testing"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// maskOf is the mask of a polygon.
func maskOf(polygon []float64, height, width int) (coco.RLE, error) {
	s := coco.Segmentation{Polygons: [][]float64{polygon}}
	return s.Mask(height, width)
}

func TestShow_DrawsObjectsWhereTheyAre(t *testing.T) {
	grey := image.NewRGBA(image.Rect(0, 0, 160, 120)) // enlarged by 3 to 480
	draw.Draw(grey, grey.Rect, image.NewUniform(color.RGBA{100, 100, 100, 255}), image.Point{}, draw.Src)
	mask := gomlxtest.Must(maskOf([]float64{60, 50, 60, 80, 80, 80, 80, 50}, 120, 160))(t)
	first := Object{Class: 1, Box: coco.Box{50, 40, 40, 50}, Mask: mask, Score: 0.875}
	beyond := Object{Class: 9, Box: coco.Box{-20, -5, 500, 700}} // without a name
	out := Show(grey, []Object{first, {Class: 2, Box: first.Box}, beyond}, []coco.Category{{Name: "a"}, {Name: "heart"}})
	if out.Rect != image.Rect(0, 0, 480, 360) {
		t.Fatalf("an image of %v", out.Rect)
	}
	plain := color.RGBA{100, 100, 100, 255}
	for at, want := range map[image.Point]bool{
		{150, 120}: true, {269, 269}: true, {153, 200}: false, {272, 200}: false, // the box, 150…270 by 120…270
		{180, 200}: true, {239, 200}: true, {179, 200}: false, {240, 200}: false, // the mask, 180…240 by 150…240
		{151, 107}: true, // the name above the box
	} {
		got := out.RGBAAt(at.X, at.Y)
		if want && got != hues[1] || !want && got != plain { // the first object is on top
			t.Errorf("at %v %v", at, got)
		}
	}
}
