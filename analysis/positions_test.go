// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Squared singular values of the table in the files, less its mean.
func TestSimilarityHasTheCumulatedVarianceOfTheTableOfPositions(t *testing.T) {
	const width, patches = 12, 3 * 5
	dir := trained(t, "learned", 1, nil)
	imported := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{}))(t)
	x := mat.NewDense(patches, width, gomlxtest.Values(t, imported.Variables["position/embedding"])[width:])
	for j := range width {
		column := mat.Col(nil, j, x)
		mean := mat.Sum(mat.NewVecDense(patches, column)) / patches
		for i, v := range column {
			x.Set(i, j, v-mean)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDNone) {
		t.Fatal("no singular values")
	}
	total, sum := mat.Dot(mat.NewVecDense(width, svd.Values(nil)), mat.NewVecDense(width, svd.Values(nil))), 0.0
	rows := asked(t, "similarity", testImages(2), Model{Name: "a", Path: dir})
	for k, v := range svd.Values(nil)[:3] {
		sum += v * v / total
		at := fmt.Sprintf("first %d", k+1)
		gomlxtest.NearAbs(t, at, []float64{value(t, rows, "similarity", "a",
			"variance explained by principal components", at)}, []float64{sum}, 1e-5)
	}
}
