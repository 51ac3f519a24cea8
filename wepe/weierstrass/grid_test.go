// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"cmp"
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/fixtures"
)

// features returns tanh(scale·[Re ℘, Im ℘, Re ℘′, Im ℘′]) at the patch centres of a rows × cols grid, row-major: (6.2)
// and (6.3).
func features(l Lattice, rows, cols int, alpha, scale float64) (out [][4]float64) {
	for k := range rows * cols {
		u, v := (float64(k%cols)+0.5)/float64(cols), (float64(k/cols)+0.5)/float64(rows)
		p, pp := l.Eval(complex(alpha*u*2*real(l.omega1), alpha*v*2*imag(l.omega3)))
		row := [4]float64{real(p), imag(p), real(pp), imag(pp)}
		for i := range row {
			row[i] = math.Tanh(scale * row[i])
		}
		out = append(out, row)
	}
	return out
}

// statistics are two columns of the paper's sensitivity tables: mean |f|, and Pearson's correlation, over all unordered
// pairs of patches, between the distance of their centres in (u, v) and 1 − cosine of their features.
func statistics(features [][4]float64, rows, cols int) (rho, meanAbs float64) {
	var distances, dissimilarities []float64
	for i := range features {
		meanAbs += floats.Norm(features[i][:], 1) / float64(4*len(features))
		for j := range i {
			a, b := features[i][:], features[j][:]
			distances = append(distances, math.Hypot(float64(i%cols-j%cols)/float64(cols), float64(i/cols-j/cols)/float64(rows)))
			dissimilarities = append(dissimilarities, 1-floats.Dot(a, b)/math.Sqrt(floats.Dot(a, a)*floats.Dot(b, b)))
		}
	}
	return stat.Correlation(distances, dissimilarities, nil), meanAbs
}

// The half-period 2.622, which reproduces the paper's tables, belongs to g2 = 1/4; the paper states 1.
func TestThePaperTablesOfSensitivityAreReproduced(t *testing.T) { fixtures.Each(t, testPaperTables) }

func testPaperTables(t *testing.T) {
	type row struct {
		Alpha          float64
		AlphaScale     float64 `json:"alpha_scale"`
		Rho            float64
		MeanAbs        float64 `json:"mean_abs_f"`
		PrintedRho     float64 `json:"printed_rho"`
		PrintedMeanAbs float64 `json:"printed_mean_abs_f"`
	}
	var file struct {
		Omega1, Omega3p float64
		H, W            int
		Alpha           float64 `json:"alpha_default"`
		AlphaScale      float64 `json:"alpha_scale_default"`
		TableC          []row   `json:"table_C_alpha"`
		TableD          []row   `json:"table_D_alpha_scale"`
	}
	fixtures.JSON(t, set, "paper_tables.json", &file)
	if len(file.TableC) == 0 || len(file.TableD) == 0 {
		t.Fatal("no tables")
	}
	l := lattice(t, file.Omega1, file.Omega3p)
	for _, want := range append(file.TableC, file.TableD...) {
		want.Alpha, want.AlphaScale = cmp.Or(want.Alpha, file.Alpha), cmp.Or(want.AlphaScale, file.AlphaScale)
		rho, meanAbs := statistics(features(l, file.H, file.W, want.Alpha, want.AlphaScale), file.H, file.W)
		if !(math.Abs(rho-want.Rho) <= 1e-9) || !(math.Abs(meanAbs-want.MeanAbs) <= 1e-9) ||
			!(math.Abs(rho-want.PrintedRho) <= 5e-4) ||
			want.PrintedMeanAbs != 0 && !(math.Abs(meanAbs-want.PrintedMeanAbs) <= 5e-4) {
			t.Errorf("α = %g, α_scale = %g: rho %.10g, mean|f| %.10g, want %+v", want.Alpha, want.AlphaScale, rho, meanAbs, want)
		}
	}
}
