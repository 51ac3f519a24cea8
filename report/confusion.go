// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Confusion counts what a model called the images of each class.
type Confusion struct {
	Classes []string
	Counts  [][]int // [true class, predicted class]
}

// NewConfusion returns a confusion of no images yet.
func NewConfusion(classes []string) Confusion {
	c := Confusion{Classes: classes, Counts: make([][]int, len(classes))}
	for i := range c.Counts {
		c.Counts[i] = make([]int, len(classes))
	}
	return c
}

// validate refuses counts without the shape that the classes give them.
func (c Confusion) validate() error {
	n := len(c.Classes)
	if n == 0 || len(c.Counts) != n {
		return fmt.Errorf("report: a confusion of %d classes has %d rows of counts", n, len(c.Counts))
	}
	for i, row := range c.Counts {
		if len(row) != n {
			return fmt.Errorf("report: a confusion of %d classes has %d counts in row %d", n, len(row), i)
		}
	}
	return nil
}

// of is the number of images of a class.
func (c Confusion) of(class int) int {
	n := 0
	for _, count := range c.Counts[class] {
		n += count
	}
	return n
}

// shares are the parts of each class's images that were called each class; NaN for a class without images.
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

// mostNumbers is up to how many classes the cells of the picture have room for numbers.
const mostNumbers = 12

// draw writes the picture of a confusion as a PNG: row by row the share of a class's images that was called each other
// class. What was called right is beside the name of the class, in percent, and not on the diagonal, where it would
// outshine the mistakes.
func (c Confusion) draw(w io.Writer) error {
	if err := c.validate(); err != nil {
		return err
	}
	h := HeatMap{Values: c.shares(), Cols: c.Classes, Positive: true, Numbers: len(c.Classes) <= mostNumbers,
		Down: "class, % right", Across: "called"}
	for class, row := range h.Values {
		h.Rows = append(h.Rows, fmt.Sprintf("%s %s", short(c.Classes[class]), percent(Number(row[class]), 0)))
		if c.of(class) > 0 {
			row[class] = 0
		}
		for _, share := range row {
			if share > h.Limit { // false for NaN
				h.Limit = share
			}
		}
	}
	h.Limit = max(h.Limit, 0.001)
	h.Title = fmt.Sprintf("darkest: %.3g %%", 100*h.Limit)
	return HeatMaps(w, [][]HeatMap{{h}})
}

// mistakes has a line for each of the k most frequent kinds of mistakes, those of equal frequency by their share of the
// class and then in the order of the classes.
func (c Confusion) mistakes(k int) Table {
	table := Table{Header: []string{"class", "called", "images", "% of class"}, Numeric: []bool{false, false, true, true}}
	type mistake struct {
		class, called, images int
		share                 float64
	}
	var all []mistake
	shares := c.shares()
	for class, row := range c.Counts {
		for called, images := range row {
			if images > 0 && called != class {
				all = append(all, mistake{class, called, images, shares[class][called]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(b.images, a.images), cmp.Compare(b.share, a.share))
	})
	for _, m := range all[:min(k, len(all))] {
		table.Rows = append(table.Rows, []string{c.Classes[m.class], c.Classes[m.called], strconv.Itoa(m.images),
			percent(Number(m.share), 1)})
	}
	return table
}

// worst has a line for each of the k classes of lowest accuracy, with what their images were called most often by
// mistake. Classes without images are left out.
func (c Confusion) worst(k int) Table {
	table := Table{Header: []string{"class", "right %", "images", "most often called"},
		Numeric: []bool{false, true, true, false}}
	shares := c.shares()
	var classes []int
	for class := range c.Classes {
		if c.of(class) > 0 {
			classes = append(classes, class)
		}
	}
	slices.SortStableFunc(classes, func(a, b int) int { return cmp.Compare(shares[a][a], shares[b][b]) })
	for _, class := range classes[:min(k, len(classes))] {
		line := []string{c.Classes[class], percent(Number(shares[class][class]), 1), strconv.Itoa(c.of(class)), "–"}
		wrong := slices.Clone(c.Counts[class])
		wrong[class] = 0
		if most := slices.Max(wrong); most > 0 {
			line[3] = c.Classes[slices.Index(wrong, most)]
		}
		table.Rows = append(table.Rows, line)
	}
	return table
}

// percent prints a fraction in percent, – where there is none.
func percent(fraction Number, digits int) string {
	if math.IsNaN(float64(fraction)) {
		return "–"
	}
	return strconv.FormatFloat(100*float64(fraction), 'f', digits, 64)
}

// ClassScore is how well a classifier finds the images of one class.
type ClassScore struct {
	Class     string `json:"class"`
	Images    int    `json:"images"`    // of the class
	Precision Number `json:"precision"` // share of the predictions of the class that are right; NaN without any
	Recall    Number `json:"recall"`    // share of the class's images that are predicted; NaN without any
	F1        Number `json:"f1"`        // 2·right / (images + predictions), NaN without either
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
func (c Confusion) MacroF1() Number {
	sum, n := 0.0, 0
	for _, s := range c.Scores() {
		if s.Images > 0 {
			sum += float64(s.F1)
			n++
		}
	}
	return Number(sum / float64(n))
}

func ratio(part, whole int) Number {
	if whole == 0 {
		return Number(math.NaN())
	}
	return Number(float64(part) / float64(whole))
}
