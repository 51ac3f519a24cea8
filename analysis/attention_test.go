// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// asked returns the rows of some analyses.
func asked(t *testing.T, what string, images *data.Memory, models ...Model) []Row {
	t.Helper()
	comparison := Comparison{Backend: gomlxtest.Backend(), Models: models, Images: images,
		Analyses: gomlxtest.Must(Choose(strings.Split(what, ",")))(t)}
	found := gomlxtest.Must(comparison.Run(t.Context()))(t)
	if err := found.Page.HTML(io.Discard); err != nil {
		t.Error(err)
	}
	return found.Rows
}

// evenDistance is the mean distance of all ordered pairs of patches, including each patch with itself.
func evenDistance(rows, cols int) float64 {
	sum, n := 0.0, rows*cols
	for i := range n {
		for j := range n {
			sum += math.Hypot(float64(i/cols-j/cols), float64(i%cols-j%cols))
		}
	}
	return sum / float64(n*n)
}

// Images of one colour, without positions: all patches are the same token.
func TestConstantAttentionHasTheEntropyOfAllPatchesAndNoCorrelation(t *testing.T) {
	images := testImages(7)
	for i := range images.Pixels {
		images.Pixels[i] = 90
	}
	path := trained(t, "none", 1, nil)
	rows := asked(t, "entropy,distance,maps,rollout", images, Model{Name: "none", Path: path})
	for _, layer := range []string{"layer 1", "layer 2"} {
		gomlxtest.NearAbs(t, layer, []float64{
			value(t, rows, "entropy", "none", "entropy, nats", layer),
			value(t, rows, "distance", "none", "attention distance, patches", layer),
		}, []float64{math.Log(15), evenDistance(3, 5)}, 1e-5)
		if r := value(t, rows, "distance", "none", "correlation of attention weight and distance", layer); !math.IsNaN(r) {
			t.Errorf("%s: weights that are all equal correlate with distance by %g", layer, r)
		}
	}
	if contrast := value(t, rows, "rollout", "none", "coefficient of variation of the map", ""); contrast > 1e-5 {
		t.Errorf("the map of equal patches has the contrast %g", contrast)
	}
	lines := 0
	for _, line := range Table(rows, "distance").Rows {
		if line[0] == "correlation of attention weight and distance" {
			if lines++; line[2] != "undefined" {
				t.Errorf("%q in the table, want undefined", line)
			}
		}
	}
	if lines != 2 {
		t.Errorf("%d lines of correlations", lines)
	}
}

func TestAMapOfAttentionHasItsQueryOutlined(t *testing.T) {
	got := grid{Rows: 2, Cols: 3}.heatMap(4, 5, []float64{0, 1, 2, 7, 4, 3})
	want := figure.HeatMap{Title: "layer 5, from row 1, column 2", Positive: true, Down: "row (patches)",
		Across: "column (patches)", Outlined: &[2]int{1, 2}, Limit: 7, Values: [][]float64{{0, 1, 2}, {7, 4, 3}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for g, want := range map[grid][]int{
		{Rows: 3, Cols: 5}: {7, 0, 14},
		{Rows: 4, Cols: 2}: {5, 0, 7},
		{Rows: 1, Cols: 1}: {0},
	} {
		if got := g.queries(); !slices.Equal(got, want) {
			t.Errorf("%+v: queries %v, want %v", g, got, want)
		}
	}
}

// Of vectors that are concatenated each is a half; hidden tokens have no weight.
func TestAPredictionIsOfTheTokensThatArePooled(t *testing.T) {
	for name, c := range map[string]struct {
		model  vit.Config
		prefix []float64
		patch  float64
	}{
		"class":                   {vit.Config{Registers: 1}, []float64{1, 0}, 0},
		"mean":                    {vit.Config{Pool: "mean"}, nil, 1.0 / 15},
		"map":                     {vit.Config{Pool: "map"}, nil, 1.0 / 15},
		"mean with a class token": {vit.Config{Pool: "mean", ClassToken: true}, []float64{0}, 1.0 / 15},
		"mean of all":             {vit.Config{Pool: "mean", Registers: 1, PoolPrefix: true}, []float64{0.0625}, 0.0625},
		"map with a class token":  {vit.Config{Pool: "map", ClassToken: true}, []float64{0}, 1.0 / 15},
		"class token and mean":    {vit.Config{Pool: "class+mean"}, []float64{0.5}, 0.5 / 15},
		"class token and mean, not of registers": {vit.Config{Pool: "class+mean", Registers: 2, PoolPrefix: true},
			[]float64{0.5, 0, 0}, 0.5 / 15},
		"class token and one register": {vit.Config{Pool: "class+register", Registers: 2}, []float64{0.5, 0.5, 0}, 0},
	} {
		s := subject{model: &finetune.Model{}, grid: grid{Rows: 3, Cols: 5, Prefix: len(c.prefix)}}
		s.model.Recipe.Model = c.model
		want := append(slices.Clone(c.prefix), slices.Repeat([]float64{c.patch}, 15)...)
		gomlxtest.NearAbs(t, name, s.prediction(), want, 1e-8)
	}
}

// The rows have the bins; those of fewer than ten images are in no correlation.
func TestErrorRatesOfFewImagesDoNotCorrelate(t *testing.T) {
	rows := asked(t, "separation", testImages(150), Model{Name: "a", Path: trained(t, "learned", 1, nil)})
	images, few := map[string]float64{}, 0
	var centres, rates []float64
	for _, r := range rows {
		if r.Measure == "images" {
			images[r.At] = float64(r.Value)
		}
	}
	for _, r := range rows {
		var low, high float64
		if _, err := fmt.Sscanf(r.At, "%f to %f patches", &low, &high); err != nil || r.Measure != "error rate" {
			continue
		}
		if images[r.At] < 10 {
			few++
			continue
		}
		centres, rates = append(centres, (low+high)/2), append(rates, float64(r.Value))
	}
	got := value(t, rows, "separation", "a", "correlation of separation and error rate, bins of at least 10 images", "")
	if want := stat.Correlation(centres, rates, nil); !(math.Abs(got-want) <= 0.01) || few == 0 || len(rates) < 3 {
		t.Errorf("correlation %g, want %g of %d bins and not of %d", got, want, len(rates), few)
	}
}

func meanOfPatches(r *finetune.Recipe) { r.Model.Pool = "mean" }

func TestPrefixTokensHaveNoPosition(t *testing.T) {
	for name, m := range map[string]Model{
		"class token":                {Path: trained(t, "learned", 1, nil)},
		"no class token":             {Path: trained(t, "learned", 1, meanOfPatches)},
		"registers, DINOv2":          {Path: fixtures.Dir(t, "dinov2_reg_tiny")},
		"registers and rows, DINOv3": {Path: fixtures.Dir(t, "dinov3_vit_tiny")},
	} {
		t.Run(name, func(t *testing.T) {
			m.Name = "m"
			images := testImages(3)
			rows := asked(t, "entropy,distance,rollout", images, m)
			model := gomlxtest.Must(finetune.Opening{Files: m.Import}.Open(gomlxtest.Backend(), m.Path))(t)
			defer model.Finalize()
			c := model.Recipe.Model
			tokens, prefix := c.Tokens(), c.Tokens()-c.Rows()*c.Cols()
			for l := range c.Depth {
				entropy, distance, count := 0.0, 0.0, 0.0
				err := model.Look(images, 3, func(t *vit.Trace) []*Node { return []*Node{t.Blocks[l].Weights} },
					func(_ int, values [][]float32) error {
						for at := 0; at < len(values[0]); at += tokens { // a row of an image and a head
							query := at/tokens%tokens - prefix
							if query < 0 {
								continue
							}
							row, sum := values[0][at+prefix:at+tokens], 0.0
							for _, w := range row {
								sum += float64(w)
							}
							for key, w := range row {
								p := float64(w) / sum
								entropy -= p * math.Log(p)
								distance += p * math.Hypot(float64(query/c.Cols()-key/c.Cols()), float64(query%c.Cols()-key%c.Cols()))
							}
							count++
						}
						return nil
					})
				if err != nil {
					t.Fatal(err)
				}
				if want := float64(3 * c.Heads * c.Rows() * c.Cols()); count != want {
					t.Fatalf("%g queries, want %g", count, want)
				}
				at := fmt.Sprintf("layer %d", l+1)
				gomlxtest.NearAbs(t, at, []float64{value(t, rows, "entropy", "m", "entropy, nats", at),
					value(t, rows, "distance", "m", "attention distance, patches", at)},
					[]float64{entropy / count, distance / count}, 1e-5)
			}
		})
	}
}

func TestASinglePatchOfOneImageHasNoSpread(t *testing.T) {
	gomlxtest.OnGo(t)
	path := trained(t, "learned", 1, func(r *finetune.Recipe) { r.Augment.Size = [2]int{4, 4} })
	rows := asked(t, "all", testImages(1), Model{Name: "one", Path: path})
	for figure, measure := range map[string]string{"entropy": "entropy, nats", "range": "effective range, patches",
		"distance": "attention distance, patches"} {
		if got := value(t, rows, figure, "one", measure, "layer 2"); got != 0 {
			t.Errorf("%s of one patch: %g", figure, got)
		}
	}
	for _, figure := range []string{"similarity", "probe", "tsne", "cka"} {
		if r := rowsOf(rows, figure, "one"); len(r) != 1 || r[0].Note == "" {
			t.Errorf("%s of one patch: %+v, want a reason", figure, r)
		}
	}
	if r := value(t, rows, "distance", "one", "correlation of attention weight and distance", "layer 1"); !math.IsNaN(r) {
		t.Errorf("a correlation over one distance is %g", r)
	}
}

// The vectors have a length of about 0.1, the noise of √12: half of the bins decrease, and nothing correlates.
func TestNoiseThatDrownsAnEncodingHasNoDecay(t *testing.T) {
	rows := asked(t, "decay", testImages(2), Model{Name: "a", Path: trained(t, "learned", 1, nil)})
	for measure, want := range map[string][2]float64{"decreasing bins, %": {50, 15},
		"correlation with distance, all pairs": {0, 0.1}, "correlation with distance, bin means": {0, 0.3}} {
		got := value(t, rows, "decay", "a", measure, "+ N(0, 1), mean of 20")
		if !(math.Abs(got-want[0]) <= want[1]) || got == 0 {
			t.Errorf("%s is %g, want about %g", measure, got, want[0])
		}
	}
}

// Vectors of sines have half the squared length of the noise.
func TestNoiseWeakensTheDecayOfAnEncodingButNotItsSign(t *testing.T) {
	path := trained(t, "sincos2d", 1, func(r *finetune.Recipe) { r.Model.Width = 48 })
	rows := asked(t, "decay", testImages(2), Model{Name: "a", Path: path})
	model := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), path))(t)
	defer model.Finalize()
	_, _, vectors, err := model.Encoding()
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0.0 // each draw is added to the vectors alone
	for seed := range uint64(20) {
		draw, noisy := rand.New(rand.NewPCG(0, seed)), make([]float64, len(vectors))
		for i, v := range vectors {
			noisy[i] = v + draw.NormFloat64()
		}
		pairs += decayOf(noisy, grid{Rows: 3, Cols: 5}, decayBins).Pairs / 20
	}
	gomlxtest.NearAbs(t, "correlation", []float64{value(t, rows, "decay", "a", "correlation with distance, all pairs",
		"+ N(0, 1), mean of 20")}, []float64{pairs}, 1e-12)
	for measure, sign := range map[string]float64{"correlation with distance, all pairs": -1,
		"correlation with distance, bin means": -1, "decay, %": 1} {
		alone := value(t, rows, "decay", "a", measure, "")
		noisy := value(t, rows, "decay", "a", measure, "+ N(0, 1), mean of 20")
		if !(0 < sign*noisy && sign*noisy < sign*alone) {
			t.Errorf("%s is %g without noise and %g with it", measure, alone, noisy)
		}
	}
}

// One image at least, and two for the probe; bounds are 2 GiB weights, 256 MiB of a batch's weights and 64 MiB patches.
func TestTheNumberOfImagesFollowsFromTheSizeOfTheModel(t *testing.T) {
	for _, c := range []struct {
		name                                                  string
		side, width, depth, heads                             int
		images, batch, batchOf5, attended, probed, separation int
	}{
		{"tiny", 64, 12, 2, 3, 1000, 32, 5, 256, 256, 1000},                 // 17² weights of a head
		{"ViT-B/16", 224, 768, 12, 12, 1000, 12, 5, 256, 111, 1000},         // 197²
		{"1024 pixels", 1024, 768, 12, 12, 1000, 1, 1, 1, 5, 10},            // 4097²
		{"half of them", 1024, 768, 1, 6, 1000, 1, 1, 21, 5, 21},            // in one layer
		{"4096 pixels", 4096, 768, 12, 12, 1000, 1, 1, 1, 2, 1},             // 65537²
		{"few images", 224, 768, 12, 12, 3, 3, 3, 3, 3, 3},                  // as there are
		{"deep", 224, 768, 48, 16, 1000, 2, 2, 72, 111, 1000},               // a large model
		{"a thin one of many tokens", 2048, 4, 1, 1, 1000, 1, 1, 7, 256, 7}, // 16385²
	} {
		config := gomlxtest.Resolved(vit.Config{ImageRows: c.side, ImageCols: c.side, PatchSize: 16, Width: c.width, Depth: c.depth,
			Heads: c.heads, Classes: 3, Position: "learned"})
		s := &subject{model: &finetune.Model{Recipe: finetune.Recipe{Model: config}},
			Images: &data.Memory{Info: data.Info{Labels: make([]int32, c.images)}},
			grid:   grid{Rows: config.Rows(), Cols: config.Cols(), Prefix: config.Prefix()}}
		got := [5]int{s.batch(c.images), s.batch(min(5, c.images)), s.attendedImages(), s.probedImages(), s.separatedImages()}
		if want := [5]int{c.batch, c.batchOf5, c.attended, c.probed, c.separation}; got != want {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

// CKA needs 8 images, t-SNE ten patches, of which 2×5 are an image.
func TestAnalysesOfTooFewImagesOrPatchesGiveTheNumber(t *testing.T) {
	gomlxtest.OnGo(t)
	small := func(rows, cols int) Model {
		return Model{Name: "m", Path: trained(t, "learned", 1, func(r *finetune.Recipe) {
			r.Augment.Size = [2]int{4 * rows, 4 * cols}
		})}
	}
	ten, nine := small(2, 5), small(3, 3)
	for _, c := range []struct {
		what   string
		model  Model
		images int
		want   string
	}{
		{"cka", ten, 8, ""}, {"cka", ten, 7, "CKA needs 8 images or more"}, {"tsne", ten, 1, ""},
		{"tsne", nine, 1, "t-SNE needs 10 patches, the images have 9"}, {"probe", nine, 1, "the probe needs two images"},
	} {
		rows := rowsOf(asked(t, c.what, testImages(c.images), c.model), c.what, "m")
		if len(rows) == 0 || !strings.Contains(rows[0].Note, c.want) || (rows[0].Note == "") != (c.want == "") {
			t.Errorf("%s of %d images: %+v, want %q", c.what, c.images, rows, c.want)
		}
	}
	c := &Comparison{Backend: gomlxtest.Backend(), Images: testImages(8), Logger: slog.New(slog.DiscardHandler)}
	s := gomlxtest.Must(c.open(t.Context(), ten))(t)
	defer s.model.Finalize()
	c.reference = reference{images: 9, features: [][]float64{make([]float64, 9*12)}}
	if err := cka(s); err == nil || err.Error() != "measured with 8 images, the first model with 9" {
		t.Errorf("another number of images: %v", err)
	}
}

// Two images are one to train the probe and one to measure it; vectors of one value have a single principal axis.
func TestTheFewestImagesAndTheNarrowestModelHaveResults(t *testing.T) {
	comparison := Comparison{Backend: gomlxtest.Backend(), Images: testImages(2), Pairs: 20,
		Analyses: gomlxtest.Must(Choose([]string{"similarity", "probe", "masks"}))(t),
		Mask:     func(int) []bool { return nil },
		Models: []Model{{Name: "a", Path: trained(t, "learned", 1, func(r *finetune.Recipe) {
			r.Model.Width, r.Model.Heads, r.Model.Depth = 1, 1, 1
		})}}}
	rows := gomlxtest.Must(comparison.Run(t.Context()))(t).Rows
	for figure, want := range map[string]string{"similarity": "", "probe": "", "masks": "has an object"} {
		if r := rowsOf(rows, figure, "a"); len(r) == 0 || !strings.Contains(r[0].Note, want) || want == "" &&
			r[0].Note != "" {
			t.Errorf("%s: %+v", figure, r)
		}
	}
}

func TestADHVTIsEvaluatedByItsLogits(t *testing.T) {
	path := trained(t, "none", 1, func(r *finetune.Recipe) { r.Architecture = finetune.DHVT })
	images := testImages(23)
	rows := asked(t, "entropy,maps,occlusion", images, Model{Name: "dhvt", Path: path})
	model := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), path))(t)
	defer model.Finalize()
	want := gomlxtest.Must(model.Evaluate(images))(t)
	if got := value(t, rows, "occlusion", "dhvt", "top-1 accuracy, %", "original images"); !(math.Abs(
		got-100*float64(want.Top1)) <= 1e-9) {
		t.Errorf("%g %%, want %g", got, 100*float64(want.Top1))
	}
	for _, figure := range []string{"entropy", "maps"} {
		if r := rowsOf(rows, figure, "dhvt"); len(r) != 1 || !strings.Contains(r[0].Note, "additional head tokens") {
			t.Errorf("%s: %+v, want why not", figure, r)
		}
	}
}

// The first model has one layer, the second three: its other layers have nothing to compare with.
func TestOnlyLayersThatTheFirstModelHasAreComparedWithIt(t *testing.T) {
	gomlxtest.OnGo(t)
	depth := func(n int) func(*finetune.Recipe) { return func(r *finetune.Recipe) { r.Model.Depth = n } }
	rows := asked(t, "cka", testImages(23), Model{Name: "flat", Path: trained(t, "learned", 1, depth(1))},
		Model{Name: "deep", Path: trained(t, "learned", 1, depth(3))})
	if got := rowsOf(rows, "cka", "deep"); len(got) != 1 || got[0].At != "layer 1" || got[0].Value > 0.9999 {
		t.Errorf("%+v, want layer 1 alone, and unlike", got)
	}
	if got := value(t, rows, "cka", "flat", "unbiased linear CKA with the first model",
		"layer 1"); !(math.Abs(got-1) <= 1e-6) {
		t.Errorf("a model is like itself by %g", got)
	}
}

// The mean over the seeds of the first column does not contain the likeness of the first model to itself.
func TestTheFirstOfSeveralSeedsIsNotComparedWithItself(t *testing.T) {
	gomlxtest.OnGo(t)
	rows := asked(t, "cka", testImages(23), Model{Name: "m", Path: trained(t, "learned", 1, nil)},
		Model{Name: "m", Path: trained(t, "learned", 2, nil)})
	got := rowsOf(rows, "cka", "m")
	for _, r := range got {
		if r.Value > 0.9999 {
			t.Errorf("%+v", r)
		}
	}
	if len(got) == 0 {
		t.Error("the second seed is not compared")
	}
}

// The paper's tables, recomputed in float64 on 14×14 patches, and its coefficients of variation.
func TestSensitivityIsThatOfThePaperTables(t *testing.T) {
	fixtures.Each(t, testSensitivityIsThatOfThePaperTables)
}

func testSensitivityIsThatOfThePaperTables(t *testing.T) {
	type row struct {
		Alpha   float64
		Scale   float64 `json:"alpha_scale"`
		Rho     float64
		Modulus float64 `json:"mean_abs_f"`
	}
	var file struct {
		Rows, Cols int
		H, W       int
		Span       []row `json:"table_C_alpha"`
		Scale      []row `json:"table_D_alpha_scale"`
		CV         map[string]map[string]struct {
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

func TestASweepSkipsOnlySettingsThatTheEncodingRefuses(t *testing.T) {
	gomlxtest.OnGo(t)
	sphere := Model{Name: "sphere", Path: trained(t, "wepe-sphere", 1, nil)}
	about := map[string]bool{}
	for _, r := range asked(t, "sensitivity", testImages(2), sphere) {
		about[r.At] = true
	}
	for name, want := range map[string]bool{"span": true, "alpha-scale": true, "kappa": false, "c-large": false,
		"beta-gamma": false} {
		if named := gomlxtest.Must(study.ByName(name))(t); about[named.About] != want {
			t.Errorf("%s of the sphere, which has neither a sum nor a surrogate: measured is %v", name, !want)
		}
	}
	comparison := &Comparison{Backend: gomlxtest.Backend(), Images: testImages(2)}
	s := gomlxtest.Must(comparison.open(t.Context(), sphere))(t)
	defer s.model.Finalize()
	s.section = &section{}
	for _, wrong := range []string{"nosuch.field=1", "wepe_alpha_u=many"} {
		variants := []study.Variant{{Position: "wepe", Label: "x", Settings: wrong}}
		if err := s.sweep(study.Named{Variants: variants}); err == nil {
			t.Errorf("%s is taken for something that an encoding refuses", wrong)
		}
	}
}

func TestAHybridHasAGridOfBetaAndGamma(t *testing.T) {
	gomlxtest.OnGo(t)
	rows := asked(t, "sensitivity", testImages(2), Model{Name: "hybrid", Path: trained(t, "hybrid", 1, nil)})
	named := gomlxtest.Must(study.ByName("beta-gamma"))(t)
	mean, square, cells := 0.0, 0.0, 0.0
	for _, r := range rowsOf(rows, "sensitivity", "hybrid") {
		switch {
		case r.Detail && r.Measure == featureModulus:
			mean, square, cells = mean+float64(r.Value), square+float64(r.Value*r.Value), cells+1
		case !r.Detail && r.At != named.About:
			t.Errorf("%q of a surrogate", r.At)
		}
	}
	if cells != 25 {
		t.Fatalf("%g cells, want 5×5", cells)
	}
	mean /= cells
	want := math.Sqrt(square/cells-mean*mean) / mean
	if got := value(t, rows, "sensitivity", "hybrid", "variation of the "+featureModulus,
		named.About); !(math.Abs(got-want) <= 1e-6) || want < 0.01 {
		t.Errorf("variation %g, want %g", got, want)
	}
	exact := trained(t, "hybrid", 1, func(r *finetune.Recipe) {
		r.Params = map[string]any{"wepe_blend": "exact", "wepe_start": "drawn"}
	})
	spans := gomlxtest.Must(study.ByName("span"))(t)
	if got := value(t, asked(t, "sensitivity", testImages(2), Model{Name: "exact", Path: exact}), "sensitivity", "exact",
		"variation of the "+featureModulus, spans.About); !(got > 0.1) {
		t.Errorf("the span of a hybrid over ℘ changes its features by %g", got)
	}
}

func TestMissingOptionsOfFilesAreImportOptions(t *testing.T) {
	fixtures.Each(t, testMissingOptionsOfFilesAreImportOptions)
}

func testMissingOptionsOfFilesAreImportOptions(t *testing.T) {
	google := Model{Name: "google", Path: fixtures.Dir(t, "jax_vit_npz")}
	comparison := &Comparison{Backend: gomlxtest.Backend(), Images: testImages(2)}
	if _, err := comparison.open(t.Context(), google); err == nil || !strings.Contains(err.Error(), "--assume-square") {
		t.Errorf("a grid that no file says: %v", err)
	}
	google.Import = checkpoints.Hints{AssumeSquare: true}
	for _, figure := range []string{"resolution", "entropy"} {
		if rows := rowsOf(asked(t, figure, testImages(2), google), figure, "google"); len(rows) == 0 ||
			figure == "entropy" && rows[0].Measure == "" {
			t.Errorf("%s: %+v", figure, rows)
		}
	}
}
