// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/support/xslices"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/numeric"
)

// table is features in a plane: class c at the angle of a share c of a turn, with some noise.
func table(n, classes int, noise float64, parts bool) *Table {
	t, r := &Table{Name: "made", Width: 2}, rand.New(rand.NewPCG(7, 11))
	for i := range n {
		c := i % classes
		p := Image{File: fmt.Sprintf("%02d.png", i), Class: string(rune('a' + c))}
		if parts {
			p.Part = []string{trainPart, trainPart, testPart}[i/classes%3]
		}
		angle := 2*math.Pi*float64(c)/float64(classes) + noise*r.NormFloat64()
		length := 1 + r.Float64()
		t.Images = append(t.Images, p)
		t.Values = append(t.Values, float32(length*math.Cos(angle)), float32(length*math.Sin(angle)))
	}
	return t
}

// probe is Table.Probe with the strengths that it tries.
func probe(made *Table, seed uint64) (score Score, tried []Tried, err error) {
	score, err = made.Probe(seed, func(t Tried) { tried = append(tried, t) })
	return score, tried, err
}

// Without parts each image is classified by all others.
func TestTable_SeparableClassesAreClassified(t *testing.T) {
	for _, parts := range []bool{false, true} {
		made := table(53, 5, 0.05, parts)
		known, asked := 53, 53
		if parts {
			known, asked = 38, 15 // five images with ten queries each; the last three are training images
		}
		for _, k := range []int{1, 6, 1000} { // more neighbours than a class has, and than there are points
			a := gomlxtest.Must(made.KNN(k, 0.07))(t)
			if a.Top1 < 1-1e-9 || a.Train != known || a.Test != asked || a.Classes != 5 {
				t.Errorf("k = %d: %+v", k, a)
			}
		}
		a, tried, err := probe(made, 0)
		if err != nil || a.Top1 < 1-1e-9 || len(tried) != 6 || a.Train+a.Test != 53 {
			t.Errorf("probe: %+v, %+v, %v", a, tried, err)
		}
		for _, try := range tried {
			is.Near(t, fmt.Sprintf("gradient at the end, L2 %g", try.L2), try.Gradient, 0, 1e-4)
		}
	}
	same := table(31, 3, 0, false)
	for i := range same.Values { // ±1000 and the next float32 differ only by rounding
		same.Values[i] = math.Nextafter32(1000, float32(2000*(i%4/2)))
	}
	// The probe is right about the most frequent class, which has few more images than the others.
	a, err := same.Probe(0, nil)
	if near := gomlxtest.Must(same.KNN(20, 0.07))(t); near.Top1 > 0.5 || err != nil || a.Top1 > 0.5 {
		t.Errorf("constant features: %+v, %+v, %v", near, a, err)
	}
}

func TestTable_ClassifierRefusals(t *testing.T) {
	change := func(n, classes int, parts bool, change func(*Table)) *Table {
		made := table(n, classes, 0, parts)
		change(made)
		return made
	}
	all := func(part string) func(*Table) {
		return func(made *Table) {
			for i := range made.Images {
				made.Images[i].Part = part
			}
		}
	}
	set := func(at int, v float64) func(*Table) { return func(made *Table) { made.Values[at] = float32(v) } }
	for name, c := range map[string]struct {
		table        *Table
		k            int
		temperature  float64
		probe, votes bool // is refused
	}{
		"one class":       {table(5, 1, 0, false), 1, 0.07, true, true},
		"an image alone":  {change(5, 5, false, func(made *Table) { made.Images[3].Class = "" }), 1, 0.07, true, true},
		"no test":         {change(20, 2, true, all(trainPart)), 1, 0.07, true, true},
		"no training":     {change(20, 2, true, all(testPart)), 1, 0.07, true, true},
		"NaN":             {change(31, 3, false, set(5, math.NaN())), 1, 0.07, true, true},
		"-Inf":            {change(31, 3, false, set(8, math.Inf(-1))), 1, 0.07, true, true},
		"classes of one":  {table(7, 7, 0, false), 20, 0.07, true, false},
		"no neighbours":   {table(31, 3, 0, false), 0, 0.07, false, true},
		"no temperature":  {table(31, 3, 0, false), 5, 0, false, true},
		"one of training": {table(14, 7, 0.05, true), 5, 0.07, true, true},
	} {
		score, err := c.table.KNN(c.k, c.temperature)
		if (err != nil) != c.votes {
			t.Errorf("%s: neighbours %+v, %v", name, score, err)
		} else if name == "classes of one" && score.Top1 != 0 { // the nearest is always of another
			t.Errorf("%s: %+v", name, score)
		}
		_, _, err = probe(c.table, 0)
		is.Equal(t, name+": the probe is refused", err != nil, c.probe)
	}
	s := split{classes: 4}
	for class, n := range []int{1, 2, 8, 10} {
		s.labels = append(s.labels, slices.Repeat([]int{class}, n)...)
	}
	rows := xslices.Iota(0, len(s.labels))
	for share, want := range map[float64][]int{0.2: {0, 0, 2, 2}, 0.9: {0, 1, 7, 9}} { // never all of a class
		kept, held := s.holdOut(rows, share, rand.New(rand.NewPCG(1, 2)))
		got := make([]int, 4)
		for _, row := range held {
			got[s.labels[row]]++
		}
		is.Equal(t, fmt.Sprintf("held out of a share of %g", share), got, want)
		is.Equal(t, "all rows", slices.Sorted(slices.Values(slices.Concat(kept, held))), rows)
	}
}

// Scores recomputed in float64: the classes of 7 overlap, so that neither 0 nor all are right.
func TestTable_ScoresAreCountedByTheirDefinitions(t *testing.T) {
	const classes, k, temperature = 7, 9, 0.07
	made := table(103, classes, 0.7, true)
	s := gomlxtest.Must(made.split())(t)
	same := func(what string, got Score, scores func(row int) []float64) {
		top1, top5 := 0.0, 0.0
		for _, row := range s.test {
			before, of := 0, scores(row)
			for c, v := range of {
				if c != s.labels[row] && v >= of[s.labels[row]] {
					before++
				}
			}
			if before == 0 {
				top1 += 1 / float64(len(s.test))
			}
			if before < 5 {
				top5 += 1 / float64(len(s.test))
			}
		}
		gomlxtest.NearAbs(t, what, []float64{got.Top1, got.Top5}, []float64{top1, top5}, 1e-9)
		is.Equal(t, "top-5 is all or top-1", top5 == 1 || top1 == top5, false)
	}
	same("neighbours", gomlxtest.Must(made.KNN(k, temperature))(t), func(row int) []float64 {
		cosine := func(other int) float64 {
			a, b := made.Vector(row), made.Vector(other)
			return float64(a[0]*b[0]+a[1]*b[1]) / math.Hypot(float64(a[0]), float64(a[1])) /
				math.Hypot(float64(b[0]), float64(b[1]))
		}
		near := slices.SortedFunc(slices.Values(s.train), func(a, b int) int { return cmp.Compare(cosine(b), cosine(a)) })
		votes := make([]float64, classes)
		for _, other := range near[:k] {
			votes[s.labels[other]] += math.Exp(cosine(other) / temperature)
		}
		return votes
	})

	moved := &Table{Width: 2, Images: made.Images, Values: slices.Clone(made.Values)}
	for i := range len(moved.Images) {
		moved.Values[2*i], moved.Values[2*i+1] = 5+3*moved.Values[2*i], 0.2*moved.Values[2*i+1]-1
	}
	score, tried, err := probe(made, 3)
	gomlxtest.NoError(t, err)
	other, _, err := probe(moved, 3)
	gomlxtest.NoError(t, err)
	is.Equal(t, "moved and scaled", other, score)
	// The validation split is of the seed.
	fitted, held := s.holdOut(s.train, 0.2, rand.New(rand.NewPCG(3, 0)))
	fit := func(rows []int, l2 float64) func(row int) []float64 {
		by := made.scale(rows)
		f := gomlxtest.Must(numeric.LogisticRegression(by.apply(made.rows(rows)), s.of(rows), classes, l2, 1e-6, nil))(t)
		return func(row int) []float64 { return fixtures.Float64s(f.Scores(by.apply(made.Vector(row)))[0]) }
	}
	best := tried[0]
	for i, try := range tried {
		scores, right := fit(fitted, try.L2), 0
		for _, row := range held {
			of := scores(row)
			if slices.Index(of, slices.Max(of)) == s.labels[row] {
				right++
			}
		}
		gomlxtest.NearAbs(t, "exponent and validation", []float64{math.Log10(try.L2), try.Top1},
			[]float64{-float64(i), float64(right) / float64(len(held))}, 1e-9)
		if try.Top1 > best.Top1 {
			best = try
		}
	}
	same("probe", score, fit(s.train, best.L2))
	few := split{classes: 3, labels: []int{2, 2}} // of three classes top-5 is the last, and no number is wrong
	scores := [][]float32{{1, 2, float32(math.NaN())}, {1, 2, 0}}
	got := few.measure(nil, []int{0, 1}, scores)
	is.Equal(t, "of three classes", [2]float64{got.Top1, got.Top5}, [2]float64{0, 0.5})
}

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
			is.Equal(t, fmt.Sprintf("query %d, image %d", q, k), section.Images[k].Title, made.Images[i].File)
			is.Equal(t, section.Images[k].Title, sizeOf(t, section.Images[k].PNG), [2]int{7 + 2*drawn, 23 - drawn})
		}
		is.Equal(t, "images", len(section.Images), 5)
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
			is.Equal(t, fmt.Sprintf("%d beside %d of %v", c.queries, c.k, c.of.Images), len(section.Images), c.shown)
		}
	}
	for size, want := range map[[2]int][2]int{{200, 320}: {100, 160}, {500, 250}: {160, 80}, {2, 1000}: {1, 160}} {
		content := gomlxtest.Must(thumbnail(data.FromImage(drawn(1, size[0], size[1]))))(t)
		is.Equal(t, fmt.Sprint(size), sizeOf(t, content), want)
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
	negative := floats.ScaleTo(make([]float64, len(points)), -1, points)
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
		is.Equal(t, name+": in front", fmt.Sprint(shown), c.want)
		// The first axis of the foreground is the column: its ends have the extreme reds, its centre the middle. The second
		// is the image.
		reds := []int{int(colours[0].R), int(colours[1].R), int(colours[2].R)}
		green := int(colours[0].G) - int(colours[3].G)
		if slices.Min(reds) > 2 || slices.Max(reds) < 253 || reds[1] < 120 || reds[1] > 135 || green*green < 200*200 {
			t.Errorf("%s: red %v, green differs by %d", name, reds, green)
		}
	}
	is.Equal(t, "margin", append(marginOf(3, 5), marginOf(3, 5)...), margin)
	if all, _, err := colour(points, margin, false); err != nil || len(all) != 30 {
		t.Errorf("%d patches, %v", len(all), err)
	}
	constant := make([]float64, 30*width)
	_, same, err := colour(constant, margin, false)
	gomlxtest.NoError(t, err)
	is.Equal(t, "red of constant patches", same[4].R, 0)
	_, _, err = colour(constant, margin, true)
	is.Refused(t, "the foreground of constant patches", err)
	_, _, err = colour([]float64{1, 2}, []bool{true}, false)
	is.Refused(t, "axes of a single patch", err)
}

func TestPCA_OfAModelsImages(t *testing.T) {
	dir := folder(t)
	m, l := demo(t, 4), gomlxtest.Must(Folder(dir))(t)
	rows := xslices.Iota(0, len(l.Images))
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
			points = append(points, fixtures.Float64s(f.Patches)...)
			for p := range 36 {
				margin = append(margin, p < 6 || p >= 30 || p%6 == 0 || p%6 == 5)
			}
			b := c.Patches.Bounds()
			is.Equal(t, "patches, pixels", [3]int{b.Dx(), b.Dy(), c.Seen.Bounds().Dx()}, [3]int{6, 6, 24})
			is.Equal(t, "opaque", c.Patches.Opaque(), true)
		}
		shown, colours, err := colour(points, margin, foreground)
		gomlxtest.NoError(t, err)
		for k, p := range shown {
			is.Equal(t, fmt.Sprint("patch ", p), coloured[p/36].Patches.RGBAAt(p%6, p%36/6), colours[k])
		}
	}
	unread := finetune.ReadErrors{}
	if one, err := PCA(m, l, []int{0, 2}, false); !errors.As(err, &unread) || len(unread) != 1 || unread[1] == nil ||
		len(one) != 1 {
		t.Errorf("of two images, the second damaged: %d images, %v", len(one), err)
	}
	is.Refused(t, "all damaged", is.ErrorOf(PCA(m, l, []int{2}, false)))
}
