// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// rawGrid returns [Re ℘, Im ℘, Re ℘′, Im ℘′] at the patch centres (6.2) of a rows × cols grid, row-major.
func rawGrid(l weierstrass.Lattice, rows, cols int, alpha float64) [][4]float64 {
	raw := make([][4]float64, 0, rows*cols)
	for row := range rows {
		for col := range cols {
			u, v := (float64(col)+0.5)/float64(cols), (float64(row)+0.5)/float64(rows)
			p, pp := l.Eval(complex(alpha*u*2*l.Omega1(), alpha*v*2*l.Omega3p()))
			raw = append(raw, [4]float64{real(p), imag(p), real(pp), imag(pp)})
		}
	}
	return raw
}

// compress returns tanh(scale·raw), (6.3).
func compress(raw [][4]float64, scale float64) [][4]float64 {
	features := make([][4]float64, len(raw))
	for i, row := range raw {
		for j, v := range row {
			features[i][j] = math.Tanh(scale * v)
		}
	}
	return features
}

// tableStatistics are those of the paper's sensitivity tables. Rho is Pearson's correlation, over all unordered pairs
// of patches, between their distance (of the centres in (u, v), or of the grid indices) and 1 − cosine of their
// features.
type tableStatistics struct {
	Rho      float64
	Pairs    int
	MeanAbsF float64 `json:"mean_abs_f"`
	StdF     float64 `json:"std_f"`
	StdAbsF  float64 `json:"std_abs_f"`
	Sat      float64 `json:"sat_pct"`
	NearZero float64 `json:"near_zero_pct"`
	rhoIndex float64
}

func measure(features [][4]float64, rows, cols int) (s tableStatistics) {
	var abs, entries []float64
	for _, row := range features {
		for _, f := range row {
			entries, abs = append(entries, f), append(abs, math.Abs(f))
			if math.Abs(f) > 0.99 {
				s.Sat++
			}
			if math.Abs(f) < 0.01 {
				s.NearZero++
			}
		}
	}
	s.Sat *= 100 / float64(len(entries))
	s.NearZero *= 100 / float64(len(entries))
	s.MeanAbsF, s.StdAbsF = stat.PopMeanStdDev(abs, nil)
	s.StdF = stat.PopStdDev(entries, nil)

	var distances, indexDistances, dissimilarities []float64
	for i := range features {
		for j := range i {
			dCol, dRow := float64(i%cols-j%cols), float64(i/cols-j/cols)
			distances = append(distances, math.Hypot(dCol/float64(cols), dRow/float64(rows)))
			indexDistances = append(indexDistances, math.Hypot(dCol, dRow))
			a, b := features[i][:], features[j][:]
			dissimilarities = append(dissimilarities, 1-floats.Dot(a, b)/math.Sqrt(floats.Dot(a, a)*floats.Dot(b, b)))
		}
	}
	s.Pairs = len(distances)
	s.Rho = stat.Correlation(distances, dissimilarities, nil)
	s.rhoIndex = stat.Correlation(indexDistances, dissimilarities, nil)
	return s
}

// expect compares a computed number with the reference computation.
func expect(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*(1+math.Abs(want))) {
		t.Errorf("%s = %.12g, want %.12g", what, got, want)
	}
}

// expectPrinted compares a computed number with so many decimals of the paper's.
func expectPrinted(t *testing.T, what string, got, printed float64, decimals int) {
	t.Helper()
	if !(math.Abs(got-printed) <= 0.5*math.Pow10(-decimals)+1e-12) {
		t.Errorf("%s = %.12g, the paper prints %.*f", what, got, decimals, printed)
	}
}

func (want tableStatistics) check(t *testing.T, what string, got tableStatistics) {
	t.Helper()
	expect(t, what+" rho", got.Rho, want.Rho)
	expect(t, what+" mean|f|", got.MeanAbsF, want.MeanAbsF)
	expect(t, what+" std f", got.StdF, want.StdF)
	expect(t, what+" saturated %", got.Sat, want.Sat)
	expect(t, what+" near zero %", got.NearZero, want.NearZero)
	if want.Pairs != 0 { // tables C and D have these two columns
		expect(t, what+" std |f|", got.StdAbsF, want.StdAbsF)
		expect(t, what+" pairs of patches", float64(got.Pairs), float64(want.Pairs))
	}
}

func TestEveryRowOfThePaperTablesIsReproduced(t *testing.T) {
	fixtures.Each(t, testEveryRowOfThePaperTablesIsReproduced)
}

func testEveryRowOfThePaperTablesIsReproduced(t *testing.T) {
	type coefficient struct {
		Printed    float64
		Population float64 `json:"cv_population_std"`
		Consistent bool    `json:"consistent_given_rounding_of_printed_losses"`
	}
	var file struct {
		Omega1, Omega3p float64
		H, W            int
		Alpha           float64 `json:"alpha_default"`
		AlphaScale      float64 `json:"alpha_scale_default"`
		TableC          []struct {
			tableStatistics
			Alpha          float64
			PrintedRho     float64 `json:"printed_rho"`
			PrintedMeanAbs float64 `json:"printed_mean_abs_f"`
			PrintedLoss    float64 `json:"printed_proxy_loss"`
			MinAbsZ        float64 `json:"min_abs_z"`
		} `json:"table_C_alpha"`
		TableD []struct {
			tableStatistics
			AlphaScale      float64 `json:"alpha_scale"`
			PrintedRho      float64 `json:"printed_rho"`
			PrintedSat      float64 `json:"printed_sat_pct"`
			PrintedNearZero float64 `json:"printed_near_zero_pct"`
			PrintedLoss     float64 `json:"printed_proxy_loss"`
		} `json:"table_D_alpha_scale"`
		TablesAB struct {
			AllRows tableStatistics `json:"all_rows"`
			Printed tableStatistics
			Kappa   []float64 `json:"kappa_values"`
			Eps     float64
			CLarge  []float64 `json:"C_large_values"`
		} `json:"tables_A_kappa_and_B_clarge"`
		CV       map[string]map[string]coefficient `json:"table_CV"`
		Features [][4]float64                      `json:"default_features_14x14_row_major"`
		Raw      [][4]float64                      `json:"default_raw_14x14_row_major"`
	}
	fixtures.JSON(t, set, "paper_tables.json", &file)
	if len(file.TableC) == 0 || len(file.TableD) == 0 {
		t.Fatal("no tables")
	}
	l := lattice(t, file.Omega1, file.Omega3p)
	columns := map[string]map[string][]float64{"A": {}, "B": {}, "C": {}, "D": {}} // what table CV varies over
	collect := func(table string, s tableStatistics, loss float64) {
		columns[table]["rho"] = append(columns[table]["rho"], s.Rho)
		columns[table]["mean_abs_f"] = append(columns[table]["mean_abs_f"], s.MeanAbsF)
		if loss != 0 {
			columns[table]["loss"] = append(columns[table]["loss"], loss)
		}
	}

	for _, row := range file.TableC {
		what := fmt.Sprintf("table C, α = %v:", row.Alpha)
		got := measure(compress(rawGrid(l, file.H, file.W, row.Alpha), file.AlphaScale), file.H, file.W)
		row.check(t, what, got)
		expectPrinted(t, what+" rho", got.Rho, row.PrintedRho, 3)
		expectPrinted(t, what+" mean|f|", got.MeanAbsF, row.PrintedMeanAbs, 3)
		nearest := row.Alpha * math.Hypot(l.Omega1()/float64(file.W), l.Omega3p()/float64(file.H))
		expect(t, what+" min|z|", nearest, row.MinAbsZ)
		collect("C", got, row.PrintedLoss)
	}
	raw := rawGrid(l, file.H, file.W, file.Alpha)
	for _, row := range file.TableD {
		what := fmt.Sprintf("table D, α_scale = %v:", row.AlphaScale)
		got := measure(compress(raw, row.AlphaScale), file.H, file.W)
		row.check(t, what, got)
		expectPrinted(t, what+" rho", got.Rho, row.PrintedRho, 3)
		expectPrinted(t, what+" saturated %", got.Sat, row.PrintedSat, 2)
		expectPrinted(t, what+" near zero %", got.NearZero, row.PrintedNearZero, 2)
		collect("D", got, row.PrintedLoss)
	}
	// Tables A and B vary the guard at poles (radius κε) and the value put there, C_large: no patch is ever that near,
	// so every row is the default row.
	got := measure(compress(raw, file.AlphaScale), file.H, file.W)
	nearest := file.Alpha * math.Hypot(l.Omega1()/float64(file.W), l.Omega3p()/float64(file.H))
	for _, kappa := range file.TablesAB.Kappa {
		if kappa*file.TablesAB.Eps >= nearest {
			t.Errorf("κ = %v: the guard reaches the patch at |z| = %v", kappa, nearest)
		}
		collect("A", got, 0)
	}
	for range file.TablesAB.CLarge {
		collect("B", got, 0)
	}
	printed := file.TablesAB.Printed
	file.TablesAB.AllRows.check(t, "tables A, B:", got)
	expectPrinted(t, "tables A, B: rho", got.Rho, printed.Rho, 4)
	expectPrinted(t, "tables A, B: mean|f|", got.MeanAbsF, printed.MeanAbsF, 4)
	expectPrinted(t, "tables A, B: std f", got.StdF, printed.StdF, 3)
	expectPrinted(t, "tables A, B: saturated %", got.Sat, printed.Sat, 2)
	expectPrinted(t, "tables A, B: near zero %", got.NearZero, printed.NearZero, 2)

	for table, row := range file.CV {
		for column, want := range row {
			values := columns[table][column]
			if len(values) == 0 {
				if column != "loss" { // the losses of tables A and B are not in the file
					t.Errorf("table CV, %s %s: nothing computed", table, column)
				}
				continue
			}
			mean, std := stat.PopMeanStdDev(values, nil)
			digits := 4
			if column == "loss" && want.Consistent {
				digits = 3 // the losses are printed to three decimals, which the fourth of their variation shows
			}
			what := "table CV, " + table + " " + column
			expect(t, what, std/mean, want.Population)
			expectPrinted(t, what, std/mean, want.Printed, digits)
		}
	}

	compareGrid(t, "default raw values", raw, file.Raw, 1e-12)
	compareGrid(t, "default features", compress(raw, file.AlphaScale), file.Features, 1e-13)
}

func compareGrid(t *testing.T, what string, got, want [][4]float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		for j := range got[i] {
			if !(math.Abs(got[i][j]-want[i][j]) <= tolerance*(1+math.Abs(want[i][j]))) {
				t.Errorf("%s: patch %d, component %d: %v, want %v", what, i, j, got[i][j], want[i][j])
			}
		}
	}
}

func TestEveryReferenceGridIsReproduced(t *testing.T) {
	fixtures.Each(t, testEveryReferenceGridIsReproduced)
}

func testEveryReferenceGridIsReproduced(t *testing.T) {
	var file struct {
		Grids []struct {
			tableStatistics
			H, W            int
			Omega1, Omega3p float64
			Alpha           float64
			AlphaScale      float64      `json:"alpha_scale"`
			RhoUV           float64      `json:"rho_uv_distance"`
			RhoIndex        float64      `json:"rho_index_distance"`
			Features        [][4]float64 `json:"features_row_major"`
		}
	}
	fixtures.JSON(t, set, "grid_stats.json", &file)
	if len(file.Grids) == 0 {
		t.Fatal("no grids")
	}
	for _, grid := range file.Grids {
		what := fmt.Sprintf("%d×%d, ω3′ = %v:", grid.H, grid.W, grid.Omega3p)
		l := lattice(t, grid.Omega1, grid.Omega3p)
		features := compress(rawGrid(l, grid.H, grid.W, grid.Alpha), grid.AlphaScale)
		compareGrid(t, what, features, grid.Features, 1e-13)
		if grid.Pairs == 0 { // too small for statistics
			continue
		}
		got := measure(features, grid.H, grid.W)
		grid.Rho = grid.RhoUV
		grid.check(t, what, got)
		expect(t, what+" rho by index", got.rhoIndex, grid.RhoIndex)
	}
}
