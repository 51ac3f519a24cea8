// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/outline"
	"github.com/wepe-go/wepe/internal/random"
)

// Generated are scenes of overlapping shapes: 1 to 6 squares, ellipses and hearts, rotated by any angle, with sizes
// over two octaves, log-uniform, each in its own colour. A scene is a function of (Seed, Height, Width, index).
//
// A shape of scale f spans about f/2 of the shorter side, f from 0.3 to 1.2, and is within the image. At least a third
// of each is visible: a shape that would hide more is placed again, and after ten attempts omitted. The mask of an
// object is its visible part: the pixels of which it covers at least half; of two halves the upper.
type Generated struct {
	Count  int   `json:"count"`
	Height int   `json:"height"`
	Width  int   `json:"width"`
	Seed   int64 `json:"seed,omitzero"`
	Most   int   `json:"most,omitzero"` // maximum number of shapes in a scene, 1 to 6; 0 for 6
}

const (
	mostShapes = 6
	leastScale = 0.3
	scaleRange = 4.0 // two octaves
	visible    = 3   // one of this many parts is visible
	placements = 10
	samples    = 4 // along each axis of a pixel
)

// categories are the kinds of shapes in the order of outline.Shapes.
var categories = []coco.Category{
	{ID: 1, Name: "square", Supercategory: "shape"},
	{ID: 2, Name: "ellipse", Supercategory: "shape"},
	{ID: 3, Name: "heart", Supercategory: "shape"},
}

// name tells the shapes from those of another seed or number.
func (g Generated) name() string {
	if g.Most == 0 || g.Most == mostShapes {
		return fmt.Sprintf("shapes-%d", g.Seed)
	}
	return fmt.Sprintf("shapes-%d-most-%d", g.Seed, g.Most)
}

// Set returns the scenes, or an error for images that are too small for shapes, or too large.
func (g Generated) Set() (*Set, error) {
	if g.Count < 1 || min(g.Height, g.Width) < 32 || max(g.Height, g.Width) > 4096 {
		return nil, fmt.Errorf("scenes: %d images of %d×%d pixels, want 1 and more, 32 to 4096 a side", g.Count, g.Height,
			g.Width)
	}
	if g.Most < 0 || g.Most > mostShapes {
		return nil, fmt.Errorf("scenes: the largest number of shapes is %d, want 1 to %d", g.Most, mostShapes)
	}
	return &Set{Name: g.name(), Categories: slices.Clone(categories), Len: g.Count,
		At: func(index int) (*Scene, error) { return g.at(index), nil }, Annotated: sync.OnceValues(g.annotated),
		Areas: g.areas(), Rows: g.Height, Cols: g.Width}, nil
}

// areas are ranges that divide the two octaves into thirds: COCO's 32² and 96² suit larger images.
func (g Generated) areas() coco.Areas {
	const mean = 0.11 // area of a shape of scale 1
	side := float64(min(g.Height, g.Width))
	low := mean * math.Pow(leastScale*math.Pow(scaleRange, 1.0/3)*side, 2)
	high := mean * math.Pow(leastScale*math.Pow(scaleRange, 2.0/3)*side, 2)
	const most = 1e5 * 1e5 // as in COCO
	return coco.Areas{{0, most}, {0, low}, {low, high}, {high, most}}
}

// shape is one shape of a scene.
type shape struct {
	kind     int     // index into outline.Shapes
	row, col float64 // of the centre
	scale    float64 // pixels per unit of the outline
	sin, cos float64
}

// place draws a random shape.
func (g Generated) place(r *rand.Rand) shape {
	s := shape{kind: r.IntN(len(categories))}
	s.scale = leastScale * math.Pow(scaleRange, r.Float64()) * float64(min(g.Height, g.Width))
	radius := outline.Radius * s.scale
	s.row = radius + r.Float64()*(float64(g.Height)-2*radius)
	s.col = radius + r.Float64()*(float64(g.Width)-2*radius)
	s.sin, s.cos = math.Sincos(2 * math.Pi * r.Float64())
	return s
}

// covered returns which of the samples [samples·height, samples·width] a shape covers.
func (g Generated) covered(s shape) (at []int) {
	radius := outline.Radius * s.scale
	first := func(centre float64) int { return max(0, int((centre-radius)*samples)) }
	end := func(centre float64, n int) int { return min(samples*n, int((centre+radius)*samples)+1) }
	for i := first(s.row); i < end(s.row, g.Height); i++ {
		for j := first(s.col); j < end(s.col, g.Width); j++ {
			dy, dx := ((float64(i)+0.5)/samples-s.row)/s.scale, ((float64(j)+0.5)/samples-s.col)/s.scale
			if outline.Shapes[s.kind](s.cos*dx+s.sin*dy, s.cos*dy-s.sin*dx) {
				at = append(at, i*samples*g.Width+j)
			}
		}
	}
	return at
}

const background = -1

// arrange places the shapes of a scene and returns which of them, or the background, is visible at each sample.
func (g Generated) arrange(r *rand.Rand) (shapes []shape, seen []int8) {
	seen = make([]int8, samples*samples*g.Height*g.Width)
	for i := range seen {
		seen[i] = background
	}
	var whole, left []int // samples of each shape, and the visible ones
	for range 1 + r.IntN(cmp.Or(g.Most, mostShapes)) {
		for range placements {
			s := g.place(r)
			at := g.covered(s)
			hidden := make([]int, len(shapes))
			for _, k := range at {
				if seen[k] != background {
					hidden[seen[k]]++
				}
			}
			fits := true
			for k := range shapes {
				fits = fits && (hidden[k] == 0 || visible*(left[k]-hidden[k]) >= whole[k])
			}
			if !fits {
				continue
			}
			for k := range hidden {
				left[k] -= hidden[k]
			}
			for _, k := range at {
				seen[k] = int8(len(shapes))
			}
			shapes, whole, left = append(shapes, s), append(whole, len(at)), append(left, len(at))
			break
		}
	}
	return shapes, seen
}

// at returns a scene.
func (g Generated) at(index int) *Scene {
	r := random.Draw("scene", g.Seed, 0, index)
	shapes, seen := g.arrange(r)
	paint := newPaint(r, len(shapes))
	s := &Scene{ImageID: int64(index + 1), Rows: g.Height, Cols: g.Width,
		Image: &data.Image{Height: g.Height, Width: g.Width, Pixels: make([]uint8, 0, 3*g.Height*g.Width)}}
	masks := make([][]bool, len(shapes))
	for k := range masks {
		masks[k] = make([]bool, g.Height*g.Width)
	}
	for i := range g.Height {
		for j := range g.Width {
			ground := paint.ground((float64(i)+0.5)/float64(g.Height), (float64(j)+0.5)/float64(g.Width))
			var sum [3]float64
			var share [mostShapes]int
			for k := range samples * samples {
				owner := seen[(samples*i+k/samples)*samples*g.Width+samples*j+k%samples]
				colour := ground
				if owner != background {
					colour = paint.shapes[owner]
					share[owner]++
				}
				for c := range sum {
					sum[c] += colour[c] / (samples * samples)
				}
			}
			for _, v := range sum {
				s.Image.Pixels = append(s.Image.Pixels, uint8(255*v+0.5))
			}
			for k := len(shapes) - 1; k >= 0; k-- {
				if 2*share[k] >= samples*samples {
					masks[k][i*g.Width+j] = true
					break
				}
			}
		}
	}
	for k, mask := range masks {
		o := Object{Class: shapes[k].kind, Mask: coco.Encode(mask, g.Height, g.Width)}
		if o.Box = o.Mask.Box(); o.Mask.Area() > 0 {
			s.Objects = append(s.Objects, o)
		}
	}
	return s
}

// paint is the colours of a scene: red, green and blue, 0 to 1.
type paint struct {
	shapes [][3]float64
	from   [3]float64 // of the background, along a direction
	to     [3]float64
	down   float64
}

// newPaint draws random colours: bright shapes with distinct hues, on a dark background that fades from one colour to
// another.
func newPaint(r *rand.Rand, n int) paint {
	var p paint
	first := r.Float64()
	for k := range n {
		hue := first + (float64(k)+0.5*r.Float64())/float64(n)
		p.shapes = append(p.shapes, hsv(hue, 0.6+0.4*r.Float64(), 0.6+0.4*r.Float64()))
	}
	p.from = hsv(r.Float64(), 0.4*r.Float64(), 0.4*r.Float64())
	p.to = hsv(r.Float64(), 0.4*r.Float64(), 0.4*r.Float64())
	p.down = r.Float64()
	return p
}

// ground is the background at a position, row and column from 0 to 1.
func (p paint) ground(row, col float64) (c [3]float64) {
	part := p.down*row + (1-p.down)*col
	for k := range c {
		c[k] = (1-part)*p.from[k] + part*p.to[k]
	}
	return c
}

// hsv converts hue (its integer part is ignored), saturation and value to red, green and blue.
func hsv(hue, saturation, value float64) (c [3]float64) {
	for k := range c {
		_, place := math.Modf(hue + float64(k)/3)
		ramp := min(max(math.Abs(6*place-3)-1, 0), 1) // 1 within a sixth of a turn of the channel's own hue, 0 beyond a third
		c[k] = value * (1 - saturation*(1-ramp))
	}
	return c
}

// annotated returns the annotations of all scenes, with masks as run lengths: the content of instances.json. Images of
// a single shape are in a folder of its category: these are class folders for a classifier, too.
func (g Generated) annotated() (*coco.Dataset, error) {
	d := &coco.Dataset{Name: g.name(), Categories: slices.Clone(categories)}
	for i := range g.Count {
		s := g.at(i)
		name := fmt.Sprintf("%012d.png", s.ImageID)
		if g.Most == 1 && len(s.Objects) == 1 {
			name = categories[s.Objects[0].Class].Name + "/" + name
		}
		d.Images = append(d.Images, coco.Image{ID: s.ImageID, FileName: name, Height: g.Height, Width: g.Width})
		for _, o := range s.Objects {
			d.Annotations = append(d.Annotations, coco.Annotation{ID: int64(len(d.Annotations) + 1), ImageID: s.ImageID,
				CategoryID: categories[o.Class].ID, Segmentation: o.Mask.Segmentation(), Area: new(float64(o.Mask.Area())),
				Box: &o.Box, Crowd: new(0)})
		}
	}
	return d, nil
}
