// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/support/xslices"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/numeric"
)

func TestStatistics_UndefinedValuesAreNaN(t *testing.T) {
	alike, g := []float64{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, grid{Rows: 2, Cols: 3}
	one, _ := pairedT([]float64{1}, []float64{2})
	same, _ := pairedT([]float64{1, 2, 3}, []float64{2, 3, 4})
	_, line := numeric.NearestR2([]float64{1, 2, 3}, [][]float64{{4, 4, 4}}, 1)
	for what, got := range map[string]float64{
		"a correlation of constants":                     pearson([]float64{1, 2, 3}, []float64{0.2, 0.2, 0.2}),
		"a correlation of one value":                     pearson([]float64{1}, []float64{2}),
		"a correlation of values equal but for rounding": pearson([]float64{1, 2, 3}, []float64{0.3, 0.1 + 0.2, 0.3}),
		"an overlap of nothing with nothing":             iou(make([]bool, 3), make([]float64, 3), 1),
		"the separation of one patch":                    g.separation([]int{4}),
		"groups of which there is one":                   stat.Mean(numeric.Silhouettes(alike[:3], []int{7, 7, 7}), nil),
		"a paired test of one pair":                      one,
		"a paired test of equal differences":             same,
		"a mask of every pixel":                          pointBiserial([]bool{true, true}, []float64{1, 2}),
		"the variation of nothing":                       variation(nil),
		"the likeness of what is the same for all":       unbiasedCKA([]float64{1, 1, 1, 1}, []float64{1, 2, 3, 5}, 4),
		"the place of a neighbour on a single line":      line,
		"the decay of equal positions":                   decayOf(alike, g, decayBins).Pairs,
		"the decay of equal positions, in bins":          decayOf(alike, g, decayBins).Bins,
		"the decay of positions that are zero, %":        decayOf(make([]float64, 12), g, decayBins).Percent,
		"the decay in one bin": decayOf([]float64{1, 2, 4, 8, 9, 3}, grid{Rows: 1, Cols: 3},
			decayBins).First,
	} {
		is.Equal(t, what, math.IsNaN(got), true)
	}
}

func TestSpread_QueryWithoutWeightOnPatchesDoesNotCount(t *testing.T) {
	r := grid{Rows: 1, Cols: 2, Prefix: 1}.rings()
	s := r.spread([]float32{1, 0, 0, 1, 0, 0, 0.5, 0.25, 0.25}, 0.9)
	is.Equal(t, "distance and range", [2]float64{s.Distance, s.Range}, [2]float64{0.5, 1})
	none := r.spread([]float32{1, 0, 0, 1, 0, 0, 1, 0, 0}, 0.9)
	is.Equal(t, "no distance where no query counts", math.IsNaN(none.Distance), true)
}

func TestErrorBySeparation_BinsContainEveryImage(t *testing.T) {
	separation := []float64{-9, 0, 0.5, 1, 1.5, 2, 99, math.NaN()}
	wrong := []bool{true, false, true, true, false, false, true, true}
	bins := errorBySeparation(separation, wrong, 2, 1.0/6, 5.0/6) // quantiles at 0 and 2
	want := [][]float64{{0, 0.5, 1, 3, 2.0 / 3, math.Sqrt(2.0 / 27)}, {1, 1.5, 2, 4, 0.5, 0.25}}
	for i, b := range bins {
		got := []float64{b.Low, b.Centre, b.High, float64(b.Images), b.Rate, b.Deviation}
		gomlxtest.NearAbs(t, "bin", got, want[i], 1e-15)
	}
	is.Equal(t, "bins", len(bins), len(want))
	same := errorBySeparation([]float64{3, 3}, []bool{true, false}, 5, 0, 1)[0]
	is.Equal(t, "images and rate of one separation", fmt.Sprint(same.Images, same.Rate), "2 0.5")
	is.Equal(t, "no separation", errorBySeparation([]float64{math.NaN()}, []bool{true}, 5, 0, 1), nil)
}

// As in scikit-learn: without a gradient at the first check, after 50 steps; without progress since step 49 at the
// first check more than 300 steps later.
func TestTSNE_StartsAndEndsAsScikitLearn(t *testing.T) {
	gomlxtest.Spreads(t, "start", start(5003, 1), 1e-4)
	is.Equal(t, "two seeds start alike", slices.Equal(start(3, 1), start(3, 2)), false)
	for n, want := range map[int][2]float64{13: {4, 50}, 91: {30, 50}, 2400: {30, 50}, 4800: {30, 100}} {
		perplexity, rate := tsneSettings(n)
		is.Equal(t, "perplexity and rate", [2]float64{perplexity, rate}, want)
	}
	p := affinities([]float64{0, 1, 3, 7, 2, 5}, 6, 1.5)
	for _, c := range []struct {
		positions   []float64
		rate        float64
		steps, done int
	}{{make([]float64, 12), 50, 1000, 50}, {start(6, 1), 0, 1000, 400}, {start(6, 1), 0, 70, 70}} {
		_, done := descend(p, c.positions, c.rate, 0, c.steps, 0.8)
		is.Equal(t, "steps", done, c.done)
	}
}

// A point far from twelve others in a row: its conditional probabilities, doubled in the mean with zeros, are
// exp(-βd²)/Σ, and β is so large that no term of the sum is a float64 without subtracting the smallest d².
func TestAffinities_DistantPointHasThePerplexity(t *testing.T) {
	const n, perplexity = 13, 3.5
	points := append(xslices.Iota(0.0, n-1), 1e6)
	p := affinities(points, n, perplexity)
	row := p[(n-1)*n : n*n-1]
	entropy, sum := 0.0, 0.0
	for _, v := range row {
		q := v * 2 * n
		entropy, sum = entropy-q*math.Log(q), sum+q
	}
	gomlxtest.NearAbs(t, "sum and perplexity", []float64{sum, math.Exp(entropy)}, []float64{1, perplexity}, 1e-6)
	for i := range n - 3 { // d² differs by 2e6 from one to the next: the ratios of probabilities are equal
		if a, b := row[i+1]/row[i], row[i+2]/row[i+1]; !(math.Abs(a/b-1) <= 1e-3) || !(a > 1.1) {
			t.Errorf("the probabilities %v have the ratios %g and %g", row, a, b)
		}
	}
}

// attentionFixture is the fixture attention_analysis: inputs, and the results of attention_flow, probing-vits, the CKA
// of google-research, SciPy and scikit-learn.
type attentionFixture struct {
	tensors map[string]fixtures.Tensor
	Config  struct {
		Layers, Images, Heads int
		Grid                  [2]int `json:"grid_h_w"`
		TSNEGrid              [2]int `json:"tsne_grid_h_w"`
		Prefix                int    `json:"prefix_tokens"`
		Upsample              int
		TopK                  int `json:"top_k"`
		Quantiles             []float64
	}
	TSNE struct {
		Perplexity   float64
		LearningRate float64 `json:"learning_rate"`
		Exaggeration float64 `json:"early_exaggeration"`
		Exploration  int     `json:"exploration_steps"`
	} `json:"tsne"`
	Tolerance map[string]float64
}

func readReference(t *testing.T) (r attentionFixture) {
	fixtures.JSON(t, "attention_analysis", "meta.json", &r)
	r.tensors = fixtures.Tensors(t, "attention_analysis", "tensors.safetensors")
	return r
}

func TestMeasures_EqualTheirAuthors(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		r := readReference(t)
		for name, test := range map[string]func(*testing.T){
			"spread of probing-vits and SciPy":                     r.spread,
			"rollout of attention_flow":                            r.rollout,
			"separation of the strongest patches":                  r.separation,
			"CKA of google-research":                               r.cka,
			"principal axes and cosines of scikit-learn":           r.principalAxes,
			"t-SNE of scikit-learn, step by step":                  r.tsne,
			"silhouette and neighbours of scikit-learn":            r.silhouettes,
			"masks of SciPy and scikit-learn, and the paired test": r.masks,
		} {
			t.Run(name, test)
		}
	})
}

func (r attentionFixture) near(t *testing.T, name string, got []float64, tolerance string) {
	t.Helper()
	if len(r.tensors[name].Data) == 0 || r.Tolerance[tolerance] == 0 {
		t.Errorf("the fixture has no %s, or no tolerance %s", name, tolerance)
	}
	gomlxtest.NearAbs(t, name, got, r.tensors[name].Data, r.Tolerance[tolerance])
}

// numbered returns the numbers in the names of tensors that begin and end in some way, and the names.
func (r attentionFixture) numbered(t *testing.T, before, after string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for name := range r.tensors {
		rest, begins := strings.CutPrefix(name, before)
		rest, ends := strings.CutSuffix(rest, after)
		if number, err := strconv.ParseFloat(rest, 64); begins && ends && err == nil {
			found[name] = number
		}
	}
	if len(found) == 0 {
		t.Errorf("the fixture has no %s…%s", before, after)
	}
	return found
}

func (r attentionFixture) grid() grid {
	return grid{r.Config.Grid[0], r.Config.Grid[1], r.Config.Prefix}
}

// weights returns the weights of one head, or of all heads, of a layer and image.
func (r attentionFixture) weights(layer, image, head int) []float32 {
	c := r.Config
	in, size := r.tensors["in.attention"].Float32(), r.grid().tokens()*r.grid().tokens()
	at := (layer*c.Images + image) * c.Heads * size
	if head < 0 {
		return in[at : at+c.Heads*size]
	}
	return in[at+head*size : at+(head+1)*size]
}

func (r attentionFixture) layers(image int) (layers [][]float32) {
	for l := range r.Config.Layers {
		layers = append(layers, r.weights(l, image, -1))
	}
	return layers
}

func (r attentionFixture) spread(t *testing.T) {
	c, rings := r.Config, r.grid().rings()
	got := map[string][]float64{"weight_by_distance.distances": rings.Distances}
	add := func(name string, values ...float64) { got[name] = append(got[name], values...) }
	for l := range c.Layers {
		for image := range c.Images {
			for h := range c.Heads {
				for name, share := range r.numbered(t, "effective_range.", ".out") {
					add(name, rings.spread(r.weights(l, image, h), share).Range)
				}
				s := rings.spread(r.weights(l, image, h), 0.9)
				add("distance.renormalised.patches_out", s.Distance)
				add("weight_by_distance.out", s.ByDistance...)
				add("entropy.patches.out", s.Entropy)
			}
		}
	}
	for name, values := range got {
		tolerance := "distance_abs_patches"
		if name[:7] == "entropy" {
			tolerance = "entropy_abs"
		}
		r.near(t, name, values, tolerance)
	}
}

func (r attentionFixture) rollout(t *testing.T) {
	g := r.grid()
	tokens := g.tokens()
	var all, maps, enlarged []float64
	for image := range r.Config.Images {
		for l := range r.Config.Layers {
			for token := range tokens {
				from := make([]float64, tokens)
				from[token] = 1
				all = append(all, rolloutRow(r.layers(image)[:l+1], r.Config.Heads, from)...)
			}
		}
		class := all[len(all)-tokens*tokens:][g.Prefix:tokens]
		maps = append(maps, class...)
		up := r.Config.Upsample
		enlarged = append(enlarged, numeric.MinMax(enlarge(class, g.Rows, g.Cols, up*g.Rows, up*g.Cols))...)
	}
	r.near(t, "rollout.abnar.all_layers", all, "rollout_abnar_abs")
	r.near(t, "rollout.abnar.mask", maps, "rollout_abnar_abs")
	r.near(t, "rollout.abnar.mask_upsampled", enlarged, "rollout_abnar_abs")
}

func (r attentionFixture) separation(t *testing.T) {
	g := r.grid()
	var strongest, separation []float64
	for image := range r.Config.Images {
		row := make([]float64, g.patches())
		for h := range r.Config.Heads {
			for k := range row {
				row[k] += float64(r.weights(r.Config.Layers-1, image, h)[g.Prefix+k])
			}
		}
		patches := strongestPatches(row, r.Config.TopK)
		strongest = append(strongest, xslices.Map(patches, func(p int) float64 { return float64(p) })...)
		separation = append(separation, g.separation(patches))
	}
	gomlxtest.NearAbs(t, "strongest", strongest, r.tensors["separation.top_patches"].Data, 0)
	r.near(t, "separation.out", separation, "distance_abs_patches")
}

func (r attentionFixture) cka(t *testing.T) {
	x, y := r.tensors["in.cka.x"], r.tensors["in.cka.y"]
	n := x.Shape[0]
	r.near(t, "cka.linear_debiased.out", []float64{unbiasedCKA(x.Data, y.Data, n)}, "cka_abs")
}

func (r attentionFixture) principalAxes(t *testing.T) {
	points := r.tensors["in.positions"]
	n, want := points.Shape[0], r.tensors["pca.components_out"]
	k, width := want.Shape[0], want.Shape[1]
	p := gomlxtest.Must(numeric.PCA(points.Data, n, k))(t)
	var axes []float64
	scores := make([]float64, n*k)
	for c, axis := range p.Axes {
		sign := math.Copysign(1, floats.Dot(axis, want.Data[c*width:(c+1)*width]))
		axes = append(axes, floats.ScaleTo(make([]float64, width), sign, axis)...)
		for i, v := range p.Scores[c] {
			scores[i*k+c] = sign * v
		}
	}
	r.near(t, "pca.mean_out", p.Mean, "pca_abs_up_to_sign")
	r.near(t, "pca.components_out", axes, "pca_abs_up_to_sign")
	r.near(t, "pca.scores_out", scores, "pca_abs_up_to_sign")
	r.near(t, "pca.explained_variance_out", p.Variance, "pca_abs_up_to_sign")
	r.near(t, "pca.explained_variance_ratio_out", p.Share, "pca_abs_up_to_sign")
	r.near(t, "cosine.out", numeric.Similarities(points.Data, n), "cosine_abs")
}

func (r attentionFixture) tsne(t *testing.T) {
	points, given := r.tensors["in.tsne.points"], r.tensors["tsne.joint_p_out"].Data
	n := points.Shape[0]
	p := affinities(points.Data, n, r.TSNE.Perplexity)
	r.near(t, "tsne.joint_p_out", p, "tsne_joint_p_abs")

	start := r.tensors["in.tsne.init"].Data
	gradient := make([]float64, len(start))
	r.near(t, "tsne.init_kl_out", []float64{tsneStep(given, start, gradient, make([]float64, len(given)), true)},
		"tsne_kl_abs")
	r.near(t, "tsne.init_gradient_out", gradient, r.toleranceNamed(t, "tsne_positions_abs_steps_to_"))
	optimize := func(steps int) ([]float64, []float64) {
		y := append([]float64(nil), start...)
		kl := descendTwice(given, y, r.TSNE.LearningRate, r.TSNE.Exaggeration, r.TSNE.Exploration, steps)
		return y, []float64{kl}
	}
	compared := 0
	for name := range r.tensors { // the numbers of steps are the reference's; those of the divergence end otherwise
		var steps int
		tolerance := r.toleranceNamed(t, "tsne_positions_abs_n_iter")
		if n, _ := fmt.Sscanf(name, "tsne.exaggerated.step%d_out", &steps); n == 1 {
			if tolerance = fmt.Sprintf("tsne_positions_abs_step%d_given_p", steps); r.Tolerance[tolerance] == 0 {
				tolerance = r.toleranceNamed(t, "tsne_positions_abs_steps_to_")
			}
		} else if n, _ := fmt.Sscanf(name, "tsne.n_iter%d_out", &steps); n == 0 {
			continue
		}
		if strings.HasSuffix(name, fmt.Sprintf("%d_out", steps)) {
			y, kl := optimize(steps) // with our own affinities, equal to 1e-7, some descents end elsewhere
			r.near(t, name, y, tolerance)
			r.near(t, strings.TrimSuffix(name, "_out")+"_kl_out", kl, "tsne_kl_abs")
			compared++
		}
	}
	if compared < 2 {
		t.Errorf("the reference has %d states of the descent", compared)
	}
}

// toleranceNamed returns the name of the one tolerance that begins with a prefix.
func (r attentionFixture) toleranceNamed(t *testing.T, prefix string) string {
	t.Helper()
	for name := range r.Tolerance {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	t.Fatalf("no tolerance begins with %s", prefix)
	return ""
}

func (r attentionFixture) silhouettes(t *testing.T) {
	points, quadrant := r.tensors["in.tsne.points"].Data, r.tensors["in.tsne.quadrant"].Data
	labels := xslices.Map(quadrant, func(q float64) int { return int(q) })
	each := numeric.Silhouettes(points, labels)
	r.near(t, "silhouette.features_out", []float64{stat.Mean(each, nil)}, "statistics_abs")
	r.near(t, "silhouette.features_samples_out", each, "statistics_abs")
	last, most := "", 0. // the state after the most steps
	for name, steps := range r.numbered(t, "tsne.n_iter", "_out") {
		if steps > most {
			last, most = name, steps
		}
	}
	embedded := numeric.Silhouettes(r.tensors[last].Data, labels)
	r.near(t, "silhouette.embedding_out", []float64{stat.Mean(embedded, nil)}, "statistics_abs")

	rows, cols := make([]float64, len(labels)), make([]float64, len(labels))
	for i := range labels {
		rows[i], cols[i] = float64(i/r.Config.TSNEGrid[1]), float64(i%r.Config.TSNEGrid[1])
	}
	for name, k := range r.numbered(t, "knn", ".r2_out") {
		predicted, r2 := numeric.NearestR2(points, [][]float64{rows, cols}, int(k))
		var pairs []float64
		for i := range labels {
			pairs = append(pairs, predicted[0][i], predicted[1][i])
		}
		r.near(t, fmt.Sprintf("knn%g.leave_one_out_predictions_out", k), pairs, "statistics_abs")
		r.near(t, name, []float64{r2}, "statistics_abs")
	}
}

func (r attentionFixture) masks(t *testing.T) {
	masks, quantiles := r.tensors["in.masks"], r.Config.Quantiles
	images, size := masks.Shape[0], masks.Shape[1]*masks.Shape[2]
	measures := map[string][][]float64{} // of a and b: quantiles, min-max, correlation
	for _, method := range []string{"a", "b"} {
		maps := r.tensors["in.maps_"+method].Data
		byMeasure := make([][]float64, len(quantiles)+2)
		var correlations, overlaps, halves []float64
		for i := range images {
			mask := xslices.Map(masks.Data[i*size:(i+1)*size], func(v float64) bool { return v == 1 })
			values := maps[i*size : (i+1)*size]
			correlations = append(correlations, pointBiserial(mask, values))
			for k, q := range quantiles {
				overlaps = append(overlaps, iou(mask, values, quantile(values, q)))
				byMeasure[k] = append(byMeasure[k], overlaps[len(overlaps)-1])
			}
			halves = append(halves, iou(mask, numeric.MinMax(values), 0.5))
		}
		byMeasure[len(quantiles)], byMeasure[len(quantiles)+1] = halves, correlations
		measures[method] = byMeasure
		for name, got := range map[string][]float64{"point_biserial": correlations,
			"iou_quantiles": overlaps, "iou_minmax_half": halves} {
			r.near(t, "mask."+method+"."+name+"_out", got, "statistics_abs")
		}
	}
	var tests []float64
	for k, a := range measures["a"] {
		statistic, p := pairedT(a, measures["b"][k])
		tests = append(tests, statistic, p)
	}
	r.near(t, "mask.paired_t_out", tests, "statistics_abs")
}

func TestDecayAndRollout_EqualTheReleasedScripts(t *testing.T) { fixtures.Each(t, testReleasedScripts) }

func testReleasedScripts(t *testing.T) {
	type decay struct {
		Bins    float64 `json:"rho_bins"`
		Pairs   float64 `json:"rho_pairs"`
		Initial float64
		Final   float64
		Percent float64 `json:"decay_percent"`
		Falling float64 `json:"decreasing_steps_percent"`
	}
	var meta struct {
		Pure      decay  `json:"decay_pure"`
		Noisy     decay  `json:"decay_noisy"`
		Grid      [2]int `json:"decay_grid"`
		Tolerance map[string]float64
	}
	fixtures.JSON(t, "official_analysis", "meta.json", &meta)
	tensors := fixtures.Tensors(t, "official_analysis", "tensors.safetensors")
	for name, want := range map[string]decay{"pure": meta.Pure, "noisy": meta.Noisy} {
		got := decayOf(tensors["decay."+name+".embeddings"].Data, grid{Rows: meta.Grid[0], Cols: meta.Grid[1]}, decayBins)
		tolerance := meta.Tolerance["decay_abs"]
		gomlxtest.NearAbs(t, name+" centres", got.Centres, tensors["decay."+name+".bin_centers"].Data, tolerance)
		gomlxtest.NearAbs(t, name+" means", got.Means, tensors["decay."+name+".bin_means"].Data, tolerance)
		gomlxtest.NearAbs(t, name, []float64{got.Bins, got.Pairs, got.First, got.Last, got.Percent, got.Falling},
			[]float64{want.Bins, want.Pairs, want.Initial, want.Final, want.Percent, want.Falling}, tolerance)
	}
	attention := tensors["rollout.attention"]
	size := attention.Shape[1] * attention.Shape[2]
	layers := slices.Collect(slices.Chunk(attention.Float32(), size))
	from := make([]float64, attention.Shape[1])
	from[0] = 1
	row := rolloutRow(layers, 1, from)
	gomlxtest.NearAbs(t, "rollout", row, tensors["rollout.result"].Data[:len(row)], meta.Tolerance["rollout_abs"])
}
