// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/numeric"
)

// Visualization is an image at the model's size, and the PCA of its patches as RGB.
type Visualization struct {
	Image   Image
	Seen    *image.RGBA
	Patches *image.RGBA // a pixel for each patch
}

// PCA visualizes the patches of some images of a list, by index: red, green and blue are their first three principal
// axes over all of these images jointly, each stretched to its range (Oquab et al. 2023,
// https://arxiv.org/abs/2304.07193, figure 1). Images that cannot be read are skipped and listed in the error, of type
// finetune.ReadErrors.
//
// With foreground the first axis divides patches at zero; the foreground is coloured by three axes of its own, and the
// background is black. Because an axis has no sign, the background is the side on which the patches at the images'
// margins lie in the mean.
func PCA(m *finetune.Model, l *List, rows []int, foreground bool) ([]Visualization, error) {
	images := make([]*data.Image, len(rows))
	read := func(i int) (p *data.Image, err error) {
		p, err = l.read[rows[i]]()
		images[i] = p
		return p, err
	}
	var out []Visualization
	var points []float64
	var margin []bool
	missing := finetune.ReadErrors{}
	name := func(i int) string { return l.Images[rows[i]].File }
	err := m.EmbedEach(len(rows), name, read, func(i int, f finetune.Features, unread error) (err error) {
		var seen *data.Image
		if unread == nil {
			seen, err = m.PreprocessImage(images[i])
		} else {
			missing[i] = unread
		}
		if seen == nil {
			return err
		}
		patches := image.NewRGBA(image.Rect(0, 0, f.Cols, f.Rows))
		draw.Draw(patches, patches.Bounds(), image.Black, image.Point{}, draw.Src) // the background
		out = append(out, Visualization{l.Images[rows[i]], seen.RGBA(), patches})
		for _, v := range f.Patches {
			points = append(points, float64(v))
		}
		margin = append(margin, marginOf(f.Rows, f.Cols)...)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(missing) > 0:
		err = missing
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("features: none of the images of %s can be read: %w", l.Name, err)
	}
	shown, colours, pcaErr := colour(points, margin, foreground)
	if pcaErr != nil {
		return nil, pcaErr
	}
	perPicture := len(margin) / len(out)
	for k, p := range shown {
		at := out[p/perPicture].Patches
		cols := at.Bounds().Dx()
		at.SetRGBA(p%perPicture%cols, p%perPicture/cols, colours[k])
	}
	return out, err
}

// marginOf reports which patches are on the margin of a grid.
func marginOf(rows, cols int) (on []bool) {
	for row := range rows {
		for col := range cols {
			on = append(on, row == 0 || col == 0 || row == rows-1 || col == cols-1)
		}
	}
	return on
}

// colour returns the colours of points [n, width], or of the foreground: the indices and the colours.
func colour(points []float64, margin []bool, foreground bool) (shown []int, colours []color.RGBA, err error) {
	n := len(margin)
	width := len(points) / n
	for i := range n {
		shown = append(shown, i)
	}
	axes, err := numeric.PCA(points, n, 3)
	if err != nil {
		return nil, nil, err
	}
	first := axes.Scores[0]
	var outside, inside []float64
	for i, v := range first {
		if margin[i] {
			outside = append(outside, v)
		} else {
			inside = append(inside, v)
		}
	}
	if stat.Mean(outside, nil) > stat.Mean(inside, nil) { // never of two rows or columns: the mean of none is NaN
		floats.Scale(-1, first)
	}
	if foreground {
		shown = slices.DeleteFunc(shown, func(i int) bool { return !(first[i] > 0) })
		if len(shown) < 2 {
			return nil, nil, fmt.Errorf("features: %d of %d patches are foreground: draw all patches, without --foreground",
				len(shown), n)
		}
		var front []float64
		for _, i := range shown {
			front = append(front, points[i*width:(i+1)*width]...)
		}
		axes, err = numeric.PCA(front, len(shown), 3)
	}
	colours = make([]color.RGBA, len(shown))
	for k := range colours {
		colours[k].A = 255
	}
	for c, scores := range axes.Scores { // fewer than three for shorter points
		for k, v := range numeric.MinMax(scores) {
			*[]*uint8{&colours[k].R, &colours[k].G, &colours[k].B}[c] = uint8(255*v + 0.5)
		}
	}
	return shown, colours, err
}
