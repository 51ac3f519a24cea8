// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"bytes"
	"cmp"
	"fmt"
	"image/png"
	"math"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The third of three copies is asked for as many others, although the first two come before it.
func TestCopiesOfAnImageAddNoneToItsNearest(t *testing.T) {
	l := gomlxtest.Must(Folder(folder(t)))(t)
	copies := &Table{Width: 2, Images: slices.Repeat(l.Images[:1], 3), Values: []float32{1, 2, 1, 2, 1, 2}}
	for k := 1; k <= 3; k++ {
		for _, section := range gomlxtest.Must(copies.Nearest(l, 3, k))(t).Sections {
			if want := 1 + min(k, 2); len(section.Images) != want {
				t.Errorf("%d images, of which one is the query, want %d", len(section.Images), want)
			}
		}
	}
}

// Seven images at the angles 0, 1, 4, 9, … in radians: queries are images 0, 2 and 4.
func TestThePageOrdersOtherImagesByCosine(t *testing.T) {
	l := gomlxtest.Must(Folder(folder(t)))(t)
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
		others := slices.DeleteFunc([]int{0, 1, 2, 3, 4, 5, 6}, func(i int) bool { return i == query })
		slices.SortFunc(others, func(a, b int) int { return cmp.Compare(cosine(b), cosine(a)) })
		section, same := page.Sections[q], 0
		for k, i := range append([]int{query}, others[:4]...) {
			figure, p := section.Images[k], made.Images[i]
			caption := fmt.Sprintf("cosine %.3f", cosine(i))
			if i == query {
				caption = "query"
			} else if p.Class == made.Images[query].Class {
				same++
			}
			if p.Class != "" {
				caption = p.Class + ", " + caption
			}
			if figure.Title != p.File || figure.Caption != caption {
				t.Errorf("query %d: image %d is %s, %q, want %s, %q", q, k, figure.Title, figure.Caption, p.File,
					caption)
			}
			small := gomlxtest.Must(png.DecodeConfig(bytes.NewReader(figure.PNG)))(t)
			drawn := (i + 6) % 7 // the last of folder's images is the first of the list
			if small.Height != 7+2*drawn || small.Width != 23-drawn {
				t.Errorf("%s is shown as %d×%d pixels", p.File, small.Height, small.Width)
			}
		}
		if len(section.Images) != 5 || section.Title != made.Images[query].File {
			t.Errorf("%d images beside %s", len(section.Images), section.Title)
		}
		text := fmt.Sprintf("[%d of the 4 nearest neighbours have the same class.]", same)
		if made.Images[query].Class == "" {
			text = "[]"
		}
		if got := fmt.Sprint(section.Text); got != text {
			t.Errorf("query %d: %s, want %s", q, got, text)
		}
	}
}
