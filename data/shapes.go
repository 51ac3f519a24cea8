// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"math"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/outline"
	"github.com/wepe-go/wepe/internal/random"
)

// The factors of dSprites (Matthey, Higgins, Hassabis and Lerchner 2017): every combination is one image.
const (
	spriteShapes       = 3 // square, ellipse, heart
	spriteScales       = 6 // 0.5 to 1
	spriteOrientations = 40
	spritePositions    = 32 // along each axis
	spriteCount        = spriteShapes * spriteScales * spriteOrientations * spritePositions * spritePositions
)

// Classification tasks on the generated shapes.
const (
	// VTAB's dSprites/location: the column of the centre, 32 positions in 16 classes.
	taskLocation = "location"
	// VTAB's dSprites/orientation: 40 angles in 16 classes, floor(k/2.5).
	taskOrientation = "orientation"
	// The quadrant of the centre: 2×2 cells of 16×16 positions, 4 classes.
	//
	// One class is a quarter of the image's side away from the next. If the patch side divides that (8 pixels of 32, 16 of
	// 64), images of two classes can consist of the same patches at other positions, so a model without positions stays at
	// chance, 25 %. In taskLocation a class is 1/32 of the side, less than a patch: the outline within a patch reveals
	// part of the answer.
	taskWhere = "where"
	// The shape: square, ellipse or heart, 3 classes.
	taskShape = "shape"
)

// sprite is one combination of factors.
type sprite struct{ shape, scale, orientation, row, column int }

// spriteAt returns the combination number k of spriteCount.
func spriteAt(k int) sprite {
	var s sprite
	s.column, k = k%spritePositions, k/spritePositions
	s.row, k = k%spritePositions, k/spritePositions
	s.orientation, k = k%spriteOrientations, k/spriteOrientations
	s.scale, s.shape = k%spriteScales, k/spriteScales
	return s
}

// tasks are the class names of each task, and the class of a sprite.
var tasks = map[string]struct {
	classes []string
	label   func(s sprite) int
}{
	taskLocation: {sixteen(func(k int) string { return fmt.Sprintf("columns %d-%d of 32", 2*k, 2*k+1) }),
		func(s sprite) int { return s.column / 2 }},
	taskOrientation: {sixteen(func(k int) string {
		first := (5*k + 1) / 2 // the smallest o with floor(o/2.5) = k
		last := (5*k+6)/2 - 1
		return fmt.Sprintf("%d-%d degrees", first*9, last*9)
	}), func(s sprite) int { return s.orientation * 2 / 5 }},
	taskWhere: {[]string{"top left", "top right", "bottom left", "bottom right"},
		func(s sprite) int { return s.row/16*2 + s.column/16 }},
	taskShape: {[]string{"square", "ellipse", "heart"}, func(s sprite) int { return s.shape }},
}

func sixteen(name func(k int) string) []string {
	names := make([]string, 16)
	for k := range names {
		names[k] = name(k)
	}
	return names
}

// Shapes renders a training and a test dataset for a task: "where" (the quadrant of the centre, 4 classes), "location"
// (the column of the centre in sixteenths), "orientation" (40 angles in 16 classes) or "shape" (square, ellipse or
// heart). The combinations of factors differ and are chosen uniformly as a function of the seed; the images have
// size×size pixels (dSprites has 64; 32 is enough to learn from and four times faster). They are white on black with
// grey outlines, the grey repeated in 3 channels as in VTAB. No file is read. As in dSprites a square
// rotated by a quarter turn, or an ellipse by a half turn, is one image under two combinations.
func Shapes(task string, train, test, size int, seed int64) (trainSet, testSet *InMemory, err error) {
	asTheyAre := preprocess.Settings{Crop: [2]int{size, size}}
	return renderedShapes(task, train, test, size, seed, asTheyAre, func(int) (int, int) { return size, size })
}

// ShapesOfAspects is [Shapes] in images of several aspect ratios, height/width log-uniform from 1/4 to 4 and the area
// size×size pixels, then preprocessed by p. Lengths are in units of the shorter side, so that no shape is cut off or
// distorted; centres are fractions of each side.
func ShapesOfAspects(task string, train, test, size int, seed int64, p preprocess.Settings) (
	trainSet, testSet *InMemory, err error) {
	return renderedShapes(task, train, test, size, seed, p, func(k int) (int, int) {
		root := math.Exp2(2*random.New(streamShapes, seed, 1, k).Float64() - 1) // of the aspect
		side := func(x float64) int { return int(math.Round(x)) }
		return side(float64(size) * root), side(float64(size) / root)
	})
}

// renderedShapes renders the datasets of Shapes; the sides of images may depend on the combination of factors.
func renderedShapes(task string, train, test, size int, seed int64, p preprocess.Settings,
	sides func(k int) (height, width int)) (trainSet, testSet *InMemory, err error) {
	of, known := tasks[task]
	switch {
	case !known:
		return nil, nil, fmt.Errorf("data: shapes: unknown task %q, want %q, %q, %q or %q",
			task, taskLocation, taskOrientation, taskWhere, taskShape)
	case train < 1 || test < 1 || train > spriteCount || test > spriteCount-train:
		return nil, nil, fmt.Errorf("data: shapes: %d training and %d test images, want 1 or more and at most %d together",
			train, test, spriteCount)
	case size < 8 || size > 1024:
		return nil, nil, fmt.Errorf("data: shapes: size %d, want 8 to 1024 pixels", size)
	}
	combinations := random.New(streamShapes, seed, 0, 0).Perm(spriteCount)
	build := func(part string, combinations []int) (*InMemory, error) {
		s, err := newMemory(fmt.Sprintf("shapes-%s-%s", task, part), len(combinations), of.classes, p)
		if err != nil {
			return nil, err
		}
		for i, k := range combinations {
			sprite := spriteAt(k)
			s.Labels[i] = int32(of.label(sprite))
			height, width := sides(k)
			img := &Image{Height: height, Width: width}
			for _, v := range sprite.render(height, width) {
				img.Pixels = append(img.Pixels, v, v, v)
			}
			if img, err = img.Preprocess(p); err != nil {
				return nil, err
			}
			s.put(i, img)
		}
		return s, nil
	}
	if trainSet, err = build("train", combinations[:train]); err == nil {
		testSet, err = build("test", combinations[train:train+test])
	}
	return trainSet, testSet, err
}

// render draws a sprite on height×width pixels, 0…255: the coverage of each pixel, from 4×4 samples.
//
// The shorter side of the image is 1, rows go downwards. Centres are at 1/4 + (k+½)/64 of a side: one pixel of dSprites
// apart. Scale k is 0.5 + 0.1·k. Orientation k rotates by 2πk/40, clockwise; dSprites uses 2πk/39, which makes its
// first and last orientation one image under two labels.
func (s sprite) render(height, width int) []uint8 {
	const samples = 4
	var (
		size      = min(height, width)
		row       = (0.25 + (float64(s.row)+0.5)/64) * float64(height) / float64(size)
		column    = (0.25 + (float64(s.column)+0.5)/64) * float64(width) / float64(size)
		factor    = 1 / (0.5 + 0.1*float64(s.scale))
		angle     = 2 * math.Pi * float64(s.orientation) / spriteOrientations
		sin, cos  = math.Sincos(angle)
		step      = 1 / float64(samples*size)
		firstRow  = int(math.Floor((row - outline.Radius) * float64(size)))
		firstCol  = int(math.Floor((column - outline.Radius) * float64(size)))
		endRow    = int(math.Ceil((row + outline.Radius) * float64(size)))
		endColumn = int(math.Ceil((column + outline.Radius) * float64(size)))
	)
	out := make([]uint8, height*width)
	for i := firstRow; i < endRow; i++ {
		for j := firstCol; j < endColumn; j++ {
			covered := 0
			for k := range samples * samples {
				// Sums of binary fractions if size is a power of two: shifts by whole pixels change no bit.
				dy := (float64(samples*i+k/samples)+0.5)*step - row
				dx := (float64(samples*j+k%samples)+0.5)*step - column
				if outline.Shapes[s.shape](factor*(cos*dx+sin*dy), factor*(cos*dy-sin*dx)) {
					covered++
				}
			}
			out[i*width+j] = uint8((255*covered + samples*samples/2) / (samples * samples))
		}
	}
	return out
}
