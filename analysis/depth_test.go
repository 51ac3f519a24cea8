// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// On images of one colour tokens and attention depend on positions only. The expected R² is that of least squares on
// the table in the files.
func TestDepth_InputsOfOneColourHaveThePositionsOfTheTable(t *testing.T) {
	images := testImages(5)
	for i := range images.Pixels {
		images.Pixels[i] = 90
	}
	dir := trained(t, "learned", 1, nil)
	var places []float64
	for k := range 15 {
		places = append(places, float64(k/5), float64(k%5))
	}
	want := explained(places, tableOf(t, dir), 15)
	rows := asked(t, "depth", images, Model{Name: "a", Path: dir})
	got := func(measure, at string) float64 { return value(t, rows, "depth", "a", measure, at) }
	near(t, "R²", got("R² of row and column, linear", "input"), want, 1e-5)
	const share = "attention variance due to position, %"
	gomlxtest.NearAbs(t, share, []float64{got(share, "layer 1"), got(share, "layer 2")}, []float64{100, 100}, 1e-3)
}

// Tokens row·a + noise of deviation σ: with |a| = 1 a linear regression has R² var/(var+σ²) of the row and 0 of the
// column.
func TestReadout_HasTheR2OfSignalAndNoise(t *testing.T) {
	g := grid{Rows: 3, Cols: 5, Prefix: 1}
	const width, images = 7, 3000
	r := rand.New(rand.NewPCG(3, 0))
	for _, sigma := range []float64{0, 0.5, 2} {
		read := newReadout(g, width)
		for image := range images {
			var tokens []float32
			for k := range g.patches() {
				for j := range width {
					signal := 40.0 // a mean far from zero
					if j < 4 {
						signal += float64(k/g.Cols) / 2
					}
					tokens = append(tokens, float32(signal+sigma*r.NormFloat64()))
				}
			}
			read.add(image, tokens)
		}
		const rowVariance, colVariance = 2.0 / 3, 2.0
		want := rowVariance * rowVariance / (rowVariance + sigma*sigma) / (rowVariance + colVariance)
		gomlxtest.NearAbs(t, "R²", []float64{read.r2()}, []float64{want}, 0.01)
	}
	constant := newReadout(g, width)
	for image := range 4 {
		constant.add(image, make([]float32, g.patches()*width))
	}
	equal(t, "no R² of tokens that are all zero", math.IsNaN(constant.r2()), true)
}

// Two images, two pairs: head 1 has [1, 3] and [3, 5], between 2·(1+1) of 8; head 2 [2, 2] and [4, 4], between 0 of 4.
func TestMeanShare_IsOfTheVarianceInEachHead(t *testing.T) {
	m := newMeanShare(2, 2)
	m.add([]float32{1, 3, 2, 2})
	m.add([]float32{3, 5, 4, 4})
	gomlxtest.NearAbs(t, "share", []float64{m.share()}, []float64{4.0 / 12}, 1e-12)
	constant := newMeanShare(1, 3)
	constant.add([]float32{0.2, 0.2, 0.2, 0.2, 0.2, 0.2})
	equal(t, "no share of weights that are all equal", math.IsNaN(constant.share()), true)
}
