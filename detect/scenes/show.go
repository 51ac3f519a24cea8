// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"image"
	"image/color"
	"slices"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/wepe-go/wepe/detect/coco"
)

// shownSide is the longer side to which small images are enlarged, by an integer factor, so that names are readable.
const shownSide = 480

// hues are the colours of classes: Okabe and Ito's, which colour-blind readers can distinguish, without black.
var hues = []color.RGBA{{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 158, 115, 255}, {240, 228, 66, 255},
	{0, 114, 178, 255}, {213, 94, 0, 255}, {204, 121, 167, 255}}

// Show draws objects over an image, the first on top: masks filled, boxes, names of categories by class, and nonzero
// scores. Small images are enlarged.
func Show(img image.Image, objects []Object, categories []coco.Category) *image.RGBA {
	b := img.Bounds()
	factor := max(1, shownSide/max(b.Dx(), b.Dy(), 1))
	out := image.NewRGBA(image.Rect(0, 0, factor*b.Dx(), factor*b.Dy()))
	draw.NearestNeighbor.Scale(out, out.Bounds(), img, b, draw.Src, nil)
	for _, o := range slices.Backward(objects) {
		tint(out, o, factor)
	}
	for _, o := range slices.Backward(objects) {
		frame(out, o, factor)
	}
	for _, o := range slices.Backward(objects) { // on top
		label(out, o, factor, categories)
	}
	return out
}

func (o *Object) hue() color.RGBA { return hues[max(0, o.Class)%len(hues)] }

// tint fills a mask, with a darker outline.
func tint(out *image.RGBA, o Object, factor int) {
	if !o.hasMask() {
		return
	}
	mask, hue := o.Mask.Decode(), o.hue()
	inside := func(x, y int) bool {
		return x >= 0 && y >= 0 && x < o.Mask.Width && y < o.Mask.Height && mask[y*o.Mask.Width+x]
	}
	for y := range min(out.Rect.Dy(), factor*o.Mask.Height) {
		for x := range min(out.Rect.Dx(), factor*o.Mask.Width) {
			if !inside(x/factor, y/factor) {
				continue
			}
			part := 0.45
			for _, next := range [4][2]int{{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}} {
				if next[0] < 0 || next[1] < 0 || !inside(next[0]/factor, next[1]/factor) {
					part = 1
				}
			}
			c := out.RGBAAt(x, y)
			mix := func(from, to uint8) uint8 { return uint8((1-part)*float64(from) + part*float64(to) + 0.5) }
			out.SetRGBA(x, y, color.RGBA{mix(c.R, hue.R), mix(c.G, hue.G), mix(c.B, hue.B), 255})
		}
	}
}

// frame draws a box two pixels wide, along its inside.
func frame(out *image.RGBA, o Object, factor int) {
	c := o.Box.Corners()
	r := image.Rect(factor*int(c[0]), factor*int(c[1]), int(float64(factor)*c[2]+0.5), int(float64(factor)*c[3]+0.5))
	ink := image.NewUniform(o.hue())
	for _, line := range []image.Rectangle{
		{r.Min, image.Pt(r.Max.X, r.Min.Y+2)}, {image.Pt(r.Min.X, r.Max.Y-2), r.Max},
		{r.Min, image.Pt(r.Min.X+2, r.Max.Y)}, {image.Pt(r.Max.X-2, r.Min.Y), r.Max},
	} {
		draw.Draw(out, line.Intersect(out.Bounds()), ink, image.Point{}, draw.Src)
	}
}

// label writes name and score above the box, or within it at the upper border of the image.
func label(out *image.RGBA, o Object, factor int, categories []coco.Category) {
	text := fmt.Sprintf("class %d", o.Class)
	if o.Class >= 0 && o.Class < len(categories) {
		text = categories[o.Class].Name
	}
	if o.Score != 0 {
		text += fmt.Sprintf(" %.2f", o.Score)
	}
	face := basicfont.Face7x13
	height, width := face.Height+1, font.MeasureString(face, text).Ceil()+4
	left := max(0, min(int(float64(factor)*o.Box[0]), out.Rect.Dx()-width))
	top := max(0, int(float64(factor)*o.Box[1])-height)
	draw.Draw(out, image.Rect(left, top, left+width, top+height), image.NewUniform(o.hue()), image.Point{}, draw.Src)
	d := font.Drawer{Dst: out, Src: image.Black, Face: face, Dot: fixed.P(left+2, top+face.Ascent+1)}
	d.DrawString(text)
}
