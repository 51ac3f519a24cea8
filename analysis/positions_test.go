// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"strings"
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

func TestAModulationHasASimilarityAndNoProbe(t *testing.T) {
	gomlxtest.OnGo(t)
	models := []Model{{Name: "wepe-qkv", Path: trained(t, "wepe-qkv", 1, nil)},
		{Name: "fourier-qkv", Path: trained(t, "fourier-qkv", 1, nil)}}
	c := Comparison{Backend: gomlxtest.Backend(), Images: testImages(5), Pairs: 20, Models: models,
		Analyses: gomlxtest.Must(Choose([]string{"similarity", "directions", "decay", "probe", "sensitivity"}))(t)}
	rows := gomlxtest.Must(c.Run(t.Context()))(t).Rows
	for figure, notes := range map[string][2]string{"similarity": {}, "directions": {}, "decay": {},
		"probe":       {"not added to the tokens", "not added to the tokens"},
		"sensitivity": {"", "no features that depend on hyperparameters"}} {
		for i, m := range models {
			r := rowsOf(rows, figure, m.Name)
			if len(r) == 0 || !strings.Contains(r[0].Note, notes[i]) || notes[i] == "" && r[0].Note != "" {
				t.Errorf("%s of %s: %+v, want %q", figure, m.Name, r, notes[i])
			}
		}
	}
	norm := value(t, rows, "directions", "fourier-qkv", "norm, root mean square", "")
	// 12 features of length 2 times matrices of deviation 0.1: 2·0.1·√(2 blocks · 3 matrices · width 12), before training.
	if want := 2 * 0.1 * math.Sqrt(2*3*12); !(math.Abs(norm-want) <= 0.35*want) {
		t.Errorf("vectors of length %g, want about %g", norm, want)
	}
}
