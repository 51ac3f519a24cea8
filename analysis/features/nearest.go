// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"bytes"
	"fmt"
	"image/png"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
)

// thumbnailSide is the longer side of the images of the page, in pixels, unless they are smaller.
const thumbnailSide = 160

// Nearest returns a page of some images, spread evenly over the table, each with its k nearest others by cosine
// similarity. The list must be the table's.
func (t *Table) Nearest(l *List, queries, k int) (page report.Page, err error) {
	if len(t.Images) < 2 || queries < 1 || k < 1 {
		return page, fmt.Errorf("features: %d images beside the %d nearest of %d, want two or more", queries, k,
			len(t.Images))
	}
	page.Title = "Nearest neighbours in " + t.Name
	shown := numeric.Spread(queries, len(t.Images))
	page.Lines = []string{fmt.Sprintf("%d of %d images as queries, spread evenly; nearest by cosine similarity of "+
		"features of width %d", len(shown), len(t.Images), t.Width)}
	near := numeric.Nearest(t.rows(shown), t.Values, t.Width, k+1)
	at := l.byFile()
	show := func(row int, caption string) (report.Figure, error) {
		p := t.Images[row]
		i, ok := at[p.File]
		if !ok {
			return report.Figure{}, fmt.Errorf("features: %s is not in %s", p.File, l.Name)
		}
		img, err := l.read[i]()
		if err != nil {
			return report.Figure{}, err
		}
		if p.Class != "" {
			caption = p.Class + ", " + caption
		}
		content, err := thumbnail(img)
		return report.Figure{Title: p.File, Caption: caption, PNG: content}, err
	}
	for q, row := range shown {
		own := t.Images[row]
		figure, err := show(row, "query")
		if err != nil {
			return page, err
		}
		section := report.Section{Title: own.File, Images: []report.Figure{figure}}
		others := slices.DeleteFunc(near[q], func(n numeric.Neighbour) bool { return n.Index == row })
		others = others[:min(k, len(others))] // drops none if k copies of the image come first
		same := 0
		for _, n := range others {
			if figure, err = show(n.Index, fmt.Sprintf("cosine %.3f", n.Cosine)); err != nil {
				return page, err
			}
			if section.Images = append(section.Images, figure); t.Images[n.Index].Class == own.Class {
				same++
			}
		}
		if own.Class != "" {
			section.Text = []string{fmt.Sprintf("%d of the %d nearest neighbours have the same class.", same, len(others))}
		}
		page.Sections = append(page.Sections, section)
	}
	return page, nil
}

// thumbnail returns an image as a small PNG.
func thumbnail(p *data.Image) ([]byte, error) {
	if side := max(p.Height, p.Width); side > thumbnailSide {
		p = p.Resize(max(1, p.Height*thumbnailSide/side), max(1, p.Width*thumbnailSide/side), preprocess.Bicubic)
	}
	var content bytes.Buffer
	err := png.Encode(&content, p.RGBA())
	return content.Bytes(), err
}
