// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/study"
)

// tableOf returns the position table in the files of a run on 3×5 patches, without the class token's row.
func tableOf(t *testing.T, dir string) []float64 {
	t.Helper()
	imported := gomlxtest.Must(checkpoints.Import(dir, checkpoints.ImportOptions{}))(t)
	return gomlxtest.Values(t, imported.Variables["position/embedding"])[12:]
}

// Norm, principal axes and decay of the table in the files. Of the noise, each draw is added to the vectors alone.
func TestPositions_MeasuresAreOfTheTableInTheFiles(t *testing.T) {
	const patches = 3 * 5
	dir := trained(t, "learned", 1, nil)
	table := tableOf(t, dir)
	p := gomlxtest.Must(numeric.PCA(table, patches, 12))(t)
	rows := asked(t, "similarity,directions,decay", testImages(2), Model{Name: "a", Path: dir})
	got := func(analysis, measure, at string) float64 { return value(t, rows, analysis, "a", measure, at) }
	is.Near(t, "norm", got("directions", "norm, root mean square", ""), floats.Norm(table, 2)/math.Sqrt(patches), 1e-6)
	sum, holding := 0.0, map[string]float64{}
	for k, part := range p.Share {
		for at, share := range map[string]float64{"90 %": 0.9, "99 %": 0.99} {
			if sum < share {
				holding[at]++
			}
		}
		if sum += part; k < 3 {
			at := fmt.Sprintf("first %d", k+1)
			is.Near(t, at, got("similarity", "variance explained by principal components", at), sum, 1e-5)
		}
	}
	for at, want := range holding {
		is.Equal(t, at, got("directions", "principal components that explain", at), want)
	}
	pairs := 0.0
	for seed := range uint64(20) {
		draw, noisy := rand.New(rand.NewPCG(0, seed)), make([]float64, len(table))
		for i, v := range table {
			noisy[i] = v + draw.NormFloat64()
		}
		pairs += decayOf(noisy, grid{Rows: 3, Cols: 5}, decayBins).Pairs / 20
	}
	is.Near(t, "noisy", got("decay", "correlation with distance, all pairs", "+ N(0, 1), mean of 20"), pairs, 1e-9)
}

// Of equal vectors no axes explain a share of the variance, as in scikit-learn, whose shares are then NaN.
func TestPositions_EqualVectorsHaveNoAxes(t *testing.T) {
	dir := trained(t, "legendre-v", 1, func(r *finetune.Recipe) { r.Params = map[string]any{"legendre_degree": 0} })
	rows := asked(t, "similarity,directions", testImages(2), Model{Name: "a", Path: dir})
	for at, c := range map[string][2]string{"first 1": {"similarity", "variance explained by principal components"},
		"90 %": {"directions", "principal components that explain"}} {
		got := value(t, rows, c[0], "a", c[1], at)
		is.Equal(t, fmt.Sprint(c, at, got), math.IsNaN(got), true)
	}
}

// A cosine on n equidistant midpoints has variance ½, and is uncorrelated with cosines of other frequencies: the share
// of one of two follows from the amplitudes.
func TestExplained_IsTheShareOfOrthogonalWaves(t *testing.T) {
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
	for name, c := range map[string]struct {
		points, features []float64
		want             float64
	}{
		"one wave of two":               {points, one, 9. / 25},
		"all half-waves up to two":      {points, halfWaves(g, 2), 1},
		"half-waves up to one":          {points, halfWaves(g, 1), 9. / 25},
		"noise, more waves than points": {noise, halfWaves(g, 12), 1},
	} {
		is.Near(t, name, explained(c.points, c.features, g.patches()), c.want, 1e-9)
	}
	none := explained(make([]float64, 2*g.patches()), one, g.patches())
	is.Equal(t, "no share of equal points", math.IsNaN(none), true)
}

// sincos2d of width n has a sine and a cosine of row and column for each of n/4 frequencies.
func TestBases_HaveTheFeaturesOfTheirNames(t *testing.T) {
	names, features := bases(grid{Rows: 3, Cols: 5})
	for i, name := range names {
		want := gomlxtest.Must(strconv.Atoi(regexp.MustCompile(`^\d+|\d+$`).FindString(name)))(t)
		is.Equal(t, name+": values for 15 patches", len(features[i]), 15*want)
	}
	// The half cell has half the distances from its corner, so its 2z is the whole cell's z.
	whole, half := features[0], features[3]
	for k := range 15 {
		gomlxtest.NearAbs(t, "2z", half[12*k+6:12*k+12], whole[6*k:6*k+6], 1e-12)
	}
	var want []float64 // row 1, column 2 of 2×3 patches, at the frequencies 1 and 10000^(-1/2)
	for _, angle := range []float64{2, 1, 0.02, 0.01} {
		want = append(want, math.Sin(angle), math.Cos(angle))
	}
	gomlxtest.NearAbs(t, "the last patch", sines(grid{Rows: 2, Cols: 3}, 2)[5*8:], want, 1e-12)
}

func TestPositions_ModulationHasASimilarityAndNoProbe(t *testing.T) {
	gomlxtest.OnGo(t)
	what := "similarity,directions,decay,probe,sensitivity"
	models := []Model{{Name: "wepe-qkv", Path: trained(t, "wepe-qkv", 1, nil)},
		{Name: "fourier-qkv", Path: trained(t, "fourier-qkv", 1, nil)}}
	shallow := func(r *finetune.Recipe) { r.Model.Depth = 1 } // as many factors as a table has numbers
	v := Model{Name: "v", Path: trained(t, "wepe-v", 1, shallow)}
	applies(t, asked(t, "probe", testImages(5), v), "probe", "v", false)
	rows := asked(t, what, testImages(5), models...)
	for _, figure := range strings.Split(what, ",") {
		for _, m := range models {
			none := figure == "probe" || figure == "sensitivity" && m.Name == "fourier-qkv"
			applies(t, rows, figure, m.Name, !none)
		}
	}
	// 12 features of length 2 times matrices of deviation 0.1: 2·0.1·√(2 blocks · 3 matrices · width 12), before training.
	want := 2 * 0.1 * math.Sqrt(2*3*12)
	is.Near(t, "norm", value(t, rows, "directions", "fourier-qkv", "norm, root mean square", ""), want, 0.35*want)
}

// The paper's tables, recomputed in float64 on 14×14 patches, and its coefficients of variation.
func TestSensitivity_IsThatOfThePapersTables(t *testing.T) { fixtures.Each(t, testSensitivity) }

func testSensitivity(t *testing.T) {
	type row struct {
		Alpha   float64
		Scale   float64 `json:"alpha_scale"`
		Rho     float64
		Modulus float64 `json:"mean_abs_f"`
	}
	var file struct {
		H, W  int
		Span  []row `json:"table_C_alpha"`
		Scale []row `json:"table_D_alpha_scale"`
		CV    map[string]map[string]struct {
			Population float64 `json:"cv_population_std"`
		} `json:"table_CV"`
	}
	fixtures.JSON(t, "weierstrass", "paper_tables.json", &file)
	path := trained(t, "wepe", 1, func(r *finetune.Recipe) {
		r.Model.Depth, r.Augment.Size = 1, [2]int{4 * file.H, 4 * file.W}
	})
	rows := asked(t, "sensitivity", testImages(2), Model{Name: "wepe", Path: path})
	got := func(measure, at string) float64 { return value(t, rows, "sensitivity", "wepe", measure, at) }
	for label, of := range map[string][]row{"wepe α = %g": file.Span, "wepe α_scale = %g": file.Scale} {
		for _, r := range of {
			at := fmt.Sprintf(label, max(r.Alpha, r.Scale))
			gomlxtest.NearAbs(t, at, []float64{got(featureDecay, at), got(featureModulus, at)},
				[]float64{r.Rho, r.Modulus}, 2e-4)
		}
	}
	for table, name := range map[string]string{"A": "kappa", "B": "c-large", "C": "span", "D": "alpha-scale"} {
		named := gomlxtest.Must(study.ByName(name))(t)
		gomlxtest.NearAbs(t, name, []float64{got("variation of the "+featureDecay, named.About),
			got("variation of the "+featureModulus, named.About)},
			[]float64{file.CV[table]["rho"].Population, file.CV[table]["mean_abs_f"].Population}, 1e-3)
	}
}

func TestGridOf_PlacesValuesByBothSettings(t *testing.T) {
	h := gridOf("", []string{"β = 1, γ = 3", "β = 2, γ = 5", "β = 2, γ = 3"}, []float64{7, 11, 13})
	is.Equal(t, "grid", fmt.Sprint(h.Rows, h.Cols, h.Values), "[β = 1 β = 2] [γ = 3 γ = 5] [[7 NaN] [13 11]]")
}

// The sphere has neither a sum nor a surrogate; a hybrid of the surrogate has its β and γ alone, one over ℘ a span.
func TestSensitivity_SweepsAreTheSettingsOfTheEncoding(t *testing.T) {
	gomlxtest.OnGo(t)
	models := []Model{{Name: "sphere", Path: trained(t, "wepe-sphere", 1, nil)},
		{Name: "hybrid", Path: trained(t, "hybrid", 1, nil)},
		{Name: "exact", Path: trained(t, "hybrid", 1, func(r *finetune.Recipe) {
			r.Params = map[string]any{"wepe_blend": "exact", "wepe_start": "drawn"}
		})}}
	rows := asked(t, "sensitivity", testImages(2), models...)
	for model, want := range map[string]string{"sphere": "span alpha-scale", "hybrid": "beta-gamma",
		"exact": "span alpha-scale"} {
		about := map[string]bool{}
		for _, r := range rowsOf(rows, "sensitivity", model) {
			about[r.At] = true
		}
		for _, name := range sweeps {
			named := gomlxtest.Must(study.ByName(name))(t)
			measured := strings.Contains(" "+want+" ", " "+name+" ")
			if about[named.About] != measured {
				t.Errorf("%s of %s: measured is %v", name, model, !measured)
			} else if v := "variation of the " + featureModulus; measured && !(value(t, rows, "sensitivity", model, v,
				named.About) > 0.01) {
				t.Errorf("%s of %s changes nothing", name, model)
			}
		}
	}
	mean, square, cells := 0.0, 0.0, 0.0
	for _, r := range rowsOf(rows, "sensitivity", "hybrid") {
		if r.Detail && r.Measure == featureModulus {
			mean, square, cells = mean+float64(r.Value)/25, square+float64(r.Value*r.Value)/25, cells+1
		}
	}
	named := gomlxtest.Must(study.ByName("beta-gamma"))(t)
	gomlxtest.NearAbs(t, "5×5 cells", []float64{cells, value(t, rows, "sensitivity", "hybrid",
		"variation of the "+featureModulus, named.About)}, []float64{25, math.Sqrt(square-mean*mean) / mean}, 1e-6)
	comparison := &Comparison{Backend: gomlxtest.Backend(), Images: Same(testImages(2), nil)}
	s := gomlxtest.Must(comparison.open(t.Context(), models[0]))(t)
	defer s.model.Finalize()
	s.section = &section{}
	for _, wrong := range []string{"nosuch.field=1", "wepe_alpha_u=many"} {
		variants := []study.Variant{{Position: "wepe", Label: "x", Settings: wrong}}
		err := s.sweep(study.Preset{Variants: variants})
		is.Equal(t, wrong+" is taken for what an encoding refuses", err == nil, false)
	}
}
