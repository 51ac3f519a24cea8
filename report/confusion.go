// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/wepe-go/wepe/internal/figure"
)

// Confusion is a confusion matrix.
type Confusion struct {
	Classes []string
	Counts  [][]int // [true class, predicted class]
}

// NewConfusion returns an empty confusion matrix.
func NewConfusion(classes []string) Confusion {
	c := Confusion{Classes: classes, Counts: make([][]int, len(classes))}
	for i := range c.Counts {
		c.Counts[i] = make([]int, len(classes))
	}
	return c
}

// of is the number of images of a class.
func (c Confusion) of(class int) (n int) {
	for _, count := range c.Counts[class] {
		n += count
	}
	return n
}

// shares are the shares of each class's images by predicted class; NaN for a class without images.
func (c Confusion) shares() [][]float64 {
	out := make([][]float64, len(c.Counts))
	for class, row := range c.Counts {
		images := float64(c.of(class))
		for _, count := range row {
			out[class] = append(out[class], float64(count)/images)
		}
	}
	return out
}

// Largest numbers of classes whose cells have numbers, and whose rows and columns have names: with names an image of
// 1000 classes would have 10⁸ pixels.
const mostNumbers, mostNames = 12, 200

// draw writes the confusion matrix as a PNG: in each row the shares of a class's images that were predicted as each
// class. Colours are of their square roots: beside a recall of 1 an error of 1 in 100 is seen.
func (c Confusion) draw(w io.Writer) error {
	return figure.HeatMaps(w, [][]figure.HeatMap{{c.heatMap()}})
}

func (c Confusion) heatMap() figure.HeatMap {
	h := figure.HeatMap{Title: "confusion matrix, shares of each class", Values: c.shares(), Cols: c.Classes, Limit: 1,
		Positive: true, Root: true, Numbers: len(c.Classes) <= mostNumbers, Down: "class, recall %", Across: "predicted"}
	named := len(c.Classes) <= mostNames
	if !named {
		h.Cols, h.Down = nil, "class"
	}
	for class, row := range h.Values {
		if named {
			h.Rows = append(h.Rows, figure.Short(c.Classes[class], " "+percent(JSONFloat(row[class]), 0)))
		}
	}
	return h
}

// mistakes returns a line for each of the k most frequent pairs of class and wrong prediction, ties by share of the
// class.
func (c Confusion) mistakes(k int) Table {
	table := Table{Header: []string{"class", "predicted", "images", "% of class"}, TextColumns: 2}
	type mistake struct {
		class, predicted, images int
		share                    float64
	}
	var all []mistake
	shares := c.shares()
	for class, row := range c.Counts {
		for predicted, images := range row {
			if images > 0 && predicted != class {
				all = append(all, mistake{class, predicted, images, shares[class][predicted]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(b.images, a.images), cmp.Compare(b.share, a.share))
	})
	for _, m := range all[:min(k, len(all))] {
		table.Rows = append(table.Rows, []string{c.Classes[m.class], c.Classes[m.predicted], strconv.Itoa(m.images),
			percent(JSONFloat(m.share), 1)})
	}
	return table
}

// Worst returns a line for each of the k classes with the lowest F1, with their most frequent wrong prediction. Classes
// without images are skipped.
func (c Confusion) Worst(k int) Table {
	table := Table{Header: []string{"class", "mistaken for", "images", "precision %", "recall %", "F1 %"}, TextColumns: 2}
	scores := c.Scores()
	var classes []int
	for class := range c.Classes {
		if scores[class].Images > 0 {
			classes = append(classes, class)
		}
	}
	slices.SortStableFunc(classes, func(a, b int) int { return cmp.Compare(scores[a].F1, scores[b].F1) })
	for _, class := range classes[:min(k, len(classes))] {
		s, mistaken := scores[class], "–"
		wrong := slices.Clone(c.Counts[class])
		wrong[class] = 0
		if most := slices.Max(wrong); most > 0 {
			mistaken = c.Classes[slices.Index(wrong, most)]
		}
		table.Rows = append(table.Rows, []string{s.Class, mistaken, strconv.Itoa(s.Images), percent(s.Precision, 1),
			percent(s.Recall, 1), percent(s.F1, 1)})
	}
	return table
}

// percent formats a fraction in percent, NaN as –.
func percent(fraction JSONFloat, digits int) string {
	if math.IsNaN(float64(fraction)) {
		return "–"
	}
	return strconv.FormatFloat(100*float64(fraction), 'f', digits, 64)
}

// ClassScore is the precision, recall and F1 of one class.
type ClassScore struct {
	Class     string    `json:"class"`
	Images    int       `json:"images"`    // of the class
	Precision JSONFloat `json:"precision"` // share of the predictions of the class that are right; NaN without any
	Recall    JSONFloat `json:"recall"`    // share of the class's images that are predicted; NaN without any
	F1        JSONFloat `json:"f1"`        // 2·right / (images + predictions), NaN without either
}

// Scores returns a score per class, in their order.
func (c Confusion) Scores() []ClassScore {
	scores := make([]ClassScore, len(c.Classes))
	for class, name := range c.Classes {
		images, predicted, right := c.of(class), 0, c.Counts[class][class]
		for _, row := range c.Counts {
			predicted += row[class]
		}
		scores[class] = ClassScore{Class: name, Images: images, Precision: ratio(right, predicted),
			Recall: ratio(right, images), F1: ratio(2*right, images+predicted)}
	}
	return scores
}

// MacroF1 is the mean F1 of the classes that have images.
func (c Confusion) MacroF1() JSONFloat {
	sum, n := 0.0, 0
	for _, s := range c.Scores() {
		if s.Images > 0 {
			sum += float64(s.F1)
			n++
		}
	}
	return JSONFloat(sum / float64(n))
}

func ratio(part, whole int) JSONFloat {
	if whole == 0 {
		return JSONFloat(math.NaN())
	}
	return JSONFloat(float64(part) / float64(whole))
}
