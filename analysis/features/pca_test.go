// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/png"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Seven images at the angles 0, 1, 4, 9, … in radians: queries are images 0, 2 and 4.
func TestTable_NearestAreOrderedByCosine(t *testing.T) {
	l := listed(t)
	made := &Table{Name: "made", Width: 2}
	for _, p := range l.Images {
		if p.File != "cat/b.png" && p.File != "dog/cut.png" { // cannot be read
			angle := float64(len(made.Images) * len(made.Images))
			made.Images = append(made.Images, p)
			made.Values = append(made.Values, float32(2*math.Cos(angle)), float32(2*math.Sin(angle)))
		}
	}
	page := gomlxtest.Must(made.Nearest(l, 3, 4))(t)
	for q, query := range []int{0, 2, 4} {
		cosine := func(i int) float64 { return math.Cos(float64(query*query - i*i)) }
		want := []int{0, 1, 2, 3, 4, 5, 6}
		slices.SortFunc(want, func(a, b int) int { return cmp.Compare(cosine(b), cosine(a)) })
		section := page.Sections[q]
		for k, i := range want[:5] { // the query is first
			drawn := (i + 6) % 7 // the last of folder's images is the first of the list
			equal(t, fmt.Sprintf("query %d, image %d", q, k), section.Images[k].Title, made.Images[i].File)
			equal(t, section.Images[k].Title, sizeOf(t, section.Images[k].PNG), [2]int{7 + 2*drawn, 23 - drawn})
		}
		equal(t, "images", len(section.Images), 5)
	}
	copies := func(of int, files ...string) *Table { // the third copy is asked for as many others as the first
		made := &Table{Width: 2}
		for i, file := range files {
			made.Images, made.Values = append(made.Images, Image{File: file}), append(made.Values, float32(i%of), 1)
		}
		return made
	}
	a, b := l.Images[0].File, l.Images[1].File
	for _, c := range []struct {
		of              *Table
		queries, k      int
		sections, shown int // 0 is refused
	}{
		{copies(1, a, a, a), 3, 1, 3, 2}, {copies(1, a, a, a), 3, 3, 3, 3}, {copies(2, a, b), 3, 100, 2, 2},
		{copies(2, a), 3, 2, 0, 0}, {copies(2, a, b), 0, 1, 0, 0}, {copies(2, a, b), 1, 0, 0, 0},
		{copies(2, a, "cat/b.png"), 1, 1, 0, 0}, {copies(2, "elsewhere.png", b), 1, 1, 0, 0},
	} {
		page, err := c.of.Nearest(l, c.queries, c.k)
		if (err != nil) != (c.sections == 0) || err == nil && len(page.Sections) != c.sections {
			t.Errorf("%d images beside %d of %v: %d, %v", c.queries, c.k, c.of.Images, len(page.Sections), err)
			continue
		}
		for _, section := range page.Sections {
			equal(t, fmt.Sprintf("%d beside %d of %v", c.queries, c.k, c.of.Images), len(section.Images), c.shown)
		}
	}
	for size, want := range map[[2]int][2]int{{200, 320}: {100, 160}, {500, 250}: {160, 80}, {2, 1000}: {1, 160}} {
		content := gomlxtest.Must(thumbnail(data.FromImage(drawn(1, size[0], size[1]))))(t)
		equal(t, fmt.Sprint(size), sizeOf(t, content), want)
	}
}

// sizeOf returns the rows and columns of a png.
func sizeOf(t *testing.T, content []byte) [2]int {
	t.Helper()
	c := gomlxtest.Must(png.DecodeConfig(bytes.NewReader(content)))(t)
	return [2]int{c.Height, c.Width}
}

// Two images of 3×5 patches. The centre stands out along one component; three more vary only there.
func TestPCA_ColoursAreTheFirstThreeAxesAndTheMarginIsBehind(t *testing.T) {
	const width, first = 7, 6
	var points []float64
	var margin []bool
	for i := range 30 {
		p := make([]float64, width)
		row, col := i%15/5, i%5
		margin = append(margin, row == 0 || row == 2 || col == 0 || col == 4)
		if !margin[i] {
			p[2] = -50
			p[0], p[5], p[6] = 10*float64(col-2), float64(i/15), 0.1*float64(i%7)
		}
		points = append(points, p...)
	}
	negative := slices.Clone(points)
	for i := range negative {
		negative[i] = -negative[i]
	}
	for name, c := range map[string]struct {
		points []float64
		margin []bool
		want   string
	}{
		"centre": {points, margin, "[6 7 8 21 22 23]"}, "the sign of an axis": {negative, margin, "[6 7 8 21 22 23]"},
		"the order of patches": {slices.Concat(points[first*width:], points[:first*width]),
			slices.Concat(margin[first:], margin[:first]), "[0 1 2 15 16 17]"},
	} {
		shown, colours, err := colour(c.points, c.margin, true)
		gomlxtest.NoError(t, err)
		equal(t, name+": in front", fmt.Sprint(shown), c.want)
		// The first axis of the foreground is the column: its ends have the extreme reds, its centre the middle. The second
		// is the image.
		reds := []int{int(colours[0].R), int(colours[1].R), int(colours[2].R)}
		green := int(colours[0].G) - int(colours[3].G)
		if slices.Min(reds) > 2 || slices.Max(reds) < 253 || reds[1] < 120 || reds[1] > 135 || green*green < 200*200 {
			t.Errorf("%s: red %v, green differs by %d", name, reds, green)
		}
	}
	equal(t, "margin", append(marginOf(3, 5), marginOf(3, 5)...), margin)
	if all, _, err := colour(points, margin, false); err != nil || len(all) != 30 {
		t.Errorf("%d patches, %v", len(all), err)
	}
	constant := make([]float64, 30*width)
	if _, same, err := colour(constant, margin, false); err != nil || same[4].R != 0 {
		t.Errorf("constant patches: %v, %v", same, err)
	}
	_, _, err := colour(constant, margin, true)
	refused(t, "the foreground of constant patches", err)
	_, _, err = colour([]float64{1, 2}, []bool{true}, false)
	refused(t, "axes of a single patch", err)
}

func TestPCA_OfAModelsImages(t *testing.T) {
	dir := folder(t)
	m, l := demo(t, 4), gomlxtest.Must(Folder(dir))(t)
	rows := make([]int, len(l.Images))
	for i := range rows {
		rows[i] = i
	}
	for _, foreground := range []bool{false, true} {
		coloured, err := PCA(m, l, rows, foreground)
		unread := finetune.ReadErrors{}
		if !errors.As(err, &unread) || len(unread) != 2 || len(coloured) != 7 {
			t.Fatalf("%d images, %v", len(coloured), err)
		}
		var points []float64
		var margin []bool
		for _, c := range coloured {
			f := gomlxtest.Must(m.Embed(filepath.Join(dir, c.Image.File)))(t)[0]
			for _, v := range f.Patches {
				points = append(points, float64(v))
			}
			for p := range 36 {
				margin = append(margin, p < 6 || p >= 30 || p%6 == 0 || p%6 == 5)
			}
			if b := c.Patches.Bounds(); b.Dx() != 6 || b.Dy() != 6 || c.Seen.Bounds().Dx() != 24 {
				t.Errorf("%v patches of %v pixels", b, c.Seen.Bounds())
			}
			equal(t, "opaque", c.Patches.Opaque(), true)
		}
		shown, colours, err := colour(points, margin, foreground)
		gomlxtest.NoError(t, err)
		for k, p := range shown {
			equal(t, fmt.Sprint("patch ", p), coloured[p/36].Patches.RGBAAt(p%6, p%36/6), colours[k])
		}
	}
	unread := finetune.ReadErrors{}
	if one, err := PCA(m, l, []int{0, 2}, false); !errors.As(err, &unread) || len(unread) != 1 || unread[1] == nil ||
		len(one) != 1 {
		t.Errorf("of two images, the second damaged: %d images, %v", len(one), err)
	}
	_, err := PCA(m, l, []int{2}, false)
	refused(t, "all damaged", err)
}
