// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestAPlotHasALineForEachModel(t *testing.T) {
	var got section
	a, b := figure.Line{X: []float64{1, 2}, Y: []float64{3, 5}}, figure.Line{X: []float64{1, 2}, Y: []float64{7, 4}}
	for name, line := range map[string]figure.Line{"a": a, "b": b} {
		s := &subject{Model: Model{Name: name}, section: &got}
		s.line("shared", "layer", "nats", line)
		s.line("of "+name, "layer", "nats", line)
	}
	a.Name, b.Name = "a", "b"
	for _, p := range got.plots {
		slices.SortFunc(p.lines, func(a, b figure.Line) int { return strings.Compare(a.Name, b.Name) })
		want := map[string][]figure.Line{"shared": {a, b}, "of a": {a}, "of b": {b}}[p.title]
		if !reflect.DeepEqual(p, sharedPlot{p.title, "layer", "nats", want}) {
			t.Errorf("%+v, want lines %+v", p, want)
		}
	}
	if len(got.plots) != 3 {
		t.Errorf("%d plots", len(got.plots))
	}
	one := section{plots: []sharedPlot{{"title", "across", "up", []figure.Line{a, b}}}}
	made := gomlxtest.Must(one.finish(Analysis{Title: "heading", About: "about", Claim: "claim"}, nil))(t)
	var want bytes.Buffer
	if err := figure.Lines(&want, "title", "across", "up", []figure.Line{a, b}); err != nil {
		t.Fatal(err)
	}
	if len(made.Figures) != 1 || !bytes.Equal(made.Figures[0].PNG, want.Bytes()) || made.Title != "heading" ||
		!slices.Equal(made.Text, []string{"about", "The paper: claim"}) || made.Columns != nil {
		t.Errorf("%d figures, %q, %q", len(made.Figures), made.Title, made.Text)
	}
}

// Lines are compared with the rows, which other tests compare with references.
func TestPlotsHaveTheValuesOfTheRows(t *testing.T) {
	gomlxtest.OnGo(t)
	what := []string{"decay", "probe", "distance", "entropy", "range", "separation", "resolution"}
	c := &Comparison{Backend: gomlxtest.Backend(), Images: testImages(150), Pairs: 200, Seed: 3,
		Analyses: gomlxtest.Must(Choose(what))(t), Logger: slog.New(slog.DiscardHandler)}
	s := gomlxtest.Must(c.open(t.Context(), Model{Name: "m", Path: trained(t, "wepe", 1,
		func(r *finetune.Recipe) { r.Model.Depth = 3 })}))(t)
	defer s.model.Finalize()
	sections, lines := make([]section, len(what)), map[string]figure.Line{}
	if failed := s.analyze(t.Context(), sections); len(failed) > 0 {
		t.Fatal(failed)
	}
	for _, section := range sections {
		for _, p := range section.plots {
			lines[p.title+"|"+p.x+"|"+p.y] = p.lines[0]
		}
	}
	check := func(plot, analysis, measure, at string, x []float64, values ...any) {
		t.Helper()
		line, y := lines[plot], []float64{}
		for _, v := range values {
			y = append(y, value(t, s.rows, analysis, "m", measure, fmt.Sprintf(at, v)))
		}
		gomlxtest.NearAbs(t, plot, slices.Concat(line.X, line.Y), slices.Concat(x, y), 1e-12)
	}
	for _, m := range [][3]string{{"entropy", "entropy, nats", "entropy (nats)"},
		{"distance", "attention distance, patches", "distance (patches)"},
		{"range", "effective range, patches", "radius (patches)"}} {
		name, _, _ := strings.Cut(m[1], ",")
		check(name+", mean over heads|layer|"+m[2], m[0], m[1], "layer %d", []float64{1, 2, 3}, 1, 2, 3)
	}
	var distances []float64 // of 3×5 patches
	for i := range 15 {
		distances = append(distances, math.Hypot(float64(i/5), float64(i%5)))
	}
	slices.Sort(distances)
	distances = slices.Compact(distances)
	var at []any
	for _, d := range distances {
		at = append(at, d)
	}
	for _, layer := range []string{"layer 1", "layer 3"} {
		check("attention weight by distance, "+layer+"|distance (patches)|mean weight", "distance", "weight by distance",
			layer+" at %.3g", distances, at...)
	}
	check("accuracy of the same weights at other sizes|image side / training side|top-1 accuracy (%)", "resolution",
		"top-1 accuracy, %", "%[1]g × %[1]g training size", []float64{0.5, 0.75, 1, 1.5, 2, 3}, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
	checkRest(t, s, lines)
}

// checkRest checks the lines of the decay, the probe and the separation.
func checkRest(t *testing.T, s *subject, lines map[string]figure.Line) {
	t.Helper()
	alone := decayOf(gomlxtest.Must(s.vectors())(t).Vectors, s.grid, decayBins)
	line := lines["similarity of position embeddings, without noise|distance (% of the largest)|cosine similarity, "+
		"mapped to 6 … 20"]
	if len(alone.Means) < 5 || !slices.Equal(line.X, alone.Centres) || !slices.Equal(line.Y, alone.Means) {
		t.Errorf("decay %v, want %+v", line, alone)
	}
	line = lines["cumulative distribution of the probe's errors|error (patches)|fraction of the test pairs"]
	square := 0.0
	for i, x := range line.X {
		if square += x * x / 50; line.Y[i] != float64(i+1)/50 || i > 0 && x < line.X[i-1] {
			t.Errorf("error %d of 50 is %g at %g", i, x, line.Y[i])
		}
	}
	want := value(t, s.rows, "probe", "m", "MSE, patches²", "content + position")
	if len(line.X) != 50 || !(math.Abs(square-want) <= 1e-9*want) {
		t.Errorf("the mean square of %d errors is %g, want %g", len(line.X), square, want)
	}
	line = lines["error rate by distance of the 5 strongest patches|mean distance (patches)|error rate"]
	k, shown := 0, 0
	for _, r := range rowsOf(s.rows, "separation", "m") {
		if r.Measure != "images" {
			continue
		}
		n, rate := float64(r.Value), value(t, s.rows, "separation", "m", "error rate", r.At)
		var low, high float64
		if _, err := fmt.Sscanf(r.At, "%f to %f patches", &low, &high); err != nil {
			t.Fatal(err)
		}
		deviation := math.Sqrt(rate * (1 - rate) / n)
		if !(math.Abs(line.X[k]-(low+high)/2) <= 0.01) || (n < 10) != math.IsNaN(line.Y[k]) {
			t.Errorf("bin %s of %g images: %g at %g", r.At, n, line.Y[k], line.X[k])
		} else if n >= 10 {
			shown++
			gomlxtest.NearAbs(t, r.At, []float64{line.Y[k], line.Low[k], line.High[k]},
				[]float64{rate, rate - deviation, rate + deviation}, 1e-12)
		}
		k++
	}
	if shown < 3 || len(line.Low) != k || len(line.X) != k {
		t.Errorf("%d of %d bins are shown", shown, k)
	}
}
