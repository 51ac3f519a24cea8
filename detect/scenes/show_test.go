// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"image"
	"image/color"
	"image/draw"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// maskOf is the mask of a polygon.
func maskOf(polygon []float64, height, width int) (coco.RLE, error) {
	s := coco.Segmentation{Polygons: [][]float64{polygon}}
	return s.Mask(height, width)
}

func TestObjectsAreDrawnWhereTheyAre(t *testing.T) {
	grey := image.NewRGBA(image.Rect(0, 0, 160, 120)) // enlarged by 3 to 480
	draw.Draw(grey, grey.Rect, image.NewUniform(color.RGBA{100, 100, 100, 255}), image.Point{}, draw.Src)
	mask := gomlxtest.Must(maskOf([]float64{60, 50, 60, 80, 80, 80, 80, 50}, 120, 160))(t)
	names := []coco.Category{{Name: "a"}, {Name: "heart"}}
	o := Object{Class: 1, Box: coco.Box{50, 40, 40, 50}, Mask: mask, Score: 0.875}
	out := Show(grey, []Object{o}, names)
	if out.Rect != image.Rect(0, 0, 480, 360) {
		t.Fatalf("an image of %v", out.Rect)
	}
	ink := hues[1]
	mixed := func(to uint8) uint8 { return uint8(0.55*100 + 0.45*float64(to) + 0.5) }
	for at, want := range map[image.Point]color.RGBA{
		{150, 120}: ink, {269, 269}: ink, {151, 200}: ink, {268, 200}: ink, // the box, 150…270 by 120…270
		{153, 200}: {100, 100, 100, 255}, {272, 200}: {100, 100, 100, 255}, // inside and outside
		{210, 200}: {mixed(ink.R), mixed(ink.G), mixed(ink.B), 255}, // the mask, 180…240 by 150…240
		{180, 200}: ink, {239, 200}: ink, {179, 200}: {100, 100, 100, 255}, {240, 200}: {100, 100, 100, 255},
		{151, 107}: ink, {20, 20}: {100, 100, 100, 255}, // the name above the box
	} {
		if got := out.RGBAAt(at.X, at.Y); got != want {
			t.Errorf("at %v %v, want %v", at, got, want)
		}
	}
	o.Score = 0
	if slices.Equal(Show(grey, []Object{o}, names).Pix, out.Pix) {
		t.Error("the score is not written")
	}
	o.Class = 9 // without a name, beyond the border
	o.Box = coco.Box{-20, -5, 500, 700}
	Show(grey, []Object{o, {}}, nil)
}
