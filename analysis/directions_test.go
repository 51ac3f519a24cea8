// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A cosine on n equidistant midpoints has variance ½, and is uncorrelated with cosines of other frequencies: the share
// of one of two follows from the amplitudes.
func TestExplainedIsTheShareOfOrthogonalWaves(t *testing.T) {
	g := grid{Rows: 7, Cols: 5}
	var points, one, noise []float64
	draw := rand.New(rand.NewPCG(1, 2))
	for k := range g.patches() {
		u, v := (float64(k%g.Cols)+0.5)/float64(g.Cols), (float64(k/g.Cols)+0.5)/float64(g.Rows)
		slow, fast := math.Cos(math.Pi*u), math.Cos(2*math.Pi*v)
		points = append(points, 3+3*slow, 4*fast-7)
		one = append(one, slow+11)
		noise = append(noise, draw.NormFloat64())
	}
	for _, test := range []struct {
		name     string
		features []float64
		want     float64
	}{
		{"one wave of two", one, 9. / 25},
		{"all half-waves up to two", halfWaves(g, 2), 1},
		{"half-waves up to one", halfWaves(g, 1), 9. / 25},
	} {
		if got := explained(points, test.features, g.patches()); !(math.Abs(got-test.want) <= 1e-12) {
			t.Errorf("%s: %g, want %g", test.name, got, test.want)
		}
	}
	if got := explained(noise, halfWaves(g, 12), g.patches()); !(math.Abs(got-1) <= 1e-9) {
		t.Errorf("noise by more waves than points: %g, want 1", got)
	}
	if got := explained(make([]float64, 2*g.patches()), one, g.patches()); !math.IsNaN(got) {
		t.Errorf("equal points: %g, want NaN", got)
	}
}

// Row 1, column 2 of 2×3 patches, at the frequencies 1 and 10000^(-1/2).
func TestSinesAreThoseOfSincos2D(t *testing.T) {
	var want []float64
	for _, angle := range []float64{2, 1, 0.02, 0.01} {
		want = append(want, math.Sin(angle), math.Cos(angle))
	}
	got := sines(grid{Rows: 2, Cols: 3}, 2)
	if len(got) != 6*8 {
		t.Fatalf("%d values", len(got))
	}
	gomlxtest.NearAbs(t, "the last patch", got[5*8:], want, 1e-12)
}
